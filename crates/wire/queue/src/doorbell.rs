//! Doorbells of all queues, and which of them were rung.

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
}

impl Doorbells {
    /// Doorbells for queues 0 to `queues` − 1, all zero.
    pub fn new(queues: u16) -> Self {
        let doorbells = usize::from(queues) * 2;
        Self {
            values: (0..queues).map(|_| Pair { values: [AtomicU32::new(0), AtomicU32::new(0)] }).collect(),
            marks: (0..doorbells.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(),
        }
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

    /// Puts a doorbell back to zero, as when its queue is created.
    pub fn reset(&self, index: DoorbellIndex) {
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
