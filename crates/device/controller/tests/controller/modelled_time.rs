//! What modelled time commands take: link and flash one after the other where one needs what the other brings.

use crate::common::{TestHost, kv, nvm};
use crate::io::{BLOCKS_4096, DATA, Io, KV, QUEUE, blocks, keyed};
use byway_controller::{
    CmbRegisters, CommandError, Controller, ControllerId, Identity, Next, QueryEngine, QueryId, QueryLimits,
    QueryProgress, QueryRequest, QueryState, Subsystem, SubsystemOptions,
};
use byway_flash::{Flash, FlashOptions, MediaKind};
use byway_kv::{KvOptions, Packing};
use byway_link::Profile;
use byway_spec::Command;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::{QueryCdw11, VendorOpcode};

/// More than the open pages of a key-value namespace hold, so that most of it is on flash.
const LONG: usize = 512 << 10;
/// Less than the page buffer holds.
const SHORT: usize = 64 << 10;

/// Runs one command from a device at rest on; its modelled picoseconds.
fn time_of(io: &mut Io, command: Command) -> u64 {
    let host: &mut TestHost = &mut io.host;
    host.now_ps += 1_000_000_000_000;
    let begun_ps = host.now_ps;
    host.submit(QUEUE, command);
    host.ring(QUEUE);
    host.run();
    let Next::At(due_ps) = host.next else { panic!("no completion is due") };
    host.now_ps = due_ps;
    host.run();
    assert!(host.reap(QUEUE).unwrap().status().is_success());
    due_ps - begun_ps
}

fn on_key(io: &Io, opcode: KvOpcode, len: usize) -> Command {
    let mut command = keyed(opcode.0, b"key", len);
    io.point_prps(&mut command, DATA, len);
    command
}

fn on_blocks(io: &Io, opcode: NvmOpcode, len: usize) -> Command {
    let mut command = blocks(opcode, BLOCKS_4096, 0, len / 4096);
    io.point_prps(&mut command, DATA, len);
    command
}

/// Commands that write and read back, by key and by block.
fn pairs(io: &Io, len: usize) -> [[Command; 2]; 2] {
    [
        [on_key(io, KvOpcode::STORE, len), on_key(io, KvOpcode::RETRIEVE, len)],
        [on_blocks(io, NvmOpcode::WRITE, len), on_blocks(io, NvmOpcode::READ, len)],
    ]
}

fn timed() -> Io {
    let mut io = Io::of_profile("cosmos");
    io.host.meter.set_timing(true);
    io
}

#[test]
fn read_data_is_sent_after_the_flash_read() {
    let mut io = timed();
    for [write, read] in pairs(&io, LONG) {
        time_of(&mut io, write);
        io.host.subsystem.flash_mut().set_timing(false);
        let link_ps = time_of(&mut io, read);
        io.host.subsystem.flash_mut().set_timing(true);
        let all_ps = time_of(&mut io, read);
        let flash_ps = io.host.subsystem.flash().profile().read_ns * 1000;
        assert!(all_ps >= link_ps + flash_ps, "{all_ps} ps, {link_ps} of it on the link");
    }
}

#[test]
fn a_query_s_read_of_a_value_takes_the_time_of_flash() {
    let mut io = timed();
    let [store, retrieve] = [KvOpcode::STORE, KvOpcode::RETRIEVE].map(|opcode| on_key(&io, opcode, LONG));
    time_of(&mut io, store);
    let retrieve_ps = time_of(&mut io, retrieve);
    let begun_ps = io.host.now_ps + 1_000_000_000_000;
    let (mut at_ps, mut into) = (begun_ps, vec![0; LONG]);
    let key = byway_spec::Key::new(b"key").unwrap();
    io.host.subsystem.read_value_of(KV, &key, None, 0, &mut into, &mut at_ps).unwrap();
    let flash_ps = io.host.subsystem.flash().profile().read_ns * 1000;
    assert!((flash_ps..=retrieve_ps).contains(&(at_ps - begun_ps)), "{} ps", at_ps - begun_ps);
}

/// Answers a query at once, with an empty result at a modelled time.
struct AnswersAt {
    at_ps: u64,
    ready: Option<QueryId>,
}

impl QueryEngine for AnswersAt {
    fn limits(&self) -> QueryLimits {
        QueryLimits { text_bytes: 100, queries: 1 }
    }

    fn begin(&mut self, id: QueryId, _: QueryRequest) -> Result<(), CommandError> {
        self.ready = Some(id);
        Ok(())
    }

    fn progress(&self, _: QueryId) -> QueryProgress {
        QueryProgress { ready_bytes: 0, state: QueryState::Ended, at_ps: self.at_ps }
    }

    fn peek(&self, _: QueryId, _: usize) -> Vec<u8> {
        Vec::new()
    }

    fn take(&mut self, _: QueryId, _: usize) {}

    fn cancel(&mut self, _: QueryId) {}

    fn mark_ready(&mut self, id: QueryId) {
        self.ready = Some(id);
    }

    fn next_ready(&mut self) -> Option<QueryId> {
        self.ready.take()
    }
}

/// Has a query answered whose reads end at modelled time `at_ps`; when its completion is due.
fn answer_at(io: &mut Io, at_ps: u64) -> u64 {
    io.host.subsystem.set_query_engine(Box::new(AnswersAt { at_ps, ready: None }));
    let mut query = keyed(VendorOpcode::QUERY.0, b"key", 8);
    query.cdw11 = QueryCdw11::new().with_key_len(3).into_bits();
    io.put(DATA, b"SELECT 1");
    io.point_prps(&mut query, DATA, 8);
    io.host.submit(QUEUE, query);
    io.host.ring(QUEUE);
    io.host.run();
    let Next::At(due_ps) = io.host.advance() else { panic!("no completion is due") };
    due_ps
}

#[test]
fn a_query_is_completed_no_earlier_than_its_reads_have_ended() {
    let mut io = timed();
    let store = on_key(&io, KvOpcode::STORE, SHORT);
    time_of(&mut io, store);
    let at_ps = io.host.now_ps + 1_000_000_000_000;
    let due_ps = answer_at(&mut io, at_ps);
    assert!(due_ps > at_ps, "{due_ps} ps");
    io.host.now_ps = due_ps;
    io.host.run();
    assert!(io.host.reap(QUEUE).unwrap().status().is_success());
}

#[test]
fn reads_of_a_query_that_end_late_delay_no_other_command() {
    let mut io = timed();
    let [store, write] = [on_key(&io, KvOpcode::STORE, SHORT), on_blocks(&io, NvmOpcode::WRITE, SHORT)];
    time_of(&mut io, store);
    let alone_ps = time_of(&mut io, write);
    let at_ps = io.host.now_ps + 10_000_000_000_000;
    answer_at(&mut io, at_ps);
    assert_eq!(time_of(&mut io, write), alone_ps);
}

#[test]
fn a_value_that_was_stored_anew_is_another_version() {
    let mut io = timed();
    let store = on_key(&io, KvOpcode::STORE, SHORT);
    let key = byway_spec::Key::new(b"key").unwrap();
    let mut versions = Vec::new();
    for _ in 0..2 {
        time_of(&mut io, store);
        for _ in 0..2 {
            versions.push(io.host.subsystem.read_value_of(KV, &key, None, 0, &mut [], &mut 0).unwrap());
        }
    }
    assert!(versions[0] == versions[1] && versions[1] != versions[2] && versions[2] == versions[3]);
}

#[test]
fn a_write_waits_for_the_link_and_not_for_programs_while_there_is_room() {
    let mut io = timed();
    for [write, _] in pairs(&io, SHORT) {
        let with_flash_ps = time_of(&mut io, write);
        io.host.subsystem.flash_mut().set_timing(false);
        assert_eq!(with_flash_ps, time_of(&mut io, write));
        io.host.subsystem.flash_mut().set_timing(true);
    }
}

#[test]
fn writes_faster_than_flash_wait_for_a_place_in_its_buffer() {
    let mut io = timed();
    let write = on_blocks(&io, NvmOpcode::WRITE, SHORT);
    let alone_ps = time_of(&mut io, write);
    let mut times = Vec::new();
    for _ in 0..64 {
        let begun_ps = io.host.now_ps;
        io.host.submit(QUEUE, write);
        io.host.ring(QUEUE);
        io.host.run();
        let Next::At(due_ps) = io.host.next else { panic!("no completion is due") };
        io.host.now_ps = due_ps;
        io.host.run();
        assert!(io.host.reap(QUEUE).unwrap().status().is_success());
        times.push(due_ps - begun_ps);
    }
    assert!(times.iter().max().unwrap() > &(2 * alone_ps), "{alone_ps} ps alone, then {times:?}");
}

/// A device that packs by `packing`.
fn packing_by(packing: Packing) -> Io {
    let profile = Profile::by_name("cosmos").unwrap();
    let specs = [nvm(1 << 20, 512), nvm(1 << 20, 4096), kv(64 << 20)];
    let flash = Flash::create(FlashOptions::new(66 << 20, profile.flash, MediaKind::Ram), &specs).unwrap();
    let options = SubsystemOptions::default().kv(KvOptions::default().packing(packing));
    let identity = Identity { nqn: String::new(), serial: String::new(), model: String::new() };
    let mut host = TestHost::disabled("cosmos", 8 << 20, MediaKind::Ram, &[]);
    host.subsystem = Subsystem::new(identity, profile, flash, options).unwrap();
    host.controller = Controller::new(ControllerId(0), &mut host.subsystem, CmbRegisters::default());
    host.enable();
    let mut io = Io::over(host);
    io.host.meter.set_timing(true);
    io
}

#[test]
fn packing_everything_pays_for_the_copy_of_what_came_by_dma() {
    let [all_ps, selective_ps] = [Packing::All, Packing::Selective].map(|packing| {
        let mut io = packing_by(packing);
        let store = on_key(&io, KvOpcode::STORE, 4096);
        time_of(&mut io, store)
    });
    let copy_ps = Profile::by_name("cosmos").unwrap().firmware.copy_line_ps * 64;
    assert_eq!(all_ps, selective_ps + copy_ps);
}
