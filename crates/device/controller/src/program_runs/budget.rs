//! What programs may do while one thread holds the run lock: so many steps, and so long. A command of another queue waits no longer for
//! programs, however many Execute commands a host has rung the doorbell for.

use byway_programs::Program;

use super::ProgramRunner;
use crate::limits::{INLINE_STEPS, PROGRAM_HOLD_NS, PROGRAM_HOLD_STEPS};

/// What is left of the budget of one hold of the run lock.
#[derive(Debug)]
pub(crate) struct HoldBudget {
    steps: u64,
    /// When the time for programs ends. `None` before the first program of the hold.
    until_ns: Option<u64>,
}

/// What was left as a time slice began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeSlice {
    steps: u64,
    begun_ns: u64,
}

impl Default for HoldBudget {
    fn default() -> Self {
        Self { steps: PROGRAM_HOLD_STEPS, until_ns: None }
    }
}

impl HoldBudget {
    /// Steps that are left.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Begins a time slice, if programs may go on. The first one begins their time.
    pub fn begin_slice(&mut self, runner: &dyn ProgramRunner) -> Option<TimeSlice> {
        let begun_ns = runner.now_ns();
        let until_ns = *self.until_ns.get_or_insert(begun_ns.saturating_add(PROGRAM_HOLD_NS));
        (self.steps > 0 && begun_ns < until_ns).then_some(TimeSlice { steps: self.steps, begun_ns })
    }

    /// What a time slice has used: its time, and a nanosecond for each step at least.
    pub fn used_ns(&self, slice: TimeSlice, runner: &dyn ProgramRunner) -> u64 {
        let time_ns = runner.now_ns().saturating_sub(slice.begun_ns);
        time_ns.max(slice.steps.saturating_sub(self.steps))
    }

    /// Begins a time slice of `program` by the thread that executes its command, if the program may begin there.
    pub fn begin_inline(&mut self, program: &Program, runner: &dyn ProgramRunner) -> Option<TimeSlice> {
        let steps = program.start_steps();
        let is_short = program.is_interruptible() && steps <= INLINE_STEPS && steps < self.steps;
        let slice = is_short.then(|| self.begin_slice(runner)).flatten()?;
        self.charge(steps);
        Some(slice)
    }

    /// When the time for programs ends.
    pub const fn until_ns(&self) -> u64 {
        match self.until_ns {
            Some(until_ns) => until_ns,
            None => u64::MAX,
        }
    }

    /// Takes steps off.
    pub const fn charge(&mut self, steps: u64) {
        self.steps = self.steps.saturating_sub(steps);
    }
}
