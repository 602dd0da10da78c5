//! Open files without an entry, as bits of their inodes (a Bloom filter). Their programs write them without records, so they must not be
//! absorbed. Neither is another file with the same bits.
//!
//! Files are added to one half; the other holds the previous generation. When the daemon has listed all open files, the halves swap and the older
//! one starts again with the files still open. A file is forgotten after two lists without it, or one if it was closed before the first ended.
//!
//! An adding thread stores the bits and then loads the generation; the daemon stores the generation and then loads the bits. SeqCst: one sees the
//! other. Otherwise the next list could miss a file added to a half that is being cleared.

use crate::table::atomic::{AtomicU64, Ordering, fence};

/// With 4000 files in it, one of 4000 others matches. The loom model has few bits, as it tries all orders of all accesses.
const BITS: u64 = if cfg!(loom) { 1 << 6 } else { 1 << 19 };

/// Words of a half.
pub(super) const HALF_WORDS: usize = BITS as usize / 64;

/// The files without an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unlisted<'b> {
    /// Number of swaps; its lowest bit selects the half that takes files.
    generation: &'b AtomicU64,
    halves: [Half<'b>; 2],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Half<'b> {
    /// Files added to it.
    pub(super) count: &'b AtomicU64,
    pub(super) bits: &'b [AtomicU64; HALF_WORDS],
}

impl<'b> Unlisted<'b> {
    pub(super) const fn new(generation: &'b AtomicU64, halves: [Half<'b>; 2]) -> Self {
        Self { generation, halves }
    }

    /// Adds an open file. Never waits; safe in a signal handler.
    pub(super) fn add(&self, inode: u64) {
        loop {
            let generation = self.generation.load(Ordering::SeqCst);
            self.half(generation).add(inode);
            // The half may have been cleared meanwhile.
            if self.generation.load(Ordering::SeqCst) == generation {
                return;
            }
        }
    }

    /// Adds a file and then calls `bar`, for an entry that the file may have by now.
    pub(super) fn leave_out(&self, inode: u64, bar: impl FnOnce()) {
        self.add(inode);
        // A thread that makes an entry fences between its steps too (`Owner::open_as`): one of the two sees the other.
        fence(Ordering::SeqCst);
        bar();
    }

    /// Whether a file was added and not forgotten, or one with the same bits was.
    pub(super) fn has(&self, inode: u64) -> bool {
        self.halves.iter().any(|half| half.has(inode))
    }

    /// Approximate number of files.
    pub(super) fn count(&self) -> u64 {
        let counts = self.halves.map(|half| half.count.load(Ordering::SeqCst));
        counts[0].max(counts[1])
    }

    /// Forgets files that are not among `open`, a list begun after the last call. For the daemon only. If it is killed inside, the half that takes
    /// files still has all of them.
    pub(super) fn keep(&self, open: impl Iterator<Item = u64>) {
        let generation = self.generation.load(Ordering::SeqCst);
        let mut kept = vec![0; HALF_WORDS];
        let mut count = 0;
        for inode in open.filter(|inode| self.has(*inode)) {
            count += 1;
            for (word, bit) in places(inode) {
                kept[word] |= bit;
            }
        }
        let older = self.half(generation.wrapping_add(1));
        for (word, kept) in older.bits.iter().zip(kept) {
            word.store(kept, Ordering::SeqCst);
        }
        older.count.store(count, Ordering::SeqCst);
        self.generation.store(generation.wrapping_add(1), Ordering::SeqCst);
    }

    const fn half(&self, generation: u64) -> &Half<'b> {
        &self.halves[(generation % 2) as usize]
    }
}

impl Half<'_> {
    fn add(&self, inode: u64) {
        for (word, bit) in places(inode) {
            self.bits[word].fetch_or(bit, Ordering::SeqCst);
        }
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn has(&self, inode: u64) -> bool {
        places(inode).iter().all(|(word, bit)| self.bits[*word].load(Ordering::SeqCst) & bit != 0)
    }
}

/// An inode's bits: words and masks.
const fn places(inode: u64) -> [(usize, u64); 2] {
    let mixed = inode.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    [place(mixed >> 45), place(mixed >> 26)]
}

const fn place(hash: u64) -> (usize, u64) {
    let bit = hash % BITS;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;
    use std::iter;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;

    struct Words {
        generation: AtomicU64,
        counts: [AtomicU64; 2],
        bits: [[AtomicU64; HALF_WORDS]; 2],
    }

    impl Words {
        fn new() -> Box<Self> {
            let zero = || AtomicU64::new(0);
            let bits = || std::array::from_fn(|_| zero());
            Box::new(Self { generation: zero(), counts: [zero(), zero()], bits: [bits(), bits()] })
        }

        fn unlisted(&self) -> Unlisted<'_> {
            let half = |i: usize| Half { count: &self.counts[i], bits: &self.bits[i] };
            Unlisted::new(&self.generation, [half(0), half(1)])
        }
    }

    #[test]
    fn filter_forgets_a_file_absent_from_two_lists() {
        let words = Words::new();
        let files = words.unlisted();
        files.add(5);
        for _ in 0..5 {
            files.keep([4, 5, 6].into_iter());
            assert_eq!((files.has(5), files.has(4), files.count()), (true, false, 1));
        }
        files.keep(iter::empty());
        assert!(files.has(5) && files.count() == 1);
        files.keep(iter::empty());
        assert!(!files.has(5) && files.count() == 0);
    }

    #[test]
    fn filter_keeps_a_file_added_during_a_list() {
        let words = Words::new();
        let files = words.unlisted();
        for inode in 1..100 {
            files.add(inode);
            files.keep(iter::empty());
            assert!(files.has(inode));
        }
    }

    #[test]
    fn filter_of_thousands_matches_few_other_files() {
        for between in [1, 2, 4096, 1 << 32] {
            let words = Words::new();
            let files = words.unlisted();
            (1..=4000).for_each(|file| files.add(file * between));
            let taken = (4001..=14_000).filter(|file| files.has(file * between)).count();
            assert!(taken < 10, "of 10000 files at a distance of {between}, {taken} match others");
        }
    }

    #[test]
    fn filter_loses_no_file_during_concurrent_swaps() {
        let words = Words::new();
        let files = words.unlisted();
        let (open, has_ended) = (Mutex::new(BTreeSet::new()), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !has_ended.load(Ordering::SeqCst) {
                    let seen = open.lock().unwrap().clone();
                    files.keep(seen.into_iter());
                }
            });
            let add_some = |first: u64| {
                (first..first + 300).all(|inode| {
                    open.lock().unwrap().insert(inode);
                    files.add(inode);
                    std::thread::yield_now();
                    files.has(inode)
                })
            };
            let adding: Vec<_> = (0..3).map(|i| threads.spawn(move || add_some(i * 1000))).collect();
            let are_there = adding.into_iter().all(|thread| thread.join().unwrap());
            has_ended.store(true, Ordering::SeqCst);
            assert!(are_there);
        });
        assert!(open.lock().unwrap().iter().all(|inode| files.has(*inode)));
    }
}
