//! The embedded device: controller, subsystem and flash in this process.

use std::any::Any;
use std::num::NonZeroU16;
use std::sync::{Arc, Weak};

use byway_controller::{Interrupts, Subsystem};
use byway_link::{ClockMode, Ledger, Profile};
use byway_sys::Mapping;

use crate::capsules::Capsules;
use crate::core::Core;
use crate::engines::{EngineEvents, WatchedBy};
use crate::front::Front;
use crate::runner::Runner;
use crate::shared::{Failed, Shared};

/// Who runs the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunBy {
    /// Whoever rings a doorbell or polls.
    #[default]
    Caller,
    /// A thread of its own, which polls while there is work and sleeps when idle.
    Thread,
}

/// How an embedded device is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Who runs it.
    pub run_by: RunBy,
    /// How it keeps time.
    pub clock: ClockMode,
    /// Whether transactions are counted.
    pub ledger: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { run_by: RunBy::Caller, clock: ClockMode::Off, ledger: true }
    }
}

/// What a device has of hosts in other processes.
pub struct Hosts {
    /// Told of interrupts.
    pub interrupts: Arc<dyn Interrupts + Send + Sync>,
    /// Memory in which hosts may write doorbells themselves, as the registers stand; [`Front::poll`] looks there.
    pub doorbells: Option<Arc<Mapping>>,
    /// How many threads share the queues: the one that answers messages, and others of the device's own.
    pub threads: NonZeroU16,
    /// What tells that other engines, which keep namespaces of the subsystem, have done something.
    pub engines: Option<Arc<EngineEvents>>,
}

/// What lives for as long as a device does.
pub(crate) type Companion = Arc<dyn Any + Send + Sync>;

/// An open embedded device. Dropping the last handle (the device and every bus) stops it and closes the image.
#[derive(Debug)]
pub struct Embedded {
    // Declared first, so that it is gone before the image is closed.
    companion: Option<Companion>,
    pub(crate) shared: Arc<Shared>,
    runners: Arc<Vec<Runner>>,
}

/// A way to a device that does not keep it open.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) shared: Weak<Shared>,
}

impl Handle {
    /// Looks at the subsystem, with the device standing still; `None` once the device is closed or has failed.
    pub fn with_subsystem<R>(&self, look: impl FnOnce(&mut Subsystem) -> R) -> Option<R> {
        let shared = self.shared.upgrade()?;
        shared.with_core(|core| look(&mut core.subsystem)).ok()
    }
}

impl Embedded {
    /// A way to the device that does not keep it open.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::downgrade(&self.shared) }
    }

    /// Starts a device on `subsystem`.
    ///
    /// # Errors
    /// A virtual clock with a thread of its own: its time would depend on the scheduler.
    pub fn start(subsystem: Subsystem, options: RunOptions) -> Result<Self, StartError> {
        if options.run_by == RunBy::Thread && options.clock == ClockMode::Virtual {
            return Err(StartError::VirtualThread);
        }
        let shared = Arc::new(Shared::new(subsystem, options, None)?);
        let runners = match options.run_by {
            RunBy::Caller => Vec::new(),
            RunBy::Thread => vec![Runner::start(&shared)?, Runner::start_syncing(&shared)?],
        };
        Ok(Self { companion: None, shared, runners: Arc::new(runners) })
    }

    /// Starts a device whose hosts are in other processes: fronts reach it by its [`Embedded::front`], run it in threads
    /// of theirs. A thread of the device's own syncs its image, and others share its queues where they are asked for.
    ///
    /// # Errors
    /// A virtual clock: hosts elsewhere are charged for nothing, so its time would stand still. Several threads where one
    /// has to have every queue: to keep a paced clock, and to sync the image for each command.
    pub fn serve(
        subsystem: Subsystem,
        clock: ClockMode,
        ledger: bool,
        hosts: Hosts,
    ) -> Result<Self, StartError> {
        if clock == ClockMode::Virtual {
            return Err(StartError::VirtualThread);
        }
        let keeps_all = clock != ClockMode::Off || subsystem.syncs_completions();
        if keeps_all && hosts.threads.get() > 1 {
            return Err(StartError::OneThread);
        }
        let options = RunOptions { run_by: RunBy::Caller, clock, ledger };
        let is_watched = |events: &Arc<EngineEvents>| events.watched_by() == WatchedBy::Device;
        let watches_engines = hosts.engines.as_ref().is_some_and(is_watched);
        let shared = Arc::new(Shared::new(subsystem, options, Some(hosts))?);
        let mut runners = vec![Runner::start_working(&shared)?, Runner::start_syncing(&shared)?];
        if watches_engines {
            runners.push(Runner::start_watching(&shared)?);
        }
        for at in 0..shared.workers.len() {
            runners.push(Runner::start_tending(&shared, at)?);
        }
        Ok(Self { companion: None, shared, runners: Arc::new(runners) })
    }

    /// The device as a bridge to hosts elsewhere has it in hand.
    pub fn front(&self) -> Front {
        Front {
            _companion: self.companion.clone(),
            shared: self.shared.clone(),
            _runners: self.runners.clone(),
        }
    }

    /// The device as fabrics targets drive it, beside its [`Embedded::front`]. For one that [serves](Embedded::serve).
    ///
    /// # Errors
    /// A modelled clock: what a fabric takes is not modelled.
    pub fn capsules(&self) -> Result<Capsules, StartError> {
        Capsules::new(self.companion.clone(), self.shared.clone(), self.runners.clone())
    }

    /// Keeps `companion` for as long as somebody reaches the device: it is dropped with the last of the device and of the
    /// buses taken from here on, before the image is closed.
    pub fn keep(&mut self, companion: impl Any + Send + Sync) {
        self.companion = Some(Arc::new(companion));
    }

    /// A bus to the device's controller.
    pub fn bus(&self) -> crate::InProcessBus {
        crate::InProcessBus {
            _companion: self.companion.clone(),
            shared: self.shared.clone(),
            _runners: self.runners.clone(),
        }
    }

    /// Everything counted so far, by device and host.
    ///
    /// # Panics
    /// As [`Embedded::with_subsystem`].
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.look(|core| *core.meter.ledger());
        ledger.merge(&self.shared.host_meter.ledger());
        ledger
    }

    /// Turns counting on or off from now on.
    ///
    /// # Panics
    /// As [`Embedded::with_subsystem`].
    pub fn set_ledger(&self, on: bool) {
        self.shared.host_meter.set_on(on);
        self.look(|core| core.meter.set_ledger(on));
    }

    /// Looks at the subsystem, with the device standing still.
    ///
    /// # Panics
    /// Where the device has failed: its code panicked before, in this thread or another.
    pub fn with_subsystem<R>(&self, look: impl FnOnce(&mut Subsystem) -> R) -> R {
        self.look(|core| look(&mut core.subsystem))
    }

    /// As [`Embedded::with_subsystem`].
    ///
    /// # Errors
    /// Where that panics.
    pub fn try_with_subsystem<R>(&self, look: impl FnOnce(&mut Subsystem) -> R) -> Result<R, Failed> {
        self.shared.with_core(|core| look(&mut core.subsystem))
    }

    #[expect(clippy::panic, reason = "as a lock whose holder panicked")]
    fn look<R>(&self, look: impl FnOnce(&mut Core) -> R) -> R {
        self.shared.with_core(look).unwrap_or_else(|failed| panic!("{failed}"))
    }

    /// Nanoseconds: modelled under a virtual or paced clock, else the machine's.
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    /// The parameters the device runs by.
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }
}

/// Why a device could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Virtual time needs the caller to run the device.
    #[error(
        "clock=virtual is deterministic and so needs run=caller and no server: a thread's timing is the scheduler's"
    )]
    VirtualThread,
    /// Several threads for a device that one thread has to serve.
    #[error("under clock=paced and flush=media one thread serves every queue: no more can be asked for")]
    OneThread,
    /// A fabric under a clock that models time.
    #[error("what a network takes is not modelled: clock=off is for devices that are served over one")]
    ModelledFabric,
    /// No memory, or no thread.
    #[error("the device cannot be started: {0}")]
    System(#[from] std::io::Error),
}
