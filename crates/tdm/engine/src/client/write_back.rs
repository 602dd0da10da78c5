//! A file at home brought below by its one open file: by whoever has it, the program or the daemon.
//!
//! He has a lock of his own for that, and waits for nobody who is inside of a call: first the size is closed and the position taken, in one step each. A
//! call that came to its end before is in what is brought below; one that did not finds that out at its end, and is done again by the kernel. So a home's
//! place is nobody else's for as long as somebody may store there who has the file's lock.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use crate::log::{LowerFile, RingPlace};
use crate::resident::{Home, HomeError, write_back};
use crate::table::{Counted, Entry, Level, Why};
use byway_sys::lease;
use byway_sys::time::{file_time_ms, monotonic_ns};
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
/// the lock of who does that ([`Entry::lock_to_leave`]), and its level is DAX; one without terms is the caller's to leave. Done again from the
/// start, it comes to the same.
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
    let moved = match terms {
        Some(_) => move_below(memory, entry, file, sync),
        None => Ok(()),
    };
    if let Err(error) = moved.and_then(|()| leave(memory, entry, why)) {
        entry.housed().set_terms(terms);
        entry.housed().give_position_back();
        entry.home_words().reopen();
        return Err(error);
    }
    // Whoever has no lease any more was waited for long enough.
    let _ = lease::give_back(file);
    Ok(())
}

/// All of it, and where it stands. Its size is closed first: whoever could not move the position any more has not written either.
fn move_below(
    memory: &Window,
    entry: Entry<'_>,
    file: BorrowedFd<'_>,
    sync: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let home = Home::new(memory, entry.ring()).map_err(io::Error::other)?;
    let appends = rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND);
    let size_bytes = entry.home_words().close().min(home.room_bytes());
    let position = entry.housed().take_position();
    home.announce(file_time_ms()).map_err(system)?;
    write_back(home, size_bytes, &Shared { file, appends, sync }).map_err(system)?;
    rustix::fs::seek(file, SeekFrom::Start(position))?;
    Ok(())
}

/// Has a home count no more whose file has all of it below, and the board say that it is the kernel's. By whoever holds one of its two locks
/// and sees to it that it does not come home meanwhile.
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
