//! The device for fabrics targets: each host has a controller of its own, whose commands come in capsules and are executed by the
//! thread that received them.
//!
//! A thread acquires the run lock once for all commands that it received ([`Capsules::run`]). Admin commands that may affect other queues
//! are executed with every queue in the controller ([`Capsules::run_alone`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use byway_controller::{
    CapsuleData, CommandError, ConnectError, Controller, ControllerId, ExternalCommand, FusedCommand, Host,
    Overrun, PortId, Posted, admin_moves_data, admin_only_reports,
};
use byway_link::ClockMode;
use byway_spec::Command;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::ana::AnaState;
use byway_sys::Wakeup;

use crate::capsule_queue::CapsuleQueue;
use crate::core::Core;
use crate::engine_events::EngineEvents;
use crate::executor::Executor;
use crate::fabric::{AttachError, FabricContext};
use crate::options::{Failed, StartError};
use crate::owner::Owner;
use crate::upkeep::Quantum;

/// A device, for hosts over fabrics.
#[derive(Debug, Clone)]
pub struct Capsules(Owner);

impl Capsules {
    /// # Errors
    /// A modelled clock: fabrics are not modelled.
    pub(crate) fn new(owner: Owner) -> Result<Self, StartError> {
        if owner.executor().clock().mode() != ClockMode::Off {
            return Err(StartError::ModelledFabric);
        }
        Ok(Self(owner))
    }

    #[inline]
    pub(crate) fn executor(&self) -> &Executor {
        self.0.executor()
    }

    /// Runs `work` under the run lock; delegated queues stay delegated. A panic of `work` fails the device and ends there.
    ///
    /// # Errors
    /// The device has failed, before or by `work`.
    pub fn run<R>(&self, work: impl FnOnce(&mut CapsuleDevice<'_>) -> R) -> Result<R, Failed> {
        let executor = self.executor();
        let since_ns = executor.counting_since_ns();
        let work =
            |core: &mut Core| core.counting(executor, since_ns, |core| with(executor, core, false, work));
        contain(|| executor.with_core_only(work))
    }

    /// As [`Self::run`], while stores by leases go on: for work that looks at no data.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_as_it_is<R>(&self, work: impl FnOnce(&mut CapsuleDevice<'_>) -> R) -> Result<R, Failed> {
        let executor = self.executor();
        let since_ns = executor.counting_since_ns();
        let work =
            |core: &mut Core| core.counting(executor, since_ns, |core| with(executor, core, false, work));
        contain(|| executor.with_core_as_it_is(work))
    }

    /// Runs `work` under the run lock with every queue in the controller, and all commands counted. Rights to execute without the run lock
    /// stay until `work` changes what they rest on.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_alone<R>(&self, work: impl FnOnce(&mut CapsuleDevice<'_>) -> R) -> Result<R, Failed> {
        let executor = self.executor();
        let since_ns = executor.counting_since_ns();
        let work = |core: &mut Core| {
            core.count_tallies(executor);
            core.counting(executor, since_ns, |core| with(executor, core, true, work))
        };
        contain(|| executor.with_all_queues(work))
    }

    /// Whether the device can be used.
    ///
    /// # Errors
    /// The device has failed.
    pub fn check(&self) -> Result<(), Failed> {
        self.executor().check()
    }

    /// Has `notifier` raised after asynchronous completions and events, until it is dropped.
    pub fn add_notifier(&self, notifier: &Arc<Wakeup>) {
        self.executor().add_fabric_notifier(notifier);
    }

    /// Raises all notifiers.
    pub fn notify(&self) {
        self.executor().notify_fabric();
    }

    /// Whether external engines have commands, so that serving threads must [advance](Self::advance) them.
    #[inline]
    #[must_use]
    pub fn has_external_commands(&self) -> bool {
        self.executor().has_external()
    }

    /// Completes what external engines have finished, and starts waiting commands; returns the number of completions.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn advance(&self) -> Result<usize, Failed> {
        contain(|| self.executor().advance())
    }

    /// Eventfds of external engines.
    #[must_use]
    pub fn engine_events(&self) -> Option<Arc<EngineEvents>> {
        self.executor().engine_events().cloned()
    }

    /// Does a quantum of upkeep, if any is due, for a thread that has nothing to execute; whether more may be due.
    pub fn keep_up(&self) -> bool {
        contain(|| Ok(self.executor().keep_up())).is_ok_and(|quantum| quantum != Quantum::Nothing)
    }

    /// Syncs the image for commands that wait for it.
    pub fn finish(&self) {
        self.executor().sync(None);
    }

    /// The subsystem NQN.
    ///
    /// # Errors
    /// The device has failed.
    pub fn nqn(&self) -> Result<String, Failed> {
        self.run(|device| device.core.subsystem.identity().nqn.clone())
    }
}

/// Turns a panic of the device's code, which has poisoned the run lock, into an error.
#[inline]
pub(crate) fn contain<R>(work: impl FnOnce() -> Result<R, Failed>) -> Result<R, Failed> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Failed::Panicked))
}

fn with<R>(
    executor: &Executor,
    core: &mut Core,
    is_alone: bool,
    work: impl FnOnce(&mut CapsuleDevice<'_>) -> R,
) -> R {
    let done = work(&mut CapsuleDevice { core, executor, is_alone });
    if core.fabric.wants_sync() {
        executor.request_sync();
    }
    core.complete_ready(executor);
    core.note_external(executor);
    executor.note_upkeep(core);
    done
}

/// The device, under its run lock.
#[derive(Debug)]
pub struct CapsuleDevice<'a> {
    core: &'a mut Core,
    executor: &'a Executor,
    is_alone: bool,
}

impl CapsuleDevice<'_> {
    /// A new controller for `host`, connected at `port`.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(&mut self, host: Option<Host>, port: PortId) -> Result<ControllerId, AttachError> {
        let Core { subsystem, fabric, .. } = &mut *self.core;
        fabric.attach(subsystem, host, port)
    }

    /// Sets the number of ports that ANA reports.
    pub fn set_ports(&mut self, ports: u16) {
        self.core.subsystem.set_ports(ports);
    }

    /// Adds a port to ANA reporting; every namespace is optimized there.
    pub fn open_port(&mut self, port: PortId) {
        self.core.subsystem.open_port(port);
    }

    /// The number of ports that ANA reports; 0 without ANA reporting.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.core.subsystem.ports()
    }

    /// Sets an ANA state. Hosts get an event after [`Capsules::notify`].
    ///
    /// # Errors
    /// As [`Subsystem::set_ana_state`](byway_controller::Subsystem::set_ana_state).
    pub fn set_ana_state(&mut self, port: PortId, nsid: u32, state: AnaState) -> Result<(), CommandError> {
        self.core.subsystem.set_ana_state(port, nsid, state)
    }

    /// Grants a queue what it may execute without the run lock, unless it has that right.
    #[inline]
    pub fn grant(&mut self, (id, qid): (ControllerId, u16), queue: &mut CapsuleQueue) {
        queue.renew(self.core, |core, path| {
            let Core { subsystem, fabric, .. } = core;
            fabric.controller(id).is_some_and(|controller| controller.grant_fast_path(subsystem, qid, path))
        });
    }

    /// Ends the rights of all queues, before anything changes that they rest on.
    pub fn end_grants(&mut self) {
        self.core.end_grants(self.executor);
    }

    /// Whether every queue is in the controller: the device was entered by [`Capsules::run_alone`].
    #[inline]
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether an admin command may be executed now: every queue is in the controller, or the command neither affects other queues nor
    /// reads the counters of their commands.
    #[must_use]
    pub fn may_execute_admin(&self, command: &Command) -> bool {
        let opcode = command.opcode();
        self.is_alone || admin_only_reports(opcode) && opcode != AdminOpcode::GET_LOG_PAGE.0
    }

    /// Removes a controller.
    pub fn detach(&mut self, id: ControllerId) {
        self.end_grants();
        let Core { subsystem, fabric, .. } = &mut *self.core;
        fabric.detach(subsystem, id);
    }

    /// Whether a controller exists: after its host has disconnected, until its last command has ended.
    #[must_use]
    pub fn has_controller(&self, id: ControllerId) -> bool {
        self.core.subsystem.has_controller(id)
    }

    /// Connects a queue of a controller.
    ///
    /// # Errors
    /// As [`Controller::connect`]; a controller that does not exist is not ready.
    pub fn connect(&mut self, id: ControllerId, qid: u16, entries: u32) -> Result<(), ConnectError> {
        self.core.fabric.controller(id).ok_or(ConnectError::NotReady)?.connect(qid, entries)
    }

    /// Disconnects a queue of a controller.
    pub fn disconnect(&mut self, id: ControllerId, qid: u16) {
        self.end_grants();
        let Core { subsystem, fabric, .. } = &mut *self.core;
        fabric.controller(id).into_iter().for_each(|controller| controller.disconnect(subsystem, qid));
    }

    /// Whether a queue exists: a controller reset ends all but the admin queue.
    #[must_use]
    pub fn has_queue(&mut self, id: ControllerId, qid: u16) -> bool {
        self.core.fabric.controller(id).is_some_and(|controller| controller.has_queue(qid))
    }

    /// Whether a command of a queue moves data, whatever its descriptor says. Not for fabrics commands.
    #[inline]
    #[must_use]
    pub fn moves_data(&self, qid: u16, command: &Command) -> bool {
        if qid == 0 { admin_moves_data(command) } else { self.core.subsystem.io_moves_data(command) }
    }

    /// Executes a command with its in-capsule or solicited data; read data is written to `reply`, padded with zeroes. With `wants_crc`,
    /// returns the CRC-32C of the reply if one is stored with the data.
    ///
    /// # Errors
    /// As [`Controller::execute_capsule`]; also for a controller that does not exist.
    #[inline]
    pub fn execute(
        &mut self,
        (id, qid): (ControllerId, u16),
        command: &Command,
        carried: Option<&[u8]>,
        reply: &mut [u8],
        wants_crc: bool,
    ) -> Result<Option<u32>, Overrun> {
        let Core { subsystem, fabric, .. } = &mut *self.core;
        let capsule = CapsuleData::new(carried, reply).with_crc(wants_crc);
        let context = fabric.context(id, Some(capsule)).ok_or(Overrun)?;
        let FabricContext { controller, mut port, doorbells, wants_sync } = context;
        port.grants = Some(self.executor.serving_threads().grants());
        controller.execute_capsule(subsystem, &mut port, doorbells, qid, command, 0)?;
        let crc = port.capsule.and_then(CapsuleData::finish);
        *wants_sync |= controller.wants_sync();
        Ok(crc)
    }

    /// Registers a command that waits for data or for its fused half. It can be aborted until it is [claimed](Self::claim).
    pub fn register_waiting(&mut self, (id, qid): (ControllerId, u16), command: &Command) {
        self.core
            .fabric
            .controller(id)
            .into_iter()
            .for_each(|controller| controller.await_data(qid, command));
    }

    /// Claims a waiting command; whether it is to be executed. Else it was aborted, and its completion is to be
    /// [taken](Self::take_completion).
    pub fn claim(&mut self, (id, qid): (ControllerId, u16), cid: u16) -> bool {
        self.core.fabric.controller(id).is_some_and(|controller| controller.claim(qid, cid))
    }

    /// Executes two fused commands as one.
    ///
    /// # Errors
    /// As [`Controller::execute_fused_capsules`]; also for a controller that does not exist.
    pub fn execute_fused(
        &mut self,
        (id, qid): (ControllerId, u16),
        pair: [FusedCommand<'_>; 2],
    ) -> Result<(), Overrun> {
        let Core { subsystem, fabric, .. } = &mut *self.core;
        let capsule = CapsuleData::new(None, &mut []);
        let context = fabric.context(id, Some(capsule)).ok_or(Overrun)?;
        let FabricContext { controller, mut port, doorbells, wants_sync } = context;
        controller.execute_fused_capsules(subsystem, &mut port, doorbells, qid, pair, 0)?;
        *wants_sync |= controller.wants_sync();
        Ok(())
    }

    /// Whether external engines are at their limit of commands, so that further ones should wait.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.subsystem.is_full()
    }

    /// Copies data read by an external engine to `into`, padded with zeroes.
    pub fn take_data(&mut self, at: &ExternalCommand, into: &mut [u8]) {
        self.core.subsystem.take_data(at, into);
    }

    /// Takes the oldest completion of a queue.
    #[inline]
    pub fn take_completion(&mut self, (id, qid): (ControllerId, u16)) -> Option<Posted> {
        self.core.fabric.controller(id)?.take_posted(qid)
    }

    /// Makes a controller report events and continue long admin work.
    pub fn attend(&mut self, id: ControllerId) {
        let Core { subsystem, fabric, .. } = &mut *self.core;
        if let Some(FabricContext { controller, mut port, doorbells, .. }) = fabric.context(id, None) {
            controller.attend(subsystem, &mut port, doorbells, 0);
        }
    }

    /// Reads 4 bytes of a controller's registers.
    #[must_use]
    pub fn read_register(&mut self, id: ControllerId, offset: u32) -> u32 {
        self.core.fabric.controller(id).map_or(0, |controller| controller.read_register(offset))
    }

    /// Writes 4 bytes of a controller's registers.
    pub fn write_register(&mut self, id: ControllerId, offset: u32, value: u32) {
        self.end_grants();
        let Core { subsystem, fabric, .. } = &mut *self.core;
        if let Some(FabricContext { controller, doorbells, .. }) = fabric.context(id, None) {
            controller.write_register(subsystem, doorbells, offset, value);
        }
    }

    /// Keep alive timeout of a controller in milliseconds; 0 is off.
    #[must_use]
    pub fn keep_alive_ms(&mut self, id: ControllerId) -> u32 {
        self.core.fabric.controller(id).map_or(0, |controller| controller.keep_alive_ms())
    }

    /// Sets the keep alive timeout of a controller.
    ///
    /// # Errors
    /// As [`Controller::set_keep_alive_ms`].
    pub fn set_keep_alive_ms(&mut self, id: ControllerId, timeout_ms: u32) -> Result<(), CommandError> {
        self.core.fabric.controller(id).map_or(Ok(()), |controller| controller.set_keep_alive_ms(timeout_ms))
    }

    /// A controller's keep alive timeout has expired.
    pub fn expire(&mut self, id: ControllerId) {
        self.end_grants();
        self.core.fabric.controller(id).into_iter().for_each(Controller::expire);
    }
}
