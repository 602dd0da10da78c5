//! Vendor commands that carry a value in pieces, or leave it in device memory. A namespace sees a key and a whole value,
//! whichever way it came.

use byway_link::Work;
use byway_spec::vendor::{self, VendorOpcode};
use byway_spec::{Command, Status};

use super::Controller;
use super::io::Arrived;
use crate::data_pointer;
use crate::error::CommandError;
use crate::namespace::kv::key;
use crate::namespace::{Execution, VALUE_MAX_BYTES};
use crate::opcode;
use crate::outcome::Outcome;
use crate::port::Port;
use crate::query::command::is_query;
use crate::reservation::Access;
use crate::subsystem::Subsystem;
use crate::transfer::assembly::{Assembly, Target};

/// Value bytes that fit a piggybacked write.
const FIRST_BYTES: usize = vendor::WRITE_BYTES;

impl Controller {
    pub(super) fn execute_vendor(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
    ) -> Result<Outcome, CommandError> {
        let Arrived { qid, command, .. } = *arrived;
        let opcode = VendorOpcode(command.opcode());
        if is_query(opcode) {
            return self.execute_query(subsystem, port, arrived);
        }
        if opcode == VendorOpcode::KV_EXEC {
            return self.execute_exec(subsystem, port, arrived);
        }
        if !self.admin.transfers().has_command(opcode) {
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
            VendorOpcode::KV_SCAN
            | VendorOpcode::KV_RETRIEVE_MANY
            | VendorOpcode::KV_BULK_STORE
            | VendorOpcode::KV_DELETE_RANGE => self.execute_on_many(subsystem, port, arrived),
            _ => Err(NOT_ENABLED),
        }
    }

    /// Scan, Retrieve Many, Store Many or Delete Range.
    fn execute_on_many(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
    ) -> Result<Outcome, CommandError> {
        let Arrived { qid, command, carried } = *arrived;
        let may_be_atomic = self.admin.transfers().has_atomic_store_many();
        let target = (qid, command.nsid, opcode::access(command.opcode()));
        self.with_namespace(subsystem, port, target, carried, |namespace, execution| {
            let kv = namespace.kv()?;
            match VendorOpcode(command.opcode()) {
                VendorOpcode::KV_SCAN => kv.scan(execution, command),
                VendorOpcode::KV_RETRIEVE_MANY => kv.retrieve_many(execution, command),
                VendorOpcode::KV_DELETE_RANGE => kv.delete_range(execution, command),
                VendorOpcode::KV_BULK_STORE => kv.bulk_store(execution, command, may_be_atomic),
                _ => Err(NOT_ENABLED),
            }
        })
    }

    fn piggyback_write(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let limit = subsystem.profile().limits.piggyback_max_bytes as usize;
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
        // The piggyback limit is for the tail. It is shorter than a page, and so below every announced limit.
        let target = self.target(command, qid, VALUE_MAX_BYTES as usize)?;
        self.check_key_value(subsystem, target.nsid)?;
        let whole = target.len_bytes & !(data_pointer::PAGE_BYTES - 1);
        let data =
            data_pointer::map(port, &mut self.room.mapped, command, whole, None, self.habits.whole_page_prp)?;
        let assembly = self.queues.assembly(qid).ok_or(NO_QUEUE)?;
        assembly.open(target, &[]);
        let moved = data.source(&mut self.room.stage).fill(port, assembly.extend_by(whole));
        // Fragments may follow already. Where the pages did not come, they must find no write.
        moved.inspect_err(|_| assembly.clear())?;
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
        let assembly = self.queues.assembly(qid).ok_or(NO_QUEUE)?;
        let (target, bytes) = assembly.close().ok_or(NO_QUEUE)?;
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
        assembly.clear();
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
        let limit = subsystem.profile().limits.piggyback_max_bytes as usize;
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

    /// Stores a value from the queue's window of device memory, with its `first` bytes from the command.
    fn store_in_window(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        command: &Command,
        first: &[u8],
    ) -> Result<Outcome, CommandError> {
        let window = self.queues.submission(qid).and_then(|sq| sq.window);
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

    /// Key and length of a write command that opens a payload. An unfinished payload of its queue is dropped.
    #[inline]
    fn target(&mut self, command: &Command, qid: u16, limit_bytes: usize) -> Result<Target, CommandError> {
        self.assembly(qid)?.clear();
        checked_target(command, limit_bytes)
    }

    /// Refuses a payload in pieces for a namespace that could not store it, before its pieces come.
    fn check_key_value(&self, subsystem: &mut Subsystem, nsid: u32) -> Result<(), CommandError> {
        subsystem.admit(nsid, self.id, Access::Write)?.0.kv().map(drop)
    }

    fn assembly(&mut self, qid: u16) -> Result<&mut Assembly, CommandError> {
        self.queues.assembly(qid).ok_or(NO_QUEUE)
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

const NOT_ENABLED: CommandError = CommandError::new(
    Status::INVALID_OPCODE,
    "no such command, or the host did not enable its transfer method",
);
const NO_QUEUE: CommandError = CommandError::new(Status::INTERNAL_ERROR, "the queue is gone");
