//! Callers ring doorbells and run the device by turns.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::bounded;
use crate::{DoorbellIndex, Doorbells, Turn};

/// Some callers ring a doorbell each and run the device by turns.
pub(super) struct Shared {
    pub(super) turn: Turn,
    pub(super) doorbells: Doorbells,
    /// The value of each doorbell that a run has seen. Written in turns only, without any ordering of its own.
    seen: [AtomicU32; 3],
    /// Runs so far. Read and then written, so that two runners at a time would lose one.
    runs: AtomicU32,
    /// Runs as their runners count them.
    entered: AtomicU32,
}

impl Shared {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            turn: Turn::new(),
            doorbells: Doorbells::new(3),
            seen: std::array::from_fn(|_| AtomicU32::new(0)),
            runs: AtomicU32::new(0),
            entered: AtomicU32::new(0),
        })
    }

    fn look(&self, index: DoorbellIndex) {
        self.seen[usize::from(index.queue())].store(self.doorbells.load(index), Relaxed);
    }

    pub(super) fn run(&self, own: Option<DoorbellIndex>) {
        self.entered.fetch_add(1, Relaxed);
        self.runs.store(self.runs.load(Relaxed) + 1, Relaxed);
        own.into_iter().for_each(|index| self.look(index));
        self.doorbells.take_dirty(|index| self.look(index));
    }

    /// A caller that marks its doorbell and then asks for the turn.
    fn ring(&self, queue: u16) {
        self.doorbells.ring(DoorbellIndex::submission(queue), 7);
        if self.turn.enter() {
            self.run_until_left(None);
        }
    }

    /// A caller that runs its own queue if it gets the turn, and marks its doorbell only if not.
    pub(super) fn ring_fast(&self, queue: u16) {
        let index = DoorbellIndex::submission(queue);
        self.doorbells.store(index, 7);
        if self.turn.try_enter() {
            return self.run_until_left(Some(index));
        }
        self.doorbells.mark(index);
        if self.turn.enter() {
            self.run_until_left(None);
        }
    }

    fn run_until_left(&self, own: Option<DoorbellIndex>) {
        self.run(own);
        while !self.turn.leave() {
            self.run(None);
        }
    }

    /// What must hold once all callers are done.
    pub(super) fn check(&self, callers: usize) {
        assert!(!self.turn.is_running());
        for seen in &self.seen[..callers] {
            assert_eq!(seen.load(Relaxed), 7, "a doorbell is lost");
        }
        assert_eq!(self.runs.load(Relaxed), self.entered.load(Relaxed), "two ran at a time");
    }
}

fn callers(call: [fn(&Shared, u16); 3], count: usize) {
    // Two callers are tried in every interleaving.
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
fn no_doorbell_is_lost_between_two_callers_that_mark_late() {
    callers([Shared::ring_fast; 3], 2);
}

#[test]
fn no_doorbell_is_lost_between_callers_of_both_kinds() {
    callers([Shared::ring, Shared::ring_fast, Shared::ring], 2);
    callers([Shared::ring, Shared::ring_fast, Shared::ring_fast], 3);
}
