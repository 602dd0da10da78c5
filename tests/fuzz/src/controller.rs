//! Anything a host can do to a controller: any 64 bytes as a command, any register write, any doorbell value, any
//! lists in memory, memory that goes away, resets, all in any order.
//!
//! The device may refuse and may declare itself broken. It may not panic, hang, touch memory it was not given, or
//! be out of order after a reset.

use byway_queue::DoorbellIndex;
use byway_spec::Command;
use byway_spec::base::register::{Cc, NSSR_MAGIC, Register};
use byway_spec::base::sgl::{SglDescriptor, SglKind};

use crate::input::Input;
use crate::machine::{DATA, ENTRIES, MEMORY_AT, MEMORY_BYTES, Machine, PAIRS, READ_ONLY_AT};

/// Things done in one input, at most.
const ACTIONS_MAX: usize = 300;

const ADMIN_OPCODES: [u8; 19] = [
    0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x10, 0x11, 0x14, 0x15, 0x18, 0x7c,
    0x80, 0x84,
];

const IO_OPCODES: [u8; 22] = [
    0x00, 0x01, 0x02, 0x05, 0x06, 0x08, 0x09, 0x0c, 0x0d, 0x10, 0x14, 0x19, 0x80, 0x84, 0x88, 0x8c, 0x90,
    0x94, 0xa1, 0xb1, 0xb2, 0xb3,
];

const REGISTERS: [Register; 10] = [
    Register::CC,
    Register::CSTS,
    Register::AQA,
    Register::ASQ,
    Register::ACQ,
    Register::NSSR,
    Register::INTMS,
    Register::INTMC,
    Register::CMBMSC,
    Register::CAP,
];

/// Drives a controller by `bytes`.
pub fn controller(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let start = input.byte();
    let mut machine = Machine::new(if start & 0x10 == 0 { "gen4x4" } else { "cosmos" });
    if start & 1 == 0 {
        machine.enable();
    }
    if start & 3 == 0 {
        (1..=PAIRS).for_each(|qid| machine.create_pair(qid, ENTRIES));
    }
    if start & 7 == 0 {
        machine.enable_methods();
    }
    machine.meter.set_timing(start & 8 != 0);
    for _ in 0..ACTIONS_MAX {
        if input.is_empty() {
            break;
        }
        act(&mut machine, &mut input);
    }
    machine.run_on();
    machine.check_bounds();
    machine.check_usable();
}

/// One thing that a host does.
pub fn act(machine: &mut Machine, input: &mut Input<'_>) {
    match input.byte() % 24 {
        0 => write_register(machine, input),
        1 => ring(machine, input),
        2 => raw_command(machine, input),
        3..=6 => likely_command(machine, input, false),
        7..=9 => likely_command(machine, input, true),
        10 | 11 => machine.ring(queue(input)),
        12 | 13 => machine.run_on(),
        14 => _ = machine.run_once(u32::from(input.byte() % 4)),
        15 => write_memory(machine, input),
        16 => put_prp_list(machine, input),
        17 => put_sgl_segment(machine, input),
        18 => _ = machine.reap(queue(input)),
        19 => capsule(machine, input),
        20 => machine.now_ps = machine.now_ps.saturating_add(u64::from(input.dword()) << 10),
        21 => machine.meter.set_timing(input.byte() & 1 == 1),
        22 => machine.map_memory(!input.byte().is_multiple_of(4)),
        _ => start_again(machine, input),
    }
}

fn queue(input: &mut Input<'_>) -> u16 {
    u16::from(input.byte()) % (PAIRS + 1)
}

fn start_again(machine: &mut Machine, input: &mut Input<'_>) {
    machine.map_memory(true);
    machine.enable();
    let pairs = queue(input);
    (1..=pairs).for_each(|qid| machine.create_pair(qid, ENTRIES));
    if input.byte() & 1 == 1 {
        machine.enable_methods();
    }
}

fn write_register(machine: &mut Machine, input: &mut Input<'_>) {
    let offset = match input.byte() {
        known @ 0..=199 => REGISTERS[usize::from(known) % REGISTERS.len()].0 + u32::from(known / 100) * 4,
        _ => input.dword() & !3,
    };
    let enable = Cc::new().with_css(Cc::CSS_IO_SETS).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
    let value = match input.byte() % 6 {
        0 => enable.with_en(true).into_bits(),
        1 => enable.with_en(true).with_shn(Cc::SHN_NORMAL).into_bits(),
        2 => NSSR_MAGIC,
        3 => address(input) as u32,
        4 => (address(input) >> 32) as u32,
        _ => input.dword(),
    };
    machine.write_register(offset, value);
}

fn ring(machine: &mut Machine, input: &mut Input<'_>) {
    let place = match input.byte() {
        low @ 0..=15 => u32::from(low) % 8,
        _ => u32::from(input.word()),
    };
    let value = input.number();
    if let Some(index) = DoorbellIndex::at(place) {
        machine.doorbells.ring(index, value);
    }
}

fn raw_command(machine: &mut Machine, input: &mut Input<'_>) {
    let qid = queue(input);
    machine.push(qid, &input.array());
}

/// A command that gets further than noise does: its opcode, namespace and addresses are likely to be there.
fn likely_command(machine: &mut Machine, input: &mut Input<'_>, admin: bool) {
    let qid = if admin { 0 } else { 1 + u16::from(input.byte()) % PAIRS };
    let opcode = input.one_of(if admin { &ADMIN_OPCODES[..] } else { &IO_OPCODES[..] });
    let nsid = input.one_of(&[1, 1, 1, 2, 2, 2, 0, 3, 64, u32::MAX]);
    let mut command = Command::new(opcode, 0, nsid);
    let shape = input.byte();
    if shape & 3 == 1 {
        command.set_sgl1(descriptor(input));
    } else {
        let bits = command.cdw0.into_bits() | u32::from(shape & 3) << 14;
        command.cdw0 = bits.into();
        command.set_prps(address(input), address(input));
    }
    command.cdw10 = input.number();
    command.cdw11 = input.number();
    if shape & 4 != 0 {
        [command.cdw2, command.cdw3] = [input.number(), input.number()];
    }
    if shape & 8 != 0 {
        (command.cdw12, command.cdw13) = (input.number(), input.number());
    }
    if shape & 16 != 0 {
        (command.cdw14, command.cdw15) = (input.number(), input.number());
    }
    if shape & 32 != 0 {
        command.cdw0 = (command.cdw0.into_bits() | u32::from(input.byte() & 3) << 8).into();
    }
    machine.submit(qid, command);
    if shape & 64 == 0 {
        machine.ring(qid);
    }
    if shape & 128 == 0 {
        machine.run();
    }
}

/// A command with an inline payload, and as many chunks as it says, fewer or more.
fn capsule(machine: &mut Machine, input: &mut Input<'_>) {
    let qid = queue(input);
    let said_bytes = input.number();
    let mut command = Command::new(0x01, 0, input.one_of(&[1, 1, 2, 0]));
    command.set_sgl1(SglDescriptor::inline(said_bytes));
    (command.cdw10, command.cdw11) = (if input.byte() & 1 == 0 { said_bytes } else { input.number() }, 4);
    machine.submit(qid, command);
    for _ in 0..input.byte() % 40 {
        let slot = if input.byte() & 1 == 0 { command.to_bytes() } else { input.array() };
        machine.push(qid, &slot);
    }
    machine.ring(qid);
}

/// An address: in the data, in the rings, over an edge, of memory that may only be read, or any at all.
fn address(input: &mut Input<'_>) -> u64 {
    match input.byte() % 8 {
        0..=2 => DATA + u64::from(input.byte()) * 4096 % (MEMORY_BYTES as u64 - (DATA - MEMORY_AT)),
        3 => DATA + u64::from(input.word()),
        4 => MEMORY_AT + u64::from(input.word()) * 8,
        5 => MEMORY_AT + MEMORY_BYTES as u64 - u64::from(input.word() % 8192),
        6 => READ_ONLY_AT + u64::from(input.word() % 4096),
        _ => input.qword(),
    }
}

fn descriptor(input: &mut Input<'_>) -> SglDescriptor {
    let kind = match input.byte() {
        known @ 0..=239 => SglKind((known % 6) << 4 | u8::from(known % 16 == 15)),
        _ => SglKind(input.byte()),
    };
    SglDescriptor::new(kind, address(input), input.number())
}

fn write_memory(machine: &mut Machine, input: &mut Input<'_>) {
    let at = address(input);
    let len = usize::from(input.byte());
    machine.write(at, input.bytes(len));
}

fn put_prp_list(machine: &mut Machine, input: &mut Input<'_>) {
    let mut at = DATA + u64::from(input.word()) * 8;
    for _ in 0..=input.byte() % 32 {
        machine.write(at, &address(input).to_le_bytes());
        at += 8;
    }
}

fn put_sgl_segment(machine: &mut Machine, input: &mut Input<'_>) {
    let mut at = DATA + u64::from(input.word()) * 8;
    for _ in 0..=input.byte() % 32 {
        machine.write(at, &descriptor(input).to_bytes());
        at += 16;
    }
}
