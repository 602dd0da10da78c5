//! Demotion of a DAX-resident file through its one open file, by the program or the daemon.
//!
//! The demoter holds a lock of its own and does not wait for threads inside calls. It first closes the size and takes the position, each in one
//! step. A call that ended before is included; a later one fails at its end and is repeated by the kernel. The file's place stays reserved until
//! the file's lock was free once.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use crate::log::{LowerFile, RingPlace};
use crate::resident::{ResidentError, ResidentFile, write_back};
use crate::table::{Counted, Entry, Level, Reason};
use byway_sys::lease;
use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_tdm_region::{Memory, Window};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// A demoted file is not promoted again for 2 s.
const STAY_NS: u64 = 2_000_000_000;

/// RWF_NOAPPEND: write at the offset even if the file was opened to append.
const IN_PLACE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x20);

/// The file below through an open file that other processes share: its flags are left alone.
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

/// Demotes a file: writes it back, really syncs it by `sync`, sets the level to PASS and gives back the lease, so that a waiting open continues.
/// The caller holds [`Entry::lock_for_demotion`], and the level is DAX. Without terms the file below is complete already. May be repeated
/// from the start.
///
/// # Errors
/// The system's error: the file stays DAX-resident.
pub fn demote_file(
    memory: &Window,
    entry: Entry<'_>,
    file: BorrowedFd<'_>,
    why: Reason,
    sync: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let terms = entry.resident_state().terms();
    let moved = match terms {
        Some(_) => write_back_all(memory, entry, file, sync),
        None => Ok(()),
    };
    if let Err(error) = moved.and_then(|()| end_residency(memory, entry, why)) {
        entry.resident_state().set_terms(terms);
        entry.resident_state().give_position_back();
        entry.resident_words().reopen();
        return Err(error);
    }
    // Fails if the lease was broken by the timeout of a waiting open.
    let _ = lease::give_back(file);
    Ok(())
}

/// Writes back all bytes and the position. The size is closed first: a call that cannot move the position has not written either.
fn write_back_all(
    memory: &Window,
    entry: Entry<'_>,
    file: BorrowedFd<'_>,
    sync: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let resident = ResidentFile::new(memory, entry.ring()).map_err(io::Error::other)?;
    let appends = rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND);
    let size_bytes = entry.resident_words().close().min(resident.room_bytes());
    let position = entry.resident_state().take_position();
    resident.announce(file_time_ms()).map_err(system)?;
    write_back(resident, size_bytes, &Shared { file, appends, sync }).map_err(system)?;
    rustix::fs::seek(file, SeekFrom::Start(position))?;
    Ok(())
}

/// Ends the residency of a file that is complete below: the header becomes void and the level PASS. The caller holds one of the file's two
/// locks and prevents a promotion meanwhile.
///
/// # Errors
/// The memory's error: the level stays.
pub fn end_residency(memory: &Window, entry: Entry<'_>, why: Reason) -> io::Result<()> {
    // If this process dies from here on, the next one repeats this.
    entry.resident_state().set_terms(None);
    if let Ok(resident) = ResidentFile::new(memory, entry.ring()) {
        resident.end().map_err(system)?;
    }
    let was_bytes = entry.ring().len_bytes;
    entry.set_ring(RingPlace::NOWHERE);
    // A file that outgrew its place is promoted again at once, into twice the room, but never more than half of all.
    let may_return = why == Reason::Outgrown && was_bytes.saturating_mul(4) <= memory.len_bytes();
    let stay_ns = if may_return { 0 } else { STAY_NS };
    entry.counters().set(Counted::PromotionRetryNs, monotonic_ns() + stay_ns);
    entry.move_to(Level::Pass, why);
    Ok(())
}

fn system(error: ResidentError) -> io::Error {
    match error {
        ResidentError::Lower(error) => error,
        other => io::Error::other(other),
    }
}
