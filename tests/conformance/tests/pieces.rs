//! Stores whose values travel in their commands (`piggyback-pt`), over what stands for the kernel.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use byway::Kv;
use byway_backends::nvme::{NodeKind, NvmeQueue, NvmeTarget, Passage};
use byway_backends::{NvmeIoctl, Threads, ThreadsOptions};
use byway_conformance::passing::{Fault, FaultKind, InProcess};
use byway_conformance::passing_ring;
use byway_conformance::scratch::Scratch;
use byway_core::{
    Backend, BackendQueue, Buffer, Command, ErrorKind, Finished, Key, KvCommand, Memory, Method, Nsid,
    Origin, Payload, QueueOptions, StoreOptions, piggyback_pt,
};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::kv::KvOpcode;
use byway_spec::vendor::{Methods, VendorOpcode};
use byway_spec::{Status, vendor};
use byway_sys::{NvmeAnswer, NvmeCommand};
use proptest::prelude::*;

const WRITE: u8 = VendorOpcode::KV_WRITE_PT.0;
const TRANSFER: u8 = VendorOpcode::KV_TRANSFER_PT.0;
const STORE: u8 = KvOpcode::STORE.0;

fn in_pieces() -> QueueOptions {
    QueueOptions::default().transfer(Method::PiggybackPt)
}

fn nsid() -> Nsid {
    Nsid::new(2).unwrap()
}

fn value(len: usize) -> Vec<u8> {
    byway_kit::pattern(len as u64, len)
}

fn store(key: &[u8], value: impl Into<Payload>) -> Command {
    let key = Key::new(key).unwrap();
    KvCommand::Store { nsid: nsid(), key, value: value.into(), options: StoreOptions::NONE }.into()
}

fn bytes(bytes: &[u8]) -> Payload {
    Payload::copy_of(bytes).unwrap()
}

fn get(queue: &mut impl BackendQueue, key: &[u8]) -> Option<Vec<u8>> {
    let (key, into) = (Key::new(key).unwrap(), Buffer::zeroed(16 << 10).unwrap());
    match queue.execute(KvCommand::Retrieve { nsid: nsid(), key, into }.into()) {
        Ok(read) => Some(read.buffer.as_ref().unwrap().as_slice()[..read.dw0() as usize].to_vec()),
        Err(error) if error.kind() == ErrorKind::KeyNotFound => None,
        Err(error) => panic!("{error}"),
    }
}

fn opcodes(passing: &InProcess) -> Vec<u8> {
    passing.take_seen().iter().map(|command| command.opcode).collect()
}

/// The opcodes of a store in pieces.
fn pieces_of(len: usize) -> Vec<u8> {
    [[WRITE].as_slice(), &vec![TRANSFER; piggyback_pt::commands(len) - 1]].concat()
}

fn fault(opcode: u8, after: u32, what: FaultKind) -> Fault {
    Fault { of: (NvmeQueue::Io, opcode), after, what }
}

/// What every interface does with values of every length.
fn every_length(backend: &impl Backend, target: &NvmeTarget<InProcess>) {
    let mut queue = backend.queue(in_pieces()).unwrap();
    for len in (0..130).chain([1000, 8000]) {
        let key = format!("k{len}");
        target.passage().take_seen();
        let stored = queue.execute(store(key.as_bytes(), bytes(&value(len)))).unwrap();
        assert_eq!(opcodes(target.passage()), pieces_of(len), "{len}");
        assert_eq!(stored.answer.commands as usize, piggyback_pt::commands(len));
        assert_eq!(get(&mut queue, key.as_bytes()), Some(value(len)));
    }
}

#[test]
fn values_of_every_length_travel_in_commands_over_ioctl() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::keys(&scratch)));
    every_length(&nvme, nvme.device());
}

#[test]
fn values_of_every_length_travel_in_commands_over_threads() {
    let scratch = Scratch::new();
    let target = Arc::new(InProcess::keys(&scratch));
    let threads = Threads::new(Arc::clone(&target), ThreadsOptions::of(2)).unwrap();
    every_length(&threads, &target);
}

#[test]
fn values_of_every_length_travel_in_commands_over_a_ring() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::keys(&scratch));
    every_length(&nvme, nvme.device());
}

#[test]
fn a_queue_that_is_not_asked_for_it_sends_stores_as_they_are() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::keys(&scratch)));
    let mut queue = nvme.queue(QueueOptions::default()).unwrap();
    queue.execute(store(b"k", bytes(b"value"))).unwrap();
    assert_eq!(opcodes(nvme.device().passage()), [STORE]);
    assert_eq!(nvme.device().passage().methods(), Methods::new(), "and enables nothing");
}

#[test]
fn adaptive_has_values_travel_in_the_first_command_alone() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::keys(&scratch)));
    let adaptive = QueueOptions::default().transfer(Method::Adaptive);
    let mut queue = nvme.queue(adaptive).unwrap();
    for (len, opcode) in [(0, WRITE), (11, WRITE), (12, STORE), (5000, STORE)] {
        nvme.device().passage().take_seen();
        queue.execute(store(b"k", bytes(&value(len)))).unwrap();
        assert_eq!(opcodes(nvme.device().passage()), [opcode], "{len}");
        assert_eq!(get(&mut queue, b"k"), Some(value(len)));
    }
    drop((queue, nvme));
    let plain = InProcess::new(&scratch).plain().node(NodeKind::Generic { nsid: 2 });
    let nvme = NvmeIoctl::new(Arc::new(plain));
    let mut queue = nvme.queue(adaptive).unwrap();
    queue.execute(store(b"k", bytes(&value(5)))).unwrap();
    assert_eq!(
        opcodes(nvme.device().passage()),
        [STORE],
        "a device that announces nothing has it the kernel's way"
    );
}

#[test]
fn a_value_in_several_buffers_travels_in_commands_and_its_buffers_come_back() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::keys(&scratch));
    let mut queue = nvme.queue(in_pieces()).unwrap();
    let whole = value(100);
    let parts = [&whole[..5], &whole[5..60], &whole[60..]].map(|part| Buffer::copy_of(part).unwrap());
    let stored = queue.execute(store(b"k", Vec::from(parts))).unwrap();
    assert_eq!(stored.vector.iter().map(Buffer::len).collect::<Vec<_>>(), [5, 55, 40]);
    assert_eq!(get(&mut queue, b"k"), Some(whole));
}

#[test]
fn store_too_large_to_piggyback_is_sent_by_prp() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::keys(&scratch)));
    let limit = nvme.capabilities().limits.piggyback_bytes as usize;
    let mut queue = nvme.queue(in_pieces()).unwrap();
    queue.execute(store(b"long", bytes(&value(limit + 1)))).unwrap();
    let options = StoreOptions::NONE.must_not_exist(true);
    let command = |options| {
        let key = Key::new(b"once").unwrap();
        Command::from(KvCommand::Store { nsid: nsid(), key, value: bytes(b"v"), options })
    };
    queue.execute(command(options)).unwrap();
    assert_eq!(queue.execute(command(options)).unwrap_err().kind(), ErrorKind::KeyExists);
    assert_eq!(opcodes(nvme.device().passage()), [STORE; 3]);
}

#[test]
fn key_value_calls_in_pieces_answer_as_over_any_backend() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::keys(&scratch));
    let namespace = nvme.namespaces().unwrap().remove(0);
    let mut kv = Kv::new(byway::Queue::other(nvme.queue(in_pieces()).unwrap()), &namespace).unwrap();
    for n in 0..200_u32 {
        kv.put(&n.to_be_bytes(), &value(n as usize)).unwrap();
    }
    for n in 0..200_u32 {
        assert_eq!(kv.get(&n.to_be_bytes()).unwrap(), Some(value(n as usize)));
    }
    assert_eq!(kv.keys(None).count(), 200);
}

#[test]
fn transfer_methods_are_enabled_once_beside_those_of_other_users() {
    let scratch = Scratch::new();
    let passing = InProcess::new(&scratch);
    passing.set_methods(Methods::new().with_inline(true));
    let nvme = NvmeIoctl::new(Arc::new(passing.node(NodeKind::Generic { nsid: 2 })));
    assert!(nvme.capabilities().methods.contains(Method::PiggybackPt));
    let mut queue = nvme.queue(in_pieces()).unwrap();
    let enabled = Methods::new().with_inline(true).with_piggyback_pt(true);
    assert_eq!(nvme.device().passage().methods(), enabled);
    queue.execute(store(b"k", bytes(&value(50)))).unwrap();
}

#[test]
fn a_device_that_announces_nothing_or_does_not_agree_is_refused_by_a_sentence() {
    let scratch = Scratch::new();
    let plain = InProcess::new(&scratch).plain().node(NodeKind::Generic { nsid: 2 });
    let nvme = NvmeIoctl::new(Arc::new(plain));
    let said = nvme.queue(in_pieces()).err().unwrap().to_string();
    assert!(said.contains("piggyback-pt is not announced by the device; there are prp, adaptive"), "{said}");
    let options = QueueOptions::default().transfer(Method::Sgl);
    let said = nvme.queue(options).err().unwrap().to_string();
    assert!(said.contains("the kernel chooses between PRPs and SGLs"), "{said}");
    nvme.queue(QueueOptions::default()).unwrap().execute(store(b"k", bytes(b"v"))).unwrap();
    drop(nvme);
    let nvme = NvmeIoctl::new(Arc::new(InProcess::keys(&scratch)));
    let of = (NvmeQueue::Admin, AdminOpcode::SET_FEATURES.0);
    let what = FaultKind::Status(Status::INVALID_FIELD);
    nvme.device().passage().fail(Fault { of, after: 0, what });
    let refused = nvme.queue(in_pieces()).err().unwrap();
    assert_eq!(refused.origin(), Origin::Device);
    assert!(refused.to_string().contains("enable transfer method piggyback-pt"), "{refused}");
}

#[test]
fn a_full_table_of_payloads_has_stores_go_whole_until_abandoned_ones_give_way() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::keys(&scratch)));
    let unfinished = nvme.capabilities().limits.piggyback_pt_unfinished;
    assert!(unfinished > 0);
    let mut queue = nvme.queue(in_pieces()).unwrap();
    let passing = nvme.device().passage();
    (0..unfinished).for_each(|_| assert_eq!(begin(passing).status, 0));
    assert!(Status(begin(passing).status).is(Status::PAYLOAD_LIMIT_EXCEEDED));
    passing.take_seen();
    queue.execute(store(b"whole", bytes(&value(50)))).unwrap();
    assert_eq!(opcodes(passing), [WRITE, STORE]);
    assert_eq!(get(&mut queue, b"whole"), Some(value(50)));
    // One that fits its first command needs no room.
    passing.take_seen();
    queue.execute(store(b"few", bytes(&value(11)))).unwrap();
    assert_eq!(opcodes(passing), [WRITE]);
    let went_in_pieces = |n: u32| {
        passing.take_seen();
        queue.execute(store(&n.to_be_bytes(), bytes(&value(50)))).unwrap();
        opcodes(passing) == pieces_of(50)
    };
    assert!((0..5000).any(went_in_pieces), "payloads that get no more pieces are kept for ever");
}

/// Opens a payload and never finishes it.
fn begin(passing: &InProcess) -> NvmeAnswer {
    let key = Key::new(b"abandoned").unwrap();
    let store = byway_core::encode::store(nsid(), &key, 100, StoreOptions::NONE);
    let entry = piggyback_pt::write(&store, &[9; 100]);
    let command = NvmeCommand {
        opcode: entry.opcode(),
        nsid: 2,
        cdw2: entry.cdw2,
        cdw3: entry.cdw3,
        cdw10_15: [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14, entry.cdw15],
        ..NvmeCommand::default()
    };
    passing.pass(&command, &mut Memory::Empty).unwrap()
}

#[test]
fn a_failure_midway_is_the_stores_own_and_nothing_is_stored() {
    for (what, origin) in
        [(FaultKind::Status(Status::WRITE_FAULT), Origin::Device), (FaultKind::Errno(5), Origin::Kernel)]
    {
        for (opcode, after) in [(WRITE, 0), (TRANSFER, 0), (TRANSFER, 2)] {
            let scratch = Scratch::new();
            let nvme = passing_ring::behind(InProcess::keys(&scratch));
            let mut queue = nvme.queue(in_pieces()).unwrap();
            nvme.device().passage().fail(fault(opcode, after, what));
            queue.submit(store(b"k", Buffer::copy_of(&value(100)).unwrap()), 7).unwrap();
            let mut ended = Vec::new();
            queue.drain(&mut |finished| ended.push(finished)).unwrap();
            let Finished { tag, result } = ended.pop().unwrap();
            let failed = result.unwrap_err();
            assert_eq!((tag, failed.error.origin(), ended.len()), (7, origin, 0), "{}", failed.error);
            assert_eq!(failed.buffer.unwrap().as_slice(), value(100), "its buffer comes back");
            assert_eq!(get(&mut queue, b"k"), None);
            queue.execute(store(b"k", bytes(&value(100)))).unwrap();
            assert_eq!(get(&mut queue, b"k"), Some(value(100)));
        }
    }
}

#[test]
fn a_reset_midway_costs_a_store_its_pieces_and_later_ones_have_them_again() {
    for (opcode, after) in [(WRITE, 0), (TRANSFER, 0), (TRANSFER, 1)] {
        let scratch = Scratch::new();
        let nvme = passing_ring::behind(InProcess::keys(&scratch));
        let mut queue = nvme.queue(in_pieces()).unwrap();
        let passing = nvme.device().passage();
        passing.fail(fault(opcode, after, FaultKind::Reset));
        queue.execute(store(b"a", bytes(&value(100)))).unwrap();
        assert_eq!(opcodes(passing).last(), Some(&STORE));
        assert_eq!(get(&mut queue, b"a"), Some(value(100)));
        passing.take_seen();
        queue.execute(store(b"b", bytes(&value(100)))).unwrap();
        assert_eq!(opcodes(passing), pieces_of(100));
    }
}

#[test]
fn a_store_whose_time_is_over_between_two_commands_stores_nothing() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::keys(&scratch));
    let mut queue = nvme.queue(in_pieces()).unwrap();
    queue.submit_within(store(b"late", bytes(&value(100))), 1, Some(Duration::ZERO)).unwrap();
    queue.submit_within(store(b"soon", bytes(&value(100))), 2, Some(Duration::from_secs(3600))).unwrap();
    let mut kinds = Vec::new();
    let mut on = |Finished { tag, result }| kinds.push((tag, result.err().map(|failed| failed.error.kind())));
    queue.drain(&mut on).unwrap();
    kinds.sort_by_key(|(tag, _)| *tag);
    assert_eq!(kinds, [(1, Some(ErrorKind::TimedOut)), (2, None)]);
    assert_eq!((get(&mut queue, b"late"), get(&mut queue, b"soon")), (None, Some(value(100))));
    let passed = nvme.device().passage().take_seen();
    let timed = |command: &&NvmeCommand| command.timeout_ms > 0 && command.opcode == TRANSFER;
    assert!(passed.iter().filter(timed).count() > 0, "each command has what is left of the time");
}

#[test]
fn a_store_that_is_cancelled_before_it_begins_stores_nothing_and_gives_its_memory_back() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::keys(&scratch));
    let mut queue = nvme.queue(in_pieces()).unwrap();
    for tag in 0..4 {
        let value = Buffer::copy_of(&value(100)).unwrap();
        queue.submit(store(&[tag as u8; 2], value), tag).unwrap();
    }
    queue.cancel(2).unwrap();
    let mut ended = Vec::new();
    queue.drain(&mut |finished| ended.push(finished)).unwrap();
    ended.sort_by_key(|finished| finished.tag);
    for Finished { tag, result } in ended {
        let is_there = get(&mut queue, &[tag as u8; 2]).is_some();
        assert_eq!((is_there, result.is_ok()), (tag != 2, tag != 2));
        let buffer = result.map_or_else(|failed| failed.buffer, |outcome| outcome.buffer);
        assert_eq!(buffer.unwrap().as_slice(), value(100));
    }
}

#[test]
fn a_store_that_is_cancelled_between_two_commands_stores_nothing_and_gives_its_memory_back() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::keys(&scratch));
    let mut queue = nvme.queue(in_pieces()).unwrap();
    queue.submit(store(b"k", Buffer::copy_of(&value(100)).unwrap()), 1).unwrap();
    queue.start().unwrap();
    assert!(queue.next_within(Duration::ZERO).unwrap().is_none());
    assert!(opcodes(nvme.device().passage()).starts_with(&[WRITE, TRANSFER]), "it has begun");
    queue.cancel(1).unwrap();
    let mut ended = Vec::new();
    queue.drain(&mut |finished| ended.push(finished.result)).unwrap();
    let failed = ended.pop().unwrap().unwrap_err();
    assert_eq!((failed.error.kind(), ended.len()), (ErrorKind::Cancelled, 0));
    assert_eq!(failed.buffer.unwrap().as_slice(), value(100));
    assert_eq!(get(&mut queue, b"k"), None);
    queue.execute(store(b"k", bytes(&value(100)))).unwrap();
    assert_eq!(get(&mut queue, b"k"), Some(value(100)));
}

#[test]
fn a_queue_that_is_dropped_with_pieces_under_way_leaves_the_device_usable() {
    let scratch = Scratch::new();
    let nvme = passing_ring::behind(InProcess::keys(&scratch));
    for round in 0..100_u32 {
        let mut queue = nvme.queue(in_pieces().depth(4)).unwrap();
        for n in 0..4 {
            queue.submit(store(&round.to_be_bytes(), bytes(&value(60))), n).unwrap();
        }
        queue.start().unwrap();
    }
    let mut queue = nvme.queue(in_pieces()).unwrap();
    queue.execute(store(b"k", bytes(&value(60)))).unwrap();
    assert_eq!(get(&mut queue, b"k"), Some(value(60)));
}

#[test]
fn the_devices_ledger_has_the_commands_and_no_data() {
    let scratch = Scratch::new();
    let nvme = NvmeIoctl::new(Arc::new(InProcess::keys(&scratch)));
    let mut queue = nvme.queue(in_pieces()).unwrap();
    // What the namespace is has been asked for by then.
    queue.execute(store(b"k", bytes(&value(1)))).unwrap();
    let device = nvme.device().passage().device();
    let before = device.ledger();
    queue.execute(store(b"k", bytes(&value(100)))).unwrap();
    let moved = device.ledger().since(&before);
    let rows: Vec<_> =
        moved.rows().filter(|(_, row)| row.count > 0).map(|(class, row)| (class.name(), row.count)).collect();
    let commands = 1 + vendor::transfers_pt(100) as u64;
    assert!(rows.contains(&("command_fetch", commands)), "{rows:?}");
    assert!(rows.iter().all(|(name, _)| !name.contains("data")), "{rows:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Several queues store in turns; what a key holds is what was stored last.
    #[test]
    fn stores_of_several_queues_in_pieces_and_whole_do_not_mix(
        depth in 1_u32..9,
        stores in prop::collection::vec((0_usize..3, 0_u8..12, 0_usize..400), 1..60),
        lost in prop::option::of(0_u32..40),
    ) {
        let scratch = Scratch::new();
        let nvme = passing_ring::behind(InProcess::keys(&scratch));
        if let Some(after) = lost {
            nvme.device().passage().fail(fault(TRANSFER, after, FaultKind::Reset));
        }
        let options = in_pieces().depth(depth);
        let plain = QueueOptions::default().depth(depth);
        let mut queues = [options, options, plain].map(|options| nvme.queue(options).unwrap());
        let mut model = std::collections::BTreeMap::new();
        for (turn, (queue, key, len)) in stores.into_iter().enumerate() {
            // Two stores of a key that are under way at the same time have no order.
            let key = [key, queue as u8];
            let value: Vec<u8> = (0..len).map(|at| (at + turn) as u8).collect();
            let queue = &mut queues[queue];
            if queue.outstanding() == depth || model.contains_key(&key) {
                queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap();
            }
            queue.submit(store(&key, bytes(&value)), turn as u64).unwrap();
            if turn % 3 == 0 {
                queue.start().unwrap();
            }
            model.insert(key, value);
        }
        for queue in &mut queues {
            queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap();
        }
        for (key, value) in model {
            prop_assert_eq!(get(&mut queues[2], &key), Some(value));
        }
    }
}
