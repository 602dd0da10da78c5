//! A file at home brought below by its one open file: by whoever has it, the program or the daemon.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use byway_sys::lease;
use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_tdm_board::{Counted, Entry, Level, Why};
use byway_tdm_home::{Home, HomeError, write_back};
use byway_tdm_log::{LowerFile, RingPlace};
use byway_tdm_region::{Memory, Window};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// A file that went below is not asked for again for so long.
const STAY_NS: u64 = 2_000_000_000;

/// Not to the end, however the file was opened (RWF_NOAPPEND).
const IN_PLACE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x20);

/// The file below by an open file that is somebody else's too: what it was opened for stays as it is.
struct Shared<'f, S> {
    file: BorrowedFd<'f>,
    appends: bool,
    sync: S,
}

impl<S: Fn() -> io::Result<()>> LowerFile for Shared<'_, S> {
    fn write_all_at(&self, mut data: &[u8], mut at: u64) -> io::Result<()> {
        let flags = if self.appends { IN_PLACE } else { ReadWriteFlags::empty() };
        while !data.is_empty() {
            match pwritev2(self.file, &[IoSlice::new(data)], at, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(wrote) => (data, at) = (&data[wrote..], at + wrote as u64),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn set_size(&self, size_bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(self.file, size_bytes)?)
    }

    fn sync(&self) -> io::Result<()> {
        (self.sync)()
    }
}

/// Brings a file below from its home, syncs it there by `sync`, and leaves it to the kernel: whoever waits to open it goes on. The caller holds
/// its lock, and its level is DAX. Done again from the start, it comes to the same.
///
/// # Errors
/// What the system says: it is at home as before.
pub fn go_below(
    memory: &Window,
    entry: Entry<'_>,
    file: BorrowedFd<'_>,
    why: Why,
    sync: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let terms = entry.housed().terms();
    if terms.is_some() {
        let home = Home::new(memory, entry.ring()).map_err(io::Error::other)?;
        let appends = rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND);
        let size_bytes = entry.home_words().size_bytes();
        home.announce(file_time_ms()).map_err(system)?;
        write_back(home, size_bytes, &Shared { file, appends, sync }).map_err(system)?;
        rustix::fs::seek(file, SeekFrom::Start(entry.housed().position()))?;
    }
    leave(memory, entry, why).inspect_err(|_| entry.housed().set_terms(terms))?;
    // Whoever has no lease any more was waited for long enough.
    let _ = lease::give_back(file);
    Ok(())
}

/// Has a home count no more whose file has all of it below, and the board say that it is the kernel's. By whoever holds its lock.
///
/// # Errors
/// What the memory says: its level is as before.
pub fn leave(memory: &Window, entry: Entry<'_>, why: Why) -> io::Result<()> {
    // Who finds it so after our death comes here.
    entry.housed().set_terms(None);
    if let Ok(home) = Home::new(memory, entry.ring()) {
        home.end().map_err(system)?;
    }
    let was_bytes = entry.ring().len_bytes;
    entry.set_ring(RingPlace::NOWHERE);
    // One that outgrew its home comes at once to one of twice the length, unless that would be more than half of all.
    let may_return = why == Why::Outgrown && was_bytes.saturating_mul(4) <= memory.len_bytes();
    let stay_ns = if may_return { 0 } else { STAY_NS };
    entry.counters().set(Counted::HomeAgainNs, monotonic_ns() + stay_ns);
    entry.move_to(Level::Pass, why);
    Ok(())
}

fn system(error: HomeError) -> io::Error {
    match error {
        HomeError::Lower(error) => error,
        other => io::Error::other(other),
    }
}
