//! Connect: what a host asks to be connected to, and what becomes of it.
//!
//! A Connect is read with no device in hand, since it says which one is meant. A subsystem that the host may connect to answers it
//! when the device has been given back and its own is in hand; the discovery service answers at once.

use std::sync::Arc;

use byway_controller::{ConnectError, ControllerId, Host, PortId};
use byway_fabrics::authentication::Parties;
use byway_fabrics::{
    Accepted, Connect, ConnectData, ConnectRefusal, ControllerChoice, Parameter, RefusalKind,
};
use byway_local::{AttachError, CapsuleDevice};
use byway_spec::{Command, Status};

use crate::association::Association;
use crate::authentication::Lock;
use crate::discovery::DiscoveryController;
use crate::options::{ADMIN_ENTRIES_MAX, Told};
use crate::outbox::Outbox;
use crate::queue::{ConnectedQueue, Discovery, Queue};
use crate::session::{Open, Secured};
use crate::site::Site;

/// A Connect to a subsystem that is there, of a host that may connect to it.
#[derive(Debug)]
pub(crate) struct Admission {
    command: Command,
    connect: Connect,
    data: ConnectData,
    port: PortId,
    /// The subsystem.
    pub site: Arc<Site>,
}

impl Open {
    /// Takes a Connect.
    pub(crate) fn connect(
        &mut self,
        command: &Command,
        connect: Connect,
        data: &[u8],
        now_ns: u64,
        out: &mut Outbox,
    ) {
        match self.judge(command, connect, data, now_ns) {
            Ok(None) => {}
            Ok(Some(accepted)) => self.accept_connect(command, accepted, out),
            Err(refusal) => self.refuse_connect(command, ConnectData::names(data), refusal, out),
        }
    }

    fn accept_connect(&self, command: &Command, accepted: Accepted, out: &mut Outbox) {
        self.send_result(command, Status::SUCCESS, accepted.dw0().into(), out);
    }

    /// Answers a Connect of these names that is refused, and reports it: once for each connection.
    #[cold]
    pub(crate) fn refuse_connect(
        &mut self,
        command: &Command,
        (host, subsystem): (String, String),
        refusal: ConnectRefusal,
        out: &mut Outbox,
    ) {
        let why = reason(&refusal, &host, &self.queue);
        self.report_refusal(host, subsystem, why);
        self.premises.rare.refuse(refusal.kind);
        self.send_result(command, refusal.status(), refusal.dw0().into(), out);
    }

    fn report_refusal(&mut self, host: String, subsystem: String, why: &'static str) {
        if !std::mem::replace(&mut self.is_refused, true) {
            let from = self.place.from;
            (self.premises.tell)(Told::HostRefused { host, subsystem, from, why });
        }
    }

    /// What comes of a Connect at once: nothing, where a subsystem is to answer it.
    fn judge(
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
        let listing = self.premises.directory.listing();
        let (site, port) = listing.site_at(&data.subsystem, self.place.port).ok_or_else(|| {
            self.turn_away(
                &data,
                "there is no such subsystem here",
                ConnectRefusal::invalid(Parameter::SUBNQN),
            )
        })?;
        self.check_host(site, connect.qid, &data)?;
        if site.device.check().is_err() {
            return Err(ConnectRefusal::for_now(RefusalKind::Other(Status::INTERNAL_ERROR)));
        }
        self.asked = Some(Box::new(Admission { command: *command, connect, data, port, site: site.clone() }));
        Ok(None)
    }

    /// Whether a subsystem lets a host in, as it came.
    fn check_host(&mut self, site: &Site, qid: u16, data: &ConnectData) -> Result<(), ConnectRefusal> {
        let invalid_host = ConnectRefusal::for_good(RefusalKind::InvalidHost);
        if !site.admits(&data.host) {
            return Err(self.turn_away(data, "it is not among those that may connect", invalid_host));
        }
        if self.secured.is_none() && !site.keys().admit_in_clear(qid) {
            return Err(self.turn_away(data, "it came in the clear", invalid_host));
        }
        Ok(())
    }

    /// A key is one host's, and for one subsystem: nobody else is connected by it.
    fn check_parties(&mut self, data: &ConnectData) -> Result<(), ConnectRefusal> {
        let (why, refusal) = match &self.secured {
            Some(Secured { parties, .. }) if parties.host != data.host => {
                ("it came by another host's key", ConnectRefusal::for_good(RefusalKind::InvalidHost))
            }
            Some(Secured { parties, .. }) if parties.subsystem != data.subsystem => {
                ("it came by a key for another subsystem", ConnectRefusal::invalid(Parameter::SUBNQN))
            }
            _ => return Ok(()),
        };
        Err(self.turn_away(data, why, refusal))
    }

    /// Tells of a host that is not to be connected, once for each connection.
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
        let asker = self.premises.seat_asker().ok_or(ConnectRefusal::for_now(RefusalKind::Busy))?;
        let id = self.premises.discovery_id();
        let (place, directory) = (self.place, &self.premises.directory);
        let controller = DiscoveryController::new(id, data.host, place, directory, connect.keep_alive_ms);
        let discovery = Box::new(Discovery { controller, heard_ns: now_ns, _asker: asker });
        self.seat(Queue::Discovery(discovery), connect);
        let controller = byway_fabrics::ControllerId(id);
        Ok(Accepted { controller, authenticate: false, secure: false })
    }

    /// Has `site` answer the Connect that was asked of it, with its device in hand; whether the host is connected.
    pub(crate) fn admit(
        &mut self,
        site: &Site,
        out: &mut Outbox,
        device: &mut CapsuleDevice<'_>,
        now_ns: u64,
    ) -> bool {
        let Some(admission) = self.asked.take() else { return false };
        let (command, data) = (admission.command, &admission.data);
        let names = (data.host.to_string(), data.subsystem.to_string());
        match self.enter(*admission, site, device, now_ns) {
            Ok(accepted) => {
                self.accept_connect(&command, accepted, out);
                self.tell_came();
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
        site: &Site,
        device: &mut CapsuleDevice<'_>,
        now_ns: u64,
    ) -> Result<Accepted, ConnectRefusal> {
        // What may have changed since it was asked.
        self.check_host(site, connect.qid, &data)?;
        if !self.premises.directory.listing().has_port(port) || !site.is_at(port) {
            return Err(ConnectRefusal::invalid(Parameter::SUBNQN));
        }
        let parties = Parties { host: data.host.clone(), subsystem: site.nqn.clone() };
        let lock = Lock::of(&site.keys(), parties, connect.qid, self.secured.as_ref(), now_ns);
        let must_prove = lock.as_ref().is_some_and(|lock| !lock.is_proven());
        let secure = lock.as_ref().is_some_and(|lock| lock.is_for_key());
        let queue = match (connect.qid, data.controller) {
            (0, ControllerChoice::Dynamic) => {
                if must_prove {
                    site.associations.make_room_for_claim();
                }
                let queue = connect_admin(site, (&connect, port), data, device, now_ns)?;
                queue.association.set_claimed(must_prove);
                queue
            }
            (0, _) | (_, ControllerChoice::Dynamic) => {
                return Err(ConnectRefusal::invalid(Parameter::CNTLID));
            }
            (_, ControllerChoice::Id(id)) => {
                let is_identified = lock.is_some() || self.secured.is_some();
                let queue = connect_io(site, &connect, (&data, is_identified), ControllerId(id.0), device)?;
                self.report_host_id(&queue.association, &data);
                queue
            }
        };
        let controller = byway_fabrics::ControllerId(queue.association.controller.0);
        if queue.qid > 0 {
            self.take_io_capsules();
        }
        self.seat(Queue::Device(queue), &connect);
        self.lock = lock;
        Ok(Accepted { controller, authenticate: must_prove, secure })
    }

    /// Reports an I/O queue whose HOSTID is not its admin queue's. Reservations go by the admin queue's.
    fn report_host_id(&self, association: &Association, data: &ConnectData) {
        if association.host_id == data.host_id {
            return;
        }
        let (host, subsystem) = (data.host.clone(), data.subsystem.clone());
        let (controller, from) = (association.controller.0, self.place.from);
        (self.premises.tell)(Told::HostIdDiffers { host, subsystem, controller, from });
    }

    /// Puts a discovery controller, or a queue of the device, behind the connection.
    fn seat(&mut self, queue: Queue, connect: &Connect) {
        self.queue = queue;
        self.entries = u32::from(connect.sqsize_z) + 1;
        self.head = 1 % self.entries;
        self.no_flow_control = connect.no_flow_control;
    }
}

/// Why a Connect is refused, for a log.
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
    site: &Site,
    (connect, port): (&Connect, PortId),
    data: ConnectData,
    device: &mut CapsuleDevice<'_>,
    now_ns: u64,
) -> Result<ConnectedQueue, ConnectRefusal> {
    if connect.sqsize_z >= ADMIN_ENTRIES_MAX {
        return Err(ConnectRefusal::invalid(Parameter::SQSIZE));
    }
    if site.associations.is_share_taken(&data.host) {
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
    let came_to = (site.nqn.clone(), port);
    let association = Arc::new(Association::new(id, came_to, (data.host, data.host_id), now_ns));
    association.set_keep_alive_ms(device.keep_alive_ms(id));
    site.associations.add(association.clone());
    Ok(ConnectedQueue { association, qid: 0, resets: 0 })
}

fn connect_io(
    site: &Site,
    connect: &Connect,
    (data, is_identified): (&ConnectData, bool),
    id: ControllerId,
    device: &mut CapsuleDevice<'_>,
) -> Result<ConnectedQueue, ConnectRefusal> {
    let no_controller = || match device.is_there(id) {
        // Its host must not take it for one whose commands are over.
        true => ConnectRefusal::for_now(RefusalKind::Busy),
        false => ConnectRefusal::invalid(Parameter::CNTLID),
    };
    let association = site.associations.find(id).ok_or_else(no_controller)?;
    if association.host != data.host {
        return Err(ConnectRefusal::invalid(Parameter::HOSTNQN));
    }
    // Where hosts prove who they are, an I/O queue is of the same host in all it says. Elsewhere peers send what they like.
    if is_identified && association.host_id != data.host_id {
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
