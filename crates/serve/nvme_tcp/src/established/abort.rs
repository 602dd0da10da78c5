//! Abort of commands that wait for solicited data or for their fused half (decision 38).
//!
//! Such a command is registered with the device. Under the run lock it is then either claimed and executed, or aborted and answered
//! by the device. Solicited data of an aborted command still arrives and is dropped.

use byway_executor::CapsuleDevice;
use byway_spec::{Command, Status};

use super::{Established, ExecuteContext};
use crate::outbox::Outbox;
use crate::queue::Queue;

impl Established {
    /// Registers a waiting command with the device.
    pub(super) fn register_waiting(&self, command: &Command, cx: &mut ExecuteContext<'_, '_>) {
        if let (Queue::Device(queue), Some(device)) = (&self.queue, &mut cx.device) {
            device.register_waiting(queue.at(), command);
        }
    }

    /// Claims a waiting command; whether it is to be executed. Else it was aborted, and the device answers it.
    pub(super) fn claim(&mut self, command: &Command, cx: &mut ExecuteContext<'_, '_>) -> bool {
        cx.device.as_deref_mut().is_some_and(|device| self.claim_of(command, device))
    }

    fn claim_of(&mut self, command: &Command, device: &mut CapsuleDevice<'_>) -> bool {
        let Queue::Device(queue) = &self.queue else { return false };
        let is_mine = device.claim(queue.at(), command.cid());
        self.responder.add_outstanding(usize::from(!is_mine));
        is_mine
    }

    /// The device has answered an aborted command: stop waiting for its data, and fail its fused half.
    #[cold]
    pub(super) fn withdraw(&mut self, cid: u16, out: &mut Outbox, device: &mut CapsuleDevice<'_>) {
        let (is_fused, other) = self.fused.withdraw(cid);
        // No short circuit: a fused command may also wait for data.
        let waited = self.pending.withdraw(cid) | is_fused;
        self.responder.add_outstanding(usize::from(waited));
        if let Some(other) = other {
            self.pending.withdraw(other.cid());
            if self.claim_of(&other, device) {
                self.responder.fail(&other, Status::ABORTED_FAILED_FUSED, out);
            }
        }
        self.ask(out);
    }
}
