//! Connects as other hosts send them, and what a target reports of those that it refuses.

use byway_tcp_target::{Dhchap, TargetEvent};

use super::{CONNECT_INVALID, Connecting, Descriptor, Entry, RawHost, SUCCESS};
use crate::authenticating::new_secret;
use crate::served::{BLOCKS, SUBSYSTEM, Served, name};

const OTHER_ID: [u8; 16] = [0x22; 16];

/// The host, the subsystem and the reason of the next refusal that is reported.
fn refusal(served: &Served) -> (String, String, &'static str) {
    match served.await_event(|event| matches!(event, TargetEvent::HostRefused { .. })) {
        TargetEvent::HostRefused { host, subsystem, why, .. } => (host, subsystem, why),
        _ => unreachable!(),
    }
}

#[test]
fn an_io_queue_with_another_hostid_is_served_and_reported() {
    let served = Served::new();
    let (_admin, controller) = RawHost::admin(&served, 6);
    let mut io = RawHost::open(served.address());
    let connecting = Connecting { qid: 1, controller, host_id: OTHER_ID, ..Connecting::admin() };
    assert_eq!(io.connect(&connecting).status, SUCCESS);
    assert_eq!(io.read(Entry::new(0x02, BLOCKS), 512).status, SUCCESS);
    let event = served.await_event(|event| matches!(event, TargetEvent::HostIdDiffers { .. }));
    let TargetEvent::HostIdDiffers { host, subsystem, controller: of, from } = event else { unreachable!() };
    assert_eq!((host.as_str(), subsystem.as_str(), of), (super::NAME, SUBSYSTEM, controller));
    assert_eq!(from, io.stream.local_addr().unwrap());
}

#[test]
fn another_hostid_is_refused_with_authentication() {
    let secrets = byway_fabrics::authentication::AuthSecrets { host: new_secret(), controller: None };
    let hosts = vec![(name(super::NAME), secrets)];
    let dhchap = Dhchap { hosts, suites: Default::default(), timeout: Dhchap::TIMEOUT };
    let served = Served::with(|asked| asked.first().dhchap = Some(dhchap));
    let mut admin = RawHost::open(served.address());
    let connected = admin.connect(&Connecting::admin());
    assert_eq!(connected.status, SUCCESS);
    let controller = connected.result as u16;
    let mut io = RawHost::open(served.address());
    let connecting = Connecting { qid: 1, controller, host_id: OTHER_ID, ..Connecting::admin() };
    let refused = io.connect(&connecting);
    // IPO 0, in the data (IATTR): HOSTID.
    let hostid = 1 << 16;
    assert_eq!((refused.status, refused.result), (CONNECT_INVALID, hostid));
    assert_eq!(refusal(&served).2, "its HOSTID is not that of its admin queue");
}

#[test]
fn a_connect_without_a_host_name_is_refused_and_reported() {
    let served = Served::new();
    let mut host = RawHost::open(served.address());
    let refused = host.connect(&Connecting { host: "", ..Connecting::admin() });
    // IPO 512, in the data (IATTR): HOSTNQN.
    let hostnqn = 1 << 16 | 512;
    assert_eq!((refused.status, refused.result), (CONNECT_INVALID, hostnqn));
    assert_eq!(refusal(&served), (String::new(), SUBSYSTEM.to_owned(), "its HOSTNQN is empty"));
}

#[test]
fn names_of_refused_hosts_are_reported_without_control_characters() {
    let served = Served::new();
    let mut host = RawHost::open(served.address());
    host.connect(&Connecting { host: "nqn.\u{1b}[31m\u{7}", ..Connecting::admin() });
    assert_eq!(refusal(&served).0, "nqn.\u{fffd}[31m\u{fffd}");
}

#[test]
fn every_refusal_of_a_connect_is_reported() {
    let served = Served::new();
    let (_admin, controller) = RawHost::admin(&served, 6);
    let _io = RawHost::io(&served, 1, controller);
    let refused = |connecting: Connecting, change: &dyn Fn(Entry) -> Entry| {
        let mut host = RawHost::open(served.address());
        let entry = Entry::fabrics(1)
            .cdw(10, u32::from(connecting.qid) << 16)
            .cdw(11, 31)
            .described(Descriptor::in_capsule(1024));
        assert_ne!(host.run(change(entry), &connecting.data()).status, SUCCESS);
        let (host, subsystem, why) = refusal(&served);
        assert_eq!((host.as_str(), subsystem.as_str()), (connecting.host, SUBSYSTEM));
        why
    };
    let (admin, io) = (Connecting::admin(), Connecting { qid: 1, controller, ..Connecting::admin() });
    let as_it_is = |entry| entry;
    assert!(refused(io, &as_it_is).contains("queue identifier"));
    assert!(refused(Connecting { controller: 0x7ff, ..io }, &as_it_is).contains("no such controller"));
    assert!(refused(Connecting { controller: 1, ..admin }, &as_it_is).contains("no such controller"));
    assert!(refused(Connecting { host: "nqn.2026-01.example:other", ..io }, &as_it_is).contains("HOSTNQN"));
    assert!(refused(admin, &|entry| entry.cdw(11, 0)).contains("entries"));
    assert!(refused(admin, &|entry| entry.cdw(11, 0xffff)).contains("entries"));
    assert!(refused(admin, &|entry| entry.cdw(10, 1)).contains("record format"));
    assert!(refused(admin, &|entry| entry.cdw(12, u32::MAX)).contains("keep alive"));
}
