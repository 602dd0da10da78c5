//! The subsystems that a thread serves, and the external engines whose completions it takes.

use std::io;
use std::sync::Arc;

use byway_executor::EngineEvents;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use tracing::info;

use super::ENGINES;
use crate::directory::Directory;
use crate::options::TargetEvent;
use crate::subsystem::Subsystem;

/// A thread's copy of the directory's subsystems.
pub(super) struct Served {
    subsystems: Vec<Arc<Subsystem>>,
    /// The directory generation of the copy; 0 forces an update.
    generation: u64,
    /// How many of the devices have failed.
    failed: usize,
    /// Eventfds of external engines, registered with epoll.
    engines: Vec<Arc<EngineEvents>>,
}

impl Served {
    /// The subsystems of `directory`, with their engines registered with `poll`.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(directory: &Directory, poll: &OwnedFd) -> io::Result<Self> {
        let mut served = Self { subsystems: Vec::new(), generation: 0, failed: 0, engines: Vec::new() };
        served.update(directory, poll)?;
        Ok(served)
    }

    /// Reports newly failed devices, and follows the directory.
    ///
    /// # Errors
    /// Every device has failed; the system's error.
    pub fn check(
        &mut self,
        directory: &Directory,
        poll: &OwnedFd,
        report: impl Fn(TargetEvent),
    ) -> io::Result<()> {
        let failed = self.subsystems.iter().filter(|subsystem| subsystem.has_failed()).count();
        if failed != self.failed {
            self.note_failures(failed, report)?;
        }
        self.update(directory, poll)
    }

    /// Whether external engines have commands.
    pub fn has_external_commands(&self) -> bool {
        self.subsystems.iter().any(|subsystem| subsystem.device().has_external_commands())
    }

    /// Whether engines without an eventfd have commands, so that they must be polled.
    pub fn must_poll_engines(&self) -> bool {
        self.engines.iter().any(|engines| engines.any_silent()) && self.has_external_commands()
    }

    /// Does a quantum of upkeep of each device, if any is due, for a thread that would sleep; whether more may be due.
    pub fn keep_up(&self) -> bool {
        // Each device, whether another one did some or not.
        self.subsystems.iter().filter(|subsystem| subsystem.device().keep_up()).count() > 0
    }

    /// Completes commands that external engines have finished; whether there were any.
    pub fn advance(&self) -> bool {
        let advance = |subsystem: &Arc<Subsystem>| matches!(subsystem.device().advance(), Ok(1..));
        self.subsystems.iter().map(advance).fold(false, |any, more| any | more)
    }

    #[cold]
    fn note_failures(&mut self, failed: usize, report: impl Fn(TargetEvent)) -> io::Result<()> {
        if failed == self.subsystems.len() {
            return Err(io::Error::other("every device has failed"));
        }
        for subsystem in self.subsystems.iter().filter(|subsystem| subsystem.take_failure()) {
            info!(subsystem = %subsystem.nqn(), "device failed: CSTS.CFS is set");
            report(TargetEvent::SubsystemFailed { subsystem: subsystem.nqn().clone() });
        }
        // Generation 0 forces an update, which drops the engines of failed devices.
        (self.failed, self.generation) = (failed, 0);
        Ok(())
    }

    /// Copies the subsystems of a new generation, and registers their engines with epoll.
    fn update(&mut self, directory: &Directory, poll: &OwnedFd) -> io::Result<()> {
        if directory.generation() == self.generation {
            return Ok(());
        }
        let listing = directory.listing();
        self.subsystems.clone_from(&listing.subsystems);
        self.generation = listing.generation();
        let serving = self.subsystems.iter().filter(|subsystem| !subsystem.has_failed());
        let engines: Vec<_> = serving.filter_map(|subsystem| subsystem.device().engine_events()).collect();
        let is_of = |all: &[Arc<EngineEvents>], one| all.iter().any(|other| Arc::ptr_eq(other, one));
        for gone in self.engines.iter().filter(|old| !is_of(&engines, old)) {
            epoll::delete(poll, &**gone)?;
        }
        for new in engines.iter().filter(|new| !is_of(&self.engines, new)) {
            epoll::add(poll, &**new, epoll::EventData::new_u64(ENGINES), epoll::EventFlags::IN)?;
        }
        self.engines = engines;
        Ok(())
    }
}
