//! Delegated queue pairs: they do what their controller would have done.

use crate::common::{TestHost, kv, number};
use crate::io::{BLOCKS_512, DATA, Io, KV, QUEUE};
use byway_controller::{ControllerId, DELEGATED_COMMANDS, DelegatedQueue, Gathered, Host};
use byway_dma::BusAddr;
use byway_link::Class;
use byway_queue::DoorbellIndex;
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::base::register::{Cc, Register};
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::kv::{KvCdw11, KvOpcode};
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::{
    ManyCdw10, ScanCdw11, VendorOpcode, inline_result_bytes, pack_write, set_inline_result_max_bytes,
};
use byway_spec::{Cdw0, Command, Completion, Status};
use proptest::prelude::*;

fn command(opcode: u8, key: &[u8], cdw10: usize) -> Command {
    let mut command = Command::new(opcode, 0, KV);
    command.set_key(key);
    command.cdw10 = cdw10 as u32;
    command.cdw11 = KvCdw11::new().with_key_len(key.len() as u8).into_bits();
    command
}

/// How blocks are pointed at.
#[derive(Debug, Clone, Copy)]
enum Pointer {
    Prp,
    Sgl,
    Inline,
    Unmapped,
}

/// Reads and writes of blocks, short and long, also past the end and longer than a delegated queue carries.
fn blocks() -> impl Strategy<Value = Step> {
    let opcode = prop::sample::select(vec![
        NvmOpcode::READ,
        NvmOpcode::READ,
        NvmOpcode::WRITE,
        NvmOpcode::WRITE,
        NvmOpcode::COMPARE,
        NvmOpcode::WRITE_ZEROES,
    ]);
    let pointer = prop::sample::select(vec![
        Pointer::Prp,
        Pointer::Prp,
        Pointer::Sgl,
        Pointer::Inline,
        Pointer::Unmapped,
    ]);
    let slba = prop_oneof![8 => 0u64..40, 1 => Just(u64::MAX), 1 => Just(1 << 40)];
    let count = prop_oneof![8 => 1usize..9, 1 => 16usize..40];
    (opcode, 1u32..3, slba, count, pointer).prop_map(|(opcode, nsid, slba, count, pointer)| Step::Blocks {
        opcode,
        nsid,
        slba,
        count,
        pointer,
    })
}

/// Bytes of the buffer of an inline read.
const INLINE_BUFFER_BYTES: usize = 100;

/// What a host does.
#[derive(Debug, Clone)]
enum Step {
    Inline(u8, Vec<u8>),
    Prp(u8, usize),
    Sgl(u8, usize),
    Piggyback(u8, usize),
    Fragments(u8),
    Retrieve(u8, usize),
    /// A Retrieve whose value may stand behind the completion, and most bytes of it there.
    InlineRead(u8, u16),
    /// Keys, most bytes of each value, bytes of the buffer, and whether it is named by an SGL.
    RetrieveMany(Vec<u8>, u16, usize, bool),
    Delete(u8),
    Exist(u8),
    List,
    Flush,
    Write,
    Fused(NvmOpcode, u8),
    Blocks {
        opcode: NvmOpcode,
        nsid: u32,
        slba: u64,
        count: usize,
        pointer: Pointer,
    },
    NoNamespace,
    LongKey,
    UnmappedBuffer(u8),
    StoreIfExists(u8),
    Serve,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u8..6;
    prop_oneof![
        (key.clone(), prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(k, v)| Step::Inline(k, v)),
        (key.clone(), 0usize..6000).prop_map(|(k, n)| Step::Prp(k, n)),
        (key.clone(), 0usize..6000).prop_map(|(k, n)| Step::Sgl(k, n)),
        (key.clone(), 0usize..36).prop_map(|(k, n)| Step::Piggyback(k, n)),
        key.clone().prop_map(Step::Fragments),
        (key.clone(), 0usize..6000).prop_map(|(k, n)| Step::Retrieve(k, n)),
        (key.clone(), 0usize..100).prop_map(|(k, n)| Step::Retrieve(k, n)),
        (key.clone(), 0u16..120).prop_map(|(k, most)| Step::InlineRead(k, most)),
        (key.clone(), 0u16..120).prop_map(|(k, most)| Step::InlineRead(k, most)),
        (prop::collection::vec(key.clone(), 0..40), 0u16..300, 0usize..9000, any::<bool>())
            .prop_map(|(keys, prefix, n, is_sgl)| Step::RetrieveMany(keys, prefix, n, is_sgl)),
        key.clone().prop_map(Step::Delete),
        key.clone().prop_map(Step::Exist),
        key.clone().prop_map(Step::UnmappedBuffer),
        key.prop_map(Step::StoreIfExists),
        Just(Step::List),
        Just(Step::Flush),
        Just(Step::Write),
        Just(Step::Fused(NvmOpcode::COMPARE, Cdw0::FUSE_FIRST)),
        Just(Step::Fused(NvmOpcode::WRITE, Cdw0::FUSE_SECOND)),
        blocks(),
        blocks(),
        blocks(),
        Just(Step::NoNamespace),
        Just(Step::LongKey),
        Just(Step::Serve),
        Just(Step::Serve),
    ]
}

fn device(profile: &str) -> Io {
    let mut io = Io::of_profile(profile);
    // Without modelled time, blocks are read without the subsystem.
    io.host.subsystem.flash_mut().set_timing(false);
    io.enable_methods();
    io
}

fn device_without_sgls(profile: &str) -> Io {
    let mut io = Io::without_sgls(profile);
    io.enable_methods();
    io
}

/// Where requests of so many keys are, and their results.
fn many_at(keys: usize) -> u64 {
    DATA + (3 << 20) + keys as u64 * 0x4000
}

/// Puts a step's commands into the ring.
fn place(io: &mut Io, step: &Step) {
    let store = |key: u8, n: usize| command(KvOpcode::STORE.0, &[b'k', key], n);
    match step {
        Step::Inline(key, value) => {
            let mut command = store(*key, value.len());
            command.set_sgl1(SglDescriptor::inline(value.len() as u32));
            io.host.submit(QUEUE, command);
            for chunk in value.chunks(64) {
                let mut slot = [0; 64];
                slot[..chunk.len()].copy_from_slice(chunk);
                io.host.push(QUEUE, &slot);
            }
        }
        Step::Prp(key, n) => {
            let mut command = store(*key, *n);
            io.point_prps(&mut command, DATA, *n);
            io.host.submit(QUEUE, command);
        }
        Step::Sgl(key, n) => {
            let mut command = store(*key, *n);
            command.set_sgl1(SglDescriptor::data_block(DATA + 3, *n as u32));
            io.host.submit(QUEUE, command);
        }
        Step::Piggyback(key, n) => {
            let mut command = command(VendorOpcode::KV_WRITE_PIGGYBACK.0, &[b'k', *key], *n);
            pack_write(&mut command, &vec![*key; *n]);
            io.host.submit(QUEUE, command);
        }
        Step::Fragments(key) => {
            let mut command = command(VendorOpcode::KV_WRITE_PIGGYBACK.0, &[b'k', *key], 60);
            pack_write(&mut command, &[9; 35]);
            io.host.submit(QUEUE, command);
            io.host.submit(QUEUE, Command::new(VendorOpcode::KV_TRANSFER.0, 0, KV));
        }
        Step::Retrieve(key, n) => {
            let mut command = command(KvOpcode::RETRIEVE.0, &[b'k', *key], *n);
            io.point_prps(&mut command, DATA + (1 << 20), *n);
            io.host.submit(QUEUE, command);
        }
        Step::InlineRead(key, most) => {
            let mut command = command(KvOpcode::RETRIEVE.0, &[b'k', *key], INLINE_BUFFER_BYTES);
            set_inline_result_max_bytes(&mut command, *most);
            command.set_prps(DATA + (2 << 20), 0);
            io.host.submit(QUEUE, command);
        }
        Step::RetrieveMany(keys, prefix, n, is_sgl) => {
            let at = many_at(keys.len());
            let request = keys.iter().flat_map(|key| [2, b'k', *key]).collect::<Vec<u8>>();
            let mut command = Command::new(VendorOpcode::KV_RETRIEVE_MANY.0, 0, KV);
            command.cdw10 = ManyCdw10::new().with_buffer_bytes(*n as u32).into_bits();
            command.cdw11 = ScanCdw11::new().with_value_prefix(*prefix).into_bits();
            (command.cdw12, command.cdw13) = (request.len() as u32, keys.len() as u32);
            io.put(at, &request);
            // Lists of PRPs are in one place, which other commands of the batch overwrite.
            match *is_sgl || *n > 8192 {
                true => command.set_sgl1(SglDescriptor::data_block(at, *n as u32)),
                false => io.point_prps(&mut command, at, *n),
            }
            io.host.submit(QUEUE, command);
        }
        Step::UnmappedBuffer(key) => {
            let mut command = command(KvOpcode::RETRIEVE.0, &[b'k', *key], 64);
            command.set_prps(0x1000, 0);
            io.host.submit(QUEUE, command);
        }
        Step::StoreIfExists(key) => {
            let mut command = store(*key, 0);
            command.cdw11 = KvCdw11::from_bits(command.cdw11).with_must_exist_or_raw(true).into_bits();
            io.host.submit(QUEUE, command);
        }
        Step::Delete(key) => _ = io.host.submit(QUEUE, command(KvOpcode::DELETE.0, &[b'k', *key], 0)),
        Step::Exist(key) => _ = io.host.submit(QUEUE, command(KvOpcode::EXIST.0, &[b'k', *key], 0)),
        Step::List => {
            let mut command = command(KvOpcode::LIST.0, &[], 100);
            command.set_prps(DATA + (2 << 20), 0);
            io.host.submit(QUEUE, command);
        }
        Step::Flush => _ = io.host.submit(QUEUE, Command::new(KvOpcode::FLUSH.0, 0, KV)),
        Step::Write => {
            let mut command = crate::io::blocks(NvmOpcode::WRITE, BLOCKS_512, 5, 1);
            command.set_prps(DATA, 0);
            io.host.submit(QUEUE, command);
        }
        Step::Fused(opcode, fuse) => {
            let mut command = crate::io::blocks(*opcode, BLOCKS_512, 5, 1);
            command.cdw0.set_fuse(*fuse);
            command.set_prps(DATA, 0);
            io.host.submit(QUEUE, command);
        }
        Step::Blocks { opcode, nsid, slba, count, pointer } => {
            place_blocks(io, crate::io::blocks(*opcode, *nsid, *slba, *count), *pointer)
        }
        Step::NoNamespace => _ = io.host.submit(QUEUE, Command::new(KvOpcode::EXIST.0, 0, 60)),
        Step::LongKey => {
            let mut command = command(KvOpcode::EXIST.0, b"k", 0);
            command.cdw11 = 17;
            io.host.submit(QUEUE, command);
        }
        Step::Serve => {}
    }
}

fn place_blocks(io: &mut Io, mut command: Command, pointer: Pointer) {
    let bytes = io.block_bytes(command.nsid) * ((command.cdw12 & 0xffff) as usize + 1);
    let is_read = command.opcode() == NvmOpcode::READ.0;
    let at = if is_read { DATA + (1 << 20) } else { DATA };
    match pointer {
        Pointer::Inline if !is_read && bytes <= 512 => {
            command.set_sgl1(SglDescriptor::inline(bytes as u32));
            io.host.submit(QUEUE, command);
            for chunk in 0..bytes / 64 {
                io.host.push(QUEUE, &[chunk as u8; 64]);
            }
            return;
        }
        // Lists are contiguous, so they are read whole.
        Pointer::Prp | Pointer::Inline if is_read || bytes <= 8192 => io.point_prps(&mut command, at, bytes),
        Pointer::Prp | Pointer::Inline | Pointer::Sgl => {
            command.set_sgl1(SglDescriptor::data_block(at + 8, bytes as u32))
        }
        Pointer::Unmapped => command.set_prps(0x1000, 0x2000),
    }
    io.host.submit(QUEUE, command);
}

/// Serves what was rung, delegated or not, and takes the completions.
fn serve(io: &mut Io, is_delegated: bool) -> Vec<Completion> {
    io.host.ring(QUEUE);
    if is_delegated {
        io.host.run_delegated(QUEUE);
    }
    io.host.run();
    std::iter::from_fn(|| reap_with_result(io)).collect()
}

/// Takes a completion, and a result behind it, which goes where tests look for data.
fn reap_with_result(io: &mut Io) -> Option<Completion> {
    let done = io.host.peek(QUEUE)?;
    if let Some(bytes) = inline_result_bytes(&done, INLINE_BUFFER_BYTES as u32) {
        let result = io.host.peek_result(QUEUE, bytes);
        io.put(DATA + (2 << 20), &result);
    }
    io.host.ring_head(QUEUE);
    Some(done)
}

/// A completion without its head: a delegated queue reports the newest.
fn said(done: &Completion) -> (u16, u16, u32, u32, u16) {
    (done.sqid, done.cid, done.dw0, done.dw1, done.phase_and_status)
}

fn alike(make: fn(&str) -> Io, profile: &str, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut devices = [make(profile), make(profile)];
    for io in &mut devices {
        let bytes: Vec<u8> = (0..8192u32).map(|n| (n * 7) as u8).collect();
        io.put(DATA, &bytes);
    }
    for steps in steps.chunks(20) {
        let mut answers = devices.iter_mut().enumerate().map(|(is_delegated, io)| {
            let mut answers = Vec::new();
            for step in steps.iter().chain([&Step::Serve]) {
                place(io, step);
                if matches!(step, Step::Serve) {
                    answers.extend(serve(io, is_delegated == 1).iter().map(said));
                }
            }
            answers
        });
        prop_assert_eq!(answers.next(), answers.next());
    }
    let [plain, delegated] = &mut devices;
    // A coalesced interrupt announces the commands that complete together. A delegated queue completes other batches.
    let rows = |io: &Io| -> Vec<_> {
        let coalesced = |class| class == Class::Interrupt && profile != "cosmos";
        io.host.meter.ledger().rows().filter(|(class, _)| !coalesced(*class)).collect()
    };
    prop_assert_eq!(rows(plain), rows(delegated));
    for at in (0..40).map(many_at).chain([DATA + (1 << 20), DATA + (2 << 20)]) {
        prop_assert_eq!(plain.get(at, 9000), delegated.get(at, 9000));
    }
    let count = |io: &mut Io| {
        let smart = io.host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
        (number(&smart, 64, 8), number(&smart, 80, 8), number(&smart, 176, 8))
    };
    prop_assert_eq!(count(plain), count(delegated), "commands and errors counted");
    prop_assert_eq!(plain.host.subsystem.io().payloads(), delegated.host.subsystem.io().payloads());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn delegated_queue_answers_moves_and_counts_as_its_controller_does(steps in prop::collection::vec(step(), 1..80)) {
        alike(device, "gen4x4", &steps)?;
        alike(device, "cosmos", &steps)?;
        alike(device_without_sgls, "gen4x4", &steps)?;
    }
}

#[test]
fn delegated_queue_stops_at_a_command_that_it_does_not_carry() {
    let mut io = device("gen4x4");
    for step in [Step::Piggyback(1, 30), Step::List, Step::Piggyback(2, 30)] {
        place(&mut io, &step);
    }
    io.host.ring(QUEUE);
    let mut queue = io.host.delegate(QUEUE).unwrap();
    assert_eq!(io.host.gather(&mut queue), Gathered::NotMine);
    assert_eq!(queue.gathered(), 1);
    io.host.finish_delegated(&mut queue);
    assert_eq!(std::iter::from_fn(|| io.host.reap(QUEUE)).count(), 1);
    io.host.reclaim(queue);
    io.host.run();
    assert_eq!(std::iter::from_fn(|| io.host.reap(QUEUE)).count(), 2);
}

#[test]
fn delegated_queue_keeps_a_capsule_until_its_payload_has_come() {
    let mut io = device("gen4x4");
    let mut command = command(KvOpcode::STORE.0, b"k", 100);
    command.set_sgl1(SglDescriptor::inline(100));
    io.host.submit(QUEUE, command);
    io.host.push(QUEUE, &[1; 64]);
    io.host.ring(QUEUE);
    let mut queue = io.host.delegate(QUEUE).unwrap();
    assert_eq!(io.host.gather(&mut queue), Gathered::All);
    assert_eq!(queue.gathered(), 0);
    io.host.push(QUEUE, &[2; 64]);
    io.host.ring(QUEUE);
    assert_eq!(io.host.gather(&mut queue), Gathered::All);
    io.host.finish_delegated(&mut queue);
    assert!(io.host.reap(QUEUE).unwrap().status().is_success());
    io.host.reclaim(queue);
}

#[test]
fn delegated_queue_gathers_at_most_its_number_of_commands() {
    let mut io = device("gen4x4");
    (0..40).for_each(|n| place(&mut io, &Step::Piggyback(n, 20)));
    io.host.ring(QUEUE);
    let mut queue = io.host.delegate(QUEUE).unwrap();
    assert_eq!(io.host.gather(&mut queue), Gathered::Full);
    io.host.finish_delegated(&mut queue);
    assert_eq!(std::iter::from_fn(|| io.host.reap(QUEUE)).count(), DELEGATED_COMMANDS);
    assert_eq!(io.host.gather(&mut queue), Gathered::All);
    io.host.finish_delegated(&mut queue);
    io.host.reclaim(queue);
}

#[test]
fn full_completion_queue_blocks_a_delegated_queue_until_its_head_moves() {
    let mut io = device("gen4x4");
    io.host.create_pair(2, 4);
    for key in 0..5 {
        io.host.submit(2, command(KvOpcode::EXIST.0, &[b'k', key], 0));
        if key == 2 {
            io.host.ring(2);
            io.host.run();
        }
    }
    io.host.ring(2);
    let mut queue = io.host.delegate(2).unwrap();
    assert_eq!(io.host.gather(&mut queue), Gathered::All);
    assert!(queue.is_blocked() && queue.gathered() == 0);
    assert_eq!(std::iter::from_fn(|| io.host.reap(2)).count(), 3);
    assert_eq!(io.host.gather(&mut queue), Gathered::All);
    assert!(!queue.is_blocked());
    io.host.finish_delegated(&mut queue);
    assert!(io.host.reap(2).unwrap().status().is(Status::KEY_DOES_NOT_EXIST));
    io.host.reclaim(queue);
}

#[test]
fn a_doorbell_that_cannot_be_is_the_controllers_to_report() {
    let mut io = device("gen4x4");
    io.host.ring_raw(DoorbellIndex::submission(QUEUE), 60_000);
    let mut queue = io.host.delegate(QUEUE).unwrap();
    assert_eq!(io.host.gather(&mut queue), Gathered::NotMine);
    io.host.reclaim(queue);
}

#[test]
fn queues_that_need_their_controller_are_not_delegated() {
    let mut io = device("gen4x4");
    assert!(io.host.delegate(0).is_none(), "the admin queue");
    assert!(io.host.delegate(9).is_none(), "no queue");
    let queue = io.host.delegate(QUEUE).unwrap();
    assert!(io.host.delegate(QUEUE).is_none(), "it is delegated");
    io.host.reclaim(queue);
    io.host.create_cq(2, BusAddr(DATA), 16, None);
    for qid in [2, 3] {
        let at = io.host.alloc(4096);
        assert!(io.host.create_sq(qid, at, 16, 2).is_success());
    }
    assert!(io.host.delegate(2).is_none(), "two queues complete there");
    let cc = Cc::from_bits(io.host.controller.read_register(Register::CC.0));
    io.host.write_register(Register::CC, cc.with_en(false).into_bits());
    assert!(io.host.delegate(QUEUE).is_none(), "the controller is off");
    let mut synced = Io::over(TestHost::synced(96 << 20, &[kv(96 << 20)]));
    assert!(synced.host.delegate(QUEUE).is_none(), "completions wait for syncs");
}

/// Ring commands of blocks into a delegated queue, and whether all were executed without the subsystem.
fn serve_unlocked(io: &mut Io, queue: &mut DelegatedQueue) -> bool {
    io.host.ring(QUEUE);
    assert_eq!(io.host.gather(queue), Gathered::All);
    let is_all = queue.execute_unlocked();
    io.host.finish_delegated(queue);
    is_all
}

#[test]
fn delegated_queue_reads_what_was_written_without_the_subsystem() {
    let mut io = device("gen4x4");
    let before = io.host.subsystem.flash().counters().host;
    let mut queue = io.host.delegate(QUEUE).unwrap();
    let (written, read) = (DATA, DATA + (1 << 20));
    for (slba, byte) in [(5, 0x55), (13, 0x77)] {
        io.host.write(BusAddr(written), &[byte; 4096]);
        place_blocks_at(&mut io, NvmOpcode::WRITE, slba, written);
        assert!(!serve_unlocked(&mut io, &mut queue), "writes need the subsystem");
        assert!(io.host.reap(QUEUE).unwrap().status().is_success());
        place_blocks_at(&mut io, NvmOpcode::READ, slba, read);
        assert!(serve_unlocked(&mut io, &mut queue));
        assert!(io.host.reap(QUEUE).unwrap().status().is_success());
        assert_eq!(io.host.read(BusAddr(read), 4096), [byte; 4096]);
    }
    io.host.reclaim(queue);
    let after = io.host.subsystem.flash().counters().host;
    assert_eq!((after.reads - before.reads, after.read_bytes - before.read_bytes), (2, 8192));
}

#[test]
fn delegated_queue_reads_blocks_in_the_order_of_writes_before_them() {
    let mut io = device("gen4x4");
    let mut queue = io.host.delegate(QUEUE).unwrap();
    io.host.write(BusAddr(DATA), &[0x66; 4096]);
    place_blocks_at(&mut io, NvmOpcode::WRITE, 8, DATA);
    place_blocks_at(&mut io, NvmOpcode::READ, 12, DATA + (1 << 20));
    assert!(!serve_unlocked(&mut io, &mut queue));
    let bytes = io.host.read(BusAddr(DATA + (1 << 20)), 4096);
    assert_eq!((&bytes[..2048], &bytes[2048..]), (&[0x66; 2048][..], &[0; 2048][..]));
    io.host.reclaim(queue);
}

#[test]
fn namespace_detached_meanwhile_ends_reads_without_the_subsystem() {
    let mut io = device("gen4x4");
    let mut queue = io.host.delegate(QUEUE).unwrap();
    place_blocks_at(&mut io, NvmOpcode::READ, 0, DATA);
    assert!(serve_unlocked(&mut io, &mut queue));
    // As another controller does while queues are delegated.
    io.host.subsystem.detach(BLOCKS_512, ControllerId(0)).unwrap();
    place_blocks_at(&mut io, NvmOpcode::READ, 0, DATA);
    assert!(!serve_unlocked(&mut io, &mut queue));
    assert!(io.host.reap(QUEUE).unwrap().status().is_success());
    assert!(io.host.reap(QUEUE).unwrap().status().is(Status::INVALID_NAMESPACE));
    io.host.reclaim(queue);
}

/// A read under the run lock, again and again, until one needs no lock; how many there were.
fn reads_until_unlocked(io: &mut Io, queue: &mut DelegatedQueue) -> Option<usize> {
    (1..1000).find(|_| {
        place_blocks_at(io, NvmOpcode::READ, 0, DATA);
        let is_unlocked = serve_unlocked(io, queue);
        assert!(io.host.reap(QUEUE).unwrap().status().is_success());
        is_unlocked
    })
}

#[test]
fn permit_that_ended_is_asked_for_again_some_batches_later() {
    let mut io = device("gen4x4");
    let mut queue = io.host.delegate(QUEUE).unwrap();
    assert_eq!(reads_until_unlocked(&mut io, &mut queue), Some(1));
    // As a registration of another host does, which leaves this one's access as it was.
    io.host.subsystem.set_host(ControllerId(0), Host::Extended([7; 16])).unwrap();
    assert!(reads_until_unlocked(&mut io, &mut queue).is_some_and(|reads| reads > 100));
    io.host.reclaim(queue);
}

/// Eight blocks of 512 bytes at a data pointer.
fn place_blocks_at(io: &mut Io, opcode: NvmOpcode, slba: u64, at: u64) {
    let mut command = crate::io::blocks(opcode, BLOCKS_512, slba, 8);
    command.set_prps(at, 0);
    io.host.submit(QUEUE, command);
}

/// Serves what was rung by shared reference, and whether that was all.
fn serve_shared(io: &mut Io, queue: &mut DelegatedQueue) -> bool {
    io.host.ring(QUEUE);
    io.host.gather(queue);
    assert!(!queue.execute_unlocked(), "keys need the subsystem");
    let is_all = queue.begins_with_get() && queue.execute_shared(&io.host.subsystem);
    io.host.finish_delegated(queue);
    is_all
}

#[test]
fn delegated_queue_retrieves_many_values_beside_other_readers() {
    let mut io = device("gen4x4");
    (0..40).for_each(|key| place(&mut io, &Step::Piggyback(key, 30)));
    serve(&mut io, false);
    let mut queue = io.host.delegate(QUEUE).unwrap();
    let keys: Vec<u8> = (0..60).collect();
    place(&mut io, &Step::RetrieveMany(keys.clone(), 99, 4000, true));
    assert!(serve_shared(&mut io, &mut queue));
    let done = io.host.reap(QUEUE).unwrap();
    assert!(done.status().is_success());
    assert_eq!(done.dw0, 40, "values found");
    io.host.reclaim(queue);
    let smart = io.host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
    assert_eq!(number(&smart, 64, 8), 1, "one host read");
}

#[test]
fn delegated_queue_gathers_one_retrieve_many_at_a_time() {
    let mut io = device("gen4x4");
    for keys in [vec![1], vec![1, 2]] {
        place(&mut io, &Step::RetrieveMany(keys, 99, 4000, true));
    }
    io.host.ring(QUEUE);
    let mut queue = io.host.delegate(QUEUE).unwrap();
    for expected in [Gathered::Full, Gathered::All] {
        assert_eq!((io.host.gather(&mut queue), queue.gathered()), (expected, 1));
        io.host.finish_delegated(&mut queue);
        assert!(io.host.reap(QUEUE).unwrap().status().is_success());
    }
    io.host.reclaim(queue);
}
