//! Threads that share the queues of a served device with the one that answers messages.
//!
//! Each queue pair belongs to one of the threads, by its number. All are served by the thread that answers messages for as
//! long as little comes. One that is rung again and again is called away by its own thread, which looks at its doorbells
//! until nothing more comes, puts it back and sleeps: so a queue that is away is looked at, and nobody needs to
//! be woken for it.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::lanes::{QueueBits, Tended};
use crate::runner::Bed;
use crate::shared::Shared;

/// How long a thread looks for more before it puts its queues back.
const LINGER: Duration = Duration::from_micros(100);

/// Looks between two at the clock.
const LOOKS: u32 = 64;

/// The threads beside the one that answers messages.
#[derive(Debug)]
pub(crate) struct Workers(Box<[Worker]>);

#[derive(Debug, Default)]
struct Worker {
    bed: Bed,
    /// Queues of its that are to be called away.
    called: QueueBits,
}

impl Workers {
    /// Those of `threads` threads in all.
    pub fn new(threads: NonZeroU16) -> Self {
        Self((1..threads.get()).map(|_| Worker::default()).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whose queue `qid` is; nobody's of these where the thread that answers messages keeps it, as it does queue 0.
    fn of(&self, qid: u16) -> Option<&Worker> {
        let threads = self.0.len() + 1;
        self.0.get((usize::from(qid) % threads).checked_sub(1)?)
    }
}

impl Core {
    /// Notes which queues were rung, and calls the threads of those that are rung again and again.
    #[inline]
    pub fn call_workers(&mut self, shared: &Shared) {
        if shared.workers.len() > 0 {
            while let Some(qid) = self.controller.take_rung() {
                shared.call_worker(qid);
            }
        }
    }
}

impl Shared {
    /// Queue `qid` was rung, with the device in hand.
    fn call_worker(&self, qid: u16) {
        let (Some(worker), Some(cell)) = (self.workers.of(qid), self.lanes.cell(qid)) else { return };
        if self.lanes.is_in(qid) {
            cell.meet();
            if cell.leaves() {
                worker.called.insert(qid);
                worker.bed.wake();
            }
        }
    }

    /// What thread `at` does: serves the queues that it is called for until nothing more comes.
    pub(crate) fn tend_queues(&self, at: usize, stops: impl Fn() -> bool) {
        let Some(worker) = self.workers.0.get(at) else { return };
        let mut mine = Vec::new();
        self.take_called(worker, &mut mine);
        let mut last_work = Instant::now();
        while !mine.is_empty() && last_work.elapsed() < LINGER && !stops() && !self.has_failed() {
            let mut is_busy = false;
            for _ in 0..LOOKS {
                mine.retain(|qid| {
                    let tended = self.tend(*qid);
                    is_busy |= tended == Tended::Busy;
                    tended != Tended::Gone
                });
                std::hint::spin_loop();
            }
            self.take_called(worker, &mut mine);
            if is_busy {
                last_work = Instant::now();
            }
        }
        mine.into_iter().for_each(|qid| self.put_back(qid));
    }

    fn take_called(&self, worker: &Worker, mine: &mut Vec<u16>) {
        if !worker.called.is_empty() {
            worker.called.take(|qid| {
                if self.take_away(qid) && !mine.contains(&qid) {
                    mine.push(qid);
                }
            });
        }
    }

    /// Sleeps until a queue is to be called away, at most for `nap`.
    pub(crate) fn sleep_until_called(&self, at: usize, nap: Duration, stops: impl Fn() -> bool) {
        if let Some(worker) = self.workers.0.get(at) {
            worker.bed.sleep(nap, || stops() || !worker.called.is_empty());
        }
    }
}
