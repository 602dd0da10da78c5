//! Namespaces that other engines keep, on the side of who runs the device: what they have done is completed, and there is
//! something to sleep on until they have.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use byway_controller::{BlockEngine, CommandError, Namespace, Next};
use byway_sys::Watch;
use byway_sys::time::monotonic_ns;

use crate::core::{Core, port};
use crate::device::Handle;
use crate::runner::NAP;
use crate::served::{RUN_NS, Served};
use crate::shared::Shared;

/// What tells that engines may have done something.
#[derive(Debug)]
pub struct EngineEvents {
    watch: Watch,
    /// Engines that tell nobody.
    silent: AtomicUsize,
    /// Who sleeps by it.
    watched_by: WatchedBy,
}

/// Who sleeps until engines have done something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedBy {
    /// Those who have connections, beside their sockets.
    Connections,
    /// A thread of the device's own as well, for hosts that only wait for interrupts.
    Device,
}

impl EngineEvents {
    /// Of no engine yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(watched_by: WatchedBy) -> io::Result<Self> {
        Ok(Self { watch: Watch::new()?, silent: AtomicUsize::new(0), watched_by })
    }

    /// Who sleeps by it.
    pub(crate) fn watched_by(&self) -> WatchedBy {
        self.watched_by
    }

    /// The engine of namespace `nsid` tells by `event`; none is of one that must be looked at.
    ///
    /// # Errors
    /// The system's answer.
    pub fn add(&self, nsid: u32, event: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match event {
            Some(event) => self.watch.add(nsid.into(), event),
            None => {
                self.silent.fetch_add(1, Relaxed);
                Ok(())
            }
        }
    }

    /// Whether there are engines that tell nobody: those are looked at for as long as they have commands.
    #[must_use]
    pub fn any_silent(&self) -> bool {
        self.silent.load(Relaxed) > 0
    }
}

impl AsFd for EngineEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// Completions that were made of what engines had done.
#[derive(Debug, Default, Clone, Copy)]
struct Moved {
    in_rings: usize,
    in_capsules: usize,
}

impl Core {
    /// Notes whether other engines have commands.
    #[inline]
    pub fn note_elsewhere(&self, shared: &Shared) {
        if shared.engine_events.is_some() {
            shared.elsewhere.store(self.subsystem.outstanding_external() > 0, Relaxed);
        }
    }

    /// Runs the controller and completes what other engines do meanwhile, for a while: hosts can give both more to do for as
    /// long as they run.
    pub fn run_with_engines(&mut self, shared: &Shared, served: &Served, now_ps: u64) -> Next {
        let until_ns = monotonic_ns() + RUN_NS;
        loop {
            let next = self.run_served(shared, served, now_ps);
            let moved = self.take_done(shared);
            if moved.in_capsules > 0 {
                shared.tell_capsules();
            }
            match moved.in_rings {
                0 => return next,
                _ if monotonic_ns() >= until_ns => return Next::At(now_ps),
                _ => {}
            }
        }
    }

    /// Completes what other engines have done, and begins what they have not; how many completions that made.
    pub fn advance(&mut self, shared: &Shared) -> usize {
        let moved = self.take_done(shared);
        if moved.in_rings > 0 {
            self.run_now(shared);
        }
        self.note_elsewhere(shared);
        moved.in_rings + moved.in_capsules
    }

    fn take_done(&mut self, shared: &Shared) -> Moved {
        let mut moved = Moved::default();
        while let Some(done) = self.subsystem.next_done() {
            if done.owner == self.controller.id() {
                let mut port = port(&self.memory, &mut self.meter, shared);
                self.controller.complete_external(&mut self.subsystem, &mut port, done);
                moved.in_rings += 1;
            } else {
                self.capsules.end_elsewhere(&mut self.subsystem, done);
                moved.in_capsules += 1;
            }
        }
        self.subsystem.end_commands(monotonic_ns);
        moved
    }

    /// Exports a namespace no more, and fails what it had.
    fn withdraw(&mut self, shared: &Shared, nsid: u32) -> Option<Namespace> {
        let namespace = self.subsystem.withdraw(nsid)?;
        let mut port = port(&self.memory, &mut self.meter, shared);
        self.controller.fail_external(&mut port, nsid);
        self.capsules.lose_elsewhere(nsid);
        self.note_elsewhere(shared);
        Some(namespace)
    }
}

impl Shared {
    /// Has every controller tell its host which namespaces changed.
    fn tell_of_changes(&self) {
        self.core.run_or_leave_word(|| {}, |core, _| core.run_now(self));
        self.tell_capsules();
    }

    /// What the thread does that sleeps until engines have done something.
    pub(crate) fn watch_engines(&self) {
        let Some(events) = &self.engine_events else { return };
        let looks = events.any_silent() && self.elsewhere.load(Relaxed);
        let nap = if looks { Duration::ZERO } else { NAP };
        if events.watch.wait(nap).unwrap_or(true) || looks {
            self.core.run_or_leave_word(|| {}, |core, _| core.run_now(self));
        }
    }
}

/// Why a namespace is not exported to hosts that are here.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The device is closed, has failed, or serves nobody who could be told of namespaces that other engines keep.
    #[error("the device is not served any more, or never had a namespace of another engine")]
    Closed,
    /// What hosts were told would not hold, or there is no room.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// The system's answer.
    #[error("what is exported cannot be waited for: {0}")]
    System(#[from] io::Error),
}

impl Handle {
    /// Exports what `engine` keeps to hosts that are here already, who are told; its identifier. It tells by `event` that it
    /// has done something; without one it is looked at.
    ///
    /// # Errors
    /// As [`ExportError`] has them.
    pub fn export(
        &self,
        engine: Box<dyn BlockEngine>,
        event: Option<BorrowedFd<'_>>,
    ) -> Result<u32, ExportError> {
        let shared = self.shared.upgrade().ok_or(ExportError::Closed)?;
        let events = shared.engine_events.clone().ok_or(ExportError::Closed)?;
        let add = |core: &mut Core| {
            core.subsystem.check_announced(engine.shape())?;
            core.subsystem.export(engine)
        };
        let nsid = shared.with_core(add).map_err(|_| ExportError::Closed)??;
        if let Err(error) = events.add(nsid, event) {
            self.withdraw(nsid);
            return Err(error.into());
        }
        shared.tell_of_changes();
        Ok(nsid)
    }

    /// Exports a namespace no more: its commands fail, hosts are told. Waits for what its engine has under way. Whether
    /// there was one.
    pub fn withdraw(&self, nsid: u32) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        // Dropped here, with nobody waiting for the device.
        let gone = shared.with_core(|core| core.withdraw(&shared, nsid)).ok().flatten();
        shared.engine_events.iter().for_each(|events| events.watch.remove(nsid.into()));
        shared.tell_of_changes();
        gone.is_some()
    }
}
