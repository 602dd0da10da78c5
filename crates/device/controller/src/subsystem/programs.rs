//! Programs over memory namespaces: executed at once if they are short, else in time slices beside other commands.

use std::collections::HashSet;
use std::sync::Arc;

use byway_programs::{Memory, Progress, Ranges};
use byway_spec::Status;
use byway_spec::programs::MemoryRangeDescriptor;

use super::exec::VALUES_GONE;
use super::{IN_PROGRESS, NO_NAMESPACE, Subsystem};
use crate::error::CommandError;
use crate::exec::Output;
use crate::id::{ControllerId, RunId};
use crate::namespace::{Namespace, Prepared, ProgramsNamespace, Wanted, refused, stopped};
use crate::outcome::{Done, ExternalCommand, ExternalWork, Outcome};
use crate::program_runs::{
    HoldBudget, ProgramRun, ProgramRunner, ProgramRuns, ProgramsProgress, QueuedRun, RangesRun, RunOver,
};

/// A program after a time slice.
#[derive(Debug)]
enum Advanced {
    /// It goes on.
    Pending,
    /// It returned a number.
    Value(u64),
    /// It ran over a value, and has ended with this output.
    Output(Output),
}

impl Subsystem {
    /// Has `runner` advance programs that do not end at once. Without one they are stopped.
    pub fn set_program_runner(&mut self, runner: Box<dyn ProgramRunner>) {
        self.programs.runner = Some(runner);
    }

    /// A thread has acquired the run lock: programs and short queries may take their time of one hold again.
    pub fn begin_hold(&mut self) {
        self.programs.budget = HoldBudget::default();
        if let Some(queries) = &mut self.queries {
            queries.begin_hold();
        }
    }

    /// Gives programs time slices for one hold of the run lock: about 0.1 ms, or 2 ms more where one decompresses.
    pub fn advance_programs(&mut self) -> ProgramsProgress {
        self.begin_hold();
        self.programs.fail_overdue();
        let mut progress = ProgramsProgress::Idle;
        while let Some((slice, queued)) = self.programs.begin_slice() {
            progress = ProgramsProgress::Running;
            let owner = queued.run.owner;
            self.run_slice(queued);
            self.programs.end_slice(slice, owner);
        }
        if self.programs.has_ended() { ProgramsProgress::Ended } else { progress }
    }

    /// Runs a program for one time slice. It goes back to the run queue, or has ended.
    fn run_slice(&mut self, mut queued: QueuedRun) {
        let advanced = self.advance(&mut queued.run, self.programs.budget.steps());
        let QueuedRun { id, run, .. } = &queued;
        match advanced {
            Ok(Advanced::Pending) => self.programs.put_back(queued),
            Ok(Advanced::Value(value)) => self.programs.end(*id, run, Ok(dwords(value))),
            Ok(Advanced::Output(output)) => self.programs.end_with(*id, run, output),
            Err(error) => self.programs.end(*id, run, Err(error)),
        }
    }

    /// The next command of a program that ended.
    pub(super) fn next_ended_program(&mut self) -> Option<Done> {
        self.programs.next_done()
    }

    /// Cancels a program of a controller.
    pub(super) fn cancel_program(&mut self, owner: ControllerId, id: RunId) {
        self.programs.cancel(owner, &HashSet::from([id]));
    }

    /// Ends programs of a controller whose commands are gone.
    pub(crate) fn abandon_programs(&mut self, owner: ControllerId, ids: &HashSet<RunId>) {
        if ids.is_empty() {
            return;
        }
        if let Some(counting) = &mut self.counting {
            ids.iter().for_each(|id| counting.forget_external(ExternalWork::Program(*id)));
        }
        self.programs.cancel(owner, ids);
    }

    /// Cancels the programs of a controller.
    pub(crate) fn cancel_programs_of(&mut self, owner: ControllerId) {
        self.programs.cancel_all_of(owner);
    }

    /// Fails the programs of a namespace that is deleted or formatted, and those that see anything of it.
    pub(super) fn fail_programs_in(&mut self, nsid: u32) {
        self.programs.fail_each(|run| match &run.over {
            RunOver::Ranges(_) if run.nsid != nsid && run.sees(nsid) => Some(MEMORY_GONE),
            RunOver::Value { .. } if run.sees(nsid) => Some(VALUES_GONE),
            _ => (run.nsid == nsid).then_some(PROGRAMS_GONE),
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
    /// one that comes when programs have had their time of this hold of the run lock, or all run slots of its controller are taken.
    ///
    /// # Errors
    /// The statuses of invalid ranges, of a program that was stopped, and of a device in which as many wait as may.
    pub(crate) fn execute_program(
        &mut self,
        owner: ControllerId,
        nsid: u32,
        prepared: Prepared,
    ) -> Result<Outcome, CommandError> {
        let mut run = self.ranges_run(owner, prepared)?;
        if let Some(inline) = self.programs.begin_inline(owner, run.program()) {
            let progress = self.advance_over_ranges(owner, &mut run, inline.steps);
            self.programs.end_inline(inline, owner);
            if let Progress::Done(value) = progress? {
                let [dw0, dw1] = dwords(value);
                return Ok(Outcome::Done { dw0, dw1 });
            }
        }
        let over = RunOver::Ranges(Box::new(run));
        self.keep_run(ProgramRun { owner, nsid, over }).map(Outcome::External)
    }

    /// A program over the ranges that its command names, if its host may use them.
    fn ranges_run(&self, owner: ControllerId, prepared: Prepared) -> Result<RangesRun, CommandError> {
        let Prepared { program, ranges, parameters } = prepared;
        let (ranges, listed) = match ranges {
            Wanted::Set(set) => (set, 0),
            Wanted::Listed(listed) => (Arc::new(self.check_ranges(&listed, owner)?), listed.len()),
        };
        Ok(RangesRun::new(program, ranges, listed, parameters))
    }

    /// Keeps a program that goes on, to advance it later.
    pub(super) fn keep_run(&mut self, run: ProgramRun) -> Result<ExternalCommand, CommandError> {
        let time_max_ns = u64::try_from(self.options.program_time_max.as_nanos()).unwrap_or(u64::MAX);
        self.programs.add(run, time_max_ns)
    }

    /// Runs about `steps` steps of a program, if its host still has all that it works on.
    fn advance(&mut self, run: &mut ProgramRun, steps: u64) -> Result<Advanced, CommandError> {
        let owner = run.owner;
        if !self.is_attached(run.nsid, owner) {
            return Err(PROGRAMS_GONE);
        }
        match &mut run.over {
            RunOver::Ranges(run) => Ok(match self.advance_over_ranges(owner, run, steps)? {
                Progress::Pending => Advanced::Pending,
                Progress::Done(value) => Advanced::Value(value),
            }),
            RunOver::Value { nsid, run } => {
                let output = self.advance_over_value(owner, *nsid, run, steps)?;
                Ok(output.map_or(Advanced::Pending, Advanced::Output))
            }
        }
    }

    fn advance_over_ranges(
        &mut self,
        owner: ControllerId,
        run: &mut RangesRun,
        steps: u64,
    ) -> Result<Progress, CommandError> {
        let (ranges, execution) = run.begin(self.options.program_steps_max);
        if !ranges.namespaces().all(|nsid| self.is_attached(nsid, owner)) {
            return Err(MEMORY_GONE);
        }
        let memories =
            (1..).zip(&mut self.slots).filter_map(|(nsid, slot)| match &mut slot.as_mut()?.namespace {
                Namespace::Memory(memory) => Some((nsid, memory.memory())),
                _ => None,
            });
        let mut slices = ranges.borrow(memories).ok_or(MEMORY_GONE)?;
        let ProgramRuns { runner, budget, .. } = &mut self.programs;
        let has_time = || runner.as_deref().is_none_or(|runner| runner.now_ns() < budget.until_ns());
        let before = execution.steps_left();
        let progress = execution.advance_while(&mut slices, steps, has_time);
        budget.charge((before - execution.steps_left()).max(SLICE_STEPS_MIN));
        progress.map_err(stopped)
    }
}

/// What a time slice takes at least, in steps: the namespaces of its ranges are found.
pub(super) const SLICE_STEPS_MIN: u64 = 16;

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
