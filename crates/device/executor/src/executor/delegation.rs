//! Serving delegated queue pairs (decision 0009).
//!
//! Lock order: a queue's cell, then the run lock. A holder of the run lock only tries a cell; if the cell is busy it sets the cell's
//! pending bit, and the thread that serves there returns the queue before it releases. A queue pair moves between controller and
//! cell under both locks, so its doorbell is served in exactly one place.

use std::sync::atomic::{Ordering, fence};

use byway_controller::{DelegatedQueue, Gathered};
use byway_flash::StallCause;
use byway_link::Meter;
use byway_queue::DoorbellIndex;
use byway_sys::barrier;
use tracing::debug;

use super::Executor;
use crate::core::Core;
use crate::delegated::{AFTER_ITS_COMMAND, AFTER_REFUSAL, Delegated, Polled, QueueCell};
use crate::serving_threads::reader_of_queue;
use crate::snapshot::ABSORB_NS;

/// Orders the store that marks a queue as blocked before the next load of its completion queue's head. A host that frees a slot either
/// sees the mark and runs the device, or its new head is loaded here. Without this it may miss the mark, and the queue stalls.
#[cold]
pub(super) fn order_with_heads() {
    if barrier::everywhere().is_err() {
        fence(Ordering::SeqCst);
    }
}

/// The result of serving a delegated queue.
struct Service {
    executed: bool,
    /// The queue stays delegated.
    stays: bool,
}

impl Executor {
    /// Serves queue `qid` outside the controller, delegating it first if possible; whether it did.
    #[inline(never)]
    pub(super) fn serve_delegated(&self, qid: u16) -> bool {
        let Some(cell) = self.delegation.cell(qid) else { return false };
        let serve = |slot: &mut Option<Box<Delegated>>| {
            if slot.is_none() {
                self.delegate(cell, slot, qid);
            }
            let Some(delegated) = slot else { return false };
            if !self.serve_queue(cell, delegated).stays {
                self.return_queue(cell, slot, AFTER_ITS_COMMAND);
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
    fn return_queue(&self, cell: &QueueCell, slot: &mut Option<Box<Delegated>>, doorbells: u32) {
        if slot.is_none() {
            return;
        }
        let return_it = |core: &mut Core| {
            self.take_back(core, cell, slot, doorbells);
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
            let Service { executed, stays } = self.serve_queue(cell, delegated);
            if !stays {
                self.return_queue(cell, slot, AFTER_ITS_COMMAND);
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

    /// Serves a delegated queue, until nothing is left that there is room to answer, or a lock holder waits for queues.
    fn serve_queue(&self, cell: &QueueCell, delegated: &mut Delegated) -> Service {
        let service = self.serve_rounds(delegated);
        let was_blocked = cell.is_blocked();
        cell.note_served(&delegated.queue);
        if was_blocked || !cell.is_blocked() || !service.stays {
            return service;
        }
        // Another thread may have made room before it could see the note: then it serves nothing.
        order_with_heads();
        let Service { executed, stays } = self.serve_rounds(delegated);
        cell.note_served(&delegated.queue);
        Service { executed: executed || service.executed, stays }
    }

    /// Gathers, executes and completes commands of a delegated queue.
    fn serve_rounds(&self, delegated: &mut Delegated) -> Service {
        let mut executed = false;
        let gathered = loop {
            let Delegated { queue, memory, meter, .. } = &mut *delegated;
            let gathered = queue.gather(&mut self.port(memory, meter), &self.doorbells);
            if queue.gathered() == 0 || !self.execute_gathered(delegated) {
                break gathered;
            }
            executed = true;
            let Delegated { queue, memory, meter, .. } = &mut *delegated;
            queue.complete(&mut self.port(memory, meter));
            // A host can submit without end, so check for a reclaim after each round.
            if gathered != Gathered::Full || self.delegation.reclaims() {
                break gathered;
            }
        };
        Service { executed, stays: gathered != Gathered::NotMine && !delegated.queue.is_broken() }
    }

    /// Executes what a queue has gathered, without the run lock as far as that goes. False on a failed device.
    fn execute_gathered(&self, delegated: &mut Delegated) -> bool {
        // Once more for writes behind one that has renewed the lease.
        while !self.execute_without_lock(&mut delegated.queue) {
            let stores_alone = delegated.queue.has_leased_stores_alone();
            let execute = |core: &mut Core| self.execute(core, delegated);
            let run_now = |core: &mut Core| core.run_now(self);
            // Other leases stay active meanwhile.
            let ran = match stores_alone {
                true => self.core.run_as_it_is(execute, run_now),
                false => self.core.run(execute, run_now),
            };
            if ran.is_none() {
                return false;
            }
            if delegated.queue.is_executed() {
                break;
            }
        }
        true
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
        let reader = reader_of_queue(queue.qid());
        queue.begins_with_get()
            && self.core.read(reader, |subsystem| queue.execute_shared(subsystem)) == Some(true)
    }

    fn execute(&self, core: &mut Core, delegated: &mut Delegated) {
        let Delegated { queue, meter, absorbed_ns, .. } = delegated;
        let since_ns = self.counting_since_ns();
        core.counting(self, since_ns, |core| {
            core.subsystem.note_wait(StallCause::Lock, self.core.take_waited_ns());
            queue.execute_to_renew(&mut core.subsystem);
        });
        self.note_upkeep(core);
        if self.is_counting && since_ns.saturating_sub(*absorbed_ns) > ABSORB_NS {
            *absorbed_ns = since_ns;
            core.meter.absorb(meter);
        }
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
                cell.set_in_controller(if core.controller.has_queue(qid) { AFTER_REFUSAL } else { 0 });
                return None;
            };
            cell.set_delegated();
            debug!(qid, "queue pair delegated to its thread");
            let mut meter = Meter::new(&self.profile);
            meter.set_ledger(core.meter.is_counting());
            self.delegation.insert(qid);
            self.core.add_reader(reader_of_queue(qid));
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
        doorbells: u32,
    ) {
        let Some(delegated) = from.take() else { return };
        let Delegated { mut queue, memory, mut meter, .. } = *delegated;
        core.counting(self, self.counting_since_ns(), |core| queue.execute(&mut core.subsystem));
        queue.close_leases(&mut core.subsystem);
        queue.complete(&mut self.port(&memory, &mut meter));
        core.meter.absorb(&mut meter);
        self.delegation.remove(queue.qid());
        self.core.remove_reader(reader_of_queue(queue.qid()));
        debug!(qid = queue.qid(), is_reclaim = self.delegation.reclaims(), "queue pair returned");
        cell.set_in_controller(doorbells);
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
