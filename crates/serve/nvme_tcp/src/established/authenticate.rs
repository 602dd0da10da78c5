//! Authentication messages of a host.
//!
//! Computation in large DH groups takes milliseconds. So a message is stored when it is read, under the run lock, and processed
//! after the lock was released.

use byway_fabrics::Authentication;
use byway_fabrics::authentication::{AuthenticationError, Verdict};
use byway_spec::base::sgl::SglKind;
use byway_spec::{Command, Status};
use tracing::info;

use super::Established;
use crate::association::Association;
use crate::close_reason::CloseReason;
use crate::discovery::Answer;
use crate::lock::AuthCommand;
use crate::options::TargetEvent;
use crate::outbox::Outbox;
use crate::queue::Queue;

impl Established {
    /// Stores a message of the host.
    pub(super) fn take_message(
        &mut self,
        command: &Command,
        sent: Authentication,
        data: Option<&[u8]>,
    ) -> Result<(), Status> {
        let message = data.filter(|data| data.len() == sent.bytes as usize);
        let message = message.ok_or_else(|| Status::INVALID_FIELD.with_dnr())?;
        let lock = self.lock.as_mut().ok_or_else(|| Status::INVALID_OPCODE.with_dnr())?;
        lock.store(AuthCommand::Send(*command, message.to_vec()));
        Ok(())
    }

    /// Stores the host's request for a message.
    pub(super) fn ask_message(
        &mut self,
        command: &Command,
        asked: Authentication,
        data: Option<&[u8]>,
    ) -> Result<(), Status> {
        let descriptor = command.sgl1();
        if data.is_some() || asked.bytes != descriptor.length_bytes {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        if descriptor.kind != SglKind::TRANSPORT_DATA_BLOCK {
            return Err(Status::SGL_TYPE_INVALID.with_dnr());
        }
        let lock = self.lock.as_mut().ok_or_else(|| Status::INVALID_OPCODE.with_dnr())?;
        lock.store(AuthCommand::Receive(*command));
        Ok(())
    }

    /// Processes a stored message and answers it, without the device.
    ///
    /// # Errors
    /// Authentication failed: the connection ends after the response was sent.
    pub(crate) fn authenticate(&mut self, out: &mut Outbox, now_ns: u64) -> Result<(), CloseReason> {
        let Some(lock) = &mut self.lock else { return Ok(()) };
        let Some(stored) = lock.take_stored() else { return Ok(()) };
        let (command, answer, verdict) = lock.step(stored, now_ns);
        let is_reported = match (&answer, &verdict) {
            (Answer::Data(_), _) => true,
            // The host reported the failure itself, or the controller has no message for it.
            (_, Verdict::Failed(AuthenticationError::Refused(_) | AuthenticationError::NoEntropy)) => true,
            _ => false,
        };
        if let Verdict::Failed(why) = &verdict {
            info!(host = %lock.host(), from = %self.endpoints.from, %why, "authentication failed");
        }
        let ended = match verdict {
            Verdict::Failed(why) if is_reported => Some(lock.ended(why)),
            Verdict::Failed(_) | Verdict::GoesOn => None,
            Verdict::Authenticated => {
                if let Some(psk) = lock.take_psk() {
                    self.target.directory.add_key(psk);
                }
                if lock.prove() {
                    self.queue.set_authenticated();
                    self.report_connected();
                }
                None
            }
        };
        self.responder.answer(&command, answer, command.sgl1().length_bytes as usize, out);
        ended.map_or(Ok(()), Err)
    }

    /// Reports a connected host: after the Connect of its admin queue, or after authentication where that is required.
    pub(super) fn report_connected(&self) {
        let Queue::Device(queue) = &self.queue else { return };
        if queue.qid > 0 || self.lock.as_ref().is_some_and(|lock| !lock.is_authenticated()) {
            return;
        }
        let Association { host, subsystem, controller, .. } = &*queue.association;
        let (host, subsystem) = (host.clone(), subsystem.clone());
        let from = self.endpoints.from;
        info!(%host, %subsystem, controller = controller.0, %from, "host connected");
        (self.target.report)(TargetEvent::HostConnected { host, subsystem, controller: controller.0, from });
    }
}
