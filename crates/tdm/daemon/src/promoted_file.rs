//! A DAX-resident file, as the daemon holds it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use byway_sys::lease;
use byway_sys::time::monotonic_ns;
use byway_tdm_engine::client::demote_file;
use byway_tdm_engine::resident::ResidentPlace;
use byway_tdm_engine::table::{Entry, EntryIndex, Level, Reason};
use byway_tdm_region::Window;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::absorbed::{LOCK_TIMEOUT, locked};
use crate::table::SlotNumber;

/// A DAX-resident file.
#[derive(Debug)]
pub(crate) struct PromotedFile {
    entry: EntryIndex,
    slot: SlotNumber,
    place: ResidentPlace,
    path: PathBuf,
    /// The program's open file, shared: another open file would break the lease.
    open: File,
    /// The program that asked (pidfd).
    program: OwnedFd,
    came: AtPromotion,
}

/// The file at its promotion.
#[derive(Debug, Clone, Copy)]
struct AtPromotion {
    size_bytes: u64,
    /// In ns of the monotonic clock.
    at_ns: u64,
}

/// A slot and place to be freed, of a demoted file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vacated {
    entry: EntryIndex,
    slot: SlotNumber,
    place: ResidentPlace,
}

impl Vacated {
    /// The file's entry in the shared file table.
    pub(crate) const fn entry(&self) -> EntryIndex {
        self.entry
    }

    /// Slot and place.
    pub(crate) const fn slot_and_place(&self) -> (SlotNumber, ResidentPlace) {
        (self.slot, self.place)
    }
}

impl PromotedFile {
    /// A file that `program` handed over, and its slot and place.
    ///
    /// # Errors
    /// The system's error, as when the program has ended.
    pub(crate) fn new(
        (entry, handed): (EntryIndex, BorrowedFd<'_>),
        (slot, place): (SlotNumber, ResidentPlace),
        path: PathBuf,
        program: i32,
    ) -> io::Result<Self> {
        let program = Pid::from_raw(program).ok_or(Errno::SRCH)?;
        let size_bytes = rustix::fs::fstat(handed)?.st_size as u64;
        Ok(Self {
            entry,
            slot,
            place,
            path,
            open: handed.try_clone_to_owned()?.into(),
            program: pidfd_open(program, PidfdFlags::empty())?,
            came: AtPromotion { size_bytes, at_ns: monotonic_ns() },
        })
    }

    /// Its entry in the shared file table.
    pub(crate) const fn entry(&self) -> EntryIndex {
        self.entry
    }

    /// Its place in the partition.
    pub(crate) const fn place(&self) -> ResidentPlace {
        self.place
    }

    /// Its path when it was promoted.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its slot and place, to be freed once it was demoted.
    pub(crate) const fn vacated(&self) -> Vacated {
        Vacated { entry: self.entry, slot: self.slot, place: self.place }
    }

    /// Why the file must be demoted, if it must.
    pub(crate) fn must_leave(&self, entry: Entry<'_>) -> Option<Reason> {
        let level_state = entry.level_state();
        if level_state.is_barred {
            return Some(level_state.why);
        }
        if entry.gave_up_ns() > self.came.at_ns && is_holder_stopped(entry) {
            return Some(Reason::HolderStopped);
        }
        if !lease::is_whole(&self.open).unwrap_or(false) {
            return Some(Reason::OpenElsewhere);
        }
        if has_ended(&self.program) {
            return Some(Reason::Closed);
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.open.as_raw_fd()));
        path.is_ok_and(|path| path != self.path).then_some(Reason::Renamed)
    }

    /// Expected growth in `ns` nanoseconds, at the rate since its promotion.
    pub(crate) fn growth_in(&self, ns: u64, size_bytes: u64) -> u64 {
        let grew_bytes = u128::from(size_bytes.saturating_sub(self.came.size_bytes));
        let in_ns = u128::from(monotonic_ns().saturating_sub(self.came.at_ns).max(1));
        u64::try_from(grew_bytes * u128::from(ns) / in_ns).unwrap_or(u64::MAX)
    }

    /// Whether it is still DAX-resident in this place; its program may have demoted it.
    pub(crate) fn is_here(&self, entry: Entry<'_>) -> bool {
        entry.level() == Level::Dax && entry.ring() == self.place
    }

    /// Demotes the file, also while threads are inside calls.
    pub(crate) fn demote_file(&self, entry: Entry<'_>, memory: &Window, why: Reason) -> io::Result<()> {
        let _guard = entry.lock_for_demotion(LOCK_TIMEOUT)?;
        if !self.is_here(entry) {
            return Ok(());
        }
        demote_file(memory, entry, self.open.as_fd(), why, || sync(&self.open))
    }

    /// Gives the lease back, so that a waiting open continues.
    pub(crate) fn let_in(&self) {
        let _ = lease::give_back(&self.open);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the resident file's flushes are named; this is the only sync of the file below"
)]
fn sync(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Whether the holder of the file's lock, for which a waiter timed out, still has it.
fn is_holder_stopped(entry: Entry<'_>) -> bool {
    let is_kept = locked(entry).is_err();
    if !is_kept {
        entry.forget_given_up();
    }
    is_kept
}

fn has_ended(program: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(program, PollFlags::IN)], Some(&now)).is_ok_and(|ended| ended > 0)
}
