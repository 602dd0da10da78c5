//! Short results behind their completions, in the completion queue (decision 0095).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::MEMORY_AT;
use crate::io::{BLOCKS_512, DATA, Io, KV, QUEUE, blocks, keyed};
use byway_link::{Class, Row};
use byway_queue::DoorbellIndex;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::FeatureId;
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::{
    INLINE_RESULT, Methods, VendorArea, inline_result_bytes, result_bytes, result_entries,
    set_inline_result_max_bytes,
};
use byway_spec::{Command, Completion, Status};
use proptest::prelude::*;

/// Longest result behind its completion on a link with packets of 256 bytes.
pub(crate) const LIMIT: usize = 225;
/// Bytes of each buffer.
pub(crate) const BUFFER: usize = 4096;
/// What buffers hold before.
const UNTOUCHED: u8 = 0xe7;

pub(crate) fn device() -> Io {
    let mut io = Io::new();
    io.enable_methods();
    io
}

pub(crate) fn value(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len) as u8 | 0x80).collect()
}

pub(crate) fn put(io: &mut Io, key: &[u8], value: &[u8]) {
    io.put(DATA + (1 << 20), value);
    let mut store = keyed(KvOpcode::STORE.0, key, value.len());
    io.point_prps(&mut store, DATA + (1 << 20), value.len());
    assert!(io.run(store).status().is_success());
}

/// A Retrieve into a buffer, of which at most so many bytes may stand behind the completion.
pub(crate) fn inline_read(key: &[u8], max_bytes: usize, buffer_bytes: usize) -> Command {
    let mut command = keyed(KvOpcode::RETRIEVE.0, key, buffer_bytes);
    set_inline_result_max_bytes(&mut command, max_bytes as u16);
    command.set_prps(DATA, 0);
    command
}

/// A completion, the result behind it if one stands there, and what the buffer holds.
struct Read {
    done: Completion,
    behind: Option<Vec<u8>>,
    buffer: Vec<u8>,
}

/// Executes a command by the controller, or by its queue delegated.
fn read(io: &mut Io, command: Command, is_delegated: bool) -> Read {
    io.put(DATA, &[UNTOUCHED; BUFFER]);
    io.host.submit(QUEUE, command);
    io.host.ring(QUEUE);
    if is_delegated {
        io.host.run_delegated(QUEUE);
    }
    io.host.run();
    let done = io.host.peek(QUEUE).expect("a completion");
    let bytes = inline_result_bytes(&done, command.cdw10);
    let behind = bytes.map(|bytes| io.host.peek_result(QUEUE, bytes));
    assert!(io.host.peek(QUEUE).is_none(), "nothing follows");
    io.host.ring_head(QUEUE);
    Read { done, behind, buffer: io.get(DATA, BUFFER) }
}

fn row(io: &Io, class: Class) -> Row {
    io.host.meter.ledger().row(class)
}

/// The result went by the data pointer.
#[track_caller]
fn assert_by_pointer(read: &Read, value: &[u8]) {
    assert!(read.done.status().is_success(), "{}", read.done.status());
    assert_eq!((read.done.dw1, read.behind.as_deref()), (0, None));
    assert_eq!(&read.buffer[..value.len()], value);
}

#[test]
fn value_stands_behind_its_completion_and_its_buffer_stays() {
    let mut io = device();
    for len in (1..=50).chain([104, 105, 106, 210, LIMIT]) {
        put(&mut io, b"key", &value(len));
        for is_delegated in [false, true] {
            let read = read(&mut io, inline_read(b"key", LIMIT, BUFFER), is_delegated);
            assert_eq!((read.done.dw0 as usize, read.done.dw1), (len, INLINE_RESULT));
            assert_eq!(read.behind.unwrap(), value(len), "{len} bytes");
            assert!(read.buffer.iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}

#[test]
fn one_write_on_the_link_carries_completion_and_value() {
    let mut io = device();
    put(&mut io, b"key", &value(32));
    for is_delegated in [false, true] {
        let before = [Class::Completion, Class::DataWrite].map(|class| row(&io, class));
        read(&mut io, inline_read(b"key", LIMIT, BUFFER), is_delegated);
        let after = [Class::Completion, Class::DataWrite].map(|class| row(&io, class));
        let spent = after[0].cost.payload_bytes - before[0].cost.payload_bytes;
        assert_eq!((after[0].count - before[0].count, spent), (1, 64));
        assert_eq!(after[0].cost.up_bytes - before[0].cost.up_bytes, 64 + 24);
        assert_eq!(after[1], before[1], "no data is written to the buffer");
    }
}

#[test]
fn result_goes_by_pointer_without_a_request_or_beyond_the_limits() {
    let mut io = device();
    put(&mut io, b"long", &value(LIMIT + 1));
    put(&mut io, b"short", &value(40));
    for is_delegated in [false, true] {
        let too_long = read(&mut io, inline_read(b"long", u16::MAX.into(), BUFFER), is_delegated);
        assert_by_pointer(&too_long, &value(LIMIT + 1));
        let over_request = read(&mut io, inline_read(b"short", 39, BUFFER), is_delegated);
        assert_by_pointer(&over_request, &value(40));
        let not_asked = read(&mut io, inline_read(b"short", 0, BUFFER), is_delegated);
        assert_by_pointer(&not_asked, &value(40));
    }
}

#[test]
fn request_without_the_feature_changes_nothing() {
    let mut io = Io::new();
    put(&mut io, b"key", &value(40));
    for methods in [Methods::new(), Methods::new().with_inline(true)] {
        io.enable(methods);
        for is_delegated in [false, true] {
            let read = read(&mut io, inline_read(b"key", LIMIT, BUFFER), is_delegated);
            assert_by_pointer(&read, &value(40));
        }
    }
}

#[test]
fn buffer_too_small_gets_the_first_bytes_behind_the_completion() {
    let mut io = device();
    put(&mut io, b"long", &value(1000));
    for is_delegated in [false, true] {
        let read = read(&mut io, inline_read(b"long", LIMIT, 20), is_delegated);
        assert_eq!((read.done.dw0, read.done.dw1), (1000, INLINE_RESULT));
        assert_eq!(read.behind.unwrap(), value(1000)[..20]);
    }
}

#[test]
fn failed_and_empty_reads_have_nothing_behind_them() {
    let mut io = device();
    put(&mut io, b"empty", b"");
    for is_delegated in [false, true] {
        let absent = read(&mut io, inline_read(b"absent", LIMIT, BUFFER), is_delegated);
        assert_eq!((absent.done.status().code(), absent.behind), (Status::KEY_DOES_NOT_EXIST, None));
        let empty = read(&mut io, inline_read(b"empty", LIMIT, BUFFER), is_delegated);
        assert_eq!((empty.done.dw0, empty.done.dw1, empty.behind), (0, 0, None));
    }
}

#[test]
fn reads_of_blocks_have_no_such_request() {
    let mut io = device();
    let mut command = blocks(NvmOpcode::READ, BLOCKS_512, 0, 1);
    io.point_prps(&mut command, DATA, 512);
    set_inline_result_max_bytes(&mut command, 225);
    let read = read(&mut io, command, false);
    assert_eq!(read.done.status().code(), Status::LBA_OUT_OF_RANGE);
    assert_eq!(read.behind, None);
}

#[test]
fn list_stands_behind_its_completion_with_its_length_in_dw0() {
    let mut io = device();
    for key in [&b"a"[..], b"bcd", b"efghijkl"] {
        put(&mut io, key, b"value");
    }
    let mut list = keyed(KvOpcode::LIST.0, b"", BUFFER);
    list.set_prps(DATA, 0);
    let by_pointer = read(&mut io, list, false);
    assert_eq!((by_pointer.done.dw0, by_pointer.done.dw1), (0, 0));
    set_inline_result_max_bytes(&mut list, LIMIT as u16);
    let inline = read(&mut io, list, false);
    assert_eq!((inline.done.dw0, inline.done.dw1), (4 + 4 + 8 + 12, INLINE_RESULT));
    assert_eq!(inline.behind.unwrap(), by_pointer.buffer[..28]);
}

#[test]
fn result_goes_on_at_the_start_of_the_ring_by_a_second_write() {
    let mut io = device();
    io.host.create_pair(2, 8);
    put(&mut io, b"key", &value(50));
    let mut wraps = 0;
    for round in 0..40 {
        let before = row(&io, Class::Completion).count;
        let head = io.host.head(2);
        io.host.submit(2, inline_read(b"key", LIMIT, BUFFER));
        io.host.ring(2);
        if round % 2 == 1 {
            io.host.run_delegated(2);
        }
        io.host.run();
        let done = io.host.peek(2).expect("a completion");
        assert_eq!(done.dw1, INLINE_RESULT, "round {round}");
        assert_eq!(io.host.peek_result(2, 50), value(50));
        io.host.ring_head(2);
        let is_wrapped = head + 1 + result_entries(50) as u32 > 8;
        wraps += u64::from(is_wrapped);
        assert_eq!(row(&io, Class::Completion).count - before, 1 + u64::from(is_wrapped), "round {round}");
    }
    assert!(wraps > 10);
}

#[test]
fn queue_with_fewer_entries_than_a_result_takes_it_by_pointer() {
    let mut io = device();
    io.host.create_pair(2, 4);
    put(&mut io, b"key", &value(46));
    for (len, is_inline) in [(46, false), (30, true), (31, false)] {
        io.host.submit(2, inline_read(b"key", LIMIT, len));
        io.host.ring(2);
        io.host.run();
        let done = io.host.peek(2).expect("a completion");
        assert_eq!(done.dw1 & INLINE_RESULT != 0, is_inline, "{len} bytes");
        if is_inline {
            io.host.peek_result(2, len);
        }
        io.host.ring_head(2);
    }
}

/// The host never says that it has taken a completion: results take what commands leave, and every command completes.
#[test]
fn host_that_keeps_its_head_loses_no_completion() {
    for is_delegated in [false, true] {
        let mut io = device();
        io.host.create_pair(2, 16);
        put(&mut io, b"key", &value(60));
        let cids: Vec<u16> = (0..15).map(|_| io.host.submit(2, inline_read(b"key", LIMIT, BUFFER))).collect();
        io.host.ring(2);
        if is_delegated {
            io.host.run_delegated(2);
        }
        io.host.run();
        let done: Vec<Completion> = std::iter::from_fn(|| io.host.peek(2)).collect();
        assert_eq!(done.iter().map(|done| done.cid).collect::<Vec<_>>(), cids);
        assert!(done.iter().all(|done| done.status().is_success() && done.dw1 == 0));
        assert_eq!(io.get(DATA, 60), value(60));
    }
}

#[test]
fn results_take_the_entries_that_announced_commands_leave() {
    let mut io = device();
    io.host.create_pair(2, 16);
    put(&mut io, b"key", &value(60));
    // Of 15 entries each command needs one, and each result takes four.
    (0..3).for_each(|_| _ = io.host.submit(2, inline_read(b"key", LIMIT, BUFFER)));
    io.host.ring(2);
    io.host.run();
    for _ in 0..3 {
        assert_eq!(io.host.peek(2).expect("a completion").dw1, INLINE_RESULT);
        assert_eq!(io.host.peek_result(2, 60), value(60));
    }
    // The head is not reported: now the queue is full.
    io.host.submit(2, inline_read(b"key", LIMIT, BUFFER));
    io.host.ring(2);
    io.host.run();
    assert!(io.host.peek(2).is_none());
    io.host.ring_head(2);
    io.host.run();
    assert_eq!(io.host.peek(2).expect("a completion").dw1, INLINE_RESULT);
}

#[test]
fn result_comes_with_its_completion_at_its_modelled_time() {
    let mut io = device();
    put(&mut io, b"key", &value(32));
    io.host.create_pair(2, 8);
    io.host.meter.set_timing(true);
    for _ in 0..9 {
        io.host.submit(2, inline_read(b"key", LIMIT, BUFFER));
        io.host.ring(2);
        let mut due_ps = Vec::new();
        while let byway_controller::Next::At(at_ps) = io.host.run() {
            assert!(io.host.peek(2).is_none(), "nothing before its time");
            due_ps.push(at_ps);
            io.host.now_ps = at_ps;
        }
        assert_eq!(due_ps.len(), 1, "one time for both");
        assert_eq!(io.host.peek(2).expect("a completion").dw1, INLINE_RESULT);
        assert_eq!(io.host.peek_result(2, 32), value(32));
        io.host.ring_head(2);
    }
}

#[test]
fn interrupt_follows_a_completion_with_its_result() {
    let mut io = device();
    put(&mut io, b"key", &value(32));
    io.host.take_interrupts();
    for is_delegated in [false, true] {
        read(&mut io, inline_read(b"key", LIMIT, BUFFER), is_delegated);
        assert_eq!(io.host.take_interrupts(), [QUEUE]);
    }
}

#[test]
fn heads_in_shadow_doorbells_free_the_entries_of_results() {
    let mut io = device();
    put(&mut io, b"key", &value(60));
    let (shadow, events) = (io.host.alloc(4096), io.host.alloc(4096));
    let mut configure = Command::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0, 0);
    configure.set_prps(shadow.0, events.0);
    assert!(io.host.admin(configure).status().is_success());
    io.host.create_pair(2, 16);
    let word = |io: &Io, index: DoorbellIndex, value: u32| {
        let at = shadow.0 - MEMORY_AT + u64::from(index.place()) * 4;
        io.host.memory.store_u32(at as usize, value).unwrap();
    };
    for round in 0..40 {
        io.host.submit(2, inline_read(b"key", LIMIT, BUFFER));
        let tail = io.host.tail(2);
        word(&io, DoorbellIndex::submission(2), tail);
        if round % 2 == 1 {
            io.host.run_delegated(2);
        }
        io.host.run();
        let done = io.host.peek(2).expect("a completion");
        assert_eq!(done.dw1, INLINE_RESULT, "round {round}");
        assert_eq!(io.host.peek_result(2, 60), value(60));
        let head = io.host.head(2);
        word(&io, DoorbellIndex::completion(2), head);
    }
}

#[test]
fn feature_and_limit_are_announced() {
    let mut io = Io::new();
    let page = io.host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    let area = &page[3072..];
    assert_eq!(u32::from_le_bytes(area[12..16].try_into().unwrap()) & 1 << 12, 1 << 12);
    let at = std::mem::offset_of!(VendorArea, inline_read_max_bytes);
    assert_eq!(u32::from_le_bytes(area[at..at + 4].try_into().unwrap()) as usize, LIMIT);
    let unknown = io.try_feature(FeatureId::METHODS, 0, 1 << 13);
    assert_eq!(unknown.status().code(), Status::INVALID_FIELD);
}

/// A host polls one completion after the other while the device runs in another thread: once it sees a completion, all of the result is
/// there.
#[test]
fn completion_is_seen_after_its_result_by_another_thread() {
    const ROUNDS: u32 = 300;
    let mut io = device();
    put(&mut io, b"key", &value(100));
    // Entries 1 + 7 divide the ring, so that results stand at the same places in every pass.
    let (entries, behind) = (64, 7);
    let cq = io.host.alloc(entries as usize * 16);
    assert!(io.host.create_cq(2, cq, entries, None).is_success());
    let sq = io.host.alloc(entries as usize * 64);
    assert!(io.host.create_sq(2, sq, entries, 2).is_success());
    let memory = Arc::clone(&io.host.memory);
    let at = (cq.0 - MEMORY_AT) as usize;
    let is_seen = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&is_seen);
    let watcher = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            let slot = (round * (1 + behind)) % entries;
            let phase = (round * (1 + behind) / entries).is_multiple_of(2);
            let entry = |distance: u32| memory.load_completion(at + (slot + distance) as usize * 16).unwrap();
            while Completion::from_bytes(&entry(0)).phase() != phase {
                std::thread::yield_now();
            }
            let result: Vec<u8> = (1..=behind)
                .flat_map(|distance| {
                    let entry = entry(distance);
                    assert_eq!(Completion::from_bytes(&entry).phase(), phase, "round {round}");
                    result_bytes(&entry).expect("a part of a result")
                })
                .collect();
            assert_eq!(result[..100], value(100), "round {round}");
            sees.store(true, Ordering::Release);
        }
    });
    for _ in 0..ROUNDS {
        io.host.submit(2, inline_read(b"key", LIMIT, BUFFER));
        io.host.ring(2);
        io.host.run();
        while !is_seen.swap(false, Ordering::AcqRel) && !watcher.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(io.host.peek(2).expect("a completion").dw1, INLINE_RESULT);
        io.host.peek_result(2, 100);
        io.host.ring_head(2);
    }
    watcher.join().unwrap();
}

/// A step of a host with two submission queues on one completion queue.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A get over a queue, of a value of so many bytes, with at most so many behind its completion.
    Get(u16, usize, u16),
    /// A command without a result.
    Flush(u16),
    /// Rings both tails and lets the device run.
    Run,
    /// Takes so many completions.
    Take(u32),
    /// Reports the head.
    Report,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (2u16..4, 1usize..300, 0u16..260).prop_map(|(qid, len, most)| Step::Get(qid, len, most)),
        1 => (2u16..4).prop_map(Step::Flush),
        3 => Just(Step::Run),
        3 => (0u32..4).prop_map(Step::Take),
        2 => Just(Step::Report),
    ];
    prop::collection::vec(step, 0..120)
}

/// What is outstanding, by command: the value that it reads, if it is a get, and where.
struct Outstanding {
    cid: u16,
    qid: u16,
    get: Option<(usize, u64)>,
    max_bytes: u16,
}

struct Shared {
    io: Io,
    entries: u32,
    outstanding: VecDeque<Outstanding>,
    /// Entries taken and not reported.
    unreported: u32,
    next_buffer: u64,
}

impl Shared {
    fn new(entries: u32) -> Self {
        let mut io = device();
        (1..300).for_each(|len| put(&mut io, &(len as u16).to_le_bytes(), &value(len)));
        let cq = io.host.alloc(entries as usize * 16);
        assert!(io.host.create_cq(2, cq, entries, None).is_success());
        for qid in [2, 3] {
            let sq = io.host.alloc(entries as usize * 64);
            assert!(io.host.create_sq(qid, sq, entries, 2).is_success());
        }
        Self { io, entries, outstanding: VecDeque::new(), unreported: 0, next_buffer: 0 }
    }

    /// A host that has no more commands outstanding than the queue has entries beside those that it did not report.
    fn has_room(&self) -> bool {
        self.outstanding.len() as u32 + self.unreported < self.entries - 1
    }

    fn submit(&mut self, qid: u16, get: Option<(usize, u16)>) {
        if !self.has_room() {
            return;
        }
        let at = DATA + (2 << 20) + self.next_buffer * 4096;
        self.next_buffer = (self.next_buffer + 1) % 64;
        let command = match get {
            None => Command::new(KvOpcode::FLUSH.0, 0, KV),
            Some((len, most)) => {
                let mut command = inline_read(&(len as u16).to_le_bytes(), most.into(), BUFFER);
                command.set_sgl1(SglDescriptor::data_block(at, BUFFER as u32));
                command
            }
        };
        self.io.put(at, &[UNTOUCHED; 300]);
        let cid = self.io.host.submit(qid, command);
        let max_bytes = get.map_or(0, |(_, most)| most);
        self.outstanding.push_back(Outstanding { cid, qid, get: get.map(|(len, _)| (len, at)), max_bytes });
    }

    fn run(&mut self) {
        [2, 3].into_iter().for_each(|qid| self.io.host.ring(qid));
        self.io.host.run();
    }

    /// Takes a completion, and checks what came with it.
    fn take(&mut self) -> bool {
        let Some(done) = self.io.host.peek(2) else { return false };
        let at = self.outstanding.iter().position(|one| (one.cid, one.qid) == (done.cid, done.sqid));
        let command = self.outstanding.remove(at.expect("its command is outstanding")).unwrap();
        assert!(done.status().is_success());
        self.unreported += 1;
        let Some((len, at)) = command.get else { return true };
        assert_eq!(done.dw0 as usize, len);
        match inline_result_bytes(&done, BUFFER as u32) {
            Some(bytes) => {
                assert!(bytes <= usize::from(command.max_bytes) && bytes <= LIMIT);
                assert_eq!(self.io.host.peek_result(2, bytes), value(len));
                self.unreported += result_entries(bytes) as u32;
                assert_eq!(self.io.get(at, 300), vec![UNTOUCHED; 300]);
            }
            None => assert_eq!(self.io.get(at, len), value(len)),
        }
        true
    }

    fn report(&mut self) {
        self.io.host.ring_head(2);
        self.unreported = 0;
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Get(qid, len, most) => self.submit(qid, Some((len, most))),
            Step::Flush(qid) => self.submit(qid, None),
            Step::Run => self.run(),
            Step::Take(count) => (0..count).for_each(|_| _ = self.take()),
            Step::Report => self.report(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_command_of_two_queues_completes_with_its_own_value(entries in 2u32..40, steps in steps()) {
        let mut host = Shared::new(entries);
        steps.into_iter().for_each(|step| host.step(step));
        // A host that takes what there is and reports its head gets everything.
        while !host.outstanding.is_empty() {
            let before = host.outstanding.len();
            host.report();
            host.run();
            while host.take() {}
            prop_assert!(host.outstanding.len() < before, "a command waits for ever");
        }
    }
}
