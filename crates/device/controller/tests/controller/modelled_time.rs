//! What modelled time commands take: link and flash one after the other where one needs what the other brings.

use crate::common::{TestHost, kv, nvm};
use crate::io::{BLOCKS_4096, DATA, Io, QUEUE, blocks, keyed};
use byway_controller::{CmbRegisters, Controller, ControllerId, Identity, Next, Subsystem, SubsystemOptions};
use byway_flash::{Flash, FlashOptions, MediaKind};
use byway_kv::{KvOptions, Packing};
use byway_link::Profile;
use byway_spec::Command;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;

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
