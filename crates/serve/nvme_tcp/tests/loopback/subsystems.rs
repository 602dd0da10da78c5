//! Several subsystems of one target, and hosts that may connect to one of them and not to another.

use byway_fabrics::{ConnectRefusal, ControllerChoice, Parameter, RefusalKind};
use byway_spec::base::identify::Cns;
use byway_spec::nvm::NvmOpcode;
use byway_tcp_target::{AnaSetting, AnaState, PortId, SubsystemTerms, TargetEvent, Tls, TlsKey, TlsPolicy};

use crate::admin::{identify, number};
use crate::discovery_client::discover;
use crate::host::{By, HOST, Host, Proposal, blocks, pattern};
use crate::served::{Asked, SUBSYSTEM, Served, name};

const SECOND: &str = "nqn.2026-01.example:byway:second";

/// A second subsystem, which only hosts of `hosts` may connect to.
fn with_second(hosts: &[&str]) -> impl FnOnce(&mut Asked) {
    let hosts = hosts.iter().map(|host| name(host)).collect();
    move |asked| asked.subsystems.push(SubsystemTerms { hosts, ..SubsystemTerms::of(name(SECOND)) })
}

/// An I/O queue of an admin queue's controller.
fn queue(served: &Served, admin: &Host, subsystem: &str) -> Host {
    let mut io = served.greet(Proposal::default());
    io.connect(1, ControllerChoice::Id(admin.controller()), subsystem, 0).unwrap();
    io
}

#[test]
fn each_subsystem_has_its_own_controllers_and_its_own_blocks() {
    let served = Served::with(with_second(&[]));
    let admins = [SUBSYSTEM, SECOND].map(|subsystem| served.admin_of(subsystem));
    assert_eq!(admins[0].controller(), admins[1].controller(), "identifiers are the subsystem's");
    let [mut first, mut second] = [(&admins[0], SUBSYSTEM), (&admins[1], SECOND)]
        .map(|(admin, subsystem)| queue(&served, admin, subsystem));
    for (seed, io) in [(1, &mut first), (2, &mut second)] {
        let written = io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &pattern(seed, 4096));
        assert!(written.status().is_success());
    }
    for (seed, io) in [(1, &mut first), (2, &mut second)] {
        assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == pattern(seed, 4096));
    }
    for (mut admin, subsystem) in admins.into_iter().zip([SUBSYSTEM, SECOND]) {
        let data = admin.read(identify(Cns::CONTROLLER, 0), 4096).1;
        assert_eq!(&data[768..768 + subsystem.len()], subsystem.as_bytes());
        assert_eq!(number(&data, 768 + subsystem.len(), 1), 0);
    }
}

#[test]
fn discovery_lists_every_subsystem_that_the_host_may_connect_to() {
    let served = Served::with(with_second(&["nqn.2026-01.example:another"]));
    let names = |host: Option<&str>| {
        let mut asking = Host::greet(served.discovery(), Proposal::default());
        host.into_iter().for_each(|host| asking.name = name(host));
        let entries = discover(&mut asking);
        let nvm = entries.into_iter().filter(|entry| !entry.subsystem.is_discovery());
        nvm.map(|entry| entry.subsystem.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None), [SUBSYSTEM]);
    assert_eq!(names(Some("nqn.2026-01.example:another")), [SUBSYSTEM, SECOND]);
}

#[test]
fn no_queue_of_a_host_reaches_a_subsystem_that_it_may_not_connect_to() {
    let served = Served::with(with_second(&["nqn.2026-01.example:another"]));
    let admin = served.admin_of(SUBSYSTEM);
    let invalid_host = Err(ConnectRefusal::for_good(RefusalKind::InvalidHost));
    assert_eq!(served.greet(Proposal::default()).connect_to(SECOND), invalid_host);
    // A controller of another host has the same identifier.
    let mut another = served.greet(Proposal::default());
    another.name = name("nqn.2026-01.example:another");
    another.connect_to(SECOND).unwrap();
    another.enable();
    assert_eq!(admin.controller(), another.controller());
    let its = ControllerChoice::Id(another.controller());
    assert_eq!(served.greet(Proposal::default()).connect(1, its, SECOND, 0), invalid_host);
    let mut posing = served.greet(Proposal::default());
    posing.name = name("nqn.2026-01.example:another");
    posing.identity.0[0] ^= 1;
    // A name is what a host says. Only authentication shows that it is its own: another HOSTID is reported, not refused.
    posing.connect(1, its, SECOND, 0).unwrap();
    let is_reported = |event: &TargetEvent| matches!(event, TargetEvent::HostIdDiffers { subsystem, .. } if subsystem.as_str() == SECOND);
    served.await_event(is_reported);
}

#[test]
fn a_controller_of_one_subsystem_gets_no_queue_by_the_name_of_another() {
    let served = Served::with(with_second(&[]));
    let admin = served.admin_of(SECOND);
    let of_first = ControllerChoice::Id(admin.controller());
    let refused = served.greet(Proposal::default()).connect(1, of_first, SUBSYSTEM, 0);
    assert_eq!(refused, Err(ConnectRefusal::invalid(Parameter::CNTLID)));
}

#[test]
fn states_of_paths_are_each_subsystems_own() {
    let served = Served::with_ports(2, with_second(&[]));
    let setting = AnaSetting { port: PortId(1), nsid: None, state: AnaState::INACCESSIBLE };
    served.control().set_path(&name(SECOND), setting).unwrap();
    let [mut first, mut second] = [SUBSYSTEM, SECOND].map(|subsystem| {
        let admin = served.admin_of(subsystem);
        (queue(&served, &admin, subsystem), admin)
    });
    let status = |io: &mut Host| io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status();
    assert!(status(&mut first.0).is_success());
    assert!(!status(&mut second.0).is_success());
}

#[test]
fn a_host_without_tls_comes_to_the_subsystem_that_does_not_ask_for_it_alone() {
    let key = TlsKey::generate(None).unwrap();
    let served = Served::with(|asked| {
        let tls = Tls::new(&name(SECOND), &[(name(HOST), key)], TlsPolicy::Required).unwrap();
        asked.subsystems.push(SubsystemTerms { tls: Some(tls), ..SubsystemTerms::of(name(SECOND)) });
    });
    served.admin_of(SUBSYSTEM);
    let clear = served.greet(Proposal::default()).connect_to(SECOND);
    assert_eq!(clear, Err(ConnectRefusal::for_good(RefusalKind::InvalidHost)));
}
