//! The embedded device: controller, subsystem and flash in this process.

use std::any::Any;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use byway_controller::{
    Carried, CmbRegisters, Controller, ControllerId, DeviceMemory, FinishedSync, Interrupts, Next, Outlooks,
    Port, Subsystem,
};
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace, DmaView};
use byway_link::{ClockMode, HostMeter, Ledger, Meter, Profile};
use byway_queue::{DoorbellIndex, Doorbells, SharedDoorbells};
use byway_sys::Mapping;

use crate::cell::Guarded;
use crate::clock::Clock;
use crate::front::Front;
use crate::interrupts::Vectors;
use crate::lanes::{Eager, LaneCell, Lanes};
use crate::memory::Windows;
use crate::runner::{Bed, Runner};
use crate::served::Served;
use crate::syncing::Syncing;
use crate::workers::Workers;

/// Commands served in one run before doorbells are looked at again.
const BUDGET: u32 = 1024;

/// Bus address of the controller memory buffer, far above what the host maps.
const CMB_BASE: u64 = 1 << 46;

/// Bytes of the controller memory buffer.
const CMB_BYTES: usize = 1 << 20;

const NEVER: u64 = u64::MAX;

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

/// What only the thread that has the turn may touch.
#[derive(Debug)]
pub(crate) struct Core {
    pub subsystem: Subsystem,
    pub controller: Controller,
    pub memory: DmaView,
    pub meter: Meter,
    /// What the host stores into, where it is elsewhere.
    pub device_memory: Option<Arc<Mapping>>,
}

/// What a device has of hosts in other processes.
pub struct Hosts {
    /// Told of interrupts.
    pub interrupts: Arc<dyn Interrupts + Send + Sync>,
    /// Memory in which hosts may write doorbells themselves, as the registers stand; [`Front::poll`] looks there.
    pub doorbells: Option<Arc<Mapping>>,
    /// How many threads share the queues: the one that answers messages, and others of the device's own.
    pub threads: NonZeroU16,
}

/// Doorbells in memory shared with hosts.
#[derive(Debug)]
struct Page(Arc<Mapping>);

impl SharedDoorbells for Page {
    fn words(&self) -> &[AtomicU32] {
        self.0.words()
    }
}

/// What every handle of one device shares.
#[derive(Debug)]
pub struct Shared {
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
    pub(crate) lanes: Lanes,
    pub(crate) workers: Workers,
    pub(crate) bed: Bed,
    /// Where the thread that syncs the image sleeps.
    pub(crate) sync_bed: Bed,
    /// When the device wants to run next, in modelled picoseconds; `NEVER` if only a doorbell gives it work.
    due_ps: AtomicU64,
    /// Whether the device waits for room in a completion queue.
    blocked: AtomicBool,
    /// Whether commands wait for a sync of the image.
    wants_sync: AtomicBool,
    pub(crate) syncing: Syncing,
}

impl Drop for Shared {
    /// Marks the image as closed in order. A failure leaves it marked as open, which the next opener handles as it
    /// handles a crash; a device that panicked is left so too.
    fn drop(&mut self) {
        if let Some(core) = self.core.get_mut() {
            let _ = core.subsystem.close();
        }
    }
}

/// The device's code panicked. What it had begun is as a death of the process leaves it: nothing more is done with
/// the image, which the next opening recovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the device failed: its code panicked; the image has to be opened anew")]
pub struct Failed;

impl Core {
    /// Runs the controller at modelled time `now_ps` until it has nothing left to do now.
    #[inline]
    pub fn run(&mut self, shared: &Shared, mut rung: Option<DoorbellIndex>, now_ps: u64) {
        let next = match &shared.served {
            Some(served) => self.run_served(shared, served, now_ps),
            None => loop {
                match self.run_controller(shared, rung.take(), now_ps, BUDGET) {
                    Next::Now => {}
                    _ if self.has_lanes_for_admin(shared) => {}
                    next => break next,
                }
            },
        };
        let due_ps = if let Next::At(due_ps) = next { due_ps } else { NEVER };
        shared.due_ps.store(due_ps, Relaxed);
        if due_ps != NEVER && shared.run_by == RunBy::Caller {
            shared.vectors.call_all(|_| true);
        }
        shared.blocked.store(self.controller.is_blocked(), Relaxed);
        let wants_sync = self.controller.wants_sync();
        shared.wants_sync.store(wants_sync, Relaxed);
        if wants_sync {
            shared.sync_bed.wake();
            self.call_those_who_wait(shared);
        }
    }

    /// Whether admin commands waited for queues on leave, which are all in now.
    #[inline]
    pub fn has_lanes_for_admin(&mut self, shared: &Shared) -> bool {
        self.controller.waits_for_lanes() && shared.recall(self)
    }

    /// Runs the controller once.
    #[inline]
    pub fn run_controller(
        &mut self,
        shared: &Shared,
        rung: Option<DoorbellIndex>,
        now_ps: u64,
        budget: u32,
    ) -> Next {
        let device_memory = shared.device_memory(self.device_memory.as_deref());
        let mut port = Port { device_memory, ..port(&self.memory, &mut self.meter, shared) };
        self.controller.run(&mut self.subsystem, &mut port, &shared.doorbells, rung, now_ps, budget)
    }

    /// Hosts that wait by a descriptor for commands which another has executed here come back to sync the image for them.
    #[cold]
    fn call_those_who_wait(&self, shared: &Shared) {
        if shared.run_by == RunBy::Caller {
            shared.vectors.call_all(|vector| self.controller.waits_for_sync(vector));
        }
    }

    /// Runs the controller for what others left word of.
    pub fn run_now(&mut self, shared: &Shared) {
        self.run(shared, None, shared.clock.now_ps());
    }

    /// Completes the commands that a sync covers, and whatever has become possible by that.
    pub fn end_sync(&mut self, shared: &Shared, sync: FinishedSync) {
        let now_ps = shared.clock.now_ps();
        let mut port = port(&self.memory, &mut self.meter, shared);
        self.controller.end_sync(&mut self.subsystem, &mut port, sync, now_ps);
        self.run(shared, None, now_ps);
    }
}

/// The device's end of the link.
#[inline]
pub(crate) fn port<'a>(memory: &'a DmaView, meter: &'a mut Meter, shared: &'a Shared) -> Port<'a> {
    let own_memory = CMB_BASE..CMB_BASE + CMB_BYTES as u64;
    let interrupts: &dyn Interrupts = match &shared.served {
        Some(served) => &*served.interrupts,
        None => &shared.vectors,
    };
    Port { memory, meter, interrupts, own_memory, device_memory: DeviceMemory::Windows }
}

impl Shared {
    /// What a host elsewhere stores into; hosts in this process reach the windows themselves.
    #[inline]
    fn device_memory<'a>(&self, shared: Option<&'a Mapping>) -> DeviceMemory<'a> {
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
                self.doorbells.mark(index);
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
            if let Some(done) = done.ok_or(Failed)? {
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
    shared: Weak<Shared>,
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

    /// Starts a device whose hosts are in other processes: bridges reach it by its [`Embedded::front`], run it in threads
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
        let shared = Arc::new(Shared::new(subsystem, options, Some(hosts))?);
        let mut runners = vec![Runner::start_working(&shared)?, Runner::start_syncing(&shared)?];
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
    /// No memory, or no thread.
    #[error("the device cannot be started: {0}")]
    System(#[from] std::io::Error),
}

impl Shared {
    fn new(mut subsystem: Subsystem, options: RunOptions, hosts: Option<Hosts>) -> Result<Self, StartError> {
        let profile = subsystem.profile.clone();
        let byte_memory = Arc::new(DmaMemory::new(CMB_BYTES)?);
        let space = Arc::new(DmaSpace::new());
        // Hosts elsewhere have no way to it.
        let cmb = if hosts.is_none() {
            let mapped = space.map(byte_memory.clone(), byte_memory_at(), Access::ReadWrite);
            mapped.map_err(std::io::Error::other)?;
            cmb_registers()
        } else {
            CmbRegisters::default()
        };
        let mut meter = Meter::new(&profile);
        meter.set_ledger(options.ledger);
        meter.set_timing(options.clock.models_time());
        let queues = byway_controller::MAX_IO_QUEUES + 1;
        // Modelled time orders everything, and a thread of the device's own serves all queues.
        let queues_leave = options.clock == ClockMode::Off && options.run_by == RunBy::Caller;
        let runs_apart = subsystem.syncs_completions();
        let carried = if hosts.is_some() { Carried::KeysAndBlocks } else { Carried::Keys };
        let threads = hosts.as_ref().map_or(NonZeroU16::MIN, |hosts| hosts.threads);
        let (interrupts, page) =
            hosts.map_or((None, None), |hosts| (Some(hosts.interrupts), hosts.doorbells));
        let served = interrupts.map(|interrupts| Served::new(interrupts, runs_apart)).transpose()?;
        let doorbells = Doorbells::new(queues);
        let doorbells = match page {
            Some(page) => doorbells.with_shared(Box::new(Page(page))),
            None => doorbells,
        };
        let host_meter = HostMeter::new(&profile).with_doorbells(doorbells.len());
        host_meter.set_on(options.ledger);
        let mut controller = Controller::new(ControllerId(0), &mut subsystem, cmb);
        if let Some(served) = &served {
            controller.put_off();
            served.begin(&controller);
        }
        let windows = Windows::new(&mut subsystem);
        let outlooks = subsystem.outlooks();
        let core = Core { subsystem, controller, memory: space.view(), meter, device_memory: None };
        Ok(Self {
            core: Guarded::new(core),
            space,
            doorbells,
            vectors: Vectors::new(options.run_by == RunBy::Thread),
            served: served.map(Box::new),
            host_meter,
            clock: Clock::new(options.clock, &profile),
            profile,
            next_bus_addr: AtomicU64::new(1 << 32),
            byte_memory,
            windows,
            outlooks,
            run_by: options.run_by,
            lanes: Lanes::new(if queues_leave { queues } else { 0 }, carried),
            workers: Workers::new(threads),
            bed: Bed::default(),
            sync_bed: Bed::default(),
            due_ps: AtomicU64::new(NEVER),
            blocked: AtomicBool::new(false),
            wants_sync: AtomicBool::new(false),
            syncing: Syncing::default(),
        })
    }
}

/// Where the controller memory buffer stands on the bus.
pub(crate) fn byte_memory_at() -> BusAddr {
    BusAddr(CMB_BASE)
}

/// CMBSZ for data of writes and reads, in units of 4 KiB; CMBLOC 0 in BAR 2.
fn cmb_registers() -> CmbRegisters {
    use byway_spec::base::register::{Cmbloc, Cmbsz};
    let size = Cmbsz::new().with_wds(true).with_rds(true).with_sz((CMB_BYTES / 4096) as u32);
    CmbRegisters { location: Cmbloc::new().with_bir(2).into_bits(), size: size.into_bits() }
}
