//! Callers ring doorbells and run the device under the run lock.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::bounded;
use crate::{DoorbellIndex, Doorbells, RunLock};

/// A device whose callers each ring one doorbell.
pub(super) struct Shared {
    pub(super) run_lock: RunLock,
    pub(super) doorbells: Doorbells,
    /// The value of each doorbell that a run has seen. Written under the run lock, without ordering of its own.
    seen: [AtomicU32; 3],
    /// Runs so far. Loaded, then stored: two runs at a time would lose one.
    runs: AtomicU32,
    /// Runs, counted atomically.
    entered: AtomicU32,
}

impl Shared {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            run_lock: RunLock::new(),
            doorbells: Doorbells::new(3),
            seen: std::array::from_fn(|_| AtomicU32::new(0)),
            runs: AtomicU32::new(0),
            entered: AtomicU32::new(0),
        })
    }

    fn load(&self, index: DoorbellIndex) {
        self.seen[usize::from(index.queue())].store(self.doorbells.load(index), Relaxed);
    }

    pub(super) fn run(&self, own: Option<DoorbellIndex>) {
        self.entered.fetch_add(1, Relaxed);
        self.runs.store(self.runs.load(Relaxed) + 1, Relaxed);
        own.into_iter().for_each(|index| self.load(index));
        self.doorbells.take_dirty(|index| self.load(index));
    }

    /// A caller that sets the dirty bit, then asks for the lock.
    fn ring(&self, queue: u16) {
        self.doorbells.ring(DoorbellIndex::submission(queue), 7);
        if self.run_lock.acquire_or_set_pending() {
            self.run_until_released(None);
        }
    }

    /// A caller that serves its own queue if it acquires the lock, and sets the dirty bit only if not.
    pub(super) fn ring_fast(&self, queue: u16) {
        let index = DoorbellIndex::submission(queue);
        self.doorbells.store(index, 7);
        if self.run_lock.try_acquire() {
            return self.run_until_released(Some(index));
        }
        self.doorbells.mark_dirty(index);
        if self.run_lock.acquire_or_set_pending() {
            self.run_until_released(None);
        }
    }

    fn run_until_released(&self, own: Option<DoorbellIndex>) {
        self.run(own);
        while !self.run_lock.release() {
            self.run(None);
        }
    }

    /// Checks the invariants after all callers have finished.
    pub(super) fn check(&self, callers: usize) {
        assert!(!self.run_lock.is_held());
        for seen in &self.seen[..callers] {
            assert_eq!(seen.load(Relaxed), 7, "a doorbell is lost");
        }
        assert_eq!(self.runs.load(Relaxed), self.entered.load(Relaxed), "two ran at a time");
    }
}

fn callers(call: [fn(&Shared, u16); 3], count: usize) {
    // Two callers: every interleaving.
    let model = if count > 2 { bounded(4) } else { Builder::new() };
    model.check(move || {
        let shared = Shared::new();
        let others: Vec<_> = (1..count)
            .map(|queue| {
                let shared = shared.clone();
                thread::spawn(move || call[queue](&shared, queue as u16))
            })
            .collect();
        call[0](&shared, 0);
        others.into_iter().for_each(|other| other.join().expect("a caller that ends"));
        shared.check(count);
    });
}

#[test]
fn no_doorbell_is_lost_between_two_callers() {
    callers([Shared::ring; 3], 2);
}

#[test]
fn no_doorbell_is_lost_between_two_callers_that_mark_after_a_failed_try() {
    callers([Shared::ring_fast; 3], 2);
}

#[test]
fn no_doorbell_is_lost_between_callers_of_both_kinds() {
    callers([Shared::ring, Shared::ring_fast, Shared::ring], 2);
    callers([Shared::ring, Shared::ring_fast, Shared::ring_fast], 3);
}
