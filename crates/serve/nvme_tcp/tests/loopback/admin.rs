//! Admin commands, controllers, and what several hosts have of each other.

use byway_fabrics::Property;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::event::Event;
use byway_spec::base::feature::FeatureId;
use byway_spec::base::identify::Cns;
use byway_spec::base::log::LogPage;
use byway_spec::base::register::{Cc, Csts};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};

use crate::host::{By, End, Host, Proposal, blocks, pattern};
use crate::served::{BLOCKS, KEYS, SUBSYSTEM, Served};

pub fn identify(cns: Cns, nsid: u32) -> Command {
    let mut command = Command::new(AdminOpcode::IDENTIFY.0, 0, nsid);
    command.cdw10 = u32::from(cns.0);
    command
}

pub fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub fn set_feature(fid: FeatureId, value: u32) -> Command {
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
    (command.cdw10, command.cdw11) = (u32::from(fid.0), value);
    command
}

pub fn event_request() -> Command {
    Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0)
}

#[test]
fn identify_says_what_linux_and_spdk_look_at() {
    let served = Served::new();
    let mut admin = served.admin(Proposal::default());
    let (done, data) = admin.read(identify(Cns::CONTROLLER, 0), 4096);
    assert!(done.status().is_success());
    assert_eq!(number(&data, 78, 2), u64::from(admin.controller().0), "CNTLID");
    assert_eq!(number(&data, 96, 4) & 1 << 6, 1 << 6, "traffic keeps alive");
    assert!(number(&data, 320, 2) >= 1, "KAS");
    assert_eq!(number(&data, 514, 2), 1024, "MAXCMD");
    assert_eq!(number(&data, 536, 4), 1 | 1 << 20 | 1 << 21, "SGLS");
    assert_eq!(number(&data, 1792, 4) * 16 - 64, 16384, "IOCCSZ");
    assert_eq!(number(&data, 1796, 4), 1, "IORCSZ");
    assert_eq!((number(&data, 1800, 2), data[1802], data[1803]), (0, 0, 1), "ICDOFF, FCATT, MSDBD");
    assert_eq!(&data[768..768 + SUBSYSTEM.len()], SUBSYSTEM.as_bytes());
    let cap = admin.property(Property::Cap);
    assert_eq!(cap & 0xffff, 1023, "MQES");
    assert_ne!(cap & 1 << 43, 0, "every command set");
    let list = admin.read(identify(Cns::ACTIVE_NAMESPACES, 0), 4096).1;
    assert_eq!((number(&list, 0, 4), number(&list, 4, 4), number(&list, 8, 4)), (1, 2, 0));
}

#[test]
fn commands_are_refused_while_the_controller_is_disabled() {
    let served = Served::new();
    let mut admin = served.greet(Proposal::default());
    admin.connect_admin(0).unwrap();
    let too_early = admin.read(identify(Cns::CONTROLLER, 0), 4096).0;
    assert!(too_early.status().is(Status::COMMAND_SEQUENCE_ERROR));
    let mut io = served.greet(Proposal::default());
    assert!(io.connect_io(1, admin.controller()).is_err());
    admin.enable();
    assert!(admin.read(identify(Cns::CONTROLLER, 0), 4096).0.status().is_success());
    admin.set_property(Property::Cc, 0);
    let too_late = admin.read(identify(Cns::CONTROLLER, 0), 4096).0;
    assert!(too_late.status().is(Status::COMMAND_SEQUENCE_ERROR));
}

#[test]
fn queues_are_not_made_by_admin_commands() {
    let served = Served::new();
    let mut admin = served.admin(Proposal::default());
    for opcode in [AdminOpcode::CREATE_SQ, AdminOpcode::CREATE_CQ, AdminOpcode::DOORBELL_BUFFER_CONFIG] {
        let refused = admin.read(Command::new(opcode.0, 0, 0), 0).0;
        assert!(refused.status().is(Status::INVALID_OPCODE), "{opcode}");
    }
}

#[test]
fn the_data_of_an_admin_command_comes_either_way() {
    let served = Served::new();
    let mut admin = served.admin(Proposal::DIGESTS);
    for by in [By::Capsule, By::R2t] {
        let mut behavior = vec![0; 512];
        behavior[0] = u8::from(by == By::Capsule);
        assert!(admin.write(set_feature(FeatureId::HOST_BEHAVIOR, 0), by, &behavior).status().is_success());
        let mut get = Command::new(AdminOpcode::GET_FEATURES.0, 0, 0);
        get.cdw10 = u32::from(FeatureId::HOST_BEHAVIOR.0);
        assert_eq!(admin.read(get, 512).1, behavior);
    }
}

#[test]
fn a_controller_reset_ends_the_io_queues_and_leaves_the_admin_queue() {
    for threads in [1, 3] {
        let served = Served::with(|options| options.target.threads = threads.try_into().unwrap());
        let (mut admin, mut io) = served.host(Proposal::default());
        let data = pattern(1, 4096);
        assert!(io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &data).status().is_success());
        admin.set_property(Property::Cc, 0);
        assert_eq!(io.wait_for_end(), End::Closed);
        admin.enable();
        let mut io = served.queue(&admin, 1, Proposal::default());
        assert!(io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == data);
    }
}

#[test]
fn shutdown_when_done_sets_csts() {
    let served = Served::new();
    let mut admin = served.admin(Proposal::default());
    let shut = Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS).with_iosqes(6).with_iocqes(4);
    admin.set_property(Property::Cc, shut.with_shn(Cc::SHN_NORMAL).into_bits().into());
    assert_eq!(Csts::from_bits(admin.property(Property::Csts) as u32).shst(), Csts::SHST_COMPLETE);
}

#[test]
fn event_requests_wait_and_are_aborted_one_by_one() {
    let served = Served::new();
    let mut admin = served.admin(Proposal::default());
    let waiting = [(); 3].map(|()| admin.start_read(event_request(), 0));
    assert!(admin.read(identify(Cns::CONTROLLER, 0), 4096).0.status().is_success());
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = u32::from(waiting[1]) << 16;
    assert_eq!(admin.read(abort, 0).0.dw0, 0, "it was aborted");
    assert!(admin.wait(waiting[1]).0.status().is(Status::ABORT_REQUESTED));
    assert!(!admin.is_done(waiting[0]) && !admin.is_done(waiting[2]));
    abort.cdw10 = 0xabcd << 16;
    assert_eq!(admin.read(abort, 0).0.dw0, 1, "there is no such command");
}

#[test]
fn namespace_change_sends_an_event_to_every_subscribed_host() {
    let served = Served::with(|options| options.target.threads = 2.try_into().unwrap());
    let mut listener = served.admin(Proposal::default());
    let wanted = set_feature(FeatureId::ASYNC_EVENTS, 1 << 8);
    assert!(listener.read(wanted, 0).0.status().is_success());
    let request = listener.start_read(event_request(), 0);
    let mut other = served.admin(Proposal::default());
    let format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, BLOCKS);
    assert!(other.read(format, 0).0.status().is_success());
    assert_eq!(listener.wait(request).0.dw0, Event::NAMESPACE_CHANGED.into_bits());
    let mut log = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, 0);
    log.cdw10 = u32::from(LogPage::CHANGED_NAMESPACES.0) | 1023 << 16;
    assert_eq!(number(&listener.read(log, 4096).1, 0, 4), u64::from(BLOCKS));
}

#[test]
fn hosts_share_blocks_and_reservations_exclude_each_other() {
    let served = Served::new();
    let (_one_admin, mut one) = served.host(Proposal::default());
    let mut other_admin = served.greet(Proposal::default());
    other_admin.identity.0[0] ^= 1;
    other_admin.connect_admin(0).unwrap();
    other_admin.enable();
    let mut other = served.greet(Proposal::default());
    other.identity = other_admin.identity;
    other.connect_io(1, other_admin.controller()).unwrap();
    let data = pattern(5, 4096);
    assert!(one.write(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &data).status().is_success());
    assert!(other.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == data);
    // Register key 1, then acquire a write exclusive reservation.
    let mut register = Command::new(NvmOpcode::RESERVATION_REGISTER.0, 0, BLOCKS);
    register.cdw10 = 0;
    let keys = [0u64, 1].map(u64::to_le_bytes).concat();
    assert!(one.write(register, By::Capsule, &keys).status().is_success());
    let mut acquire = Command::new(NvmOpcode::RESERVATION_ACQUIRE.0, 0, BLOCKS);
    acquire.cdw10 = 1 << 8;
    let keys = [1u64, 0].map(u64::to_le_bytes).concat();
    assert!(one.write(acquire, By::R2t, &keys).status().is_success());
    let kept = other.write(blocks(NvmOpcode::WRITE, 0, 4096), By::Capsule, &data);
    assert!(kept.status().is(Status::RESERVATION_CONFLICT), "{:?}", kept.status());
    assert!(one.write(blocks(NvmOpcode::WRITE, 0, 4096), By::R2t, &data).status().is_success());
    // Preempt and abort, of a holder that is not there: it crashed another target.
    let mut preempt = Command::new(NvmOpcode::RESERVATION_ACQUIRE.0, 0, KEYS);
    preempt.cdw10 = 2 | 1 << 8;
    let refused = one.write(preempt, By::Capsule, &keys);
    assert!(!refused.status().is_success());
    assert!(other.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == data);
}

#[test]
fn a_controller_has_as_many_queues_as_it_says_over_any_number_of_threads() {
    let served = Served::with(|options| options.target.threads = 2.try_into().unwrap());
    let mut admin = served.admin(Proposal::default());
    let granted = admin.read(set_feature(FeatureId::NUMBER_OF_QUEUES, 0x007f_007f), 0).0;
    assert_eq!(granted.dw0, 127 | 127 << 16);
    let mut queues: Vec<Host> = (1..=128).map(|qid| served.queue(&admin, qid, Proposal::default())).collect();
    let writes: Vec<u16> = (0u64..)
        .zip(&mut queues)
        .map(|(at, io)| io.start(blocks(NvmOpcode::WRITE, at * 8, 4096), By::Capsule, &pattern(at, 4096)))
        .collect();
    for (io, cid) in queues.iter_mut().zip(writes) {
        assert!(io.wait(cid).0.status().is_success());
    }
    for (at, io) in (0u64..).zip(&mut queues) {
        assert!(io.read(blocks(NvmOpcode::READ, at * 8, 4096), 4096).1 == pattern(at, 4096));
    }
    let mut one_more = served.greet(Proposal::default());
    assert!(one_more.connect_io(129, admin.controller()).is_err());
}
