//! Programs over memory namespaces: executed at once if they are short, else piece by piece beside other commands.

use std::sync::Arc;

use byway_programs::{Execution, Memory, Progress, Ranges};
use byway_spec::Status;
use byway_spec::programs::MemoryRangeDescriptor;

use super::{IN_PROGRESS, NO_NAMESPACE, Subsystem};
use crate::error::CommandError;
use crate::id::{ControllerId, RunId};
use crate::limits::{EXECUTE_STEPS_MAX, INLINE_STEPS};
use crate::namespace::{Namespace, Prepared, ProgramsNamespace, Wanted, refused, stopped};
use crate::outcome::{Done, Outcome};
use crate::program_runs::{HoldBudget, NO_THREAD, ProgramRun, ProgramRunner, ProgramRuns, ProgramsProgress};

impl Subsystem {
    /// Has `runner` advance programs that do not end at once. Without one they are stopped.
    pub fn set_program_runner(&mut self, runner: Box<dyn ProgramRunner>) {
        self.programs.runner = Some(runner);
    }

    /// A thread has acquired the run lock: programs may take their time of one hold again.
    pub fn renew_program_budget(&mut self) {
        self.programs.budget = HoldBudget::default();
    }

    /// Advances programs in turn for the time of one hold of the run lock: about 0.1 ms, or 2 ms more where one decompresses.
    pub fn advance_programs(&mut self) -> ProgramsProgress {
        self.renew_program_budget();
        self.programs.stop_late();
        let mut progress = ProgramsProgress::Idle;
        while self.has_program_budget()
            && let Some(mut turn) = self.programs.next()
        {
            progress = ProgramsProgress::Running;
            match self.advance(&mut turn.run, self.programs.budget.steps()) {
                Ok(Progress::Pending) => self.programs.put_back(turn),
                Ok(Progress::Done(value)) => self.programs.end(turn.id, turn.run.owner, Ok(dwords(value))),
                Err(error) => self.programs.end(turn.id, turn.run.owner, Err(error)),
            }
        }
        if self.programs.has_ended() { ProgramsProgress::Ended } else { progress }
    }

    fn has_program_budget(&mut self) -> bool {
        let ProgramRuns { runner, budget, .. } = &mut self.programs;
        runner.as_deref().is_some_and(|runner| budget.begin(runner))
    }

    /// The next command of a program that ended.
    pub(super) fn next_ended_program(&mut self) -> Option<Done> {
        self.programs.next_done()
    }

    /// Cancels a program.
    pub(super) fn cancel_program(&mut self, id: RunId) {
        self.programs.cancel(id);
    }

    /// Cancels the programs of a controller.
    pub(crate) fn cancel_programs_of(&mut self, owner: ControllerId) {
        self.programs.cancel_all_of(owner);
    }

    /// Fails the programs of a namespace that is deleted or formatted, and those that see a range of it.
    pub(super) fn fail_programs_in(&mut self, nsid: u32) {
        self.programs.fail_each(|run| match run.nsid == nsid {
            true => Some(PROGRAMS_GONE),
            false => run.ranges.namespaces().any(|other| other == nsid).then_some(MEMORY_GONE),
        });
    }

    /// Fails all programs: a sanitize operation begins.
    pub(super) fn fail_all_programs(&mut self) {
        self.programs.fail_each(|_| Some(IN_PROGRESS));
    }

    /// The bytes of a memory namespace that is attached to controller `id`.
    ///
    /// # Errors
    /// Invalid Namespace.
    pub(crate) fn memory(&mut self, nsid: u32, id: ControllerId) -> Result<&mut Memory, CommandError> {
        match self.attached(nsid, id)? {
            (Namespace::Memory(memory), _) => Ok(memory.memory()),
            _ => Err(NO_NAMESPACE),
        }
    }

    /// Checks ranges of a host against the memory namespaces that are attached to controller `id`.
    ///
    /// # Errors
    /// The statuses of ranges that no program may see.
    pub(crate) fn check_ranges(
        &self,
        descriptors: &[MemoryRangeDescriptor],
        id: ControllerId,
    ) -> Result<Ranges, CommandError> {
        let size_of = |nsid| match self.namespace(nsid) {
            Some(Namespace::Memory(memory)) if self.is_attached(nsid, id) => Some(memory.record().size_bytes),
            _ => None,
        };
        Ranges::check(descriptors, &ProgramsNamespace::range_limits(), size_of).map_err(refused)
    }

    /// Executes a program of namespace `nsid`. One that does not end within a few microseconds goes on beside other commands, and so does
    /// one that comes when programs have had their time of this hold of the run lock.
    ///
    /// # Errors
    /// The statuses of invalid ranges, of a program that was stopped, and of a device in which as many run as may.
    pub(crate) fn execute_program(
        &mut self,
        owner: ControllerId,
        nsid: u32,
        prepared: Prepared,
    ) -> Result<Outcome, CommandError> {
        let Prepared { program, ranges, parameters } = prepared;
        let ranges = match ranges {
            Wanted::Set(set) => set,
            Wanted::Listed(listed) => Arc::new(self.check_ranges(&listed, owner)?),
        };
        let execution = Execution::new(program, &ranges, parameters, self.options.program_steps_max);
        let mut run = ProgramRun { owner, nsid, ranges, execution };
        if let Progress::Done(value) = self.advance_inline(&mut run)? {
            let [dw0, dw1] = dwords(value);
            return Ok(Outcome::Done { dw0, dw1 });
        }
        let time_max_ns = u64::try_from(self.options.program_time_max.as_nanos()).unwrap_or(u64::MAX);
        self.programs.add(run, time_max_ns).map(Outcome::External)
    }

    /// Begins a program by the thread that executes its command, if programs may take the time for it.
    fn advance_inline(&mut self, run: &mut ProgramRun) -> Result<Progress, CommandError> {
        let ProgramRuns { runner, budget, .. } = &mut self.programs;
        let Some(runner) = runner.as_deref() else {
            let progress = self.advance(run, EXECUTE_STEPS_MAX)?;
            return if progress == Progress::Pending { Err(NO_THREAD) } else { Ok(progress) };
        };
        if !budget.admits(run.execution.program(), runner) {
            return Ok(Progress::Pending);
        }
        budget.charge(run.execution.program().start_steps());
        let steps = INLINE_STEPS.min(budget.steps());
        self.advance(run, steps)
    }

    /// Runs about `steps` steps of a program, if its host still has all that it works on.
    fn advance(&mut self, run: &mut ProgramRun, steps: u64) -> Result<Progress, CommandError> {
        if !self.is_attached(run.nsid, run.owner) {
            return Err(PROGRAMS_GONE);
        }
        if !run.ranges.namespaces().all(|nsid| self.is_attached(nsid, run.owner)) {
            return Err(MEMORY_GONE);
        }
        let memories =
            (1..).zip(&mut self.slots).filter_map(|(nsid, slot)| match &mut slot.as_mut()?.namespace {
                Namespace::Memory(memory) => Some((nsid, memory.memory())),
                _ => None,
            });
        let mut slices = run.ranges.borrow(memories).ok_or(MEMORY_GONE)?;
        let ProgramRuns { runner, budget, .. } = &mut self.programs;
        let has_time = || runner.as_deref().is_none_or(|runner| runner.now_ns() < budget.until_ns());
        let before = run.execution.steps_left();
        let progress = run.execution.advance_while(&mut slices, steps, has_time);
        budget.charge((before - run.execution.steps_left()).max(TURN_STEPS));
        progress.map_err(stopped)
    }
}

/// What a turn takes at least, in steps: its ranges are looked up.
const TURN_STEPS: u64 = 16;

/// DW0 and DW1 of the completion.
const fn dwords(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

const MEMORY_GONE: CommandError = CommandError::new(
    Status::INVALID_MEMORY_NAMESPACE,
    "a memory of the program was deleted, formatted or detached",
);
const PROGRAMS_GONE: CommandError = CommandError::new(
    Status::INVALID_NAMESPACE,
    "the namespace of the program was deleted, formatted or detached",
);
