//! Disk reserve: space behind the end of an image. On a full disk, commands that free space (delete, trim, format) use it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::fs::FallocateFlags;

use super::ImageFile;
use crate::file_error::{ALLOCATING, FileError, PUNCHING};

/// The room that is kept.
#[derive(Debug, Default)]
pub(super) struct Spare {
    wanted_bytes: AtomicU64,
    held_bytes: AtomicU64,
    /// The running command may use the reserve.
    is_spent: AtomicBool,
}

impl ImageFile {
    /// Reserves disk space behind the end of the file from now on, as far as the disk has it. A shortage is not recorded as a write fault.
    pub fn keep_spare(&self, wanted_bytes: u64) {
        self.spare.wanted_bytes.store(wanted_bytes, Relaxed);
        self.fill_spare();
    }

    /// Whether [`allocate`](Self::allocate) may use the room that is kept. Afterwards what is left of it is kept again.
    pub fn spend_spare(&self, is_spent: bool) {
        self.spare.is_spent.store(is_spent, Relaxed);
        if !is_spent {
            self.fill_spare();
        }
    }

    /// Whether all of the room is kept.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.read_only || self.spare.held_bytes.load(Relaxed) >= self.spare.wanted_bytes.load(Relaxed)
    }

    /// Takes what is missing, all of it or in ever smaller parts.
    pub(super) fn fill_spare(&self) {
        let (held, wanted) = (self.spare.held_bytes.load(Relaxed), self.spare.wanted_bytes.load(Relaxed));
        if held >= wanted || self.read_only || self.spare.is_spent.load(Relaxed) {
            return;
        }
        let sizes = std::iter::successors(Some(wanted), |bytes| Some(bytes / 2));
        let taken = sizes.take_while(|bytes| *bytes > held.max(4096)).find(|bytes| self.take_spare(*bytes));
        self.spare.held_bytes.store(taken.unwrap_or(held), Relaxed);
    }

    fn take_spare(&self, bytes: u64) -> bool {
        let at = self.len_bytes.load(Relaxed);
        let allowed = self.notify(ALLOCATING, |events| events.before_allocate(at, bytes));
        let allocated = self
            .check_stopped()
            .and(allowed)
            .and_then(|()| self.fallocate(FallocateFlags::KEEP_SIZE, at, bytes, ALLOCATING));
        allocated.is_ok()
    }

    /// Frees the reserve for the running command; whether there was any. `ftruncate` to the current length frees space behind the
    /// end on every file system; punching there does not.
    pub(super) fn give_spare(&self) -> Result<bool, FileError> {
        if !self.spare.is_spent.load(Relaxed) {
            return Ok(false);
        }
        let held = self.spare.held_bytes.load(Relaxed);
        if held == 0 {
            return Ok(false);
        }
        self.check_len()?;
        let end = self.len_bytes.load(Relaxed);
        self.notify(PUNCHING, |events| events.before_punch(end, held))?;
        self.file.set_len(end).map_err(|source| self.failed(PUNCHING, source))?;
        self.spare.held_bytes.store(0, Relaxed);
        Ok(true)
    }
}
