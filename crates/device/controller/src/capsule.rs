//! Controllers whose commands come in capsules, one by one and with their data, instead of lying in rings of host memory:
//! those of fabrics.
//!
//! A queue is what a connection has: [`Controller::connect`] makes it, [`Controller::execute_capsule`] executes what came
//! over it. In-capsule data, and what was asked for behind a command, are what an inline payload is in a ring: bytes that
//! came along, and the same code takes them. What a command reads goes to where its owner sends from.
//!
//! A completion is there right after its command, or later: [`Controller::take_posted`].

use std::collections::VecDeque;

use byway_dma::BusAddr;
use byway_queue::Doorbells;
use byway_spec::base::command::Direction;
use byway_spec::base::sgl::SglKind;
use byway_spec::{Command, Completion, DataPointer, Status};

use crate::admin::effects;
use crate::awaited::Awaited;
use crate::completion::Ticket;
use crate::controller::{Controller, ControllerId};
use crate::counting::Typed;
use crate::error::CommandError;
use crate::fused::FusedCommand;
use crate::namespace::Elsewhere;
use crate::namespace::Outcome;
use crate::payload::Mapped;
use crate::port::Port;
use crate::queue::{CompletionQueue, MAX_IO_QUEUES, SubmissionQueue};
use crate::register::{CmbRegisters, Registers};
use crate::reservation::Host;
use crate::subsystem::{PortId, Subsystem};

/// Most entries of a queue: CAP.MQES and Identify Controller MAXCMD.
pub const CAPSULE_QUEUE_ENTRIES: u16 = 1024;

/// Most in-capsule data of a command of an I/O queue (Identify Controller IOCCSZ).
pub const CAPSULE_DATA_BYTES: u32 = 16 << 10;

/// What a controller has instead of rings and doorbells.
#[derive(Debug)]
pub(crate) struct CapsuleQueues {
    /// Who connected, which a reset does not change.
    host: Host,
    /// Entries of the admin queue, which outlives a reset.
    admin_entries: u32,
    /// Completions that nobody has taken, by queue.
    posted: Vec<VecDeque<Posted>>,
    /// Commands that cannot be executed yet, by queue.
    pub awaited: Vec<VecDeque<Awaited>>,
}

/// A completion, and what goes to the host with it.
#[derive(Debug)]
pub struct Posted {
    /// The completion.
    pub completion: Completion,
    /// Bytes that the host takes of a command that another engine had, whatever came of it.
    pub room_bytes: u32,
    /// Data that stands where another engine has read it, to be [taken](Subsystem::take_data).
    pub data: Option<Elsewhere>,
}

/// Why a queue cannot be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// There is no such queue identifier, or it is in use.
    #[error("the queue identifier is out of range or in use")]
    QueueId,
    /// A queue has 2 to [`CAPSULE_QUEUE_ENTRIES`] entries.
    #[error("a queue cannot have so many entries")]
    Entries,
    /// I/O queues are for a controller that is ready and was told the size of entries.
    #[error("the controller is not ready")]
    NotReady,
}

/// More commands came over a queue than it has entries for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more commands are outstanding than the queue has entries for")]
pub struct Overrun;

impl CapsuleQueues {
    fn of(host: Host) -> Self {
        Self { host, admin_entries: 0, posted: Vec::new(), awaited: Vec::new() }
    }
}

impl Controller {
    /// A controller for `host`, who connected over a fabric, by `port` if there is more to be told of it. Its admin queue is to be connected first.
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
        // What changed before is no news to a host that has seen nothing yet.
        subsystem.changes.clear(id);
        let mut controller = Self::with_queues(id, subsystem, CmbRegisters::default(), 1);
        controller.registers = Registers::over_fabric(CAPSULE_QUEUE_ENTRIES);
        controller.admin.mind_no_keep_alive();
        controller.capsules = Some(Box::new(CapsuleQueues::of(host)));
        Ok(controller)
    }

    /// Ends a controller that hosts are not connected to any more.
    pub fn detach(mut self, subsystem: &mut Subsystem) {
        (0..=MAX_IO_QUEUES).for_each(|qid| self.drop_queued(subsystem, qid));
        subsystem.remove_controller(self.id);
    }

    /// Makes queue `qid`; the admin queue first of all.
    ///
    /// # Errors
    /// As [`ConnectError`] has them.
    pub fn connect(&mut self, qid: u16, entries: u32) -> Result<(), ConnectError> {
        if qid > MAX_IO_QUEUES || matches!(self.submission.get(usize::from(qid)), Some(Some(_))) {
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
        // A ring holds one entry less than it has: queues that are not in memory have no such gap, and Linux fills them.
        let sq = SubmissionQueue::new(BusAddr(0), entries, qid).ok()?;
        let mut cq = CompletionQueue::new(BusAddr(0), entries + 1, None).ok()?;
        cq.submission_queues = 1;
        let capsules = self.capsules.as_mut()?;
        if qid == 0 {
            capsules.admin_entries = entries;
        }
        let at = usize::from(qid);
        // Of thousands of controllers, most have a few queues.
        let queues = self.submission.len().max(at + 1);
        self.submission.resize_with(queues, || None);
        self.completion.resize_with(queues, || None);
        capsules.posted.resize_with(queues, VecDeque::new);
        capsules.awaited.resize_with(queues, VecDeque::new);
        (self.submission[at], self.completion[at]) = (Some(sq), Some(cq));
        Some(())
    }

    /// Ends queue `qid`, whatever of it waits.
    pub fn disconnect(&mut self, subsystem: &mut Subsystem, qid: u16) {
        let at = usize::from(qid);
        if at >= self.submission.len() {
            return;
        }
        self.release_window(subsystem, qid);
        (self.submission[at], self.completion[at]) = (None, None);
        self.held.forget_queue(qid);
        self.elsewhere.forget_queue(qid);
        self.drop_queued(subsystem, qid);
    }

    /// Drops commands that nobody will claim and completions that nobody will take, and gives back what these bring.
    fn drop_queued(&mut self, subsystem: &mut Subsystem, qid: u16) {
        let (Some(capsules), at) = (&mut self.capsules, usize::from(qid)) else { return };
        capsules.awaited.get_mut(at).into_iter().for_each(VecDeque::clear);
        let posted = capsules.posted.get_mut(at);
        let data = posted.into_iter().flat_map(|posted| posted.drain(..)).filter_map(|posted| posted.data);
        data.for_each(|at| subsystem.release_elsewhere(at.nsid, at.place));
    }

    /// What a controller reset leaves: the admin queue, and who is at it.
    pub(crate) fn keep_admin_queue(&mut self, subsystem: &mut Subsystem) {
        if self.capsules.is_none() {
            return;
        }
        (0..=MAX_IO_QUEUES).for_each(|qid| self.drop_queued(subsystem, qid));
        let Some(capsules) = &self.capsules else { return };
        let (host, entries) = (capsules.host, capsules.admin_entries);
        // It was this host's before, so that nothing keeps it from being so.
        let _ = subsystem.set_host(self.id, host);
        if entries > 0 {
            self.make_capsule_queue(0, entries);
        }
    }

    /// Executes a command that came over queue `qid`, with the data that `port` has of it, at modelled time `now_ps`.
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
        let ticket = self.take_ticket(qid, command.cid()).ok_or(Overrun)?;
        let result = self.execute_any(subsystem, port, doorbells, qid, command);
        let changes = subsystem.synced_completions && effects::changes(qid == 0, command.opcode());
        self.count(subsystem, port, Typed::of(qid, command), None, (&result, changes));
        self.finish(port, ticket, result, changes);
        self.room.trim();
        Ok(())
    }

    /// Executes two fused commands that came over I/O queue `qid` one behind the other, as one.
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
        let first = self.take_ticket(qid, pair[0].command.cid()).ok_or(Overrun)?;
        let second = self.take_ticket(qid, pair[1].command.cid()).ok_or(Overrun)?;
        let [compared, written] = match self.check_enabled() {
            Ok(()) => self.execute_fused(subsystem, port, qid, pair),
            Err(error) => [Err(error.clone()), Err(error)],
        };
        let changes = subsystem.synced_completions && effects::changes(false, pair[1].command.opcode());
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

    pub(crate) fn take_ticket(&mut self, qid: u16, cid: u16) -> Option<Ticket> {
        let sq = self.submission.get_mut(usize::from(qid))?.as_mut()?;
        let permit = self.completion.get_mut(usize::from(qid))?.as_mut()?.permit(|| None)?;
        let behind = (u32::from(sq.ring.head()) + 1) % sq.ring.size();
        let fits = sq.ring.set_tail(behind).is_ok() && sq.ring.skip(1);
        debug_assert!(fits, "a queue whose commands are taken as they come is empty");
        Some(Ticket { sqid: qid, cid, cqid: qid, permit })
    }

    fn execute_any(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        qid: u16,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        self.check_enabled()?;
        if qid == 0 {
            return self.execute_admin(subsystem, port, doorbells, command);
        }
        let carried = port.carried();
        self.execute_io(subsystem, port, qid, command, carried)
    }

    /// Whether commands are executed. How their data is named is looked at where they move any.
    #[inline]
    fn check_enabled(&self) -> Result<(), CommandError> {
        if self.is_ready() { Ok(()) } else { Err(NOT_ENABLED) }
    }

    /// Takes a completion of queue `qid`, the oldest first.
    #[inline]
    pub fn take_posted(&mut self, qid: u16) -> Option<Posted> {
        self.capsules.as_mut()?.posted.get_mut(usize::from(qid))?.pop_front()
    }

    /// Keeps a completion until it is taken.
    #[inline]
    pub(crate) fn post_to_owner(&mut self, ticket: Ticket, entry: Completion) {
        if let Some(Some(cq)) = self.completion.get_mut(usize::from(ticket.cqid)) {
            let place = cq.ring.post(ticket.permit);
            // It is taken from here, so that its place is free at once.
            let _ = cq.ring.set_head((u32::from(place.index) + 1) % cq.ring.size());
        }
        let posted =
            self.capsules.as_mut().and_then(|capsules| capsules.posted.get_mut(usize::from(ticket.sqid)));
        // The field is reserved: a connection has one queue.
        posted.into_iter().for_each(|posted| {
            let completion = Completion { sqid: 0, ..entry };
            posted.push_back(Posted { completion, room_bytes: 0, data: None });
        });
    }

    /// Completions that brought data of namespace `nsid`, which is gone, fail with `error` instead.
    pub(crate) fn lose_posted(&mut self, nsid: u32, error: &CommandError) {
        let queues = self.capsules.iter_mut().flat_map(|capsules| &mut capsules.posted);
        for posted in queues.flatten().filter(|posted| posted.data.is_some_and(|at| at.nsid == nsid)) {
            let Completion { sqid, sqhd, cid, .. } = posted.completion;
            posted.completion = Completion::new(sqid, sqhd, cid, error.status);
            posted.data = None;
        }
    }

    /// Notes what the newest completion of queue `qid` answers, and whether data goes with it; whether that is so.
    pub(crate) fn note_reply(&mut self, qid: u16, at: Elsewhere, has_data: bool) -> bool {
        let posted =
            self.capsules.as_mut().and_then(|capsules| capsules.posted.get_mut(usize::from(qid))?.back_mut());
        let Some(posted) = posted else { return false };
        posted.room_bytes = at.reply.room_bytes;
        posted.data = has_data.then_some(at);
        has_data
    }

    /// Tells of events, and goes on with what takes long.
    pub fn attend(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        now_ps: u64,
    ) {
        self.follow_subsystem_reset(subsystem, doorbells);
        if subsystem.is_sanitizing() {
            // A slice that fails is tried again; the operation goes on for as long as it takes.
            let _ = subsystem.sanitize_slice();
        }
        if self.is_ready() {
            self.report_events(subsystem, port, doorbells, now_ps);
        }
    }

    /// Keep alive timeout in milliseconds; 0 is off. Whoever has the connections keeps the time.
    #[must_use]
    pub fn keep_alive_ms(&self) -> u32 {
        self.admin.keep_alive_ms()
    }

    /// Sets it, as Connect does.
    ///
    /// # Errors
    /// Keep Alive Invalid for one that is out of range.
    pub fn set_keep_alive_ms(&mut self, timeout_ms: u32) -> Result<(), CommandError> {
        self.admin.set_keep_alive(timeout_ms)
    }

    /// The host was silent for too long: the controller has failed.
    pub fn expire(&mut self) {
        self.keep_alive_expired();
    }
}

/// Where a command's data goes that is read, by a descriptor of the transport's: to its owner, from the first byte on.
pub(crate) fn map_transport(
    port: &Port<'_>,
    mapped: &mut Mapped,
    command: &Command,
    len_bytes: u32,
) -> Result<(), CommandError> {
    if command.cdw0.psdt() != DataPointer::Sgl {
        return Err(NO_SGL);
    }
    let descriptor = command.sgl1();
    if descriptor.kind != SglKind::TRANSPORT_DATA_BLOCK {
        return Err(NO_TRANSPORT_BLOCK);
    }
    if command.direction() == Direction::HostToDevice {
        return Err(CommandError::data_length("the command brought no data"));
    }
    if descriptor.length_bytes < len_bytes || port.reply_bytes() < len_bytes as usize {
        return Err(CommandError::data_length("the host's buffer is shorter than the command says"));
    }
    mapped.segments.clear();
    mapped.segments.push(byway_dma::Segment::new(BusAddr(0), len_bytes));
    Ok(())
}

const NOT_ENABLED: CommandError =
    CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "the controller is not enabled");
const NO_SGL: CommandError = CommandError::invalid_field("data of fabrics is named by an SGL").at_byte(1);
const NO_TRANSPORT_BLOCK: CommandError =
    CommandError::new(Status::SGL_TYPE_INVALID, "data goes by a transport data block").at_byte(24);
