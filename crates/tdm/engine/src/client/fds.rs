//! Which descriptors of this process are of files that somebody may serve.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::table::EntryIndex;

/// Descriptors that are looked at: higher ones are the kernel's alone.
const FDS: usize = 1 << 16;

const APPENDS: u32 = 1 << 31;
const WRITES_ONLY: u32 = 1 << 30;

/// What is known of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The file's entry on the board.
    pub entry: EntryIndex,
    /// It was opened to append (O_APPEND): every write goes to the end.
    pub appends: bool,
    /// It was opened to be written alone (O_WRONLY): writes and seeks move its position, and nothing else.
    pub writes_only: bool,
}

/// A word for every descriptor. A child has it as it was when it was forked.
#[derive(Debug)]
pub struct FdTable([AtomicU32; FDS]);

impl FdTable {
    /// With nothing in it.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; FDS])
    }

    /// What a descriptor is, if it is listed.
    #[inline]
    #[must_use]
    pub fn get(&self, fd: i32) -> Option<Listed> {
        let word = self.slot(fd)?.load(Ordering::Relaxed);
        if word == 0 {
            return None;
        }
        Some(Listed {
            entry: EntryIndex((word & !(APPENDS | WRITES_ONLY)) - 1),
            appends: word & APPENDS != 0,
            writes_only: word & WRITES_ONLY != 0,
        })
    }

    /// Lists a descriptor; says whether there is a place for it.
    pub fn list(&self, fd: i32, listed: Listed) -> bool {
        let Some(slot) = self.slot(fd) else { return false };
        let appends = if listed.appends { APPENDS } else { 0 };
        let writes_only = if listed.writes_only { WRITES_ONLY } else { 0 };
        slot.store((listed.entry.0 + 1) | appends | writes_only, Ordering::Relaxed);
        true
    }

    /// Forgets a descriptor: before it is closed, as its number may be another file's the moment after.
    #[inline]
    pub fn forget(&self, fd: i32) {
        if let Some(slot) = self.slot(fd).filter(|slot| slot.load(Ordering::Relaxed) != 0) {
            slot.store(0, Ordering::Relaxed);
        }
    }

    /// Has `to` be what `from` is: they are one open file.
    pub fn copy(&self, from: i32, to: i32) {
        match self.get(from) {
            Some(listed) => drop(self.list(to, listed)),
            None => self.forget(to),
        }
    }

    /// Every descriptor that is listed, with its number.
    pub fn all(&self) -> impl Iterator<Item = (i32, Listed)> {
        (0..FDS as i32).filter_map(|fd| Some((fd, self.get(fd)?)))
    }

    #[inline]
    fn slot(&self, fd: i32) -> Option<&AtomicU32> {
        self.0.get(usize::try_from(fd).ok()?)
    }
}

impl Default for FdTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: FdTable = FdTable::new();

    #[test]
    fn a_descriptor_is_what_it_was_listed_as_until_it_is_forgotten() {
        let listed = Listed { entry: EntryIndex(0), appends: true, writes_only: true };
        assert!(TABLE.list(5, listed));
        TABLE.copy(5, 9);
        TABLE.forget(5);
        assert_eq!((TABLE.get(5), TABLE.get(9)), (None, Some(listed)));
        assert_eq!(TABLE.all().collect::<Vec<_>>(), [(9, listed)]);
        TABLE.copy(5, 9);
        assert_eq!(TABLE.get(9), None);
    }

    #[test]
    fn numbers_that_no_descriptor_has_are_not_listed() {
        for fd in [-1, FDS as i32, i32::MAX] {
            assert!(!TABLE.list(fd, Listed { entry: EntryIndex(1), appends: false, writes_only: false }));
            TABLE.forget(fd);
            assert_eq!(TABLE.get(fd), None);
        }
    }
}
