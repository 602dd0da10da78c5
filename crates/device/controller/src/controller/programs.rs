//! Commands of memory namespaces and of namespaces of programs, which concern other namespaces too.

use byway_spec::Status;

use super::Controller;
use super::io::Arrived;
use crate::error::CommandError;
use crate::namespace::nvm::{Blocks, COPY_MAX_BYTES};
use crate::namespace::{MemoryCopy, MemorySource, Namespace, Step, refused, timed};
use crate::opcode::is_reservation;
use crate::outcome::Outcome;
use crate::port::Port;
use crate::reservation::Access;
use crate::subsystem::Subsystem;

impl Controller {
    /// Executes a command of a namespace that is not in the image.
    #[cold]
    pub(super) fn execute_volatile(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        arrived: &Arrived<'_>,
    ) -> Result<Outcome, CommandError> {
        let Arrived { qid, command, carried } = *arrived;
        if is_reservation(command.opcode()) {
            return Err(NO_RESERVATIONS);
        }
        let target = (qid, command.nsid, Access::Write);
        let step =
            self.with_namespace(subsystem, port, target, carried, |namespace, execution| match namespace {
                Namespace::Memory(memory) => memory.execute(execution, command),
                Namespace::Programs(programs) => programs.prepare(execution, command),
                Namespace::Nvm(_) | Namespace::Kv(_) | Namespace::Exported(_) => Err(NOT_VOLATILE),
            })?;
        match step {
            Step::Done(outcome) => Ok(outcome),
            Step::Copy(copy) => self.copy_to_memory(subsystem, port, command.nsid, &copy),
            Step::Run(prepared) => subsystem.execute_program(self.id, command.nsid, prepared),
        }
    }

    /// Copies ranges of other namespaces to a memory namespace. All is checked before the first byte is copied.
    fn copy_to_memory(
        &self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        nsid: u32,
        copy: &MemoryCopy,
    ) -> Result<Outcome, CommandError> {
        let mut total_bytes = 0_u64;
        for source in &copy.sources {
            total_bytes = total_bytes.saturating_add(self.check_source(subsystem, nsid, copy, *source)?);
        }
        if total_bytes != copy.length_bytes {
            return Err(OTHER_LENGTH);
        }
        if total_bytes > COPY_MAX_BYTES {
            return Err(TOO_LONG);
        }
        subsystem.memory(nsid, self.id)?.get(copy.to, total_bytes).map_err(refused)?;
        let mut to = copy.to;
        for source in &copy.sources {
            let bytes = self.read_source(subsystem, port, *source)?;
            subsystem.memory(nsid, self.id)?.write(to, &bytes).map_err(refused)?;
            to += bytes.len() as u64;
        }
        Ok(Outcome::OK)
    }

    /// The length of a source in bytes, if its host may read it and it does not overlap the destination.
    fn check_source(
        &self,
        subsystem: &mut Subsystem,
        nsid: u32,
        copy: &MemoryCopy,
        source: MemorySource,
    ) -> Result<u64, CommandError> {
        let from = source.nsid();
        match (subsystem.admit(from, self.id, Access::Read)?.0, source) {
            (Namespace::Nvm(nvm), MemorySource::Blocks { slba, count, .. }) => {
                Ok(nvm.shape().bytes(Blocks { slba, count })?.len)
            }
            (Namespace::Memory(memory), MemorySource::Bytes { start, length_bytes, .. }) => {
                memory.memory().get(start, length_bytes).map_err(refused)?;
                let overlaps =
                    start < copy.to.saturating_add(copy.length_bytes) && copy.to < start + length_bytes;
                if from == nsid && overlaps { Err(OVERLAPS) } else { Ok(length_bytes) }
            }
            (Namespace::Memory(_), MemorySource::Blocks { .. }) if from == nsid => Err(INCOMPATIBLE),
            _ => Err(OTHER_KIND),
        }
    }

    fn read_source(
        &self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        source: MemorySource,
    ) -> Result<Vec<u8>, CommandError> {
        let (namespace, flash) = subsystem.admit(source.nsid(), self.id, Access::Read)?;
        match (namespace, source) {
            (Namespace::Nvm(nvm), MemorySource::Blocks { slba, count, .. }) => {
                let range = nvm.shape().bytes(Blocks { slba, count })?;
                let mut bytes = vec![0; range.len as usize];
                timed(port, |now_ps| nvm.read_at(flash, range.at, &mut bytes, now_ps))?;
                Ok(bytes)
            }
            (Namespace::Memory(memory), MemorySource::Bytes { start, length_bytes, .. }) => {
                memory.memory().get(start, length_bytes).map(<[u8]>::to_vec).map_err(refused)
            }
            _ => Err(OTHER_KIND),
        }
    }
}

const NO_RESERVATIONS: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "memory and programs are not reserved").at_byte(0);
const NOT_VOLATILE: CommandError = CommandError::new(Status::INVALID_OPCODE, "neither memory nor programs");
const OTHER_LENGTH: CommandError =
    CommandError::invalid_field("the source ranges are not as long as the command says").at_byte(8);
const TOO_LONG: CommandError =
    CommandError::new(Status::COMMAND_SIZE_LIMIT_EXCEEDED, "longer than a copy may be").at_byte(8);
const OVERLAPS: CommandError =
    CommandError::new(Status::OVERLAPPING_IO_RANGE, "source and destination of the copy overlap");
const INCOMPATIBLE: CommandError =
    CommandError::new(Status::INCOMPATIBLE_NAMESPACE, "memory has no blocks").at_byte(49);
const OTHER_KIND: CommandError = CommandError::new(
    Status::INVALID_NAMESPACE,
    "the format of the ranges is not that of the source namespace",
);
