//! Commands that wait for their data, or for the command that they are fused with: a host may have them aborted.
//!
//! The device knows of each while it waits, and decides: it is claimed, and executed, or aborted, and the device answers it.
//! Either is done with the device in hand. What its host was asked for comes all the same, and is dropped.

use byway_local::CapsuleDevice;
use byway_spec::{Command, Status};

use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::session::{Hand, Open};

impl Open {
    /// A command waits from here on.
    pub(crate) fn expect(&self, command: &Command, hand: &mut Hand<'_, '_>) {
        if let (Queue::Device(queue), Some(device)) = (&self.queue, &mut hand.device) {
            device.expect(queue.at(), command);
        }
    }

    /// A command waits no more: whether it is to be executed. Else it was aborted, and its answer is the device's.
    pub(crate) fn claim(&mut self, command: &Command, hand: &mut Hand<'_, '_>) -> bool {
        hand.device.as_deref_mut().is_some_and(|device| self.claim_of(command, device))
    }

    fn claim_of(&mut self, command: &Command, device: &mut CapsuleDevice<'_>) -> bool {
        let Queue::Device(queue) = &self.queue else { return false };
        let is_mine = device.claim(queue.at(), command.cid());
        self.outstanding += usize::from(!is_mine);
        is_mine
    }

    /// A command was aborted, and its answer is here: if it still waits, nothing more is waited for. The command that it is
    /// fused with fails for that.
    #[cold]
    pub(crate) fn withdraw(&mut self, cid: u16, out: &mut Outbox, device: &mut CapsuleDevice<'_>) {
        let (is_fused, other) = self.fused.withdraw(cid);
        // Both are asked: a fused command may wait for its data too.
        let waited = self.pending.withdraw(cid) | is_fused;
        self.outstanding += usize::from(waited);
        if let Some(other) = other {
            self.pending.withdraw(other.cid());
            if self.claim_of(&other, device) {
                self.fail(&other, Status::ABORTED_FAILED_FUSED, out);
            }
        }
        self.ask(out);
    }
}
