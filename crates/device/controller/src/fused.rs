//! Fused operations (Base 2.1, section 3.4.2): Compare and Write, two consecutive commands of one queue that are executed
//! as one.
//!
//! The controller executes both without another command between them. An external engine begins nothing meanwhile that
//! touches their blocks. A delegated queue pair leaves fused commands to the controller.

use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::{Cdw0, Command, Status};

use crate::error::CommandError;
use crate::limits::ACWU_Z;

/// One of two fused commands, with its data.
#[derive(Debug, Clone, Copy)]
pub struct FusedCommand<'a> {
    /// The command.
    pub command: &'a Command,
    /// Data that came with it, or was asked for behind it.
    pub carried: Option<&'a [u8]>,
}

/// Checks that two commands are a Compare and a Write of the same blocks, no more than are written atomically.
pub(crate) fn check_pair(first: &Command, second: &Command) -> Result<(), CommandError> {
    let opcodes = (first.opcode(), second.opcode());
    if opcodes != (NvmOpcode::COMPARE.0, NvmOpcode::WRITE.0) {
        return Err(OTHER_COMMANDS);
    }
    let blocks =
        |command: &Command| (command.nsid, command.cdw10_11(), NvmCdw12::from_bits(command.cdw12).nlb_z());
    if blocks(first) != blocks(second) {
        return Err(OTHER_BLOCKS);
    }
    if blocks(first).2 > ACWU_Z { Err(TOO_MANY) } else { Ok(()) }
}

/// Refuses a command by its FUSE field that came without the other.
#[cold]
pub(crate) const fn alone(fuse: u8) -> CommandError {
    match fuse {
        Cdw0::FUSE_FIRST | Cdw0::FUSE_SECOND => ALONE,
        _ => CommandError::invalid_field("a reserved value of FUSE").at_byte(1),
    }
}

pub(crate) const ALONE: CommandError =
    CommandError::new(Status::ABORTED_MISSING_FUSED, "a fused command without the other");
pub(crate) const OTHER_FAILED: CommandError =
    CommandError::new(Status::ABORTED_FAILED_FUSED, "the command that it is fused with failed");
const OTHER_COMMANDS: CommandError =
    CommandError::invalid_field("only a Compare and a Write are fused").at_byte(0);
const OTHER_BLOCKS: CommandError =
    CommandError::invalid_field("fused commands are of the same blocks").at_byte(40);
const TOO_MANY: CommandError =
    CommandError::new(Status::ATOMIC_WRITE_UNIT_EXCEEDED, "more blocks than are compared and written as one")
        .at_byte(48);
