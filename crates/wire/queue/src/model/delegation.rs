//! A delegated queue is served by its thread while another thread reclaims it (decision 0009).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::bounded;
use super::callers::Shared;
use crate::{DoorbellIndex, RunLock};

const TAIL: DoorbellIndex = DoorbellIndex::submission(0);

/// A delegated queue and its device. Its thread serves the queue under the queue's cell lock and acquires the run
/// lock to execute. Another thread reclaims the queue. Lock order: cell, then device; a holder of the device only
/// tries the cell.
struct Delegation {
    shared: Arc<Shared>,
    cell: RunLock,
    /// Whether the queue is delegated. Written with both locks held, read with either, and without a lock as a hint.
    delegated: AtomicU32,
    /// Times the queue was served by either side: loaded, then stored.
    served: AtomicU32,
    /// The same, counted atomically.
    servings: AtomicU32,
}

impl Delegation {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            shared: Shared::new(),
            cell: RunLock::new(),
            delegated: AtomicU32::new(1),
            served: AtomicU32::new(0),
            servings: AtomicU32::new(0),
        })
    }

    fn note_serving(&self) {
        self.servings.fetch_add(1, Relaxed);
        self.served.store(self.served.load(Relaxed) + 1, Relaxed);
    }

    /// The queue's thread rings its doorbell.
    fn ring(&self) {
        self.shared.doorbells.store(TAIL, 7);
        if self.delegated.load(Relaxed) == 1 && self.serve_delegated() {
            return;
        }
        self.shared.ring_fast(0);
    }

    fn serve_delegated(&self) -> bool {
        assert!(self.cell.acquire());
        let is_delegated = self.delegated.load(Relaxed) == 1;
        if is_delegated {
            self.note_serving();
            assert!(self.shared.run_lock.acquire());
            self.shared.run(Some(TAIL));
            self.release_device();
        }
        while !self.cell.release() {}
        is_delegated
    }

    /// A thread that needs the whole controller reclaims the queue.
    fn reclaim(&self) {
        loop {
            assert!(self.shared.run_lock.acquire());
            if self.delegated.load(Relaxed) == 1 && self.cell.try_acquire() {
                self.note_serving();
                self.delegated.store(0, Relaxed);
                self.shared.doorbells.mark_dirty(TAIL);
                while !self.cell.release() {}
            }
            let all_reclaimed = self.delegated.load(Relaxed) == 0;
            self.shared.run(None);
            self.release_device();
            if all_reclaimed {
                return;
            }
            thread::yield_now();
        }
    }

    fn release_device(&self) {
        while !self.shared.run_lock.release() {
            self.shared.run(None);
        }
    }
}

#[test]
fn a_queue_reclaimed_while_it_is_rung_is_served_exactly_once() {
    bounded(3).check(|| {
        let delegation = Delegation::new();
        let reclaimer = delegation.clone();
        let reclaiming = thread::spawn(move || reclaimer.reclaim());
        delegation.ring();
        reclaiming.join().expect("a reclaim that ends");
        delegation.shared.check(1);
        assert_eq!(
            delegation.served.load(Relaxed),
            delegation.servings.load(Relaxed),
            "two served at a time"
        );
        assert_eq!(delegation.delegated.load(Relaxed), 0);
    });
}

#[test]
fn a_delegated_queue_waits_for_another_caller_of_the_device() {
    bounded(3).check(|| {
        let delegation = Delegation::new();
        let other = delegation.clone();
        let ringing = thread::spawn(move || other.shared.ring_fast(1));
        delegation.ring();
        ringing.join().expect("a caller that ends");
        delegation.shared.check(2);
    });
}
