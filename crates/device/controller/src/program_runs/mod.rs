//! Programs that did not end at once: they run in turns, and other commands between two turns.
//!
//! | file | what it does |
//! |---|---|
//! | `budget.rs` | what programs may do while one thread holds the run lock |
//! | `turns.rs` | whose turn it is: controller after controller, program after program |

mod budget;
mod turns;

use std::fmt;
use std::sync::Arc;

use byway_programs::{Execution, Ranges};
use byway_spec::Status;

use crate::error::CommandError;
use crate::exec::{Output, ValueRun};
use crate::id::{ControllerId, RunId};
use crate::limits::EXEC_KEPT_BYTES;
use crate::outcome::{Done, ExternalCommand, ExternalWork};

pub(crate) use budget::HoldBudget;
pub(crate) use turns::Turn;
use turns::Turns;

/// What has the programs of a device advanced while commands are executed.
///
/// **What an implementer must do.** Have a thread call [`Subsystem::advance_programs`](crate::Subsystem::advance_programs) under the run
/// lock until no program runs, releasing the lock after each call, and complete the commands of programs that ended.
///
/// **What it may rely on.** The holder of the run lock calls it.
pub trait ProgramRunner: Send + Sync {
    /// A program runs, or has ended. Does not wait. False if there is no thread and none can be started.
    fn wake(&self) -> bool;

    /// Nanoseconds of a clock that does not go back: what a program's limit of time and the length of a turn are measured by.
    fn now_ns(&self) -> u64;
}

impl fmt::Debug for dyn ProgramRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgramRunner")
    }
}

/// What a call of [`Subsystem::advance_programs`](crate::Subsystem::advance_programs) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramsProgress {
    /// No program runs.
    Idle,
    /// Programs ran, and none has ended.
    Running,
    /// A program has ended: [`Subsystem::next_done`](crate::Subsystem::next_done) gives its command.
    Ended,
}

/// A program that a command waits for.
#[derive(Debug)]
pub(crate) struct ProgramRun {
    /// The controller that its command came over.
    pub owner: ControllerId,
    /// The namespace of the program, or of the value for a program of the device.
    pub nsid: u32,
    /// What it runs over. The program is in use while this is held.
    pub over: RunOver,
}

/// What a program runs over.
#[derive(Debug)]
pub(crate) enum RunOver {
    /// Ranges of memory. A set of them is in use while this is held.
    Ranges { ranges: Arc<Ranges>, execution: Box<Execution> },
    /// The value of a key of a namespace.
    Value { nsid: u32, run: Box<ValueRun> },
}

impl ProgramRun {
    /// Whether it sees anything of a namespace.
    pub fn sees(&self, nsid: u32) -> bool {
        match &self.over {
            RunOver::Ranges { ranges, .. } => ranges.namespaces().any(|other| other == nsid),
            RunOver::Value { nsid: other, .. } => *other == nsid,
        }
    }

    /// Bytes that it keeps between two turns, beside its state.
    pub fn bytes(&self) -> usize {
        match &self.over {
            RunOver::Ranges { .. } => 0,
            RunOver::Value { run, .. } => run.bytes(),
        }
    }
}

/// The output of a program that has ended, until its host has it.
#[derive(Debug)]
struct KeptOutput {
    owner: ControllerId,
    id: RunId,
    bytes: Vec<u8>,
}

/// Programs that run.
#[derive(Debug, Default)]
pub(crate) struct ProgramRuns {
    /// What advances programs beside commands, and has the clock.
    pub runner: Option<Box<dyn ProgramRunner>>,
    /// What programs may still do before the run lock is released.
    pub budget: HoldBudget,
    turns: Turns,
    last: u64,
    /// Commands of programs that have ended.
    ended: Vec<Done>,
    outputs: Vec<KeptOutput>,
}

impl ProgramRuns {
    /// Keeps a program to advance it later, for at most `time_max_ns`.
    ///
    /// # Errors
    /// Insufficient Program Resources: as many wait as the device keeps, or there is no thread.
    pub fn add(&mut self, run: ProgramRun, time_max_ns: u64) -> Result<ExternalCommand, CommandError> {
        if !self.turns.has_room_for(run.owner) || self.kept_bytes() + run.bytes() > EXEC_KEPT_BYTES {
            return Err(TOO_MANY);
        }
        let runner = self.runner.as_deref().filter(|runner| runner.wake()).ok_or(NO_THREAD)?;
        let deadline_ns = runner.now_ns().saturating_add(time_max_ns);
        self.last += 1;
        let id = RunId(self.last);
        self.turns.add(Turn { id, run, deadline_ns, is_first: true });
        Ok(ExternalWork::Program(id).into())
    }

    /// Takes the program whose turn it is.
    pub fn next(&mut self) -> Option<Turn> {
        self.turns.next()
    }

    /// Puts a program that goes on behind the others of its controller, or ends it if as many of them go on as may.
    pub fn put_back(&mut self, turn: Turn) {
        if let Some(turn) = self.turns.put_back(turn) {
            self.end(turn.id, turn.run.owner, Err(TOO_MANY));
        }
    }

    /// Stops programs that have had all the time they may take.
    pub fn stop_late(&mut self) {
        let Some(runner) = &self.runner else { return };
        let now_ns = runner.now_ns();
        if !self.turns.may_have_late(now_ns) {
            return;
        }
        self.end_each(|turn| (turn.deadline_ns <= now_ns).then_some(TOO_LATE));
    }

    /// Notes how a program ended.
    pub fn end(&mut self, id: RunId, owner: ControllerId, result: Result<[u32; 2], CommandError>) {
        self.ended.push(Done { owner, work: ExternalWork::Program(id), result, text: None, at_ps: 0 });
    }

    /// The same of a program with an output, as far as its host takes that. Its reads of the flash ended at modelled time `at_ps`.
    pub fn end_with(&mut self, id: RunId, owner: ControllerId, output: Output, at_ps: u64) {
        let result = Ok([output.len_bytes, 0]);
        self.outputs.push(KeptOutput { owner, id, bytes: output.bytes });
        self.ended.push(Done { owner, work: ExternalWork::Program(id), result, text: None, at_ps });
    }

    /// The output of a program that has ended.
    pub fn output(&self, id: RunId) -> Option<&[u8]> {
        self.outputs.iter().find(|output| output.id == id).map(|output| output.bytes.as_slice())
    }

    /// Forgets the output of a program: its host has it, or is gone.
    pub fn forget_output(&mut self, id: RunId) {
        self.outputs.retain(|output| output.id != id);
    }

    /// Bytes of values, inputs and outputs.
    fn kept_bytes(&self) -> usize {
        let outputs: usize = self.outputs.iter().map(|output| output.bytes.len()).sum();
        self.turns.kept_bytes() + outputs
    }

    /// Whether a command of a program that ended was not taken.
    pub const fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The next command of a program that ended.
    pub fn next_done(&mut self) -> Option<Done> {
        self.ended.pop()
    }

    /// Forgets a program: nothing waits for it any more.
    pub fn cancel(&mut self, id: RunId) {
        self.turns.extract(|turn| turn.id == id);
        self.ended.retain(|done| done.work != ExternalWork::Program(id));
        self.forget_output(id);
    }

    /// Forgets the programs of a controller, whose commands are gone.
    pub fn cancel_all_of(&mut self, owner: ControllerId) {
        self.turns.extract(|turn| turn.run.owner == owner);
        self.ended.retain(|done| done.owner != owner);
        self.outputs.retain(|output| output.owner != owner);
    }

    /// Ends each program for which `reason` gives an error.
    pub fn fail_each(&mut self, reason: impl Fn(&ProgramRun) -> Option<CommandError>) {
        self.end_each(|turn| reason(&turn.run));
        if self.has_ended() {
            // A device whose programs go on has a thread.
            self.runner.iter().for_each(|runner| _ = runner.wake());
        }
    }

    fn end_each(&mut self, reason: impl Fn(&Turn) -> Option<CommandError>) {
        let Self { turns, ended, .. } = self;
        turns.extract(|turn| {
            let Some(error) = reason(turn) else { return false };
            let (owner, work) = (turn.run.owner, ExternalWork::Program(turn.id));
            ended.push(Done { owner, work, result: Err(error), text: None, at_ps: 0 });
            true
        });
    }
}

const TOO_MANY: CommandError =
    CommandError::new(Status::INSUFFICIENT_PROGRAM_RESOURCES, "as many programs run as the device can keep");
const TOO_LATE: CommandError = CommandError::new(
    Status::INSUFFICIENT_PROGRAM_RESOURCES,
    "the program did not end within its limit of time",
);
const NO_THREAD: CommandError =
    CommandError::new(Status::INSUFFICIENT_PROGRAM_RESOURCES, "the device has no thread for a long program");
