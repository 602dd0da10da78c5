//! Ring arithmetic: the one place where indexes wrap.

/// A ring's head and tail (NVMe Base, "Queue Operational Model"): empty when they are equal, full when the tail is
/// one slot behind the head, so it holds one slot less than its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    size: u32,
    head: u32,
    tail: u32,
}

/// Contiguous slots: they do not wrap around the end of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first slot.
    pub first: u16,
    /// Number of slots; may be 0.
    pub slots: u32,
}

/// An invalid queue size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a queue of {0} entries: expected 2 to 65536")]
pub struct BadSize(pub u32);

/// An invalid head or tail from the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDoorbell {
    /// An index outside the ring.
    #[error("index {value} in a queue of {size} entries")]
    OutOfRange {
        /// The value received.
        value: u32,
        /// Entries in the ring.
        size: u32,
    },
    /// More slots filled than were free.
    #[error("tail {value} adds {added} entries where {free} are free")]
    Overrun {
        /// The value received.
        value: u32,
        /// Slots it would fill.
        added: u32,
        /// Slots that are free.
        free: u32,
    },
    /// More slots freed than were filled.
    #[error("head {value} removes {removed} entries where {used} are there")]
    Underrun {
        /// The value received.
        value: u32,
        /// Slots it would free.
        removed: u32,
        /// Slots that are filled.
        used: u32,
    },
}

impl Ring {
    /// The sizes a queue may have.
    pub const SIZES: std::ops::RangeInclusive<u32> = 2..=65_536;

    /// An empty ring.
    ///
    /// # Errors
    /// A size outside of [`Ring::SIZES`].
    pub fn new(size: u32) -> Result<Self, BadSize> {
        if Self::SIZES.contains(&size) { Ok(Self { size, head: 0, tail: 0 }) } else { Err(BadSize(size)) }
    }

    /// Slots of the ring, one more than it can hold.
    #[inline]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The slot that is consumed next.
    #[inline]
    pub const fn head(&self) -> u16 {
        self.head as u16
    }

    /// The slot that is filled next.
    #[inline]
    pub const fn tail(&self) -> u16 {
        self.tail as u16
    }

    /// Slots that are filled.
    #[inline]
    pub const fn used(&self) -> u32 {
        self.distance(self.head, self.tail)
    }

    /// Slots that can be filled.
    #[inline]
    pub const fn free(&self) -> u32 {
        self.size - 1 - self.used()
    }

    /// Whether nothing is there to consume.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The slot `n` after `from`; `n` is less than the size.
    #[inline]
    pub const fn after(&self, from: u16, n: u32) -> u16 {
        let to = from as u32 + n;
        (if to >= self.size { to - self.size } else { to }) as u16
    }

    /// The first of `n` slots from `from`, up to the end of the ring.
    #[inline]
    pub const fn contiguous(&self, from: u16, n: u32) -> Run {
        let until_end = self.size - from as u32;
        Run { first: from, slots: if n < until_end { n } else { until_end } }
    }

    /// Advances the tail by up to `n` slots; returns how many, which is less than `n` only if fewer were free.
    #[inline(always)]
    pub fn fill(&mut self, n: u32) -> u32 {
        let filled = n.min(self.free());
        self.tail = self.after(self.tail(), filled).into();
        filled
    }

    /// Advances the head by up to `n` slots; returns how many, which is less than `n` only if fewer were filled.
    #[inline]
    pub fn consume(&mut self, n: u32) -> u32 {
        let consumed = n.min(self.used());
        self.head = self.after(self.head(), consumed).into();
        consumed
    }

    /// Sets the tail to the producer's value; returns how many slots that fills.
    ///
    /// An unchanged tail fills none: the device reads the doorbell's value, so it cannot see that it was written
    /// twice.
    ///
    /// # Errors
    /// An index outside of the ring, or past its head. The ring is unchanged.
    #[inline]
    pub fn set_tail(&mut self, value: u32) -> Result<u32, BadDoorbell> {
        let (size, free) = (self.size, self.free());
        if value >= size {
            return Err(BadDoorbell::OutOfRange { value, size });
        }
        let added = self.distance(self.tail, value);
        if added > free {
            return Err(BadDoorbell::Overrun { value, added, free });
        }
        self.tail = value;
        Ok(added)
    }

    /// Sets the head to the consumer's value; returns how many slots that frees.
    ///
    /// # Errors
    /// An index outside of the ring, or past its tail. The ring is unchanged.
    #[inline]
    pub fn set_head(&mut self, value: u32) -> Result<u32, BadDoorbell> {
        let (size, used) = (self.size, self.used());
        if value >= size {
            return Err(BadDoorbell::OutOfRange { value, size });
        }
        let removed = self.distance(self.head, value);
        if removed > used {
            return Err(BadDoorbell::Underrun { value, removed, used });
        }
        self.head = value;
        Ok(removed)
    }

    /// Steps forward from one index to another.
    #[inline]
    const fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to + self.size - from }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn a_ring_has_from_two_to_65536_slots() {
        for size in [0, 1, 65_537, u32::MAX] {
            assert_eq!(Ring::new(size), Err(BadSize(size)));
        }
        for size in [2, 3, 65_536] {
            assert_eq!(Ring::new(size).unwrap().free(), size - 1);
        }
    }

    #[test]
    fn the_largest_ring_wraps_at_its_last_index() {
        let mut ring = Ring::new(65_536).unwrap();
        assert_eq!(ring.fill(70_000), 65_535);
        assert_eq!(ring.tail(), 65_535);
        assert_eq!(ring.consume(65_535), 65_535);
        assert_eq!(ring.fill(2), 2);
        assert_eq!((ring.head(), ring.tail(), ring.used()), (65_535, 1, 2));
    }

    #[test]
    fn a_tail_past_the_head_is_refused_and_changes_nothing() {
        let mut ring = Ring::new(4).unwrap();
        assert_eq!(ring.set_tail(2), Ok(2));
        let before = ring;
        assert_eq!(ring.set_tail(4), Err(BadDoorbell::OutOfRange { value: 4, size: 4 }));
        assert_eq!(ring.set_tail(1), Err(BadDoorbell::Overrun { value: 1, added: 3, free: 1 }));
        assert_eq!(ring.set_head(3), Err(BadDoorbell::Underrun { value: 3, removed: 3, used: 2 }));
        assert_eq!(ring, before);
        assert_eq!(ring.set_tail(2), Ok(0));
    }

    /// What a test does to a ring.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Fill(u32),
        Consume(u32),
        Tail(u32),
        Head(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0u32..12).prop_map(Step::Fill),
            (0u32..12).prop_map(Step::Consume),
            (0u32..12).prop_map(Step::Tail),
            (0u32..12).prop_map(Step::Head),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// Model of a ring: a queue of slot numbers, without index arithmetic.
    struct Model {
        size: u32,
        next: u32,
        filled: VecDeque<u32>,
    }

    impl Model {
        fn fill(&mut self, n: u32) -> u32 {
            let filled = n.min(self.size - 1 - self.filled.len() as u32);
            for _ in 0..filled {
                self.filled.push_back(self.next);
                self.next = (self.next + 1) % self.size;
            }
            filled
        }

        fn consume(&mut self, n: u32) -> u32 {
            let consumed = n.min(self.filled.len() as u32);
            self.filled.drain(..consumed as usize);
            consumed
        }

        fn head(&self) -> u32 {
            self.filled.front().copied().unwrap_or(self.next)
        }

        /// How many fills, if any, bring the tail to `value`.
        fn fills_to(&self, value: u32) -> Option<u32> {
            (0..self.size - self.filled.len() as u32).find(|n| (self.next + n) % self.size == value)
        }

        fn consumes_to(&self, value: u32) -> Option<u32> {
            (0..=self.filled.len() as u32).find(|n| (self.head() + n) % self.size == value)
        }
    }

    proptest! {
        #[test]
        fn a_ring_is_a_queue_of_slot_numbers(size in 2u32..10, steps in steps()) {
            let mut ring = Ring::new(size).unwrap();
            let mut model = Model { size, next: 0, filled: VecDeque::new() };
            for step in steps {
                match step {
                    Step::Fill(n) => prop_assert_eq!(ring.fill(n), model.fill(n)),
                    Step::Consume(n) => prop_assert_eq!(ring.consume(n), model.consume(n)),
                    Step::Tail(value) => {
                        let fills = model.fills_to(value);
                        prop_assert_eq!(ring.set_tail(value).ok(), fills);
                        model.fill(fills.unwrap_or(0));
                    }
                    Step::Head(value) => {
                        let consumes = model.consumes_to(value);
                        prop_assert_eq!(ring.set_head(value).ok(), consumes);
                        model.consume(consumes.unwrap_or(0));
                    }
                }
                prop_assert_eq!(ring.used(), model.filled.len() as u32);
                prop_assert_eq!(ring.used() + ring.free(), size - 1);
                prop_assert_eq!(u32::from(ring.head()), model.head());
                prop_assert_eq!(u32::from(ring.tail()), model.next);
            }
        }

        #[test]
        fn two_runs_cover_what_a_wrap_splits(size in 2u32..300, from in 0u32..300, n in 0u32..300) {
            let (from, n) = ((from % size) as u16, n % size);
            let ring = Ring::new(size).unwrap();
            let first = ring.contiguous(from, n);
            let second = ring.contiguous(ring.after(from, first.slots), n - first.slots);
            let slots: Vec<u32> = [first, second].iter()
                .flat_map(|run| (0..run.slots).map(|slot| u32::from(run.first) + slot)).collect();
            let expected: Vec<u32> = (0..n).map(|slot| (u32::from(from) + slot) % size).collect();
            prop_assert_eq!(slots, expected);
        }
    }
}
