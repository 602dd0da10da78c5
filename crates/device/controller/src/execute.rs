//! I/O commands: from a fetched command to the namespace that executes it.
//!
//! The vendor commands that carry a value in pieces are taken apart here; what a namespace sees is a key and a
//! whole value, whichever way it came.

use byway_link::{Method, Work};
use byway_spec::base::command::{DataPointer, Direction, NSID_ALL};
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::{self, VendorOpcode};
use byway_spec::{Command, Status};

use crate::admin::{Counted, effects};
use crate::controller::Controller;
use crate::data_pointer;
use crate::error::CommandError;
use crate::fused;
use crate::namespace::kv::key;
use crate::namespace::media::check_whole;
use crate::namespace::{Execution, Namespace, Outcome, VALUE_MAX_BYTES};
use crate::port::Port;
use crate::queue::BoundWindow;
use crate::reservation::{Access, is_reservation};
use crate::subsystem::Subsystem;
use crate::transfer::assembly::Target;

/// I/O opcodes from here on are vendor specific.
pub(crate) const FIRST_VENDOR_OPCODE: u8 = 0x80;

/// Value bytes that fit a piggybacked write.
const FIRST_BYTES: usize = vendor::WRITE_BYTES;

/// Refuses a command once the image was truncated, unless its namespace is exported and so not in the image.
#[inline]
fn check_image(subsystem: &Subsystem, nsid: u32, access: Access) -> Result<(), CommandError> {
    let is_exported = || matches!(subsystem.namespace(nsid), Some(Namespace::Exported(_)));
    check_whole(&subsystem.flash, access).or_else(|cut| if is_exported() { Ok(()) } else { Err(cut) })
}

impl Controller {
    /// Executes a command of I/O queue `qid`; `carried` came with it, behind it in its ring or in its capsule.
    #[inline]
    pub(crate) fn execute_io(
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
        let access = effects::access(command.opcode());
        check_image(subsystem, command.nsid, access)?;
        let done = self.execute_whole(subsystem, port, qid, command, carried)?;
        check_image(subsystem, command.nsid, access)?;
        Ok(done)
    }

    /// The same, of an image that is whole.
    #[inline]
    fn execute_whole(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
        carried: Option<&[u8]>,
    ) -> Result<Outcome, CommandError> {
        if command.opcode() >= FIRST_VENDOR_OPCODE {
            return self.execute_vendor(subsystem, port, qid, command, carried);
        }
        if is_reservation(command.opcode()) {
            return self.reserve(subsystem, port, qid, command, carried);
        }
        if command.nsid == NSID_ALL && command.opcode() == NvmOpcode::FLUSH.0 {
            return self.flush_all(subsystem);
        }
        let target = (qid, command.nsid, effects::access(command.opcode()));
        self.with_namespace(subsystem, port, target, carried, |namespace, execution| match namespace {
            Namespace::Nvm(nvm) => nvm.execute(execution, command),
            Namespace::Kv(kv) => kv.execute(execution, command),
            Namespace::Exported(exported) => exported.execute(execution, command),
        })
    }

    /// Whether a command may be executed, whatever it is. It is counted.
    #[inline]
    pub(crate) fn check_io(
        &self,
        subsystem: &mut Subsystem,
        port: &Port<'_>,
        command: &Command,
        carried: Option<&[u8]>,
    ) -> Result<(), CommandError> {
        if !self.registers.serves_all_sets() {
            self.check_set(subsystem, command)?;
        }
        subsystem.io.note(Counted::of(command, carried.is_some()));
        if !subsystem.options.sgls && carried.is_none() && port.capsule.is_none() {
            check_without_sgls(command)?;
        }
        Ok(())
    }

    /// Flush of every namespace: of those on flash, where there are no others.
    #[cold]
    fn flush_all(&self, subsystem: &Subsystem) -> Result<Outcome, CommandError> {
        if subsystem.has_engines() {
            return Err(FLUSH_ONE);
        }
        subsystem.check_access_to_attached(self.id, Access::Write).map(|()| Outcome::OnceSynced)
    }

    /// Whether the host chose the command set that a command is of (CC.CSS).
    #[cold]
    fn check_set(&self, subsystem: &Subsystem, command: &Command) -> Result<(), CommandError> {
        if self.registers.is_admin_only() {
            return Err(NO_IO_SETS);
        }
        match subsystem.namespace(command.nsid) {
            Some(Namespace::Kv(_)) => Err(NVM_SET_ONLY),
            _ => Ok(()),
        }
    }

    /// Runs `work` on the namespace that `nsid` names, if it is attached to this controller and not kept from its host.
    #[inline]
    pub(crate) fn with_namespace<R>(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (qid, nsid, access): (u16, u32, Access),
        carried: Option<&[u8]>,
        work: impl FnOnce(&mut Namespace, &mut Execution<'_, '_>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let (namespace, flash) = subsystem.admit(nsid, self.id, access)?;
        let window = self.window_of(qid, nsid);
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

    fn execute_vendor(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
        carried: Option<&[u8]>,
    ) -> Result<Outcome, CommandError> {
        let opcode = VendorOpcode(command.opcode());
        if !self.has_vendor_command(opcode) {
            return Err(NOT_ENABLED);
        }
        match opcode {
            VendorOpcode::KV_WRITE_PIGGYBACK => self.piggyback_write(subsystem, port, qid, command),
            VendorOpcode::KV_STORE_PRP_TAIL => self.prp_tail_write(subsystem, port, qid, command),
            VendorOpcode::KV_TRANSFER => self.piggyback_transfer(subsystem, port, qid, command),
            VendorOpcode::KV_WRITE_PT => self.pass_through_write(subsystem, port, qid, command),
            VendorOpcode::KV_TRANSFER_PT => self.pass_through_transfer(subsystem, port, qid, command),
            VendorOpcode::KV_STORE_CXL => self.store_in_window(subsystem, port, qid, command, &[]),
            VendorOpcode::KV_STORE_CXL_PIGGYBACK => {
                let first = vendor::unpack_write(command);
                self.store_in_window(subsystem, port, qid, command, &first)
            }
            _ => self.with_namespace(
                subsystem,
                port,
                (qid, command.nsid, Access::Write),
                carried,
                |namespace, execution| namespace.kv()?.bulk_store(execution, command),
            ),
        }
    }

    /// Whether there is such a command, and the host enabled the transfer method that it is of.
    pub(crate) fn has_vendor_command(&self, opcode: VendorOpcode) -> bool {
        match method_of(opcode) {
            Some(method) => self.admin.transfers.enabled(method),
            None => opcode == VendorOpcode::KV_BULK_STORE && self.admin.transfers.bulk(),
        }
    }

    fn piggyback_write(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let limit = subsystem.profile.limits.piggyback_max_bytes as usize;
        let target = self.target(command, qid, limit)?;
        let first = vendor::unpack_write(command);
        let first = &first[..FIRST_BYTES.min(target.len_bytes)];
        port.meter.work(Work::MemCopy { bytes: first.len() as u32 });
        if first.len() == target.len_bytes {
            return self.store(subsystem, port, qid, target, first);
        }
        self.check_key_value(subsystem, target.nsid)?;
        self.assembly(qid)?.open(target, first);
        Ok(Outcome::OK)
    }

    /// The whole pages of the value come by PRP with the write; its tail follows in transfer commands.
    fn prp_tail_write(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        // The piggyback limit is for the tail, which is shorter than a page and so below every limit announced.
        let target = self.target(command, qid, VALUE_MAX_BYTES as usize)?;
        self.check_key_value(subsystem, target.nsid)?;
        let whole = target.len_bytes & !(data_pointer::PAGE_BYTES - 1);
        let data =
            data_pointer::map(port, &mut self.room.mapped, command, whole, None, self.habits.whole_page_prp)?;
        let sq = self.submission[usize::from(qid)].as_mut().ok_or(NO_QUEUE)?;
        sq.assembly.open(target, &[]);
        let moved = data.source(&mut self.room.stage).fill(port, sq.assembly.extend_by(whole));
        // Fragments may be under way already; behind pages that did not come they must find no write.
        moved.inspect_err(|_| sq.assembly.clear())?;
        if whole == target.len_bytes {
            return self.store_assembled(subsystem, port, qid);
        }
        Ok(Outcome::OK)
    }

    fn piggyback_transfer(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let fragment = vendor::unpack_transfer(command);
        port.meter.work(Work::MemCopy { bytes: fragment.len() as u32 });
        if self.assembly(qid)?.add(command.nsid, &fragment)? {
            return self.store_assembled(subsystem, port, qid);
        }
        Ok(Outcome::OK)
    }

    fn store_assembled(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
    ) -> Result<Outcome, CommandError> {
        let sq = self.submission[usize::from(qid)].as_mut().ok_or(NO_QUEUE)?;
        let (target, bytes) = sq.assembly.close().ok_or(NO_QUEUE)?;
        let (namespace, flash) = subsystem.admit(target.nsid, self.id, Access::Write)?;
        let room = &mut self.room;
        let mut execution = Execution {
            flash,
            controller: self.id,
            port,
            room,
            carried: None,
            whole_pages: false,
            window: None,
        };
        let (stored, value_bytes) = (namespace.kv()?.store(&mut execution, target.key, bytes), bytes.len());
        sq.assembly.clear();
        stored.inspect(|_| subsystem.count_value(value_bytes))
    }

    fn store(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        target: Target,
        value: &[u8],
    ) -> Result<Outcome, CommandError> {
        let place = (qid, target.nsid, Access::Write);
        let stored = self.with_namespace(subsystem, port, place, None, |namespace, execution| {
            namespace.kv()?.store(execution, target.key, value)
        });
        stored.inspect(|_| subsystem.count_value(value.len()))
    }

    fn pass_through_write(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let limit = subsystem.profile.limits.piggyback_max_bytes as usize;
        let target = checked_target(command, limit)?;
        let first = vendor::unpack_write_pt(command);
        let first = &first[..first.len().min(target.len_bytes)];
        port.meter.work(Work::MemCopy { bytes: first.len() as u32 });
        if first.len() == target.len_bytes {
            return self.store(subsystem, port, qid, target, first);
        }
        self.check_key_value(subsystem, target.nsid)?;
        let id = self.payloads.open(target.nsid, target.key, target.len_bytes, first)?;
        Ok(Outcome::with(u32::from(id)))
    }

    fn pass_through_transfer(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let (place, fragment) = vendor::unpack_transfer_pt(command);
        port.meter.work(Work::MemCopy { bytes: fragment.len() as u32 });
        match self.payloads.add(command.nsid, place.payload(), place.fragment(), &fragment)? {
            Some((target, value)) => self.store(subsystem, port, qid, target, &value),
            None => Ok(Outcome::OK),
        }
    }

    /// The value stands in the queue's window of device memory already, its `first` bytes in the command.
    fn store_in_window(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
        first: &[u8],
    ) -> Result<Outcome, CommandError> {
        let window = self.submission[usize::from(qid)].as_ref().and_then(|sq| sq.window);
        let window = window
            .ok_or(CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "no window is bound to this queue"))?;
        if window.nsid != command.nsid {
            return Err(CommandError::new(
                Status::COMMAND_SEQUENCE_ERROR,
                "the queue's window is another namespace's",
            ));
        }
        let key = key(command)?;
        let len_bytes = command.cdw10 as usize;
        let place = (qid, command.nsid, Access::Write);
        let stored = self.with_namespace(subsystem, port, place, None, |namespace, execution| {
            namespace.kv()?.store_in_window(execution, window, key, len_bytes, first)
        });
        stored.inspect(|_| subsystem.count_value(len_bytes))
    }

    /// The window of device memory that `qid` has in namespace `nsid`.
    #[inline]
    fn window_of(&self, qid: u16, nsid: u32) -> Option<BoundWindow> {
        let window = self.submission.get(usize::from(qid))?.as_ref()?.window?;
        (window.nsid == nsid).then_some(window)
    }

    /// Key and length of a write command that opens a payload. Whatever its queue had unfinished is dropped.
    #[inline]
    fn target(&mut self, command: &Command, qid: u16, limit_bytes: usize) -> Result<Target, CommandError> {
        self.assembly(qid)?.clear();
        checked_target(command, limit_bytes)
    }

    /// Refuses a payload in pieces for a namespace that could not store it, before its pieces are taken.
    fn check_key_value(&self, subsystem: &mut Subsystem, nsid: u32) -> Result<(), CommandError> {
        subsystem.admit(nsid, self.id, Access::Write)?.0.kv().map(drop)
    }

    fn assembly(&mut self, qid: u16) -> Result<&mut crate::transfer::assembly::Assembly, CommandError> {
        let sq = self.submission.get_mut(usize::from(qid)).and_then(Option::as_mut);
        sq.map(|sq| &mut sq.assembly).ok_or(NO_QUEUE)
    }
}

#[inline]
fn checked_target(command: &Command, limit_bytes: usize) -> Result<Target, CommandError> {
    let key = key(command)?;
    let len_bytes = command.cdw10 as usize;
    if len_bytes > limit_bytes {
        return Err(CommandError::new(Status::INVALID_VALUE_SIZE, "value over the announced limit"));
    }
    Ok(Target { nsid: command.nsid, key, len_bytes })
}

/// A controller that announces no SGLs takes no data pointer but PRPs (Base 2.1, CDW0.PSDT). Without data PSDT is reserved.
#[cold]
fn check_without_sgls(command: &Command) -> Result<(), CommandError> {
    let has_data = command.direction() != Direction::None;
    if has_data && command.cdw0.psdt() != DataPointer::Prp { Err(WITHOUT_SGLS) } else { Ok(()) }
}

fn method_of(opcode: VendorOpcode) -> Option<Method> {
    match opcode {
        VendorOpcode::KV_WRITE_PIGGYBACK | VendorOpcode::KV_TRANSFER => Some(Method::Piggyback),
        VendorOpcode::KV_WRITE_PT | VendorOpcode::KV_TRANSFER_PT => Some(Method::PiggybackPt),
        VendorOpcode::KV_STORE_PRP_TAIL => Some(Method::PrpTail),
        VendorOpcode::KV_STORE_CXL => Some(Method::Cxl),
        VendorOpcode::KV_STORE_CXL_PIGGYBACK => Some(Method::CxlPiggyback),
        _ => None,
    }
}

const FLUSH_ONE: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "exported namespaces are flushed one by one").at_byte(4);
const WITHOUT_SGLS: CommandError = CommandError::invalid_field("this device takes no SGLs").at_byte(1);
const NO_IO_SETS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "CC.CSS selects the admin command set only");
const NVM_SET_ONLY: CommandError =
    CommandError::new(Status::INVALID_NAMESPACE, "CC.CSS selects the NVM command set only");
const NOT_ENABLED: CommandError = CommandError::new(
    Status::INVALID_OPCODE,
    "no such command, or the host did not enable its transfer method",
);
const NO_QUEUE: CommandError = CommandError::new(Status::INTERNAL_ERROR, "the queue is gone");
