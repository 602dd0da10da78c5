//! Fused commands of a connection (Base 2.1, section 3.4.2): two consecutive capsules, executed as one when both have their data.

use byway_controller::{CAPSULE_DATA_BYTES, FusedCommand};
use byway_spec::{Cdw0, Command, Status};

use super::{Established, ExecuteContext};
use crate::close_reason::CloseReason;
use crate::data::{Data, data_of};
use crate::fused_pairs::{Arrival, Half, Pair, Second};
use crate::outbox::Outbox;
use crate::queue::{DeviceQueue, Queue};

/// Data of pairs that wait for their other half, from which on the connection ends.
const HELD_BYTES_MAX: usize = 2 << 20;

impl Established {
    /// Whether a command is fused, or follows a first command.
    #[inline]
    pub(super) fn is_fused(&self, command: &Command) -> bool {
        self.fused.awaits_second()
            || (command.cdw0.fuse() == Cdw0::FUSE_FIRST
                && matches!(&self.queue, Queue::Device(queue) if queue.qid > 0))
    }

    /// Takes a command that is [fused](Self::is_fused), with its in-capsule data.
    #[cold]
    pub(super) fn arrive_fused(
        &mut self,
        command: &Command,
        data: Result<Option<&[u8]>, Status>,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let fuse = command.cdw0.fuse();
        if fuse != Cdw0::FUSE_SECOND {
            self.fused.abandon_first();
            self.settle_fused(cx)?;
        }
        if !matches!(fuse, Cdw0::FUSE_FIRST | Cdw0::FUSE_SECOND) {
            return match data {
                Ok(data) => self.arrive_single(command, data, cx),
                Err(status) => {
                    self.responder.fail(command, status, cx.out);
                    Ok(())
                }
            };
        }
        if fuse == Cdw0::FUSE_SECOND && self.fused.take_aborted_first() {
            self.responder.fail(command, Status::ABORTED_FAILED_FUSED, cx.out);
            return Ok(());
        }
        if self.fused.held_bytes() > HELD_BYTES_MAX {
            return Err(CloseReason::Overrun);
        }
        let data = data.and_then(|data| arrival_of(command, data)).unwrap_or_else(Arrival::Failed);
        let is_solicited = data == Arrival::Solicited;
        self.register_waiting(command, cx);
        self.fused.add(Half { command: *command, data });
        if is_solicited {
            self.pending.wait(*command);
            self.ask(cx.out);
        }
        self.settle_fused(cx)
    }

    /// Executes or aborts pairs that wait for nothing.
    pub(super) fn settle_fused(&mut self, cx: &mut ExecuteContext<'_, '_>) -> Result<(), CloseReason> {
        let Queue::Device(queue) = &self.queue else { return Ok(()) };
        let at = queue.at();
        while let Some(Pair { first, second }) = self.fused.next_settled() {
            match second {
                Second::Arrived(second) => self.end_pair(at, &first, &second, cx)?,
                Second::Awaited | Second::Missing => self.end_alone(at, &first, cx)?,
            }
        }
        Ok(())
    }

    fn end_pair(
        &mut self,
        at: DeviceQueue,
        first: &Half,
        second: &Half,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        // Claim both, even if one was aborted.
        let claimed = [first, second].map(|half| self.claim(&half.command, cx));
        match (first.as_fused(), second.as_fused()) {
            (Ok(first), Ok(second)) if claimed == [true; 2] => {
                return self.execute_fused(at, [first, second], cx);
            }
            (compared, written) => {
                let halves = [(first, compared.err()), (second, written.err())];
                for (half, status) in
                    halves.into_iter().zip(claimed).filter_map(|(half, mine)| mine.then_some(half))
                {
                    self.end_without_data(half, status, cx.out);
                }
            }
        }
        Ok(())
    }

    /// Fails one command of a pair of which one has lost its data: with `status`, or because of the other.
    fn end_without_data(&self, half: &Half, status: Option<Status>, out: &mut Outbox) {
        self.responder.fail(&half.command, status.unwrap_or(Status::ABORTED_FAILED_FUSED), out);
    }

    /// Executes a first command without its second, which the device refuses and logs.
    fn end_alone(
        &mut self,
        at: DeviceQueue,
        first: &Half,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        if !self.claim(&first.command, cx) {
            return Ok(());
        }
        match first.as_fused() {
            Ok(FusedCommand { command, carried }) => self.execute_at(at, command, carried, 0, cx),
            Err(status) => {
                self.responder.fail(&first.command, status, cx.out);
                Ok(())
            }
        }
    }
}

/// The data of a fused command. More than fits a capsule is not solicited, as such a command is refused.
fn arrival_of(command: &Command, data: Option<&[u8]>) -> Result<Arrival, Status> {
    // Compare and Write move at least one block.
    Ok(match data_of(command, true, data.map(<[u8]>::len))? {
        Data::InCapsule => Arrival::Complete(Some(data.unwrap_or_default().to_vec())),
        Data::AtHost if command.sgl1().length_bytes <= CAPSULE_DATA_BYTES => Arrival::Solicited,
        Data::AtHost => Arrival::Complete(Some(Vec::new())),
        Data::None | Data::ToHost(_) => Arrival::Complete(None),
    })
}
