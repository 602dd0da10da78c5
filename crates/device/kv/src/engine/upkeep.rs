//! Upkeep ahead of the stores that would owe it, by threads that have nothing else to do (decision 0077).
//!
//! It does the same steps as stores do: what it has done is taken off what they owe. So a store does no more with it than without, and
//! nothing rests on it.

use byway_flash::StallCause;

use crate::engine::KvEngine;
use crate::store::PageStore;

/// Entries of the index that a step does the work of.
const STEP_ENTRIES: usize = 64;

impl KvEngine {
    /// Whether a step of upkeep is worth doing. An engine in which nothing is stored has none in the end.
    #[must_use]
    pub fn owes_upkeep(&self) -> bool {
        let has_failed = self.upkeep_failed_at_bytes == Some(self.unsaved.bytes());
        !self.read_only && !has_failed && (self.index.has_work() || self.wants_compaction())
    }

    /// Does a step of upkeep: some ten microseconds of work, if no page has to wait for the medium. Other threads go on storing by their
    /// leases, but for the step that has a memtable written out. Whether there was anything to do.
    pub fn keep_up<S: PageStore>(&mut self, store: &mut S, at_ps: &mut u64) -> bool {
        if self.check_writable(store).is_err() || !self.owes_upkeep() {
            return false;
        }
        self.upkeep_ran = true;
        self.log.begin_work();
        self.index.begin_work();
        let worked = self.waited_for(StallCause::Flush, store, |engine, store| {
            engine.index.work_ahead(STEP_ENTRIES, &mut engine.log, store, at_ps)
        });
        let done = match worked {
            Ok(true) => {
                self.look_for_dead();
                Ok(())
            }
            Ok(false) => self.waited_for(StallCause::Compaction, store, |engine, store| {
                engine.compact_ahead(store, at_ps)
            }),
            Err(error) => Err(error),
        };
        self.index.count_failed_step(&done);
        // It may fail again and again, and is reported where a store needs it.
        self.upkeep_failed_at_bytes = done.is_err().then(|| self.unsaved.bytes());
        self.refresh_marks();
        true
    }
}
