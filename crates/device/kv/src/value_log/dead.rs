//! Which records of a segment are dead: remembered as they die, so that compaction need not ask the index.
//!
//! Whatever takes a record off the counts of what is alive notes where it began. In a segment that was taken since the
//! engine was opened that is all of them: a record there that is not noted is the newest of its key, but for what the
//! memtables have not settled yet. Of other segments nothing is known, and of one whose notes found no room: those
//! are asked for in the index, and so are the segments of windows into which a host writes what it likes. Those that a window's
//! stream takes while threads append to it by a lease are like any other.
//!
//! Notes are offsets as long as they are few, then a bit for every place where a record may begin.

use byway_sys::cacheline::prefetch;

use crate::value_log::record::RECORD_HEADER_BYTES;

/// Bytes of a segment for each bit: no two records begin in one such stretch.
const STRETCH_BYTES: usize = 16;
const _: () = assert!(RECORD_HEADER_BYTES >= STRETCH_BYTES);

/// What is known of one segment.
enum Notes {
    /// Some of its dead records may not be noted.
    None,
    /// Offsets of all that are dead.
    Few(Vec<u32>),
    /// A bit for each stretch.
    Many(Vec<u64>),
}

impl Notes {
    fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Few(offsets) => size_of_val(offsets.as_slice()),
            Self::Many(words) => size_of_val(words.as_slice()),
        }
    }
}

/// Dead records of all segments, within a budget.
pub(crate) struct Dead {
    segments: Vec<Notes>,
    segment_shift: u32,
    bytes: usize,
    budget_bytes: usize,
}

impl Dead {
    /// Nothing is known of any segment, and there is no room for notes until [`limit`](Self::limit) gives some.
    pub(crate) fn new(segments: usize, segment_shift: u32) -> Self {
        let segments = (0..segments).map(|_| Notes::None).collect();
        Self { segments, segment_shift, bytes: 0, budget_bytes: 0 }
    }

    /// Sets the limit of the notes, in bytes of RAM.
    pub(crate) fn limit(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
    }

    /// RAM that notes take.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.bytes
    }

    /// A segment begins anew: every record of it that dies from now on is noted.
    pub(crate) fn begin(&mut self, segment: u32) {
        self.set(segment as usize, Notes::Few(Vec::new()));
    }

    /// Nothing is known of a segment any more.
    pub(crate) fn forget(&mut self, segment: u32) {
        self.set(segment as usize, Notes::None);
    }

    /// Drops the notes of all segments.
    pub(crate) fn clear(&mut self) {
        self.segments.fill_with(|| Notes::None);
        self.bytes = 0;
    }

    /// Notes that the record at an address is dead.
    #[inline]
    pub(crate) fn note(&mut self, address: u64) {
        let (segment, offset) = self.place(address);
        let most_offsets = self.words() * 2;
        match self.segments.get_mut(segment) {
            Some(Notes::Few(offsets)) if offsets.len() < most_offsets => {
                offsets.push(offset as u32);
                self.bytes += size_of::<u32>();
            }
            Some(Notes::Many(words)) => set_bit(words, offset),
            Some(Notes::Few(_)) => {
                self.spread(segment);
                self.note(address);
            }
            Some(Notes::None) | None => return,
        }
        if self.bytes > self.budget_bytes {
            self.set(segment, Notes::None);
        }
    }

    /// Whether every dead record of the segment of an address is noted.
    #[inline]
    pub(crate) fn knows(&self, address: u64) -> bool {
        !matches!(self.segments.get(self.place(address).0), None | Some(Notes::None))
    }

    /// Whether the record at an address was noted.
    #[inline]
    pub(crate) fn holds(&self, address: u64) -> bool {
        let (segment, offset) = self.place(address);
        match self.segments.get(segment) {
            Some(Notes::Few(offsets)) => is_among(offsets, offset as u32),
            Some(Notes::Many(words)) => {
                let stretch = offset / STRETCH_BYTES;
                words.get(stretch / 64).is_some_and(|word| word >> (stretch % 64) & 1 == 1)
            }
            None | Some(Notes::None) => false,
        }
    }

    /// Prefetches the note of the record at `address`, before it is marked dead.
    #[inline]
    pub(crate) fn prefetch_note(&self, address: u64) {
        let (segment, offset) = self.place(address);
        match self.segments.get(segment) {
            Some(Notes::Few(offsets)) => prefetch(offsets, offsets.len()),
            Some(Notes::Many(words)) => prefetch(words, offset / STRETCH_BYTES / 64),
            None | Some(Notes::None) => {}
        }
    }

    /// Spreads the notes of a segment into a bitmap: compaction will look up each of its records.
    pub(crate) fn prepare_scan(&mut self, segment: u32) {
        if matches!(self.segments.get(segment as usize), Some(Notes::Few(_))) {
            self.spread(segment as usize);
        }
    }

    #[inline]
    fn place(&self, address: u64) -> (usize, usize) {
        let within = address & ((1 << self.segment_shift) - 1);
        ((address >> self.segment_shift) as usize, within as usize)
    }

    /// Words of the bits of a segment.
    #[inline]
    fn words(&self) -> usize {
        ((1 << self.segment_shift) / STRETCH_BYTES).div_ceil(64)
    }

    /// Turns the offsets of a segment into bits.
    fn spread(&mut self, segment: usize) {
        let mut words = vec![0; self.words()];
        if let Some(Notes::Few(offsets)) = self.segments.get(segment) {
            offsets.iter().for_each(|offset| set_bit(&mut words, *offset as usize));
            self.set(segment, Notes::Many(words));
        }
    }

    fn set(&mut self, segment: usize, notes: Notes) {
        let Some(held) = self.segments.get_mut(segment) else { return };
        self.bytes = self.bytes - held.bytes() + notes.bytes();
        *held = notes;
    }
}

/// Many are compared at once before anyone asks whether one was the same.
#[inline]
fn is_among(offsets: &[u32], offset: u32) -> bool {
    let (blocks, rest) = offsets.as_chunks::<64>();
    blocks.iter().any(|block| block.iter().fold(false, |any, held| any | (*held == offset)))
        || rest.iter().fold(false, |any, held| any | (*held == offset))
}

#[inline]
fn set_bit(words: &mut [u64], offset: usize) {
    let stretch = offset / STRETCH_BYTES;
    if let Some(word) = words.get_mut(stretch / 64) {
        *word |= 1 << (stretch % 64);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const SHIFT: u32 = 12;

    #[derive(Clone, Debug)]
    enum Step {
        Begin(u32),
        Forget(u32),
        Note(u64),
        PrepareScan(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => (0u32..4).prop_map(Step::Begin),
            1 => (0u32..4).prop_map(Step::Forget),
            40 => (0u64..5 * 4096 / 21).prop_map(|record| Step::Note(record * 21)),
            1 => (0u32..4).prop_map(Step::PrepareScan),
        ]
    }

    proptest! {
        /// A segment that is known has exactly what was noted of it since it began, within the budget.
        #[test]
        fn notes_are_all_there_or_said_to_be_missing(
            steps in proptest::collection::vec(step(), 1..800),
            budget in 0usize..3000,
        ) {
            let (mut dead, mut model) = (Dead::new(4, SHIFT), BTreeMap::<u32, BTreeSet<u64>>::new());
            dead.limit(budget);
            for step in steps {
                match step {
                    Step::Begin(segment) => {
                        dead.begin(segment);
                        model.insert(segment, BTreeSet::new());
                    }
                    Step::Forget(segment) => {
                        dead.forget(segment);
                        model.remove(&segment);
                        prop_assert!(!dead.knows(u64::from(segment) << SHIFT));
                    }
                    Step::Note(address) => {
                        dead.note(address);
                        if let Some(noted) = model.get_mut(&((address >> SHIFT) as u32)) {
                            noted.insert(address);
                        }
                    }
                    Step::PrepareScan(segment) => dead.prepare_scan(segment),
                }
                let held: usize = dead.segments.iter().map(Notes::bytes).sum();
                prop_assert_eq!(held, dead.ram_bytes());
            }
            for address in (0..5 * 4096 / 21).map(|record| record * 21) {
                let noted = model.get(&((address >> SHIFT) as u32));
                prop_assert!(!dead.knows(address) || noted.is_some());
                prop_assert!(!dead.knows(address) || dead.holds(address) == noted.unwrap().contains(&address));
            }
        }
    }

    #[test]
    fn every_dead_note_is_kept_within_the_limit() {
        let mut dead = Dead::new(2, SHIFT);
        dead.limit(2 * 4096 / 128);
        (0..2).for_each(|segment| dead.begin(segment));
        (0..2 * 4096).step_by(21).for_each(|address| dead.note(address));
        assert!((0..2 * 4096).step_by(21).all(|address| dead.knows(address) && dead.holds(address)));
        assert_eq!(dead.ram_bytes(), 2 * 4096 / 128);
    }

    #[test]
    fn few_dead_records_in_a_long_segment_are_found_exactly() {
        let mut dead = Dead::new(1, 20);
        dead.limit(1 << 20);
        dead.begin(0);
        let noted = |n: u64| n * 1060 % (1 << 20);
        (0..300).for_each(|n| dead.note(noted(n)));
        assert!((0..300).all(|n| dead.holds(noted(n))));
        assert!((300..900).all(|n| !dead.holds(noted(n))));
    }
}
