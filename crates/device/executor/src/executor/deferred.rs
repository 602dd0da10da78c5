//! Posted requests and deferred work of hosts in other processes.

use std::time::Duration;

use byway_controller::Next;
use byway_sys::time::monotonic_ns;

use super::Executor;
use crate::core::Core;
use crate::options::Failed;
use crate::parker::PARK_MAX;
use crate::remote::{Post, Remote};

/// Commands between two readings of the clock, and the time of one run: hosts can submit without end while the device runs, and
/// their messages are polled between runs.
const BUDGET: u32 = 128;
pub(super) const RUN_NS: u64 = 2_000_000;

impl Core {
    /// Executes posted requests once every queue is in the controller; else the thread that returns the last queue does.
    fn execute_posted(&mut self, executor: &Executor, remote: &Remote) {
        if !remote.has_posted() || !executor.reclaim_all(self) {
            return;
        }
        for post in remote.take_posted() {
            self.execute_post(executor, remote, post);
        }
        remote.copy_all(&self.controller);
        self.note_run(executor, remote);
    }

    fn execute_post(&mut self, executor: &Executor, remote: &Remote, post: Post) {
        let (controller, subsystem, doorbells) =
            (&mut self.controller, &mut self.subsystem, &executor.doorbells);
        match post {
            Post::Write { offset, value } => {
                // It may reset the subsystem.
                executor.serving_threads.grants().end();
                controller.write_register(subsystem, doorbells, offset, value);
            }
            Post::Reset => {
                controller.reset_function(subsystem, doorbells);
                self.memory.refresh();
                remote.finish_reset(&executor.space, controller);
            }
            Post::DeviceMemory(memory) => self.device_memory = memory,
            Post::RefreshViews => self.memory.refresh(),
        }
    }

    fn note_run(&self, executor: &Executor, remote: &Remote) {
        remote.note_run(&self.controller, &self.subsystem);
        if remote.has_deferred() {
            executor.parker.wake();
        }
    }

    /// Runs the controller for hosts in other processes, at most [`RUN_NS`].
    #[inline(never)]
    pub(super) fn run_remote(&mut self, executor: &Executor, remote: &Remote, now_ps: u64) -> Next {
        self.execute_posted(executor, remote);
        self.controller.watch_doorbell_buffers(remote.polls_doorbell_buffers());
        let mut until = None;
        let next = loop {
            match self.run_controller(executor, None, now_ps, BUDGET) {
                Next::Now if monotonic_ns() < *until.get_or_insert_with(|| monotonic_ns() + RUN_NS) => {}
                Next::Now => break Next::At(now_ps),
                _ if self.reclaimed_for_admin(executor) => {}
                next => break next,
            }
        };
        self.assign_queues(executor);
        self.note_run(executor, remote);
        next
    }

    /// Does the next piece of deferred work, then runs the controller.
    pub(crate) fn do_deferred(&mut self, executor: &Executor) {
        let now_ps = executor.clock.now_ps();
        let since_ns = executor.counting_since_ns();
        self.counting(executor, since_ns, |core| {
            let mut port = executor.port(&core.memory, &mut core.meter);
            core.controller.run_deferred(&mut core.subsystem, &mut port, &executor.doorbells, now_ps);
        });
        self.run(executor, None, now_ps);
    }
}

impl Executor {
    /// Posts a request: executed at once if the run lock is free, else by its holder.
    ///
    /// # Errors
    /// The device has failed.
    pub(crate) fn post(&self, remote: &Remote, post: Post) -> Result<(), Failed> {
        remote.post(&self.space, post);
        self.core.run_or_set_pending(
            || {},
            |core, first| {
                if first {
                    core.execute_posted(self, remote);
                } else {
                    core.run_now(self);
                }
            },
        );
        self.check()
    }

    /// Returns once no access to unmapped or revoked memory is in progress.
    ///
    /// # Errors
    /// The device has failed.
    pub(crate) fn quiesce_dma(&self) -> Result<(), Failed> {
        match self.space.settle() {
            Ok(()) => Ok(()),
            // Without membarrier, wait for the run lock.
            Err(_) => self.with_core(|core| core.memory.refresh()),
        }
    }

    /// Whether the device's own thread has something to do.
    pub(crate) fn has_own_work(&self) -> bool {
        self.remote().is_some_and(|remote| {
            let runs = remote.runs_on_own_thread();
            remote.has_deferred() || runs && (self.is_written(usize::MAX) || self.has_work())
        })
    }

    /// Does deferred work, and runs the device if it runs on its own thread.
    pub(crate) fn do_own_work(&self, stops: impl Fn() -> bool) {
        let Some(remote) = self.remote() else { return };
        if !self.has_own_work() {
            return;
        }
        while remote.has_deferred() && !stops() {
            if self.with_core(|core| core.do_deferred(self)).is_err() {
                return;
            }
        }
        if remote.runs_on_own_thread() {
            self.take_written_and_run(&mut { usize::MAX });
        }
        self.notify_front();
    }

    /// Parks the device's own thread until it has work or `stops`.
    pub(crate) fn park_own_thread(&self, stops: impl Fn() -> bool) {
        let runs = self.remote().is_some_and(Remote::runs_on_own_thread);
        let timeout: Duration = if runs { self.park_time() } else { PARK_MAX };
        self.parker.park(timeout, || stops() || self.has_own_work());
    }

    /// Reads doorbells in shared memory, and serves them.
    pub(crate) fn take_written_and_run(&self, rung: &mut usize) {
        self.core.run_or_set_pending(
            || {},
            |core, _| {
                *rung = self.take_written(*rung);
                core.run_now(self);
            },
        );
    }

    /// Reads doorbells in shared memory of the first `queues` queues, under the run lock; returns how many queues may have been
    /// rung. Doorbells of delegated queues are read by their threads.
    pub(crate) fn take_written(&self, queues: usize) -> usize {
        let is_in = |qid| self.delegation.is_in_controller(qid);
        self.doorbells.take_shared(queues, is_in, |index| self.host_meter.doorbell(index.place())).max(1)
    }

    /// Whether hosts wrote tails of the first `queues` queues in shared memory.
    #[inline]
    pub(crate) fn is_written(&self, queues: usize) -> bool {
        self.doorbells.has_shared_tail(queues, |qid| self.delegation.is_in_controller(qid))
    }

    /// Polls doorbell buffers and serves them; whether any doorbell was rung.
    pub(crate) fn poll_doorbell_buffers(&self) -> bool {
        let mut found = false;
        self.core.run_or_set_pending(
            || {},
            |core, _| {
                let before = core.controller.doorbells_seen();
                core.run_now(self);
                found |= core.controller.doorbells_seen() != before;
            },
        );
        found
    }

    /// Wakes the message thread if this thread leaves a deadline or a failure.
    pub(crate) fn notify_front(&self) {
        if let Some(remote) = self.remote()
            && (self.deadline_ps().is_some() || self.has_failed())
        {
            remote.notifier().raise();
        }
    }
}
