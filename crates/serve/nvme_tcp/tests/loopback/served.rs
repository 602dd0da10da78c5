//! A device in memory that is served: namespace 1 holds 32 MiB of 512-byte blocks, namespace 2 keys and values, over which CRC-32C may
//! run.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use byway_controller::{
    AllowList, Allowed, BlockEngine, Identity, NoInterrupts, Subsystem, SubsystemOptions,
};
use byway_executor::{Embedded, EngineEvents, Hosts, UpkeepBy, WatchedBy};
use byway_fabrics::Nqn;
use byway_flash::{Durability, Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec, RunOptions};
use byway_link::{ClockMode, Profile};
use byway_tcp_target::fuzz::SocketlessTarget;
use byway_tcp_target::{
    AnaSetting, AnaState, Keys, Listeners, PathError, PortId, SubsystemTerms, Target, TargetControl,
    TargetEvent, TargetOptions,
};
use parking_lot::Mutex;

use crate::host::{Host, Proposal};

/// Nothing here takes so long: a test that waits for more has found a hang.
pub const TIMEOUT: Duration = Duration::from_secs(30);

pub const SUBSYSTEM: &str = "nqn.2026-01.example:byway:test";
pub const BLOCKS: u32 = 1;
pub const KEYS: u32 = 2;
pub const EXPORTED: u32 = 3;
pub const BLOCKS_BYTES: u64 = 32 << 20;

pub struct Served {
    // Declared before the devices, whose images are closed with the last of both.
    pub target: Target,
    event: Mutex<Receiver<TargetEvent>>,
    devices: Vec<Embedded>,
}

/// What a target is event.
pub struct Asked {
    pub target: TargetOptions,
    /// The subsystem that is served by each device, the first under [`SUBSYSTEM`]'s name.
    pub subsystems: Vec<SubsystemTerms>,
}

impl Asked {
    /// The first subsystem.
    pub fn first(&mut self) -> &mut SubsystemTerms {
        &mut self.subsystems[0]
    }
}

pub fn name(text: &str) -> Nqn {
    Nqn::new(text).unwrap()
}

/// A device in memory.
pub fn device(nqn: &str, run: RunOptions) -> Embedded {
    embedded(subsystem(nqn, run), None)
}

/// The same, whose third namespace `engine` keeps.
pub fn device_with(nqn: &str, engine: Box<dyn BlockEngine>) -> Embedded {
    let mut subsystem = subsystem(nqn, RunOptions::default());
    assert_eq!(subsystem.export(engine).unwrap(), EXPORTED);
    let engines = EngineEvents::new(WatchedBy::Connections).unwrap();
    engines.add(EXPORTED, None).unwrap();
    embedded(subsystem, Some(Arc::new(engines)))
}

fn embedded(subsystem: Subsystem, engines: Option<Arc<EngineEvents>>) -> Embedded {
    let hosts = Hosts {
        interrupts: Arc::new(NoInterrupts),
        doorbells: None,
        threads: NonZeroU16::MIN,
        engines,
        upkeep_by: UpkeepBy::default(),
    };
    Embedded::serve(subsystem, ClockMode::Off, true, hosts).unwrap()
}

impl Served {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// One that is event more.
    pub fn with(set: impl FnOnce(&mut Asked)) -> Self {
        Self::of(RunOptions::default(), set)
    }

    /// One whose commands are answered once the image is synced.
    pub fn synced() -> Self {
        Self::of(RunOptions::default().durability(Durability::Media), |_| {})
    }

    /// A target with `ports` ports.
    pub fn with_ports(ports: usize, set: impl FnOnce(&mut Asked)) -> Self {
        Self::at(ports, RunOptions::default(), set)
    }

    fn of(run: RunOptions, set: impl FnOnce(&mut Asked)) -> Self {
        Self::at(1, run, set)
    }

    fn at(ports: usize, run: RunOptions, set: impl FnOnce(&mut Asked)) -> Self {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let subsystems = vec![SubsystemTerms::of(name(SUBSYSTEM))];
        let mut asked = Asked { target: TargetOptions::default(), subsystems };
        set(&mut asked);
        let listeners = Listeners::open(&vec![local; ports], Some(local)).unwrap();
        let (send, event) = channel();
        let send = Mutex::new(send);
        let report = Arc::new(move |event| drop(send.lock().send(event)));
        let devices: Vec<Embedded> =
            asked.subsystems.iter().map(|terms| device(terms.nqn.as_str(), run.clone())).collect();
        let capsules = devices.iter().map(|device| device.capsules().unwrap());
        let subsystems = asked.subsystems.into_iter().zip(capsules).collect();
        let target = Target::start(listeners, asked.target, subsystems, report).unwrap();
        Self { target, event: Mutex::new(event), devices }
    }

    /// The first device, behind a target without sockets.
    pub fn socketless(&self) -> SocketlessTarget {
        self.socketless_with(SubsystemTerms::of(name(SUBSYSTEM)))
    }

    /// The same, by other terms.
    pub fn socketless_with(&self, terms: SubsystemTerms) -> SocketlessTarget {
        SocketlessTarget::new(terms, self.devices[0].capsules().unwrap()).unwrap()
    }

    /// The first device.
    pub fn device(&self) -> &Embedded {
        &self.devices[0]
    }

    pub fn control(&self) -> TargetControl {
        self.target.control()
    }

    pub fn address(&self) -> SocketAddr {
        self.port(1)
    }

    /// Address of a port.
    pub fn port(&self, port: usize) -> SocketAddr {
        self.target.ports()[port - 1].address
    }

    /// Sets how a namespace is reached, or every one.
    pub fn set(&self, port: u16, nsid: impl Into<Option<u32>>, state: AnaState) {
        self.try_set(port, nsid, state).unwrap();
    }

    pub fn try_set(&self, port: u16, nsid: impl Into<Option<u32>>, state: AnaState) -> Result<(), PathError> {
        let paths = self.control().paths(name(SUBSYSTEM));
        paths.set(AnaSetting { port: PortId(port), nsid: nsid.into(), state })
    }

    /// Sets other keys for new connections.
    pub fn renew(&self, keys: Keys) {
        self.control().set_keys(&name(SUBSYSTEM), keys).unwrap();
    }

    /// A host at a port, with an I/O queue.
    pub fn host_at(&self, port: usize) -> (Host, Host) {
        let mut admin = Host::greet(self.port(port), Proposal::default());
        admin.connect_admin(0).unwrap();
        admin.enable();
        let mut io = Host::greet(self.port(port), Proposal::default());
        io.connect_io(1, admin.controller()).unwrap();
        (admin, io)
    }

    pub fn discovery(&self) -> SocketAddr {
        self.target.discovery().unwrap()
    }

    /// A connection that is agreed on.
    pub fn greet(&self, proposal: Proposal) -> Host {
        Host::greet(self.address(), proposal)
    }

    /// A host whose controller is ready, at its admin queue.
    pub fn admin(&self, proposal: Proposal) -> Host {
        let mut admin = self.greet(proposal);
        admin.connect_admin(0).unwrap();
        admin.enable();
        admin
    }

    /// The same of a subsystem.
    pub fn admin_of(&self, subsystem: &str) -> Host {
        let mut admin = self.greet(Proposal::default());
        admin.connect_to(subsystem).unwrap();
        admin.enable();
        admin
    }

    /// A host with an admin queue and one I/O queue.
    pub fn host(&self, proposal: Proposal) -> (Host, Host) {
        let admin = self.admin(proposal);
        let io = self.queue(&admin, 1, proposal);
        (admin, io)
    }

    /// A further I/O queue of a host.
    pub fn queue(&self, admin: &Host, qid: u16, proposal: Proposal) -> Host {
        let mut io = self.greet(proposal);
        io.connect_io(qid, admin.controller()).unwrap();
        io
    }

    /// Waits to be event something that `is_it`.
    pub fn await_event(&self, is_it: impl Fn(&TargetEvent) -> bool) -> TargetEvent {
        let event = self.event.lock();
        let end = Instant::now() + TIMEOUT;
        loop {
            let next = event.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap();
            if is_it(&next) {
                return next;
            }
        }
    }
}

fn subsystem(nqn: &str, run: RunOptions) -> Subsystem {
    let profile = Profile::by_name("gen4x4").unwrap();
    let options = FlashOptions::new(256 << 20, profile.flash, MediaKind::Ram).uuid([7; 16]).run(run);
    let spec = |kind, size_bytes| NamespaceSpec { nsid: None, kind, size_bytes };
    let blocks = spec(NamespaceKind::Nvm { lba_bytes: 512 }, BLOCKS_BYTES);
    let flash = Flash::create(options, &[blocks, spec(NamespaceKind::Kv, 128 << 20)]).unwrap();
    let identity = Identity {
        nqn: nqn.to_owned(),
        serial: "TEST0001".to_owned(),
        model: "Byway software SSD".to_owned(),
    };
    let allowed: AllowList = ["crc32c".parse::<Allowed>().unwrap()].into_iter().collect();
    let options = SubsystemOptions::default().exec_allowed(BTreeMap::from([(KEYS, allowed)]));
    Subsystem::new(identity, profile, flash, options).unwrap()
}
