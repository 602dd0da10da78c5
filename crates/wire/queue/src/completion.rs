//! The two halves of a completion queue.

use crate::ENTRY_BYTES;
use crate::memory::EntryMemory;
use crate::permit::{CompletionPermit, ResultPermit};
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
        let entry = self.peek()?;
        self.advance(1);
        Some(entry)
    }

    /// Goes past `entries` that were posted, at most as many as the ring has but one. The device may reuse their slots once the head
    /// doorbell is written.
    #[inline]
    pub fn advance(&mut self, entries: u32) {
        let next = self.ring.after(self.head, entries);
        if next < self.head {
            self.phase ^= PHASE;
        }
        self.head = next;
    }

    /// The next entry, if one is posted. It stays the next one.
    #[inline]
    pub fn peek(&self) -> Option<[u8; ENTRY_BYTES]> {
        self.is_ready().then(|| self.memory.read_entry(self.head))
    }

    /// The entry at `distance` behind the next one, if it is posted: part of a result. `None` also where the ring has no such entry.
    pub fn peek_behind(&self, distance: u32) -> Option<[u8; ENTRY_BYTES]> {
        if distance >= self.ring.size() {
            return None;
        }
        let index = self.ring.after(self.head, distance);
        let phase = if index < self.head { self.phase ^ PHASE } else { self.phase };
        (self.memory.load_phase_word(index) & PHASE == phase).then(|| self.memory.read_entry(index))
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

impl CompletionSlot {
    /// The slot at `distance` behind this one in a ring of `size`, less than the size.
    #[inline]
    #[must_use]
    pub fn behind(self, distance: u32, size: u32) -> Self {
        let to = u32::from(self.index) + distance;
        match to.checked_sub(size) {
            Some(wrapped) => Self { index: wrapped as u16, phase: !self.phase },
            None => Self { index: to as u16, phase: self.phase },
        }
    }
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

    /// Entries that a result may take behind a completion, where `waiting` commands are known that have no permit yet. The entry of
    /// every command that has a permit, or waits, stays free: so a result keeps none of them from completing.
    #[inline]
    pub fn room_for_result(&self, waiting: u32) -> u32 {
        self.ring.free().saturating_sub(self.granted.saturating_add(waiting))
    }

    /// Reserves entries for a result; `None` if there are fewer than [`room_for_result`](Self::room_for_result) says.
    #[inline]
    pub fn permit_result(&mut self, entries: u32, waiting: u32) -> Option<ResultPermit> {
        if entries > self.room_for_result(waiting) {
            return None;
        }
        self.granted += entries;
        Some(ResultPermit::grant(entries))
    }

    /// Uses the permits of a completion and of the result behind it; returns the slot and phase tag of the completion. Those of the
    /// entries follow: [`CompletionSlot::behind`].
    pub fn post_with_result(
        &mut self,
        permit: CompletionPermit,
        ResultPermit { entries }: ResultPermit,
    ) -> CompletionSlot {
        self.give_back(permit);
        self.granted -= entries;
        let slot = CompletionSlot { index: self.ring.tail(), phase: self.phase };
        self.ring.fill(1 + entries);
        if self.ring.tail() <= slot.index {
            self.phase = !self.phase;
        }
        slot
    }

    /// Entries from a slot on that are contiguous, of `entries`.
    #[inline]
    pub fn contiguous(&self, from: u16, entries: u32) -> u32 {
        self.ring.contiguous(from, entries).slots
    }

    /// The slot that a completion gets which is posted after `before` other entries.
    #[inline]
    pub fn index_after(&self, before: u32) -> u16 {
        self.ring.after(self.ring.tail(), before % self.ring.size())
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

    /// A step of a device or its host.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// The host announces a command.
        Announce,
        /// The device fetches a command.
        Fetch,
        /// The device ends a command with a result of so many entries, if there is room.
        End(u32),
        /// The host takes a completion with its result.
        Take,
        /// The host reports its head.
        Report,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Announce),
            Just(Step::Fetch),
            (0u32..6).prop_map(Step::End),
            Just(Step::Take),
            Just(Step::Report),
        ];
        prop::collection::vec(step, 0..300)
    }

    /// A device with its host, and a model of what is where.
    struct Pair {
        producer: CompletionProducer,
        consumer: CompletionConsumer<Entries>,
        size: u32,
        waiting: u32,
        permits: Vec<CompletionPermit>,
        /// Entries behind each completion that the host has not taken.
        posted: std::collections::VecDeque<u32>,
        unreported: u32,
        next: u32,
        expected: u32,
    }

    impl Pair {
        fn new(size: u32) -> Self {
            Self {
                producer: CompletionProducer::new(size).unwrap(),
                consumer: CompletionConsumer::new(size, Entries::new(size)).unwrap(),
                size,
                waiting: 0,
                permits: Vec::new(),
                posted: std::collections::VecDeque::new(),
                unreported: 0,
                next: 0,
                expected: 0,
            }
        }

        fn used(&self) -> u32 {
            self.unreported + self.posted.iter().map(|entries| 1 + entries).sum::<u32>()
        }

        /// A host that announces no more commands than the queue has entries for.
        fn announce(&mut self) {
            if self.used() + self.permits.len() as u32 + self.waiting < self.size - 1 {
                self.waiting += 1;
            }
        }

        fn fetch(&mut self) {
            if self.waiting > 0 {
                let permit = self.producer.permit().expect("an announced command has its entry");
                self.permits.push(permit);
                self.waiting -= 1;
            }
        }

        fn store(&mut self, slot: CompletionSlot) {
            self.consumer.memory().store(slot, self.next);
            self.next += 1;
        }

        fn end(&mut self, entries: u32) {
            let Some(permit) = self.permits.pop() else { return };
            let room = self.size - 1 - self.used() - 1 - self.permits.len() as u32 - self.waiting;
            let Some(result) = self.producer.permit_result(entries, self.waiting) else {
                assert!(entries > room, "{entries} entries are refused where {room} are free");
                let slot = self.producer.post(permit);
                self.store(slot);
                return self.posted.push_back(0);
            };
            assert!(entries <= room);
            let first = self.producer.post_with_result(permit, result);
            (0..=entries).for_each(|distance| self.store(first.behind(distance, self.size)));
            self.posted.push_back(entries);
        }

        fn take(&mut self) {
            let Some(entries) = self.posted.pop_front() else {
                assert!(self.consumer.take().is_none(), "an old entry is taken for a new one");
                return;
            };
            for distance in 0..=entries {
                let entry = self.consumer.peek_behind(distance).unwrap();
                assert_eq!(number(entry), self.expected + distance);
            }
            (0..=entries).for_each(|_| {
                assert_eq!(number(self.consumer.take().unwrap()), {
                    self.expected += 1;
                    self.expected - 1
                })
            });
            self.unreported += 1 + entries;
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Announce => self.announce(),
                Step::Fetch => self.fetch(),
                Step::End(entries) => self.end(entries),
                Step::Take => self.take(),
                Step::Report => {
                    self.producer.set_head(self.consumer.head().into()).unwrap();
                    self.unreported = 0;
                }
            }
            assert_eq!(self.producer.unread(), self.used());
        }
    }

    #[test]
    fn result_leaves_the_entries_of_granted_and_waiting_commands_free() {
        let mut producer = CompletionProducer::new(8).unwrap();
        let (first, _second) = (producer.permit().unwrap(), producer.permit().unwrap());
        assert_eq!(producer.room_for_result(0), 5);
        assert!(producer.permit_result(3, 3).is_none());
        let result = producer.permit_result(2, 3).unwrap();
        assert_eq!(producer.post_with_result(first, result), CompletionSlot { index: 0, phase: true });
        assert_eq!((producer.unread(), producer.granted(), producer.room_for_result(3)), (3, 1, 0));
    }

    #[test]
    fn entries_around_the_end_of_the_ring_have_the_tag_of_the_next_pass() {
        let mut producer = CompletionProducer::new(4).unwrap();
        for head in 1..=3 {
            let permit = producer.permit().unwrap();
            producer.post(permit);
            producer.set_head(head).unwrap();
        }
        let (permit, result) = (producer.permit().unwrap(), producer.permit_result(2, 0).unwrap());
        let slot = producer.post_with_result(permit, result);
        assert_eq!(slot, CompletionSlot { index: 3, phase: true });
        assert_eq!(slot.behind(2, 4), CompletionSlot { index: 1, phase: false });
        producer.set_head(2).unwrap();
        let permit = producer.permit().unwrap();
        assert_eq!(producer.post(permit), CompletionSlot { index: 2, phase: false });
    }

    proptest! {
        #[test]
        fn results_keep_no_command_from_its_completion(size in 2u32..12, steps in steps()) {
            let mut pair = Pair::new(size);
            steps.into_iter().for_each(|step| pair.step(step));
            // Whatever was announced is fetched and ended without another report of the head.
            (0..pair.waiting).for_each(|_| pair.fetch());
            (0..pair.permits.len()).for_each(|_| pair.end(3));
            (0..pair.posted.len()).for_each(|_| pair.take());
        }

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
