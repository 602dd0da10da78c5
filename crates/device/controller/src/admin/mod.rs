//! Admin commands and the state they keep between commands.
//!
//! One file for each command or family of commands; each parses the raw command before it acts. Admin data moves by
//! PRPs only on a memory-based transport. Commands that complete other commands (Abort, Delete I/O Submission Queue) are
//! the controller's.

use byway_queue::DoorbellIndex;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::event::Event;
use byway_spec::base::log::ErrorEntry;
use byway_spec::{Command, DataPointer, Status};

use crate::data_use::admin_moves_data;
use crate::error::{CommandError, NO_LOCATION};
use crate::id::ControllerId;
use crate::outcome::Outcome;
use crate::subsystem::Subsystem;
use crate::ticket::Ticket;

mod context;
mod doorbell_buffer;
mod effects;
mod error_log;
mod event;
mod feature;
mod feature_commands;
mod feature_data;
mod format;
mod health;
mod identify;
mod identify_namespace;
mod keep_alive;
mod ledger_log;
mod log;
mod namespaces;
mod page;
mod programs;
mod queues;
mod reservation;
mod sanitize;
mod stall_log;
mod telemetry;
mod telemetry_report;
mod transfers;

pub(crate) use context::Context;
pub(crate) use doorbell_buffer::{BufferedPair, ShadowDoorbells, configured};
use error_log::ErrorLog;
pub(crate) use error_log::{Noted, note};
use event::Events;
pub(crate) use event::REQUEST;
use feature::Features;
use keep_alive::KeepAlive;
pub(crate) use queues::{NO_SUCH_QUEUE, deleted_queue};
use telemetry::Telemetry;
pub(crate) use transfers::EnabledTransfers;

/// The state that admin commands set up, until the next controller reset.
#[derive(Debug, Default)]
pub(crate) struct AdminState {
    /// Transfer methods the host enabled.
    transfers: EnabledTransfers,
    /// Doorbell buffers the host configured.
    shadow: Option<Box<ShadowDoorbells>>,
    features: Features,
    events: Events,
    errors: ErrorLog,
    telemetry: Telemetry,
    keep_alive: KeepAlive,
    now_ps: u64,
}

impl AdminState {
    /// Clears what a controller reset clears. The error log stays: it may hold why the host had to reset. So does captured
    /// telemetry.
    pub fn reset(&mut self) {
        let keep_alive = std::mem::take(&mut self.keep_alive).after_reset();
        let (errors, telemetry) = (std::mem::take(&mut self.errors), std::mem::take(&mut self.telemetry));
        *self = Self { errors, telemetry, keep_alive, ..Self::default() };
    }

    /// Time has come to `now_ps`.
    #[inline]
    pub fn tick(&mut self, now_ps: u64) {
        self.now_ps = now_ps;
    }

    /// Transfer methods the host enabled.
    #[inline]
    pub fn transfers(&self) -> EnabledTransfers {
        self.transfers
    }

    /// When the controller must run without a doorbell: the keep alive timer.
    #[inline]
    pub fn deadline_ps(&self) -> Option<u64> {
        self.keep_alive.deadline_ps()
    }

    /// Leaves the keep alive timer to the transport.
    pub fn leave_keep_alive_to_transport(&mut self) {
        self.keep_alive.leave_to_transport();
    }

    /// Keep alive timeout in milliseconds; 0 is off.
    pub fn keep_alive_ms(&self) -> u32 {
        self.keep_alive.timeout_ms()
    }

    /// Sets the keep alive timeout.
    pub fn set_keep_alive(&mut self, timeout_ms: u32) -> Result<(), CommandError> {
        self.keep_alive.set(timeout_ms, self.now_ps)
    }

    /// Whether the host was silent for longer than its keep alive timeout. The timer stops then.
    #[inline]
    pub fn take_expired_keep_alive(&mut self, now_ps: u64) -> bool {
        self.keep_alive.take_expired(now_ps)
    }

    /// Logs that the host was silent for longer than its keep alive timeout, and stops the timer.
    pub fn log_keep_alive_expired(&mut self) {
        self.keep_alive.stop();
        let entry = ErrorEntry {
            sqid: 0xffff,
            cid: 0xffff,
            phase_and_status: Status::KEEP_ALIVE_EXPIRED.0 << 1,
            parameter: NO_LOCATION,
            ..ErrorEntry::default()
        };
        self.errors.add(Noted { entry, words: "the host said nothing within its keep alive time".into() });
    }

    /// Keeps an Asynchronous Event Request until an event completes it.
    pub fn keep_request(&mut self, cid: u16) {
        self.events.park(cid);
    }

    /// Whether an Asynchronous Event Request `cid` waits.
    pub fn has_request(&self, cid: u16) -> bool {
        self.events.waits(cid)
    }

    /// Drops the Asynchronous Event Request `cid`, which was aborted.
    pub fn drop_request(&mut self, cid: u16) {
        self.events.forget(cid);
    }

    /// Whether any Asynchronous Event Request waits.
    #[inline]
    pub fn has_requests(&self) -> bool {
        self.events.has_requests()
    }

    /// Raises the events of what has changed for controller `id` since the last call.
    pub fn collect_events(&mut self, subsystem: &mut Subsystem, id: ControllerId) {
        let wanted = self.events.wanted();
        if wanted.namespace_changed() && subsystem.changes.take_news(id) {
            self.events.raise(Event::NAMESPACE_CHANGED);
        }
        if wanted.ana() && subsystem.paths.take_news(id) {
            self.events.raise(Event::ANA_CHANGED);
        }
        if subsystem.notices.take_news(id) {
            self.events.raise(Event::RESERVATION);
        }
        self.events.raise_new_warnings(health::critical_warning(subsystem, self.features.thresholds()));
    }

    /// The request that the next event completes, if there are both.
    pub fn next_request(&self) -> Option<u16> {
        self.events.oldest().filter(|_| self.events.can_report())
    }

    /// Takes that request and its event.
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.report()
    }

    /// Logs the failure of a command, in words of its own where there are some; the status of its completion.
    pub fn log_error(&mut self, ticket: &Ticket, error: &CommandError, text: Option<String>) -> Status {
        self.errors.log(ticket.sqid, ticket.cid, error, text)
    }

    /// Numbers new entries of the error log, by the count that the device keeps.
    #[inline]
    pub fn number_errors(&mut self, subsystem: &mut Subsystem) {
        self.errors.number(|new| subsystem.flash_mut().count_errors(new));
    }

    /// Adds an entry to the error log.
    pub fn add_error(&mut self, noted: Noted) {
        self.errors.add(noted);
    }

    /// Logs an invalid doorbell write, and raises its event. `is_known`: the doorbell's queue exists.
    #[cold]
    pub fn note_invalid_doorbell(&mut self, index: DoorbellIndex, value: u32, is_known: bool) {
        let entry = ErrorEntry {
            sqid: 0xffff,
            cid: 0xffff,
            parameter: NO_LOCATION,
            specific: u64::from(index.queue()) | u64::from(value) << 32,
            ..ErrorEntry::default()
        };
        let words = "a doorbell of no queue, or a value outside its queue, was written";
        self.errors.add(Noted { entry, words: words.into() });
        self.events.raise(if is_known { Event::INVALID_DOORBELL_VALUE } else { Event::INVALID_DOORBELL });
    }

    /// Whether doorbells are read from host memory.
    #[inline]
    pub fn has_shadow_doorbells(&self) -> bool {
        self.shadow.is_some()
    }

    /// The doorbell buffers, if the host configured any.
    pub fn shadow_doorbells(&self) -> Option<&ShadowDoorbells> {
        self.shadow.as_deref()
    }

    /// The same, to change them.
    pub fn shadow_doorbells_mut(&mut self) -> Option<&mut ShadowDoorbells> {
        self.shadow.as_deref_mut()
    }

    /// Takes the doorbell buffers out.
    pub fn take_shadow_doorbells(&mut self) -> Option<Box<ShadowDoorbells>> {
        self.shadow.take()
    }

    /// Reads doorbells from these buffers from now on.
    pub fn set_shadow_doorbells(&mut self, shadow: Box<ShadowDoorbells>) {
        self.shadow = Some(shadow);
    }

    /// Executes an admin command that [`check`] let through, unless it is one of the controller's own.
    pub fn execute(&mut self, cx: &mut Context<'_, '_>, command: &Command) -> Result<Outcome, CommandError> {
        match AdminOpcode(command.opcode()) {
            AdminOpcode::GET_LOG_PAGE => self.get_log_page(cx, command),
            AdminOpcode::DELETE_CQ => queues::delete_completion_queue(cx, command),
            AdminOpcode::IDENTIFY => identify::identify(cx, command),
            AdminOpcode::SET_FEATURES => self.set_features(cx, command),
            AdminOpcode::GET_FEATURES => self.get_features(cx, command),
            AdminOpcode::ASYNC_EVENT_REQUEST => self.events.request(),
            AdminOpcode::NAMESPACE_MANAGEMENT => namespaces::manage_namespace(cx, command),
            AdminOpcode::NAMESPACE_ATTACHMENT => namespaces::attach_namespace(cx, command),
            AdminOpcode::KEEP_ALIVE => {
                self.keep_alive.restart(self.now_ps);
                Ok(Outcome::OK)
            }
            AdminOpcode::FORMAT_NVM => format::format(cx, command),
            AdminOpcode::SANITIZE => sanitize::sanitize(cx, command),
            AdminOpcode::LOAD_PROGRAM => programs::load_program(cx, command),
            AdminOpcode::PROGRAM_ACTIVATION => programs::activate_program(cx, command),
            AdminOpcode::MEMORY_RANGE_SET => programs::manage_range_set(cx, command),
            _ => Err(NO_SUCH_COMMAND),
        }
    }
}

/// Checks that a command has a form that admin commands may have, and that the controller has it and takes it now.
pub(crate) fn check(cx: &Context<'_, '_>, command: &Command) -> Result<(), CommandError> {
    check_form(command, cx.is_fabric)?;
    if cx.subsystem.is_sanitizing() {
        sanitize::refuse(command)?;
    }
    match effects::has_admin_command(cx, AdminOpcode(command.opcode())) {
        true => Ok(()),
        false => Err(NO_SUCH_COMMAND),
    }
}

/// Creates a completion or a submission queue, as the opcode says; its doorbell.
pub(crate) fn create_queue(
    cx: &mut Context<'_, '_>,
    command: &Command,
) -> Result<DoorbellIndex, CommandError> {
    match AdminOpcode(command.opcode()) {
        AdminOpcode::CREATE_CQ => queues::create_completion_queue(cx, command),
        _ => queues::create_submission_queue(cx, command),
    }
}

const NO_SUCH_COMMAND: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "no such admin command").at_byte(0);

/// Refuses fused admin commands, and data by SGLs on a memory-based transport. Without data PSDT is reserved.
fn check_form(command: &Command, in_capsules: bool) -> Result<(), CommandError> {
    if command.cdw0.fuse() != 0 {
        return Err(CommandError::invalid_field("fused commands are not supported").at_byte(1));
    }
    if !in_capsules && admin_moves_data(command) && command.cdw0.psdt() != DataPointer::Prp {
        return Err(CommandError::invalid_field("admin commands use PRPs").at_byte(1));
    }
    Ok(())
}
