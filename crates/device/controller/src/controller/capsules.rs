//! Controllers over a fabric, whose commands come in capsules, one by one and with their data.
//!
//! A queue belongs to a connection: [`Controller::connect`] makes it, [`Controller::execute_capsule`] executes a command
//! that came over it. In-capsule data, and data that was asked for behind a command, are handled as an inline payload in
//! a ring is. Data that a command reads goes to the connection's reply buffer.
//!
//! A completion is there right after its command, or later: [`Controller::take_posted`].

use byway_queue::Doorbells;
use byway_spec::{Command, Status};

use super::Controller;
use super::deferred::sanitize_on;
use super::finish::Answer;
use crate::capsules::{CapsuleQueues, ConnectError, Overrun, Posted};
use crate::counting::Typed;
use crate::error::CommandError;
use crate::fused::FusedCommand;
use crate::id::ControllerId;
use crate::limits::{CAPSULE_QUEUE_ENTRIES, MAX_IO_QUEUES};
use crate::opcode;
use crate::port::Port;
use crate::register::{CmbRegisters, Registers};
use crate::reservation::Host;
use crate::subsystem::{PortId, Subsystem};

impl Controller {
    /// A controller for `host`, which connected over a fabric, at `port` if the host is to know its paths. Its admin
    /// queue is to be connected first.
    ///
    /// # Errors
    /// Host Identifier Inconsistent Format where identifiers of 64 bits are in use.
    pub fn over_fabric(
        id: ControllerId,
        subsystem: &mut Subsystem,
        host: Host,
        port: Option<PortId>,
    ) -> Result<Self, CommandError> {
        subsystem.set_host(id, host)?;
        subsystem.place(id, port);
        // A host that has read nothing yet is not notified of earlier changes.
        subsystem.changes.clear(id);
        let mut controller = Self::with_queues(id, subsystem, CmbRegisters::default(), 1);
        controller.registers = Registers::over_fabric(CAPSULE_QUEUE_ENTRIES);
        controller.admin.leave_keep_alive_to_transport();
        controller.capsules = Some(Box::new(CapsuleQueues::new(host)));
        Ok(controller)
    }

    /// Ends a controller whose connections have ended.
    pub fn detach(mut self, subsystem: &mut Subsystem) {
        (0..=MAX_IO_QUEUES).for_each(|qid| self.drop_queued(subsystem, qid));
        self.admin.number_errors(subsystem);
        subsystem.remove_controller(self.id);
    }

    /// Makes queue `qid`; the admin queue first of all.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(&mut self, qid: u16, entries: u32) -> Result<(), ConnectError> {
        if qid > MAX_IO_QUEUES || self.queues.submission(qid).is_some() {
            return Err(ConnectError::QueueId);
        }
        if qid > 0 && !(self.is_ready() && self.registers.has_entry_sizes()) {
            return Err(ConnectError::NotReady);
        }
        if entries > CAPSULE_QUEUE_ENTRIES.into() {
            return Err(ConnectError::Entries);
        }
        self.make_capsule_queue(qid, entries).ok_or(ConnectError::Entries)
    }

    fn make_capsule_queue(&mut self, qid: u16, entries: u32) -> Option<()> {
        let capsules = self.capsules.as_mut()?;
        self.queues.create_for_capsules(qid, entries).ok()?;
        capsules.connect(qid, entries);
        Some(())
    }

    /// Ends queue `qid` with the commands that wait in it.
    pub fn disconnect(&mut self, subsystem: &mut Subsystem, qid: u16) {
        if usize::from(qid) >= self.queues.count() {
            return;
        }
        self.release_window(subsystem, qid);
        self.queues.disconnect(qid);
        self.group_commit.take_queue(qid);
        self.drop_external_of(subsystem, qid);
        self.drop_queued(subsystem, qid);
    }

    /// Drops the commands of queue `qid` that await data and its completions, and releases the data of these.
    fn drop_queued(&mut self, subsystem: &mut Subsystem, qid: u16) {
        let Some(capsules) = &mut self.capsules else { return };
        for at in capsules.drop_queued(qid) {
            subsystem.release_external(at.work);
        }
    }

    /// Keeps the admin queue and the host of a controller over a fabric through a controller reset.
    pub(super) fn keep_admin_queue(&mut self, subsystem: &mut Subsystem) {
        if self.capsules.is_none() {
            return;
        }
        (0..=MAX_IO_QUEUES).for_each(|qid| self.drop_queued(subsystem, qid));
        let Some(capsules) = &self.capsules else { return };
        let (host, entries) = (capsules.host(), capsules.admin_entries());
        // The controller had this host before, so it can have it again.
        let _ = subsystem.set_host(self.id, host);
        if entries > 0 {
            self.make_capsule_queue(0, entries);
        }
    }

    /// Executes a command that came over queue `qid`, with its data in `port`, at modelled time `now_ps`.
    ///
    /// # Errors
    /// [`Overrun`]: then nothing was executed.
    pub fn execute_capsule(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        command: &Command,
        now_ps: u64,
    ) -> Result<(), Overrun> {
        self.begin_capsules(subsystem, port, doorbells, now_ps);
        let ticket = self.queues.take_ticket(qid, command.cid()).ok_or(Overrun)?;
        let result = self.execute_any(subsystem, port, doorbells, qid, command);
        let changes = subsystem.syncs_completions() && opcode::changes(qid == 0, command.opcode());
        self.count(subsystem, port, Typed::of(qid, command), None, (&result, changes));
        self.finish(port, ticket, result, changes);
        self.room.trim();
        Ok(())
    }

    /// Executes two consecutive fused commands of I/O queue `qid` as one.
    ///
    /// # Errors
    /// [`Overrun`]: then nothing was executed, and the queue is to end.
    pub fn execute_fused_capsules(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        pair: [FusedCommand<'_>; 2],
        now_ps: u64,
    ) -> Result<(), Overrun> {
        self.begin_capsules(subsystem, port, doorbells, now_ps);
        let first = self.queues.take_ticket(qid, pair[0].command.cid()).ok_or(Overrun)?;
        let second = self.queues.take_ticket(qid, pair[1].command.cid()).ok_or(Overrun)?;
        let [compared, written] = match self.check_enabled() {
            Ok(()) => self.execute_fused(subsystem, port, qid, pair),
            Err(error) => [Err(error.clone()), Err(error)],
        };
        let changes = subsystem.syncs_completions() && opcode::changes(false, pair[1].command.opcode());
        self.count_pair(subsystem, port, qid, pair, ([&compared, &written], changes));
        self.finish(port, first, compared, false);
        self.finish(port, second, written, changes);
        Ok(())
    }

    #[inline]
    fn begin_capsules(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        self.follow_subsystem_reset(subsystem, doorbells);
        self.admin.tick(now_ps);
        port.meter.begin(now_ps);
    }

    fn execute_any(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        command: &Command,
    ) -> Answer {
        self.check_enabled()?;
        if qid == 0 {
            return self.execute_admin(subsystem, port, doorbells, command);
        }
        let carried = port.carried();
        self.execute_io(subsystem, port, qid, command, carried)
    }

    /// Checks that commands are executed. The form of a data pointer is checked where data moves.
    #[inline]
    fn check_enabled(&self) -> Result<(), CommandError> {
        if self.is_ready() { Ok(()) } else { Err(NOT_ENABLED) }
    }

    /// Takes a completion of queue `qid`, the oldest first.
    #[inline]
    pub fn take_posted(&mut self, qid: u16) -> Option<Posted> {
        self.capsules.as_mut()?.take_posted(qid)
    }

    /// A command of queue `qid` came whose data, or the command that it is fused with, is still to come. Until the
    /// connection [claims](Self::claim) it, it can be aborted.
    pub fn await_data(&mut self, qid: u16, command: &Command) {
        if let Some(capsules) = &mut self.capsules {
            capsules.await_data(qid, command);
        }
    }

    /// Command `cid` of queue `qid` has its data; whether it is to be executed. Otherwise it was aborted, and its
    /// completion is [posted](Self::take_posted).
    pub fn claim(&mut self, qid: u16, cid: u16) -> bool {
        self.capsules.as_mut().is_some_and(|capsules| capsules.take_awaiting_data(qid, cid).is_some())
    }

    /// Reports events, and continues long operations.
    pub fn attend(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        self.follow_subsystem_reset(subsystem, doorbells);
        sanitize_on(subsystem);
        if self.is_ready() {
            self.report_events(subsystem, port, doorbells, now_ps);
        }
    }

    /// Keep alive timeout in milliseconds; 0 is off. The transport keeps the timer.
    #[must_use]
    pub fn keep_alive_ms(&self) -> u32 {
        self.admin.keep_alive_ms()
    }

    /// Sets the keep alive timeout, as Connect does.
    ///
    /// # Errors
    /// Keep Alive Invalid for one that is out of range.
    pub fn set_keep_alive_ms(&mut self, timeout_ms: u32) -> Result<(), CommandError> {
        self.admin.set_keep_alive(timeout_ms)
    }

    /// Fails the controller: the transport's keep alive timer expired.
    pub fn expire(&mut self) {
        self.keep_alive_expired();
    }
}

const NOT_ENABLED: CommandError =
    CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "the controller is not enabled");
