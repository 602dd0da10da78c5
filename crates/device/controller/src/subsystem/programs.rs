//! Programs over memory namespaces: executed at once if they are short, else piece by piece beside other commands.

use std::sync::Arc;

use byway_programs::{Execution, Memory, Progress, Ranges};
use byway_spec::Status;
use byway_spec::programs::MemoryRangeDescriptor;

use super::{IN_PROGRESS, NO_NAMESPACE, Subsystem};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::{EXECUTE_STEPS_MAX, PROGRAM_PIECE_STEPS};
use crate::namespace::engine::Place;
use crate::namespace::{Namespace, Prepared, ProgramsNamespace, Wanted, refused, stopped};
use crate::outcome::{Done, Outcome};
use crate::program_runs::{ProgramRun, ProgramRunner, ProgramsProgress};

impl Subsystem {
    /// Has `runner` advance programs that do not end at once. Without one they are stopped.
    pub fn set_program_runner(&mut self, runner: Box<dyn ProgramRunner>) {
        self.programs.set_runner(runner);
    }

    /// Advances the program whose turn it is by one piece: about 0.1 ms, or about 2 ms of one that decompresses.
    pub fn advance_program(&mut self) -> ProgramsProgress {
        if self.programs.has_ended() {
            return ProgramsProgress::Ended;
        }
        let Some((place, mut run)) = self.programs.next() else { return ProgramsProgress::Idle };
        let result = match self.advance(&mut run, PROGRAM_PIECE_STEPS) {
            Ok(Progress::Pending) => {
                self.programs.put_back(place, run);
                return ProgramsProgress::Running;
            }
            Ok(Progress::Done(value)) => Ok(halves(value)),
            Err(error) => Err(error),
        };
        self.programs.end(place, run.owner, result);
        ProgramsProgress::Ended
    }

    /// The next command of a program that ended.
    pub(super) fn next_ended_program(&mut self) -> Option<Done> {
        self.programs.next_done()
    }

    /// Ends the program that a command waits for.
    pub(super) fn end_program_at(&mut self, place: Place) {
        self.programs.cancel(place);
    }

    /// Ends the programs of a controller.
    pub(crate) fn end_programs_of(&mut self, owner: ControllerId) {
        self.programs.cancel_all_of(owner);
    }

    /// Ends the programs of a namespace that is deleted or formatted, and those that see a range of it.
    pub(super) fn end_programs_in(&mut self, nsid: u32) {
        self.programs.fail_each(|run| match run.nsid == nsid {
            true => Some(PROGRAMS_ARE_GONE),
            false => run.ranges.namespaces().any(|other| other == nsid).then_some(MEMORY_IS_GONE),
        });
    }

    /// Ends all programs: a sanitize operation begins.
    pub(super) fn end_all_programs(&mut self) {
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

    /// Executes a program of namespace `nsid`. One that does not end with its first piece goes on beside other commands.
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
        let steps = if self.programs.has_runner() { PROGRAM_PIECE_STEPS } else { EXECUTE_STEPS_MAX };
        match self.advance(&mut run, steps)? {
            Progress::Done(value) => {
                let [dw0, dw1] = halves(value);
                Ok(Outcome::Done { dw0, dw1 })
            }
            Progress::Pending if !self.programs.has_room() => Err(TOO_MANY),
            Progress::Pending => self.programs.add(run).map(Outcome::External).ok_or(NO_THREAD),
        }
    }

    /// Runs about `steps` steps of a program, if its host still has all that it works on.
    fn advance(&mut self, run: &mut ProgramRun, steps: u64) -> Result<Progress, CommandError> {
        if !self.is_attached(run.nsid, run.owner) {
            return Err(PROGRAMS_ARE_GONE);
        }
        if !run.ranges.namespaces().all(|nsid| self.is_attached(nsid, run.owner)) {
            return Err(MEMORY_IS_GONE);
        }
        let memories =
            (1..).zip(&mut self.slots).filter_map(|(nsid, slot)| match &mut slot.as_mut()?.namespace {
                Namespace::Memory(memory) => Some((nsid, memory.memory())),
                _ => None,
            });
        let mut slices = run.ranges.borrow(memories).ok_or(MEMORY_IS_GONE)?;
        run.execution.advance(&mut slices, steps).map_err(stopped)
    }
}

/// DW0 and DW1 of the completion.
const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

const MEMORY_IS_GONE: CommandError = CommandError::new(
    Status::INVALID_MEMORY_NAMESPACE,
    "a memory of the program was deleted, formatted or detached",
);
const PROGRAMS_ARE_GONE: CommandError = CommandError::new(
    Status::INVALID_NAMESPACE,
    "the namespace of the program was deleted, formatted or detached",
);
const TOO_MANY: CommandError =
    CommandError::new(Status::INSUFFICIENT_PROGRAM_RESOURCES, "as many programs run as the device can keep");
const NO_THREAD: CommandError =
    CommandError::new(Status::INSUFFICIENT_PROGRAM_RESOURCES, "the device has no thread for a long program");
