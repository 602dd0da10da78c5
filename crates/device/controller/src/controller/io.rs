//! I/O commands: from a fetched command to the namespace that executes it.

use byway_spec::base::command::{DataPointer, NSID_ALL};
use byway_spec::base::reservation::{ReportCdw11, ReservationOpcode};
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::VendorOpcode;
use byway_spec::{Command, Status};

use super::Controller;
use crate::counting::{Counted, QueueOf};
use crate::error::CommandError;
use crate::fused;
use crate::namespace::media::check_whole;
use crate::namespace::{Execution, Namespace};
use crate::opcode::{FIRST_VENDOR_OPCODE, access, is_reservation};
use crate::outcome::Outcome;
use crate::port::Port;
use crate::reservation::{Access, DATA_MAX_BYTES, Request};
use crate::subsystem::{Attempts, OVERTAKEN, Subsystem};

/// A command with what it came by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived<'a> {
    /// Its queue.
    pub qid: u16,
    pub command: &'a Command,
    /// Its payload, if that came behind it in its ring or in its capsule.
    pub carried: Option<&'a [u8]>,
}

/// Refuses a command once the image was truncated, unless its namespace is exported and so not in the image.
#[inline]
fn check_image(subsystem: &Subsystem, nsid: u32, access: Access) -> Result<(), CommandError> {
    match check_whole(subsystem.flash(), access) {
        Ok(()) => Ok(()),
        Err(cut) => refuse_unless_exported(subsystem, nsid, cut),
    }
}

#[cold]
fn refuse_unless_exported(subsystem: &Subsystem, nsid: u32, cut: CommandError) -> Result<(), CommandError> {
    if matches!(subsystem.namespace(nsid), Some(Namespace::Exported(_))) { Ok(()) } else { Err(cut) }
}

impl Controller {
    /// Executes a command of I/O queue `qid`. `carried` is its payload, if that came behind it in its ring or in its capsule.
    #[inline]
    pub(super) fn execute_io(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
        carried: Option<&[u8]>,
    ) -> Result<Outcome, CommandError> {
        if command.cdw0.fuse() != 0 {
            return Err(fused::alone(command.cdw0.fuse()));
        }
        self.check_io(subsystem, port, command, carried)?;
        let mode = access(command.opcode());
        if mode != Access::Read {
            check_image(subsystem, command.nsid, mode)?;
        }
        // What a read has found counts only if the image is whole afterwards, a failure too.
        let mut attempts = Attempts::default();
        let done = loop {
            let done = self.execute_whole(subsystem, port, qid, (command, mode), carried);
            if !subsystem.is_overtaken(command.nsid, mode, &done, &mut attempts) {
                break done;
            }
            if command.opcode() == VendorOpcode::KV_RETRIEVE_MANY.0 {
                // Its result is in the place of its request.
                break Err(OVERTAKEN);
            }
        };
        subsystem.count_stall(QueueOf { controller: self.id, qid }, command.nsid);
        check_image(subsystem, command.nsid, mode)?;
        done
    }

    /// The same, without a look at the image.
    #[inline]
    fn execute_whole(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        (command, mode): (&Command, Access),
        carried: Option<&[u8]>,
    ) -> Result<Outcome, CommandError> {
        let arrived = Arrived { qid, command, carried };
        if subsystem.is_volatile(command.nsid) {
            return self.execute_volatile(subsystem, port, &arrived);
        }
        if command.opcode() >= FIRST_VENDOR_OPCODE {
            return self.execute_vendor(subsystem, port, &arrived);
        }
        if is_reservation(command.opcode()) {
            return self.reserve(subsystem, port, &arrived);
        }
        if command.nsid == NSID_ALL && command.opcode() == NvmOpcode::FLUSH.0 {
            return self.flush_all(subsystem);
        }
        let target = (qid, command.nsid, mode);
        self.with_namespace(subsystem, port, target, carried, |namespace, execution| match namespace {
            Namespace::Nvm(nvm) => nvm.execute(execution, command),
            Namespace::Kv(kv) => kv.execute(execution, command),
            Namespace::Exported(exported) => exported.execute(execution, command),
            // Executed above.
            Namespace::Memory(_) | Namespace::Programs(_) => Err(NO_SUCH_COMMAND),
        })
    }

    /// Checks what is the same for every I/O command, and counts it.
    #[inline]
    pub(super) fn check_io(
        &self,
        subsystem: &mut Subsystem,
        port: &Port<'_>,
        command: &Command,
        carried: Option<&[u8]>,
    ) -> Result<(), CommandError> {
        if !self.registers.serves_all_sets() {
            self.check_set(subsystem, command)?;
        }
        subsystem.note_command(Counted::of(command, carried.is_some()));
        if !subsystem.options().sgls && carried.is_none() && port.capsule.is_none() {
            check_without_sgls(subsystem, command)?;
        }
        Ok(())
    }

    /// Flush of every namespace. Refused where some are exported.
    #[cold]
    fn flush_all(&self, subsystem: &Subsystem) -> Result<Outcome, CommandError> {
        if subsystem.has_engines() {
            return Err(FLUSH_ONE);
        }
        subsystem.check_access_to_attached(self.id, Access::Write).map(|()| Outcome::OnceSynced)
    }

    /// Checks that the host chose the command set of a command (CC.CSS).
    #[cold]
    fn check_set(&self, subsystem: &Subsystem, command: &Command) -> Result<(), CommandError> {
        if self.registers.is_admin_only() {
            return Err(NO_IO_SETS);
        }
        match subsystem.namespace(command.nsid) {
            Some(Namespace::Kv(_) | Namespace::Memory(_) | Namespace::Programs(_)) => Err(NVM_SET_ONLY),
            _ => Ok(()),
        }
    }

    /// Runs `work` on the namespace that `nsid` names, if it is attached to this controller and its host has access.
    #[inline]
    pub(super) fn with_namespace<R>(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (qid, nsid, access): (u16, u32, Access),
        carried: Option<&[u8]>,
        work: impl FnOnce(&mut Namespace, &mut Execution<'_, '_>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let (namespace, flash) = subsystem.admit(nsid, self.id, access)?;
        let window = self.queues.window_of(qid, nsid);
        let mut execution = Execution {
            flash,
            controller: self.id,
            port,
            room: &mut self.room,
            carried,
            whole_pages: self.habits.whole_page_prp,
            window,
        };
        work(namespace, &mut execution)
    }

    /// Executes a reservation command.
    #[cold]
    fn reserve(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
    ) -> Result<Outcome, CommandError> {
        let Arrived { qid, command, carried } = *arrived;
        let target = (qid, command.nsid, Access::Neither);
        if command.opcode() == ReservationOpcode::REPORT.0 {
            subsystem.attached(command.nsid, self.id)?;
            let is_extended = ReportCdw11::from_bits(command.cdw11).eds();
            let page = subsystem.report_reservations(command.nsid, is_extended, self.id)?;
            let asked_bytes = (u64::from(command.cdw10) + 1) * 4;
            let part = &page[..page.len().min(asked_bytes as usize)];
            return self.with_namespace(subsystem, port, target, carried, |_, execution| {
                execution.send(command, asked_bytes, part).map(|()| Outcome::OK)
            });
        }
        let mut data = [0; DATA_MAX_BYTES];
        let data = &mut data[..Request::data_bytes(command)];
        self.with_namespace(subsystem, port, target, carried, |_, execution| {
            execution.receive(command, data).map(|()| Outcome::OK)
        })?;
        let request = Request::parse(command, data)?;
        subsystem.reserve(command.nsid, self.id, request)?;
        Ok(Outcome::OK)
    }
}

/// Refuses SGLs on a controller that does not announce them (Base 2.1, CDW0.PSDT). Without data PSDT is reserved.
#[cold]
fn check_without_sgls(subsystem: &Subsystem, command: &Command) -> Result<(), CommandError> {
    if subsystem.io_moves_data(command) && command.cdw0.psdt() != DataPointer::Prp {
        Err(WITHOUT_SGLS)
    } else {
        Ok(())
    }
}

const NO_SUCH_COMMAND: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "not a command of the namespace").at_byte(0);
const FLUSH_ONE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "exported namespaces are flushed one by one").at_byte(4);
const WITHOUT_SGLS: CommandError = CommandError::invalid_field("this device takes no SGLs").at_byte(1);
const NO_IO_SETS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "CC.CSS selects the admin command set only");
const NVM_SET_ONLY: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "CC.CSS selects the NVM command set only");
