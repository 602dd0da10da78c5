//! The programs of one controller in the run queue.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::mem;

use super::run_queue::QueuedRun;
use super::totals::Totals;
use crate::id::RunId;

/// Programs of one controller.
#[derive(Debug, Default)]
pub(super) struct ControllerQueue {
    /// Virtual runtime: the time that its programs have used, from the least of the others on when the first of them came.
    pub vruntime_ns: u64,
    /// Programs with a run slot. The next one is first.
    running: VecDeque<QueuedRun>,
    /// Programs without one, in the order in which they came.
    waiting: BTreeMap<RunId, QueuedRun>,
    /// Bytes of those that wait.
    waiting_bytes: usize,
    /// Bytes of values and inputs of all of them.
    value_bytes: usize,
}

/// What a controller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It has no program.
    Idle,
    /// It has programs, and none has a run slot.
    Waiting,
    /// A program has a run slot.
    Running,
}

impl State {
    pub const COUNT: usize = 3;
}

impl ControllerQueue {
    pub fn state(&self) -> State {
        match (self.running.is_empty(), self.waiting.is_empty()) {
            (false, _) => State::Running,
            (true, false) => State::Waiting,
            (true, true) => State::Idle,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.state() == State::Idle
    }

    /// Run slots that its programs have.
    pub fn run_slots(&self) -> usize {
        self.running.len()
    }

    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub const fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Whether a new program may begin before all others: none waits, and a run slot is free beside those of the `others`.
    pub fn may_begin(&self, others: &Totals) -> bool {
        self.waiting.is_empty() && others.has_slot_for(self.running.len())
    }

    /// Adds a program that waits for a run slot.
    pub fn wait(&mut self, queued: QueuedRun) {
        self.waiting_bytes += queued.run.waiting_bytes();
        self.value_bytes += queued.run.value_bytes();
        self.waiting.insert(queued.id, queued);
    }

    /// Gives free run slots to programs that wait, the oldest first.
    pub fn fill_slots(&mut self, others: &Totals) {
        while others.has_slot_for(self.running.len())
            && let Some((_, queued)) = self.waiting.pop_first()
        {
            self.waiting_bytes -= queued.run.waiting_bytes();
            self.running.push_back(queued);
        }
    }

    /// Takes the next program that has a run slot.
    pub fn take_next(&mut self) -> Option<QueuedRun> {
        let queued = self.running.pop_front()?;
        self.value_bytes -= queued.run.value_bytes();
        Some(queued)
    }

    /// Puts a program behind those that have a run slot.
    pub fn put_back(&mut self, queued: QueuedRun) {
        self.value_bytes += queued.run.value_bytes();
        self.running.push_back(queued);
    }

    pub fn earliest_deadline_ns(&self) -> Option<u64> {
        let oldest = self.waiting.first_key_value().map(|(_, queued)| queued);
        self.running.iter().chain(oldest).map(|queued| queued.deadline_ns).min()
    }

    /// Takes the programs whose deadline has passed.
    pub fn take_overdue(&mut self, now_ns: u64) -> Vec<QueuedRun> {
        let is_overdue = |queued: &QueuedRun| queued.deadline_ns <= now_ns;
        let mut overdue = Vec::new();
        while let Some(oldest) = self.waiting.first_entry()
            && is_overdue(oldest.get())
        {
            let queued = oldest.remove();
            self.waiting_bytes -= queued.run.waiting_bytes();
            overdue.push(queued);
        }
        if self.running.iter().any(is_overdue) {
            let (stopped, others) = mem::take(&mut self.running).into_iter().partition(is_overdue);
            self.running = others;
            overdue.extend::<VecDeque<_>>(stopped);
        }
        self.value_bytes -= overdue.iter().map(|queued| queued.run.value_bytes()).sum::<usize>();
        overdue
    }

    /// Removes programs. Of those that wait, only these are looked at.
    pub fn remove(&mut self, ids: &HashSet<RunId>) {
        let Self { running, waiting, waiting_bytes, value_bytes, .. } = self;
        running.retain(|queued| {
            let is_removed = ids.contains(&queued.id);
            *value_bytes -= if is_removed { queued.run.value_bytes() } else { 0 };
            !is_removed
        });
        for queued in ids.iter().filter_map(|id| waiting.remove(id)) {
            *waiting_bytes -= queued.run.waiting_bytes();
            *value_bytes -= queued.run.value_bytes();
        }
    }

    /// Removes all programs.
    pub fn clear(&mut self) {
        *self = Self { vruntime_ns: self.vruntime_ns, ..Self::default() };
    }

    /// Removes the programs for which `is_cancelled` holds.
    pub fn remove_if(&mut self, mut is_cancelled: impl FnMut(&QueuedRun) -> bool) {
        let Self { running, waiting, waiting_bytes, value_bytes, .. } = self;
        let mut stays = |queued: &QueuedRun| {
            let is_cancelled = is_cancelled(queued);
            *value_bytes -= if is_cancelled { queued.run.value_bytes() } else { 0 };
            !is_cancelled
        };
        running.retain(&mut stays);
        waiting.retain(|_, queued| {
            let stays = stays(queued);
            *waiting_bytes -= if stays { 0 } else { queued.run.waiting_bytes() };
            stays
        });
    }
}
