//! The run queue: which program gets the next time slice.
//!
//! Fair queueing by controller (virtual runtime, as in CFS, the Completely Fair Scheduler of Linux): the controller with the least virtual runtime
//! goes next, and its programs take turns. A program needs a run slot, which bounds the memory of programs that have begun; those without one
//! wait in the order in which they came.

use std::collections::VecDeque;
use std::mem;

use super::ProgramRun;
use crate::id::{ControllerId, RunId};
use crate::limits::{
    RUN_SLOTS_PER_CONTROLLER, RUN_SLOTS_SHARED, RUN_SLOTS_TOTAL, WAITING_BYTES_MAX_PER_CONTROLLER,
};

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
    controllers: Vec<ControllerQueue>,
    /// Bytes of values and inputs of programs.
    value_bytes: usize,
}

/// Programs of one controller.
#[derive(Debug)]
struct ControllerQueue {
    owner: ControllerId,
    /// Virtual runtime: the time that its programs have used, from the least of the others on when the first of them came.
    vruntime_ns: u64,
    /// Programs with a run slot. The next one is first.
    running: VecDeque<QueuedRun>,
    /// Programs without one. The oldest is first.
    waiting: VecDeque<QueuedRun>,
    /// Bytes of those that wait.
    waiting_bytes: usize,
}

impl RunQueue {
    /// Whether a program may wait: whether its bytes fit into what may wait.
    pub fn fits_waiting_quota(&self, run: &ProgramRun) -> bool {
        let waiting_bytes = self.of(run.owner).map_or(0, |queue| queue.waiting_bytes);
        waiting_bytes + run.waiting_bytes() <= WAITING_BYTES_MAX_PER_CONTROLLER
    }

    /// Whether a program of a controller may begin before all others of it.
    pub fn may_begin(&self, owner: ControllerId) -> bool {
        match self.of(owner) {
            Some(queue) => queue.waiting.is_empty() && self.has_slot_for(queue),
            None => self.used_slots() < RUN_SLOTS_TOTAL,
        }
    }

    /// Adds a program. A controller without programs starts at the least virtual runtime of the others, if its own is below.
    pub fn add(&mut self, queued: QueuedRun) {
        self.value_bytes += queued.run.value_bytes();
        let (owner, min_vruntime_ns) = (queued.run.owner, self.min_vruntime_ns());
        let at = self.position(owner).unwrap_or_else(|| {
            self.controllers.push(ControllerQueue::new(owner));
            self.controllers.len() - 1
        });
        let queue = &mut self.controllers[at];
        if queue.is_empty() {
            queue.vruntime_ns = queue.vruntime_ns.max(min_vruntime_ns.unwrap_or(0));
        }
        queue.wait(queued);
        self.fill_slots(at);
    }

    /// Takes the program that gets the next time slice.
    pub fn next(&mut self) -> Option<QueuedRun> {
        let Some(min_vruntime_ns) = self.min_vruntime_ns() else {
            self.controllers.retain(|queue| !queue.is_empty());
            return None;
        };
        self.controllers.retain(|queue| !queue.is_empty() || queue.vruntime_ns > min_vruntime_ns);
        let may_run = |queue: &ControllerQueue| queue.vruntime_ns == min_vruntime_ns && self.may_run(queue);
        let at = self.controllers.iter().position(may_run)?;
        self.fill_slots(at);
        let queued = self.controllers[at].running.pop_front()?;
        self.value_bytes -= queued.run.value_bytes();
        Some(queued)
    }

    /// Puts a program that goes on behind the others of its controller that have a run slot.
    pub fn put_back(&mut self, queued: QueuedRun) {
        match self.position(queued.run.owner) {
            Some(at) => {
                self.value_bytes += queued.run.value_bytes();
                self.controllers[at].running.push_back(queued);
            }
            None => self.add(queued),
        }
    }

    /// Charges a controller for a time slice of one of its programs.
    pub fn charge(&mut self, owner: ControllerId, used_ns: u64) {
        if let Some(at) = self.position(owner) {
            self.controllers[at].vruntime_ns += used_ns.max(1);
        }
    }

    /// Bytes of values and inputs of programs.
    pub const fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Removes the programs whose deadline has passed.
    pub fn take_overdue(&mut self, now_ns: u64) -> Vec<QueuedRun> {
        let overdue: Vec<QueuedRun> =
            self.controllers.iter_mut().flat_map(|queue| queue.take_overdue(now_ns)).collect();
        self.value_bytes -= overdue.iter().map(|queued| queued.run.value_bytes()).sum::<usize>();
        overdue
    }

    /// Removes the programs for which `is_cancelled` holds.
    pub fn remove_if(&mut self, mut is_cancelled: impl FnMut(&QueuedRun) -> bool) {
        for queue in &mut self.controllers {
            queue.running.retain(|queued| !is_cancelled(queued));
            queue.waiting.retain(|queued| !is_cancelled(queued));
            queue.waiting_bytes = queue.waiting.iter().map(|queued| queued.run.waiting_bytes()).sum();
        }
        let all = self.controllers.iter().flat_map(|queue| queue.running.iter().chain(&queue.waiting));
        self.value_bytes = all.map(|queued| queued.run.value_bytes()).sum();
    }

    fn of(&self, owner: ControllerId) -> Option<&ControllerQueue> {
        self.position(owner).map(|at| &self.controllers[at])
    }

    fn position(&self, owner: ControllerId) -> Option<usize> {
        self.controllers.iter().position(|queue| queue.owner == owner)
    }

    /// The least virtual runtime of a controller of which a program may run.
    fn min_vruntime_ns(&self) -> Option<u64> {
        let may_run = self.controllers.iter().filter(|queue| self.may_run(queue));
        may_run.map(|queue| queue.vruntime_ns).min()
    }

    fn may_run(&self, queue: &ControllerQueue) -> bool {
        !queue.running.is_empty() || !queue.waiting.is_empty() && self.has_slot_for(queue)
    }

    fn used_slots(&self) -> usize {
        self.controllers.iter().map(|queue| queue.running.len()).sum()
    }

    /// Whether a run slot is free for a controller: its first one, or one of those that controllers share.
    fn has_slot_for(&self, queue: &ControllerQueue) -> bool {
        let shared = |queue: &ControllerQueue| queue.running.len().saturating_sub(1);
        let is_free = match queue.running.len() {
            0 => true,
            running if running < RUN_SLOTS_PER_CONTROLLER => {
                self.controllers.iter().map(shared).sum::<usize>() < RUN_SLOTS_SHARED
            }
            _ => false,
        };
        is_free && self.used_slots() < RUN_SLOTS_TOTAL
    }

    /// Gives free run slots to programs of the controller at `at` that wait.
    fn fill_slots(&mut self, at: usize) {
        while !self.controllers[at].waiting.is_empty() && self.has_slot_for(&self.controllers[at]) {
            self.controllers[at].give_slot();
        }
    }
}

impl ControllerQueue {
    fn new(owner: ControllerId) -> Self {
        let (running, waiting) = (VecDeque::new(), VecDeque::new());
        Self { owner, vruntime_ns: 0, running, waiting, waiting_bytes: 0 }
    }

    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    fn wait(&mut self, queued: QueuedRun) {
        self.waiting_bytes += queued.run.waiting_bytes();
        self.waiting.push_back(queued);
    }

    /// Takes the program that has waited longest.
    fn take_waiting(&mut self) -> Option<QueuedRun> {
        let queued = self.waiting.pop_front()?;
        self.waiting_bytes -= queued.run.waiting_bytes();
        Some(queued)
    }

    fn give_slot(&mut self) {
        let queued = self.take_waiting();
        self.running.extend(queued);
    }

    fn take_overdue(&mut self, now_ns: u64) -> Vec<QueuedRun> {
        let is_overdue = |queued: &QueuedRun| queued.deadline_ns <= now_ns;
        let mut overdue = Vec::new();
        while self.waiting.front().is_some_and(is_overdue) {
            overdue.extend(self.take_waiting());
        }
        if self.running.iter().any(is_overdue) {
            let (stopped, others) = mem::take(&mut self.running).into_iter().partition(is_overdue);
            self.running = others;
            overdue.extend::<VecDeque<_>>(stopped);
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use byway_programs::{BuiltIn, Program, Ranges};

    use super::*;
    use crate::program_runs::{RangesRun, RunOver};

    fn queued(id: u64, owner: u16) -> QueuedRun {
        let program = Arc::new(Program::built_in(BuiltIn::Crc32c));
        let run = RangesRun::new(program, Arc::new(Ranges::default()), 0, [0; 2]);
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
        let running: Vec<usize> = queue.controllers.iter().map(|queue| queue.running.len()).collect();
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
    fn program_that_waits_takes_no_more_memory_than_is_counted() {
        /// Of the entry of its command in the table of its controller.
        const COMMAND_BYTES: usize = 128;
        let bytes = size_of::<QueuedRun>() + size_of::<RangesRun>() + COMMAND_BYTES;
        assert!(bytes <= queued(0, 1).run.waiting_bytes(), "{bytes} bytes");
    }
}
