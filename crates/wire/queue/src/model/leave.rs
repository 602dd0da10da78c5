//! A queue on leave from its controller is served by its own thread, while another takes it back in.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::bounded;
use super::callers::Shared;
use crate::{DoorbellIndex, Turn};

const TAIL: DoorbellIndex = DoorbellIndex::submission(0);

/// A queue on leave from its controller: its thread serves it in its cell, taking the device's turn to execute, while
/// another thread takes it back in (decision 0009). Lock order: the cell, then the device; who has the device only tries
/// the cell.
struct Leave {
    shared: Arc<Shared>,
    cell: Turn,
    /// Whether the queue is away. Written by whoever has both turns, read by whoever has one, and as a hint.
    away: AtomicU32,
    /// Times the queue was served, wherever: read and then written.
    served: AtomicU32,
    /// The same, as its servers count them.
    servings: AtomicU32,
}

impl Leave {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            shared: Shared::new(),
            cell: Turn::new(),
            away: AtomicU32::new(1),
            served: AtomicU32::new(0),
            servings: AtomicU32::new(0),
        })
    }

    fn note_serving(&self) {
        self.servings.fetch_add(1, Relaxed);
        self.served.store(self.served.load(Relaxed) + 1, Relaxed);
    }

    /// The queue's thread rings.
    fn ring(&self) {
        self.shared.doorbells.store(TAIL, 7);
        if self.away.load(Relaxed) == 1 && self.serve_away() {
            return;
        }
        self.shared.ring_fast(0);
    }

    fn serve_away(&self) -> bool {
        assert!(self.cell.wait());
        let is_away = self.away.load(Relaxed) == 1;
        if is_away {
            self.note_serving();
            assert!(self.shared.turn.wait());
            self.shared.run(Some(TAIL));
            self.leave_device();
        }
        while !self.cell.leave() {}
        is_away
    }

    /// Somebody needs the whole controller.
    fn recall(&self) {
        loop {
            assert!(self.shared.turn.wait());
            if self.away.load(Relaxed) == 1 && self.cell.try_enter() {
                self.note_serving();
                self.away.store(0, Relaxed);
                self.shared.doorbells.mark(TAIL);
                while !self.cell.leave() {}
            }
            let all_in = self.away.load(Relaxed) == 0;
            self.shared.run(None);
            self.leave_device();
            if all_in {
                return;
            }
            thread::yield_now();
        }
    }

    fn leave_device(&self) {
        while !self.shared.turn.leave() {
            self.shared.run(None);
        }
    }
}

#[test]
fn a_queue_that_is_recalled_while_it_is_rung_is_served_in_one_place_or_the_other() {
    bounded(3).check(|| {
        let leave = Leave::new();
        let recaller = leave.clone();
        let recalling = thread::spawn(move || recaller.recall());
        leave.ring();
        recalling.join().expect("a recall that ends");
        leave.shared.check(1);
        assert_eq!(leave.served.load(Relaxed), leave.servings.load(Relaxed), "two served at a time");
        assert_eq!(leave.away.load(Relaxed), 0);
    });
}

#[test]
fn a_queue_that_another_meets_at_the_device_waits_for_it() {
    bounded(3).check(|| {
        let leave = Leave::new();
        let other = leave.clone();
        let ringing = thread::spawn(move || other.shared.ring_fast(1));
        leave.ring();
        ringing.join().expect("a caller that ends");
        leave.shared.check(2);
    });
}
