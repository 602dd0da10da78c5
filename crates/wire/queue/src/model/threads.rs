//! Queues are delegated to worker threads while another thread quiesces the controller (decision 0021).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use loom::thread;

use super::bounded;
use crate::{DoorbellIndex, Doorbells, RunLock};

/// Queues delegated to worker threads while a message thread posts a register write, or quiesces the controller.
///
/// The holder of the run lock sets the pending bit of each busy cell and does not wait. The thread that serves there
/// returns its queue; the thread that returns the last queue makes the write.
struct Threads {
    device: RunLock,
    doorbells: Doorbells,
    queues: Vec<DelegatedQueue>,
    /// Some queues could not be reclaimed. Written under the run lock, before each pending bit.
    reclaim_wanted: AtomicU32,
    posted: AtomicU32,
    /// Register writes applied.
    made: AtomicU32,
}

struct DelegatedQueue {
    cell: RunLock,
    is_delegated: AtomicU32,
    /// 1 while its thread accesses host memory.
    accesses: AtomicU32,
    /// The tail last served, by the thread or the controller. Written under the run lock.
    seen: AtomicU32,
}

impl Threads {
    fn new(queues: usize) -> Arc<Self> {
        let delegated = |_| DelegatedQueue {
            cell: RunLock::new(),
            is_delegated: AtomicU32::new(1),
            accesses: AtomicU32::new(0),
            seen: AtomicU32::new(0),
        };
        Arc::new(Self {
            device: RunLock::new(),
            doorbells: Doorbells::new(2),
            queues: (0..queues).map(delegated).collect(),
            reclaim_wanted: AtomicU32::new(0),
            posted: AtomicU32::new(0),
            made: AtomicU32::new(0),
        })
    }

    fn with_device(&self, work: impl FnOnce()) {
        assert!(self.device.acquire());
        work();
        while !self.device.release() {
            self.run();
        }
    }

    /// A worker thread polls its queue once.
    fn poll(&self, queue: usize) {
        let delegated = &self.queues[queue];
        assert!(delegated.cell.acquire());
        if delegated.is_delegated.load(Relaxed) == 1 {
            delegated.accesses.store(1, Relaxed);
            let tail = self.doorbells.load(DoorbellIndex::submission(queue as u16));
            assert_eq!(self.made.load(Relaxed), 0, "the queue is served after the reset");
            delegated.accesses.store(0, Relaxed);
            self.with_device(|| delegated.seen.store(tail, Relaxed));
        }
        self.release_cell(queue);
    }

    fn release_cell(&self, queue: usize) {
        while !self.queues[queue].cell.release() {
            if self.reclaim_wanted.load(Relaxed) == 1 {
                self.return_queue(queue);
            }
        }
    }

    /// The caller holds the cell lock.
    fn return_queue(&self, queue: usize) {
        self.with_device(|| {
            self.reclaim_one(queue);
            self.run();
        });
    }

    /// The worker thread returns its queue before it sleeps.
    fn park(&self, queue: usize) {
        assert!(self.queues[queue].cell.acquire());
        self.return_queue(queue);
        self.release_cell(queue);
    }

    /// The caller holds the cell lock and the run lock.
    fn reclaim_one(&self, queue: usize) {
        if self.queues[queue].is_delegated.load(Relaxed) == 1 {
            self.queues[queue].is_delegated.store(0, Relaxed);
            self.doorbells.mark_dirty(DoorbellIndex::submission(queue as u16));
        }
    }

    /// Tries to reclaim every queue; true if none is delegated. The caller holds the run lock.
    fn reclaim_all(&self) -> bool {
        for (queue, delegated) in self.queues.iter().enumerate() {
            if delegated.is_delegated.load(Relaxed) == 1 {
                self.reclaim_wanted.store(1, Relaxed);
                if delegated.cell.try_acquire() || delegated.cell.acquire_or_set_pending() {
                    self.reclaim_one(queue);
                    while !delegated.cell.release() {}
                }
            }
        }
        let all = self.queues.iter().all(|delegated| delegated.is_delegated.load(Relaxed) == 0);
        if all {
            self.reclaim_wanted.store(0, Relaxed);
        }
        all
    }

    /// One run of the controller. The caller holds the run lock.
    fn run(&self) {
        if self.posted.load(Acquire) == 1 && self.reclaim_all() {
            self.posted.store(0, Relaxed);
            assert!(self.queues.iter().all(|delegated| delegated.accesses.load(Relaxed) == 0));
            self.made.store(self.made.load(Relaxed) + 1, Relaxed);
        }
        self.doorbells.take_dirty(|index| {
            let delegated = &self.queues[usize::from(index.queue())];
            if delegated.is_delegated.load(Relaxed) == 0 {
                delegated.seen.store(self.doorbells.load(index), Relaxed);
            }
        });
    }

    /// Runs the device, or sets the pending bit.
    fn enter(&self) {
        if self.device.try_acquire() || self.device.acquire_or_set_pending() {
            self.run();
            while !self.device.release() {
                self.run();
            }
        }
    }

    /// The message thread posts a register write.
    fn post(&self) {
        self.posted.store(1, Release);
        self.enter();
    }

    /// The message thread takes a doorbell.
    fn ring(&self, queue: u16) {
        self.doorbells.ring(DoorbellIndex::submission(queue), 7);
        self.enter();
    }

    /// A thread waits until every queue is reclaimed.
    fn quiesce(&self) {
        loop {
            let mut done = false;
            self.with_device(|| done = self.reclaim_all());
            if done {
                return;
            }
            thread::yield_now();
        }
    }

    fn check_made(&self) {
        assert!(!self.device.is_held() && self.queues.iter().all(|delegated| !delegated.cell.is_held()));
        assert_eq!((self.posted.load(Relaxed), self.made.load(Relaxed)), (0, 1), "made once");
        assert!(self.queues.iter().all(|delegated| delegated.is_delegated.load(Relaxed) == 0));
    }
}

/// Runs `one` and `other` concurrently.
fn beside(threads: &Arc<Threads>, one: impl FnOnce(&Threads), other: fn(&Threads)) {
    let others = threads.clone();
    let started = thread::spawn(move || other(&others));
    one(threads);
    started.join().expect("a thread that ends");
}

/// Posts a register write while another thread serves the queues.
fn post_beside(queues: usize, serve: fn(&Threads)) {
    bounded(3).check(move || {
        let threads = Threads::new(queues);
        beside(&threads, Threads::post, serve);
        threads.check_made();
    });
}

#[test]
fn register_write_posted_while_a_queue_is_served_is_made_once_after_reclaim() {
    post_beside(1, |threads| {
        threads.poll(0);
        threads.poll(0);
    });
}

// Loom would explore two spinning threads without end, so one thread serves both queues.
#[test]
fn register_write_is_made_by_the_thread_that_returns_the_last_queue() {
    post_beside(2, |threads| {
        threads.poll(0);
        threads.poll(1);
    });
}

#[test]
fn quiesce_ends_beside_a_thread_that_serves_and_posts() {
    bounded(3).check(|| {
        let threads = Threads::new(1);
        beside(&threads, Threads::quiesce, |threads| {
            threads.poll(0);
            threads.post();
        });
        threads.check_made();
        assert_eq!(threads.reclaim_wanted.load(Relaxed), 0);
    });
}

#[test]
fn doorbell_rung_while_its_queue_is_returned_is_served_exactly_once() {
    bounded(3).check(|| {
        let threads = Threads::new(1);
        let poll_and_park: fn(&Threads) = |threads| {
            threads.poll(0);
            threads.park(0);
        };
        beside(&threads, |threads| threads.ring(0), poll_and_park);
        assert_eq!(threads.queues[0].seen.load(Relaxed), 7, "the doorbell is lost");
    });
}
