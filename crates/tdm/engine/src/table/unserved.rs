//! Opens of files that can have no entry, counted by reason.

use std::sync::atomic::{AtomicU64, Ordering};

use byway_tdm_policy::Reason;

use crate::table::file_table::FileTable;
use crate::table::layout::front;

/// Reasons counted.
const REASONS: [Reason; 2] = [Reason::OtherOwner, Reason::NoBirthTime];

impl FileTable {
    /// Counts an open for writing.
    pub fn count_unserved(&self, why: Reason) {
        let counter =
            REASONS.iter().position(|reason| *reason == why).and_then(|place| self.unserved_word(place));
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts that are not zero.
    pub fn unserved(&self) -> impl Iterator<Item = (Reason, u64)> {
        let opens = |place| self.unserved_word(place).map_or(0, |word| word.load(Ordering::Relaxed));
        let all = REASONS.into_iter().enumerate().map(move |(place, why)| (why, opens(place)));
        all.filter(|(_, opens)| *opens > 0)
    }

    fn unserved_word(&self, place: usize) -> Option<&AtomicU64> {
        self.word(front::UNSERVED + place * 8).ok()
    }
}
