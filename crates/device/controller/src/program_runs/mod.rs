//! Programs that did not end at once: they run piece by piece, in turn, and other commands between two pieces.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use byway_programs::{Execution, Ranges};

use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::PROGRAM_RUNS_MAX;
use crate::namespace::engine::Place;
use crate::outcome::{Done, ExternalCommand, PROGRAMS, Reply};

/// What has the programs of a device advanced while commands are executed.
///
/// **What an implementer must do.** Have a thread call [`Subsystem::advance_program`](crate::Subsystem::advance_program) under the run lock
/// until no program runs, releasing the lock after each call, and complete the commands of programs that ended.
///
/// **What it may rely on.** The holder of the run lock calls it.
pub trait ProgramRunner: Send + Sync {
    /// A program runs, or has ended. Does not wait. False if there is no thread and none can be started.
    fn wake(&self) -> bool;
}

impl fmt::Debug for dyn ProgramRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgramRunner")
    }
}

/// What a call of [`Subsystem::advance_program`](crate::Subsystem::advance_program) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramsProgress {
    /// No program runs.
    Idle,
    /// A program ran for a piece.
    Running,
    /// A program has ended: [`Subsystem::next_done`](crate::Subsystem::next_done) gives its command.
    Ended,
}

/// A program that a command waits for.
#[derive(Debug)]
pub(crate) struct ProgramRun {
    /// The controller that its command came over.
    pub owner: ControllerId,
    /// The namespace of the program.
    pub nsid: u32,
    /// What it sees. The set is in use while this is held.
    pub ranges: Arc<Ranges>,
    /// Its state. The program is in use while this is held.
    pub execution: Execution,
}

/// Programs that run.
#[derive(Debug, Default)]
pub(crate) struct ProgramRuns {
    runner: Option<Box<dyn ProgramRunner>>,
    /// The next one to advance is first.
    runs: VecDeque<(Place, ProgramRun)>,
    last: u32,
    /// Commands of programs that have ended.
    ended: Vec<Done>,
}

impl ProgramRuns {
    /// Has `runner` advance programs from now on.
    pub fn set_runner(&mut self, runner: Box<dyn ProgramRunner>) {
        self.runner = Some(runner);
    }

    /// Whether programs can run beside commands.
    pub const fn has_runner(&self) -> bool {
        self.runner.is_some()
    }

    /// Whether one more program may run.
    pub fn has_room(&self) -> bool {
        self.runs.len() + self.ended.len() < PROGRAM_RUNS_MAX
    }

    /// Keeps a program to advance it later. `None` without a thread for that.
    pub fn add(&mut self, run: ProgramRun) -> Option<ExternalCommand> {
        if !self.wake() {
            return None;
        }
        let place = self.free_place();
        self.runs.push_back((place, run));
        Some(ExternalCommand { nsid: PROGRAMS, place, reply: Reply::default() })
    }

    /// Takes the program whose turn it is.
    pub fn next(&mut self) -> Option<(Place, ProgramRun)> {
        self.runs.pop_front()
    }

    /// Puts a program that goes on behind the others.
    pub fn put_back(&mut self, place: Place, run: ProgramRun) {
        self.runs.push_back((place, run));
    }

    /// Notes how a program ended.
    pub fn end(&mut self, place: Place, owner: ControllerId, result: Result<[u32; 2], CommandError>) {
        self.ended.push(Done { owner, nsid: PROGRAMS, place, result, text: None });
    }

    /// Whether a command of a program that ended was not taken.
    pub const fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The next command of a program that ended.
    pub fn next_done(&mut self) -> Option<Done> {
        self.ended.pop()
    }

    /// Forgets the program at `place`: nothing waits for it any more.
    pub fn cancel(&mut self, place: Place) {
        self.runs.retain(|(other, _)| *other != place);
        self.ended.retain(|done| done.place != place);
    }

    /// Forgets the programs of a controller, whose commands are gone.
    pub fn cancel_all_of(&mut self, owner: ControllerId) {
        self.runs.retain(|(_, run)| run.owner != owner);
        self.ended.retain(|done| done.owner != owner);
    }

    /// Ends each program for which `reason` gives an error.
    pub fn fail_each(&mut self, reason: impl Fn(&ProgramRun) -> Option<CommandError>) {
        let Self { runs, ended, .. } = self;
        runs.retain(|(place, run)| match reason(run) {
            None => true,
            Some(error) => {
                let (owner, place) = (run.owner, *place);
                ended.push(Done { owner, nsid: PROGRAMS, place, result: Err(error), text: None });
                false
            }
        });
        if self.has_ended() {
            self.wake();
        }
    }

    fn wake(&self) -> bool {
        self.runner.as_ref().is_some_and(|runner| runner.wake())
    }

    /// A place that no program has, nor a command that was not taken.
    fn free_place(&mut self) -> Place {
        loop {
            self.last = self.last.wrapping_add(1);
            let place = Place(self.last);
            let is_taken = self.runs.iter().any(|(other, _)| *other == place)
                || self.ended.iter().any(|done| done.place == place);
            if !is_taken {
                return place;
            }
        }
    }
}
