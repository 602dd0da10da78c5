//! Abort over a connection: bit 0 of its result is the truth, whatever the command that it names waits for.

use byway_fabrics::ControllerChoice;
use byway_in_process::Embedded;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Completion, Status};
use byway_tcp_target::SubsystemTerms;

use crate::engine::IdleEngine;
use crate::host::{By, Host, Proposal, blocks, pattern};
use crate::served::{EXPORTED, Served, device_with, name};

const WAITING: &str = "nqn.2026-01.example:byway:waiting";
const NOT_ABORTED: u32 = 1;

/// Aborts a command of I/O queue 1.
fn abort(admin: &mut Host, cid: u16) -> Completion {
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(1).with_cid(cid).into_bits();
    let done = admin.read(abort, 0).0;
    assert!(done.status().is_success());
    done
}

/// The usual device beside one whose third namespace does nothing by itself.
fn with_idle(served: &Served) -> (Embedded, Host, Host) {
    let idle = device_with(WAITING, Box::new(IdleEngine::new()));
    served.control().add_subsystem(SubsystemTerms::of(name(WAITING)), idle.capsules().unwrap()).unwrap();
    let admin = served.admin_of(WAITING);
    let mut io = served.greet(Proposal::default());
    io.connect(1, ControllerChoice::Id(admin.controller()), WAITING, 0).unwrap();
    (idle, admin, io)
}

#[test]
fn a_write_whose_data_is_still_to_come_is_not_aborted_and_takes_it() {
    let served = Served::new();
    let (mut admin, mut io) = served.host(Proposal::default());
    let data = pattern(1, 64 << 10);
    // It is asked for its data, which the host sends once it looks.
    let cid = io.start(blocks(NvmOpcode::WRITE, 0, data.len()), By::R2t, &data);
    assert_eq!(io.stream.peek(&mut [0]).unwrap(), 1);
    assert_eq!(abort(&mut admin, cid).dw0, NOT_ABORTED);
    assert!(io.wait(cid).0.status().is_success());
    assert!(io.read(blocks(NvmOpcode::READ, 0, data.len()), data.len()).1 == data);
}

#[test]
fn a_first_fused_command_that_waits_for_its_second_is_not_aborted_and_is_compared_with_it() {
    let served = Served::new();
    let (mut admin, mut io) = served.host(Proposal::default());
    let half = |opcode, fuse| {
        let mut command = blocks(opcode, 5, 512);
        command.cdw0.set_fuse(fuse);
        command
    };
    let data = pattern(1, 512);
    let first = io.start(half(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST), By::Capsule, &[0; 512]);
    assert_eq!(abort(&mut admin, first).dw0, NOT_ABORTED);
    assert!(!io.is_done(first));
    let second = io.start(half(NvmOpcode::WRITE, Cdw0::FUSE_SECOND), By::Capsule, &data);
    assert!(io.wait(first).0.status().is_success() && io.wait(second).0.status().is_success());
    assert!(io.read(blocks(NvmOpcode::READ, 5, 512), 512).1 == data);
}

#[test]
fn a_command_that_waits_in_the_engine_of_an_export_is_aborted_and_says_so_over_its_own_queue() {
    let served = Served::new();
    let (_idle, mut admin, mut io) = with_idle(&served);
    let mut write = blocks(NvmOpcode::WRITE, 0, 4096);
    write.nsid = EXPORTED;
    let cid = io.start(write, By::Capsule, &pattern(1, 4096));
    // What came before it over this queue is answered, so that it is in its engine.
    assert!(io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status().is_success());
    assert!(!io.is_done(cid));
    assert_eq!(abort(&mut admin, cid).dw0, 0);
    assert!(io.wait(cid).0.status().is(Status::ABORT_REQUESTED));
    assert_eq!(abort(&mut admin, cid).dw0, NOT_ABORTED, "it is over");
}

#[test]
fn a_command_that_was_never_there_is_not_aborted() {
    let served = Served::new();
    let (mut admin, _io) = served.host(Proposal::default());
    assert_eq!(abort(&mut admin, 4711).dw0, NOT_ABORTED);
}
