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

    /// Whether programs may go on, and begins to measure their time.
    pub fn begin(&mut self, runner: &dyn ProgramRunner) -> bool {
        let now_ns = runner.now_ns();
        let until_ns = *self.until_ns.get_or_insert(now_ns.saturating_add(PROGRAM_HOLD_NS));
        self.steps > 0 && now_ns < until_ns
    }

    /// Whether `program` may begin by the thread that executes its command.
    pub fn admits(&mut self, program: &Program, runner: &dyn ProgramRunner) -> bool {
        let steps = program.start_steps();
        program.is_interruptible() && steps <= INLINE_STEPS && steps < self.steps && self.begin(runner)
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
