//! Doorbells of all queues, and a dirty bit for each.

use std::sync::atomic;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Dirty bits in one word.
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

    /// The doorbell at an index of the register array; `None` past the last.
    #[inline]
    pub const fn at(place: u32) -> Option<Self> {
        if place < 2 << 16 { Some(Self(place)) } else { None }
    }

    /// Its index in the register array.
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

/// Tail and head doorbell of one queue, on a cache line of their own to avoid false sharing between queues.
#[derive(Debug)]
#[repr(align(64))]
struct Pair {
    values: [AtomicU32; 2],
}

/// Doorbells in memory that the host writes directly, without notifying the device: shadow doorbells (Doorbell Buffer
/// Config) or a mapped doorbell page.
///
/// `words` returns the same memory for the lifetime of the implementer.
pub trait SharedDoorbells: std::fmt::Debug + Send + Sync {
    /// The doorbells, little endian, in the order of the registers.
    fn words(&self) -> &[atomic::AtomicU32];
}

/// The doorbells of one controller, written by hosts and read by the thread that runs the device.
///
/// A value is stored with Release and loaded with Acquire: a device that sees a tail sees the slots before it, and
/// one that sees a head may overwrite the entries before it. A dirty bit is set with Release after the value and
/// taken with Acquire, so a taken bit never comes with an older value.
///
/// Values are not checked here, but by the queue that the doorbell belongs to.
#[derive(Debug)]
pub struct Doorbells {
    values: Box<[Pair]>,
    dirty: Box<[AtomicU64]>,
    shared: Option<Box<dyn SharedDoorbells>>,
}

impl Doorbells {
    /// Doorbells for queues 0 to `queues` − 1, all zero.
    pub fn new(queues: u16) -> Self {
        let doorbells = usize::from(queues) * 2;
        Self {
            values: (0..queues).map(|_| Pair { values: [AtomicU32::new(0), AtomicU32::new(0)] }).collect(),
            dirty: (0..doorbells.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(),
            shared: None,
        }
    }

    /// Adds memory in which the host may also write doorbells.
    ///
    /// The device is not notified of such writes. It polls [`Doorbells::has_shared_tail`] and copies them by
    /// [`Doorbells::take_shared`].
    #[must_use]
    pub fn with_shared(self, shared: Box<dyn SharedDoorbells>) -> Self {
        Self { shared: Some(shared), ..self }
    }

    /// Whether the host can write doorbells in shared memory.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Pairs the shared words of each of the first `queues` queues with the values stored here.
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

    /// Whether shared memory has a new tail for one of the first `queues` queues for which `is_served_here` holds.
    /// Callable without the run lock: the answer is a hint, as a queue may be delegated or reclaimed meanwhile.
    #[inline]
    pub fn has_shared_tail(&self, queues: usize, is_served_here: impl Fn(u16) -> bool) -> bool {
        self.side_by_side(queues).filter(|(queue, ..)| is_served_here(*queue as u16)).any(
            |(_, words, pair)| {
                let [tail, ..] = words else { return false };
                u32::from_le(tail.load(atomic::Ordering::Relaxed)) != pair.values[0].load(Ordering::Relaxed)
            },
        )
    }

    /// Copies new values from shared memory, for the first `queues` queues for which `is_served_here` holds. The
    /// caller holds the run lock.
    ///
    /// Tails also get a dirty bit. Heads do not: they are read when the device needs room. Calls `written` for each
    /// copied value. Returns how many queues may have been rung so far: one more than the last with a doorbell other
    /// than zero.
    pub fn take_shared(
        &self,
        queues: usize,
        is_served_here: impl Fn(u16) -> bool,
        mut written: impl FnMut(DoorbellIndex),
    ) -> usize {
        let mut rung = 0;
        for (queue, words, pair) in self.side_by_side(queues) {
            if words.iter().any(|word| word.load(atomic::Ordering::Relaxed) != 0) {
                rung = queue + 1;
            }
            if is_served_here(queue as u16) {
                self.take_pair(queue, words, pair, |index| {
                    if !index.is_completion() {
                        self.mark_dirty(index);
                    }
                    written(index);
                });
            }
        }
        rung
    }

    /// Copies new values of `queue` from shared memory, for the thread that serves it; sets no dirty bit.
    #[inline]
    pub fn take_shared_of(&self, queue: u16, written: impl FnMut(DoorbellIndex)) {
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
            // Acquire: after seeing a tail, the device sees the slots before it.
            let value = u32::from_le(word.load(atomic::Ordering::Acquire));
            if value != pair.values[half].load(Ordering::Relaxed) {
                let index = DoorbellIndex((queue * 2 + half) as u32);
                self.store(index, value);
                written(index);
            }
        }
    }

    /// Writes a doorbell as a host does: to shared memory if there is any, else with a dirty bit.
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

    /// Number of doorbells, two for each queue.
    #[allow(clippy::len_without_is_empty, reason = "a controller has an admin queue")]
    pub fn len(&self) -> usize {
        self.values.len() * 2
    }

    /// Stores a value and sets the dirty bit; false if there is no such doorbell.
    #[inline]
    pub fn ring(&self, index: DoorbellIndex, value: u32) -> bool {
        self.store(index, value) && self.mark_dirty(index)
    }

    /// Stores a value and no dirty bit, for a caller that then serves the queue itself or marks it later; false if
    /// there is no such doorbell.
    #[inline]
    pub fn store(&self, index: DoorbellIndex, value: u32) -> bool {
        let Some(cell) = self.cell(index) else { return false };
        cell.store(value, Ordering::Release);
        true
    }

    /// Sets the dirty bit of a doorbell whose value was stored before; false if there is no such doorbell.
    #[inline]
    pub fn mark_dirty(&self, index: DoorbellIndex) -> bool {
        let Some(word) = self.dirty.get(index.0 as usize / WORD) else { return false };
        word.fetch_or(1 << (index.0 as usize % WORD), Ordering::Release);
        true
    }

    #[inline]
    fn cell(&self, index: DoorbellIndex) -> Option<&AtomicU32> {
        Some(&self.values.get(usize::from(index.queue()))?.values[usize::from(index.is_completion())])
    }

    /// The value of a doorbell; 0 if there is no such doorbell.
    #[inline]
    pub fn load(&self, index: DoorbellIndex) -> u32 {
        self.cell(index).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// Zeroes a doorbell, as when its queue is created. Also zeroes it in shared memory, where the value of an
    /// earlier queue could equal the first value of this one. The caller holds the run lock.
    pub fn reset(&self, index: DoorbellIndex) {
        if let Some(word) = self.shared_word(index) {
            word.store(0, atomic::Ordering::Relaxed);
        }
        self.store(index, 0);
    }

    /// Whether any dirty bit is set.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.dirty.iter().fold(0, |dirty, word| dirty | word.load(Ordering::Relaxed)) != 0
    }

    /// Clears all dirty bits; calls `rung` for each that was set, in register order.
    #[inline]
    pub fn take_dirty(&self, rung: impl FnMut(DoorbellIndex)) {
        // Relaxed load first: an atomic swap is needless if no bit is set. If it misses a bit, the caller that set it
        // has yet to acquire the run lock or set its pending bit.
        if self.is_dirty() {
            self.take_marks(rung);
        }
    }

    #[cold]
    fn take_marks(&self, mut rung: impl FnMut(DoorbellIndex)) {
        for (at, word) in self.dirty.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut dirty = word.swap(0, Ordering::Acquire);
            while dirty != 0 {
                rung(DoorbellIndex((at * WORD) as u32 + dirty.trailing_zeros()));
                dirty &= dirty - 1;
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
    fn ring_of_an_absent_doorbell_is_refused() {
        let doorbells = Doorbells::new(2);
        assert!(doorbells.ring(DoorbellIndex::completion(1), 1));
        // Its dirty bit would fall into an existing word.
        assert!(!doorbells.ring(DoorbellIndex::submission(2), 1));
        assert!(!doorbells.ring(DoorbellIndex::completion(u16::MAX), 1));
        assert_eq!(doorbells.load(DoorbellIndex::submission(2)), 0);
        assert_eq!(taken(&doorbells), [DoorbellIndex::completion(1)]);
    }

    #[test]
    fn a_stored_value_is_loaded_and_not_dirty() {
        let doorbells = Doorbells::new(1);
        doorbells.store(DoorbellIndex::submission(0), 9);
        assert!(!doorbells.is_dirty());
        assert_eq!(doorbells.load(DoorbellIndex::submission(0)), 9);
        doorbells.mark_dirty(DoorbellIndex::submission(0));
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
    fn shared_doorbells_are_taken_once_and_zeroed_by_a_reset() {
        let page: std::sync::Arc<Vec<_>> = std::sync::Arc::new((0..6).map(|_| Default::default()).collect());
        let doorbells = Doorbells::new(3).with_shared(Box::new(Page(page.clone())));
        let write = |place: usize, value: u32| page[place].store(value.to_le(), Ordering::Relaxed);
        write(1, 7);
        assert!(!doorbells.has_shared_tail(3, |_| true), "a new head alone is no work");
        write(4, 9);
        let has_shared_tail = |queues| doorbells.has_shared_tail(queues, |_| true);
        assert!(has_shared_tail(3) && !has_shared_tail(2));
        assert!(!doorbells.has_shared_tail(3, |queue| queue != 2), "a queue that another thread serves");
        let mut written = Vec::new();
        assert_eq!(doorbells.take_shared(3, |queue| queue != 2, |index| written.push(index.place())), 3);
        assert_eq!(written, [1], "values of queues served elsewhere are not copied");
        assert_eq!(doorbells.take_shared(usize::MAX, |_| true, |index| written.push(index.place())), 3);
        assert_eq!((written, has_shared_tail(3)), (vec![1, 4], false));
        assert_eq!(taken(&doorbells), [DoorbellIndex::submission(2)]);
        assert_eq!(doorbells.load(DoorbellIndex::completion(0)), 7);
        doorbells.reset(DoorbellIndex::submission(2));
        assert!(!has_shared_tail(3));
        doorbells.write(DoorbellIndex::submission(2), 9);
        let mut own = 0;
        doorbells.take_shared_of(2, |_| own += 1);
        assert_eq!((own, doorbells.is_dirty()), (1, false), "the serving thread needs no dirty bit");
        doorbells.reset(DoorbellIndex::submission(2));
        doorbells.write(DoorbellIndex::submission(2), 9);
        assert!(has_shared_tail(3), "after a reset the same value is new");
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
