//! Files that were opened and have no entry, by bits of their inodes, so that there is room for all of them: whoever has a file open that
//! is not on the board writes it unseen, and it must not be absorbed. Another file whose bits are theirs too is left to the kernel as well.
//!
//! One half takes files, the other one is what was there before. A look at all that is open makes the halves change places: the
//! older one begins anew with what is open still. So a file is forgotten that two looks one after the other did not find open, but for one
//! that was closed before the first of them ended: the second alone has looked for it.
//!
//! Who adds a file stores its bits, and then looks whose turn it is; who looks stores whose turn it is, and then looks at the bits. SeqCst, so that one of the two sees
//! the other: with less the next look could miss a file that was added to a half which begins anew.

use crate::table::atomic::{AtomicU64, Ordering, fence};

/// With 4000 files in it, one of 4000 others is taken for one of them. The model checker, which tries all orders of all accesses, has few.
const BITS: u64 = if cfg!(loom) { 1 << 6 } else { 1 << 19 };

/// Words of a half.
pub(super) const HALF_WORDS: usize = BITS as usize / 64;

/// The files of a board that have no entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unlisted<'b> {
    /// How often the halves changed places: the lowest bit says which one takes files.
    turns: &'b AtomicU64,
    halves: [Half<'b>; 2],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Half<'b> {
    /// Files that it was given.
    pub(super) count: &'b AtomicU64,
    pub(super) bits: &'b [AtomicU64; HALF_WORDS],
}

impl<'b> Unlisted<'b> {
    pub(super) const fn new(turns: &'b AtomicU64, halves: [Half<'b>; 2]) -> Self {
        Self { turns, halves }
    }

    /// Adds a file that is open. In a signal handler too: nothing is waited for.
    pub(super) fn add(&self, inode: u64) {
        loop {
            let turn = self.turns.load(Ordering::SeqCst);
            self.half(turn).add(inode);
            // The half that it went to may have begun anew meanwhile.
            if self.turns.load(Ordering::SeqCst) == turn {
                return;
            }
        }
    }

    /// Leaves a file out: it is added, and `bar` sees to the entry that it may have by now.
    pub(super) fn leave_out(&self, inode: u64, bar: impl FnOnce()) {
        self.add(inode);
        // Behind that: whoever makes an entry for it asks in the other order, with a fence in between (`Whose::open_as`). So one of the two sees the other.
        fence(Ordering::SeqCst);
        bar();
    }

    /// Whether a file was added and is not forgotten; or another one with the same bits.
    pub(super) fn has(&self, inode: u64) -> bool {
        self.halves.iter().any(|half| half.has(inode))
    }

    /// How many there are, about.
    pub(super) fn count(&self) -> u64 {
        let counts = self.halves.map(|half| half.count.load(Ordering::SeqCst));
        counts[0].max(counts[1])
    }

    /// Forgets files that are not among those that a look found open, which began after this was called last: by a daemon alone. If it is killed in the midst of that, the
    /// half that takes files has all that must not be forgotten.
    pub(super) fn keep(&self, open: impl Iterator<Item = u64>) {
        let turn = self.turns.load(Ordering::SeqCst);
        let mut kept = vec![0; HALF_WORDS];
        let mut count = 0;
        for inode in open.filter(|inode| self.has(*inode)) {
            count += 1;
            for (word, bit) in places(inode) {
                kept[word] |= bit;
            }
        }
        let older = self.half(turn.wrapping_add(1));
        for (word, kept) in older.bits.iter().zip(kept) {
            word.store(kept, Ordering::SeqCst);
        }
        older.count.store(count, Ordering::SeqCst);
        self.turns.store(turn.wrapping_add(1), Ordering::SeqCst);
    }

    const fn half(&self, turn: u64) -> &Half<'b> {
        &self.halves[(turn % 2) as usize]
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

/// Where an inode's bits are: the words, and the bits of these.
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
        turns: AtomicU64,
        counts: [AtomicU64; 2],
        bits: [[AtomicU64; HALF_WORDS]; 2],
    }

    impl Words {
        fn new() -> Box<Self> {
            let zero = || AtomicU64::new(0);
            let bits = || std::array::from_fn(|_| zero());
            Box::new(Self { turns: zero(), counts: [zero(), zero()], bits: [bits(), bits()] })
        }

        fn unlisted(&self) -> Unlisted<'_> {
            let half = |i: usize| Half { count: &self.counts[i], bits: &self.bits[i] };
            Unlisted::new(&self.turns, [half(0), half(1)])
        }
    }

    #[test]
    fn a_file_is_known_until_two_looks_did_not_find_it_open() {
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
    fn a_file_that_came_while_it_was_looked_is_kept_by_that_look_whether_it_was_seen_or_not() {
        let words = Words::new();
        let files = words.unlisted();
        for inode in 1..100 {
            files.add(inode);
            files.keep(iter::empty());
            assert!(files.has(inode));
        }
    }

    #[test]
    fn thousands_of_files_leave_nearly_all_others_to_be_absorbed() {
        for between in [1, 2, 4096, 1 << 32] {
            let words = Words::new();
            let files = words.unlisted();
            (1..=4000).for_each(|file| files.add(file * between));
            let taken = (4001..=14_000).filter(|file| files.has(file * between)).count();
            assert!(taken < 10, "of 10000 files {between} apart {taken} are taken for others");
        }
    }

    #[test]
    fn no_file_is_lost_that_is_added_while_halves_change_places() {
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
