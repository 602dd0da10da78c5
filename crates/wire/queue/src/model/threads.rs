//! Threads of a served device have its queues on leave, while somebody wants the whole controller.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use loom::thread;

use super::bounded;
use crate::{DoorbellIndex, Doorbells, Turn};

/// Queues that threads of a served device have on leave, while somebody posts a register write or wants the whole controller.
/// Who has the device leaves a mark at each cell that is busy, and does not wait: who serves there hands its queue in,
/// and the write is made by whoever brings the last one.
struct Threads {
    device: Turn,
    doorbells: Doorbells,
    lanes: Vec<OnLeave>,
    /// Somebody could not get them all. Written with the device in hand, and before each mark.
    wanted: AtomicU32,
    posted: AtomicU32,
    /// Register writes that were made.
    made: AtomicU32,
}

struct OnLeave {
    cell: Turn,
    away: AtomicU32,
    /// Its thread is at the host's memory.
    touches: AtomicU32,
    /// The tail that was served, here or in the controller: with the device in hand.
    seen: AtomicU32,
}

impl Threads {
    fn new(lanes: usize) -> Arc<Self> {
        let lane = |_| OnLeave {
            cell: Turn::new(),
            away: AtomicU32::new(1),
            touches: AtomicU32::new(0),
            seen: AtomicU32::new(0),
        };
        Arc::new(Self {
            device: Turn::new(),
            doorbells: Doorbells::new(2),
            lanes: (0..lanes).map(lane).collect(),
            wanted: AtomicU32::new(0),
            posted: AtomicU32::new(0),
            made: AtomicU32::new(0),
        })
    }

    fn with_device(&self, work: impl FnOnce()) {
        assert!(self.device.wait());
        work();
        while !self.device.leave() {
            self.run();
        }
    }

    /// A thread looks at its queue once.
    fn tend(&self, queue: usize) {
        let lane = &self.lanes[queue];
        assert!(lane.cell.wait());
        if lane.away.load(Relaxed) == 1 {
            lane.touches.store(1, Relaxed);
            let tail = self.doorbells.load(DoorbellIndex::submission(queue as u16));
            assert_eq!(self.made.load(Relaxed), 0, "the queue is served after the reset");
            lane.touches.store(0, Relaxed);
            self.with_device(|| lane.seen.store(tail, Relaxed));
        }
        self.leave_cell(queue);
    }

    fn leave_cell(&self, queue: usize) {
        while !self.lanes[queue].cell.leave() {
            if self.wanted.load(Relaxed) == 1 {
                self.hand_in(queue);
            }
        }
    }

    /// With the cell in hand.
    fn hand_in(&self, queue: usize) {
        self.with_device(|| {
            self.check_in(queue);
            self.run();
        });
    }

    /// The thread goes to sleep.
    fn rest(&self, queue: usize) {
        assert!(self.lanes[queue].cell.wait());
        self.hand_in(queue);
        self.leave_cell(queue);
    }

    /// With cell and device in hand.
    fn check_in(&self, queue: usize) {
        if self.lanes[queue].away.load(Relaxed) == 1 {
            self.lanes[queue].away.store(0, Relaxed);
            self.doorbells.mark(DoorbellIndex::submission(queue as u16));
        }
    }

    /// With the device in hand: whether every queue is in.
    fn recall(&self) -> bool {
        for (queue, lane) in self.lanes.iter().enumerate() {
            if lane.away.load(Relaxed) == 1 {
                self.wanted.store(1, Relaxed);
                if lane.cell.try_enter() || lane.cell.enter() {
                    self.check_in(queue);
                    while !lane.cell.leave() {}
                }
            }
        }
        let all = self.lanes.iter().all(|lane| lane.away.load(Relaxed) == 0);
        if all {
            self.wanted.store(0, Relaxed);
        }
        all
    }

    /// With the device in hand: what the controller does.
    fn run(&self) {
        if self.posted.load(Acquire) == 1 && self.recall() {
            self.posted.store(0, Relaxed);
            assert!(self.lanes.iter().all(|lane| lane.touches.load(Relaxed) == 0));
            self.made.store(self.made.load(Relaxed) + 1, Relaxed);
        }
        self.doorbells.take_dirty(|index| {
            let lane = &self.lanes[usize::from(index.queue())];
            if lane.away.load(Relaxed) == 0 {
                lane.seen.store(self.doorbells.load(index), Relaxed);
            }
        });
    }

    /// Runs the device, or leaves word.
    fn enter(&self) {
        if self.device.try_enter() || self.device.enter() {
            self.run();
            while !self.device.leave() {
                self.run();
            }
        }
    }

    /// Who answers messages posts a register write.
    fn post(&self) {
        self.posted.store(1, Release);
        self.enter();
    }

    /// The same takes a doorbell.
    fn ring(&self, queue: u16) {
        self.doorbells.ring(DoorbellIndex::submission(queue), 7);
        self.enter();
    }

    /// Somebody waits for the whole controller.
    fn have_whole(&self) {
        loop {
            let mut done = false;
            self.with_device(|| done = self.recall());
            if done {
                return;
            }
            thread::yield_now();
        }
    }

    fn check_made(&self) {
        assert!(!self.device.is_running() && self.lanes.iter().all(|lane| !lane.cell.is_running()));
        assert_eq!((self.posted.load(Relaxed), self.made.load(Relaxed)), (0, 1), "made once");
        assert!(self.lanes.iter().all(|lane| lane.away.load(Relaxed) == 0));
    }
}

/// Runs `one` beside `other`.
fn beside(threads: &Arc<Threads>, one: impl FnOnce(&Threads), other: fn(&Threads)) {
    let others = threads.clone();
    let started = thread::spawn(move || other(&others));
    one(threads);
    started.join().expect("a thread that ends");
}

/// A register write is posted beside a thread that serves what there is.
fn post_beside(lanes: usize, serve: fn(&Threads)) {
    bounded(3).check(move || {
        let threads = Threads::new(lanes);
        beside(&threads, Threads::post, serve);
        threads.check_made();
    });
}

#[test]
fn a_register_write_that_is_posted_while_a_queue_is_served_is_made_once_and_when_it_is_in() {
    post_beside(1, |threads| {
        threads.tend(0);
        threads.tend(0);
    });
}

// Two that wait for a turn at once would be tried without end, so one thread has both queues here.
#[test]
fn a_posted_register_write_is_made_by_whoever_brings_the_last_queue() {
    post_beside(2, |threads| {
        threads.tend(0);
        threads.tend(1);
    });
}

#[test]
fn who_waits_for_the_whole_controller_gets_it_beside_a_thread_that_serves_and_posts() {
    bounded(3).check(|| {
        let threads = Threads::new(1);
        beside(&threads, Threads::have_whole, |threads| {
            threads.tend(0);
            threads.post();
        });
        threads.check_made();
        assert_eq!(threads.wanted.load(Relaxed), 0);
    });
}

#[test]
fn a_doorbell_that_comes_while_its_queue_is_handed_in_is_served_in_one_place_or_the_other() {
    bounded(3).check(|| {
        let threads = Threads::new(1);
        let tend_and_rest: fn(&Threads) = |threads| {
            threads.tend(0);
            threads.rest(0);
        };
        beside(&threads, |threads| threads.ring(0), tend_and_rest);
        assert_eq!(threads.lanes[0].seen.load(Relaxed), 7, "the doorbell is lost");
    });
}
