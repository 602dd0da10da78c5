//! An open device, and the handles that reach it.

use std::any::Any;
use std::sync::Arc;

use byway_controller::Subsystem;
use byway_link::{ClockMode, Ledger, Profile};

use crate::capsules::Capsules;
use crate::core::Core;
use crate::engine_events::{EngineEvents, WatchedBy};
use crate::executor::Executor;
use crate::handle::Handle;
use crate::host::LocalHost;
use crate::options::{Companion, Failed, Hosts, RunBy, RunOptions, StartError};
use crate::owner::Owner;
use crate::queries::{QueryOptions, QueryRunner};
use crate::remote_front::RemoteFront;
use crate::threads::{DeviceThread, DeviceThreads};

/// An open device in this process. Dropping the last handle (the device and every front) stops it and closes the image.
#[derive(Debug)]
pub struct Embedded {
    // Declared first: dropped before the image is closed.
    companion: Option<Companion>,
    executor: Arc<Executor>,
    threads: Arc<DeviceThreads>,
}

impl Embedded {
    /// Starts a device of `subsystem`, for a host in this process.
    ///
    /// # Errors
    /// A virtual clock with a thread of the device: its time would depend on the scheduler.
    pub fn start(subsystem: Subsystem, options: RunOptions) -> Result<Self, StartError> {
        if options.run_by == RunBy::Thread && options.clock == ClockMode::Virtual {
            return Err(StartError::VirtualThread);
        }
        let executor = Arc::new(Executor::new(subsystem, options, None)?);
        let threads = match options.run_by {
            RunBy::Caller => Vec::new(),
            RunBy::Thread => vec![DeviceThread::run_device(&executor)?, DeviceThread::sync_image(&executor)?],
        };
        Self::with_threads(executor, threads)
    }

    /// Starts a device of `subsystem` for hosts in other processes, by [`Embedded::front`] or [`Embedded::capsules`]. Threads of
    /// the device sync its image, and share its queues if [`Hosts::threads`] asks for that.
    ///
    /// # Errors
    /// A virtual clock, as such hosts are charged for nothing. Several threads under a paced clock, or if every command syncs.
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
        let options = RunOptions { run_by: RunBy::Caller, clock, ledger, upkeep_by: hosts.upkeep_by };
        let is_watched = |events: &Arc<EngineEvents>| events.watched_by() == WatchedBy::Device;
        let watches_engines = hosts.engines.as_ref().is_some_and(is_watched);
        let executor = Arc::new(Executor::new(subsystem, options, Some(hosts))?);
        let mut threads = vec![DeviceThread::do_deferred(&executor)?, DeviceThread::sync_image(&executor)?];
        if watches_engines {
            threads.push(DeviceThread::watch_engines(&executor)?);
        }
        for at in 0..executor.queue_threads().len() {
            threads.push(DeviceThread::serve_queues(&executor, at)?);
        }
        Self::with_threads(executor, threads)
    }

    /// A device with its threads, and one for upkeep if there is to be one.
    fn with_threads(executor: Arc<Executor>, mut threads: Vec<DeviceThread>) -> Result<Self, StartError> {
        if executor.has_upkeep_thread() {
            threads.push(DeviceThread::keep_up(&executor)?);
        }
        executor.begin_upkeep();
        let threads = DeviceThreads::new(threads, executor.program_thread());
        Ok(Self { companion: None, executor, threads: Arc::new(threads) })
    }

    /// Has the device execute queries by `runner`, from now on: before its hosts read Identify. Threads are started as queries come.
    ///
    /// # Errors
    /// The device has failed.
    pub fn execute_queries(&self, runner: Box<dyn QueryRunner>, options: QueryOptions) -> Result<(), Failed> {
        let pool = self.executor.execute_queries(runner, options)?;
        self.threads.keep(pool);
        Ok(())
    }

    /// A handle that does not keep the device open.
    pub fn handle(&self) -> Handle {
        Handle::new(&self.executor)
    }

    fn owner(&self) -> Owner {
        Owner::new(self.companion.clone(), self.executor.clone(), self.threads.clone())
    }

    /// The device for a host in this process.
    pub fn host(&self) -> LocalHost {
        LocalHost::new(self.owner())
    }

    /// The device for a front that serves hosts in other processes.
    pub fn front(&self) -> RemoteFront {
        RemoteFront::new(self.owner())
    }

    /// The device for fabrics targets. For one that [serves](Embedded::serve).
    ///
    /// # Errors
    /// A modelled clock: fabrics are not modelled.
    pub fn capsules(&self) -> Result<Capsules, StartError> {
        Capsules::new(self.owner())
    }

    /// Keeps `companion` until the last handle taken from here on is dropped; it is dropped before the image is closed.
    pub fn keep(&mut self, companion: impl Any + Send + Sync) {
        self.companion = Some(Arc::new(companion));
    }

    /// Transactions counted so far, by device and host.
    ///
    /// # Panics
    /// As [`Embedded::with_subsystem`].
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.with_core(|core| *core.meter.ledger());
        ledger.merge(&self.executor.host_meter().ledger());
        ledger
    }

    /// Turns counting of transactions on or off.
    ///
    /// # Panics
    /// As [`Embedded::with_subsystem`].
    pub fn set_ledger(&self, on: bool) {
        self.executor.host_meter().set_on(on);
        self.with_core(|core| core.meter.set_ledger(on));
    }

    /// Runs `look` on the subsystem, under the run lock with every queue in the controller.
    ///
    /// # Panics
    /// The device has failed: its code panicked before, in this thread or another.
    pub fn with_subsystem<R>(&self, look: impl FnOnce(&mut Subsystem) -> R) -> R {
        self.with_core(|core| look(&mut core.subsystem))
    }

    /// As [`Embedded::with_subsystem`].
    ///
    /// # Errors
    /// The device has failed.
    pub fn try_with_subsystem<R>(&self, look: impl FnOnce(&mut Subsystem) -> R) -> Result<R, Failed> {
        self.executor.with_core(|core| look(&mut core.subsystem))
    }

    #[expect(clippy::panic, reason = "as a lock whose holder panicked")]
    fn with_core<R>(&self, look: impl FnOnce(&mut Core) -> R) -> R {
        self.executor.with_core(look).unwrap_or_else(|failed| panic!("{failed}"))
    }

    /// Nanoseconds: modelled under a virtual or paced clock, else the machine's.
    pub fn now_ns(&self) -> u64 {
        self.executor.clock().now_ns()
    }

    /// The parameters of the device.
    pub fn profile(&self) -> &Profile {
        self.executor.profile()
    }
}
