//! Abort over a connection: a command that waits for its data, or for the one that it is fused with, is aborted, and bit 0 of the
//! result is the truth.

use std::num::NonZeroU16;
use std::thread;

use byway_executor::Embedded;
use byway_fabrics::ControllerChoice;
use byway_nvme_tcp::{CommandId, H2cData, ReadyToTransfer, TransferTag};
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Cdw0, Command, Completion, Status};
use byway_tcp_target::SubsystemTerms;

use crate::caller::{Caller, connected, status};
use crate::engine::IdleEngine;
use crate::host::{By, Host, Proposal, blocks, pattern};
use crate::served::{EXPORTED, Served, device_with, name};

const WAITING: &str = "nqn.2026-01.example:byway:waiting";
const NOT_ABORTED: u32 = 1;
const WAYS: [By; 2] = [By::Capsule, By::R2t];

/// Data of a write, which is sent in two PDUs.
const BYTES: usize = 64 << 10;
const BLOCKS: u64 = BYTES as u64 / 512;

/// R2Ts of a connection at once.
const TAGS: u16 = 128;

/// The first that a connection sends.
const ASKED: ReadyToTransfer =
    ReadyToTransfer { command: CommandId(7), tag: TransferTag(0), offset_bytes: 0, bytes: BYTES as u32 };

/// Aborts a command of I/O queue 1.
fn abort(admin: &mut Host, cid: u16) -> Completion {
    let done = admin.read(abort_of(cid), 0).0;
    assert!(done.status().is_success());
    done
}

fn abort_of(cid: u16) -> Command {
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(1).with_cid(cid).into_bits();
    abort
}

/// The same by a host without a socket: DW0 of the answer.
fn abort_by(admin: &mut Caller, cid: u16) -> u32 {
    let mut abort = abort_of(cid);
    abort.cdw0.set_cid(3);
    abort.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, 0));
    let answer = admin.say(&abort, &[]);
    assert!(status(&answer).is_success());
    u32::from_le_bytes(answer[8..12].try_into().unwrap())
}

/// A command whose data is at hand when it is asked for.
fn to_send(mut command: Command, cid: u16, bytes: usize) -> Command {
    command.cdw0.set_cid(cid);
    command.set_sgl1(SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, bytes as u32));
    command
}

fn write(cid: u16) -> Command {
    to_send(blocks(NvmOpcode::WRITE, 0, BYTES), cid, BYTES)
}

/// One of two commands that compare block 5 and write it.
fn half(fuse: u8) -> Command {
    let opcode = if fuse == Cdw0::FUSE_FIRST { NvmOpcode::COMPARE } else { NvmOpcode::WRITE };
    let mut command = blocks(opcode, 5, 512);
    command.cdw0.set_fuse(fuse);
    command
}

/// Says one of them, with zeroes or nines as its data: what the target answers.
fn say_half(io: &mut Caller, fuse: u8, cid: u16, way: By) -> Vec<u8> {
    let mut command = to_send(half(fuse), cid, 512);
    if way == By::R2t {
        return io.say(&command, &[]);
    }
    command.set_sgl1(SglDescriptor::inline(512));
    io.say(&command, &[if fuse == Cdw0::FUSE_FIRST { 0 } else { 9 }; 512])
}

/// What the R2T asks for that the target has sent.
fn asked(sent: &[u8]) -> ReadyToTransfer {
    assert_eq!((sent.first(), sent.len()), (Some(&9), 24), "R2T");
    let half_word = |at: usize| u16::from_le_bytes([sent[at], sent[at + 1]]);
    let word = |at: usize| u32::from_le_bytes(sent[at..at + 4].try_into().unwrap());
    let (command, tag) = (CommandId(half_word(8)), TransferTag(half_word(10)));
    ReadyToTransfer { command, tag, offset_bytes: word(12), bytes: word(16) }
}

/// The data that an R2T asks for, in two PDUs.
fn sent_data(io: &Caller, asked: ReadyToTransfer, data: &[u8]) -> Vec<u8> {
    let ReadyToTransfer { command, tag, offset_bytes, bytes } = asked;
    assert_eq!((offset_bytes, bytes as usize), (0, data.len()));
    let (first, last) = data.split_at(data.len() / 2);
    let mut wire = Vec::new();
    for (data, last) in [(first, false), (last, true)] {
        let offset_bytes = if last { bytes / 2 } else { 0 };
        io.writer.data(&H2cData { command, tag, offset_bytes, last }, &[data]).append_to(&mut wire);
    }
    wire
}

/// Writes to block 0 and behind it.
fn do_write(io: &mut Caller, cid: u16, data: &[u8]) {
    let asked = asked(&io.say(&write(cid), &[]));
    let wire = sent_data(io, asked, data);
    io.connection.put(&wire);
    assert!(status(&io.connection.take(usize::MAX, 0)).is_success());
}

/// Reads the block.
fn read_back(io: &mut Caller) -> Vec<u8> {
    let answer = io.say(&to_send(blocks(NvmOpcode::READ, 0, BYTES), 1, BYTES), &[]);
    answer[24..24 + BYTES].to_vec()
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
fn a_write_that_owes_data_is_aborted_and_what_it_was_asked_for_is_dropped() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    let (one, other) = (pattern(1, BYTES), pattern(2, BYTES));
    let wire_bytes = sent_data(&io, ASKED, &one).len();
    // Nothing of the data is there, a part of a header, of the data, the first of two PDUs, a part of the last, all but a byte.
    for cut in [0, 4, 24, 1000, 24 + BYTES / 2, 40 + BYTES / 2, 3 * BYTES / 4, wire_bytes - 1] {
        let asked = asked(&io.say(&write(7), &[]));
        let wire = sent_data(&io, asked, &one);
        io.connection.put(&wire[..cut]);
        assert!(io.connection.take(usize::MAX, 0).is_empty());
        assert_eq!(abort_by(&mut admin, 7), 0);
        assert!(status(&io.connection.take(usize::MAX, 0)).is(Status::ABORT_REQUESTED), "{cut}");
        assert_eq!(abort_by(&mut admin, 7), NOT_ABORTED, "it is over");
        io.connection.put(&wire[cut..]);
        assert!(io.connection.take(usize::MAX, 0).is_empty() && !io.connection.is_over(), "{cut}");
        // Its identifier is another's now, and its tag perhaps.
        do_write(&mut io, 7, &other);
        assert!(read_back(&mut io) == other, "{cut}");
    }
}

#[test]
fn data_of_an_aborted_write_that_comes_behind_its_identifiers_next_command_is_dropped() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    let (one, other) = (pattern(1, BYTES), pattern(2, BYTES));
    let first = asked(&io.say(&write(7), &[]));
    assert_eq!(abort_by(&mut admin, 7), 0);
    assert!(status(&io.connection.take(usize::MAX, 0)).is(Status::ABORT_REQUESTED));
    let second = asked(&io.say(&write(7), &[]));
    assert_ne!(first.tag, second.tag);
    for (asked, data) in [(second, &other), (first, &one)] {
        let wire = sent_data(&io, asked, data);
        io.connection.put(&wire);
    }
    assert!(status(&io.connection.take(usize::MAX, 0)).is_success());
    assert!(read_back(&mut io) == other);
}

#[test]
fn a_write_whose_data_is_there_is_done_and_not_aborted() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    let asked = asked(&io.say(&write(7), &[]));
    let wire = sent_data(&io, asked, &pattern(1, BYTES));
    io.connection.put(&wire);
    io.connection.run(0);
    assert_eq!(abort_by(&mut admin, 7), NOT_ABORTED);
    assert!(status(&io.connection.take(usize::MAX, 0)).is_success());
    assert!(read_back(&mut io) == pattern(1, BYTES));
}

#[test]
fn data_that_is_there_when_its_write_was_aborted_is_not_written() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    let asked = asked(&io.say(&write(7), &[]));
    let wire = sent_data(&io, asked, &pattern(1, BYTES));
    assert_eq!(abort_by(&mut admin, 7), 0);
    // What was aborted is seen when the data has come.
    io.connection.put(&wire);
    assert!(status(&io.connection.take(usize::MAX, 0)).is(Status::ABORT_REQUESTED));
    assert!(read_back(&mut io) == vec![0; BYTES]);
}

#[test]
fn writes_that_wait_to_be_asked_are_aborted_and_those_behind_them_are_asked() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    let first = asked(&io.say(&write(0), &[]));
    for cid in 1..TAGS {
        assert_eq!(asked(&io.say(&write(cid), &[])).command.0, cid);
    }
    for cid in TAGS..TAGS + 3 {
        assert!(io.say(&write(cid), &[]).is_empty(), "there is no tag left");
    }
    for cid in [TAGS, TAGS + 2] {
        assert_eq!(abort_by(&mut admin, cid), 0);
        assert!(status(&io.connection.take(usize::MAX, 0)).is(Status::ABORT_REQUESTED));
    }
    // What is aborted now keeps its tag until its data has come, which is asked for already.
    assert_eq!(abort_by(&mut admin, 0), 0);
    assert!(status(&io.connection.take(usize::MAX, 0)).is(Status::ABORT_REQUESTED));
    let wire = sent_data(&io, first, &pattern(1, BYTES));
    io.connection.put(&wire);
    assert_eq!(asked(&io.connection.take(usize::MAX, 0)).command.0, TAGS + 1);
}

#[test]
fn a_host_that_has_everything_aborted_and_sends_none_of_it_is_not_waited_for() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    for cid in 0..TAGS {
        asked(&io.say(&write(cid), &[]));
        assert_eq!(abort_by(&mut admin, cid), 0);
        assert!(status(&io.connection.take(usize::MAX, 0)).is(Status::ABORT_REQUESTED));
    }
    // It owes no data of a live command.
    io.pass(100);
    assert!(!io.connection.is_over());
    assert!(io.say(&write(TAGS), &[]).is_empty());
    io.pass(61);
    assert!(io.connection.is_over());
}

#[test]
fn a_first_fused_command_that_waits_is_aborted_at_once_and_its_second_for_that() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    let abort_first = |admin: &mut Caller, io: &mut Caller, way| {
        let sent = say_half(io, Cdw0::FUSE_FIRST, 10, way);
        assert_eq!(sent.is_empty(), way == By::Capsule, "its second may come");
        assert_eq!(abort_by(admin, 10), 0);
        assert!(status(&io.connection.take(usize::MAX, 0)).is(Status::ABORT_REQUESTED));
    };
    for ways in WAYS.iter().flat_map(|one| WAYS.map(|other| [*one, other])) {
        abort_first(&mut admin, &mut io, ways[0]);
        let answer = say_half(&mut io, Cdw0::FUSE_SECOND, 11, ways[1]);
        assert!(status(&answer).is(Status::ABORTED_FAILED_FUSED), "{ways:?}");
        assert!(
            status(&say_half(&mut io, Cdw0::FUSE_SECOND, 11, By::Capsule)).is(Status::ABORTED_MISSING_FUSED)
        );
        // No second comes, but another command, and behind it a pair.
        abort_first(&mut admin, &mut io, ways[0]);
        do_write(&mut io, 7, &vec![0; BYTES]);
        abort_first(&mut admin, &mut io, ways[0]);
        say_half(&mut io, Cdw0::FUSE_FIRST, 12, By::Capsule);
        let answers = say_half(&mut io, Cdw0::FUSE_SECOND, 13, By::Capsule);
        assert_eq!(answers.len(), 48, "{ways:?}");
        assert!(answers.chunks(24).all(|answer| status(answer).is_success()));
        do_write(&mut io, 7, &vec![0; BYTES]);
    }
    assert!(!io.connection.is_over());
}

#[test]
fn aborting_half_of_a_pair_that_awaits_data_fails_the_other() {
    let served = Served::new();
    let (mut admin, mut io) = connected(&served.socketless());
    let halves = [Cdw0::FUSE_FIRST, Cdw0::FUSE_SECOND];
    for aborted in 0..2 {
        let asked = [0, 1].map(|at| asked(&io.say(&to_send(half(halves[at]), 10 + at as u16, 512), &[])));
        assert_eq!(abort_by(&mut admin, 10 + aborted as u16), 0);
        let answers = io.connection.take(usize::MAX, 0);
        let answers: Vec<_> = answers.chunks(24).map(|answer| (answer[20], status(answer))).collect();
        let of = |cid: usize| answers.iter().find(|(other, _)| usize::from(*other) == cid).unwrap().1;
        assert!(of(10 + aborted).is(Status::ABORT_REQUESTED));
        assert!(of(11 - aborted).is(Status::ABORTED_FAILED_FUSED));
        for asked in asked {
            let wire = sent_data(&io, asked, &[9; 512]);
            io.connection.put(&wire);
        }
        assert!(io.connection.take(usize::MAX, 0).is_empty() && !io.connection.is_over());
    }
    // Both, before either is answered.
    let asked = [0, 1].map(|at| asked(&io.say(&to_send(half(halves[at]), 10 + at as u16, 512), &[])));
    assert_eq!([10, 11].map(|cid| abort_by(&mut admin, cid)), [0, 0]);
    let answers = io.connection.take(usize::MAX, 0);
    assert_eq!(answers.len(), 48);
    assert!(answers.chunks(24).all(|answer| status(answer).is(Status::ABORT_REQUESTED)));
    for asked in asked {
        let wire = sent_data(&io, asked, &[9; 512]);
        io.connection.put(&wire);
    }
    assert!(io.connection.take(usize::MAX, 0).is_empty());
    do_write(&mut io, 7, &pattern(1, BYTES));
}

#[test]
fn abort_racing_with_data_answers_each_command_once_and_correctly() {
    const AT_ONCE: usize = 16;
    let served = Served::with(|asked| asked.target.threads = NonZeroU16::new(2).unwrap());
    let (mut admin, mut io) = served.host(Proposal::DIGESTS);
    let (mut done, mut aborted) = (0, 0);
    for round in 0..40u64 {
        let data = pattern(round, BYTES);
        let start = |io: &mut Host, at: usize| {
            let command = blocks(NvmOpcode::WRITE, at as u64 * BLOCKS, BYTES);
            io.start(command, By::R2t, &data)
        };
        let cids: Vec<u16> = (0..AT_ONCE).map(|at| start(&mut io, at)).collect();
        let (statuses, event) = thread::scope(|scope| {
            let aborting = scope.spawn(|| {
                let turns = cids.iter().cycle().skip(round as usize % AT_ONCE).take(AT_ONCE);
                turns.map(|cid| (*cid, abort(&mut admin, *cid).dw0)).collect::<Vec<_>>()
            });
            let statuses: Vec<_> = cids.iter().map(|cid| (*cid, io.wait(*cid).0.status())).collect();
            (statuses, aborting.join().unwrap())
        });
        for (at, (cid, status)) in statuses.into_iter().enumerate() {
            let is_aborted = event.contains(&(cid, 0));
            assert!(
                status.is(if is_aborted { Status::ABORT_REQUESTED } else { Status::SUCCESS }),
                "{status:?}"
            );
            let read = io.read(blocks(NvmOpcode::READ, at as u64 * BLOCKS, BYTES), BYTES).1;
            assert_eq!(read == data, !is_aborted);
            if is_aborted { aborted += 1 } else { done += 1 }
        }
    }
    assert_eq!(done + aborted, 40 * AT_ONCE);
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
