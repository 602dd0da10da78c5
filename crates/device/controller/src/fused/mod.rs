//! Fused operations (Base 2.1, section 3.4.2): Compare and Write, two commands that came over one queue one behind the other
//! and are executed as one.
//!
//! Nothing is executed between the two: whoever executes has the subsystem in hand for both, and what another engine keeps begins
//! nothing meanwhile that would be in their way. A queue pair on leave leaves fused commands to the controller.

mod elsewhere;
mod ring;

use byway_spec::base::identify::Controller as Identified;
use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::{Cdw0, Command, Status};

use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::reservation::Access;
use crate::subsystem::Subsystem;

pub(crate) use ring::Pair;

/// Identify Controller FUSES: Compare and Write.
pub(crate) const FUSES: u16 = Identified::FUSES_COMPARE_AND_WRITE;

/// Most blocks of a fused Compare and Write, zero-based (Identify Controller ACWU): more are not written as one if the
/// device dies meanwhile.
pub(crate) const ACWU_Z: u16 = 0;

type Answer = Result<Outcome, CommandError>;

/// One of two fused commands, with the data that came along.
#[derive(Debug, Clone, Copy)]
pub struct FusedCommand<'a> {
    /// The command.
    pub command: &'a Command,
    /// What came with it, or was asked for behind it.
    pub carried: Option<&'a [u8]>,
}

impl Controller {
    /// Executes two fused commands of I/O queue `qid` as one: both, or neither. If one fails before anything was done, the
    /// other is aborted for that.
    pub(crate) fn execute_fused(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        [first, second]: [FusedCommand<'_>; 2],
    ) -> [Answer; 2] {
        if let Err(error) = check_pair(first.command, second.command) {
            return [Err(error.clone()), Err(error)];
        }
        let nsid = first.command.nsid;
        // The second first: what it may not write is not compared either.
        if let Err(error) = subsystem.admit(nsid, self.id(), Access::Write) {
            return [Err(OTHER_FAILED), Err(error)];
        }
        if subsystem.is_exported(nsid) {
            return self.begin_fused(subsystem, port, qid, [first, second]);
        }
        match self.execute_half(subsystem, port, qid, first) {
            Err(error) => [Err(error), Err(OTHER_FAILED)],
            compared => [compared, self.execute_half(subsystem, port, qid, second)],
        }
    }

    fn execute_half(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        half: FusedCommand<'_>,
    ) -> Answer {
        let mut command = *half.command;
        command.cdw0.set_fuse(Cdw0::FUSE_NONE);
        self.execute_io(subsystem, port, qid, &command, half.carried)
    }
}

/// Whether two commands are a Compare and a Write of the same blocks, as many as are written as one.
fn check_pair(first: &Command, second: &Command) -> Result<(), CommandError> {
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

const ALONE: CommandError =
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
