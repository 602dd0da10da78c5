//! Connect, discovery, keep alive, and hosts that go.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use byway_fabrics::{
    ConnectRefusal, ControllerChoice, ControllerId, FabricsCommand, Nqn, Parameter, Property, RefusalKind,
};
use byway_spec::fabrics::{DISCOVERY_NQN, SubsystemType};
use byway_spec::nvm::NvmOpcode;
use byway_tcp_target::TargetEvent;

use crate::discovery_client::discover;
use crate::host::{By, End, HOST, Host, Proposal, blocks, pattern};
use crate::served::{SUBSYSTEM, Served, TIMEOUT};

fn invalid(parameter: Parameter) -> Result<(), ConnectRefusal> {
    Err(ConnectRefusal::invalid(parameter))
}

#[test]
fn connect_with_an_invalid_field_names_the_field() {
    let served = Served::new();
    let dynamic = ControllerChoice::Dynamic;
    let connect =
        |qid, controller, subsystem| served.greet(Proposal::default()).connect(qid, controller, subsystem, 0);
    assert_eq!(connect(0, dynamic, "nqn.2026-01.example:other"), invalid(Parameter::SUBNQN));
    let static_one = ControllerChoice::Id(ControllerId(1));
    assert_eq!(connect(0, static_one, SUBSYSTEM), invalid(Parameter::CNTLID));
    assert_eq!(connect(1, static_one, SUBSYSTEM), invalid(Parameter::CNTLID), "there is no such controller");
    assert_eq!(connect(1, dynamic, SUBSYSTEM), invalid(Parameter::CNTLID));
    let deep = Proposal { entries: Some(129), ..Proposal::default() };
    assert_eq!(served.greet(deep).connect_admin(0), invalid(Parameter::SQSIZE));
    let admin = served.admin(Proposal::default());
    let deeper = Proposal { entries: Some(1025), ..Proposal::default() };
    assert_eq!(served.greet(deeper).connect_io(1, admin.controller()), invalid(Parameter::SQSIZE));
    let deep = Proposal { entries: Some(1024), ..Proposal::default() };
    assert_eq!(served.greet(deep).connect_io(1, admin.controller()), Ok(()));
}

#[test]
fn a_queue_belongs_to_the_host_whose_controller_it_is_and_is_connected_once() {
    let served = Served::new();
    let (admin, io) = served.host(Proposal::default());
    let again = served.greet(Proposal::default()).connect_io(1, admin.controller());
    assert!(matches!(
        again,
        Err(ConnectRefusal { kind: RefusalKind::Invalid(Parameter::QID), is_final: false })
    ));
    let mut other = served.greet(Proposal::default());
    other.name = Nqn::new("nqn.2026-01.example:other-host").unwrap();
    assert_eq!(other.connect_io(2, admin.controller()), invalid(Parameter::HOSTNQN));
    drop(io);
    until(|| served.greet(Proposal::default()).connect_io(1, admin.controller()).is_ok());
}

/// Waits until something is so.
fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
}

#[test]
fn a_host_that_is_not_allowed_gets_nothing_and_another_does() {
    let served = Served::with(|options| options.first().hosts = vec![Nqn::new(HOST).unwrap()]);
    let mut stranger = served.greet(Proposal::default());
    stranger.name = Nqn::new("nqn.2026-01.example:stranger").unwrap();
    assert_eq!(stranger.connect_admin(0), Err(ConnectRefusal::for_good(RefusalKind::InvalidHost)));
    let mut asking = Host::greet(served.discovery(), Proposal::default());
    asking.name = stranger.name.clone();
    assert!(discover(&mut asking).iter().all(|entry| entry.subsystem.as_str() != SUBSYSTEM));
    served.admin(Proposal::default());
}

#[test]
fn refused_connect_is_reported_once_with_its_reason() {
    let served = Served::with(|options| options.first().hosts = vec![Nqn::new(HOST).unwrap()]);
    let mut stranger = served.greet(Proposal::default());
    stranger.name = Nqn::new("nqn.2026-01.example:stranger").unwrap();
    for _ in 0..3 {
        stranger.connect_admin(0).unwrap_err();
    }
    let lost = served.greet(Proposal::default()).connect_to("nqn.2026-01.example:nowhere");
    assert_eq!(lost, Err(ConnectRefusal::invalid(Parameter::SUBNQN)));
    let refused = || match served.await_event(|event| matches!(event, TargetEvent::HostRefused { .. })) {
        TargetEvent::HostRefused { host, subsystem, why, .. } => (host, subsystem, why),
        _ => unreachable!(),
    };
    let not_among = "it is not among those that may connect";
    assert_eq!(refused(), (stranger.name.to_string(), SUBSYSTEM.to_owned(), not_among));
    let nowhere = "nqn.2026-01.example:nowhere".to_owned();
    assert_eq!(refused(), (HOST.to_owned(), nowhere, "there is no such subsystem here"));
}

#[test]
fn a_queue_that_disconnects_can_be_connected_again() {
    let served = Served::new();
    let (admin, mut io) = served.host(Proposal::default());
    assert!(io.fabrics(&FabricsCommand::Disconnect, &[]).0.status().is_success());
    assert_eq!(io.wait_for_end(), End::Closed);
    served.queue(&admin, 1, Proposal::default());
}

#[test]
fn discovery_lists_the_subsystem_at_either_address() {
    let served = Served::new();
    for address in [served.discovery(), served.address()] {
        let entries = discover(&mut Host::greet(address, Proposal::DIGESTS));
        let subsystem = entries.iter().find(|entry| entry.kind == SubsystemType::NVM).unwrap();
        assert_eq!(subsystem.subsystem.as_str(), SUBSYSTEM);
        assert_eq!(subsystem.service, served.address().port().to_string());
        assert_eq!(subsystem.address, "127.0.0.1");
        let current = entries.iter().find(|entry| entry.kind == SubsystemType::CURRENT_DISCOVERY).unwrap();
        assert_eq!(current.service, address.port().to_string());
    }
}

#[test]
fn discovery_port_refuses_other_subsystems_and_io_queues() {
    let served = Served::new();
    let mut host = Host::greet(served.discovery(), Proposal::default());
    assert_eq!(host.connect_admin(0), invalid(Parameter::SUBNQN));
    let mut host = Host::greet(served.discovery(), Proposal::default());
    let io = host.connect(1, ControllerChoice::Dynamic, DISCOVERY_NQN, 0);
    assert_eq!(io, invalid(Parameter::QID));
}

#[test]
fn host_without_keep_alive_loses_its_controller_alone() {
    let served = Served::new();
    let (mut other, _io) = served.host(Proposal::default());
    let mut silent = served.greet(Proposal::default());
    silent.connect_admin(4000).unwrap();
    silent.enable();
    let mut io = served.queue(&silent, 1, Proposal::default());
    let event = served.await_event(|event| matches!(event, TargetEvent::HostLeft { why: Some(_), .. }));
    let TargetEvent::HostLeft { controller, .. } = event else { unreachable!() };
    assert_eq!(controller, silent.controller().0);
    assert_eq!(silent.wait_for_end(), End::Closed);
    assert_eq!(io.wait_for_end(), End::Closed);
    assert_ne!(other.property(Property::Vs), 0);
}

#[test]
fn any_command_is_a_sign_of_life() {
    let served = Served::new();
    let mut admin = served.greet(Proposal::default());
    admin.connect_admin(4000).unwrap();
    admin.enable();
    let mut io = served.queue(&admin, 1, Proposal::default());
    let end = Instant::now() + Duration::from_millis(5500);
    while Instant::now() < end {
        assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    }
    assert_ne!(admin.property(Property::Vs), 0, "the admin queue was silent all the time");
}

#[test]
fn hosts_that_come_and_go_leave_room_for_the_next() {
    let served = Served::with(|options| options.target.threads = 2.try_into().unwrap());
    for round in 0..150 {
        let mut admin = served.greet(Proposal::default());
        let end = Instant::now() + TIMEOUT;
        // Controllers of hosts that have just gone may still be there.
        while admin.connect_admin(0) == Err(ConnectRefusal::for_now(RefusalKind::Busy)) {
            assert!(Instant::now() < end);
            admin = served.greet(Proposal::default());
        }
        admin.enable();
        if round % 2 == 0 {
            let mut io = served.queue(&admin, 1, Proposal::default());
            io.start(blocks(NvmOpcode::WRITE, 0, 65536), By::R2t, &pattern(round, 65536));
        }
    }
    let (_admin, mut io) = served.host(Proposal::default());
    assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
}

#[test]
fn connection_without_a_connect_command_is_closed() {
    let served = Served::new();
    let mut mute = TcpStream::connect(served.address()).unwrap();
    mute.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut slow = TcpStream::connect(served.address()).unwrap();
    slow.set_read_timeout(Some(TIMEOUT)).unwrap();
    slow.write_all(&[0, 0, 128]).unwrap();
    for stream in [&mut mute, &mut slow] {
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
    served.admin(Proposal::default());
}
