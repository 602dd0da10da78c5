//! Threads that share the queues of a served device with the message thread. Each queue pair belongs to one thread by its number.

use std::num::NonZeroU16;

use crate::delegated::QueueBits;
use crate::parker::Parker;

/// The threads beside the message thread.
#[derive(Debug)]
pub(crate) struct QueueThreads(Box<[QueueThread]>);

/// Queues assigned to a thread, and where it parks.
#[derive(Debug, Default)]
pub(crate) struct QueueThread {
    parker: Parker,
    /// Busy queues that it is to take.
    assigned: QueueBits,
}

impl QueueThreads {
    /// Those of `threads` threads in all.
    pub fn new(threads: NonZeroU16) -> Self {
        Self((1..threads.get()).map(|_| QueueThread::default()).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Thread `at`.
    pub fn get(&self, at: usize) -> Option<&QueueThread> {
        self.0.get(at)
    }

    /// The thread of queue `qid`; `None` if it is the message thread's, as queue 0 is.
    pub fn of(&self, qid: u16) -> Option<&QueueThread> {
        let threads = self.0.len() + 1;
        self.0.get((usize::from(qid) % threads).checked_sub(1)?)
    }
}

impl QueueThread {
    /// Assigns a busy queue, and wakes the thread.
    pub fn assign(&self, qid: u16) {
        self.assigned.insert(qid);
        self.parker.wake();
    }

    /// Takes the assigned queues.
    pub fn take_assigned(&self, each: impl FnMut(u16)) {
        if !self.assigned.is_empty() {
            self.assigned.take(each);
        }
    }

    /// Whether a queue is assigned.
    pub fn has_assigned(&self) -> bool {
        !self.assigned.is_empty()
    }

    /// Parks until a queue is assigned or `stops`.
    pub fn park(&self, timeout: std::time::Duration, stops: impl Fn() -> bool) {
        self.parker.park(timeout, || stops() || self.has_assigned());
    }
}
