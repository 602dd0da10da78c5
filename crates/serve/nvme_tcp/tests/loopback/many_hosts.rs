//! Hundreds of hosts at one subsystem, and the share that one of them can take.

use byway_fabrics::ControllerChoice;
use byway_fabrics::authentication::{AuthSecrets, AuthSuites, DhchapSecret};
use byway_spec::Status;
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::fabrics::status::CONTROLLER_BUSY;
use byway_spec::nvm::NvmOpcode;
use byway_tcp_target::fuzz::SocketlessTarget;
use byway_tcp_target::{Dhchap, SubsystemTerms};

use crate::caller::{Caller, status};
use crate::host::{HOST, blocks, pattern};
use crate::served::{SUBSYSTEM, Served, name};

/// Controllers of a subsystem that hosts can have over fabrics, and of one of them.
const CONTROLLERS: usize = 2047;
const SHARE: usize = 256;

/// A header and the data behind it.
const DATA_AT: usize = 24;
const BLOCK: usize = 512;

fn is_busy(refused: Status) -> bool {
    refused.is(CONTROLLER_BUSY) && !refused.dnr()
}

/// A host's two queues.
fn queues(socketless: &SocketlessTarget, host: u32) -> (Caller, Caller) {
    let mut admin = Caller::of(socketless, host);
    let controller = admin.come().unwrap();
    admin.enable();
    let mut io = Caller::of(socketless, host);
    io.connect(1, ControllerChoice::Id(controller), SUBSYSTEM).unwrap();
    (admin, io)
}

fn write(io: &mut Caller, host: u32) {
    let mut write = blocks(NvmOpcode::WRITE, host.into(), BLOCK);
    write.cdw0.set_cid(7);
    write.set_sgl1(SglDescriptor::inline(BLOCK as u32));
    assert_eq!(status(&io.say(&write, &pattern(host.into(), BLOCK))), Status::SUCCESS);
}

fn read(io: &mut Caller, host: u32) -> Vec<u8> {
    let mut read = blocks(NvmOpcode::READ, host.into(), BLOCK);
    read.cdw0.set_cid(8);
    read.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, BLOCK as u32));
    io.say(&read, &[])[DATA_AT..DATA_AT + BLOCK].to_vec()
}

#[test]
fn three_hundred_hosts_have_a_controller_each_at_once_and_read_and_write() {
    let served = Served::new();
    let socketless = served.socketless();
    let mut hosts: Vec<(Caller, Caller)> = (0..300).map(|host| queues(&socketless, host)).collect();
    assert_eq!(socketless.hosts(), 300);
    for (host, (_, io)) in (0..).zip(&mut hosts) {
        write(io, host);
    }
    for (host, (_, io)) in (0..).zip(&mut hosts) {
        assert_eq!(read(io, (host + 1) % 300), pattern(u64::from((host + 1) % 300), BLOCK));
    }
}

#[test]
fn connect_without_a_free_controller_is_refused_as_busy() {
    let served = Served::new();
    let socketless = served.socketless();
    let come = |host: u32| {
        let mut admin = Caller::of(&socketless, host);
        admin.come().map(|_| admin)
    };
    let mut hosts: Vec<Caller> = (0..CONTROLLERS as u32).map(|host| come(host).unwrap()).collect();
    assert!(is_busy(come(9000).err().unwrap()));
    hosts.pop().into_iter().for_each(Caller::leave);
    assert!(come(9000).is_ok());
}

#[test]
fn the_identifier_of_a_controller_that_is_gone_is_given_again_last_of_all() {
    let served = Served::new();
    let socketless = served.socketless();
    let mut stays = Caller::new(&socketless);
    assert_eq!(stays.come().unwrap().0, 1);
    for id in (2..=CONTROLLERS as u16).chain(2..5) {
        let mut comes = Caller::new(&socketless);
        assert_eq!(comes.come().unwrap().0, id);
        comes.leave();
    }
}

#[test]
fn a_host_has_no_more_than_its_share_whatever_identifiers_it_says() {
    let served = Served::new();
    let socketless = served.socketless();
    let come = |host_id: u32| {
        let mut admin = Caller::of(&socketless, host_id);
        admin.host = name(HOST);
        admin.come().map(|_| admin)
    };
    let mut its: Vec<Caller> = (0..SHARE as u32).map(|host_id| come(host_id % 8).unwrap()).collect();
    assert!(is_busy(come(0).err().unwrap()) && is_busy(come(9000).err().unwrap()));
    queues(&socketless, 1);
    its.pop().into_iter().for_each(Caller::leave);
    assert!(come(9000).is_ok());
}

#[test]
fn half_of_the_controllers_are_reserved_for_authenticated_hosts() {
    let served = Served::new();
    let secrets = AuthSecrets { host: DhchapSecret::generate(None).unwrap(), controller: None };
    let hosts = vec![(name(HOST), secrets)];
    let dhchap = Dhchap { hosts, suites: AuthSuites::default(), timeout: Dhchap::TIMEOUT };
    let socketless = served
        .socketless_with(SubsystemTerms { dhchap: Some(dhchap), ..SubsystemTerms::of(name(SUBSYSTEM)) });
    let claim = || {
        let mut admin = Caller::new(&socketless);
        admin.come().unwrap();
        admin
    };
    let mut claims: Vec<Caller> = (0..CONTROLLERS.div_ceil(2)).map(|_| claim()).collect();
    claims[0].pass(0);
    assert!(!claims[0].connection.is_over());
    claims.push(claim());
    claims.iter_mut().take(2).for_each(|claim| claim.pass(0));
    assert!(claims[0].connection.is_over() && !claims[1].connection.is_over());
}
