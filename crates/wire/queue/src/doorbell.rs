//! Doorbells of all queues, and which of them were rung.

use std::sync::atomic;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Doorbells in one word of marks.
const WORD: usize = 64;

/// One doorbell, numbered as the registers are (NVMe over PCIe Transport, doorbell registers, stride 0): submission
/// queue tails are even, completion queue heads odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DoorbellIndex(u32);

impl DoorbellIndex {
    /// The tail of a submission queue.
    #[inline]
    pub const fn submission(queue: u16) -> Self {
        Self(queue as u32 * 2)
    }

    /// The head of a completion queue.
    #[inline]
    pub const fn completion(queue: u16) -> Self {
        Self(queue as u32 * 2 + 1)
    }

    /// The doorbell at a place of the register array.
    #[inline]
    pub const fn at(place: u32) -> Option<Self> {
        if place < 2 << 16 { Some(Self(place)) } else { None }
    }

    /// Its place in the register array.
    #[inline]
    pub const fn place(self) -> u32 {
        self.0
    }

    /// The queue it belongs to.
    #[inline]
    pub const fn queue(self) -> u16 {
        (self.0 / 2) as u16
    }

    /// Whether it is the head of a completion queue.
    #[inline]
    pub const fn is_completion(self) -> bool {
        self.0 % 2 == 1
    }
}

/// Tail and head doorbell of one queue, on a cache line of their own: queues of different threads share nothing.
#[derive(Debug)]
#[repr(align(64))]
struct Pair {
    values: [AtomicU32; 2],
}

/// Doorbells in memory that a device shares with its host, who writes them without telling anybody.
///
/// An implementer gives the same words at each call, for as long as it lives.
pub trait SharedDoorbells: std::fmt::Debug + Send + Sync {
    /// The doorbells, little endian, in the order of the registers.
    fn words(&self) -> &[atomic::AtomicU32];
}

/// The doorbells of one controller, written by hosts and read by whoever runs the device.
///
/// A value is stored with Release and loaded with Acquire: a device that sees a tail sees the slots before it, and
/// one that sees a head may write the entries before it. Marks are set with Release after the value and taken with
/// Acquire, so a mark that is taken never comes with an older value.
///
/// Values are not checked here: the queue that a doorbell belongs to does that.
#[derive(Debug)]
pub struct Doorbells {
    values: Box<[Pair]>,
    marks: Box<[AtomicU64]>,
    shared: Option<Box<dyn SharedDoorbells>>,
}

impl Doorbells {
    /// Doorbells for queues 0 to `queues` − 1, all zero.
    pub fn new(queues: u16) -> Self {
        let doorbells = usize::from(queues) * 2;
        Self {
            values: (0..queues).map(|_| Pair { values: [AtomicU32::new(0), AtomicU32::new(0)] }).collect(),
            marks: (0..doorbells.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(),
            shared: None,
        }
    }

    /// Doorbells that a host may also write in memory that it shares.
    ///
    /// Nobody is told of those: the device looks for them by [`Doorbells::is_written`], and takes them in by
    /// [`Doorbells::take_written`].
    #[must_use]
    pub fn with_shared(self, shared: Box<dyn SharedDoorbells>) -> Self {
        Self { shared: Some(shared), ..self }
    }

    /// Whether there is such memory.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// What shared memory and this know of the doorbells of the first `queues` queues, side by side.
    #[inline]
    fn side_by_side(&self, queues: usize) -> impl Iterator<Item = (usize, &[atomic::AtomicU32], &Pair)> {
        let words = self.shared.as_ref().map_or(&[][..], |shared| shared.words());
        words
            .chunks_exact(2)
            .zip(&self.values)
            .take(queues)
            .enumerate()
            .map(|(at, (words, pair))| (at, words, pair))
    }

    /// Whether the host wrote a tail in shared memory, of those of the first `queues` queues that are here. It may be
    /// looked for at any time; what is seen is a hint, as a queue may be going or coming.
    #[inline]
    pub fn is_written(&self, queues: usize, is_here: impl Fn(u16) -> bool) -> bool {
        self.side_by_side(queues).filter(|(queue, ..)| is_here(*queue as u16)).any(|(_, words, pair)| {
            let [tail, ..] = words else { return false };
            u32::from_le(tail.load(atomic::Ordering::Relaxed)) != pair.values[0].load(Ordering::Relaxed)
        })
    }

    /// Takes in what the host wrote in shared memory for the first `queues` queues, with the device in hand, as far as they
    /// are here: tails are marked, heads are only stored, as they are looked at when room is needed. Calls back for
    /// each, and says how many of them may have been rung by now.
    pub fn take_written(
        &self,
        queues: usize,
        is_here: impl Fn(u16) -> bool,
        mut written: impl FnMut(DoorbellIndex),
    ) -> usize {
        let mut rung = 0;
        for (queue, words, pair) in self.side_by_side(queues) {
            if words.iter().any(|word| word.load(atomic::Ordering::Relaxed) != 0) {
                rung = queue + 1;
            }
            if is_here(queue as u16) {
                self.take_pair(queue, words, pair, |index| {
                    if !index.is_completion() {
                        self.mark(index);
                    }
                    written(index);
                });
            }
        }
        rung
    }

    /// Takes in what the host wrote in shared memory for `queue` alone, by who serves that; nothing is marked.
    #[inline]
    pub fn take_written_of(&self, queue: u16, written: impl FnMut(DoorbellIndex)) {
        let at = usize::from(queue);
        let words = self.shared.as_ref().and_then(|shared| shared.words().get(2 * at..2 * at + 2));
        if let (Some(words), Some(pair)) = (words, self.values.get(at)) {
            self.take_pair(at, words, pair, written);
        }
    }

    #[inline]
    fn take_pair(
        &self,
        queue: usize,
        words: &[atomic::AtomicU32],
        pair: &Pair,
        mut written: impl FnMut(DoorbellIndex),
    ) {
        for (half, word) in words.iter().enumerate() {
            // Acquire: who sees a tail sees the slots before it.
            let value = u32::from_le(word.load(atomic::Ordering::Acquire));
            if value != pair.values[half].load(Ordering::Relaxed) {
                let index = DoorbellIndex((queue * 2 + half) as u32);
                self.store(index, value);
                written(index);
            }
        }
    }

    /// Writes a doorbell as a host does: in shared memory where there is some, else with a mark.
    #[inline]
    pub fn write(&self, index: DoorbellIndex, value: u32) {
        match self.shared_word(index) {
            Some(word) => word.store(value.to_le(), atomic::Ordering::Release),
            None => drop(self.ring(index, value)),
        }
    }

    fn shared_word(&self, index: DoorbellIndex) -> Option<&atomic::AtomicU32> {
        self.shared.as_ref()?.words().get(index.0 as usize)
    }

    /// How many doorbells there are.
    #[allow(clippy::len_without_is_empty, reason = "a controller has an admin queue")]
    pub fn len(&self) -> usize {
        self.values.len() * 2
    }

    /// Stores a value and marks the doorbell; false if there is no such doorbell.
    #[inline]
    pub fn ring(&self, index: DoorbellIndex, value: u32) -> bool {
        self.store(index, value) && self.mark(index)
    }

    /// Stores a value without a mark, for a caller that then runs this queue itself, or marks it later; false if
    /// there is no such doorbell.
    #[inline]
    pub fn store(&self, index: DoorbellIndex, value: u32) -> bool {
        let Some(cell) = self.cell(index) else { return false };
        cell.store(value, Ordering::Release);
        true
    }

    /// Marks a doorbell whose value was stored before; false if there is no such doorbell.
    #[inline]
    pub fn mark(&self, index: DoorbellIndex) -> bool {
        let Some(word) = self.marks.get(index.0 as usize / WORD) else { return false };
        word.fetch_or(1 << (index.0 as usize % WORD), Ordering::Release);
        true
    }

    #[inline]
    fn cell(&self, index: DoorbellIndex) -> Option<&AtomicU32> {
        Some(&self.values.get(usize::from(index.queue()))?.values[usize::from(index.is_completion())])
    }

    /// The value of a doorbell; 0 if there is none.
    #[inline]
    pub fn load(&self, index: DoorbellIndex) -> u32 {
        self.cell(index).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// Puts a doorbell back to zero, as when its queue is created, in shared memory too: what an earlier queue left
    /// there is not this one's, and could be its first value by chance. With the device in hand, as
    /// [`Doorbells::take_written`].
    pub fn reset(&self, index: DoorbellIndex) {
        if let Some(word) = self.shared_word(index) {
            word.store(0, atomic::Ordering::Relaxed);
        }
        self.store(index, 0);
    }

    /// Whether any doorbell is marked.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.marks.iter().fold(0, |marks, word| marks | word.load(Ordering::Relaxed)) != 0
    }

    /// Takes all marks, and calls back for each marked doorbell in the order of the registers.
    #[inline]
    pub fn take_dirty(&self, rung: impl FnMut(DoorbellIndex)) {
        // The relaxed look keeps locked swaps off where nobody marked. A mark that it misses belongs to a caller that
        // has yet to enter the turn, or to leave its own mark on it.
        if self.is_dirty() {
            self.take_marks(rung);
        }
    }

    #[cold]
    fn take_marks(&self, mut rung: impl FnMut(DoorbellIndex)) {
        for (at, word) in self.marks.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut marks = word.swap(0, Ordering::Acquire);
            while marks != 0 {
                rung(DoorbellIndex((at * WORD) as u32 + marks.trailing_zeros()));
                marks &= marks - 1;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn taken(doorbells: &Doorbells) -> Vec<DoorbellIndex> {
        let mut taken = Vec::new();
        doorbells.take_dirty(|index| taken.push(index));
        taken
    }

    #[test]
    fn doorbells_are_numbered_as_the_registers_are() {
        assert_eq!(DoorbellIndex::submission(3).place(), 6);
        assert_eq!(DoorbellIndex::completion(3).place(), 7);
        assert_eq!(DoorbellIndex::at(7), Some(DoorbellIndex::completion(3)));
        assert_eq!(DoorbellIndex::at(1 << 17), None);
        let last = DoorbellIndex::completion(u16::MAX);
        assert_eq!((last.queue(), last.is_completion()), (u16::MAX, true));
    }

    #[test]
    fn a_doorbell_that_is_not_there_is_not_rung() {
        let doorbells = Doorbells::new(2);
        assert!(doorbells.ring(DoorbellIndex::completion(1), 1));
        // Its mark would fall into a word that is there.
        assert!(!doorbells.ring(DoorbellIndex::submission(2), 1));
        assert!(!doorbells.ring(DoorbellIndex::completion(u16::MAX), 1));
        assert_eq!(doorbells.load(DoorbellIndex::submission(2)), 0);
        assert_eq!(taken(&doorbells), [DoorbellIndex::completion(1)]);
    }

    #[test]
    fn a_stored_value_is_there_and_not_marked() {
        let doorbells = Doorbells::new(1);
        doorbells.store(DoorbellIndex::submission(0), 9);
        assert!(!doorbells.is_dirty());
        assert_eq!(doorbells.load(DoorbellIndex::submission(0)), 9);
        doorbells.mark(DoorbellIndex::submission(0));
        assert!(doorbells.is_dirty());
    }

    #[derive(Debug)]
    struct Page(std::sync::Arc<Vec<atomic::AtomicU32>>);

    impl SharedDoorbells for Page {
        fn words(&self) -> &[atomic::AtomicU32] {
            &self.0
        }
    }

    #[test]
    fn what_a_host_writes_in_shared_memory_is_taken_once_and_gone_after_a_reset() {
        let page: std::sync::Arc<Vec<_>> = std::sync::Arc::new((0..6).map(|_| Default::default()).collect());
        let doorbells = Doorbells::new(3).with_shared(Box::new(Page(page.clone())));
        let write = |place: usize, value: u32| page[place].store(value.to_le(), Ordering::Relaxed);
        write(1, 7);
        assert!(!doorbells.is_written(3, |_| true), "a head alone is nobody's work");
        write(4, 9);
        let is_written = |queues| doorbells.is_written(queues, |_| true);
        assert!(is_written(3) && !is_written(2));
        assert!(!doorbells.is_written(3, |queue| queue != 2), "a queue that is elsewhere");
        let mut written = Vec::new();
        assert_eq!(doorbells.take_written(3, |queue| queue != 2, |index| written.push(index.place())), 3);
        assert_eq!(written, [1], "what is elsewhere is left there");
        assert_eq!(doorbells.take_written(usize::MAX, |_| true, |index| written.push(index.place())), 3);
        assert_eq!((written, is_written(3)), (vec![1, 4], false));
        assert_eq!(taken(&doorbells), [DoorbellIndex::submission(2)]);
        assert_eq!(doorbells.load(DoorbellIndex::completion(0)), 7);
        doorbells.reset(DoorbellIndex::submission(2));
        assert!(!is_written(3));
        doorbells.write(DoorbellIndex::submission(2), 9);
        let mut own = 0;
        doorbells.take_written_of(2, |_| own += 1);
        assert_eq!((own, doorbells.is_dirty()), (1, false), "who serves it needs no mark");
        doorbells.reset(DoorbellIndex::submission(2));
        doorbells.write(DoorbellIndex::submission(2), 9);
        assert!(is_written(3), "the same value again is another queue's");
    }

    proptest! {
        #[test]
        fn each_rung_doorbell_is_taken_once_with_its_last_value(rings in prop::collection::vec((0u32..258, any::<u32>()), 0..40)) {
            let doorbells = Doorbells::new(129);
            let mut last = BTreeMap::new();
            for (place, value) in rings {
                let index = DoorbellIndex(place);
                prop_assert!(doorbells.ring(index, value));
                last.insert(index, value);
            }
            let seen: Vec<_> = taken(&doorbells).into_iter().map(|index| (index, doorbells.load(index))).collect();
            prop_assert_eq!(seen, last.into_iter().collect::<Vec<_>>());
            prop_assert!(taken(&doorbells).is_empty());
        }
    }
}
