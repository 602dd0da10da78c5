//! One run of the controller under the run lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use byway_controller::{FinishedSync, Next, Port};
use byway_queue::DoorbellIndex;
use byway_sys::time::monotonic_ns;

use super::Executor;
use super::delegation::order_with_heads;
use crate::core::Core;
use crate::options::RunBy;

/// Commands served in one run before doorbells are polled again.
const BUDGET: u32 = 1024;

/// The value of `due_ps` without a deadline.
const NEVER: u64 = u64::MAX;

/// What the last run of the controller left, for threads without the run lock.
#[derive(Debug)]
pub(super) struct LastRun {
    /// The device's next deadline in modelled picoseconds, or [`NEVER`].
    due_ps: AtomicU64,
    /// The controller waits for room in a completion queue.
    is_blocked: AtomicBool,
}

impl Default for LastRun {
    fn default() -> Self {
        Self { due_ps: AtomicU64::new(NEVER), is_blocked: AtomicBool::new(false) }
    }
}

impl LastRun {
    /// The device's next deadline in modelled picoseconds.
    #[inline]
    pub(super) fn deadline_ps(&self) -> Option<u64> {
        Some(self.due_ps.load(Relaxed)).filter(|due_ps| *due_ps != NEVER)
    }

    /// Whether the controller waits for room in a completion queue.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Relaxed)
    }
}

impl Core {
    /// Runs the controller at modelled time `now_ps` until it has nothing left to do.
    #[inline]
    pub(super) fn run(&mut self, executor: &Executor, mut rung: Option<DoorbellIndex>, now_ps: u64) {
        self.complete_ready(executor);
        let next = loop {
            let next = self.run_until_waiting(executor, rung.take(), now_ps);
            if !self.complete_ready(executor) {
                break next;
            }
        };
        let due_ps = if let Next::At(due_ps) = next { due_ps } else { NEVER };
        executor.last_run.due_ps.store(due_ps, Relaxed);
        if due_ps != NEVER && executor.run_by == RunBy::Caller {
            executor.vectors.signal_all(|_| true);
        }
        executor.last_run.is_blocked.store(self.controller.is_blocked(), Relaxed);
        self.note_external(executor);
        executor.note_upkeep(self);
        let wants_sync = self.wants_sync();
        executor.group_commit.note(wants_sync);
        if wants_sync {
            self.signal_waiting_for_sync(executor);
        }
    }

    /// Runs the controller until it has nothing left to do but for what it waits for.
    #[inline]
    fn run_until_waiting(
        &mut self,
        executor: &Executor,
        mut rung: Option<DoorbellIndex>,
        now_ps: u64,
    ) -> Next {
        match executor.remote() {
            Some(remote) if self.subsystem.has_engines() => self.run_with_engines(executor, remote, now_ps),
            Some(remote) => self.run_remote(executor, remote, now_ps),
            None => loop {
                match self.run_controller(executor, rung.take(), now_ps, BUDGET) {
                    Next::Now => {}
                    _ if self.reclaimed_for_admin(executor) || self.is_newly_blocked(executor) => {}
                    next => break next,
                }
            },
        }
    }

    /// Notes that the controller waits for room, if it did not wait before: another thread may have made room before it could see the note.
    fn is_newly_blocked(&self, executor: &Executor) -> bool {
        let is_new = self.controller.is_blocked() && !executor.last_run.is_blocked();
        if is_new {
            executor.last_run.is_blocked.store(true, Relaxed);
            order_with_heads();
        }
        is_new
    }

    /// Whether an admin command waited for delegated queues, all of which are returned now.
    #[inline]
    pub(super) fn reclaimed_for_admin(&mut self, executor: &Executor) -> bool {
        self.controller.waits_for_delegated() && executor.reclaim_all(self)
    }

    /// Runs the controller once.
    #[inline]
    pub(super) fn run_controller(
        &mut self,
        executor: &Executor,
        rung: Option<DoorbellIndex>,
        now_ps: u64,
        budget: u32,
    ) -> Next {
        let since_ns = executor.counting_since_ns();
        self.counting(executor, since_ns, |core| {
            let device_memory = executor.device_memory(core.device_memory.as_deref());
            let mut port = Port { device_memory, ..executor.port(&core.memory, &mut core.meter) };
            core.controller.run(&mut core.subsystem, &mut port, &executor.doorbells, rung, now_ps, budget)
        })
    }

    /// Signals descriptors of hosts whose commands another thread has executed and that wait for a sync, so that they run it.
    #[cold]
    fn signal_waiting_for_sync(&self, executor: &Executor) {
        if executor.run_by == RunBy::Caller {
            executor.vectors.signal_all(|vector| self.controller.waits_for_sync(vector));
        }
    }

    /// Runs the controller for a pending bit.
    pub(crate) fn run_now(&mut self, executor: &Executor) {
        self.run(executor, None, executor.clock.now_ps());
    }

    /// Completes the commands that a sync covers, and runs the controller.
    pub(super) fn end_sync(&mut self, executor: &Executor, sync: FinishedSync) {
        let now_ps = executor.clock.now_ps();
        let synced = self.subsystem.end_sync(sync);
        self.subsystem.end_commands(monotonic_ns);
        let mut port = executor.port(&self.memory, &mut self.meter);
        self.controller.end_cover(&mut port, &synced, now_ps);
        self.fabric.end_cover(&synced);
        self.run(executor, None, now_ps);
    }
}
