//! Whose an entry is: whoever opens its file looks at that without a lock, while a daemon gives the entry back.
//!
//! One counts, and then looks whose it is; the other takes the file away, and then looks whether somebody counted. Between the two steps of each is a fence, so one
//! of the two sees the other: an entry that was given back is nobody's who opened its file meanwhile.

use crate::table::atomic::{AtomicU64, Ordering, fence};
use crate::table::key::FileKey;

/// An inode of no file: the entry was given back.
const GONE: u64 = u64::MAX;

/// Uses of an entry that are told from each other.
const USES: u32 = 1 << 15;

/// The words of an entry that say so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whose<'b> {
    /// Device, inode, birth time. The inode is stored last (Release) and loaded first (Acquire): who sees it sees the others, and every use that ended before.
    pub(super) key: &'b [AtomicU64; 3],
    /// How often its file was opened.
    pub(super) opened: &'b AtomicU64,
    /// Where in the list it is, and how often it was given back, in its upper half.
    pub(super) place: &'b AtomicU64,
}

impl Whose<'_> {
    pub(super) fn key(&self) -> Option<FileKey> {
        let inode = self.key[1].load(Ordering::Acquire);
        let [device, born_ns] = [0, 2].map(|word: usize| self.key[word].load(Ordering::Relaxed));
        (inode != 0 && inode != GONE).then_some(FileKey { device, inode, born_ns })
    }

    pub(super) fn is_or_was_used(&self) -> bool {
        self.key[1].load(Ordering::Acquire) != 0
    }

    /// Which use it is.
    #[inline]
    pub(super) fn uses(&self) -> u32 {
        (self.place.load(Ordering::Acquire) >> 32) as u32 % USES
    }

    /// Its file was opened once more: says so, and whether it is this file's still, in this use.
    pub(super) fn open_as(&self, key: FileKey, uses: u32) -> bool {
        self.opened.fetch_add(1, Ordering::SeqCst);
        // Behind that: whoever takes the file away looks at it in the other order. So does who leaves out the file whose entry this is since just now.
        fence(Ordering::SeqCst);
        self.key() == Some(key) && self.uses() == uses
    }

    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }

    /// Takes its file away, under the board's lock; not if it is no file's, is not idle, or was opened more often than that.
    pub(super) fn give_back(&self, opened: u64, is_idle: impl FnOnce() -> bool) -> bool {
        let was = self.key[1].load(Ordering::SeqCst);
        if was == 0 || was == GONE {
            return false;
        }
        self.lose_file();
        // Behind that: whoever opens it counts first, and then looks whose it is.
        fence(Ordering::SeqCst);
        let is_done = self.opened() == opened && is_idle();
        if is_done {
            self.end_use();
        } else {
            self.key[1].store(was, Ordering::SeqCst);
        }
        is_done
    }

    pub(super) fn lose_file(&self) {
        self.key[1].store(GONE, Ordering::SeqCst);
    }

    /// Whoever has its index has none from here on.
    pub(super) fn end_use(&self) {
        self.place.fetch_add(1 << 32, Ordering::SeqCst);
    }

    pub(super) fn place(&self) -> u64 {
        self.place.load(Ordering::SeqCst) & u64::from(u32::MAX)
    }

    pub(super) fn set_place(&self, place: u64) {
        self.place.store(self.place.load(Ordering::SeqCst) >> 32 << 32 | place, Ordering::SeqCst);
    }

    /// It is that file's from here on: under the board's lock, with all else of it ready.
    pub(super) fn become_of(&self, key: FileKey) {
        self.key[0].store(key.device, Ordering::Relaxed);
        self.key[2].store(key.born_ns, Ordering::Relaxed);
        self.key[1].store(key.inode, Ordering::Release);
    }
}
