//! Executing fused commands.

use byway_spec::nvm::NvmCdw12;
use byway_spec::{Cdw0, Command};

use super::Controller;
use super::finish::Answer;
use crate::counting::Typed;
use crate::error::CommandError;
use crate::fused::{ALONE, FusedCommand, OTHER_FAILED, check_pair};
use crate::namespace::engine::{BlockRun, Place};
use crate::namespace::{Namespace, Pair};
use crate::opcode;
use crate::outcome::ExternalWork;
use crate::port::Port;
use crate::queue::FusedPair;
use crate::reservation::Access;
use crate::subsystem::Subsystem;
use crate::ticket::Ticket;

impl Controller {
    /// Executes two fused commands of a ring and completes both.
    #[cold]
    pub(super) fn serve_pair(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        [first, second]: FusedPair,
        now_ps: u64,
    ) {
        let halves = [&first, &second]
            .map(|half| FusedCommand { command: &half.command, carried: half.payload.as_deref() });
        let qid = first.ticket.sqid;
        let [compared, written] = self.execute_fused(subsystem, port, qid, halves);
        let changes = subsystem.syncs_completions() && opcode::changes(false, second.command.opcode());
        self.count_pair(subsystem, port, qid, halves, ([&compared, &written], changes));
        self.finish(port, first.ticket, compared, false);
        self.finish(port, second.ticket, written, changes);
        self.announce_each(port, now_ps);
    }

    /// Aborts a first command that has no second.
    #[cold]
    pub(super) fn abort_alone(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        (ticket, command): (Ticket, &Command),
        now_ps: u64,
    ) {
        let aborted = Err(ALONE);
        self.count(subsystem, port, Typed::of(ticket.sqid, command), None, (&aborted, false));
        self.finish(port, ticket, aborted, false);
        self.announce_each(port, now_ps);
    }

    /// Executes two fused commands of I/O queue `qid` as one: both, or neither. If one fails before it changed anything,
    /// the other is aborted.
    pub(super) fn execute_fused(
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
        // The second first: nothing is compared where the Write is refused.
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

    /// Begins two fused commands in the external engine of their namespace, each with its data. Both are completed when
    /// the engine has finished them.
    fn begin_fused(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        [first, second]: [FusedCommand<'_>; 2],
    ) -> [Answer; 2] {
        let (compare, run) = match self.reserve_half(subsystem, port, qid, first) {
            Ok(reserved) => reserved,
            Err(error) => return [Err(error), Err(OTHER_FAILED)],
        };
        let nsid = first.command.nsid;
        let write = match self.reserve_half(subsystem, port, qid, second) {
            Ok((write, _)) => write,
            Err(error) => {
                subsystem.release_external(ExternalWork::Engine { nsid, place: compare });
                return [Err(OTHER_FAILED), Err(error)];
            }
        };
        let fua = NvmCdw12::from_bits(second.command.cdw12).fua();
        subsystem.begin_pair(nsid, Pair { compare, write, run, fua })
    }

    fn reserve_half(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        qid: u16,
        half: FusedCommand<'_>,
    ) -> Result<(Place, BlockRun), CommandError> {
        let FusedCommand { command, carried } = half;
        self.check_io(subsystem, port, command, carried)?;
        let target = (qid, command.nsid, opcode::access(command.opcode()));
        self.with_namespace(subsystem, port, target, carried, |namespace, execution| match namespace {
            Namespace::Exported(exported) => exported.reserve_half(execution, command),
            _ => Err(CommandError::invalid_field("no namespace of an external engine")),
        })
    }
}
