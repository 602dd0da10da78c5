//! A client of the discovery controller.

use byway_fabrics::{ControllerChoice, Entry, LogReading, Step};
use byway_spec::Command;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::event::Event;
use byway_spec::base::feature::FeatureId;
use byway_spec::base::log::{LogCdw10, LogPage};
use byway_spec::fabrics::DISCOVERY_NQN;

use crate::admin::{event_request, number, set_feature};
use crate::host::{Host, Proposal};
use crate::served::Served;

/// Asks once.
pub fn discover(host: &mut Host) -> Vec<Entry> {
    host.connect(0, ControllerChoice::Dynamic, DISCOVERY_NQN, 0).unwrap();
    host.enable();
    read_log(host, |_| {})
}

/// Reads the log in parts; `between` is called before each, with how many were read.
pub fn read_log(host: &mut Host, mut between: impl FnMut(usize)) -> Vec<Entry> {
    let mut reading = LogReading::new(1024 + 256);
    let mut parts = 0;
    loop {
        match reading.step() {
            Step::Read { offset, bytes } => {
                between(parts);
                parts += 1;
                reading.take(&read_part(host, false, offset as u32, bytes)).unwrap();
            }
            Step::Done(entries) => return entries,
        }
    }
}

/// Reads a part of the log.
pub fn read_part(host: &mut Host, retain: bool, offset: u32, bytes: u32) -> Vec<u8> {
    let mut command = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
    let cdw10 = LogCdw10::new().with_lid(LogPage::DISCOVERY).with_rae(retain);
    command.cdw10 = cdw10.with_numdl_z((bytes / 4 - 1) as u16).into_bits();
    command.cdw12 = offset;
    let (done, part) = host.read(command, bytes as usize);
    assert!(done.status().is_success());
    part
}

/// GENCTR.
pub fn generation(host: &mut Host) -> u64 {
    number(&read_part(host, true, 0, 20), 0, 8)
}

/// A host that stays connected to the discovery service and waits for events of changes.
pub struct Listener {
    pub host: Host,
    request: u16,
}

impl Listener {
    pub fn new(served: &Served) -> Self {
        Self::named(served, None)
    }

    /// One with a name of its own.
    pub fn named(served: &Served, name: Option<&str>) -> Self {
        let mut host = Host::greet(served.discovery(), Proposal::default());
        if let Some(name) = name {
            host.name = crate::served::name(name);
        }
        host.connect(0, ControllerChoice::Dynamic, DISCOVERY_NQN, 30_000).unwrap();
        host.enable();
        assert!(host.read(set_feature(FeatureId::ASYNC_EVENTS, 1 << 31), 0).0.status().is_success());
        read_log(&mut host, |_| {});
        let request = host.start_read(event_request(), 0);
        Self { host, request }
    }

    /// Whether an event has come, as far as its controller has answered.
    pub fn is_notified(&mut self) -> bool {
        generation(&mut self.host);
        self.host.is_done(self.request)
    }

    /// Waits for the event of a change, and reads the log.
    pub fn hear(&mut self) -> Vec<(String, String)> {
        let (event, _) = self.host.wait(self.request);
        assert_eq!(event.dw0, Event::DISCOVERY_CHANGED.into_bits());
        self.request = self.host.start_read(event_request(), 0);
        self.known()
    }

    /// What there is: names of subsystems with the ports.
    pub fn known(&mut self) -> Vec<(String, String)> {
        let known = read_log(&mut self.host, |_| {});
        let nvm = known.into_iter().filter(|entry| !entry.subsystem.is_discovery());
        nvm.map(|entry| (entry.subsystem.to_string(), entry.service)).collect()
    }
}
