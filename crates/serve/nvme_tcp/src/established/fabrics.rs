//! Fabrics commands of a connection: properties and Disconnect; Connect and authentication have their own files.

use byway_executor::CapsuleDevice;
use byway_fabrics::{CommandError, ConnectData, FabricsCommand, Property, PropertyAccess};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::register::{Cc, Csts, Register};
use byway_spec::{Command, Status};
use tracing::{debug, info};

use super::{Established, ExecuteContext};
use crate::association::Association;
use crate::close_reason::CloseReason;
use crate::options::TargetEvent;
use crate::outbox::Outbox;
use crate::queue::Queue;
use crate::subsystem::Subsystem;

impl Established {
    /// Executes a fabrics command.
    pub(super) fn execute_fabrics(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let parsed = match FabricsCommand::parse(command) {
            Ok(parsed) => parsed,
            Err(CommandError::Connect(refusal)) => {
                let names = ConnectData::names(data.unwrap_or_default());
                self.refuse_connect(command, names, refusal, cx.out);
                return Ok(());
            }
            Err(error) => {
                self.responder.send_result(command, error.status(), error.dw0().into(), cx.out);
                return Ok(());
            }
        };
        let result = match parsed {
            FabricsCommand::Connect(connect) => {
                self.connect(command, connect, data.unwrap_or_default(), cx.now_ns, cx.out);
                return Ok(());
            }
            _ if matches!(self.queue, Queue::Unconnected) => Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr()),
            FabricsCommand::PropertyGet(property) => self.property(property, cx),
            // A failed device accepts no property writes.
            FabricsCommand::PropertySet { .. } if self.queue.is_admin() && cx.device.is_none() => {
                return Err(CloseReason::DeviceFailed);
            }
            FabricsCommand::PropertySet { property, value } => {
                self.set_property(property, value, cx).map(|()| 0)
            }
            FabricsCommand::Disconnect => return self.disconnect(command, cx.out),
            FabricsCommand::AuthenticationSend(sent) => match self.take_message(command, sent, data) {
                Ok(()) => return Ok(()),
                Err(status) => Err(status),
            },
            FabricsCommand::AuthenticationReceive(asked) => match self.ask_message(command, asked, data) {
                Ok(()) => return Ok(()),
                Err(status) => Err(status),
            },
        };
        let (status, dw) = result.map_or_else(|status| (status, 0), |dw| (Status::SUCCESS, dw));
        self.responder.send_result(command, status, dw, cx.out);
        Ok(())
    }

    /// Property Get, valid on an admin queue only.
    fn property(&self, access: PropertyAccess, cx: &mut ExecuteContext<'_, '_>) -> Result<u64, Status> {
        match (&self.queue, &mut cx.device) {
            (Queue::Discovery(discovery), _) => Ok(discovery.controller.property(access)),
            (Queue::Device(queue), Some(device)) if queue.qid == 0 => {
                let (id, offset) = (queue.association.controller, access.0.register().0);
                let low = u64::from(device.read_register(id, offset));
                let high = match access.0.bytes() {
                    8 => u64::from(device.read_register(id, offset + 4)),
                    _ => 0,
                };
                Ok(low | high << 32)
            }
            (Queue::Device(queue), None) if queue.qid == 0 => match access.0 {
                Property::Csts => Ok(queue.association.failed_status().into_bits().into()),
                _ => Err(Status::INTERNAL_ERROR),
            },
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    /// Property Set, valid on an admin queue only.
    fn set_property(
        &mut self,
        access: PropertyAccess,
        value: u64,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), Status> {
        match (&mut self.queue, &mut cx.device) {
            (Queue::Discovery(discovery), _) => {
                discovery.controller.set_property(access, value).map_err(|error| error.status())?;
            }
            (Queue::Device(queue), Some(device)) if queue.qid == 0 => {
                if !matches!(access.0, Property::Cc | Property::Csts) {
                    return Err(Status::INVALID_FIELD.with_dnr());
                }
                set_register(&queue.association, access.0.register(), value as u32, device);
            }
            _ => return Err(Status::INVALID_OPCODE.with_dnr()),
        }
        if access.0 == Property::Cc && !Cc::from_bits(value as u32).en() {
            // A controller reset drops all commands.
            self.responder.clear_outstanding();
        }
        Ok(())
    }

    /// Disconnect, valid on an I/O queue only.
    fn disconnect(&mut self, command: &Command, out: &mut Outbox) -> Result<(), CloseReason> {
        match &self.queue {
            Queue::Device(queue) if queue.qid > 0 => {
                self.responder.fail(command, Status::SUCCESS, out);
                Err(CloseReason::Left)
            }
            _ => {
                self.responder.fail(command, Status::INVALID_FIELD.with_dnr(), out);
                Ok(())
            }
        }
    }

    /// Follows up an admin command, which may have changed the keep alive timeout or caused events.
    pub(super) fn after_admin(
        &mut self,
        command: &Command,
        cx: &mut ExecuteContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let (Queue::Device(queue), Some(device)) = (&self.queue, &mut cx.device) else { return Ok(()) };
        let id = queue.association.controller;
        let sets_timeout = command.opcode() == AdminOpcode::SET_FEATURES.0
            && FeatureCdw10::from_bits(command.cdw10).fid() == FeatureId::KEEP_ALIVE;
        if sets_timeout {
            queue.association.set_keep_alive_ms(device.keep_alive_ms(id));
        }
        self.poll_completions(cx.out, cx.device.as_deref_mut())
    }

    /// Removes the connection's queue from the device; with an admin queue, the controller.
    pub fn leave(self, subsystem: &Subsystem, device: &mut CapsuleDevice<'_>, why: &CloseReason) {
        let Queue::Device(queue) = self.queue else { return };
        if !queue.is_there() {
            return;
        }
        let id = queue.association.controller;
        if queue.qid > 0 {
            debug!(controller = id.0, qid = queue.qid, %why, "queue disconnected");
            return device.disconnect(id, queue.qid);
        }
        subsystem.associations().remove(&queue.association);
        device.detach(id);
        if self.lock.is_some_and(|lock| !lock.is_authenticated()) {
            // Its connection was not reported either.
            return;
        }
        let why = (*why != CloseReason::Left).then(|| why.to_string());
        let Association { host, subsystem, .. } = &*queue.association;
        let (host, subsystem) = (host.clone(), subsystem.clone());
        info!(%host, %subsystem, controller = id.0, why = why.as_deref(), "host disconnected");
        (self.target.report)(TargetEvent::HostLeft { host, subsystem, controller: id.0, why });
    }
}

/// Writes a register. A controller reset ends the I/O queues; a shutdown stops the keep alive timer.
fn set_register(association: &Association, register: Register, value: u32, device: &mut CapsuleDevice<'_>) {
    let id = association.controller;
    let before = Cc::from_bits(device.read_register(id, Register::CC.0));
    device.write_register(id, register.0, value);
    association.set_status(Csts::from_bits(device.read_register(id, Register::CSTS.0)));
    if register != Register::CC {
        return;
    }
    let now = Cc::from_bits(value);
    if before.en() && !now.en() {
        info!(host = %association.host, controller = id.0, "controller reset");
        association.reset();
    }
    if now.en() && now.shn() == Cc::SHN_NONE {
        association.set_keep_alive_ms(device.keep_alive_ms(id));
    } else if now.shn() != Cc::SHN_NONE {
        association.set_keep_alive_ms(0);
    }
}
