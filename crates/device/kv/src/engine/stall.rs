//! Time that stores and deletions wait for work beside their own.

use byway_flash::{StallCause, StallTimer};

use crate::engine::KvEngine;
use crate::store::PageStore;

impl KvEngine {
    /// Does work that a store or deletion waits for. The store notes how long it took, without what it noted meanwhile.
    pub(crate) fn waited_for<S: PageStore, R>(
        &mut self,
        cause: StallCause,
        store: &mut S,
        work: impl FnOnce(&mut Self, &mut S) -> R,
    ) -> R {
        let timer = StallTimer::start(store.stalled_ns());
        let done = work(self, store);
        let waited_ns = timer.stop(store.stalled_ns());
        store.note_stall(cause, waited_ns);
        done
    }
}
