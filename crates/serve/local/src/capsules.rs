//! The device as fabrics targets drive it: hosts connect, and each has a controller of its own, whose commands come
//! in capsules and are executed as they come, by the thread that received them.
//!
//! Controllers are the device's: whoever has the turn reaches them. A thread takes the device once for all that it
//! received ([`Capsules::run`]), and with every queue on leave brought back where admin commands are among it
//! ([`Capsules::run_alone`]): they may be about namespaces that such a queue is serving.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, Weak};

use byway_controller::{
    CapsuleData, CommandError, ConnectError, Controller, ControllerId, DeviceMemory, Done, ExternalCommand,
    FusedCommand, Host, MAX_CONTROLLERS, NoInterrupts, Overrun, Port, PortId, Posted, Subsystem,
};
use byway_dma::{DmaSpace, DmaView};
use byway_link::{ClockMode, Meter, Profile};
use byway_queue::Doorbells;
use byway_spec::Command;
use byway_spec::base::ana::AnaState;
use byway_sys::Wakeup;

use crate::core::Core;
use crate::device::{Companion, StartError};
use crate::engines::EngineEvents;
use crate::runner::Runner;
use crate::shared::{Failed, Shared};

/// The part of a device that fabrics have: controllers, each at the place of its identifier, up to the highest that was given.
#[derive(Debug)]
pub(crate) struct CapsuleSide {
    controllers: Vec<Option<Box<Controller>>>,
    /// The identifier that was given last: one that was another's just now is given again last of all, since that one's host
    /// may still ask for it.
    last: u16,
    /// Of those, how many have commands that wait for a sync of the image, at least.
    waiting: bool,
    /// No memory at all: what moves, moves in capsules.
    nowhere: DmaView,
    /// Nothing of a fabric crosses the device's link.
    meter: Meter,
    /// Nobody rings here.
    doorbells: Doorbells,
}

impl CapsuleSide {
    pub fn new(profile: &Profile) -> Self {
        let mut meter = Meter::new(profile);
        meter.set_ledger(false);
        Self {
            controllers: Vec::new(),
            last: 0,
            waiting: false,
            nowhere: Arc::new(DmaSpace::new()).view(),
            meter,
            doorbells: Doorbells::new(byway_controller::MAX_IO_QUEUES + 1),
        }
    }

    /// I/O queues that hosts are connected by.
    pub fn io_queues(&self) -> usize {
        self.controllers.iter().flatten().map(|controller| controller.io_queues()).sum()
    }

    #[inline]
    pub fn wants_sync(&self) -> bool {
        self.waiting
    }

    /// Says that a sync which begins now covers the commands that wait for one; whether any does.
    pub fn cover(&mut self) -> bool {
        self.waiting = false;
        // Every one is asked, whatever the first says.
        self.controllers
            .iter_mut()
            .flatten()
            .filter_map(|controller| controller.cover().then_some(()))
            .count()
            > 0
    }

    pub fn end_cover(&mut self, synced: &Result<(), CommandError>) {
        let Self { controllers, nowhere, meter, .. } = self;
        let mut port = port(nowhere, meter, None);
        controllers.iter_mut().flatten().for_each(|controller| controller.end_cover(&mut port, synced, 0));
    }

    /// Completes a command that another engine has done; what nobody waits for any more is given back.
    pub fn end_elsewhere(&mut self, subsystem: &mut Subsystem, done: Done) {
        let Self { controllers, nowhere, meter, .. } = self;
        match controllers.get_mut(usize::from(done.owner.0)) {
            Some(Some(controller)) => {
                controller.complete_external(subsystem, &mut port(nowhere, meter, None), done)
            }
            _ => subsystem.release_done(&done),
        }
    }

    /// Fails the commands of a namespace that is exported no more.
    pub fn lose_elsewhere(&mut self, nsid: u32) {
        let Self { controllers, nowhere, meter, .. } = self;
        let mut port = port(nowhere, meter, None);
        controllers.iter_mut().flatten().for_each(|controller| controller.fail_external(&mut port, nsid));
    }

    fn controller(&mut self, id: ControllerId) -> Option<&mut Controller> {
        self.controllers.get_mut(usize::from(id.0))?.as_deref_mut()
    }
}

fn port<'a>(memory: &'a DmaView, meter: &'a mut Meter, capsule: Option<CapsuleData<'a>>) -> Port<'a> {
    let (interrupts, device_memory) = (&NoInterrupts, DeviceMemory::Nowhere);
    Port { memory, meter, interrupts, own_memory: 0..0, device_memory, capsule }
}

/// A device, for hosts over fabrics.
#[derive(Debug, Clone)]
pub struct Capsules {
    // Declared first, so that it is gone before the image is closed.
    _companion: Option<Companion>,
    shared: Arc<Shared>,
    _runners: Arc<Vec<Runner>>,
}

impl Capsules {
    /// # Errors
    /// Under a modelled clock: what a fabric takes is not modelled.
    pub(crate) fn new(
        companion: Option<Companion>,
        shared: Arc<Shared>,
        runners: Arc<Vec<Runner>>,
    ) -> Result<Self, StartError> {
        if shared.clock.mode() != ClockMode::Off {
            return Err(StartError::ModelledFabric);
        }
        Ok(Self { _companion: companion, shared, _runners: runners })
    }

    /// Does `work` with the device in hand. Waits for who has it, and not for queues on leave. A panic with it fails the device, and
    /// goes no further: whoever serves others goes on.
    ///
    /// # Errors
    /// The device has failed, before or by `work`.
    pub fn run<R>(&self, work: impl FnOnce(&mut CapsuleDevice<'_>) -> R) -> Result<R, Failed> {
        let shared = &*self.shared;
        let since_ns = shared.counting_since_ns();
        let work = |core: &mut Core| core.counting(shared, since_ns, |core| with(shared, core, work));
        contain(|| shared.core.run(work, |core| core.run_now(shared)).ok_or(Failed::Panicked))
    }

    /// The same with every queue in.
    ///
    /// # Errors
    /// As there.
    pub fn run_alone<R>(&self, work: impl FnOnce(&mut CapsuleDevice<'_>) -> R) -> Result<R, Failed> {
        let shared = &*self.shared;
        let since_ns = shared.counting_since_ns();
        contain(|| shared.with_core(|core| core.counting(shared, since_ns, |core| with(shared, core, work))))
    }

    /// Whether the device can be used.
    ///
    /// # Errors
    /// The device has failed.
    pub fn check(&self) -> Result<(), Failed> {
        if self.shared.has_failed() { Err(Failed::Panicked) } else { Ok(()) }
    }

    /// Has `bell` raised whenever completions came by themselves. It is, until it is dropped.
    pub fn add_notifier(&self, bell: &Arc<Wakeup>) {
        let mut bells = self.shared.capsule_bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.retain(|other| other.strong_count() > 0);
        bells.push(Arc::downgrade(bell));
    }

    /// Raises the bells of all who have connections.
    pub fn notify(&self) {
        self.shared.tell_capsules();
    }

    /// Whether other engines have commands: whoever serves looks at them.
    #[inline]
    #[must_use]
    pub fn has_external_commands(&self) -> bool {
        self.shared.elsewhere.load(Relaxed) && !self.shared.has_failed()
    }

    /// Completes what other engines have done, and begins what they have not; how many completions that made.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn advance(&self) -> Result<usize, Failed> {
        let shared = &*self.shared;
        contain(|| {
            shared.core.run(|core| core.advance(shared), |core| core.run_now(shared)).ok_or(Failed::Panicked)
        })
    }

    /// Descriptors that can be read when other engines may have done something.
    #[must_use]
    pub fn engine_events(&self) -> Option<Arc<EngineEvents>> {
        self.shared.engine_events.clone()
    }

    /// Syncs the image for commands that wait for it.
    pub fn finish(&self) {
        self.shared.sync(None);
    }

    /// What it is called.
    ///
    /// # Errors
    /// The device has failed.
    pub fn nqn(&self) -> Result<String, Failed> {
        self.run(|device| device.core.subsystem.identity.nqn.clone())
    }
}

/// A panic of the device's code is its failure. Nobody reaches again what it left half done: the turn is nobody's any more.
#[inline]
fn contain<R>(work: impl FnOnce() -> Result<R, Failed>) -> Result<R, Failed> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Failed::Panicked))
}

fn with<R>(shared: &Shared, core: &mut Core, work: impl FnOnce(&mut CapsuleDevice<'_>) -> R) -> R {
    let done = work(&mut CapsuleDevice { core });
    if core.capsules.waiting {
        shared.wants_sync.store(true, Relaxed);
        shared.sync_bed.wake();
    }
    core.note_elsewhere(shared);
    done
}

impl Shared {
    /// Wakes those who have connections of hosts.
    pub(crate) fn tell_capsules(&self) {
        let bells = self.capsule_bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.raise());
    }
}

/// The device, in the hand of one thread.
#[derive(Debug)]
pub struct CapsuleDevice<'a> {
    core: &'a mut Core,
}

/// Why a host gets no controller.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AttachError {
    /// As many as there can be are there.
    #[error("every controller identifier is taken")]
    NoRoom,
    /// The host cannot be who it says it is.
    #[error(transparent)]
    Host(#[from] CommandError),
}

impl CapsuleDevice<'_> {
    /// A controller for `host`, who came by `port`.
    ///
    /// # Errors
    /// As [`AttachError`] has them.
    pub fn attach(&mut self, host: Option<Host>, port: PortId) -> Result<ControllerId, AttachError> {
        let Core { subsystem, capsules, .. } = &mut *self.core;
        let mut ids = (capsules.last + 1..MAX_CONTROLLERS).chain(1..=capsules.last).map(ControllerId);
        let id = ids.find(|id| !subsystem.has_controller(*id)).ok_or(AttachError::NoRoom)?;
        capsules.last = id.0;
        let host = host.unwrap_or(Host::Unnamed(id));
        let controller = Controller::over_fabric(id, subsystem, host, Some(port))?;
        let at = usize::from(id.0);
        capsules.controllers.resize_with(capsules.controllers.len().max(at + 1), || None);
        capsules.controllers[at] = Some(Box::new(controller));
        Ok(id)
    }

    /// Has so many ports from here on, of which hosts are told.
    pub fn set_ports(&mut self, ports: u16) {
        self.core.subsystem.set_ports(ports);
    }

    /// Has this port too, of which hosts are told: every namespace is optimized there.
    pub fn open_port(&mut self, port: PortId) {
        self.core.subsystem.open_port(port);
    }

    /// How many ports hosts are told of; none where they are told of no paths.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.core.subsystem.ports()
    }

    /// Sets how a namespace is reached by a port. Hosts are told when bells are [rung](Capsules::ring).
    ///
    /// # Errors
    /// As [`Subsystem::set_ana_state`].
    pub fn set_ana_state(&mut self, port: PortId, nsid: u32, state: AnaState) -> Result<(), CommandError> {
        self.core.subsystem.set_ana_state(port, nsid, state)
    }

    /// Ends a controller.
    pub fn detach(&mut self, id: ControllerId) {
        let place = self.core.capsules.controllers.get_mut(usize::from(id.0));
        if let Some(controller) = place.and_then(Option::take) {
            controller.detach(&mut self.core.subsystem);
        }
    }

    /// Whether a controller is there: it is, when its host has gone, until nothing of it is under way any more.
    #[must_use]
    pub fn has_controller(&self, id: ControllerId) -> bool {
        self.core.subsystem.has_controller(id)
    }

    /// Makes a queue of a controller.
    ///
    /// # Errors
    /// As [`Controller::connect`]; one that is not there is not ready.
    pub fn connect(&mut self, id: ControllerId, qid: u16, entries: u32) -> Result<(), ConnectError> {
        self.core.capsules.controller(id).ok_or(ConnectError::NotReady)?.connect(qid, entries)
    }

    /// Ends a queue of a controller.
    pub fn disconnect(&mut self, id: ControllerId, qid: u16) {
        let Core { subsystem, capsules, .. } = &mut *self.core;
        capsules.controller(id).into_iter().for_each(|controller| controller.disconnect(subsystem, qid));
    }

    /// Whether a queue is there: a controller reset ends all but the admin queue.
    #[must_use]
    pub fn has_queue(&mut self, id: ControllerId, qid: u16) -> bool {
        self.core.capsules.controller(id).is_some_and(|controller| controller.has_queue(qid))
    }

    /// Executes a command with the data that came with it; what it reads is written to `reply`, zeroes behind it. With `wants_crc`,
    /// returns the CRC-32C of the reply where one was kept with the data.
    ///
    /// # Errors
    /// As [`Controller::execute_capsule`]; the same for a queue that is not there.
    #[inline]
    pub fn execute(
        &mut self,
        (id, qid): (ControllerId, u16),
        command: &Command,
        carried: Option<&[u8]>,
        reply: &mut [u8],
        wants_crc: bool,
    ) -> Result<Option<u32>, Overrun> {
        let Core { subsystem, capsules, .. } = &mut *self.core;
        let CapsuleSide { controllers, waiting, nowhere, meter, doorbells, .. } = capsules;
        let controller = controllers.get_mut(usize::from(id.0)).and_then(Option::as_mut).ok_or(Overrun)?;
        let mut port = port(nowhere, meter, Some(CapsuleData::new(carried, reply).with_crc(wants_crc)));
        controller.execute_capsule(subsystem, &mut port, doorbells, qid, command, 0)?;
        let crc = port.capsule.and_then(CapsuleData::finish);
        *waiting |= controller.wants_sync();
        Ok(crc)
    }

    /// A command came that cannot be executed yet. Until it is [claimed](Self::claim), it can be aborted.
    pub fn register_waiting(&mut self, (id, qid): (ControllerId, u16), command: &Command) {
        let controller = self.core.capsules.controller(id);
        controller.into_iter().for_each(|controller| controller.await_data(qid, command));
    }

    /// Whether a command that waited is to be executed. Else it was aborted, and its completion is to be
    /// [taken](Self::take_completion).
    pub fn claim(&mut self, (id, qid): (ControllerId, u16), cid: u16) -> bool {
        self.core.capsules.controller(id).is_some_and(|controller| controller.claim(qid, cid))
    }

    /// Executes two fused commands that came one behind the other, as one.
    ///
    /// # Errors
    /// As [`Controller::execute_fused_capsules`]; the same for a queue that is not there.
    pub fn execute_fused(
        &mut self,
        (id, qid): (ControllerId, u16),
        pair: [FusedCommand<'_>; 2],
    ) -> Result<(), Overrun> {
        let Core { subsystem, capsules, .. } = &mut *self.core;
        let CapsuleSide { controllers, waiting, nowhere, meter, doorbells, .. } = capsules;
        let controller = controllers.get_mut(usize::from(id.0)).and_then(Option::as_mut).ok_or(Overrun)?;
        let mut port = port(nowhere, meter, Some(CapsuleData::new(None, &mut [])));
        controller.execute_fused_capsules(subsystem, &mut port, doorbells, qid, pair, 0)?;
        *waiting |= controller.wants_sync();
        Ok(())
    }

    /// Whether other engines have so much to do that what comes should wait.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.subsystem.is_full()
    }

    /// Moves what a command read in another engine to where it is sent from, zeroes behind it.
    pub fn take_data(&mut self, at: &ExternalCommand, into: &mut [u8]) {
        self.core.subsystem.take_data(at, into);
    }

    /// Takes a completion of a queue, the oldest first.
    #[inline]
    pub fn take_completion(&mut self, (id, qid): (ControllerId, u16)) -> Option<Posted> {
        self.core.capsules.controller(id)?.take_posted(qid)
    }

    /// Has a controller tell of events and go on with what takes long.
    pub fn attend(&mut self, id: ControllerId) {
        self.with_controller(id, |controller, subsystem, port, doorbells| {
            controller.attend(subsystem, port, doorbells, 0);
        });
    }

    /// Reads 4 bytes of a controller's registers.
    #[must_use]
    pub fn read_register(&mut self, id: ControllerId, offset: u32) -> u32 {
        self.core.capsules.controller(id).map_or(0, |controller| controller.read_register(offset))
    }

    /// Writes 4 bytes of a controller's registers, and does what that asks for.
    pub fn write_register(&mut self, id: ControllerId, offset: u32, value: u32) {
        self.with_controller(id, |controller, subsystem, _, doorbells| {
            controller.write_register(subsystem, doorbells, offset, value);
        });
    }

    /// Keep alive timeout of a controller in milliseconds; 0 is off.
    #[must_use]
    pub fn keep_alive_ms(&mut self, id: ControllerId) -> u32 {
        self.core.capsules.controller(id).map_or(0, |controller| controller.keep_alive_ms())
    }

    /// Sets it.
    ///
    /// # Errors
    /// As [`Controller::set_keep_alive_ms`].
    pub fn set_keep_alive_ms(&mut self, id: ControllerId, timeout_ms: u32) -> Result<(), CommandError> {
        self.core
            .capsules
            .controller(id)
            .map_or(Ok(()), |controller| controller.set_keep_alive_ms(timeout_ms))
    }

    /// The host of a controller was silent for too long.
    pub fn expire(&mut self, id: ControllerId) {
        self.core.capsules.controller(id).into_iter().for_each(Controller::expire);
    }

    fn with_controller(
        &mut self,
        id: ControllerId,
        work: impl FnOnce(&mut Controller, &mut Subsystem, &mut Port<'_>, &Doorbells),
    ) {
        let Core { subsystem, capsules, .. } = &mut *self.core;
        let CapsuleSide { controllers, nowhere, meter, doorbells, .. } = capsules;
        if let Some(Some(controller)) = controllers.get_mut(usize::from(id.0)) {
            work(controller, subsystem, &mut port(nowhere, meter, None), doorbells);
        }
    }
}
