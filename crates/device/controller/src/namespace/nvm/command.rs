//! NVM commands, parsed: what follows here never sees a command dword (NVM Command Set 1.1, section 3.3).
//!
//! A bit that would change what the command does, and that this device does not do, is refused here; hints (access
//! frequency, limited retry, dataset attributes) are taken and not used.

use byway_spec::nvm::{CopyCdw12, CopyRange, DsmCdw10, DsmCdw11, DsmRange, NvmCdw12, NvmOpcode};
use byway_spec::{Command, Status};

use crate::error::CommandError;

/// Byte of a command where CDW10, CDW11, CDW12 begins, for the parameter error location.
const CDW10_BYTE: u16 = 40;
const CDW12_BYTE: u16 = 48;

/// Command extension type in CDW12 (bits 19:16): key per I/O.
const CETYPE_SHIFT: u32 = 16;

/// Source range descriptors without protection information tags larger than 32 bits.
const COPY_FORMAT_0: u8 = 0;

/// A run of logical blocks. Not yet known to lie inside the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// First block.
    pub slba: u64,
    /// Number of blocks, not zero-based.
    pub count: u64,
}

/// A command of the NVM command set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvmCommand {
    /// Make what was written durable on the media.
    Flush,
    /// Blocks to the host.
    Read(Blocks),
    /// Blocks from the host.
    Write(Blocks),
    /// Blocks against the host's.
    Compare(Blocks),
    /// Blocks read and thrown away.
    Verify(Blocks),
    /// Blocks that read as zeroes from now on, whether the host asked to deallocate them or not.
    WriteZeroes(Blocks),
    /// Deallocate the `ranges` ranges of the payload, or take them as a hint.
    DatasetManagement {
        /// Number of ranges, not zero-based.
        ranges: usize,
        /// The ranges are to be deallocated.
        deallocate: bool,
    },
    /// Copy the `ranges` source ranges of the payload, one behind the other.
    Copy {
        /// First destination block.
        to_lba: u64,
        /// Number of ranges, not zero-based.
        ranges: usize,
    },
}

impl NvmCommand {
    /// Reads a submission queue entry.
    #[inline]
    pub fn parse(command: &Command) -> Result<Self, CommandError> {
        match NvmOpcode(command.opcode()) {
            NvmOpcode::READ => Ok(Self::Read(blocks(command)?)),
            NvmOpcode::WRITE => Ok(Self::Write(without_directive(command)?)),
            NvmOpcode::COMPARE => Ok(Self::Compare(blocks(command)?)),
            NvmOpcode::VERIFY => Ok(Self::Verify(blocks(command)?)),
            NvmOpcode::WRITE_ZEROES => Ok(Self::WriteZeroes(without_directive(command)?)),
            NvmOpcode::FLUSH => Ok(Self::Flush),
            NvmOpcode::DATASET_MANAGEMENT => Ok(dataset_management(command)),
            NvmOpcode::COPY => copy(command),
            _ => Err(CommandError::new(Status::INVALID_OPCODE, "not a command of a block namespace")),
        }
    }
}

#[inline]
fn blocks(command: &Command) -> Result<Blocks, CommandError> {
    let fields = NvmCdw12::from_bits(command.cdw12);
    if fields.prinfo() != 0 || fields.stc() {
        return Err(NO_PROTECTION);
    }
    if command.cdw12 >> CETYPE_SHIFT & 0xf != 0 {
        return Err(CommandError::invalid_field("key per I/O is not supported").at_byte(CDW12_BYTE + 2));
    }
    Ok(Blocks { slba: command.cdw10_11(), count: u64::from(fields.nlb_z()) + 1 })
}

#[inline]
fn without_directive(command: &Command) -> Result<Blocks, CommandError> {
    if NvmCdw12::from_bits(command.cdw12).dtype() != 0 {
        return Err(NO_DIRECTIVES);
    }
    blocks(command)
}

fn dataset_management(command: &Command) -> NvmCommand {
    NvmCommand::DatasetManagement {
        ranges: usize::from(DsmCdw10::from_bits(command.cdw10).nr_z()) + 1,
        deallocate: DsmCdw11::from_bits(command.cdw11).ad(),
    }
}

fn copy(command: &Command) -> Result<NvmCommand, CommandError> {
    let fields = CopyCdw12::from_bits(command.cdw12);
    if fields.desfmt() != COPY_FORMAT_0 {
        return Err(
            CommandError::invalid_field("copy descriptor format is not supported").at_byte(CDW12_BYTE + 1)
        );
    }
    if fields.prinfor() != 0 || fields.prinfow() != 0 || fields.stcw() {
        return Err(NO_PROTECTION);
    }
    if fields.dtype() != 0 {
        return Err(NO_DIRECTIVES);
    }
    Ok(NvmCommand::Copy { to_lba: command.cdw10_11(), ranges: usize::from(fields.nr_z()) + 1 })
}

/// The blocks of a Dataset Management range. A length of 0 is a range of nothing.
pub fn dsm_blocks(range: &DsmRange) -> Blocks {
    Blocks { slba: range.slba, count: u64::from(range.nlb) }
}

/// The blocks of a Copy source range.
pub fn copy_blocks(range: &CopyRange) -> Blocks {
    Blocks { slba: range.slba, count: u64::from(range.nlb_z) + 1 }
}

const NO_PROTECTION: CommandError =
    CommandError::invalid_field("the namespace has no protection information").at_byte(CDW12_BYTE + 3);
const NO_DIRECTIVES: CommandError =
    CommandError::invalid_field("directives are not supported").at_byte(CDW12_BYTE + 2);

/// The range lies outside the namespace.
pub const OUT_OF_RANGE: CommandError =
    CommandError::new(Status::LBA_OUT_OF_RANGE, "blocks past the end of the namespace").at_byte(CDW10_BYTE);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn command(opcode: NvmOpcode, cdw12: u32) -> Command {
        let mut command = Command::new(opcode.0, 1, 1);
        command.set_cdw10_11(0x1_0000_0002);
        command.cdw12 = cdw12;
        command
    }

    #[test]
    fn a_zero_based_count_of_zero_is_one_block() {
        let parsed = NvmCommand::parse(&command(NvmOpcode::READ, 0)).unwrap();
        assert_eq!(parsed, NvmCommand::Read(Blocks { slba: 0x1_0000_0002, count: 1 }));
    }

    #[test]
    fn fua_and_limited_retry_are_taken() {
        let cdw12 = NvmCdw12::new().with_nlb_z(0xffff).with_fua(true).with_lr(true).into_bits();
        let parsed = NvmCommand::parse(&command(NvmOpcode::WRITE, cdw12)).unwrap();
        assert_eq!(parsed, NvmCommand::Write(Blocks { slba: 0x1_0000_0002, count: 0x1_0000 }));
    }

    #[test]
    fn protection_directives_and_key_per_io_are_refused() {
        let refused = [
            NvmCdw12::new().with_prinfo(8).into_bits(),
            NvmCdw12::new().with_stc(true).into_bits(),
            NvmCdw12::new().with_dtype(2).into_bits(),
            1 << CETYPE_SHIFT,
        ];
        for cdw12 in refused {
            let error = NvmCommand::parse(&command(NvmOpcode::WRITE, cdw12)).unwrap_err();
            assert_eq!(error.status, Status::INVALID_FIELD, "{cdw12:#x}");
        }
    }

    #[test]
    fn only_copy_descriptor_format_0_is_taken() {
        let cdw12 = CopyCdw12::new().with_nr_z(3).into_bits();
        let parsed = NvmCommand::parse(&command(NvmOpcode::COPY, cdw12)).unwrap();
        assert_eq!(parsed, NvmCommand::Copy { to_lba: 0x1_0000_0002, ranges: 4 });
        let cdw12 = CopyCdw12::new().with_desfmt(2).into_bits();
        assert_eq!(
            NvmCommand::parse(&command(NvmOpcode::COPY, cdw12)).unwrap_err().status,
            Status::INVALID_FIELD
        );
    }

    #[test]
    fn opcodes_of_other_sets_are_invalid() {
        for opcode in [NvmOpcode::WRITE_UNCORRECTABLE, NvmOpcode::RESERVATION_ACQUIRE, NvmOpcode(0x7d)] {
            assert_eq!(NvmCommand::parse(&command(opcode, 0)).unwrap_err().status, Status::INVALID_OPCODE);
        }
    }
}
