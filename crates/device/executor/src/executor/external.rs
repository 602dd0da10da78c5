//! Completions of external engines (decision 29).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use byway_controller::{BlockEngine, CommandError, Namespace, Next};
use byway_sys::Wakeup;
use byway_sys::time::monotonic_ns;

use super::Executor;
use super::deferred::RUN_NS;
use crate::core::Core;
use crate::engine_events::EngineEvents;
use crate::options::Failed;
use crate::parker::PARK_MAX;
use crate::remote::Remote;

/// External engines of a device that hosts in other processes use.
#[derive(Debug)]
pub(super) struct ExternalEngines {
    events: Option<Arc<EngineEvents>>,
    has_commands: AtomicBool,
}

impl ExternalEngines {
    pub(super) fn new(events: Option<Arc<EngineEvents>>) -> Self {
        Self { events, has_commands: AtomicBool::new(false) }
    }
}

/// Completions of external engines, by where they were posted.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Completed {
    pub in_rings: usize,
    pub in_capsules: usize,
}

impl Core {
    /// Notes whether external engines have commands.
    #[inline]
    pub(crate) fn note_external(&self, executor: &Executor) {
        let external = &executor.external;
        if external.events.is_some() {
            external.has_commands.store(self.subsystem.outstanding_external() > 0, Relaxed);
        }
    }

    /// Runs the controller and completes what external engines finish meanwhile, at most for a run's time.
    pub(super) fn run_with_engines(&mut self, executor: &Executor, remote: &Remote, now_ps: u64) -> Next {
        let until_ns = monotonic_ns() + RUN_NS;
        loop {
            let next = self.run_remote(executor, remote, now_ps);
            let completed = self.complete_external(executor);
            if completed.in_capsules > 0 {
                executor.notify_fabric();
            }
            match completed.in_rings {
                0 => return next,
                _ if monotonic_ns() >= until_ns => return Next::At(now_ps),
                _ => {}
            }
        }
    }

    /// Completes what external engines have finished, and starts waiting commands; returns the number of completions.
    fn advance(&mut self, executor: &Executor) -> usize {
        let completed = self.complete_external(executor);
        if completed.in_rings > 0 {
            self.run_now(executor);
        }
        self.note_external(executor);
        completed.in_rings + completed.in_capsules
    }

    pub(super) fn complete_external(&mut self, executor: &Executor) -> Completed {
        let mut completed = Completed::default();
        while let Some(done) = self.subsystem.next_done() {
            if done.owner == self.controller.id() {
                let mut port = executor.port(&self.memory, &mut self.meter);
                let doorbells = &executor.doorbells;
                self.controller.complete_external(&mut self.subsystem, &mut port, doorbells, done);
                completed.in_rings += 1;
            } else {
                self.fabric.end_external(&mut self.subsystem, done);
                completed.in_capsules += 1;
            }
        }
        self.subsystem.end_commands(monotonic_ns);
        completed
    }

    /// Removes an exported namespace, and fails its commands.
    fn withdraw(&mut self, executor: &Executor, nsid: u32) -> Option<Namespace> {
        let namespace = self.subsystem.withdraw(nsid)?;
        let mut port = executor.port(&self.memory, &mut self.meter);
        self.controller.fail_external(&mut port, nsid);
        self.fabric.fail_external(nsid);
        self.note_external(executor);
        Some(namespace)
    }
}

impl Executor {
    /// Eventfds of external engines.
    pub(crate) fn engine_events(&self) -> Option<&Arc<EngineEvents>> {
        self.external.events.as_ref()
    }

    /// Whether external engines have commands.
    #[inline]
    pub(crate) fn has_external(&self) -> bool {
        self.external.has_commands.load(Relaxed) && !self.has_failed()
    }

    /// Completes what external engines have finished; returns the number of completions.
    ///
    /// # Errors
    /// The device has failed.
    pub(crate) fn advance(&self) -> Result<usize, Failed> {
        self.with_core_only(|core| core.advance(self))
    }

    /// Waits for external engines once, and runs the device if they may have finished commands.
    pub(crate) fn watch_engines(&self) {
        let Some(events) = self.engine_events() else { return };
        let polls = events.any_silent() && self.external.has_commands.load(Relaxed);
        let timeout = if polls { Duration::ZERO } else { PARK_MAX };
        if events.wait(timeout) || polls {
            self.core.run_or_set_pending(|| {}, |core, _| core.run_now(self));
        }
    }

    /// Exports a namespace of `engine`; returns its identifier.
    ///
    /// # Errors
    /// The device has failed; the engine contradicts what hosts have read, or no identifier is free.
    pub(crate) fn export(&self, engine: Box<dyn BlockEngine>) -> Result<Result<u32, CommandError>, Failed> {
        self.with_core(|core| {
            core.subsystem.check_announced(engine.shape())?;
            core.subsystem.export(engine)
        })
    }

    /// Withdraws a namespace, and returns it: it must be dropped without the run lock, since that waits for the engine.
    pub(crate) fn withdraw(&self, nsid: u32) -> Option<Namespace> {
        self.with_core(|core| core.withdraw(self, nsid)).ok().flatten()
    }

    /// Makes every controller report changed namespaces.
    pub(crate) fn notify_namespace_change(&self) {
        self.core.run_or_set_pending(|| {}, |core, _| core.run_now(self));
        self.notify_fabric();
    }

    /// Adds the notifier of a thread that serves fabric connections.
    pub(crate) fn add_fabric_notifier(&self, notifier: &Arc<Wakeup>) {
        let mut notifiers = self.fabric_notifiers.lock();
        notifiers.retain(|other| other.strong_count() > 0);
        notifiers.push(Arc::downgrade(notifier));
    }

    /// Wakes the threads that serve fabric connections.
    pub(crate) fn notify_fabric(&self) {
        let notifiers = self.fabric_notifiers.lock();
        notifiers.iter().filter_map(Weak::upgrade).for_each(|notifier| notifier.raise());
    }
}
