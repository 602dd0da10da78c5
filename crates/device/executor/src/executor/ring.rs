//! Doorbell writes, polls and idle times of hosts.

use std::time::Duration;

use byway_link::ClockMode;
use byway_queue::DoorbellIndex;

use super::Executor;
use crate::delegated::QueueCell;
use crate::options::RunBy;
use crate::parker::PARK_MAX;

impl Executor {
    /// Writes the tail of a submission queue and serves it, in the controller or delegated.
    #[inline]
    pub(crate) fn ring_tail(&self, index: DoorbellIndex, value: u32) {
        match self.delegation.cell(index.queue()) {
            Some(_) if index.queue() == 0 => self.ring_admin(index, value),
            Some(cell) if cell.should_delegate() => self.ring_delegated(index, value),
            _ => self.ring_and_run(index, value),
        }
    }

    /// Admin commands run with every queue in the controller, and what was executed without the run lock counted. Those that change anything
    /// end the rights of other threads.
    #[cold]
    fn ring_admin(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        let now_ps = self.clock.now_ps();
        let _ = self.with_all_queues(|core| {
            core.count_tallies(self);
            core.run(self, Some(index), now_ps);
        });
    }

    #[inline(never)]
    fn ring_delegated(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        if !self.serve_delegated(index.queue()) {
            self.ring_and_run(index, value);
        }
    }

    /// Writes a doorbell and runs the device for it; if the run lock is held, its holder serves it.
    #[inline(never)]
    fn ring_and_run(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        self.delegation.cell(index.queue()).into_iter().for_each(QueueCell::note_rung);
        let at_ps = self.doorbell_arrival_ps();
        self.core.run_or_set_pending(
            || {
                self.doorbells.mark_dirty(index);
            },
            |core, first| core.run(self, first.then_some(index), at_ps),
        );
    }

    /// Serves the doorbells rung so far of queues in the controller.
    pub(crate) fn run_now(&self) {
        self.core.run_or_set_pending(|| {}, |core, _| core.run_now(self));
    }

    /// Runs the device; if it has nothing to do, advances virtual time to its next deadline.
    pub(crate) fn run_to_deadline(&self) {
        self.core.run_or_set_pending(
            || {},
            |core, _| {
                core.run(self, None, self.clock.now_ps());
                if let (ClockMode::Virtual, Some(due_ps)) = (self.clock.mode(), self.deadline_ps()) {
                    self.clock.advance_to(due_ps);
                    core.run(self, None, due_ps);
                }
            },
        );
    }

    /// Writes the head of a completion queue. The controller reads it when it needs room; if it waits for room, it runs.
    #[inline]
    pub(crate) fn ring_head(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        if self.last_run.is_blocked() {
            self.run_now();
        }
        if self.delegation.cell(index.queue()).is_some_and(QueueCell::is_blocked) {
            self.serve_delegated(index.queue());
        }
    }

    /// Writes a doorbell for the thread that runs the device.
    #[inline]
    pub(crate) fn ring_for_thread(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.ring(index, value);
        self.parker.wake();
    }

    /// The host of queue `qid` is idle: syncs the image if one of its commands waits for that.
    #[inline]
    pub(crate) fn idle(&self, qid: u16) {
        if self.run_by == RunBy::Thread {
            return;
        }
        if self.wants_sync() {
            self.sync(Some(qid));
        }
    }

    /// Whether a run would have something to do.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        // A thread of the device learns of room by a dirty bit.
        let blocked = self.run_by == RunBy::Caller && self.last_run.is_blocked();
        self.doorbells.is_dirty() || blocked || self.is_due()
    }

    /// The device's next deadline.
    pub(crate) fn deadline_ps(&self) -> Option<u64> {
        self.last_run.deadline_ps()
    }

    /// Whether the deadline has passed.
    pub(crate) fn is_due(&self) -> bool {
        self.deadline_ps().is_some_and(|due_ps| due_ps <= self.clock.now_ps())
    }

    /// When the device sees a doorbell written now.
    #[inline]
    fn doorbell_arrival_ps(&self) -> u64 {
        match self.clock.mode() {
            ClockMode::Off => 0,
            _ => self.profile.doorbell_arrival_ps(self.clock.now_ps()),
        }
    }

    /// Waits a little: sleeps towards a far deadline of a paced clock, else yields.
    pub(crate) fn pause(&self) {
        const FAR_PS: u64 = 100_000_000;
        let left_ps = self.deadline_ps().map_or(0, |due_ps| due_ps.saturating_sub(self.clock.now_ps()));
        if left_ps > FAR_PS {
            std::thread::sleep(Duration::from_nanos((left_ps - FAR_PS) / 1000));
        } else {
            std::thread::yield_now();
        }
    }

    /// Parks the thread that runs the device until a doorbell is rung or `stops`.
    pub(crate) fn park_until_rung(&self, stops: impl Fn() -> bool) {
        let timeout = self.park_time();
        self.parker.park(timeout, || stops() || self.doorbells.is_dirty());
        if timeout < PARK_MAX {
            self.run_now();
        }
    }

    /// How long a thread of the device may park: to the next deadline of a paced clock.
    pub(super) fn park_time(&self) -> Duration {
        match (self.clock.mode(), self.deadline_ps()) {
            (ClockMode::Paced, Some(due_ps)) => {
                Duration::from_nanos(due_ps.saturating_sub(self.clock.now_ps()) / 1000).min(PARK_MAX)
            }
            _ => PARK_MAX,
        }
    }
}
