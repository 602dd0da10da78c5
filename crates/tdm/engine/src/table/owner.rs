//! The file of an entry. A program that opens the file checks it without a lock while the daemon may reclaim the entry.
//!
//! The program counts the open, then loads the file's key; the daemon clears the key, then loads the count. Fences between the steps: one sees the
//! other, so a reclaimed entry is used by no open file ([decision 49](../../../../../docs/decisions/0049-reclaiming-entries-of-the-shared-file-table.md)).

use crate::table::atomic::{AtomicU64, Ordering, fence};
use crate::table::key::FileKey;

/// Inode of a reclaimed entry.
const GONE: u64 = u64::MAX;

/// Uses that an index distinguishes.
const USES: u32 = 1 << 15;

/// The words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'b> {
    /// Device, inode, birth time. The inode is stored last (Release) and loaded first (Acquire): a thread that sees it sees the others and the end of
    /// earlier uses.
    pub(super) key: &'b [AtomicU64; 3],
    /// Opens counted.
    pub(super) opened: &'b AtomicU64,
    /// Position in the list; the upper half counts reclaims.
    pub(super) place: &'b AtomicU64,
}

impl Owner<'_> {
    pub(super) fn key(&self) -> Option<FileKey> {
        let inode = self.key[1].load(Ordering::Acquire);
        let [device, born_ns] = [0, 2].map(|word: usize| self.key[word].load(Ordering::Relaxed));
        (inode != 0 && inode != GONE).then_some(FileKey { device, inode, born_ns })
    }

    pub(super) fn is_or_was_used(&self) -> bool {
        self.key[1].load(Ordering::Acquire) != 0
    }

    /// Number of the use.
    #[inline]
    pub(super) fn uses(&self) -> u32 {
        (self.place.load(Ordering::Acquire) >> 32) as u32 % USES
    }

    /// Counts an open. `false` if the entry is another file's, or in another use.
    pub(super) fn open_as(&self, key: FileKey, uses: u32) -> bool {
        self.opened.fetch_add(1, Ordering::SeqCst);
        // Before loading the key: the daemon clears the key before it loads the count. The filter of files without an entry relies on it too.
        fence(Ordering::SeqCst);
        self.key() == Some(key) && self.uses() == uses
    }

    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }

    /// Reclaims the entry. `false` if it is unused or busy, or opens were counted beyond `opened`. Needs the table's lock.
    pub(super) fn give_back(&self, opened: u64, is_idle: impl FnOnce() -> bool) -> bool {
        let was = self.key[1].load(Ordering::SeqCst);
        if was == 0 || was == GONE {
            return false;
        }
        self.clear_file();
        // Before loading the count: a program counts before it loads the key.
        fence(Ordering::SeqCst);
        let is_done = self.opened() == opened && is_idle();
        if is_done {
            self.end_use();
        } else {
            self.key[1].store(was, Ordering::SeqCst);
        }
        is_done
    }

    pub(super) fn clear_file(&self) {
        self.key[1].store(GONE, Ordering::SeqCst);
    }

    /// Ends the use: its indices become invalid.
    pub(super) fn end_use(&self) {
        self.place.fetch_add(1 << 32, Ordering::SeqCst);
    }

    pub(super) fn place(&self) -> u64 {
        self.place.load(Ordering::SeqCst) & u64::from(u32::MAX)
    }

    pub(super) fn set_place(&self, place: u64) {
        self.place.store(self.place.load(Ordering::SeqCst) >> 32 << 32 | place, Ordering::SeqCst);
    }

    /// Makes it that file's entry, with all other words ready. Needs the table's lock.
    pub(super) fn become_of(&self, key: FileKey) {
        self.key[0].store(key.device, Ordering::Relaxed);
        self.key[2].store(key.born_ns, Ordering::Relaxed);
        self.key[1].store(key.inode, Ordering::Release);
    }
}
