//! Queue threads (decision 21): the message thread serves every queue while little comes. A queue that is rung again and again is
//! delegated to its own thread, which polls it until nothing more comes, returns it and parks. So a delegated queue is always
//! polled, and no thread needs to be woken for it.

use std::time::Duration;

use byway_sys::Spin;

use super::Executor;
use crate::core::Core;
use crate::delegated::Polled;
use crate::queue_threads::QueueThread;
use crate::upkeep::Quantum;

/// How long a thread polls without work before it returns its queues.
const IDLE_SPIN: Duration = Duration::from_micros(100);

/// Polls for one reading of the clock.
const POLLS: u32 = 64;

impl Core {
    /// Assigns queues that are rung again and again to their threads.
    #[inline]
    pub(super) fn assign_queues(&mut self, executor: &Executor) {
        if executor.queue_threads.len() > 0 {
            while let Some(qid) = self.controller.take_rung() {
                executor.note_rung(qid);
            }
        }
    }
}

impl Executor {
    /// Notes a doorbell of queue `qid`, under the run lock.
    fn note_rung(&self, qid: u16) {
        let (Some(thread), Some(cell)) = (self.queue_threads.of(qid), self.delegation.cell(qid)) else {
            return;
        };
        if self.delegation.is_in_controller(qid) {
            cell.note_rung();
            if cell.should_delegate() {
                thread.assign(qid);
            }
        }
    }

    /// Serves the queues assigned to thread `at` until nothing more comes.
    pub(crate) fn serve_assigned(&self, at: usize, stops: impl Fn() -> bool) {
        let Some(thread) = self.queue_threads.get(at) else { return };
        let mut mine = Vec::new();
        self.take_assigned(thread, &mut mine);
        let mut spin = Spin::lasting(IDLE_SPIN, POLLS);
        while !mine.is_empty() && !stops() && !self.has_failed() && spin.again() {
            mine.retain(|qid| {
                let polled = self.poll_delegated(*qid);
                if polled == Polled::Busy {
                    spin.restart();
                }
                polled != Polled::Returned
            });
            self.take_assigned(thread, &mut mine);
        }
        mine.into_iter().for_each(|qid| self.return_idle(qid));
        while !stops() && !thread.has_assigned() && self.keep_up() == Quantum::Done {}
    }

    fn take_assigned(&self, thread: &QueueThread, mine: &mut Vec<u16>) {
        thread.take_assigned(|qid| {
            if self.delegate_to_thread(qid) && !mine.contains(&qid) {
                mine.push(qid);
            }
        });
    }
}
