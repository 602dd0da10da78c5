//! Fabrics commands of a connection: Connect, which puts something behind it, properties, Disconnect.

use std::sync::Arc;

use byway_controller::{ControllerId, Host, PortId};
use byway_fabrics::authentication::Parties;
use byway_fabrics::{
    Accepted, Connect, ConnectData, ConnectRefusal, ControllerChoice, FabricsCommand, Parameter, Property,
    PropertyAccess, RefusalKind,
};
use byway_in_process::{AttachError, CapsuleDevice};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::register::{Cc, Register};
use byway_spec::{Command, Completion, Status};

use crate::association::Association;
use crate::authentication::Lock;
use crate::discovery::DiscoveryController;
use crate::options::{ADMIN_ENTRIES_MAX, Told};
use crate::outbox::Outbox;
use crate::queue::{ConnectedQueue, Discovery, Queue};
use crate::session::{Ended, Hand, Open};

impl Open {
    /// Executes a fabrics command.
    pub(crate) fn execute_fabrics(
        &mut self,
        command: &Command,
        data: Option<&[u8]>,
        hand: &mut Hand<'_, '_>,
    ) -> Result<(), Ended> {
        let parsed = match FabricsCommand::parse(command) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.send_result(command, error.status(), error.dw0().into(), hand.out);
                return Ok(());
            }
        };
        let result = match parsed {
            FabricsCommand::Connect(connect) => self
                .connect(&connect, data.unwrap_or_default(), hand.device, hand.now_ns)
                .map_err(|refusal| {
                    self.premises.rare.refuse(refusal.kind);
                    (refusal.status(), u64::from(refusal.dw0()))
                }),
            _ if matches!(self.queue, Queue::Unconnected) => {
                Err((Status::COMMAND_SEQUENCE_ERROR.with_dnr(), 0))
            }
            FabricsCommand::PropertyGet(property) => {
                self.property(property, hand.device).map_err(|status| (status, 0))
            }
            FabricsCommand::PropertySet { property, value } => {
                self.set_property(property, value, hand.device).map(|()| 0).map_err(|status| (status, 0))
            }
            FabricsCommand::Disconnect => return self.disconnect(command, hand.out),
            FabricsCommand::AuthenticationSend(sent) => match self.take_message(command, sent, data) {
                Ok(()) => return Ok(()),
                Err(status) => Err((status, 0)),
            },
            FabricsCommand::AuthenticationReceive(asked) => match self.ask_message(command, asked, data) {
                Ok(()) => return Ok(()),
                Err(status) => Err((status, 0)),
            },
        };
        let (status, dw) = result.map_or_else(|error| error, |dw| (Status::SUCCESS, dw));
        self.send_result(command, status, dw, hand.out);
        Ok(())
    }

    fn send_result(&self, command: &Command, status: Status, result: u64, out: &mut Outbox) {
        self.send(Completion::new(0, 0, command.cid(), status).with_result(result), out);
    }

    fn connect(
        &mut self,
        connect: &Connect,
        data: &[u8],
        device: &mut CapsuleDevice<'_>,
        now_ns: u64,
    ) -> Result<u64, ConnectRefusal> {
        if !matches!(self.queue, Queue::Unconnected) {
            return Err(ConnectRefusal::for_good(RefusalKind::Other(Status::COMMAND_SEQUENCE_ERROR)));
        }
        let data = ConnectData::parse(data)?;
        if let Some(parties) = &self.secured {
            check_parties(parties, &data)?;
        }
        if data.subsystem.is_discovery() {
            return self.connect_discovery(connect, &data, now_ns);
        }
        let port = self.place.port.filter(|_| data.subsystem == self.premises.options.subsystem);
        let port = port.ok_or(ConnectRefusal::invalid(Parameter::SUBNQN))?;
        let keys = self.premises.keys.now();
        // Keys may have come since the connection began.
        let came_as_asked = self.secured.is_some() || !keys.require_tls(&self.place);
        if !came_as_asked || !self.premises.admits(&data.host, &keys) {
            return Err(ConnectRefusal::for_good(RefusalKind::InvalidHost));
        }
        let lock = Lock::of(&self.premises, &keys, &data.host, now_ns);
        let queue = match (connect.qid, data.controller) {
            (0, ControllerChoice::Dynamic) => self.connect_admin((connect, port), data, device, now_ns)?,
            (0, _) | (_, ControllerChoice::Dynamic) => {
                return Err(ConnectRefusal::invalid(Parameter::CNTLID));
            }
            (_, ControllerChoice::Id(id)) => self.connect_io(connect, &data, ControllerId(id.0), device)?,
        };
        let id = byway_fabrics::ControllerId(queue.association.controller.0);
        if queue.qid > 0 {
            self.take_io_capsules();
        }
        self.seat(Queue::Device(queue), u32::from(connect.sqsize_z) + 1, connect.no_flow_control);
        self.lock = lock;
        self.tell_came();
        Ok(Accepted { controller: id, authenticate: self.lock.is_some(), secure: false }.dw0().into())
    }

    fn connect_discovery(
        &mut self,
        connect: &Connect,
        data: &ConnectData,
        now_ns: u64,
    ) -> Result<u64, ConnectRefusal> {
        if connect.qid != 0 {
            return Err(ConnectRefusal::invalid(Parameter::QID));
        }
        if data.controller != ControllerChoice::Dynamic {
            return Err(ConnectRefusal::invalid(Parameter::CNTLID));
        }
        if connect.sqsize_z >= ADMIN_ENTRIES_MAX {
            return Err(ConnectRefusal::invalid(Parameter::SQSIZE));
        }
        let id = self.premises.discovery_id();
        let log = self.premises.discovery_log(&data.host, &self.place);
        let controller = DiscoveryController::new(id, log, connect.keep_alive_ms);
        let discovery = Box::new(Discovery { controller, heard_ns: now_ns });
        self.seat(Queue::Discovery(discovery), u32::from(connect.sqsize_z) + 1, connect.no_flow_control);
        let controller = byway_fabrics::ControllerId(id);
        Ok(Accepted { controller, authenticate: false, secure: false }.dw0().into())
    }

    fn connect_admin(
        &mut self,
        (connect, port): (&Connect, PortId),
        data: ConnectData,
        device: &mut CapsuleDevice<'_>,
        now_ns: u64,
    ) -> Result<ConnectedQueue, ConnectRefusal> {
        if connect.sqsize_z >= ADMIN_ENTRIES_MAX {
            return Err(ConnectRefusal::invalid(Parameter::SQSIZE));
        }
        let id = device.attach(Host::named(&data.host_id.0), port).map_err(|error| match error {
            AttachError::NoRoom => ConnectRefusal::for_now(RefusalKind::Busy),
            AttachError::Host(error) => ConnectRefusal::for_good(RefusalKind::Other(error.status)),
        })?;
        let begun =
            device.set_keep_alive_ms(id, connect.keep_alive_ms).map_err(|_| Parameter::KATO).and_then(|()| {
                device.connect(id, 0, u32::from(connect.sqsize_z) + 1).map_err(|_| Parameter::SQSIZE)
            });
        if let Err(parameter) = begun {
            device.detach(id);
            return Err(ConnectRefusal::invalid(parameter));
        }
        let association = Arc::new(Association::new(id, data.host, data.host_id, now_ns));
        association.set_keep_alive_ms(device.keep_alive_ms(id));
        self.premises.associations.add(association.clone());
        Ok(ConnectedQueue { association, qid: 0, resets: 0 })
    }

    fn connect_io(
        &self,
        connect: &Connect,
        data: &ConnectData,
        id: ControllerId,
        device: &mut CapsuleDevice<'_>,
    ) -> Result<ConnectedQueue, ConnectRefusal> {
        use byway_controller::ConnectError;
        let no_controller = ConnectRefusal::invalid(Parameter::CNTLID);
        let association = self.premises.associations.find(id).ok_or(no_controller)?;
        if association.host != data.host {
            return Err(ConnectRefusal::invalid(Parameter::HOSTNQN));
        }
        if association.host_id != data.host_id {
            return Err(ConnectRefusal::invalid(Parameter::HOSTID));
        }
        let resets = association.resets();
        device.connect(id, connect.qid, u32::from(connect.sqsize_z) + 1).map_err(|error| match error {
            // One of the same number may be about to go: the host may try again.
            ConnectError::QueueId => ConnectRefusal::for_now(RefusalKind::Invalid(Parameter::QID)),
            ConnectError::Entries => ConnectRefusal::invalid(Parameter::SQSIZE),
            ConnectError::NotReady => {
                ConnectRefusal::for_good(RefusalKind::Other(Status::COMMAND_SEQUENCE_ERROR))
            }
        })?;
        Ok(ConnectedQueue { association, qid: connect.qid, resets })
    }

    /// A property, which the admin queue alone has.
    fn property(&self, access: PropertyAccess, device: &mut CapsuleDevice<'_>) -> Result<u64, Status> {
        match &self.queue {
            Queue::Discovery(discovery) => Ok(discovery.controller.property(access)),
            Queue::Device(queue) if queue.qid == 0 => {
                let (id, offset) = (queue.association.controller, access.0.register().0);
                let low = u64::from(device.read_register(id, offset));
                let high = match access.0.bytes() {
                    8 => u64::from(device.read_register(id, offset + 4)),
                    _ => 0,
                };
                Ok(low | high << 32)
            }
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    fn set_property(
        &mut self,
        access: PropertyAccess,
        value: u64,
        device: &mut CapsuleDevice<'_>,
    ) -> Result<(), Status> {
        match &mut self.queue {
            Queue::Discovery(discovery) => {
                discovery.controller.set_property(access, value).map_err(|error| error.status())?;
            }
            Queue::Device(queue) if queue.qid == 0 => {
                if !matches!(access.0, Property::Cc | Property::Csts) {
                    return Err(Status::INVALID_FIELD.with_dnr());
                }
                set_register(&queue.association, access.0.register(), value as u32, device);
            }
            _ => return Err(Status::INVALID_OPCODE.with_dnr()),
        }
        if access.0 == Property::Cc && !Cc::from_bits(value as u32).en() {
            // A reset leaves no command behind.
            self.outstanding = 0;
        }
        Ok(())
    }

    /// Ends an I/O queue by itself.
    fn disconnect(&mut self, command: &Command, out: &mut Outbox) -> Result<(), Ended> {
        match &self.queue {
            Queue::Device(queue) if queue.qid > 0 => {
                self.fail(command, Status::SUCCESS, out);
                Err(Ended::Left)
            }
            _ => {
                self.fail(command, Status::INVALID_FIELD.with_dnr(), out);
                Ok(())
            }
        }
    }

    /// What an admin command may have changed.
    pub(crate) fn after_admin(&mut self, command: &Command, hand: &mut Hand<'_, '_>) -> Result<(), Ended> {
        let Queue::Device(queue) = &self.queue else { return Ok(()) };
        let id = queue.association.controller;
        let sets_timeout = command.opcode() == AdminOpcode::SET_FEATURES.0
            && FeatureCdw10::from_bits(command.cdw10).fid() == FeatureId::KEEP_ALIVE;
        if sets_timeout {
            queue.association.set_keep_alive_ms(hand.device.keep_alive_ms(id));
        }
        self.look(hand.out, hand.device)
    }

    /// Gives up what the device has of the connection. With the admin queue the controller goes.
    pub(crate) fn leave(self, device: &mut CapsuleDevice<'_>, why: &Ended) {
        let Queue::Device(queue) = self.queue else { return };
        if !queue.is_there() {
            return;
        }
        let id = queue.association.controller;
        if queue.qid > 0 {
            return device.disconnect(id, queue.qid);
        }
        self.premises.associations.remove(&queue.association);
        device.detach(id);
        if self.lock.is_some_and(|lock| !lock.is_proven()) {
            // Nobody was told that it came.
            return;
        }
        let why = (*why != Ended::Left).then(|| why.to_string());
        let host = queue.association.host.clone();
        (self.premises.tell)(Told::HostLeft { host, controller: id.0, why });
    }
}

/// A key is one host's, and for one subsystem: nobody else is connected by it.
fn check_parties(parties: &Parties, data: &ConnectData) -> Result<(), ConnectRefusal> {
    if parties.host != data.host {
        return Err(ConnectRefusal::for_good(RefusalKind::InvalidHost));
    }
    if parties.subsystem != data.subsystem {
        return Err(ConnectRefusal::invalid(Parameter::SUBNQN));
    }
    Ok(())
}

/// Writes a register. A controller reset ends the I/O queues, and nothing is waited for of a host that shuts down.
fn set_register(association: &Association, register: Register, value: u32, device: &mut CapsuleDevice<'_>) {
    let id = association.controller;
    let before = Cc::from_bits(device.read_register(id, Register::CC.0));
    device.write_register(id, register.0, value);
    if register != Register::CC {
        return;
    }
    let now = Cc::from_bits(value);
    if before.en() && !now.en() {
        association.reset();
    }
    if now.en() && now.shn() == Cc::SHN_NONE {
        association.set_keep_alive_ms(device.keep_alive_ms(id));
    } else if now.shn() != Cc::SHN_NONE {
        association.set_keep_alive_ms(0);
    }
}
