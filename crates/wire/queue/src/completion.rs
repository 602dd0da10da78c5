//! The two halves of a completion queue.

use crate::ENTRY_BYTES;
use crate::memory::EntryMemory;
use crate::permit::CompletionPermit;
use crate::ring::{BadDoorbell, BadSize, Ring};

/// The phase tag in the last word of an entry (NVMe Base, completion queue entry, DW3).
const PHASE: u32 = 1 << 16;

/// The host's half: detects new entries by their phase tag and tracks the head.
#[derive(Debug)]
pub struct CompletionConsumer<M> {
    memory: M,
    ring: Ring,
    head: u16,
    /// The phase tag of a new entry: inverted at each wrap, so that entries of the last round look old.
    phase: u32,
}

impl<M: EntryMemory> CompletionConsumer<M> {
    /// A consumer of a ring of `size` entries in zeroed `memory`.
    ///
    /// # Errors
    /// A size outside [`Ring::SIZES`].
    pub fn new(size: u32, memory: M) -> Result<Self, BadSize> {
        Ok(Self { memory, ring: Ring::new(size)?, head: 0, phase: PHASE })
    }

    /// Whether a new entry has been posted.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.memory.load_phase_word(self.head) & PHASE == self.phase
    }

    /// Takes the next entry, if one is posted. The device may reuse its slot once the head doorbell is written.
    #[inline]
    pub fn take(&mut self) -> Option<[u8; ENTRY_BYTES]> {
        if !self.is_ready() {
            return None;
        }
        let entry = self.memory.read_entry(self.head);
        self.head = self.ring.after(self.head, 1);
        if self.head == 0 {
            self.phase ^= PHASE;
        }
        Some(entry)
    }

    /// The value for the head doorbell.
    #[inline]
    pub fn head(&self) -> u16 {
        self.head
    }

    /// The memory the entries are in.
    pub fn memory(&self) -> &M {
        &self.memory
    }
}

/// The slot and phase tag of one completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionSlot {
    /// The entry's index.
    pub index: u16,
    /// The phase tag that marks the entry as new.
    pub phase: bool,
}

/// The device's half: grants permits, assigns slots, and takes the head from the doorbell.
///
/// A command without a time limit, such as an asynchronous event request, takes its permit when it completes. All
/// others take theirs before they start.
#[derive(Debug)]
pub struct CompletionProducer {
    ring: Ring,
    granted: u32,
    phase: bool,
}

impl CompletionProducer {
    /// A producer for an empty ring.
    ///
    /// # Errors
    /// A size outside [`Ring::SIZES`].
    pub fn new(size: u32) -> Result<Self, BadSize> {
        Ok(Self { ring: Ring::new(size)?, granted: 0, phase: true })
    }

    /// Reserves an entry for a command; `None` if the queue could be full when the command completes.
    #[inline]
    pub fn permit(&mut self) -> Option<CompletionPermit> {
        if self.granted >= self.ring.free() {
            return None;
        }
        self.granted += 1;
        Some(CompletionPermit::grant())
    }

    /// Uses a permit; returns the slot and phase tag for one completion.
    #[inline]
    pub fn post(&mut self, permit: CompletionPermit) -> CompletionSlot {
        self.give_back(permit);
        let slot = CompletionSlot { index: self.ring.tail(), phase: self.phase };
        self.ring.fill(1);
        if self.ring.tail() == 0 {
            self.phase = !self.phase;
        }
        slot
    }

    /// Returns the permit of a command that will not complete.
    #[inline]
    pub fn give_back(&mut self, CompletionPermit { .. }: CompletionPermit) {
        self.granted -= 1;
    }

    /// Sets the head from the doorbell; returns how many entries it frees.
    ///
    /// # Errors
    /// A value outside the ring, or past the posted entries. The queue is unchanged.
    #[inline]
    pub fn set_head(&mut self, doorbell: u32) -> Result<u32, BadDoorbell> {
        self.ring.set_head(doorbell)
    }

    /// Entries posted and not yet freed by the host's head doorbell.
    #[inline]
    pub fn unread(&self) -> u32 {
        self.ring.used()
    }

    /// Permits granted and not yet used or returned.
    #[inline]
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Entries of the ring, one more than it can hold.
    #[inline]
    pub fn size(&self) -> u32 {
        self.ring.size()
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    /// Completion number and phase word of each entry.
    struct Entries(RefCell<Vec<(u32, u32)>>);

    impl Entries {
        fn new(size: u32) -> Self {
            Self(RefCell::new(vec![(0, 0); size as usize]))
        }

        fn store(&self, slot: CompletionSlot, number: u32) {
            self.0.borrow_mut()[usize::from(slot.index)] = (number, u32::from(slot.phase) << 16);
        }
    }

    impl EntryMemory for Entries {
        fn load_phase_word(&self, index: u16) -> u32 {
            self.0.borrow()[usize::from(index)].1
        }

        fn read_entry(&self, index: u16) -> [u8; ENTRY_BYTES] {
            let mut bytes = [0; ENTRY_BYTES];
            bytes[..4].copy_from_slice(&self.0.borrow()[usize::from(index)].0.to_le_bytes());
            bytes
        }
    }

    fn number(entry: [u8; ENTRY_BYTES]) -> u32 {
        u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])
    }

    #[test]
    fn a_queue_grants_no_more_permits_than_entries_it_can_hold() {
        let mut producer = CompletionProducer::new(3).unwrap();
        let first = producer.permit().unwrap();
        let second = producer.permit().unwrap();
        assert!(producer.permit().is_none());
        producer.post(first);
        assert!(producer.permit().is_none(), "the host has not taken the entry");
        producer.give_back(second);
        assert!(producer.permit().is_some());
    }

    #[test]
    fn an_entry_is_free_again_only_by_the_head_doorbell() {
        let mut producer = CompletionProducer::new(2).unwrap();
        let permit = producer.permit().unwrap();
        assert_eq!(producer.post(permit), CompletionSlot { index: 0, phase: true });
        assert!(producer.permit().is_none());
        assert_eq!(producer.set_head(1), Ok(1));
        let permit = producer.permit().unwrap();
        assert_eq!(producer.post(permit), CompletionSlot { index: 1, phase: true });
        producer.set_head(0).unwrap();
        let permit = producer.permit().unwrap();
        assert_eq!(producer.post(permit), CompletionSlot { index: 0, phase: false });
    }

    #[test]
    fn a_head_past_the_posted_entries_is_refused() {
        let mut producer = CompletionProducer::new(4).unwrap();
        let permit = producer.permit().unwrap();
        producer.post(permit);
        assert!(matches!(producer.set_head(2), Err(BadDoorbell::Underrun { .. })));
        assert!(matches!(producer.set_head(4), Err(BadDoorbell::OutOfRange { .. })));
        assert_eq!(producer.unread(), 1);
    }

    proptest! {
        #[test]
        fn every_completion_is_taken_once_and_in_order(size in 2u32..6, posts in prop::collection::vec(0u32..6, 0..60)) {
            let mut producer = CompletionProducer::new(size).unwrap();
            let mut consumer = CompletionConsumer::new(size, Entries::new(size)).unwrap();
            let (mut posted, mut taken) = (0, 0);
            for burst in posts {
                for _ in 0..burst {
                    let Some(permit) = producer.permit() else { break };
                    posted += 1;
                    let slot = producer.post(permit);
                    consumer.memory().store(slot, posted);
                }
                while let Some(entry) = consumer.take() {
                    taken += 1;
                    prop_assert_eq!(number(entry), taken);
                }
                prop_assert_eq!(taken, posted);
                producer.set_head(consumer.head().into()).unwrap();
            }
        }
    }
}
