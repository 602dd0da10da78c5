//! Namespaces of local memory (Subsystem Local Memory command set, CSI 3).

use byway_flash::NamespaceRecord;
use byway_programs::{Memory, Refusal};
use byway_spec::memory::{
    MEMORY_COPY_RANGES_MAX, MemoryCopyBlocks, MemoryCopyBytes, MemoryCopyCdw12, MemoryOpcode,
    SOURCE_FAST_COPY_ONLY,
};
use byway_spec::{Command, Status};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::Execution;
use super::volatile::{Step, refused};
use crate::error::CommandError;
use crate::limits::MAX_TRANSFER_BYTES;
use crate::outcome::Outcome;

/// A namespace of local memory.
#[derive(Debug)]
pub struct MemoryNamespace {
    record: NamespaceRecord,
    memory: Memory,
}

/// A Copy command.
#[derive(Debug)]
pub(crate) struct MemoryCopy {
    /// First byte of the destination.
    pub to: u64,
    /// Bytes that the command names.
    pub length_bytes: u64,
    /// What is copied, one behind the other.
    pub sources: Vec<MemorySource>,
}

/// A source range of a Copy command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MemorySource {
    /// Blocks of a namespace of blocks.
    Blocks { nsid: u32, slba: u64, count: u64 },
    /// Bytes of a memory namespace.
    Bytes { nsid: u32, start: u64, length_bytes: u64 },
}

impl MemoryNamespace {
    /// A namespace of zeroes, as large as the record says.
    ///
    /// # Errors
    /// The statuses of sizes that no memory has.
    pub fn new(record: NamespaceRecord) -> Result<Self, CommandError> {
        let memory = Memory::new(record.size_bytes).map_err(refused)?;
        Ok(Self { record, memory })
    }

    /// Its identifiers and size.
    pub fn record(&self) -> &NamespaceRecord {
        &self.record
    }

    /// Its bytes.
    pub(crate) fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Executes a command. One that copies is given back, as it concerns other namespaces.
    pub(crate) fn execute(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Step, CommandError> {
        let (start, length_bytes) = (command.cdw10_11(), u64::from(command.cdw12));
        match MemoryOpcode(command.opcode()) {
            MemoryOpcode::FILL => self.memory.fill(start, length_bytes).map_err(refused)?,
            MemoryOpcode::READ => {
                let bytes = self.memory.get(start, transfer(length_bytes)?).map_err(refused)?;
                execution.send(command, length_bytes, bytes)?;
            }
            MemoryOpcode::WRITE => {
                let bytes = self.memory.get_mut(start, transfer(length_bytes)?).map_err(refused)?;
                execution.receive(command, bytes)?;
            }
            MemoryOpcode::COPY => return MemoryCopy::receive(execution, command).map(Step::Copy),
            _ => return Err(NOT_MEMORY),
        }
        Ok(Step::Done(Outcome::OK))
    }
}

impl MemoryCopy {
    /// Parses a Copy command and the ranges that it brings.
    fn receive(execution: &mut Execution<'_, '_>, command: &Command) -> Result<Self, CommandError> {
        let cdw12 = MemoryCopyCdw12::from_bits(command.cdw12);
        let count = usize::from(cdw12.ranges_z()) + 1;
        let mut descriptors = [MemoryCopyBytes::new_zeroed(); MEMORY_COPY_RANGES_MAX];
        execution.receive(command, descriptors[..count].as_mut_bytes())?;
        let parse = match cdw12.format() {
            MemoryCopyCdw12::FORMAT_BLOCKS | MemoryCopyCdw12::FORMAT_BLOCKS_WIDE_GUARD => {
                MemorySource::of_blocks
            }
            MemoryCopyCdw12::FORMAT_BYTES => MemorySource::of_bytes,
            _ => return Err(UNKNOWN_FORMAT),
        };
        let sources = descriptors[..count].iter().map(parse).collect::<Result<_, _>>()?;
        let length_bytes = u64::from(command.cdw2) | u64::from(command.cdw3) << 32;
        Ok(Self { to: command.cdw10_11(), length_bytes, sources })
    }
}

impl MemorySource {
    /// The namespace that it is of.
    pub const fn nsid(self) -> u32 {
        match self {
            Self::Blocks { nsid, .. } | Self::Bytes { nsid, .. } => nsid,
        }
    }

    fn of_bytes(descriptor: &MemoryCopyBytes) -> Result<Self, CommandError> {
        check_options(descriptor.sopt)?;
        let MemoryCopyBytes { snsid: nsid, start, length_bytes, .. } = *descriptor;
        Ok(Self::Bytes { nsid, start, length_bytes: length_bytes.into() })
    }

    fn of_blocks(descriptor: &MemoryCopyBytes) -> Result<Self, CommandError> {
        let descriptor =
            MemoryCopyBlocks::ref_from_bytes(descriptor.as_bytes()).map_err(|_| UNKNOWN_FORMAT)?;
        check_options(descriptor.sopt)?;
        let MemoryCopyBlocks { snsid: nsid, slba, nlb_z, .. } = *descriptor;
        Ok(Self::Blocks { nsid, slba, count: u64::from(nlb_z) + 1 })
    }
}

/// No copy is faster than a read and a write.
fn check_options(options: u16) -> Result<(), CommandError> {
    match options & SOURCE_FAST_COPY_ONLY {
        0 => Ok(()),
        _ => Err(CommandError::new(
            Status::FAST_COPY_NOT_POSSIBLE,
            "no copy is faster than a read and a write",
        )),
    }
}

fn transfer(length_bytes: u64) -> Result<u64, CommandError> {
    match length_bytes {
        0 => Err(refused(Refusal::InvalidField).at_byte(48)),
        _ if length_bytes > MAX_TRANSFER_BYTES as u64 => Err(TOO_LONG),
        _ => Ok(length_bytes),
    }
}

const NOT_MEMORY: CommandError =
    CommandError::new(Status::INVALID_OPCODE, "not a command of a memory namespace").at_byte(0);
const UNKNOWN_FORMAT: CommandError =
    CommandError::invalid_field("no such format of source ranges").at_byte(49);
const TOO_LONG: CommandError = CommandError::invalid_field("longer than a transfer may be").at_byte(48);
