//! What stores and deletions did, and the most that the next one may do.

use crate::engine::KvEngine;
use crate::reserve::CHARGE_LEAST_BYTES;
use crate::value_log::record::PREAMBLE_MAX_BYTES;
use crate::work::Work;

/// Most work of a store or a deletion beside what is in proportion to its own length and to the number of runs: steps of flushes and
/// merges, before the record and after it, and two slices of compaction.
const LEAST: Work = Work {
    pages_read: 512,
    pages_written: 48,
    pages_trimmed: 512,
    entries: 4096,
    records: 512,
    rows: ROWS_SWEPT,
};
/// Times that the segment table is gone over: for flushes and cuts of merges that end, and for the victims of two slices.
const ROWS_SWEPT: u32 = 16;
/// Most for each page of its own record, that one included: compaction of up to four times its bytes, which is scanned and half of
/// it moved, reading what it moves twice; and of the index what so many bytes made necessary.
const PER_PAGE: Work = Work {
    pages_read: 12,
    pages_written: 5,
    pages_trimmed: 24,
    entries: 512,
    records: 320,
    rows: ROWS_SWEPT,
};
/// Pages read at most for each run: a caller that may read no more pages goes on to the same key in all of them, in each from the root
/// down. Three steps do, two records that are asked for, and four entries that are settled near the capacity.
const PAGES_PER_RUN: u32 = 18;

/// Times that all of a namespace is gone through by a store that waits.
const TIMES_ALL: u64 = 2;

/// What stores and deletions did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    last: Work,
    most: Work,
}

impl KvEngine {
    /// What the last store or deletion did.
    #[must_use]
    pub fn last_work(&self) -> Work {
        self.longest.last
    }

    /// The most that one store or deletion did since the engine was opened: of each kind of work, whichever command it was.
    #[must_use]
    pub fn most_work(&self) -> Work {
        self.longest.most
    }

    /// The most that the next store of so many value bytes may do, or a deletion (0), of each kind of work, while it does not have to wait: where
    /// [`CompactionCounters::stalls`](crate::CompactionCounters::stalls) and [`IndexCounters::stalls`](crate::IndexCounters::stalls)
    /// do not grow. Looks into the index by a store with a condition or a deletion are beside that: a few pages a run.
    #[must_use]
    pub fn work_bound(&self, value_len: u64) -> Work {
        let layout = self.log.layout();
        let pages = (PREAMBLE_MAX_BYTES as u64 + value_len).div_ceil(layout.page_bytes as u64) as u32;
        let of = |kind: fn(&Work) -> u32| kind(&LEAST) + kind(&PER_PAGE) * pages;
        Work {
            pages_read: of(|work| work.pages_read) + PAGES_PER_RUN * self.index.runs() as u32,
            pages_written: of(|work| work.pages_written),
            pages_trimmed: of(|work| work.pages_trimmed),
            entries: of(|work| work.entries),
            records: of(|work| work.records),
            rows: of(|work| work.rows) * layout.segments as u32,
        }
    }

    /// The most that a store or a deletion may do that had to wait: beside the other bound, it goes through all that the
    /// namespace can hold at most a few times.
    #[must_use]
    pub fn waiting_bound(&self, value_len: u64) -> Work {
        let (layout, least) = (self.log.layout(), self.work_bound(value_len));
        let pages = layout.segments as u64 * layout.pages_per_segment();
        let keys = self.capacity_bytes / CHARGE_LEAST_BYTES;
        let all = |most: u64| (TIMES_ALL * most).min(u64::from(u32::MAX / 2)) as u32;
        Work {
            pages_read: least.pages_read + all(keys + pages),
            pages_written: least.pages_written + all(pages),
            pages_trimmed: least.pages_trimmed + all(pages),
            entries: least.entries + all(keys),
            records: least.records + all(keys),
            rows: least.rows + all((layout.segments as u64).pow(2)),
        }
    }

    /// Does a store or a deletion, and counts what it did.
    #[inline(always)]
    pub(crate) fn counted<R>(&mut self, command: impl FnOnce(&mut Self) -> R) -> R {
        self.log.begin_work();
        self.index.begin_work();
        let done = command(self);
        let mut work = self.log.work();
        work.pages_read += self.index.pages_read();
        self.longest.last = work;
        if work.is_any() {
            self.longest.most = self.longest.most.most(work);
        }
        done
    }
}
