//! Descriptors of this process whose files may be served.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::table::EntryIndex;

/// Descriptors from this number on are never served.
const FDS: usize = 1 << 16;

const APPENDS: u32 = 1 << 31;
const WRITES_ONLY: u32 = 1 << 30;

/// What is known of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Index of the file's entry in the shared file table.
    pub entry: EntryIndex,
    /// Opened with O_APPEND.
    pub appends: bool,
    /// Opened with O_WRONLY: only writes and seeks move its position.
    pub writes_only: bool,
}

/// One word for each descriptor. A forked child has a copy.
#[derive(Debug)]
pub struct FdTable([AtomicU32; FDS]);

impl FdTable {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; FDS])
    }

    /// A listed descriptor.
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

    /// Lists a descriptor. `false` if its number is too large.
    pub fn list(&self, fd: i32, listed: Listed) -> bool {
        let Some(slot) = self.slot(fd) else { return false };
        let appends = if listed.appends { APPENDS } else { 0 };
        let writes_only = if listed.writes_only { WRITES_ONLY } else { 0 };
        slot.store((listed.entry.0 + 1) | appends | writes_only, Ordering::Relaxed);
        true
    }

    /// Forgets a descriptor. Call before it is closed: its number may be reused at once.
    #[inline]
    pub fn forget(&self, fd: i32) {
        if let Some(slot) = self.slot(fd).filter(|slot| slot.load(Ordering::Relaxed) != 0) {
            slot.store(0, Ordering::Relaxed);
        }
    }

    /// Copies an entry: both descriptors share one open file (dup).
    pub fn copy(&self, from: i32, to: i32) {
        match self.get(from) {
            Some(listed) => drop(self.list(to, listed)),
            None => self.forget(to),
        }
    }

    /// All listed descriptors with their numbers.
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
    fn listed_descriptor_is_found_until_forgotten() {
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
    fn invalid_descriptors_are_not_listed() {
        for fd in [-1, FDS as i32, i32::MAX] {
            assert!(!TABLE.list(fd, Listed { entry: EntryIndex(1), appends: false, writes_only: false }));
            TABLE.forget(fd);
            assert_eq!(TABLE.get(fd), None);
        }
    }
}
