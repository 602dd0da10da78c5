//! Outputs of Exec behind their completions (decision 0095): of programs that end at once, and of those that go on.

use std::collections::VecDeque;

use byway_controller::{Next, ProgramsProgress};
use byway_dma::BusAddr;
use byway_spec::base::feature::FeatureId;
use byway_spec::vendor::{
    INLINE_RESULT, Methods, inline_result_bytes, result_entries, set_inline_result_max_bytes,
};
use proptest::prelude::*;

use super::lasting::{self, CHUNK_BYTES, pattern, step};
use super::*;
use crate::inline_read_costs::{Answer, Ring, answered, cost_of};

/// Longest output behind its completion on a link with packets of 256 bytes.
const LIMIT: usize = 225;

/// Bytes of each buffer.
const BUFFER: usize = 4096;

fn enable(host: &mut TestHost, methods: Methods) {
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
    (command.cdw10, command.cdw11) = (u32::from(FeatureId::METHODS.0), methods.into_bits());
    assert!(host.admin(command).status().is_success());
}

/// A device without a thread for programs, whose programs end at once, or one with a thread. Inline reads are enabled.
fn device(has_thread: bool) -> TestHost {
    let mut host = if has_thread { lasting::running(&COPY) } else { running(&COPY) };
    enable(&mut host, Methods::new().with_inline_read(true));
    host
}

/// An Exec whose output is the value of a key, of which at most so many bytes may stand behind the completion.
fn copy_of(key: &[u8], at: BusAddr, output_max_bytes: usize, max_bytes: usize) -> Command {
    let mut command = exec_command(OPERATION, &request(key, b"input"), output_max_bytes as u32);
    set_inline_result_max_bytes(&mut command, max_bytes as u16);
    command.set_prps(at.0, 0);
    command
}

fn fill(host: &TestHost, key: &[u8], at: BusAddr) {
    host.write(at, &[UNTOUCHED; BUFFER]);
    host.write(at, &request(key, b"input"));
}

/// A completion, the output behind it if one stands there, and what the buffer holds.
struct Read {
    done: Completion,
    behind: Option<Vec<u8>>,
    buffer: Vec<u8>,
}

fn exec(host: &mut TestHost, key: &[u8], output_max_bytes: usize, max_bytes: usize) -> Read {
    let at = host.alloc(BUFFER);
    fill(host, key, at);
    host.submit(1, copy_of(key, at, output_max_bytes, max_bytes));
    host.ring(1);
    host.run();
    while step(host) == ProgramsProgress::Running {}
    let done = host.peek(1).expect("a completion");
    let bytes = inline_result_bytes(&done, output_max_bytes as u32);
    let behind = bytes.map(|bytes| host.peek_result(1, bytes));
    assert!(host.peek(1).is_none(), "nothing follows");
    host.ring_head(1);
    Read { done, behind, buffer: host.read(at, BUFFER) }
}

/// The output went to the buffer.
#[track_caller]
fn assert_in_buffer(read: &Read, output: &[u8]) {
    assert!(read.done.status().is_success(), "{}", read.done.status());
    assert_eq!((read.done.dw1, read.behind.as_deref()), (0, None));
    assert_eq!(&read.buffer[..output.len()], output);
}

#[test]
fn output_stands_behind_its_completion_and_the_request_stays_in_the_buffer() {
    for has_thread in [false, true] {
        let mut host = device(has_thread);
        for len in (1..=50).chain([104, 105, 106, 210, LIMIT]) {
            let value = pattern(len, len);
            store(&mut host, b"key", &value);
            let read = exec(&mut host, b"key", BUFFER, LIMIT);
            assert_eq!((read.done.dw0 as usize, read.done.dw1), (len, INLINE_RESULT));
            assert_eq!(read.behind.unwrap(), value, "{len} bytes");
            let request = request(b"key", b"input");
            assert_eq!(read.buffer[..request.len()], request);
            assert!(read.buffer[request.len()..].iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}

#[test]
fn first_bytes_of_a_long_output_stand_there_where_its_host_takes_no_more() {
    for (has_thread, len) in [(false, 1000), (true, 1000), (true, CHUNK_BYTES + 10)] {
        let mut host = device(has_thread);
        let value = pattern(len, 3);
        store(&mut host, b"key", &value);
        let read = exec(&mut host, b"key", 20, LIMIT);
        assert_eq!((read.done.dw0 as usize, read.done.dw1), (len, INLINE_RESULT));
        assert_eq!(read.behind.unwrap(), value[..20]);
    }
}

#[test]
fn output_goes_to_the_buffer_without_a_request_or_beyond_the_limits() {
    for has_thread in [false, true] {
        let mut host = device(has_thread);
        let value = pattern(LIMIT + 1, 1);
        store(&mut host, b"long", &value);
        store(&mut host, b"short", &value[..40]);
        assert_in_buffer(&exec(&mut host, b"long", BUFFER, u16::MAX.into()), &value);
        assert_in_buffer(&exec(&mut host, b"short", BUFFER, 39), &value[..40]);
        assert_in_buffer(&exec(&mut host, b"short", BUFFER, 0), &value[..40]);
        assert_in_buffer(&exec(&mut host, b"long", LIMIT + 1, LIMIT), &value);
        enable(&mut host, Methods::new().with_inline(true));
        assert_in_buffer(&exec(&mut host, b"short", BUFFER, LIMIT), &value[..40]);
    }
}

#[test]
fn refused_exec_and_empty_output_have_nothing_behind_them() {
    for has_thread in [false, true] {
        let mut host = device(has_thread);
        store(&mut host, b"empty", b"");
        let absent = exec(&mut host, b"absent", BUFFER, LIMIT);
        assert_eq!((absent.done.status().code(), absent.behind), (Status::KEY_DOES_NOT_EXIST, None));
        let empty = exec(&mut host, b"empty", BUFFER, LIMIT);
        assert_eq!((empty.done.dw0, empty.done.dw1, empty.behind), (0, 0, None));
        let none_taken = exec(&mut host, b"key", 0, LIMIT);
        assert_eq!((none_taken.done.dw0, none_taken.done.dw1, none_taken.behind), (5, 0, None));
    }
}

/// The entries that later commands need are free when a program ends that goes on beside them: its output takes what they leave.
#[test]
fn output_of_a_program_that_went_on_takes_the_entries_that_are_free_when_it_ends() {
    for (others, is_behind) in [(0, true), (10, true), (11, false), (14, false)] {
        let mut host = device(true);
        host.create_pair(3, 16);
        let value = pattern(CHUNK_BYTES + 1, 5);
        store(&mut host, b"long", &value);
        let at = host.alloc(BUFFER);
        fill(&host, b"long", at);
        let cid = host.submit(3, copy_of(b"long", at, 60, LIMIT));
        // Of 15 entries each command needs one, and the output takes four. The host does not say that it has taken any.
        (0..others).for_each(|_| _ = host.submit(3, Command::new(KvOpcode::FLUSH.0, 0, KV)));
        host.ring(3);
        host.run();
        (0..others).for_each(|_| assert!(host.peek(3).expect("a flush").status().is_success()));
        while step(&mut host) == ProgramsProgress::Running {}
        let done = host.peek(3).expect("the command of the program");
        assert_eq!((done.cid, done.dw0 as usize), (cid, value.len()));
        assert_eq!(done.dw1 & INLINE_RESULT != 0, is_behind, "{others} others");
        let output = if is_behind { host.peek_result(3, 60) } else { host.read(at, 60) };
        assert_eq!(output, value[..60]);
    }
}

/// The head that a host has written since the device last looked counts.
#[test]
fn head_written_while_a_program_went_on_makes_room_for_its_output() {
    let mut host = device(true);
    host.create_pair(3, 8);
    let value = pattern(CHUNK_BYTES + 1, 5);
    store(&mut host, b"long", &value);
    let at = host.alloc(BUFFER);
    fill(&host, b"long", at);
    host.submit(3, copy_of(b"long", at, 60, LIMIT));
    (0..6).for_each(|_| _ = host.submit(3, Command::new(KvOpcode::FLUSH.0, 0, KV)));
    host.ring(3);
    host.run();
    (0..6).for_each(|_| assert!(host.peek(3).is_some()));
    while host.subsystem.advance_programs() == ProgramsProgress::Running {}
    host.ring_head(3);
    host.advance();
    assert_eq!(host.peek(3).expect("the command of the program").dw1, INLINE_RESULT);
    assert_eq!(host.peek_result(3, 60), value[..60]);
}

#[test]
fn output_comes_with_its_completion_at_its_modelled_time() {
    // A program of many steps takes a thread.
    for (has_thread, len) in [(false, 60), (true, 60), (true, CHUNK_BYTES + 1)] {
        let mut host = device(has_thread);
        let value = pattern(len, 5);
        store(&mut host, b"long", &value);
        host.meter.set_timing(true);
        let at = host.alloc(BUFFER);
        fill(&host, b"long", at);
        host.submit(1, copy_of(b"long", at, 60, LIMIT));
        host.ring(1);
        host.run();
        while step(&mut host) == ProgramsProgress::Running {}
        assert!(host.peek(1).is_none(), "nothing before its time");
        let Next::At(at_ps) = host.next else { panic!("{:?}", host.next) };
        host.now_ps = at_ps;
        host.run();
        let done = host.peek(1).expect("a completion");
        assert_eq!((done.status(), done.dw1), (Status::SUCCESS, INLINE_RESULT));
        assert_eq!(host.peek_result(1, 60), value[..60]);
    }
}

/// Completion and output cost as those of a get, whenever the program ends.
#[test]
fn output_costs_the_entries_that_it_fills_at_every_length() {
    for has_thread in [false, true] {
        let mut host = device(has_thread);
        host.create_pair(3, 256);
        let mut ring = Ring::new(256);
        let at = host.alloc(BUFFER);
        for (len, max_bytes) in (0..=LIMIT + 5).flat_map(|len| [(len, LIMIT), (len, 0)]) {
            store(&mut host, b"key", &pattern(len, len));
            fill(&host, b"key", at);
            let before = *host.meter.ledger();
            host.submit(3, copy_of(b"key", at, BUFFER, max_bytes));
            host.ring(3);
            host.run();
            while step(&mut host) == ProgramsProgress::Running {}
            let spent = host.meter.ledger().since(&before);
            let answer = ring.answer(len, max_bytes, 1);
            let done = host.peek(3).expect("a completion");
            let behind = inline_result_bytes(&done, BUFFER as u32);
            assert_eq!(behind.is_some(), answer != Answer::ByPointer, "{len} of {max_bytes}");
            behind.into_iter().for_each(|bytes| _ = host.peek_result(3, bytes));
            assert_eq!(answered(&spent), cost_of(&answer, len), "{len} of {max_bytes}");
            host.ring_head(3);
            ring.used = 0;
        }
    }
}

/// A step of a host, or of the device's thread for programs.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// An Exec over a value of so many bytes, of which its host takes so many, and so many behind the completion.
    Exec(usize, usize, u16),
    Flush,
    /// Rings the tail and lets the device run.
    Run,
    /// Programs go on for one hold of the run lock.
    Advance,
    /// Takes so many completions.
    Take(u32),
    /// Reports the head.
    Report,
}

/// Lengths of values: some whose programs end at once, and some whose programs go on.
const LENS: [usize; 6] = [1, 15, 100, 225, 300, 3000];

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let len = prop::sample::select(&LENS[..]);
    let taken = prop_oneof![0usize..260, Just(BUFFER)];
    let one = prop_oneof![
        5 => (len, taken, 0u16..260).prop_map(|(len, taken, most)| Move::Exec(len, taken, most)),
        1 => Just(Move::Flush),
        3 => Just(Move::Run),
        3 => Just(Move::Advance),
        3 => (0u32..4).prop_map(Move::Take),
        2 => Just(Move::Report),
    ];
    prop::collection::vec(one, 0..100)
}

/// A command under way: what it reads, if it is an Exec, and where its buffer is.
struct Pending {
    cid: u16,
    exec: Option<(usize, usize, u16, BusAddr)>,
}

/// A host with one queue, whose commands have a buffer each.
struct Host {
    test: TestHost,
    entries: u32,
    pending: VecDeque<Pending>,
    /// Entries taken and not reported.
    unreported: u32,
    free: Vec<BusAddr>,
}

impl Host {
    fn new(entries: u32) -> Self {
        let mut test = device(true);
        test.create_pair(3, entries);
        LENS.iter().for_each(|len| store(&mut test, &len.to_le_bytes(), &pattern(*len, 7)));
        let free = (1..entries).map(|_| test.alloc(BUFFER)).collect();
        Self { test, entries, pending: VecDeque::new(), unreported: 0, free }
    }

    fn submit(&mut self, exec: Option<(usize, usize, u16)>) {
        if self.pending.len() as u32 + self.unreported >= self.entries - 1 {
            return;
        }
        let (command, exec) = match exec {
            None => (Command::new(KvOpcode::FLUSH.0, 0, KV), None),
            Some((len, taken, most)) => {
                let at = self.free.pop().expect("a buffer for each command");
                fill(&self.test, &len.to_le_bytes(), at);
                let command = copy_of(&len.to_le_bytes(), at, taken, most.into());
                (command, Some((len, taken, most, at)))
            }
        };
        let cid = self.test.submit(3, command);
        self.pending.push_back(Pending { cid, exec });
    }

    fn run(&mut self) {
        self.test.ring(3);
        self.test.run();
    }

    /// Takes a completion, and checks what came with it.
    fn take(&mut self) -> bool {
        let Some(done) = self.test.peek(3) else { return false };
        let at = self.pending.iter().position(|one| one.cid == done.cid).expect("its command is under way");
        let Pending { exec, .. } = self.pending.remove(at).unwrap();
        assert!(done.status().is_success(), "{}", done.status());
        self.unreported += 1;
        let Some((len, taken, most, at)) = exec else { return true };
        self.free.push(at);
        let output = pattern(len, 7)[..len.min(taken)].to_vec();
        assert_eq!(done.dw0 as usize, len);
        match inline_result_bytes(&done, taken as u32) {
            Some(bytes) => {
                assert!(bytes <= usize::from(most) && bytes <= LIMIT);
                assert_eq!(self.test.peek_result(3, bytes), output);
                self.unreported += result_entries(bytes) as u32;
            }
            None => assert_eq!(self.test.read(at, output.len()), output),
        }
        true
    }

    fn report(&mut self) {
        self.test.ring_head(3);
        self.unreported = 0;
    }

    fn make(&mut self, one: Move) {
        match one {
            Move::Exec(len, taken, most) => self.submit(Some((len, taken, most))),
            Move::Flush => self.submit(None),
            Move::Run => self.run(),
            Move::Advance => _ = step(&mut self.test),
            Move::Take(count) => (0..count).for_each(|_| _ = self.take()),
            Move::Report => self.report(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_exec_completes_with_its_own_output(entries in 2u32..40, moves in moves()) {
        let mut host = Host::new(entries);
        moves.into_iter().for_each(|one| host.make(one));
        // A host that takes what there is and reports its head gets everything.
        while !host.pending.is_empty() {
            let before = host.pending.len();
            host.report();
            host.run();
            while step(&mut host.test) == ProgramsProgress::Running {}
            while host.take() {}
            prop_assert!(host.pending.len() < before, "a command waits for ever");
        }
    }
}
