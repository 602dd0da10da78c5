//! Sequence numbers of records that compaction moves.
//!
//! A moved record has a number above that of its old copy and below those of newer records of its key. Threads store by leases while
//! it is moved, and the engine does not know their records yet. So its number is one of a range that was set aside while no record
//! waited to be taken in: what threads store after that has a higher one (decision 0077).

use std::ops::Range;

use crate::engine::KvEngine;
use crate::engine::compaction::Budget;
use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::record::RECORD_HEADER_BYTES;

/// Sequence numbers reserved for moved records.
#[derive(Default)]
pub(crate) struct ReservedSeqs(Range<u64>);

impl ReservedSeqs {
    /// Whether there are `count` numbers above `seq`.
    fn has(&self, count: u64, seq: u64) -> bool {
        self.0.start > seq && self.0.end - self.0.start >= count
    }
}

impl KvEngine {
    /// Has numbers for all records that a slice may move. Recalls leases where new ones are needed: once for each memtable.
    pub(super) fn reserve_numbers<S: PageStore>(&mut self, store: &mut S, budget: &Budget) {
        let by_bytes = budget.bytes / RECORD_HEADER_BYTES as u64 + 2;
        let count = by_bytes.min(u64::from(budget.records) + 2);
        // A checkpoint covers lower numbers: a replay would take such a record for one that is in a run.
        if self.compaction.reserved_seqs.has(count, self.index.checkpoint_seq()) {
            return;
        }
        self.take_in(store);
        let (first, most) = (self.next_seq.get(), self.index.most_entries() as u64);
        let numbers = first..first + count.max(most);
        self.next_seq.pass(numbers.end - 1);
        self.compaction.reserved_seqs = ReservedSeqs(numbers);
    }

    /// The number of the next record that is moved.
    ///
    /// # Errors
    /// [`KvError::NoNumberLeft`]: a number of later stores would hide what threads stored meanwhile.
    pub(super) fn moved_number(&mut self) -> Result<u64, KvError> {
        self.compaction.reserved_seqs.0.next().ok_or(KvError::NoNumberLeft)
    }
}
