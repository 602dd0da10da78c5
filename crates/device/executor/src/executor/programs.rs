//! Programs that do not end at once, advanced by the thread for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use byway_controller::ProgramsProgress;

use super::Executor;
use crate::parker::{PARK_MAX, Parker};
use crate::programs::{ProgramThread, ThreadRunner};

/// How often the thread gives way to threads that wait for the run lock, before it acquires the lock for the next time slices.
const YIELDS_MAX: u32 = 64;

/// What threads know of programs without the run lock.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// A program runs, or one that ended has a command that waits. Changed under the run lock.
    are_due: AtomicBool,
    /// Where the thread for them parks.
    parker: Parker,
}

impl Programs {
    /// Notes under the run lock whether there is something to do.
    pub fn set_due(&self, are_due: bool) {
        self.are_due.store(are_due, Relaxed);
        if are_due {
            self.parker.wake();
        }
    }

    /// Parks the thread for programs until there is something to do.
    pub fn park(&self, stops: impl Fn() -> bool) {
        self.parker.park(PARK_MAX, || stops() || self.are_due.load(Relaxed));
    }
}

impl Executor {
    /// What threads know of programs without the run lock.
    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Gives the device a thread for programs that do not end at once. It begins with the first of them.
    pub(crate) fn program_thread(self: &Arc<Self>) -> Arc<ProgramThread> {
        let thread = Arc::new(ProgramThread::new(self));
        let runner = Box::new(ThreadRunner(Arc::clone(&thread)));
        // A device that has failed executes nothing.
        let _ = self.with_core_as_it_is(|core| core.subsystem.set_program_runner(runner));
        thread
    }

    /// Gives programs time slices until none runs, and completes the commands of those that end. The run lock is held for about 0.1 ms at a
    /// time.
    pub(crate) fn run_programs(&self, stops: impl Fn() -> bool) {
        while !stops() {
            match self.advance_programs() {
                ProgramsProgress::Running => {}
                ProgramsProgress::Ended => self.complete_ready_commands(),
                ProgramsProgress::Idle => return,
            }
            self.give_way();
        }
    }

    fn advance_programs(&self) -> ProgramsProgress {
        let advanced = self.with_core_as_it_is(|core| {
            let progress = core.subsystem.advance_programs();
            if progress == ProgramsProgress::Idle {
                self.programs.set_due(false);
            }
            progress
        });
        // A device that has failed has no programs.
        advanced.unwrap_or(ProgramsProgress::Idle)
    }

    /// Lets threads that wait for the run lock have it.
    fn give_way(&self) {
        for _ in 0..YIELDS_MAX {
            if !self.core.is_wanted() {
                return;
            }
            std::thread::yield_now();
        }
    }
}
