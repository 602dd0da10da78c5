//! Serving delegated queue pairs (decision 0009).
//!
//! Lock order: a queue's cell, then the run lock. A holder of the run lock only tries a cell; if the cell is busy it sets the cell's
//! pending bit, and the thread that serves there returns the queue before it releases. A queue pair moves between controller and
//! cell under both locks, so its doorbell is served in exactly one place.

use std::time::{Duration, Instant};

use byway_controller::{DelegatedQueue, Gathered};
use byway_flash::StallCause;
use byway_link::Meter;
use byway_queue::DoorbellIndex;
use tracing::debug;

use super::Executor;
use crate::core::Core;
use crate::delegated::{Batching, Delegated, PENALTY, Polled, QueueCell};
use crate::snapshot::ABSORB_NS;

/// Below this many gathered commands, a transfer of the engine's cache lines costs more than the commands.
const FEW: u32 = 4;

/// How long a thread with few commands checks whether another thread executes, and how long it then backs off.
const CONTENTION_CHECK: Duration = Duration::from_nanos(500);
const BACK_OFF: Duration = Duration::from_micros(10);

/// The result of serving a delegated queue.
struct Service {
    executed: bool,
    /// The queue stays delegated.
    stays: bool,
}

impl Executor {
    /// Serves queue `qid` outside the controller, delegating it first if possible; whether it did.
    #[inline(never)]
    pub(super) fn serve_delegated(&self, qid: u16, batching: Batching) -> bool {
        let Some(cell) = self.delegation.cell(qid) else { return false };
        let serve = |slot: &mut Option<Box<Delegated>>| {
            if slot.is_none() {
                self.delegate(cell, slot, qid);
            }
            let Some(delegated) = slot else { return false };
            if !self.serve_queue(cell, delegated, batching).stays {
                self.return_queue(cell, slot, -PENALTY);
            }
            true
        };
        self.with_cell(cell, serve).unwrap_or(false)
    }

    /// Runs `work` with a locked cell, and returns its queue if a lock holder waits for that.
    fn with_cell<R>(
        &self,
        cell: &QueueCell,
        work: impl FnOnce(&mut Option<Box<Delegated>>) -> R,
    ) -> Option<R> {
        let pending = |slot: &mut Option<Box<Delegated>>| {
            if self.delegation.reclaims() {
                self.return_queue(cell, slot, 0);
            }
        };
        // A delegated queue is a part of the device: a panic with it fails the device.
        self.core.poison_on_panic(|| cell.queue().run(work, pending))
    }

    /// Returns a queue to the controller and runs that. Waits for the run lock.
    #[cold]
    fn return_queue(&self, cell: &QueueCell, slot: &mut Option<Box<Delegated>>, contentions: i32) {
        if slot.is_none() {
            return;
        }
        let return_it = |core: &mut Core| {
            self.take_back(core, cell, slot, contentions);
            core.run_now(self);
        };
        self.core.run(return_it, |core| core.run_now(self));
    }

    /// Delegates queue `qid` to a queue thread, which [polls](Self::poll_delegated) it; whether it did.
    pub(super) fn delegate_to_thread(&self, qid: u16) -> bool {
        let Some(cell) = self.delegation.cell(qid) else { return false };
        let take = |slot: &mut Option<Box<Delegated>>| {
            if slot.is_none() {
                self.delegate(cell, slot, qid);
            }
            slot.is_some()
        };
        self.with_cell(cell, take).unwrap_or(false)
    }

    /// Polls the doorbells of queue `qid`, and serves it.
    pub(super) fn poll_delegated(&self, qid: u16) -> Polled {
        let Some(cell) = self.delegation.cell(qid) else { return Polled::Returned };
        let poll = |slot: &mut Option<Box<Delegated>>| {
            let Some(delegated) = slot else { return Polled::Returned };
            self.doorbells.take_shared_of(qid, |index| self.host_meter.doorbell(index.place()));
            let Service { executed, stays } = self.serve_queue(cell, delegated, Batching::Execute);
            if !stays {
                self.return_queue(cell, slot, -PENALTY);
                return Polled::Returned;
            }
            if executed { Polled::Busy } else { Polled::Idle }
        };
        self.with_cell(cell, poll).unwrap_or(Polled::Returned)
    }

    /// Returns queue `qid`, whose thread parks.
    pub(super) fn return_idle(&self, qid: u16) {
        if let Some(cell) = self.delegation.cell(qid) {
            self.with_cell(cell, |slot| self.return_queue(cell, slot, 0));
        }
    }

    /// Executes the gathered commands of queue `qid`, as its host is idle.
    #[cold]
    pub(super) fn execute_gathered(&self, qid: u16) {
        let Some(cell) = self.delegation.cell(qid) else { return };
        if cell.gathering() < FEW {
            self.back_off();
        }
        self.serve_delegated(qid, Batching::Execute);
    }

    /// At depth 1 a transfer of cache lines costs more than the command: backs off up to 10 µs while another thread executes.
    fn back_off(&self) {
        let before = self.delegation.executions();
        spin_for(CONTENTION_CHECK);
        if self.delegation.executions() != before {
            spin_for(BACK_OFF);
        }
    }

    /// Gathers, executes and completes commands of a delegated queue.
    fn serve_queue(&self, cell: &QueueCell, delegated: &mut Delegated, batching: Batching) -> Service {
        let Delegated { queue, memory, meter, absorbed_ns } = delegated;
        let mut port = self.port(memory, meter);
        let mut executed = false;
        let gathered = loop {
            let gathered = queue.gather(&mut port, &self.doorbells);
            if queue.gathered() > 0 && self.execute_without_lock(queue) {
                executed = true;
                queue.complete(&mut port);
                if gathered != Gathered::Full || self.delegation.reclaims() {
                    break gathered;
                }
                continue;
            }
            let executed_last = || self.delegation.executed_last(queue.qid());
            let is_brief = || queue.has_leases() || executed_last();
            let waits = batching == Batching::Gather && gathered == Gathered::All && !is_brief();
            if waits || queue.gathered() == 0 {
                break gathered;
            }
            let stores_alone = queue.has_leased_stores_alone();
            let since_ns = self.counting_since_ns();
            let execute = |core: &mut Core| {
                core.counting(self, since_ns, |core| self.execute(core, queue));
                if self.is_counting && since_ns.saturating_sub(*absorbed_ns) > ABSORB_NS {
                    *absorbed_ns = since_ns;
                    core.meter.absorb(port.meter);
                }
            };
            let run_now = |core: &mut Core| core.run_now(self);
            // Other leases stay active meanwhile.
            let ran = match stores_alone {
                true => self.core.run_as_it_is(execute, run_now),
                false => self.core.run(execute, run_now),
            };
            if ran.is_none() {
                break gathered;
            }
            executed = true;
            queue.complete(&mut port);
            // A host can submit without end, so check for a reclaim after each round.
            if gathered != Gathered::Full || self.delegation.reclaims() {
                break gathered;
            }
        };
        cell.note_served(queue);
        Service { executed, stays: gathered != Gathered::NotMine && !queue.is_broken() }
    }

    /// Executes gathered commands without the run lock, those of keys beside other threads that do; whether all were executed.
    #[inline]
    fn execute_without_lock(&self, queue: &mut DelegatedQueue) -> bool {
        if self.core.has_failed() {
            return false;
        }
        if queue.execute_unlocked() {
            return true;
        }
        let reader = usize::from(queue.qid());
        queue.begins_with_get()
            && self.core.read(reader, |subsystem| queue.execute_shared(subsystem)) == Some(true)
    }

    fn execute(&self, core: &mut Core, queue: &mut DelegatedQueue) {
        if !self.delegation.executed_last(queue.qid()) {
            queue.prefetch_for_write(&core.subsystem);
        }
        self.delegation.note_execution(queue.qid());
        core.subsystem.note_wait(StallCause::Lock, self.core.take_waited_ns());
        queue.execute(&mut core.subsystem);
    }

    #[cold]
    fn delegate(&self, cell: &QueueCell, to: &mut Option<Box<Delegated>>, qid: u16) {
        let take = |core: &mut Core| {
            if self.delegation.reclaims() {
                cell.set_in_controller(0);
                return None;
            }
            let queue = core.controller.delegate(&core.subsystem, qid, self.delegation.to());
            let Some(queue) = queue else {
                // A deleted queue is no reason against the next one with its identifier.
                cell.set_in_controller(if core.controller.has_queue(qid) { -PENALTY } else { 0 });
                return None;
            };
            cell.set_delegated();
            debug!(qid, "queue pair delegated to its thread");
            let mut meter = Meter::new(&self.profile);
            meter.set_ledger(core.meter.is_counting());
            self.delegation.insert(qid);
            self.core.add_reader(usize::from(qid));
            Some(Box::new(Delegated { queue, memory: self.space.view(), meter, absorbed_ns: 0 }))
        };
        *to = self.core.run(take, |core| core.run_now(self)).flatten();
    }

    /// Returns a queue with its gathered commands executed and its doorbells marked dirty. The caller then runs the controller.
    #[cold]
    fn take_back(
        &self,
        core: &mut Core,
        cell: &QueueCell,
        from: &mut Option<Box<Delegated>>,
        contentions: i32,
    ) {
        let Some(delegated) = from.take() else { return };
        let Delegated { mut queue, memory, mut meter, .. } = *delegated;
        core.counting(self, self.counting_since_ns(), |core| queue.execute(&mut core.subsystem));
        queue.close_leases(&mut core.subsystem);
        queue.complete(&mut self.port(&memory, &mut meter));
        core.meter.absorb(&mut meter);
        self.delegation.remove(queue.qid());
        debug!(qid = queue.qid(), is_reclaim = self.delegation.reclaims(), "queue pair returned");
        cell.set_in_controller(contentions);
        for doorbell in [DoorbellIndex::submission(queue.qid()), DoorbellIndex::completion(queue.qid())] {
            self.doorbells.mark_dirty(doorbell);
        }
        core.controller.reclaim(queue);
    }

    /// Returns every delegated queue, under the run lock; whether all are. A queue that is being served is returned by the thread
    /// that serves it, which then runs the controller.
    pub(super) fn reclaim_all(&self, core: &mut Core) -> bool {
        if !self.delegation.any() && !self.delegation.reclaims() {
            return true;
        }
        // Set before the pending bits: a thread that finds one sees this.
        self.delegation.set_reclaims(true);
        for cell in self.delegation.delegated_cells() {
            cell.queue().run_or_set_pending(|| {}, |slot, _| self.take_back(core, cell, slot, 0));
        }
        let any = self.delegation.any();
        self.delegation.set_reclaims(any);
        !any
    }
}

/// Spins for a time without yielding.
fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
