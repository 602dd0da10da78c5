//! Compare and Write of a namespace that another engine keeps: both have their data before the first is begun.

use super::{Answer, FusedCommand, OTHER_FAILED};
use crate::admin::effects;
use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::engine::{BlockRun, Place};
use crate::namespace::{Namespace, Pair};
use crate::port::Port;
use crate::subsystem::Subsystem;
use byway_spec::nvm::NvmCdw12;

impl Controller {
    /// Begins two fused commands in the engine of their namespace. Both are completed when it has done them.
    pub(super) fn begin_fused(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        [first, second]: [FusedCommand<'_>; 2],
    ) -> [Answer; 2] {
        let (compare, run) = match self.hold_half(subsystem, port, qid, first) {
            Ok(held) => held,
            Err(error) => return [Err(error), Err(OTHER_FAILED)],
        };
        let nsid = first.command.nsid;
        let write = match self.hold_half(subsystem, port, qid, second) {
            Ok((write, _)) => write,
            Err(error) => {
                subsystem.release_elsewhere(nsid, compare);
                return [Err(OTHER_FAILED), Err(error)];
            }
        };
        let fua = NvmCdw12::from_bits(second.command.cdw12).fua();
        subsystem.begin_pair(nsid, Pair { compare, write, run, fua })
    }

    fn hold_half(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        half: FusedCommand<'_>,
    ) -> Result<(Place, BlockRun), CommandError> {
        let FusedCommand { command, carried } = half;
        self.check_io(subsystem, port, command, carried)?;
        let target = (qid, command.nsid, effects::access(command.opcode()));
        self.with_namespace(subsystem, port, target, carried, |namespace, execution| match namespace {
            Namespace::Exported(exported) => exported.hold_half(execution, command),
            _ => Err(CommandError::invalid_field("no namespace of another engine")),
        })
    }
}
