//! The two halves of a submission queue.

use crate::memory::SlotMemory;
use crate::permit::SlotPermit;
use crate::ring::{BadDoorbell, BadSize, Ring, Run};

/// The host's half: writes slots and publishes the tail.
///
/// Capacity is counted in slots, not commands: a command with an inline payload takes one slot for itself and one for
/// each chunk, and is granted all or none.
#[derive(Debug)]
pub struct SubmissionProducer<M> {
    ring: Ring,
    memory: M,
}

impl<M: SlotMemory> SubmissionProducer<M> {
    /// A producer for an empty ring of `size` slots in `memory`.
    ///
    /// # Errors
    /// A size outside [`Ring::SIZES`].
    pub fn new(size: u32, memory: M) -> Result<Self, BadSize> {
        Ok(Self { ring: Ring::new(size)?, memory })
    }

    /// Reserves slots for one command and its chunks; `None` if fewer are free.
    #[inline]
    pub fn reserve(&mut self, slots: u32) -> Option<SlotPermit<'_, M>> {
        SlotPermit::grant(&mut self.ring, &self.memory, slots)
    }

    /// Slots that can be reserved now.
    #[inline]
    pub fn free(&self) -> u32 {
        self.ring.free()
    }

    /// Slots of the ring, one more than it can hold.
    #[inline]
    pub fn size(&self) -> u32 {
        self.ring.size()
    }

    /// The value for the tail doorbell.
    #[inline]
    pub fn tail(&self) -> u16 {
        self.ring.tail()
    }

    /// Sets the head from a completion (SQHD): slots before it may be reused. Returns how many slots are freed.
    ///
    /// # Errors
    /// A head that this queue cannot have reached; nothing is freed.
    #[inline]
    pub fn freed_to(&mut self, sqhd: u16) -> Result<u32, BadDoorbell> {
        self.ring.set_head(sqhd.into())
    }

    /// The memory the slots are in.
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

/// The device's half: takes the tail from the doorbell and consumes slots.
///
/// It yields slot indexes only: the device reads the slots by bus address.
#[derive(Clone, Debug)]
pub struct SubmissionConsumer {
    ring: Ring,
}

impl SubmissionConsumer {
    /// A consumer of an empty ring.
    ///
    /// # Errors
    /// A size outside [`Ring::SIZES`].
    pub fn new(size: u32) -> Result<Self, BadSize> {
        Ok(Self { ring: Ring::new(size)? })
    }

    /// Sets the tail from the doorbell; returns how many slots it adds.
    ///
    /// # Errors
    /// A value outside the ring, or one that would overrun it. The queue is unchanged.
    #[inline]
    pub fn set_tail(&mut self, doorbell: u32) -> Result<u32, BadDoorbell> {
        self.ring.set_tail(doorbell)
    }

    /// Slots that can be consumed now.
    #[inline]
    pub fn available(&self) -> u32 {
        self.ring.used()
    }

    /// Slots of the ring, one more than it can hold.
    #[inline]
    pub fn size(&self) -> u32 {
        self.ring.size()
    }

    /// The slot `n` behind the head, `n` less than the size.
    #[inline]
    pub fn behind_head(&self, n: u32) -> u16 {
        self.ring.after(self.ring.head(), n)
    }

    /// The head that completions report (SQHD).
    #[inline]
    pub fn head(&self) -> u16 {
        self.ring.head()
    }

    /// The next slot, not consumed: a command whose chunks have not arrived is retried later.
    #[inline]
    pub fn front(&self) -> Option<u16> {
        if self.ring.is_empty() { None } else { Some(self.ring.head()) }
    }

    /// Consumes the next slot.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "a queue is not exhausted when it is empty")]
    pub fn next(&mut self) -> Option<u16> {
        let slot = self.front()?;
        self.ring.consume(1);
        Some(slot)
    }

    /// The contiguous slots to fetch in one burst: at most `max_slots`, from `offset` slots behind the head, up to
    /// the tail or the end of the ring. Consumes none.
    #[inline]
    pub fn run_from(&self, offset: u32, max_slots: u32) -> Run {
        let there = self.available();
        let offset = offset.min(there);
        let first = self.ring.after(self.ring.head(), offset);
        self.ring.contiguous(first, max_slots.min(there - offset))
    }

    /// Consumes `n` slots, as of a command and its chunks; false, and none is consumed, if fewer are available.
    #[inline]
    pub fn skip(&mut self, n: u32) -> bool {
        if n > self.available() {
            return false;
        }
        self.ring.consume(n);
        true
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::SLOT_BYTES;
    use std::cell::RefCell;

    /// Slots as a test sees them.
    struct Slots(RefCell<Vec<[u8; SLOT_BYTES]>>);

    impl SlotMemory for Slots {
        fn write_slot(&self, index: u16, bytes: &[u8; SLOT_BYTES]) {
            self.0.borrow_mut()[usize::from(index)] = *bytes;
        }
    }

    fn producer(size: u32) -> SubmissionProducer<Slots> {
        SubmissionProducer::new(size, Slots(RefCell::new(vec![[0xFF; SLOT_BYTES]; size as usize]))).unwrap()
    }

    fn submit(producer: &mut SubmissionProducer<Slots>, mark: u8, payload: &[u8]) -> Option<u16> {
        let mut permit = producer.reserve(1 + payload.len().div_ceil(SLOT_BYTES) as u32)?;
        assert!(permit.write(&[mark; SLOT_BYTES]));
        assert!(permit.write_chunks(payload));
        Some(permit.commit())
    }

    #[test]
    fn slots_not_commands_bound_the_ring() {
        let mut producer = producer(8);
        assert_eq!(submit(&mut producer, 1, &[7; 130]), Some(4));
        assert_eq!(submit(&mut producer, 2, &[7; 130]), None);
        assert_eq!(producer.free(), 3);
        assert_eq!(submit(&mut producer, 2, &[7; 128]), Some(7));
        assert_eq!(submit(&mut producer, 3, &[]), None);
        assert_eq!(producer.freed_to(4), Ok(4));
        assert_eq!(submit(&mut producer, 3, &[]), Some(0));
    }

    #[test]
    fn a_permit_that_is_dropped_leaves_the_tail() {
        let mut producer = producer(8);
        let mut permit = producer.reserve(3).unwrap();
        assert!(permit.write(&[1; SLOT_BYTES]));
        drop(permit);
        assert_eq!((producer.tail(), producer.free()), (0, 7));
    }

    #[test]
    fn chunks_wrap_around_the_end_and_the_last_is_padded() {
        let mut producer = producer(4);
        submit(&mut producer, 1, &[]).unwrap();
        submit(&mut producer, 2, &[]).unwrap();
        producer.freed_to(2).unwrap();
        assert_eq!(submit(&mut producer, 3, &[9; 65]), Some(1));
        let slots = producer.memory().0.borrow();
        assert_eq!((slots[2], slots[3]), ([3; SLOT_BYTES], [9; SLOT_BYTES]));
        assert_eq!((slots[0][0], slots[0][1], slots[0][63]), (9, 0, 0));
    }

    #[test]
    fn a_payload_larger_than_its_permit_is_not_begun() {
        let mut producer = producer(8);
        let mut permit = producer.reserve(2).unwrap();
        assert!(permit.write(&[1; SLOT_BYTES]));
        assert!(!permit.write_chunks(&[2; 65]));
        assert_eq!(permit.left(), 1);
        assert!(permit.write_chunks(&[2; 64]));
        assert!(!permit.write(&[3; SLOT_BYTES]));
        assert_eq!(permit.commit(), 2);
    }

    #[test]
    fn a_head_that_was_never_reached_frees_nothing() {
        let mut producer = producer(8);
        submit(&mut producer, 1, &[0; 64]).unwrap();
        for sqhd in [3, 7, 8, u16::MAX] {
            assert!(producer.freed_to(sqhd).is_err(), "{sqhd}");
        }
        assert_eq!(producer.free(), 5);
    }

    #[test]
    fn a_burst_stops_at_the_tail_and_at_the_end_of_the_ring() {
        let mut consumer = SubmissionConsumer::new(8).unwrap();
        consumer.set_tail(6).unwrap();
        assert!(consumer.skip(5));
        consumer.set_tail(3).unwrap();
        assert_eq!(consumer.available(), 6);
        assert_eq!(consumer.run_from(1, 8), Run { first: 6, slots: 2 });
        assert_eq!(consumer.run_from(1, 1), Run { first: 6, slots: 1 });
        assert_eq!(consumer.run_from(3, 8), Run { first: 0, slots: 3 });
        assert_eq!(consumer.run_from(9, 8).slots, 0);
    }

    #[test]
    fn a_command_whose_chunks_are_missing_stays_at_the_front() {
        let mut consumer = SubmissionConsumer::new(8).unwrap();
        consumer.set_tail(2).unwrap();
        assert!(!consumer.skip(3));
        assert_eq!((consumer.front(), consumer.head()), (Some(0), 0));
        consumer.set_tail(3).unwrap();
        assert!(consumer.skip(3));
        assert_eq!((consumer.front(), consumer.next(), consumer.head()), (None, None, 3));
    }
}
