//! The run queue: which program gets the next time slice.
//!
//! Fair queueing by controller (virtual runtime, as in CFS, the Completely Fair Scheduler of Linux): the controller with the least virtual runtime
//! goes next, and its programs take turns. A program needs a run slot, which bounds the memory of programs that have begun; those without one
//! wait in the order in which they came.
//!
//! To add, take, put back or charge takes O(log controllers) time: what controllers hold together is counted, and controllers are ordered by
//! virtual runtime. Programs of one controller are removed without a look at those of others.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::ProgramRun;
use super::controller_queue::{ControllerQueue, State};
use super::totals::Totals;
use crate::id::{ControllerId, RunId};

/// A program in the run queue.
#[derive(Debug)]
pub(crate) struct QueuedRun {
    pub id: RunId,
    pub run: ProgramRun,
    /// When it is stopped, by the runner's clock. No earlier than that of programs that came before.
    pub deadline_ns: u64,
}

/// Programs of all controllers.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    /// Controllers with programs, and those without whose virtual runtime is above the least.
    controllers: BTreeMap<ControllerId, ControllerQueue>,
    /// Controllers of each [`State`] by virtual runtime, in nanoseconds.
    by_vruntime: [BTreeSet<(u64, ControllerId)>; State::COUNT],
    totals: Totals,
    /// No program has an earlier deadline.
    earliest_deadline_ns: u64,
}

impl RunQueue {
    /// Whether a program may wait: whether its bytes fit into what may wait.
    pub fn fits_waiting_quota(&self, run: &ProgramRun) -> bool {
        match self.controllers.get(&run.owner) {
            Some(queue) => {
                let own_bytes = queue.waiting_bytes() + run.waiting_bytes();
                self.totals.without(queue).fits_waiting_quota(own_bytes)
            }
            None => self.totals.fits_waiting_quota(run.waiting_bytes()),
        }
    }

    /// Whether a program of a controller may begin before all others of it.
    pub fn may_begin(&self, owner: ControllerId) -> bool {
        match self.controllers.get(&owner) {
            Some(queue) => queue.may_begin(&self.totals.without(queue)),
            None => self.totals.has_slot_for(0),
        }
    }

    /// Adds a program. A controller without programs starts at the least virtual runtime of the others, if its own is below.
    pub fn add(&mut self, queued: QueuedRun) {
        let min_vruntime_ns = self.min_vruntime_ns().unwrap_or(0);
        self.earliest_deadline_ns = self.earliest_deadline_ns.min(queued.deadline_ns);
        self.change(queued.run.owner, |queue, others| {
            if queue.is_empty() {
                queue.vruntime_ns = queue.vruntime_ns.max(min_vruntime_ns);
            }
            queue.wait(queued);
            queue.fill_slots(others);
        });
    }

    /// Takes the program that gets the next time slice.
    pub fn next(&mut self) -> Option<QueuedRun> {
        let next = self.next_controller();
        self.forget_idle(next.map(|(min_vruntime_ns, _)| min_vruntime_ns));
        let (_, owner) = next?;
        self.change(owner, |queue, others| {
            queue.fill_slots(others);
            queue.take_next()
        })
    }

    /// Puts a program that goes on behind the others of its controller that have a run slot.
    pub fn put_back(&mut self, queued: QueuedRun) {
        let owner = queued.run.owner;
        if self.controllers.contains_key(&owner) {
            self.change(owner, |queue, _| queue.put_back(queued));
        } else {
            self.add(queued);
        }
    }

    /// Whether a program may run.
    pub fn has_runnable(&self) -> bool {
        self.next_controller().is_some()
    }

    /// Charges a controller for a time slice of one of its programs. One without programs starts as [`add`](Self::add) says, and is not
    /// charged if no program may run.
    pub fn charge(&mut self, owner: ControllerId, used_ns: u64) {
        let is_known = self.controllers.contains_key(&owner);
        let started_ns = if is_known { Some(0) } else { self.min_vruntime_ns() };
        let Some(started_ns) = started_ns else { return };
        self.change(owner, |queue, _| {
            queue.vruntime_ns = queue.vruntime_ns.max(started_ns) + used_ns.max(1);
        });
    }

    /// Bytes of values and inputs of programs.
    pub const fn value_bytes(&self) -> usize {
        self.totals.value_bytes
    }

    /// Removes the programs whose deadline has passed.
    pub fn take_overdue(&mut self, now_ns: u64) -> Vec<QueuedRun> {
        if now_ns < self.earliest_deadline_ns {
            return Vec::new();
        }
        let owners: Vec<ControllerId> = self.controllers.keys().copied().collect();
        let take = |owner| self.change(owner, |queue, _| queue.take_overdue(now_ns));
        let overdue = owners.into_iter().flat_map(take).collect();
        let deadlines_ns = self.controllers.values().filter_map(ControllerQueue::earliest_deadline_ns);
        self.earliest_deadline_ns = deadlines_ns.min().unwrap_or(u64::MAX);
        overdue
    }

    /// Removes programs of a controller.
    pub fn remove(&mut self, owner: ControllerId, ids: &HashSet<RunId>) {
        if self.controllers.contains_key(&owner) {
            self.change(owner, |queue, _| queue.remove(ids));
        }
    }

    /// Removes all programs of a controller.
    pub fn remove_all_of(&mut self, owner: ControllerId) {
        if self.controllers.contains_key(&owner) {
            self.change(owner, |queue, _| queue.clear());
        }
    }

    /// Removes the programs for which `is_cancelled` holds, in one pass over all.
    pub fn remove_if(&mut self, mut is_cancelled: impl FnMut(&QueuedRun) -> bool) {
        let owners: Vec<ControllerId> = self.controllers.keys().copied().collect();
        for owner in owners {
            self.change(owner, |queue, _| queue.remove_if(&mut is_cancelled));
        }
    }

    /// The least virtual runtime of a controller of which a program may run.
    fn min_vruntime_ns(&self) -> Option<u64> {
        self.next_controller().map(|(vruntime_ns, _)| vruntime_ns)
    }

    /// The controller whose program goes next, behind its virtual runtime.
    fn next_controller(&self) -> Option<(u64, ControllerId)> {
        let first = |state: State| self.by_vruntime[state as usize].first().copied();
        let waiting = first(State::Waiting).filter(|_| self.totals.has_slot_for(0));
        first(State::Running).into_iter().chain(waiting).min()
    }

    /// Forgets controllers without programs whose virtual runtime is no greater than the least, or all if no program may run.
    fn forget_idle(&mut self, min_vruntime_ns: Option<u64>) {
        let idle = &mut self.by_vruntime[State::Idle as usize];
        while let Some((vruntime_ns, owner)) = idle.first().copied()
            && min_vruntime_ns.is_none_or(|min_vruntime_ns| vruntime_ns <= min_vruntime_ns)
        {
            idle.pop_first();
            self.controllers.remove(&owner);
        }
    }

    /// Changes what a controller has. `change` also gets what the others hold.
    fn change<R>(
        &mut self,
        owner: ControllerId,
        change: impl FnOnce(&mut ControllerQueue, &Totals) -> R,
    ) -> R {
        let queue = self.controllers.entry(owner).or_default();
        self.by_vruntime[queue.state() as usize].remove(&(queue.vruntime_ns, owner));
        let others = self.totals.without(queue);
        let result = change(queue, &others);
        self.totals = others.with(queue);
        self.by_vruntime[queue.state() as usize].insert((queue.vruntime_ns, owner));
        result
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use byway_programs::{BuiltIn, Program, Ranges};

    use super::*;
    use crate::limits::{
        RUN_SLOTS_PER_CONTROLLER, RUN_SLOTS_TOTAL, WAITING_BYTES_MAX_PER_CONTROLLER,
        WAITING_BYTES_RESERVED_PER_CONTROLLER, WAITING_BYTES_SHARED, WAITING_BYTES_TOTAL,
    };
    use crate::program_runs::{RangesRun, RunOver};

    fn queued(id: u64, owner: u16) -> QueuedRun {
        listed(id, owner, 0)
    }

    /// A program whose command brought so many ranges.
    fn listed(id: u64, owner: u16, ranges: usize) -> QueuedRun {
        let program = Arc::new(Program::built_in(BuiltIn::Crc32c));
        let run = RangesRun::new(program, Arc::new(Ranges::default()), ranges, [0; 2]);
        let run = ProgramRun { owner: ControllerId(owner), nsid: 1, over: RunOver::Ranges(Box::new(run)) };
        QueuedRun { id: RunId(id), run, deadline_ns: id }
    }

    /// Owner and identifier of the next program, which uses some time and goes on if it `lasts`.
    fn run_next(queue: &mut RunQueue, used_ns: impl Fn(u16) -> u64, lasts: bool) -> (u16, u64) {
        let next = queue.next().unwrap();
        let (owner, id) = (next.run.owner, next.id.0);
        queue.charge(owner, used_ns(owner.0));
        if lasts {
            queue.put_back(next);
        }
        (owner.0, id)
    }

    fn owners(queue: &mut RunQueue, count: usize, used_ns: impl Fn(u16) -> u64) -> Vec<u16> {
        (0..count).map(|_| run_next(queue, &used_ns, true).0).collect()
    }

    #[test]
    fn controllers_take_turns_however_many_programs_one_has() {
        let mut queue = RunQueue::default();
        (0..30).for_each(|id| queue.add(queued(id, 1)));
        queue.add(queued(30, 2));
        assert_eq!(owners(&mut queue, 6, |_| 10), [1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn controller_whose_time_slices_are_long_gets_fewer_of_them() {
        let mut queue = RunQueue::default();
        (0..30).for_each(|id| queue.add(queued(id, id as u16 % 2)));
        let long = |owner| if owner == 0 { 90 } else { 30 };
        let counts = owners(&mut queue, 400, long).into_iter().filter(|owner| *owner == 0).count();
        assert_eq!(counts, 100);
    }

    #[test]
    fn controller_that_comes_late_has_no_time_to_make_up_for() {
        let mut queue = RunQueue::default();
        queue.add(queued(0, 1));
        owners(&mut queue, 100, |_| 10);
        queue.add(queued(1, 2));
        assert_eq!(owners(&mut queue, 4, |_| 10), [1, 2, 1, 2]);
    }

    #[test]
    fn controllers_that_add_a_program_as_soon_as_one_ended_leave_time_to_the_others() {
        let mut queue = RunQueue::default();
        queue.add(queued(0, 1));
        (2..4).for_each(|owner| queue.add(queued(owner.into(), owner)));
        let mut slices = 0;
        for _ in 0..300 {
            let (owner, _) = run_next(&mut queue, |_| 10, false);
            slices += usize::from(owner == 1);
            queue.add(queued(0, owner));
        }
        assert_eq!(slices, 100);
    }

    #[test]
    fn controller_charged_while_it_has_no_program_goes_behind_the_others_once_it_has_one() {
        let mut queue = RunQueue::default();
        queue.charge(ControllerId(2), 70);
        assert!(queue.controllers.is_empty(), "no program waits meanwhile");
        queue.add(queued(0, 1));
        (0..3).for_each(|_| queue.charge(ControllerId(2), 10));
        queue.add(queued(1, 2));
        assert_eq!(owners(&mut queue, 6, |_| 10), [1, 1, 1, 1, 2, 1]);
    }

    #[test]
    fn controller_without_programs_is_forgotten_once_others_have_used_as_much() {
        let mut queue = RunQueue::default();
        (1..3).for_each(|owner| queue.add(queued(0, owner)));
        assert_eq!(run_next(&mut queue, |_| 50, false).0, 1);
        owners(&mut queue, 4, |_| 10);
        assert_eq!(queue.controllers.len(), 2, "it has used more");
        owners(&mut queue, 2, |_| 10);
        assert_eq!(queue.controllers.len(), 1);
    }

    #[test]
    fn programs_of_a_controller_take_turns() {
        let mut queue = RunQueue::default();
        (0..3).for_each(|id| queue.add(queued(id, 1)));
        let order: Vec<u64> = (0..6).map(|_| run_next(&mut queue, |_| 1, true).1).collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn programs_without_a_run_slot_get_one_in_their_order_as_others_end() {
        let mut queue = RunQueue::default();
        let most = RUN_SLOTS_PER_CONTROLLER as u64;
        (0..most + 2).for_each(|id| queue.add(queued(id, 1)));
        let order: Vec<u64> = (0..most).map(|_| run_next(&mut queue, |_| 1, true).1).collect();
        assert_eq!(order, (0..most).collect::<Vec<u64>>());
        assert!(!queue.may_begin(ControllerId(1)));
        (0..2).for_each(|id| assert_eq!(run_next(&mut queue, |_| 1, false), (1, id)));
        let rest: Vec<u64> = (0..most).map(|_| run_next(&mut queue, |_| 1, false).1).collect();
        assert_eq!(rest, (2..most + 2).collect::<Vec<u64>>());
        assert!(queue.next().is_none() && queue.may_begin(ControllerId(1)));
    }

    #[test]
    fn controllers_that_use_all_shared_run_slots_leave_one_to_each_other_controller() {
        let mut queue = RunQueue::default();
        for owner in 0..9 {
            (0..40).for_each(|id| queue.add(queued(id, owner)));
        }
        let running: Vec<usize> = queue.controllers.values().map(ControllerQueue::run_slots).collect();
        assert_eq!(running, [32, 32, 3, 1, 1, 1, 1, 1, 1]);
        let mut served = owners(&mut queue, 9, |_| 10);
        served.sort_unstable();
        assert_eq!(served, (0..9).collect::<Vec<u16>>());
    }

    #[test]
    fn controllers_beyond_all_run_slots_wait_for_one() {
        let mut queue = RunQueue::default();
        let most = RUN_SLOTS_TOTAL as u16;
        (0..=most).for_each(|owner| queue.add(queued(0, owner)));
        assert!(!queue.may_begin(ControllerId(most + 1)));
        assert!(!owners(&mut queue, 2 * usize::from(most), |_| 1).contains(&most));
        run_next(&mut queue, |_| 1, false);
        assert_eq!(run_next(&mut queue, |_| 1, true).0, most);
    }

    #[test]
    fn programs_are_taken_from_their_deadline_on() {
        let mut queue = RunQueue::default();
        (5..8).for_each(|id| queue.add(queued(id, 1)));
        assert!(queue.take_overdue(4).is_empty());
        let overdue: Vec<u64> = queue.take_overdue(6).into_iter().map(|queued| queued.id.0).collect();
        assert_eq!((overdue, queue.next().map(|queued| queued.id.0)), (vec![5, 6], Some(7)));
    }

    #[test]
    fn totals_and_order_follow_every_change_of_a_controller() {
        let mut queue = RunQueue::default();
        for owner in 0..5 {
            (0..50).for_each(|id| queue.add(queued(10 * id + u64::from(owner), owner)));
        }
        (0..500).for_each(|turn| _ = run_next(&mut queue, |owner| owner.into(), turn % 3 != 0));
        queue.remove_if(|queued| queued.id.0 % 4 == 0);
        queue.remove(ControllerId(1), &HashSet::from([11, 491, 492].map(RunId)));
        queue.remove_all_of(ControllerId(2));
        assert!(!queue.take_overdue(200).is_empty());
        let counted = queue.controllers.values().fold(Totals::default(), |sum, queue| sum.with(queue));
        assert_eq!(queue.totals, counted);
        let ordered = queue.by_vruntime.iter().flatten().map(|(vruntime_ns, owner)| (owner, vruntime_ns));
        let ordered: BTreeMap<_, _> = ordered.collect();
        let controllers = queue.controllers.iter().map(|(owner, queue)| (owner, &queue.vruntime_ns));
        assert_eq!(ordered, controllers.collect());
        assert_eq!(queue.by_vruntime.iter().map(BTreeSet::len).sum::<usize>(), queue.controllers.len());
    }

    #[test]
    fn removed_programs_of_a_controller_leave_run_slots_and_room_to_its_others() {
        let mut queue = RunQueue::default();
        let slots = RUN_SLOTS_PER_CONTROLLER as u64;
        (0..slots + 3).for_each(|id| queue.add(queued(id, 1)));
        queue.add(queued(slots + 3, 2));
        let waiting_bytes = |queue: &RunQueue| queue.controllers[&ControllerId(1)].waiting_bytes();
        let before_bytes = waiting_bytes(&queue);
        queue.remove(ControllerId(1), &HashSet::from([0, slots + 1, slots + 3].map(RunId)));
        assert_eq!(waiting_bytes(&queue), before_bytes / 3 * 2);
        assert_eq!(queue.totals.run_slots as u64, slots);
        queue.remove_all_of(ControllerId(3));
        queue.remove_all_of(ControllerId(1));
        assert_eq!((waiting_bytes(&queue), queue.totals.run_slots), (0, 1));
        assert_eq!(queue.next().map(|queued| queued.id.0), Some(slots + 3));
    }

    #[test]
    fn programs_wait_while_there_is_room_for_them() {
        let mut queue = RunQueue::default();
        let bytes = queued(0, 1).run.waiting_bytes();
        let most = RUN_SLOTS_PER_CONTROLLER + WAITING_BYTES_MAX_PER_CONTROLLER / bytes;
        (0..most as u64).for_each(|id| queue.add(queued(id, 1)));
        assert!(!queue.fits_waiting_quota(&queued(0, 1).run));
        assert!(queue.fits_waiting_quota(&queued(0, 2).run));
        queue.remove_if(|queued| queued.id.0 == 99);
        assert!(queue.fits_waiting_quota(&queued(0, 1).run));
    }

    #[test]
    fn controllers_that_fill_the_shared_room_leave_each_other_one_its_reserved_room() {
        let mut totals = Totals { shared_waiting_bytes: WAITING_BYTES_SHARED, ..Totals::default() };
        assert!(totals.fits_waiting_quota(WAITING_BYTES_RESERVED_PER_CONTROLLER));
        assert!(!totals.fits_waiting_quota(WAITING_BYTES_RESERVED_PER_CONTROLLER + 1));
        totals.shared_waiting_bytes -= 1;
        assert!(totals.fits_waiting_quota(WAITING_BYTES_RESERVED_PER_CONTROLLER + 1));
        assert!(!Totals::default().fits_waiting_quota(WAITING_BYTES_MAX_PER_CONTROLLER + 1));
    }

    #[test]
    fn waiting_programs_of_all_controllers_stay_within_the_room_of_the_device() {
        let mut queue = RunQueue::default();
        let fill = |queue: &mut RunQueue, owner: u16| {
            let mut added = 0;
            while queue.fits_waiting_quota(&listed(added, owner, 64).run) {
                queue.add(listed(added, owner, 64));
                added += 1;
            }
            added
        };
        let added: Vec<u64> = (0..12).map(|owner| fill(&mut queue, owner)).collect();
        let waiting_bytes: usize = queue.controllers.values().map(ControllerQueue::waiting_bytes).sum();
        assert!(waiting_bytes <= WAITING_BYTES_SHARED + 12 * WAITING_BYTES_RESERVED_PER_CONTROLLER);
        assert!(waiting_bytes < WAITING_BYTES_TOTAL && added[11] > 20, "{added:?}");
        queue.remove_all_of(ControllerId(0));
        assert!(fill(&mut queue, 11) > 10_000);
    }

    #[test]
    fn program_that_waits_takes_no_more_memory_than_is_counted() {
        /// Of the entry of its command in the table of its controller.
        const COMMAND_BYTES: usize = 128;
        // Nodes of a BTreeMap are half full at least.
        let queued_bytes = 2 * (size_of::<RunId>() + size_of::<QueuedRun>());
        let bytes = queued_bytes + size_of::<RangesRun>() + COMMAND_BYTES;
        assert!(bytes <= queued(0, 1).run.waiting_bytes(), "{bytes} bytes");
    }
}
