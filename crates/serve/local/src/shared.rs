//! What every handle of one device shares: who rings a doorbell here runs the device, or leaves word for who does.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use byway_controller::{Carried, CmbRegisters, Controller, ControllerId, DeviceMemory, Outlooks, Subsystem};
use byway_dma::{DmaMemory, DmaSpace};
use byway_link::{ClockMode, HostMeter, Meter, Profile};
use byway_queue::{DoorbellIndex, Doorbells, SharedDoorbells};
use byway_sys::{Mapping, OwnerProcess, Wakeup};

use crate::capsules::CapsuleSide;
use crate::cell::Guarded;
use crate::clock::Clock;
use crate::core::Core;
use crate::device::{Hosts, RunBy, RunOptions, StartError};
use crate::engines::EngineEvents;
use crate::interrupts::Vectors;
use crate::lanes::{Eager, LaneCell, Lanes};
use crate::memory::{CMB_BYTES, Windows, map_byte_memory};
use crate::runner::Bed;
use crate::served::Served;
use crate::syncing::Syncing;
use crate::workers::Workers;

pub(crate) const NEVER: u64 = u64::MAX;

/// What every handle of one device shares.
#[derive(Debug)]
pub struct Shared {
    /// The process that opened the device.
    pub(crate) owner: OwnerProcess,
    pub(crate) core: Guarded<Core>,
    pub(crate) space: Arc<DmaSpace>,
    pub(crate) doorbells: Doorbells,
    pub(crate) vectors: Vectors,
    /// For hosts elsewhere.
    pub(crate) served: Option<Box<Served>>,
    pub(crate) host_meter: HostMeter,
    pub(crate) clock: Clock,
    pub(crate) profile: Profile,
    pub(crate) next_bus_addr: AtomicU64,
    pub(crate) byte_memory: Arc<DmaMemory>,
    pub(crate) windows: Windows,
    pub(crate) outlooks: Outlooks,
    pub(crate) run_by: RunBy,
    /// Commands are counted, with their times.
    pub(crate) is_counting: bool,
    pub(crate) lanes: Lanes,
    pub(crate) workers: Workers,
    pub(crate) bed: Bed,
    /// Where the thread that syncs the image sleeps.
    pub(crate) sync_bed: Bed,
    /// When the device wants to run next, in modelled picoseconds; `NEVER` if only a doorbell gives it work.
    pub(crate) due_ps: AtomicU64,
    /// Whether the device waits for room in a completion queue.
    pub(crate) blocked: AtomicBool,
    /// Whether commands wait for a sync of the image.
    pub(crate) wants_sync: AtomicBool,
    pub(crate) syncing: Syncing,
    /// Raised for those who have connections of hosts, when completions came by themselves.
    pub(crate) capsule_bells: Mutex<Vec<Weak<Wakeup>>>,
    /// Whether other engines have commands.
    pub(crate) elsewhere: AtomicBool,
    pub(crate) engine_events: Option<Arc<EngineEvents>>,
}

impl Drop for Shared {
    /// Marks the image as closed in order. A failure leaves it marked as open, which the next opener handles as it
    /// handles a crash; a device that panicked is left so too.
    ///
    /// A forked child leaves the image to its parent, which goes on with it.
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        if let Some(core) = self.core.get_mut() {
            let _ = core.subsystem.close();
        }
    }
}

/// Why a device does nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The device's code panicked. What it had begun is as a death of the process leaves it: nothing more is done with
    /// the image, which the next opening recovers.
    #[error("the device failed: its code panicked; the image has to be opened anew")]
    Panicked,
    /// A forked child used its parent's device.
    #[error("{}", OwnerProcess::refusal("the device", *process))]
    Child {
        /// The process that opened it.
        process: u32,
    },
}

/// Doorbells in memory shared with hosts.
#[derive(Debug)]
struct Page(Arc<Mapping>);

impl SharedDoorbells for Page {
    fn words(&self) -> &[AtomicU32] {
        self.0.words()
    }
}

impl Shared {
    pub(crate) fn new(
        mut subsystem: Subsystem,
        options: RunOptions,
        hosts: Option<Hosts>,
    ) -> Result<Self, StartError> {
        let profile = subsystem.profile.clone();
        let space = Arc::new(DmaSpace::new());
        let byte_memory = Arc::new(DmaMemory::new(CMB_BYTES)?);
        let cmb = match hosts {
            None => map_byte_memory(&space, &byte_memory)?,
            // Hosts elsewhere have no way to it.
            Some(_) => CmbRegisters::default(),
        };
        let mut meter = Meter::new(&profile);
        meter.set_ledger(options.ledger);
        meter.set_timing(options.clock.models_time());
        let queues = byway_controller::MAX_IO_QUEUES + 1;
        // Modelled time orders everything, and a thread of the device's own serves all queues.
        let queues_leave = options.clock == ClockMode::Off && options.run_by == RunBy::Caller;
        let mut doorbells = Doorbells::new(queues);
        let (mut served, mut carried, mut threads) = (None, Carried::Keys, NonZeroU16::MIN);
        let mut engine_events = None;
        if let Some(hosts) = hosts {
            (carried, threads) = (Carried::KeysAndBlocks, hosts.threads);
            engine_events = hosts.engines;
            served = Some(Box::new(Served::new(hosts.interrupts, subsystem.syncs_completions())?));
            if let Some(page) = hosts.doorbells {
                doorbells = doorbells.with_shared(Box::new(Page(page)));
            }
        }
        let host_meter = HostMeter::new(&profile).with_doorbells(doorbells.len());
        host_meter.set_on(options.ledger);
        let mut controller = Controller::new(ControllerId(0), &mut subsystem, cmb);
        if let Some(served) = &served {
            controller.defer_long_work();
            served.begin(&controller);
        }
        let windows = Windows::new(&mut subsystem);
        let (outlooks, is_counting) = (subsystem.outlooks(), subsystem.counts_commands());
        let capsules = CapsuleSide::new(&profile);
        let core = Core { subsystem, controller, memory: space.view(), meter, device_memory: None, capsules };
        Ok(Self {
            owner: OwnerProcess::current(),
            core: Guarded::new(core),
            space,
            doorbells,
            vectors: Vectors::new(options.run_by == RunBy::Thread),
            served,
            host_meter,
            clock: Clock::new(options.clock, &profile),
            profile,
            next_bus_addr: AtomicU64::new(1 << 32),
            byte_memory,
            windows,
            outlooks,
            run_by: options.run_by,
            is_counting,
            lanes: Lanes::new(if queues_leave { queues } else { 0 }, carried),
            workers: Workers::new(threads),
            bed: Bed::default(),
            sync_bed: Bed::default(),
            due_ps: AtomicU64::new(NEVER),
            blocked: AtomicBool::new(false),
            wants_sync: AtomicBool::new(false),
            syncing: Syncing::default(),
            capsule_bells: Mutex::default(),
            elsewhere: AtomicBool::new(false),
            engine_events,
        })
    }

    /// What a host elsewhere stores into; hosts in this process reach the windows themselves.
    #[inline]
    pub(crate) fn device_memory<'a>(&self, shared: Option<&'a Mapping>) -> DeviceMemory<'a> {
        match (&self.served, shared) {
            (None, _) => DeviceMemory::Windows,
            (Some(_), Some(memory)) => DeviceMemory::Copy(memory),
            (Some(_), None) => DeviceMemory::Nowhere,
        }
    }

    /// Writes the tail of a submission queue and serves it, wherever it is.
    #[inline]
    pub(crate) fn ring_tail(&self, index: DoorbellIndex, value: u32) {
        match self.lanes.cell(index.queue()) {
            Some(_) if index.queue() == 0 => self.ring_admin(index, value),
            Some(cell) if cell.leaves() => self.ring_away(index, value),
            _ => self.ring_and_run(index, value),
        }
    }

    /// Admin commands have the whole controller.
    #[cold]
    fn ring_admin(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        let now_ps = self.clock.now_ps();
        let _ = self.with_core(|core| core.run(self, Some(index), now_ps));
    }

    #[inline(never)]
    fn ring_away(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        if !self.serve_away(index.queue(), Eager::IfLast) {
            self.ring_and_run(index, value);
        }
    }

    /// Writes a doorbell and runs the device for it, unless somebody runs it already: then that runner serves it.
    #[inline(never)]
    pub(crate) fn ring_and_run(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        let at_ps = self.doorbell_arrival_ps();
        self.core.run_or_leave_word(
            || {
                self.doorbells.mark_dirty(index);
                self.lanes.cell(index.queue()).into_iter().for_each(LaneCell::meet);
            },
            |core, first| core.run(self, first.then_some(index), at_ps),
        );
    }

    /// Lets the device serve the doorbells rung so far, with every queue in.
    pub(crate) fn run_now(&self) {
        if self.lanes.any_away() {
            let _ = self.with_core(|core| core.run_now(self));
            return;
        }
        self.run_here();
    }

    /// Lets the device serve the doorbells rung so far of the queues that are in.
    pub(crate) fn run_here(&self) {
        self.core.run_or_leave_word(|| {}, |core, _| core.run_now(self));
    }

    /// Lets the device run; if it has nothing to do now, moves virtual time to its next deadline first.
    pub(crate) fn run_to_deadline(&self) {
        self.core.run_or_leave_word(
            || {},
            |core, _| {
                core.run(self, None, self.clock.now_ps());
                if let (ClockMode::Virtual, Some(due_ps)) = (self.clock.mode(), self.deadline_ps()) {
                    self.clock.advance_to(due_ps);
                    core.run(self, None, due_ps);
                }
            },
        );
    }

    /// Has the whole device to itself for `work`: every queue is in the controller.
    pub(crate) fn with_core<R>(&self, work: impl FnOnce(&mut Core) -> R) -> Result<R, Failed> {
        // In a forked child the turn may be that of a thread which is not there.
        if !self.owner.is_current() {
            return Err(Failed::Child { process: self.owner.number() });
        }
        let mut work = Some(work);
        loop {
            let try_it = |core: &mut Core| {
                let were_away = self.lanes.any_away();
                if !self.recall(core) {
                    return None;
                }
                if were_away {
                    core.run_now(self);
                }
                work.take().map(|work| work(core))
            };
            let done = self.core.run(try_it, |core| core.run_now(self));
            if let Some(done) = done.ok_or(Failed::Panicked)? {
                return Ok(done);
            }
            std::thread::yield_now();
        }
    }

    /// Whether the device's code panicked.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.core.has_failed()
    }

    /// Whether commands wait for a sync of the image.
    #[inline]
    pub(crate) fn wants_sync(&self) -> bool {
        self.wants_sync.load(Relaxed)
    }

    /// When the device wants to run next by itself.
    pub(crate) fn deadline_ps(&self) -> Option<u64> {
        Some(self.due_ps.load(Relaxed)).filter(|due_ps| *due_ps != NEVER)
    }

    /// Writes the head of a completion queue. The device looks at it when it needs room; if it waits for some, it runs.
    #[inline]
    pub(crate) fn ring_head(&self, index: DoorbellIndex, value: u32) {
        self.doorbells.store(index, value);
        if self.blocked.load(Relaxed) {
            self.run_now();
        }
        if self.lanes.cell(index.queue()).is_some_and(LaneCell::is_blocked) {
            self.serve_away(index.queue(), Eager::IfLast);
        }
    }

    /// The host of queue `qid` has nothing else to do: what was put off is done now.
    #[inline]
    pub(crate) fn idle(&self, qid: u16) {
        if self.run_by == RunBy::Thread {
            return;
        }
        if self.lanes.cell(qid).is_some_and(LaneCell::is_gathering) {
            self.execute_gathered(qid);
        }
        if self.wants_sync() {
            self.sync(Some(qid));
        }
    }

    /// Whether running the device now would do anything.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        // A thread of the device's own is told of room by a mark.
        let blocked = self.run_by == RunBy::Caller && self.blocked.load(Relaxed);
        self.doorbells.is_dirty() || blocked || self.is_due()
    }

    /// Whether a deadline has come.
    pub(crate) fn is_due(&self) -> bool {
        self.deadline_ps().is_some_and(|due_ps| due_ps <= self.clock.now_ps())
    }

    /// When a doorbell written now is seen by the device.
    #[inline]
    pub(crate) fn doorbell_arrival_ps(&self) -> u64 {
        match self.clock.mode() {
            ClockMode::Off => 0,
            _ => self.profile.doorbell_arrival_ps(self.clock.now_ps()),
        }
    }
}
