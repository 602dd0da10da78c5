//! I/O queues: made, refused, deleted with commands in flight, and made again.

use crate::common::{TestHost, nvm};
use byway_controller::{MAX_IO_QUEUES, Next};
use byway_dma::BusAddr;
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::register::{Cc, Register};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};

const MIB: u64 = 1 << 20;

fn host() -> TestHost {
    TestHost::new(32 * MIB, &[nvm(8 * MIB, 512)])
}

fn flush() -> Command {
    Command::new(NvmOpcode::FLUSH.0, 0, 1)
}

#[test]
fn a_created_pair_executes_commands_and_interrupts_on_its_vector() {
    let mut host = host();
    host.create_pair(1, 16);
    host.take_interrupts();
    assert!(host.execute(1, flush()).status().is_success());
    assert_eq!(host.take_interrupts(), [1]);
}

#[test]
fn all_128_pairs_exist_at_once_with_a_thousand_slots_each() {
    let mut host = host();
    for qid in 1..=MAX_IO_QUEUES {
        host.create_pair(qid, 1024);
    }
    for qid in 1..=MAX_IO_QUEUES {
        assert!(host.execute(qid, flush()).status().is_success(), "{qid}");
    }
    let at = host.alloc(4096);
    assert!(host.create_cq(MAX_IO_QUEUES + 1, at, 2, None).is(Status::INVALID_QUEUE_ID));
}

#[test]
fn a_queue_of_the_largest_size_is_made() {
    let mut host = host();
    host.create_pair(1, 65536);
    assert!(host.execute(1, flush()).status().is_success());
}

#[test]
fn identifiers_zero_taken_or_out_of_range_are_refused() {
    let mut host = host();
    host.create_pair(1, 16);
    let at = host.alloc(4096);
    for qid in [0, 1, 129, 0xffff] {
        assert!(host.create_cq(qid, at, 16, None).is(Status::INVALID_QUEUE_ID), "{qid}");
        assert!(host.create_sq(qid, at, 16, 1).is(Status::INVALID_QUEUE_ID), "{qid}");
    }
}

#[test]
fn a_queue_of_one_entry_is_refused() {
    let mut host = host();
    let at = host.alloc(4096);
    assert!(host.create_cq(1, at, 1, None).is(Status::INVALID_QUEUE_SIZE));
    host.create_pair(1, 2);
    assert!(host.create_sq(2, at, 1, 1).is(Status::INVALID_QUEUE_SIZE));
}

#[test]
fn queues_are_refused_before_cc_gives_their_entry_size() {
    let mut host = host();
    let cc = Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS);
    host.write_register(Register::CC, cc.into_bits());
    let at = host.alloc(4096);
    assert!(host.create_cq(1, at, 16, None).is(Status::INVALID_QUEUE_SIZE));
}

#[test]
fn a_queue_that_is_scattered_or_begins_inside_a_page_is_refused() {
    let mut host = host();
    let at = host.alloc(4096);
    let mut command = Command::new(AdminOpcode::CREATE_CQ.0, 0, 0);
    command.cdw10 = QueueCdw10::new().with_qid(1).with_qsize_z(15).into_bits();
    command.set_prps(at.0, 0);
    assert!(host.admin(command).status().is(Status::INVALID_FIELD));
    command.cdw11 = CreateCqCdw11::new().with_pc(true).into_bits();
    command.set_prps(at.0 + 64, 0);
    assert!(host.admin(command).status().is(Status::PRP_OFFSET_INVALID));
    host.create_pair(1, 16);
    let mut command = Command::new(AdminOpcode::CREATE_SQ.0, 0, 0);
    command.cdw10 = QueueCdw10::new().with_qid(2).with_qsize_z(15).into_bits();
    command.cdw11 = CreateSqCdw11::new().with_cqid(1).into_bits();
    command.set_prps(at.0, 0);
    assert!(host.admin(command).status().is(Status::INVALID_FIELD));
}

#[test]
fn a_vector_that_is_not_there_is_refused() {
    let mut host = host();
    let at = host.alloc(4096);
    assert!(host.create_cq(1, at, 16, Some(129)).is(Status::INVALID_INTERRUPT_VECTOR));
    assert!(host.create_cq(1, at, 16, Some(128)).is_success());
}

#[test]
fn a_submission_queue_needs_a_completion_queue_that_was_made() {
    let mut host = host();
    let at = host.alloc(4096);
    assert!(host.create_sq(1, at, 16, 5).is(Status::CQ_INVALID));
    for cqid in [0, 129] {
        assert!(host.create_sq(1, at, 16, cqid).is(Status::INVALID_QUEUE_ID), "{cqid}");
    }
}

#[test]
fn several_submission_queues_share_a_completion_queue_and_it_goes_last() {
    let mut host = host();
    host.create_pair(1, 16);
    let at = host.alloc(4096);
    assert!(host.create_sq(2, at, 16, 1).is_success());
    assert!(host.execute(1, flush()).status().is_success());
    assert!(host.execute(2, flush()).status().is_success());
    assert!(host.delete_cq(1).is(Status::INVALID_QUEUE_DELETION));
    assert!(host.delete_sq(1).is_success());
    assert!(host.delete_cq(1).is(Status::INVALID_QUEUE_DELETION));
    assert!(host.delete_sq(2).is_success());
    assert!(host.delete_cq(1).is_success());
}

#[test]
fn deleting_the_admin_queue_or_none_is_refused() {
    let mut host = host();
    for qid in [0, 1, 129, 0xffff] {
        assert!(host.delete_sq(qid).is(Status::INVALID_QUEUE_ID), "{qid}");
        assert!(host.delete_cq(qid).is(Status::INVALID_QUEUE_ID), "{qid}");
    }
}

#[test]
fn commands_behind_the_doorbell_are_gone_with_their_queue() {
    let mut host = host();
    host.create_pair(1, 16);
    for _ in 0..5 {
        host.submit(1, flush());
    }
    assert!(host.delete_sq(1).is_success());
    host.ring(1);
    host.run();
    assert!(host.peek(1).is_none());
    assert!(host.delete_cq(1).is_success());
    host.create_pair(1, 16);
    host.run();
    assert!(host.peek(1).is_none(), "a new queue begins empty");
    assert!(host.execute(1, flush()).status().is_success());
}

#[test]
fn commands_in_flight_complete_before_their_queue_is_deleted() {
    let mut host = host();
    host.meter.set_timing(true);
    let at = host.alloc(4096);
    let cq = host.alloc(4096);
    host.meter.set_timing(false);
    assert!(host.create_cq(1, cq, 16, None).is_success());
    assert!(host.create_sq(1, at, 16, 1).is_success());
    host.meter.set_timing(true);
    let cids: Vec<u16> = (0..4).map(|_| host.submit(1, flush())).collect();
    host.ring(1);
    let next = host.run();
    assert!(matches!(next, Next::At(_)), "completions wait for their time: {next:?}");
    let mut delete = Command::new(AdminOpcode::DELETE_SQ.0, 0, 0);
    delete.cdw10 = 1;
    host.submit(0, delete);
    host.ring(0);
    while let Next::At(due_ps) = host.run() {
        host.now_ps = due_ps;
    }
    let done: Vec<u16> = std::iter::from_fn(|| host.reap(1)).map(|entry| entry.cid).collect();
    assert_eq!(done, cids);
    assert!(host.reap(0).unwrap().status().is_success());
}

#[test]
fn full_completion_queue_delays_commands_until_its_head_moves() {
    let mut host = host();
    let (cq, sq) = (host.alloc(4096), host.alloc(4096));
    assert!(host.create_cq(1, cq, 3, None).is_success());
    assert!(host.create_sq(1, sq, 16, 1).is_success());
    for _ in 0..6 {
        host.submit(1, flush());
    }
    host.ring(1);
    host.run();
    let mut done = 0;
    while let Some(entry) = host.peek(1) {
        assert!(entry.status().is_success());
        done += 1;
        if done % 2 == 0 {
            host.ring_raw(DoorbellIndex::completion(1), host.head(1));
            host.run();
        }
    }
    assert_eq!(done, 6);
}

#[test]
fn a_head_left_by_a_deleted_queue_frees_nothing_in_the_next_of_its_name() {
    let mut host = host();
    for _ in 0..3 {
        let (cq, sq) = (host.alloc(4096), host.alloc(4096));
        assert!(host.create_cq(1, cq, 4, None).is_success());
        assert!(host.create_sq(1, sq, 16, 1).is_success());
        let cids: Vec<u16> = (0..6).map(|_| host.submit(1, flush())).collect();
        host.ring(1);
        host.run();
        let done: Vec<u16> = std::iter::from_fn(|| host.peek(1)).map(|entry| entry.cid).collect();
        assert_eq!(done, cids[..3], "a queue of four entries holds three");
        // The head is stored and not marked, as by a bus that spares the device the run.
        host.doorbells.store(DoorbellIndex::completion(1), host.head(1));
        host.run();
        let done: Vec<u16> = std::iter::from_fn(|| host.peek(1)).map(|entry| entry.cid).collect();
        assert_eq!(done, cids[3..]);
        assert!(host.delete_sq(1).is_success() && host.delete_cq(1).is_success());
    }
}

#[test]
fn a_doorbell_of_no_queue_and_one_out_of_range_harm_nothing() {
    let mut host = host();
    host.create_pair(1, 16);
    for value in [16, 17, 0xffff, u32::MAX] {
        host.ring_raw(DoorbellIndex::submission(1), value);
        host.ring_raw(DoorbellIndex::completion(1), value);
        host.ring_raw(DoorbellIndex::submission(7), value);
        host.run();
    }
    host.ring_raw(DoorbellIndex::completion(1), 3);
    host.run();
    assert!(host.execute(1, flush()).status().is_success());
}

#[test]
fn a_queue_outside_host_memory_is_controller_fatal_until_reset() {
    let mut host = host();
    let cq = host.alloc(4096);
    assert!(host.create_cq(1, cq, 16, None).is_success());
    assert!(host.create_sq(1, BusAddr(0x7000), 16, 1).is_success());
    host.ring_raw(DoorbellIndex::submission(1), 1);
    host.run();
    assert!(host.csts().cfs());
    host.reset();
    host.enable();
    assert!(!host.csts().cfs());
}
