//! Ports, subsystems and hosts that are added and removed while others are connected, and which hosts get an event of it.

use std::net::{SocketAddr, TcpStream};

use byway_fabrics::{ConnectRefusal, Parameter, Property, RefusalKind};
use byway_flash::RunOptions;
use byway_spec::nvm::NvmOpcode;
use byway_tcp_target::{ControlError, PortId, SubsystemTerms, TargetEvent};

use crate::discovery_client::{Listener, generation, read_log, read_part};
use crate::host::{End, HOST, Host, Proposal, blocks};
use crate::served::{SUBSYSTEM, Served, device, name};

const SECOND: &str = "nqn.2026-01.example:byway:second";
const STRANGER: &str = "nqn.2026-01.example:stranger";

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn known(subsystem: &str, at: SocketAddr) -> (String, String) {
    (subsystem.to_owned(), at.port().to_string())
}

#[test]
fn discovery_client_gets_events_of_opened_and_closed_ports() {
    for threads in [1, 2] {
        let served = Served::with(|asked| asked.target.threads = threads.try_into().unwrap());
        let mut listener = Listener::new(&served);
        let port = served.control().open_port(anywhere()).unwrap();
        assert_eq!(port.id, PortId(2));
        let both = [known(SUBSYSTEM, served.address()), known(SUBSYSTEM, port.address)];
        assert_eq!(listener.hear(), both);
        let (_admin, mut io) = served.host_at(2);
        assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
        served.control().close_port(port.id).unwrap();
        assert_eq!(listener.hear(), both[..1]);
    }
}

#[test]
fn a_port_that_goes_takes_its_hosts_along_and_no_others() {
    let served = Served::with_ports(2, |_| {});
    let (_first, mut io_of_first) = served.host_at(1);
    let (mut second, mut io_of_second) = served.host_at(2);
    let at = served.port(2);
    served.control().close_port(PortId(2)).unwrap();
    assert_eq!(second.wait_for_end(), End::Closed);
    assert_eq!(io_of_second.wait_for_end(), End::Closed);
    assert!(TcpStream::connect(at).is_err());
    assert!(io_of_first.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    let refused = served.control().close_port(PortId(2)).unwrap_err();
    assert!(matches!(refused, ControlError::NoPort(PortId(2))));
    assert_eq!(served.control().open_port(anywhere()).unwrap().id, PortId(2), "the number is free again");
}

#[test]
fn queues_that_came_by_a_port_that_goes_end_with_it_and_their_controller_by_another_stays() {
    let served = Served::with_ports(2, |_| {});
    let (admin, mut io) = served.host_at(1);
    let mut by_second = Host::greet(served.port(2), Proposal::default());
    by_second.connect_io(2, admin.controller()).unwrap();
    assert!(by_second.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    served.control().close_port(PortId(2)).unwrap();
    assert_eq!(by_second.wait_for_end(), End::Closed);
    assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    served.queue(&admin, 2, Proposal::default());
}

#[test]
fn discovery_client_gets_events_of_added_and_removed_subsystems() {
    let served = Served::new();
    let mut listener = Listener::new(&served);
    let second = device(SECOND, RunOptions::default());
    let add = || served.control().add_subsystem(SubsystemTerms::of(name(SECOND)), second.capsules().unwrap());
    add().unwrap();
    assert!(matches!(add(), Err(ControlError::Taken(taken)) if taken.as_str() == SECOND));
    let both = [known(SUBSYSTEM, served.address()), known(SECOND, served.address())];
    assert_eq!(listener.hear(), both);
    let mut admin = served.admin_of(SECOND);
    let (_first, mut io_of_first) = served.host(Proposal::default());
    served.control().remove_subsystem(&name(SECOND)).unwrap();
    assert_eq!(admin.wait_for_end(), End::Closed);
    assert_eq!(listener.hear(), both[..1]);
    assert!(served.greet(Proposal::default()).connect_to(SECOND).is_err());
    assert!(io_of_first.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    let gone = served.control().remove_subsystem(&name(SECOND)).unwrap_err();
    assert!(matches!(gone, ControlError::NoSubsystem(_)));
    // This test has the only handle of its device, which can be served again.
    add().unwrap();
    served.admin_of(SECOND);
}

#[test]
fn access_list_change_sends_events_to_affected_hosts_only() {
    let served = Served::with(|asked| asked.first().hosts = vec![name(HOST)]);
    let (mut host, mut stranger) = (Listener::new(&served), Listener::named(&served, Some(STRANGER)));
    let before = generation(&mut stranger.host);
    served.control().set_allowed(&name(SUBSYSTEM), Some(vec![name(HOST), name(STRANGER)])).unwrap();
    assert_eq!(stranger.hear(), [known(SUBSYSTEM, served.address())]);
    assert!(!host.is_notified(), "nothing that it sees has changed");
    assert!(generation(&mut stranger.host) > before);
    served.control().set_allowed(&name(SUBSYSTEM), Some(vec![name(STRANGER)])).unwrap();
    assert_eq!(host.hear(), []);
    served.control().set_allowed(&name(SUBSYSTEM), None).unwrap();
    assert_eq!(host.hear(), [known(SUBSYSTEM, served.address())]);
    assert_eq!(served.control().allowed(&name(SUBSYSTEM)).unwrap(), None);
}

#[test]
fn a_host_that_may_not_stay_executes_nothing_more_and_others_do() {
    let served = Served::with(|asked| asked.target.threads = 2.try_into().unwrap());
    let (_admin, mut io) = served.host(Proposal::default());
    let mut stranger = served.greet(Proposal::default());
    stranger.name = name(STRANGER);
    stranger.connect_admin(0).unwrap();
    stranger.enable();
    let mut io_of_stranger = served.greet(Proposal::default());
    io_of_stranger.name = name(STRANGER);
    io_of_stranger.connect_io(1, stranger.controller()).unwrap();
    served.control().set_allowed(&name(SUBSYSTEM), Some(vec![name(HOST)])).unwrap();
    assert_eq!(io_of_stranger.wait_for_end(), End::Closed);
    assert_eq!(stranger.wait_for_end(), End::Closed);
    let left = served.await_event(|event| matches!(event, TargetEvent::HostLeft { .. }));
    assert!(matches!(left, TargetEvent::HostLeft { host, why: Some(_), .. } if host.as_str() == STRANGER));
    assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    let mut again = served.greet(Proposal::default());
    again.name = name(STRANGER);
    assert_eq!(again.connect_admin(0), Err(ConnectRefusal::for_good(RefusalKind::InvalidHost)));
}

#[test]
fn a_log_that_changes_between_two_parts_is_read_again() {
    let served = Served::new();
    let mut listener = Listener::new(&served);
    let entries = read_log(&mut listener.host, |parts| {
        if parts == 2 {
            served.control().open_port(anywhere()).unwrap();
        }
    });
    let ports: Vec<u16> = entries.iter().filter(|e| !e.subsystem.is_discovery()).map(|e| e.port_id).collect();
    assert_eq!(ports, [1, 2]);
}

#[test]
fn discovery_event_is_sent_once_until_the_log_is_read() {
    let served = Served::new();
    let mut listener = Listener::new(&served);
    let another = listener.host.start_read(crate::admin::event_request(), 0);
    let control = served.control();
    control.open_port(anywhere()).unwrap();
    control.open_port(anywhere()).unwrap();
    let is_retained = true;
    read_part(&mut listener.host, is_retained, 0, 1024);
    assert!(listener.is_notified());
    assert!(!listener.host.is_done(another), "the log was not read but to look at it");
    assert_eq!(listener.hear().len(), 3);
    assert!(!listener.host.is_done(another), "what was read is no news");
    control.open_port(anywhere()).unwrap();
    assert!(listener.host.wait(another).0.status().is_success());
}

#[test]
fn a_host_that_asks_for_no_events_gets_none() {
    let served = Served::new();
    let mut host = Host::greet(served.discovery(), Proposal::default());
    crate::discovery_client::discover(&mut host);
    let request = host.start_read(crate::admin::event_request(), 0);
    served.control().open_port(anywhere()).unwrap();
    assert_eq!(read_log(&mut host, |_| {}).len(), 3);
    assert!(!host.is_done(request));
}

#[test]
fn subsystem_is_found_and_listed_at_its_own_ports_only() {
    let served = Served::with_ports(3, |asked| asked.first().ports = Some(vec![PortId(1), PortId(2)]));
    let mut listener = Listener::new(&served);
    let at =
        |ports: &[usize]| ports.iter().map(|port| known(SUBSYSTEM, served.port(*port))).collect::<Vec<_>>();
    assert_eq!(listener.known(), at(&[1, 2]));
    let refused = ConnectRefusal::invalid(Parameter::SUBNQN);
    let connect = |port| Host::greet(served.port(port), Proposal::default()).connect_admin(0);
    assert_eq!(connect(3), Err(refused));
    let (mut first, mut io_of_first) = served.host_at(1);
    let (mut second, mut io_of_second) = served.host_at(2);
    let mut by_second = Host::greet(served.port(2), Proposal::default());
    by_second.connect_io(2, first.controller()).unwrap();
    let by_third = Host::greet(served.port(3), Proposal::default()).connect_io(3, first.controller());
    assert_eq!(by_third, Err(refused));
    // Connections by a removed port end, also queues by that port to a controller of another port.
    let set = |ports: &[u16]| {
        let ports = Some(ports.iter().copied().map(PortId).collect());
        served.control().set_ports_of(&name(SUBSYSTEM), ports)
    };
    set(&[1, 3]).unwrap();
    assert_eq!(listener.hear(), at(&[1, 3]));
    for host in [&mut second, &mut io_of_second, &mut by_second] {
        assert_eq!(host.wait_for_end(), End::Closed);
    }
    assert_eq!(connect(2), Err(refused));
    connect(3).unwrap();
    assert!(io_of_first.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    assert!(matches!(set(&[4]), Err(ControlError::NoPort(PortId(4)))));
    // A new port with the number of a closed one does not inherit its subsystems.
    served.control().close_port(PortId(3)).unwrap();
    assert_eq!(listener.hear(), at(&[1]));
    let again = served.control().open_port(anywhere()).unwrap();
    assert_eq!(again.id, PortId(3));
    assert!(!listener.is_notified());
    assert_eq!(listener.known(), at(&[1]));
    assert_eq!(Host::greet(again.address, Proposal::default()).connect_admin(0), Err(refused));
    served.control().set_ports_of(&name(SUBSYSTEM), None).unwrap();
    assert_eq!(listener.hear(), at(&[1, 2, 3]));
    assert!(first.property(Property::Csts) > 0);
}
