//! Namespaces that other engines keep, on the side of who runs the device: what they have done is completed, and there is
//! something to sleep on until they have.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use byway_controller::{Namespace, Next};
use byway_sys::Watch;

use crate::core::{Core, port};
use crate::device::Embedded;
use crate::runner::NAP;
use crate::served::Served;
use crate::shared::{Failed, Shared};

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
        if self.subsystem.has_engines() {
            shared.elsewhere.store(self.subsystem.outstanding_elsewhere() > 0, Relaxed);
        }
    }

    /// Runs the controller, and what other engines do meanwhile.
    pub fn run_with_engines(&mut self, shared: &Shared, served: &Served, now_ps: u64) -> Next {
        loop {
            let next = self.run_served(shared, served, now_ps);
            let moved = self.take_done(shared);
            if moved.in_capsules > 0 {
                shared.tell_capsules();
            }
            if moved.in_rings == 0 {
                return next;
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
                self.controller.end_elsewhere(&mut self.subsystem, &mut port, done);
                moved.in_rings += 1;
            } else {
                self.capsules.end_elsewhere(&mut self.subsystem, done);
                moved.in_capsules += 1;
            }
        }
        moved
    }

    /// Exports a namespace no more, and fails what it had.
    fn withdraw(&mut self, shared: &Shared, nsid: u32) -> Option<Namespace> {
        let namespace = self.subsystem.withdraw(nsid)?;
        let mut port = port(&self.memory, &mut self.meter, shared);
        self.controller.lose_elsewhere(&mut port, nsid);
        self.capsules.lose_elsewhere(nsid);
        self.run_now(shared);
        Some(namespace)
    }
}

impl Shared {
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

impl Embedded {
    /// Exports a namespace no more: its commands fail, hosts are told. Waits for what its engine has under way.
    ///
    /// # Errors
    /// The device has failed.
    pub fn withdraw(&self, nsid: u32) -> Result<bool, Failed> {
        let shared = &*self.shared;
        let gone = shared.with_core(|core| core.withdraw(shared, nsid))?;
        shared.engine_events.iter().for_each(|events| events.watch.remove(nsid.into()));
        shared.tell_capsules();
        // Dropped here, with nobody waiting for the device.
        Ok(gone.is_some())
    }
}
