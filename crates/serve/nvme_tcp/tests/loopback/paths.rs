//! Several ports, and how namespaces are reached by each.

use byway_controller::ControllerId;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::ana::AnaState;
use byway_spec::base::event::Event;
use byway_spec::base::feature::FeatureId;
use byway_spec::base::identify::Cns;
use byway_spec::base::log::{LogCdw10, LogPage};
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_tcp_target::{AnaSetting, PathError, PortId};

use crate::admin::{event_request, identify, number, set_feature};
use crate::host::{By, Host, Proposal, blocks, keyed, pattern};
use crate::served::{BLOCKS, KEYS, Served};

/// Reads a part of the ANA log page.
fn ana_log(admin: &mut Host, groups_only: bool, retain: bool, offset: u32, bytes: usize) -> Vec<u8> {
    let mut command = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
    let cdw10 = LogCdw10::new().with_lid(LogPage::ANA).with_lsp(groups_only.into()).with_rae(retain);
    command.cdw10 = cdw10.with_numdl_z((bytes / 4 - 1) as u16).into_bits();
    command.cdw12 = offset;
    let (completion, page) = admin.read(command, bytes);
    assert!(completion.status().is_success(), "{:?}", completion.status());
    page
}

/// The groups of a page: each with its state and its namespaces.
fn groups(page: &[u8]) -> Vec<(u64, AnaState, Vec<u64>)> {
    let mut at = 16;
    let group = |_| {
        let nsids = number(page, at + 4, 4) as usize;
        let of = (0..nsids).map(|n| number(page, at + 32 + 4 * n, 4)).collect();
        let group = (number(page, at, 4), AnaState(page[at + 16]), of);
        at += 32 + 4 * nsids;
        group
    };
    (0..number(page, 8, 2)).map(group).collect()
}

fn wants_ana_events(admin: &mut Host) {
    assert!(admin.read(set_feature(FeatureId::ASYNC_EVENTS, 1 << 11), 0).0.status().is_success());
}

fn status_of(host: &mut Host, command: Command, bytes: usize) -> Status {
    host.read(command, bytes).0.status()
}

#[test]
fn ana_log_of_each_port_is_read_in_any_parts() {
    let served = Served::with_ports(2, |options| {
        let of_port_2 = |nsid, state| AnaSetting { port: PortId(2), nsid, state };
        options.first().ana.push(of_port_2(None, AnaState::NON_OPTIMIZED));
        options.first().ana.push(of_port_2(Some(KEYS), AnaState::CHANGE));
    });
    let (mut first, _io) = served.host_at(1);
    let (mut second, _io2) = served.host_at(2);
    let both = |state, other| vec![(1, state, vec![1]), (2, other, vec![2])];
    let page = ana_log(&mut first, false, false, 0, 4096);
    assert_eq!(groups(&page), both(AnaState::OPTIMIZED, AnaState::OPTIMIZED));
    let page = ana_log(&mut second, false, false, 0, 4096);
    assert_eq!(groups(&page), both(AnaState::NON_OPTIMIZED, AnaState::CHANGE));
    let alone = ana_log(&mut second, true, false, 0, 16 + 2 * 32);
    let wanted = [(1, AnaState::NON_OPTIMIZED, vec![]), (2, AnaState::CHANGE, vec![])];
    assert_eq!(groups(&alone), wanted);
    let length = 16 + 2 * 36;
    for parts in [4, 20, 36] {
        let read = |at: usize| ana_log(&mut second, false, false, at as u32, parts.min(length - at));
        let whole: Vec<u8> = (0..length).step_by(parts).flat_map(read).collect();
        assert_eq!(whole, page[..length], "{parts}");
    }
}

#[test]
fn controller_reports_ana_with_several_ports_or_a_state() {
    let several = Served::with_ports(2, |_| {});
    let (mut admin, _io) = several.host_at(2);
    let page = admin.read(identify(Cns::CONTROLLER, 0), 4096).1;
    assert_eq!(page[76], 0b1011, "CMIC: several ports, several controllers, ANA");
    assert_eq!(number(&page, 92, 4), 1 << 8 | 1 << 11, "OAES");
    assert_eq!((page[342], page[343]), (10, 0x5f), "ANATT, ANACAP");
    assert_eq!((number(&page, 344, 4), number(&page, 348, 4)), (64, 64), "ANAGRPMAX, NANAGRPID");
    let page = admin.read(identify(Cns::NAMESPACE, BLOCKS), 4096).1;
    assert_eq!((page[30], number(&page, 92, 4)), (1, u64::from(BLOCKS)), "NMIC, ANAGRPID");
    let page = admin.read(identify(Cns::INDEPENDENT_NAMESPACE, KEYS), 4096).1;
    assert_eq!((page[1], number(&page, 4, 4)), (1, u64::from(KEYS)));

    let one = Served::new();
    let mut admin = one.admin(Proposal::default());
    let page = admin.read(identify(Cns::CONTROLLER, 0), 4096).1;
    assert_eq!((page[76], page[343]), (0b10, 0));
    let mut log = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
    log.cdw10 = u32::from(LogPage::ANA.0) | 3 << 16;
    assert!(status_of(&mut admin, log, 16).is(Status::INVALID_LOG_PAGE));
    let refused = one.try_set(1, BLOCKS, AnaState::INACCESSIBLE).unwrap_err();
    assert!(matches!(refused, PathError::AnaNotReported));
}

#[test]
fn unserved_ana_state_fails_commands_of_its_port_only() {
    let served = Served::with_ports(2, |_| {});
    let (mut admin, mut io) = served.host_at(1);
    let (_other_admin, mut other) = served.host_at(2);
    let data = pattern(1, 4096);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &data).status().is_success());
    for (state, status) in [
        (AnaState::INACCESSIBLE, Status::ANA_INACCESSIBLE),
        (AnaState::PERSISTENT_LOSS, Status::ANA_PERSISTENT_LOSS),
        (AnaState::CHANGE, Status::ANA_TRANSITION),
    ] {
        served.set(1, BLOCKS, state);
        assert!(status_of(&mut io, blocks(NvmOpcode::READ, 0, 4096), 4096).is(status));
        for by in [By::Capsule, By::R2t] {
            let written = io.write(blocks(NvmOpcode::WRITE, 0, 4096), by, &pattern(2, 4096));
            assert_eq!(written.status(), status, "no Do Not Retry");
        }
        let flush = Command::new(NvmOpcode::FLUSH.0, 0, BLOCKS);
        assert!(status_of(&mut io, flush, 0).is(status));
        let format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, BLOCKS);
        assert!(status_of(&mut admin, format, 0).is(status));
        let mut persistence = Command::new(AdminOpcode::GET_FEATURES.0, 0, BLOCKS);
        persistence.cdw10 = u32::from(FeatureId::RESERVATION_PERSISTENCE.0);
        assert!(status_of(&mut admin, persistence, 0).is(status));
        let page = admin.read(identify(Cns::NAMESPACE, BLOCKS), 4096).1;
        assert_eq!((number(&page, 0, 8), number(&page, 16, 8)), (65536, 0), "NSZE, NUSE");
        // Another namespace, and the same over another port.
        assert!(io.write(keyed(KvOpcode::STORE, b"key", 3), By::Capsule, b"abc").status().is_success());
        assert!(other.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == data);
    }
    for state in [AnaState::NON_OPTIMIZED, AnaState::OPTIMIZED] {
        served.set(1, BLOCKS, state);
        assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == data);
    }
}

#[test]
fn ana_event_is_sent_once_to_the_hosts_of_its_port() {
    let served = Served::with_ports(2, |options| options.target.threads = 2.try_into().unwrap());
    let (mut admin, _io) = served.host_at(1);
    let (mut other, _io2) = served.host_at(2);
    let mut requests = Vec::new();
    for host in [&mut admin, &mut other] {
        wants_ana_events(host);
        requests.push(host.start_read(event_request(), 0));
    }
    let counts = |page: &[u8]| (number(page, 0, 8), number(page, 16 + 8, 8), number(page, 16 + 36 + 8, 8));
    let before = counts(&ana_log(&mut admin, false, true, 0, 4096));
    served.set(1, BLOCKS, AnaState::INACCESSIBLE);
    assert_eq!(admin.wait(requests[0]).0.dw0, Event::ANA_CHANGED.into_bits());
    let after = counts(&ana_log(&mut admin, false, true, 0, 4096));
    assert_eq!(after, (before.0 + 1, before.1 + 1, before.2));
    // Read with RAE: no further event is sent yet.
    let next = admin.start_read(event_request(), 0);
    served.set(1, BLOCKS, AnaState::OPTIMIZED);
    assert!(admin.read(identify(Cns::CONTROLLER, 0), 4096).0.status().is_success());
    assert!(!admin.is_done(next));
    // Read without: the event is cleared, and the next change sends one.
    ana_log(&mut admin, false, false, 0, 4096);
    assert!(admin.read(identify(Cns::CONTROLLER, 0), 4096).0.status().is_success());
    assert!(!admin.is_done(next), "it was read already");
    served.set(1, None, AnaState::NON_OPTIMIZED);
    assert_eq!(admin.wait(next).0.dw0, Event::ANA_CHANGED.into_bits());
    assert!(other.read(identify(Cns::CONTROLLER, 0), 4096).0.status().is_success());
    assert!(!other.is_done(requests[1]));
}

#[test]
fn ana_event_needs_a_subscription_and_a_change_of_state() {
    let served = Served::with_ports(2, |_| {});
    let (mut admin, _io) = served.host_at(1);
    let request = admin.start_read(event_request(), 0);
    served.set(1, BLOCKS, AnaState::INACCESSIBLE);
    assert!(admin.read(identify(Cns::CONTROLLER, 0), 4096).0.status().is_success());
    assert!(!admin.is_done(request));
    ana_log(&mut admin, false, false, 0, 4096);
    wants_ana_events(&mut admin);
    served.set(1, BLOCKS, AnaState::INACCESSIBLE);
    assert!(admin.read(identify(Cns::CONTROLLER, 0), 4096).0.status().is_success());
    assert!(!admin.is_done(request));
    for (port, nsid, state) in [(3, 1, AnaState::CHANGE), (1, 65, AnaState::CHANGE), (1, 1, AnaState(9))] {
        assert!(matches!(served.try_set(port, nsid, state), Err(PathError::Refused { .. })));
    }
}

#[test]
fn subsystem_is_shared_by_hosts_of_all_ports() {
    let served = Served::with_ports(3, |_| {});
    let mut hosts: Vec<_> = (1..=3).map(|port| served.host_at(port)).collect();
    let ids: Vec<ControllerId> = hosts.iter().map(|(admin, _)| ControllerId(admin.controller().0)).collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    let data = pattern(7, 4096);
    assert!(hosts[0].1.write(blocks(NvmOpcode::WRITE, 64, 4096), By::R2t, &data).status().is_success());
    for (_, io) in &mut hosts {
        assert!(io.read(blocks(NvmOpcode::READ, 64, 4096), 4096).1 == data);
    }
    // Queues go where their controller is, whichever port they come by.
    let mut io = Host::greet(served.port(2), Proposal::default());
    io.connect_io(2, hosts[0].0.controller()).unwrap();
    served.set(1, BLOCKS, AnaState::INACCESSIBLE);
    assert!(status_of(&mut io, blocks(NvmOpcode::READ, 64, 4096), 4096).is(Status::ANA_INACCESSIBLE));
}
