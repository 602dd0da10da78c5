//! Inline payloads in the ring, and every way in which the prototypes lost the boundary between commands and payloads
//! (the defects of ByteExpress's public code; docs of each test say which).

use crate::io::{Io, KV, QUEUE};
use byway_link::Class;
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::{AbortCdw10, AdminOpcode};
use byway_spec::base::feature::FeatureId;
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::{Command, Completion, Status};

/// Entries of the queue that [`Io`] makes.
const ENTRIES: u32 = 256;
/// Identifier of command entries inside payloads. None of them may ever complete.
const POISON: u16 = 0xdead;

fn device() -> Io {
    let mut io = Io::new();
    io.enable_methods();
    io
}

fn store(key: &[u8], bytes: usize) -> Command {
    let mut command = Command::new(0x01, 0, KV);
    command.set_key(key);
    (command.cdw10, command.cdw11) = (bytes as u32, key.len() as u32);
    command.set_sgl1(SglDescriptor::inline(bytes as u32));
    command
}

/// A payload that is a run of good commands: a slot of it that were executed would complete.
fn poison(bytes: usize) -> Vec<u8> {
    let flush = Command::new(0x00, POISON, 1).to_bytes();
    flush.iter().copied().cycle().take(bytes).collect()
}

/// Puts a command and its chunks into the ring; the device does not know yet.
fn push(io: &mut Io, qid: u16, command: Command, payload: &[u8]) -> u16 {
    let cid = io.host.submit(qid, command);
    for chunk in payload.chunks(64) {
        let mut slot = [0; 64];
        slot[..chunk.len()].copy_from_slice(chunk);
        io.host.push(qid, &slot);
    }
    cid
}

fn reap_all(io: &mut Io, qid: u16) -> Vec<Completion> {
    let done: Vec<_> = std::iter::from_fn(|| io.host.reap(qid)).collect();
    assert!(done.iter().all(|entry| entry.cid != POISON), "a payload was read as a command");
    done
}

fn ring_to(io: &mut Io, qid: u16, tail: u32) {
    io.host.ring_raw(DoorbellIndex::submission(qid), tail);
    io.host.run();
}

fn stored(io: &mut Io, key: &[u8], len: usize) -> Vec<u8> {
    let mut retrieve = Command::new(0x02, 0, KV);
    retrieve.set_key(key);
    (retrieve.cdw10, retrieve.cdw11) = (len as u32, key.len() as u32);
    io.point_prps(&mut retrieve, crate::io::DATA, len);
    let done = io.run(retrieve);
    assert!(done.status().is_success(), "{}", done.status());
    assert_eq!(done.dw0 as usize, len);
    io.get(crate::io::DATA, len)
}

fn chunk_reads(io: &Io) -> u64 {
    io.host.meter.ledger().row(Class::ChunkFetch).count
}

/// Moves the tail of the queue to slot `to` by flushes.
fn go_to(io: &mut Io, to: u32) {
    while io.host.tail(QUEUE) != to {
        io.run(Command::new(0x00, 0, 1));
    }
}

/// Multi-slot steps jump past the wrap (defect 2).
#[test]
fn a_payload_goes_on_at_the_start_of_the_ring() {
    for profile in ["gen4x4", "cosmos"] {
        let mut io = Io::of_profile(profile);
        io.enable_methods();
        for before_end in 1..=6 {
            go_to(&mut io, ENTRIES - before_end);
            let reads = chunk_reads(&io);
            let payload = poison(4 * 64 + 9);
            let done = io.run_inline(store(b"wraps", payload.len()), &payload);
            assert!(done.status().is_success(), "{}", done.status());
            assert_eq!(u32::from(done.sqhd), (ENTRIES - before_end + 6) % ENTRIES, "the head counts slots");
            // A burst is split by the wrap; the prototype's controller reads each slot by itself.
            let splits = (2..=5).contains(&before_end);
            let wanted = if profile == "cosmos" { 5 } else { 1 + u64::from(splits) };
            assert_eq!(chunk_reads(&io) - reads, wanted, "{profile}, {before_end} before the end");
            assert_eq!(stored(&mut io, b"wraps", payload.len()), payload);
        }
    }
}

/// The batched path copied commands without their chunks (defect 3).
#[test]
fn capsules_under_one_doorbell_are_separated() {
    let mut io = device();
    let lens = [0, 1, 64, 65, 640, 63, 0, 129];
    let cids: Vec<u16> = (0u8..)
        .zip(lens)
        .map(|(n, len)| push(&mut io, QUEUE, store(&[b'b', n], len), &poison(len)))
        .collect();
    io.host.ring(QUEUE);
    io.host.run();
    let done = reap_all(&mut io, QUEUE);
    assert!(done.iter().all(|entry| entry.status().is_success()));
    assert_eq!(done.iter().map(|entry| entry.cid).collect::<Vec<_>>(), cids);
    for (n, len) in (0u8..).zip(lens).filter(|(_, len)| *len > 0) {
        assert_eq!(stored(&mut io, &[b'b', n], len), poison(len));
    }
}

/// Chunks of two queues met in one FIFO and were mixed up (defects 6 and 7).
#[test]
fn capsules_of_two_queues_do_not_mix() {
    let mut io = device();
    io.host.create_pair(2, 32);
    for round in 0..20 {
        let (one, two) = (poison(300), vec![0x01; 200]);
        push(&mut io, 1, store(b"one", one.len()), &one);
        push(&mut io, 2, store(b"two", two.len()), &two);
        // Slot by slot, in turns: neither queue ever has a whole capsule before its last step.
        let ends = [io.host.tail(1), io.host.tail(2)];
        for left in (0..5).rev() {
            ring_to(&mut io, 1, (ends[0] + ENTRIES - left) % ENTRIES);
            ring_to(&mut io, 2, (ends[1] + 32 - left.min(4)) % 32);
        }
        assert_eq!(reap_all(&mut io, 1).len(), 1, "round {round}");
        assert_eq!(reap_all(&mut io, 2).len(), 1, "round {round}");
        assert_eq!(stored(&mut io, b"one", 300), one);
        assert_eq!(stored(&mut io, b"two", 200), two);
    }
}

/// A doorbell that exposes a command without its payload (defect 4).
#[test]
fn a_tail_inside_a_capsule_waits_and_holds_no_other_queue() {
    let mut io = device();
    io.host.create_pair(2, 16);
    let payload = poison(500);
    let start = io.host.tail(QUEUE);
    push(&mut io, QUEUE, store(b"slow", payload.len()), &payload);
    let fetched = io.host.meter.ledger().row(Class::CommandFetch).count;
    for slots in 1..=8 {
        ring_to(&mut io, QUEUE, start + slots);
        assert_eq!(reap_all(&mut io, QUEUE).len(), 0, "after {slots} slots");
        assert!(io.host.execute(2, Command::new(0x00, 0, 1)).status().is_success());
    }
    ring_to(&mut io, QUEUE, start + 9);
    assert_eq!(reap_all(&mut io, QUEUE).len(), 1);
    let now = io.host.meter.ledger().row(Class::CommandFetch).count;
    assert_eq!(now - fetched, 1 + 8, "the waiting command is fetched once");
    assert_eq!(stored(&mut io, b"slow", 500), payload);
}

/// Rejecting a command has to eat its chunks (defects 7 and 8).
#[test]
fn a_rejected_command_still_consumes_its_chunks() {
    let mut io = device();
    let payload = poison(1000);
    let mut unknown_opcode = store(b"key", 1000);
    unknown_opcode.cdw0.set_opcode(0x7f);
    let mut no_namespace = store(b"key", 1000);
    no_namespace.nsid = 63;
    let mut other_set = store(b"key", 1000);
    other_set.nsid = 1;
    let mut fused = store(b"key", 1000);
    fused.cdw0.set_fuse(1);
    let mut key_too_long = store(b"key", 1000);
    key_too_long.cdw11 = 17;
    let mut other_length = store(b"key", 1000);
    other_length.cdw10 = 999;
    let mut from_device = store(b"key", 1000);
    from_device.cdw0.set_opcode(0x02);
    let mut vendor = store(b"key", 1000);
    vendor.cdw0.set_opcode(0xff);
    let refused =
        [unknown_opcode, no_namespace, other_set, fused, key_too_long, other_length, from_device, vendor];
    for command in refused {
        let done = io.run_inline(command, &payload);
        assert!(!done.status().is_success(), "opcode {:#x}", command.opcode());
        assert_eq!(reap_all(&mut io, QUEUE).len(), 0, "opcode {:#x}", command.opcode());
    }
    let mut takes_no_data = store(b"key", 1000);
    takes_no_data.cdw0.set_opcode(0x10);
    io.run_inline(takes_no_data, &payload);
    assert!(io.run_inline(store(b"key", 1000), &payload).status().is_success());
}

/// Two sources of length that nothing checked against each other, and no bound to the buffer (defect 6).
#[test]
fn a_length_that_cannot_be_is_controller_fatal_and_executes_nothing() {
    let mut io = device();
    let limit = io.host.subsystem.profile().limits.inline_max_bytes;
    io.host.create_pair(2, 16);
    // Over the announced limit, over any number, and over what a ring of 16 holds besides the command.
    for (qid, said) in [(QUEUE, limit + 1), (QUEUE, u32::MAX), (2, 14 * 64 + 1)] {
        let tail = io.host.tail(qid);
        push(&mut io, qid, store(b"liar", said as usize), &poison(640));
        io.host.ring(qid);
        io.host.run();
        assert!(io.host.csts().cfs(), "{said} bytes in queue {qid} at {tail}");
        assert_eq!(reap_all(&mut io, qid).len(), 0);
        // Nothing brings it back but a reset.
        io.host.ring(1);
        io.host.run();
        assert_eq!(reap_all(&mut io, 1).len(), 0);
        io.host.reset();
        io.host.enable();
        io.host.create_pair(QUEUE, ENTRIES);
        io.host.create_pair(2, 16);
        io.enable_methods();
        assert!(io.run_inline(store(b"good", 640), &poison(640)).status().is_success());
    }
    let most = limit.min((ENTRIES - 2) * 64) as usize;
    assert!(io.run_inline(store(b"limit", most), &poison(most)).status().is_success());
}

#[test]
fn a_ring_holds_exactly_one_slot_less_than_it_has() {
    let mut io = device();
    io.host.create_pair(2, 16);
    for _ in 0..20 {
        push(&mut io, 2, store(b"full", 14 * 64), &poison(14 * 64));
        io.host.ring(2);
        io.host.run();
        let done = reap_all(&mut io, 2);
        assert!(done.len() == 1 && done[0].status().is_success());
    }
}

/// The queue's memory is used again as it is, payload and all (defect 7).
#[test]
fn a_queue_deleted_in_the_middle_of_a_capsule_leaves_nothing_that_is_read_as_a_command() {
    for rung in [1, 3, 6] {
        let mut io = device();
        let (cq, sq) = (io.host.alloc(4096), io.host.alloc(4096));
        assert!(io.host.create_cq(2, cq, 32, None).is_success());
        assert!(io.host.create_sq(2, sq, 32, 2).is_success());
        push(&mut io, 2, store(b"gone", 600), &poison(600));
        ring_to(&mut io, 2, rung);
        assert!(io.host.delete_sq(2).is_success());
        ring_to(&mut io, 2, 11);
        assert_eq!(reap_all(&mut io, 2).len(), 0);
        assert!(io.host.create_sq(2, sq, 32, 2).is_success());
        io.host.run();
        assert_eq!(reap_all(&mut io, 2).len(), 0, "a new queue begins empty");
        let cid = push(&mut io, 2, store(b"next", 100), &poison(100));
        io.host.ring(2);
        io.host.run();
        let done = reap_all(&mut io, 2);
        assert_eq!((done.len(), done[0].cid), (1, cid));
        assert!(done[0].status().is_success());
    }
}

#[test]
fn a_reset_in_the_middle_of_a_capsule_leaves_nothing_that_is_read_as_a_command() {
    let mut io = device();
    for rung in [1, 3, 6] {
        io.host.reset();
        io.host.enable();
        let (cq, sq) = (io.host.alloc(4096), io.host.alloc(4096));
        assert!(io.host.create_cq(QUEUE, cq, 32, None).is_success());
        assert!(io.host.create_sq(QUEUE, sq, 32, QUEUE).is_success());
        io.enable_methods();
        push(&mut io, QUEUE, store(b"gone", 600), &poison(600));
        ring_to(&mut io, QUEUE, rung);
        io.host.reset();
        io.host.enable();
        // The same ring where it was, with the slots of the life before still in it.
        let again = io.host.alloc(4096);
        assert_eq!(again, cq);
        assert!(io.host.create_cq(QUEUE, cq, 32, None).is_success());
        assert!(io.host.create_sq(QUEUE, sq, 32, QUEUE).is_success());
        io.host.run();
        assert_eq!(reap_all(&mut io, QUEUE).len(), 0);
        let done = io.run(Command::new(0x00, 0, 1));
        assert!(done.status().is_success());
    }
}

/// Chunks have no identifier, so Abort does not find a capsule whose chunks are still to come.
#[test]
fn an_abort_of_a_capsule_on_its_way_aborts_nothing_and_loses_no_boundary() {
    let mut io = device();
    let start = io.host.tail(QUEUE);
    let cid = push(&mut io, QUEUE, store(b"kept", 300), &poison(300));
    ring_to(&mut io, QUEUE, start + 3);
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(QUEUE).with_cid(cid).into_bits();
    let done = io.host.admin(abort);
    assert!(done.status().is_success());
    assert_eq!(done.dw0 & 1, 1, "not aborted");
    assert_eq!(reap_all(&mut io, QUEUE).len(), 0);
    io.host.ring(QUEUE);
    io.host.run();
    let done = reap_all(&mut io, QUEUE);
    assert!(done.len() == 1 && done[0].cid == cid && done[0].status().is_success());
    assert_eq!(stored(&mut io, b"kept", 300), poison(300));
}

/// Discovery and opt-in (defects 7 and 9).
#[test]
fn without_the_feature_an_inline_payload_is_of_an_invalid_descriptor_type() {
    let mut io = Io::new();
    for bytes in [0, 64, 1 << 20] {
        let mut command = store(b"key", 64);
        command.set_sgl1(SglDescriptor::inline(bytes));
        assert!(io.run(command).status().is(Status::SGL_TYPE_INVALID), "{bytes}");
    }
    assert!(!io.host.csts().cfs());
    io.enable_methods();
    assert!(io.run_inline(store(b"key", 64), &poison(64)).status().is_success());
    io.host.reset();
    io.host.enable();
    io.host.create_pair(QUEUE, ENTRIES);
    assert!(
        io.run(store(b"key", 64)).status().is(Status::SGL_TYPE_INVALID),
        "a reset takes the feature back"
    );
}

/// The host takes the feature back while a capsule is coming: its chunks are its chunks all the same.
#[test]
fn a_capsule_that_waits_stays_one_when_the_feature_is_switched_off() {
    let mut io = device();
    let start = io.host.tail(QUEUE);
    let cid = push(&mut io, QUEUE, store(b"late", 300), &poison(300));
    ring_to(&mut io, QUEUE, start + 2);
    io.set_feature(FeatureId::METHODS, 0, 0);
    io.host.ring(QUEUE);
    io.host.run();
    let done = reap_all(&mut io, QUEUE);
    assert_eq!((done.len(), done[0].cid), (1, cid));
    assert!(io.run(store(b"next", 64)).status().is(Status::SGL_TYPE_INVALID));
}

/// A command that cannot be completed yet is not fetched, nor is its payload.
#[test]
fn a_full_completion_queue_holds_capsules_whole() {
    let mut io = device();
    let (cq, sq) = (io.host.alloc(4096), io.host.alloc(4096));
    assert!(io.host.create_cq(2, cq, 2, None).is_success());
    assert!(io.host.create_sq(2, sq, 32, 2).is_success());
    for n in 0..4 {
        push(&mut io, 2, store(&[b'c', n], 200), &poison(200));
    }
    io.host.ring(2);
    let mut done = 0;
    while done < 4 {
        io.host.run();
        let entry = io.host.reap(2).unwrap();
        assert!(entry.status().is_success() && entry.cid != POISON);
        done += 1;
        assert!(io.host.peek(2).is_none(), "one at a time");
    }
}

#[test]
fn an_inline_payload_of_an_admin_command_is_refused() {
    let mut io = device();
    let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
    identify.set_sgl1(SglDescriptor::inline(64));
    assert!(io.host.admin(identify).status().is(Status::INVALID_FIELD));
    assert!(io.host.admin(Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0)).status().is_success());
}
