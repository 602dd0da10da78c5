//! Exec: which programs run over values of a namespace, and beginning them.

use std::sync::Arc;

use byway_programs::{AllowList, BuiltIn, Program};
use byway_spec::Status;

use super::Subsystem;
use super::programs::SLICE_STEPS_MIN;
use crate::error::CommandError;
use crate::exec::{ExecRequest, Output, ValueRun};
use crate::id::ControllerId;
use crate::namespace::Namespace;
use crate::outcome::{ExternalCommand, Reply};
use crate::program_runs::{ProgramRun, ProgramRuns, RunOver};

/// A program that a host may run over values, and where it is.
#[derive(Debug)]
pub(crate) struct AllowedProgram {
    program: Arc<Program>,
    /// The namespace that holds it; that of the values for a program of the device.
    nsid: u32,
}

/// A program over a value that was begun.
#[derive(Debug)]
pub(crate) enum Begun {
    Ended(Output),
    /// It goes on beside other commands.
    Pending(ExternalCommand),
}

impl Subsystem {
    /// Whether programs may run over values of a namespace.
    pub(crate) fn has_exec(&self) -> bool {
        !self.flash.is_following() && self.namespaces().any(|(nsid, _)| self.allow_list(nsid).is_some())
    }

    /// The allow-list of a key-value namespace, unless it is empty.
    fn allow_list(&self, nsid: u32) -> Option<&AllowList> {
        let list = self.options.exec_allowed.get(&nsid).filter(|list| !list.is_empty())?;
        self.namespace(nsid)?.as_kv().map(|_| list)
    }

    /// The program of an operation that controller `id` may run over values of a namespace.
    ///
    /// # Errors
    /// Invalid Command Opcode where no program is allowed, No Program for an operation that names none, Operation Denied for one that
    /// names none that is allowed.
    pub(crate) fn allowed_program(
        &self,
        nsid: u32,
        id: ControllerId,
        operation: u32,
    ) -> Result<AllowedProgram, CommandError> {
        if self.flash.is_following() {
            return Err(OF_ANOTHER_PROCESS);
        }
        let list = self.allow_list(nsid).ok_or(NONE_ALLOWED)?;
        let mut is_known = false;
        let allowed = self.programs_of(nsid, id, operation.into()).find(|named| {
            is_known = true;
            list.allows(&named.program)
        });
        allowed.ok_or(if is_known { NOT_ALLOWED } else { NO_OPERATION })
    }

    /// Programs with an identifier: one of the device, then activated ones of the namespaces that are attached to controller `id`.
    fn programs_of(
        &self,
        nsid: u32,
        id: ControllerId,
        identifier: u64,
    ) -> impl Iterator<Item = AllowedProgram> {
        let built_in = BuiltIn::ALL.into_iter().find(|built_in| built_in.identifier() == identifier);
        let built_in =
            built_in.map(|built_in| AllowedProgram { program: Arc::new(Program::built_in(built_in)), nsid });
        let loaded = self.namespaces().filter(move |(nsid, _)| self.is_attached(*nsid, id));
        let loaded = loaded.filter_map(move |(nsid, namespace)| match namespace {
            Namespace::Programs(programs) => Some((nsid, programs)),
            _ => None,
        });
        let loaded = loaded.flat_map(move |(nsid, programs)| {
            let activated = programs.activated(identifier);
            activated.map(move |program| AllowedProgram { program: Arc::clone(program), nsid })
        });
        built_in.into_iter().chain(loaded)
    }

    /// Begins a program over the value of a key, at modelled time `at_ps`, which moves on to where the reads of one that ends or fails have ended. One that does not end within
    /// a few microseconds goes on beside other commands.
    ///
    /// # Errors
    /// Key Does Not Exist, the statuses of a program that was stopped, and of a device in which as many run as may.
    pub(crate) fn exec(
        &mut self,
        owner: ControllerId,
        nsid: u32,
        AllowedProgram { program, nsid: programs }: AllowedProgram,
        request: ExecRequest,
        at_ps: &mut u64,
    ) -> Result<Begun, CommandError> {
        let (taken_bytes, inline_max_bytes) = (request.taken_bytes, request.inline_max_bytes);
        let inline = self.programs.begin_inline(owner, &program);
        let inline_steps = inline.map(|inline| inline.steps);
        let begun = self.begin_over_value((owner, nsid), program, request, inline_steps, at_ps);
        if let Some(inline) = inline {
            self.programs.end_inline(inline, owner);
        }
        let (run, output) = begun?;
        if let Some(output) = output {
            return Ok(Begun::Ended(output));
        }
        let over = RunOver::Value { nsid, run: Box::new(run) };
        let pending = self.keep_run(ProgramRun { owner, nsid: programs, over })?;
        let reply = Reply { data_bytes: taken_bytes, room_bytes: taken_bytes, inline_max_bytes };
        Ok(Begun::Pending(ExternalCommand { reply, ..pending }))
    }

    /// Begins a program over a value, and runs it for `inline_steps` if the first chunk of the value takes no more. Gives the output if it has
    /// ended.
    fn begin_over_value(
        &mut self,
        (owner, nsid): (ControllerId, u32),
        program: Arc<Program>,
        request: ExecRequest,
        inline_steps: Option<u64>,
        at_ps: &mut u64,
    ) -> Result<(ValueRun, Option<Output>), CommandError> {
        let steps_max = self.options.program_steps_max;
        let mut begun_ps = *at_ps;
        let run = ValueRun::begin(self.key_values(nsid)?, program, request, steps_max, &mut begun_ps);
        let mut run = run.inspect_err(|_| *at_ps = begun_ps)?;
        let steps = inline_steps.filter(|steps| run.chunk_steps() <= Some(*steps));
        let Some(steps) = steps else { return Ok((run, None)) };
        let output = self.advance_over_value(owner, nsid, &mut run, steps);
        if !matches!(output, Ok(None)) {
            *at_ps = run.at_ps();
        }
        Ok((run, output?))
    }

    /// Copies a chunk of a value, and with the last one runs the program over it: about `steps` steps together, if its host still has the
    /// value's namespace. Gives the output once the program has ended.
    pub(super) fn advance_over_value(
        &mut self,
        owner: ControllerId,
        nsid: u32,
        run: &mut ValueRun,
        steps: u64,
    ) -> Result<Option<Output>, CommandError> {
        if !self.is_attached(nsid, owner) {
            return Err(VALUES_GONE);
        }
        let mut steps = steps;
        if let Some(chunk_steps) = run.chunk_steps() {
            // Values that threads have stored without the run lock.
            self.take_in_stores();
            self.programs.budget.charge(chunk_steps.max(SLICE_STEPS_MIN));
            run.copy_chunk(self.key_values(nsid)?)?;
            steps = steps.saturating_sub(chunk_steps);
        }
        if steps == 0 {
            return Ok(None);
        }
        let ProgramRuns { runner, budget, .. } = &mut self.programs;
        let has_time = || runner.as_deref().is_none_or(|runner| runner.now_ns() < budget.until_ns());
        let (output, made_steps) = run.run(steps, has_time);
        budget.charge(made_steps.max(SLICE_STEPS_MIN));
        output
    }
}

pub(super) const VALUES_GONE: CommandError = CommandError::new(
    Status::INVALID_NAMESPACE,
    "the namespace of the value was deleted, formatted or detached",
);
const NONE_ALLOWED: CommandError = CommandError::new(
    Status::INVALID_OPCODE,
    "the namespace has no list of programs that may run over its values",
)
.at_byte(0);
const NOT_ALLOWED: CommandError = CommandError::new(
    Status::OPERATION_DENIED,
    "the SHA-256 of the operation's program is not in the namespace's list of allowed programs",
)
.at_byte(52);
const NO_OPERATION: CommandError =
    CommandError::new(Status::NO_PROGRAM, "no activated program has the operation as its identifier")
        .at_byte(52);
const OF_ANOTHER_PROCESS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "another process writes the image: it runs programs")
        .at_byte(0);
