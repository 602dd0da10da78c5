//! The state that all handles of a device share: a thread that rings a doorbell runs the device, or sets the run lock's pending bit
//! for its holder.
//!
//! | file | what it does |
//! |---|---|
//! | `run.rs` | one run of the controller under the run lock |
//! | `ring.rs` | doorbell writes, polls and idle times of hosts |
//! | `delegation.rs`, `queue_threads.rs` | delegated queue pairs, and the threads that serve them |
//! | `deferred.rs` | posted requests and deferred work of hosts in other processes |
//! | `group_commit.rs` | syncs of the image |
//! | `external.rs` | completions of external engines |
//! | `programs.rs` | programs that do not end at once |
//! | `queries.rs` | answers to commands that wait for queries or programs |
//! | `snapshot.rs` | counters |
//! | `upkeep.rs` | upkeep by threads that have nothing to execute |

mod deferred;
mod delegation;
mod external;
mod group_commit;
mod programs;
mod queries;
mod queue_threads;
mod ring;
mod run;
mod snapshot;
mod upkeep;

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Weak};

use byway_controller::{
    CmbRegisters, Controller, ControllerId, DelegatedTo, DeviceMemory, Interrupts, NamespaceHints, Port,
    Subsystem,
};
use byway_dma::{DmaMemory, DmaSpace, DmaView};
use byway_link::{ClockMode, HostMeter, Meter, Profile};
use byway_queue::{Doorbells, SharedDoorbells};
use byway_sys::{Mapping, OwnerProcess, Wakeup};
use parking_lot::Mutex;

use external::ExternalEngines;
use programs::Programs;
use queries::Queries;
use run::LastRun;

use crate::clock::Clock;
use crate::core::Core;
use crate::delegated::Delegation;
use crate::fabric::FabricControllers;
use crate::group_commit::GroupCommit;
use crate::guarded::Guarded;
use crate::interrupts::Vectors;
use crate::options::{Failed, Hosts, RunBy, RunOptions, StartError};
use crate::parker::Parker;
use crate::queue_threads::QueueThreads;
use crate::remote::Remote;
use crate::serving_threads::{ServingThreads, readers};
use crate::upkeep::{Upkeep, UpkeepBy};
use crate::windows::{CMB_BYTES, Windows, map_byte_memory, own_memory};

/// All queue pairs that a controller can have, with that of admin commands.
const QUEUES: u16 = byway_controller::MAX_IO_QUEUES + 1;

/// The state that all handles of a device share.
#[derive(Debug)]
pub struct Executor {
    /// The process that opened the device.
    owner: OwnerProcess,
    core: Guarded<Core>,
    space: Arc<DmaSpace>,
    doorbells: Doorbells,
    vectors: Vectors,
    /// State for hosts in other processes.
    remote: Option<Box<Remote>>,
    host_meter: HostMeter,
    clock: Clock,
    profile: Profile,
    next_bus_addr: AtomicU64,
    byte_memory: Arc<DmaMemory>,
    windows: Windows,
    hints: NamespaceHints,
    run_by: RunBy,
    /// Commands are counted, with their times.
    is_counting: bool,
    delegation: Delegation,
    queue_threads: QueueThreads,
    /// Where the thread that runs the device, or does deferred work, parks.
    parker: Parker,
    last_run: LastRun,
    group_commit: GroupCommit,
    upkeep: Upkeep,
    /// Wake the threads that serve fabric connections.
    fabric_notifiers: Mutex<Vec<Weak<Wakeup>>>,
    /// Threads that execute commands of fabrics without the run lock.
    serving_threads: ServingThreads,
    external: ExternalEngines,
    queries: Queries,
    programs: Programs,
}

impl Drop for Executor {
    /// Marks the image as cleanly closed. After a failure or a panic it stays marked as open, and the next opening recovers it.
    ///
    /// A forked child leaves the image to its parent.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        if let Some(core) = self.core.get_mut() {
            let _ = core.subsystem.close();
        }
    }
}

/// Doorbells in memory shared with hosts.
#[derive(Debug)]
struct Page(Arc<Mapping>);

impl SharedDoorbells for Page {
    fn words(&self) -> &[AtomicU32] {
        self.0.words()
    }
}

/// What differs between a host in this process and hosts in other processes.
struct HostSide {
    doorbells: Doorbells,
    remote: Option<Box<Remote>>,
    /// How threads that serve delegated queues learn of commands.
    delegated_to: DelegatedTo,
    queue_threads: QueueThreads,
    external: ExternalEngines,
}

impl HostSide {
    fn new(hosts: Option<Hosts>, subsystem: &Subsystem) -> Result<Self, StartError> {
        let doorbells = Doorbells::new(QUEUES);
        let Some(hosts) = hosts else {
            let (queue_threads, external) = (QueueThreads::new(NonZeroU16::MIN), ExternalEngines::new(None));
            return Ok(Self {
                doorbells,
                remote: None,
                delegated_to: DelegatedTo::Submitter,
                queue_threads,
                external,
            });
        };
        Ok(Self {
            doorbells: match hosts.doorbells {
                Some(page) => doorbells.with_shared(Box::new(Page(page))),
                None => doorbells,
            },
            remote: Some(Box::new(Remote::new(hosts.interrupts, subsystem.syncs_completions())?)),
            delegated_to: DelegatedTo::Poller,
            queue_threads: QueueThreads::new(hosts.threads),
            external: ExternalEngines::new(hosts.engines),
        })
    }

    /// The controller that PCIe hosts use.
    fn controller(&self, subsystem: &mut Subsystem, cmb: CmbRegisters) -> Controller {
        let mut controller = Controller::new(ControllerId(0), subsystem, cmb);
        if let Some(remote) = &self.remote {
            controller.defer_long_work();
            remote.begin(&controller);
        }
        controller
    }

    /// Counts what hosts transfer.
    fn meter(&self, profile: &Profile, options: &RunOptions) -> HostMeter {
        let meter = HostMeter::new(profile).with_doorbells(self.doorbells.len());
        meter.set_on(options.ledger);
        meter
    }
}

impl RunOptions {
    /// Counts what the device transfers.
    fn meter(&self, profile: &Profile) -> Meter {
        let mut meter = Meter::new(profile);
        meter.set_ledger(self.ledger);
        meter.set_timing(self.clock.models_time());
        meter
    }

    /// Which threads do upkeep. Modelled time orders all work: then commands pay for it.
    fn upkeep(&self) -> UpkeepBy {
        if self.clock == ClockMode::Off { self.upkeep_by } else { UpkeepBy::Off }
    }

    /// Queues that can be delegated. Modelled time orders all commands, and a thread of the device serves all queues: none then.
    fn delegable_queues(&self) -> u16 {
        if self.clock == ClockMode::Off && self.run_by == RunBy::Caller { QUEUES } else { 0 }
    }
}

impl Executor {
    /// An executor of `subsystem`; with `hosts`, for hosts in other processes.
    pub(crate) fn new(
        mut subsystem: Subsystem,
        options: RunOptions,
        hosts: Option<Hosts>,
    ) -> Result<Self, StartError> {
        if !options.clock.models_time() {
            // Nothing would see when its operations end, and reads of blocks could not leave the run lock.
            subsystem.flash_mut().set_timing(false);
        }
        let profile = subsystem.profile().clone();
        let space = Arc::new(DmaSpace::new());
        let byte_memory = Arc::new(DmaMemory::new(CMB_BYTES)?);
        let cmb = match hosts {
            None => map_byte_memory(&space, &byte_memory)?,
            // Hosts in other processes cannot reach the controller memory buffer.
            Some(_) => CmbRegisters::default(),
        };
        let side = HostSide::new(hosts, &subsystem)?;
        let controller = side.controller(&mut subsystem, cmb);
        let (host_meter, meter) = (side.meter(&profile, &options), options.meter(&profile));
        let windows = Windows::new(&mut subsystem);
        let (hints, is_counting) = (subsystem.hints(), subsystem.counts_commands());
        let fabric = FabricControllers::new(&profile);
        let serving_threads = ServingThreads::new(&subsystem, options.delegable_queues() > 0);
        let core = Core {
            subsystem,
            controller,
            memory: space.view(),
            meter,
            device_memory: None,
            fabric,
            tallied: serving_threads.counts(),
        };
        Ok(Self {
            owner: OwnerProcess::current(),
            core: Guarded::with_readers(core, readers(options.delegable_queues())),
            space,
            doorbells: side.doorbells,
            vectors: Vectors::new(options.run_by == RunBy::Thread),
            remote: side.remote,
            host_meter,
            clock: Clock::new(options.clock, &profile),
            profile,
            next_bus_addr: AtomicU64::new(1 << 32),
            byte_memory,
            windows,
            hints,
            run_by: options.run_by,
            is_counting,
            delegation: Delegation::new(options.delegable_queues(), side.delegated_to),
            queue_threads: side.queue_threads,
            parker: Parker::default(),
            last_run: LastRun::default(),
            group_commit: GroupCommit::default(),
            upkeep: Upkeep::new(options.upkeep()),
            fabric_notifiers: Mutex::default(),
            serving_threads,
            external: side.external,
            queries: Queries::default(),
            programs: Programs::default(),
        })
    }

    /// Runs `work` under the run lock with every queue in the controller, and no right to execute without the lock.
    pub(crate) fn with_core<R>(&self, work: impl FnOnce(&mut Core) -> R) -> Result<R, Failed> {
        self.with_all_queues(|core| {
            core.end_grants(self);
            work(core)
        })
    }

    /// As [`with_core`](Self::with_core), while rights to execute without the lock stay.
    pub(crate) fn with_all_queues<R>(&self, work: impl FnOnce(&mut Core) -> R) -> Result<R, Failed> {
        self.check_process()?;
        let mut work = Some(work);
        loop {
            let attempt = |core: &mut Core| {
                let were_delegated = self.delegation.any();
                if !self.reclaim_all(core) {
                    return None;
                }
                if were_delegated {
                    core.run_now(self);
                }
                work.take().map(|work| work(core))
            };
            let done = self.core.run(attempt, |core| core.run_now(self));
            if let Some(done) = done.ok_or(Failed::Panicked)? {
                return Ok(done);
            }
            std::thread::yield_now();
        }
    }

    /// Refuses a forked child, where a thread that does not exist may hold the run lock.
    fn check_process(&self) -> Result<(), Failed> {
        if self.owner.is_current() { Ok(()) } else { Err(Failed::Child { process: self.owner.number() }) }
    }

    /// Runs `work` under the run lock; delegated queues stay delegated.
    pub(crate) fn with_core_only<R>(&self, work: impl FnOnce(&mut Core) -> R) -> Result<R, Failed> {
        self.check_process()?;
        self.core.run(work, |core| core.run_now(self)).ok_or(Failed::Panicked)
    }

    /// As [`with_core_only`](Self::with_core_only), while stores by leases go on.
    pub(crate) fn with_core_as_it_is<R>(&self, work: impl FnOnce(&mut Core) -> R) -> Result<R, Failed> {
        self.check_process()?;
        self.core.run_as_it_is(work, |core| core.run_now(self)).ok_or(Failed::Panicked)
    }

    /// Runs `work` on the subsystem beside other readers; `None` on a failed device, and for a reader that was not added.
    #[inline]
    pub(crate) fn read<R>(&self, reader: usize, work: impl FnOnce(&Subsystem) -> R) -> Option<R> {
        self.core.read(reader, work)
    }

    /// Adds a reader, under the run lock.
    pub(crate) fn add_reader(&self, reader: usize) {
        self.core.add_reader(reader);
    }

    /// Removes a reader that does not read now, under the run lock.
    pub(crate) fn remove_reader(&self, reader: usize) {
        self.core.remove_reader(reader);
    }

    /// How many readers a thread that acquires the run lock looks at.
    #[cfg(test)]
    pub(crate) fn readers(&self) -> u32 {
        self.core.readers()
    }

    /// Runs `work` on a part of the device; if it panics, the device has failed.
    #[inline]
    pub(crate) fn poison_on_panic<R>(&self, work: impl FnOnce() -> R) -> R {
        self.core.poison_on_panic(work)
    }

    /// Threads that execute commands of fabrics without the run lock.
    #[inline]
    pub(crate) fn serving_threads(&self) -> &ServingThreads {
        &self.serving_threads
    }

    /// The device's end of the link.
    #[inline]
    fn port<'a>(&'a self, memory: &'a DmaView, meter: &'a mut Meter) -> Port<'a> {
        let interrupts: &dyn Interrupts = match &self.remote {
            Some(remote) => remote.interrupts(),
            None => &self.vectors,
        };
        let device_memory = DeviceMemory::Windows;
        let grants = Some(self.serving_threads.grants());
        Port { memory, meter, interrupts, own_memory: own_memory(), device_memory, capsule: None, grants }
    }

    /// Device memory of hosts in other processes; hosts in this process store into the windows directly.
    #[inline]
    fn device_memory<'a>(&self, shared: Option<&'a Mapping>) -> DeviceMemory<'a> {
        match (&self.remote, shared) {
            (None, _) => DeviceMemory::Windows,
            (Some(_), Some(memory)) => DeviceMemory::Copy(memory),
            (Some(_), None) => DeviceMemory::Nowhere,
        }
    }

    /// Whether the device's code panicked.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.core.has_failed()
    }

    /// # Errors
    /// The device has failed.
    pub(crate) fn check(&self) -> Result<(), Failed> {
        if self.has_failed() { Err(Failed::Panicked) } else { Ok(()) }
    }

    /// State for hosts in other processes.
    pub(crate) fn remote(&self) -> Option<&Remote> {
        self.remote.as_deref()
    }

    /// The device's address space.
    pub(crate) fn space(&self) -> &Arc<DmaSpace> {
        &self.space
    }

    /// Doorbells of all queues.
    #[inline]
    pub(crate) fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// Interrupts of a host in this process.
    pub(crate) fn vectors(&self) -> &Vectors {
        &self.vectors
    }

    /// Transactions of the host.
    #[inline]
    pub(crate) fn host_meter(&self) -> &HostMeter {
        &self.host_meter
    }

    /// Modelled time.
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Link, flash and firmware parameters.
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The next free bus address, for memory of `len_bytes`.
    pub(crate) fn next_bus_addr(&self) -> &AtomicU64 {
        &self.next_bus_addr
    }

    /// The controller memory buffer.
    pub(crate) fn byte_memory(&self) -> &Arc<DmaMemory> {
        &self.byte_memory
    }

    /// CXL windows.
    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Prefetch hints.
    #[inline]
    pub(crate) fn hints(&self) -> &NamespaceHints {
        &self.hints
    }

    /// Which thread runs the device.
    #[inline]
    pub(crate) fn run_by(&self) -> RunBy {
        self.run_by
    }

    /// Threads that share the queues with the message thread.
    pub(crate) fn queue_threads(&self) -> &QueueThreads {
        &self.queue_threads
    }

    /// Wakes the thread that runs the device.
    #[inline]
    pub(crate) fn wake(&self) {
        self.parker.wake();
    }
}
