//! Admin commands and the state they keep between commands.
//!
//! One file a command or a family of commands; each takes the raw command apart before it acts. Admin data moves by
//! PRPs only (DESIGN.md, "Transfer methods").

use byway_queue::Doorbells;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::Direction;
use byway_spec::{Command, DataPointer, Status};

use crate::controller::Controller;
use crate::data_pointer;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::subsystem::Subsystem;

mod abort;
mod changes;
mod doorbell_buffer;
pub(crate) mod effects;
mod error_log;
mod event;
mod feature;
mod feature_data;
mod format;
mod health;
mod identify;
mod identify_namespace;
mod io_counters;
mod keep_alive;
mod ledger_log;
mod log;
mod namespaces;
mod queues;
mod reservation;
mod sanitize;
mod transfers;

pub use changes::Changes;
pub(crate) use doorbell_buffer::BufferedPair;
use doorbell_buffer::ShadowDoorbells;
use error_log::ErrorLog;
pub(crate) use error_log::{Noted, note};
use event::Events;
use feature::Features;
pub use health::Health;
pub use io_counters::{Counted, IoCounters};
use keep_alive::KeepAlive;
pub(crate) use transfers::EnabledTransfers;

/// What admin commands set up, until the next controller reset.
#[derive(Debug)]
pub(crate) struct AdminState {
    /// Transfer methods the host enabled.
    pub transfers: EnabledTransfers,
    /// Doorbell buffers the host configured.
    shadow: Option<Box<ShadowDoorbells>>,
    features: Features,
    events: Events,
    errors: ErrorLog,
    keep_alive: KeepAlive,
    now_ps: u64,
}

impl AdminState {
    /// The state after power-on.
    pub fn new() -> Self {
        Self {
            transfers: EnabledTransfers::default(),
            shadow: None,
            features: Features::default(),
            events: Events::default(),
            errors: ErrorLog::default(),
            keep_alive: KeepAlive::default(),
            now_ps: 0,
        }
    }

    /// Forgets what a controller reset forgets. The error log stays: it may tell why the host had to reset.
    pub fn reset(&mut self) {
        let keep_alive = std::mem::take(&mut self.keep_alive).after_reset();
        *self = Self { errors: std::mem::take(&mut self.errors), keep_alive, ..Self::new() };
    }

    /// Time has come to `now_ps`.
    #[inline]
    pub fn tick(&mut self, now_ps: u64) {
        self.now_ps = now_ps;
    }

    /// When the controller must run even if nobody rings: the keep alive timer.
    #[inline]
    pub fn deadline_ps(&self) -> Option<u64> {
        self.keep_alive.deadline_ps()
    }

    /// Whoever has the connections keeps the time.
    pub fn mind_no_keep_alive(&mut self) {
        self.keep_alive.mind_not();
    }

    /// Keep alive timeout in milliseconds; 0 is off.
    pub fn keep_alive_ms(&self) -> u32 {
        self.keep_alive.timeout_ms()
    }

    /// Sets it.
    pub fn set_keep_alive(&mut self, timeout_ms: u32) -> Result<(), CommandError> {
        self.keep_alive.set(timeout_ms, self.now_ps)
    }

    /// Keeps a command that finishes later: an Asynchronous Event Request.
    pub fn park(&mut self, cid: u16) {
        self.events.park(cid);
    }

    /// Adds an entry to the error log.
    pub fn add_error(&mut self, noted: Noted) {
        self.errors.add(noted);
    }

    /// Whether doorbells are read from host memory.
    #[inline]
    pub fn has_shadow_doorbells(&self) -> bool {
        self.shadow.is_some()
    }
}

impl Controller {
    /// Executes a command of the admin queue.
    pub(crate) fn execute_admin(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        doorbells: &Doorbells,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        check_form(command, self.capsules.is_some())?;
        if subsystem.is_sanitizing() {
            sanitize::refuse(command)?;
        }
        let opcode = AdminOpcode(command.opcode());
        if !self.has_admin_command(subsystem, opcode) {
            return Err(NO_SUCH_COMMAND);
        }
        match opcode {
            AdminOpcode::DELETE_SQ => self.delete_submission_queue(subsystem, port, command),
            AdminOpcode::CREATE_SQ => self.create_submission_queue(port, doorbells, command),
            AdminOpcode::GET_LOG_PAGE => self.get_log_page(subsystem, port, command),
            AdminOpcode::DELETE_CQ => self.delete_completion_queue(command),
            AdminOpcode::CREATE_CQ => self.create_completion_queue(port, doorbells, command),
            AdminOpcode::IDENTIFY => self.identify(subsystem, port, command),
            AdminOpcode::ABORT => self.abort(subsystem, port, doorbells, command),
            AdminOpcode::SET_FEATURES => self.set_features(subsystem, port, command),
            AdminOpcode::GET_FEATURES => self.get_features(subsystem, port, command),
            AdminOpcode::ASYNC_EVENT_REQUEST => self.admin.events.request(),
            AdminOpcode::NAMESPACE_MANAGEMENT => self.manage_namespace(subsystem, port, command),
            AdminOpcode::NAMESPACE_ATTACHMENT => self.attach_namespace(subsystem, port, command),
            AdminOpcode::KEEP_ALIVE => self.keep_alive(),
            AdminOpcode::DOORBELL_BUFFER_CONFIG => self.configure_doorbell_buffer(port, doorbells, command),
            AdminOpcode::FORMAT_NVM => self.format(subsystem, command),
            AdminOpcode::SANITIZE => self.sanitize(subsystem, command),
            _ => Err(NO_SUCH_COMMAND),
        }
    }

    /// Writes `bytes` to the command's buffer.
    fn send(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
        bytes: &[u8],
    ) -> Result<Outcome, CommandError> {
        let data = data_pointer::map(port, &mut self.room.mapped, command, bytes.len(), None, false)?;
        let mut sink = data.sink(&mut self.room.stage)?;
        sink.put(port, bytes)?;
        sink.finish(port)?;
        Ok(Outcome::OK)
    }

    /// Reads `into.len()` bytes of the command's buffer.
    fn receive(
        &mut self,
        port: &mut Port<'_>,
        command: &Command,
        into: &mut [u8],
    ) -> Result<(), CommandError> {
        let carried = port.carried();
        let data = data_pointer::map(port, &mut self.room.mapped, command, into.len(), carried, false)?;
        data.source(&mut self.room.stage).fill(port, into)
    }
}

const NO_SUCH_COMMAND: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "no such admin command").at_byte(0);

/// What no admin command may have: fusing, and data by SGLs on a memory-based transport. Without data PSDT is reserved.
fn check_form(command: &Command, in_capsules: bool) -> Result<(), CommandError> {
    if command.cdw0.fuse() != 0 {
        return Err(CommandError::invalid_field("fused commands are not supported").at_byte(1));
    }
    let has_data = command.direction() != Direction::None;
    if !in_capsules && has_data && command.cdw0.psdt() != DataPointer::Prp {
        return Err(CommandError::invalid_field("admin commands use PRPs").at_byte(1));
    }
    Ok(())
}
