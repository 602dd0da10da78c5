//! Connect.
//!
//! A Connect is read without a run lock, since it names the subsystem. It is checked at once; the subsystem then answers it under
//! its device's run lock, after checking again. Discovery answers at once.

use std::sync::Arc;

use byway_controller::{ConnectError, ControllerId, Host, PortId};
use byway_executor::{AttachError, CapsuleDevice};
use byway_fabrics::authentication::Parties;
use byway_fabrics::{
    Accepted, Connect, ConnectData, ConnectRefusal, ControllerChoice, Parameter, RefusalKind,
};
use byway_spec::{Command, Status};
use tracing::{debug, info};

use super::Established;
use crate::association::Association;
use crate::discovery::DiscoveryController;
use crate::lock::Lock;
use crate::options::{ADMIN_ENTRIES_MAX, TargetEvent};
use crate::outbox::Outbox;
use crate::queue::{ConnectedQueue, Discovery, Queue};
use crate::subsystem::Subsystem;
use crate::tls_identity::TlsIdentity;

/// A checked Connect that its subsystem is to answer.
#[derive(Debug)]
pub(crate) struct Admission {
    command: Command,
    connect: Connect,
    data: ConnectData,
    port: PortId,
    subsystem: Arc<Subsystem>,
}

impl Admission {
    /// The subsystem to answer it.
    pub fn subsystem(&self) -> &Arc<Subsystem> {
        &self.subsystem
    }
}

impl Established {
    /// Takes a Connect: answers it, or stores it for its subsystem.
    pub(super) fn connect(
        &mut self,
        command: &Command,
        connect: Connect,
        data: &[u8],
        now_ns: u64,
        out: &mut Outbox,
    ) {
        match self.check_connect(command, connect, data, now_ns) {
            Ok(None) => {}
            Ok(Some(accepted)) => self.accept_connect(command, accepted, out),
            Err(refusal) => self.refuse_connect(command, ConnectData::names(data), refusal, out),
        }
    }

    fn accept_connect(&mut self, command: &Command, accepted: Accepted, out: &mut Outbox) {
        self.responder.send_result(command, Status::SUCCESS, accepted.dw0().into(), out);
    }

    /// Answers a refused Connect and reports it, once for each connection.
    #[cold]
    pub(super) fn refuse_connect(
        &mut self,
        command: &Command,
        (host, subsystem): (String, String),
        refusal: ConnectRefusal,
        out: &mut Outbox,
    ) {
        let why = reason(&refusal, &host, &self.queue);
        self.report_refusal(host, subsystem, why);
        self.target.counters.refuse(refusal.kind);
        self.responder.send_result(command, refusal.status(), refusal.dw0().into(), out);
    }

    fn report_refusal(&mut self, host: String, subsystem: String, why: &'static str) {
        if !std::mem::replace(&mut self.is_refused, true) {
            let from = self.endpoints.from;
            info!(%host, %subsystem, %from, why, "Connect refused");
            (self.target.report)(TargetEvent::HostRefused { host, subsystem, from, why });
        }
    }

    /// Checks a Connect. Discovery's is accepted at once; for a subsystem's, `None` is returned and the admission stored.
    fn check_connect(
        &mut self,
        command: &Command,
        connect: Connect,
        data: &[u8],
        now_ns: u64,
    ) -> Result<Option<Accepted>, ConnectRefusal> {
        if !matches!(self.queue, Queue::Unconnected) {
            return Err(ConnectRefusal::for_good(RefusalKind::Other(Status::COMMAND_SEQUENCE_ERROR)));
        }
        let data = ConnectData::parse(data)?;
        self.check_parties(&data)?;
        if data.subsystem.is_discovery() {
            return self.connect_discovery(&connect, data, now_ns).map(Some);
        }
        let listing = self.target.directory.listing();
        let (subsystem, port) =
            listing.subsystem_at(&data.subsystem, self.endpoints.port).ok_or_else(|| {
                self.turn_away(
                    &data,
                    "there is no such subsystem here",
                    ConnectRefusal::invalid(Parameter::SUBNQN),
                )
            })?;
        self.check_host(subsystem, connect.qid, &data)?;
        if subsystem.has_failed() {
            return Err(ConnectRefusal::for_now(RefusalKind::Other(Status::INTERNAL_ERROR)));
        }
        self.admission = Some(Box::new(Admission {
            command: *command,
            connect,
            data,
            port,
            subsystem: subsystem.clone(),
        }));
        Ok(None)
    }

    /// Checks the host against the subsystem's access list and TLS policy.
    fn check_host(
        &mut self,
        subsystem: &Subsystem,
        qid: u16,
        data: &ConnectData,
    ) -> Result<(), ConnectRefusal> {
        let invalid_host = ConnectRefusal::for_good(RefusalKind::InvalidHost);
        if !subsystem.admits(&data.host) {
            return Err(self.turn_away(data, "it is not among those that may connect", invalid_host));
        }
        if self.tls.is_none() && !subsystem.keys().admit_in_clear(qid) {
            return Err(self.turn_away(data, "it came in the clear", invalid_host));
        }
        Ok(())
    }

    /// Checks HOSTNQN and SUBNQN against the TLS key, which is valid for one host and one subsystem.
    fn check_parties(&mut self, data: &ConnectData) -> Result<(), ConnectRefusal> {
        let (why, refusal) = match &self.tls {
            Some(TlsIdentity { parties, .. }) if parties.host != data.host => {
                ("it came by another host's key", ConnectRefusal::for_good(RefusalKind::InvalidHost))
            }
            Some(TlsIdentity { parties, .. }) if parties.subsystem != data.subsystem => {
                ("it came by a key for another subsystem", ConnectRefusal::invalid(Parameter::SUBNQN))
            }
            _ => return Ok(()),
        };
        Err(self.turn_away(data, why, refusal))
    }

    /// Reports a refused host, once for each connection.
    #[cold]
    fn turn_away(
        &mut self,
        data: &ConnectData,
        why: &'static str,
        refusal: ConnectRefusal,
    ) -> ConnectRefusal {
        self.report_refusal(data.host.to_string(), data.subsystem.to_string(), why);
        refusal
    }

    fn connect_discovery(
        &mut self,
        connect: &Connect,
        data: ConnectData,
        now_ns: u64,
    ) -> Result<Accepted, ConnectRefusal> {
        if connect.qid != 0 {
            return Err(ConnectRefusal::invalid(Parameter::QID));
        }
        if data.controller != ControllerChoice::Dynamic {
            return Err(ConnectRefusal::invalid(Parameter::CNTLID));
        }
        if connect.sqsize_z >= ADMIN_ENTRIES_MAX {
            return Err(ConnectRefusal::invalid(Parameter::SQSIZE));
        }
        let slot = self.target.take_discovery_slot().ok_or(ConnectRefusal::for_now(RefusalKind::Busy))?;
        let id = self.target.discovery_id();
        let (endpoints, directory) = (self.endpoints, &self.target.directory);
        debug!(host = %data.host, from = %endpoints.from, controller = id, "discovery client connected");
        let controller = DiscoveryController::new(id, data.host, endpoints, directory, connect.keep_alive_ms);
        let discovery = Box::new(Discovery::new(controller, slot, now_ns));
        self.bind(Queue::Discovery(discovery), connect);
        let controller = byway_fabrics::ControllerId(id);
        Ok(Accepted { controller, authenticate: false, secure: false })
    }

    /// Has the subsystem answer the stored Connect, under its device's run lock; whether the host is connected.
    pub fn admit(
        &mut self,
        subsystem: &Subsystem,
        out: &mut Outbox,
        device: &mut CapsuleDevice<'_>,
        now_ns: u64,
    ) -> bool {
        let Some(admission) = self.admission.take() else { return false };
        let (command, data) = (admission.command, &admission.data);
        let names = (data.host.to_string(), data.subsystem.to_string());
        match self.enter(*admission, subsystem, device, now_ns) {
            Ok(accepted) => {
                self.accept_connect(&command, accepted, out);
                self.report_connected();
                true
            }
            Err(refusal) => {
                self.refuse_connect(&command, names, refusal, out);
                false
            }
        }
    }

    fn enter(
        &mut self,
        Admission { connect, data, port, .. }: Admission,
        subsystem: &Subsystem,
        device: &mut CapsuleDevice<'_>,
        now_ns: u64,
    ) -> Result<Accepted, ConnectRefusal> {
        // The configuration may have changed since the first check.
        self.check_host(subsystem, connect.qid, &data)?;
        if !self.target.directory.listing().has_port(port) || !subsystem.is_at(port) {
            return Err(ConnectRefusal::invalid(Parameter::SUBNQN));
        }
        let parties = Parties { host: data.host.clone(), subsystem: subsystem.nqn().clone() };
        let data_host = data.host.clone();
        let lock = Lock::of(&subsystem.keys(), parties, connect.qid, self.tls.as_ref(), now_ns);
        let must_authenticate = lock.as_ref().is_some_and(|lock| !lock.is_authenticated());
        let secure = lock.as_ref().is_some_and(|lock| lock.is_for_key());
        let queue = match (connect.qid, data.controller) {
            (0, ControllerChoice::Dynamic) => {
                if must_authenticate {
                    subsystem.associations().make_room_for_unauthenticated();
                }
                let queue = connect_admin(subsystem, (&connect, port), data, device, now_ns)?;
                queue.association.set_unauthenticated(must_authenticate);
                queue
            }
            (0, _) | (_, ControllerChoice::Dynamic) => {
                return Err(ConnectRefusal::invalid(Parameter::CNTLID));
            }
            (_, ControllerChoice::Id(id)) => {
                let is_identified = lock.is_some() || self.tls.is_some();
                let queue =
                    connect_io(subsystem, &connect, (&data, is_identified), ControllerId(id.0), device)?;
                self.report_host_id(&queue.association, &data);
                queue
            }
        };
        let controller = byway_fabrics::ControllerId(queue.association.controller.0);
        if queue.qid > 0 {
            self.take_io_capsules();
        }
        debug!(host = %data_host, controller = controller.0, qid = connect.qid, "queue connected");
        self.bind(Queue::Device(queue), &connect);
        self.lock = lock;
        Ok(Accepted { controller, authenticate: must_authenticate, secure })
    }

    /// Reports an I/O queue whose HOSTID differs from its admin queue's. Reservations use the admin queue's.
    fn report_host_id(&self, association: &Association, data: &ConnectData) {
        if association.host_id == data.host_id {
            return;
        }
        let (host, subsystem) = (data.host.clone(), data.subsystem.clone());
        let (controller, from) = (association.controller.0, self.endpoints.from);
        info!(%host, %subsystem, controller, %from, "HOSTID of an I/O queue differs from its admin queue's");
        (self.target.report)(TargetEvent::HostIdDiffers { host, subsystem, controller, from });
    }

    /// Binds the connection to a queue.
    fn bind(&mut self, queue: Queue, connect: &Connect) {
        self.queue = queue;
        self.responder.bind(u32::from(connect.sqsize_z) + 1, connect.no_flow_control);
    }
}

/// The reason of a refused Connect, for a log.
fn reason(refusal: &ConnectRefusal, host: &str, queue: &Queue) -> &'static str {
    match refusal.kind {
        RefusalKind::IncompatibleFormat => "the record format of its Connect is not known",
        RefusalKind::Busy => "there is no room for it at the moment",
        RefusalKind::Invalid(Parameter::HOSTNQN) if host.is_empty() => "its HOSTNQN is empty",
        RefusalKind::Invalid(Parameter::HOSTNQN) => {
            "its HOSTNQN is not a name, or is not that of its admin queue"
        }
        RefusalKind::Invalid(Parameter::HOSTID) => "its HOSTID is not that of its admin queue",
        RefusalKind::Invalid(Parameter::SUBNQN) => "there is no such subsystem here",
        RefusalKind::Invalid(Parameter::CNTLID) => "there is no such controller, or it cannot be asked for",
        RefusalKind::Invalid(Parameter::QID) => "its queue identifier is out of range or in use",
        RefusalKind::Invalid(Parameter::SQSIZE) => "its queue has too many entries or none",
        RefusalKind::Invalid(Parameter::KATO) => "its keep alive timeout is out of range",
        RefusalKind::InvalidHost => "it may not connect",
        _ if !matches!(queue, Queue::Unconnected) => "the connection has a queue already",
        _ => "its Connect is not valid now",
    }
}

fn connect_admin(
    subsystem: &Subsystem,
    (connect, port): (&Connect, PortId),
    data: ConnectData,
    device: &mut CapsuleDevice<'_>,
    now_ns: u64,
) -> Result<ConnectedQueue, ConnectRefusal> {
    if connect.sqsize_z >= ADMIN_ENTRIES_MAX {
        return Err(ConnectRefusal::invalid(Parameter::SQSIZE));
    }
    if subsystem.associations().has_all_of_host(&data.host) {
        return Err(ConnectRefusal::for_now(RefusalKind::Busy));
    }
    let id = device.attach(Host::named(&data.host_id.0), port).map_err(|error| match error {
        AttachError::NoRoom => ConnectRefusal::for_now(RefusalKind::Busy),
        AttachError::Host(error) => ConnectRefusal::for_good(RefusalKind::Other(error.status)),
    })?;
    let begun = device
        .set_keep_alive_ms(id, connect.keep_alive_ms)
        .map_err(|_| Parameter::KATO)
        .and_then(|()| device.connect(id, 0, u32::from(connect.sqsize_z) + 1).map_err(|_| Parameter::SQSIZE));
    if let Err(parameter) = begun {
        device.detach(id);
        return Err(ConnectRefusal::invalid(parameter));
    }
    let came_to = (subsystem.nqn().clone(), port);
    let association = Arc::new(Association::new(id, came_to, (data.host, data.host_id), now_ns));
    association.set_keep_alive_ms(device.keep_alive_ms(id));
    subsystem.associations().add(association.clone());
    Ok(ConnectedQueue { association, qid: 0, resets: 0 })
}

fn connect_io(
    subsystem: &Subsystem,
    connect: &Connect,
    (data, is_identified): (&ConnectData, bool),
    id: ControllerId,
    device: &mut CapsuleDevice<'_>,
) -> Result<ConnectedQueue, ConnectRefusal> {
    let no_controller = || match device.has_controller(id) {
        // The controller is still ending: its host must not conclude that its commands are over.
        true => ConnectRefusal::for_now(RefusalKind::Busy),
        false => ConnectRefusal::invalid(Parameter::CNTLID),
    };
    let association = subsystem.associations().find(id).ok_or_else(no_controller)?;
    if association.host != data.host {
        return Err(ConnectRefusal::invalid(Parameter::HOSTNQN));
    }
    // With authentication or TLS, HOSTID must match. Without, some initiators send another one.
    if is_identified && association.host_id != data.host_id {
        return Err(ConnectRefusal::invalid(Parameter::HOSTID));
    }
    let resets = association.resets();
    device.connect(id, connect.qid, u32::from(connect.sqsize_z) + 1).map_err(|error| match error {
        // A queue with the same identifier may be closing: the host may retry.
        ConnectError::QueueId => ConnectRefusal::for_now(RefusalKind::Invalid(Parameter::QID)),
        ConnectError::Entries => ConnectRefusal::invalid(Parameter::SQSIZE),
        ConnectError::NotReady => {
            ConnectRefusal::for_good(RefusalKind::Other(Status::COMMAND_SEQUENCE_ERROR))
        }
    })?;
    Ok(ConnectedQueue { association, qid: connect.qid, resets })
}
