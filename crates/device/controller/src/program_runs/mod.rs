//! Programs that did not end at once: they run in time slices, and other commands between two slices.
//!
//! | file | what it does |
//! |---|---|
//! | `budget.rs` | what programs may do while one thread holds the run lock |
//! | `controller_queue.rs` | the programs of one controller in the run queue |
//! | `kept_outputs.rs` | outputs of programs that have ended |
//! | `ranges_run.rs` | a program over ranges, which takes memory once it has begun |
//! | `run_queue.rs` | which program gets the next time slice |
//! | `totals.rs` | what controllers hold together of what is bounded |

mod budget;
mod controller_queue;
mod kept_outputs;
mod ranges_run;
mod run_queue;
mod totals;

use std::collections::HashSet;
use std::fmt;

use byway_programs::Program;
use byway_spec::Status;

use crate::error::CommandError;
use crate::exec::{Output, ValueRun};
use crate::id::{ControllerId, RunId};
use crate::limits::{EXEC_KEPT_BYTES, EXECUTE_STEPS_MAX, INLINE_STEPS, WAITING_PROGRAM_BYTES};
use crate::outcome::{Done, ExternalCommand, ExternalWork};

pub(crate) use budget::{HoldBudget, TimeSlice};
use kept_outputs::KeptOutputs;
pub(crate) use ranges_run::RangesRun;
pub(crate) use run_queue::QueuedRun;
use run_queue::RunQueue;

/// What has the programs of a device advanced while commands are executed.
///
/// **What an implementer must do.** Have a thread call [`Subsystem::advance_programs`](crate::Subsystem::advance_programs) under the run
/// lock until no program runs, releasing the lock after each call, and complete the commands of programs that ended.
///
/// **What it may rely on.** The holder of the run lock calls it.
pub trait ProgramRunner: Send + Sync {
    /// A program runs, or has ended. Does not wait. False if there is no thread and none can be started.
    fn wake(&self) -> bool;

    /// Nanoseconds of a clock that does not go back: what limits of time, time slices and deadlines are measured by.
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
    Ranges(Box<RangesRun>),
    /// The value of a key of a namespace.
    Value { nsid: u32, run: Box<ValueRun> },
}

impl ProgramRun {
    /// Whether it sees anything of a namespace.
    pub fn sees(&self, nsid: u32) -> bool {
        match &self.over {
            RunOver::Ranges(run) => run.ranges().namespaces().any(|other| other == nsid),
            RunOver::Value { nsid: other, .. } => *other == nsid,
        }
    }

    /// Modelled time (ps) at which its last read of the flash ended.
    pub fn at_ps(&self) -> u64 {
        match &self.over {
            RunOver::Ranges(_) => 0,
            RunOver::Value { run, .. } => run.at_ps(),
        }
    }

    /// Bytes of its value, input and output.
    pub fn value_bytes(&self) -> usize {
        match &self.over {
            RunOver::Ranges(_) => 0,
            RunOver::Value { run, .. } => run.bytes(),
        }
    }

    /// Bytes that it takes while it waits for a run slot, with what the controller keeps of its command. Those of values are counted
    /// [on their own](Self::value_bytes).
    pub fn waiting_bytes(&self) -> usize {
        match &self.over {
            RunOver::Ranges(run) => WAITING_PROGRAM_BYTES + run.listed_bytes(),
            RunOver::Value { .. } => WAITING_PROGRAM_BYTES,
        }
    }
}

/// A time slice of a program by the thread that executes its command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InlineSlice {
    /// Steps that the program may make.
    pub steps: u64,
    /// `None` without a clock.
    slice: Option<TimeSlice>,
}

/// Programs that run.
#[derive(Debug, Default)]
pub(crate) struct ProgramRuns {
    /// What advances programs beside commands, and has the clock.
    pub runner: Option<Box<dyn ProgramRunner>>,
    /// What programs may still do before the run lock is released.
    pub budget: HoldBudget,
    queue: RunQueue,
    last: u64,
    /// Commands of programs that have ended.
    ended: Vec<Done>,
    outputs: KeptOutputs,
}

impl ProgramRuns {
    /// Keeps a program to advance it later, for at most `time_max_ns`.
    ///
    /// # Errors
    /// Insufficient Program Resources: those that wait take all the memory that they may, or there is no thread.
    pub fn add(&mut self, run: ProgramRun, time_max_ns: u64) -> Result<ExternalCommand, CommandError> {
        if !self.queue.fits_waiting_quota(&run) || self.kept_bytes() + run.value_bytes() > EXEC_KEPT_BYTES {
            return Err(TOO_MANY);
        }
        let runner = self.runner.as_deref().filter(|runner| runner.wake()).ok_or(NO_THREAD)?;
        let deadline_ns = runner.now_ns().saturating_add(time_max_ns);
        self.last += 1;
        let id = RunId(self.last);
        self.queue.add(QueuedRun { id, run, deadline_ns });
        Ok(ExternalWork::Program(id).into())
    }

    /// Begins a time slice of a program by the thread that executes its command. `None` where it may not begin there: programs have had
    /// their time of this hold of the run lock, or it would go on without a run slot.
    pub fn begin_inline(&mut self, owner: ControllerId, program: &Program) -> Option<InlineSlice> {
        let may_begin = self.queue.may_begin(owner);
        let Self { runner, budget, .. } = self;
        let Some(runner) = runner.as_deref() else {
            return Some(InlineSlice { steps: EXECUTE_STEPS_MAX, slice: None });
        };
        let slice = may_begin.then(|| budget.begin_inline(program, runner)).flatten()?;
        Some(InlineSlice { steps: INLINE_STEPS.min(budget.steps()), slice: Some(slice) })
    }

    /// Ends such a time slice: charges the controller whose program it was, if programs are in the run queue. Else there are none to share the
    /// time with, and the clock is not read.
    pub fn end_inline(&mut self, inline: InlineSlice, owner: ControllerId) {
        if let Some(slice) = inline.slice.filter(|_| self.queue.has_runnable()) {
            self.end_slice(slice, owner);
        }
    }

    /// Begins the next time slice of this hold of the run lock: takes its program.
    pub fn begin_slice(&mut self) -> Option<(TimeSlice, QueuedRun)> {
        let slice = self.budget.begin_slice(self.runner.as_deref()?)?;
        self.queue.next().map(|queued| (slice, queued))
    }

    /// Ends a time slice: charges the controller whose program it was.
    pub fn end_slice(&mut self, slice: TimeSlice, owner: ControllerId) {
        if let Some(runner) = self.runner.as_deref() {
            self.queue.charge(owner, self.budget.used_ns(slice, runner));
        }
    }

    /// Puts a program that goes on behind the others of its controller.
    pub fn put_back(&mut self, queued: QueuedRun) {
        self.queue.put_back(queued);
    }

    /// Stops programs whose deadline has passed.
    pub fn fail_overdue(&mut self) {
        let Some(runner) = &self.runner else { return };
        for overdue in self.queue.take_overdue(runner.now_ns()) {
            self.end(overdue.id, &overdue.run, Err(OVERDUE));
        }
    }

    /// Notes how a program ended. Its completion comes no earlier than its reads of the flash have ended.
    pub fn end(&mut self, id: RunId, run: &ProgramRun, result: Result<[u32; 2], CommandError>) {
        self.ended.push(done(id, run, result));
    }

    /// The same of a program with an output, as far as its host takes that.
    pub fn end_with(&mut self, id: RunId, run: &ProgramRun, output: Output) {
        let result = Ok([output.len_bytes, 0]);
        self.outputs.keep(id, run.owner, output.bytes);
        self.end(id, run, result);
    }

    /// The output of a program that has ended.
    pub fn output(&self, id: RunId) -> Option<&[u8]> {
        self.outputs.get(id)
    }

    /// Forgets the output of a program: its host has it, or is gone.
    pub fn forget_output(&mut self, id: RunId) {
        self.outputs.forget(id);
    }

    /// Bytes of values, inputs and outputs.
    const fn kept_bytes(&self) -> usize {
        self.queue.value_bytes() + self.outputs.bytes()
    }

    /// Whether a command of a program that ended was not taken.
    pub const fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The next command of a program that ended.
    pub fn next_done(&mut self) -> Option<Done> {
        self.ended.pop()
    }

    /// Forgets programs of a controller: nothing waits for them any more. Programs of other controllers are not looked at.
    pub fn cancel(&mut self, owner: ControllerId, ids: &HashSet<RunId>) {
        self.queue.remove(owner, ids);
        self.ended.retain(|done| !matches!(done.work, ExternalWork::Program(id) if ids.contains(&id)));
        ids.iter().for_each(|id| self.outputs.forget(*id));
    }

    /// Forgets the programs of a controller, whose commands are gone.
    pub fn cancel_all_of(&mut self, owner: ControllerId) {
        self.queue.remove_all_of(owner);
        self.ended.retain(|done| done.owner != owner);
        self.outputs.forget_all_of(owner);
    }

    /// Ends each program for which `reason` gives an error.
    pub fn fail_each(&mut self, reason: impl Fn(&ProgramRun) -> Option<CommandError>) {
        let Self { queue, ended, .. } = self;
        queue.remove_if(|queued| {
            let Some(error) = reason(&queued.run) else { return false };
            ended.push(done(queued.id, &queued.run, Err(error)));
            true
        });
        if self.has_ended() {
            // A device whose programs go on has a thread.
            self.runner.iter().for_each(|runner| _ = runner.wake());
        }
    }
}

fn done(id: RunId, run: &ProgramRun, result: Result<[u32; 2], CommandError>) -> Done {
    Done { owner: run.owner, work: ExternalWork::Program(id), result, text: None, at_ps: run.at_ps() }
}

const TOO_MANY: CommandError =
    CommandError::new(Status::INSUFFICIENT_PROGRAM_RESOURCES, "as many programs wait as the device can keep");
const OVERDUE: CommandError = CommandError::new(
    Status::INSUFFICIENT_PROGRAM_RESOURCES,
    "the program did not end within its limit of time",
);
const NO_THREAD: CommandError =
    CommandError::new(Status::INSUFFICIENT_PROGRAM_RESOURCES, "the device has no thread for a long program");
