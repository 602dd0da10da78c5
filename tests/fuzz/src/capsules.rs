//! Inline payloads with wrong lengths, compared with a model that knows where each command begins.
//!
//! Payload slots look like commands: if one were executed, its identifier would show.

use byway_controller::Next;
use byway_queue::DoorbellIndex;
use byway_spec::base::sgl::SglDescriptor;
use byway_spec::{Command, Status};

use crate::input::Input;
use crate::machine::{ENTRIES, KV, Machine, NVM};

const QUEUE: u16 = 1;
const OTHER: u16 = 2;
/// Slots one input fills, at most; the ring goes round several times.
const SLOTS_MAX: usize = 400;

/// The ring's content, by the rules of the protocol.
#[derive(Debug, Default)]
struct Model {
    /// Slots filled and not yet consumed.
    slots: std::collections::VecDeque<[u8; 64]>,
    /// Identifier and, where the model knows it, status of each command that completes.
    expected: std::collections::VecDeque<(u16, Option<Status>)>,
    broken: bool,
}

impl Model {
    /// Consumes the complete capsules in the ring.
    fn consume(&mut self, limit_bytes: usize) {
        while let Some(slot) = self.slots.front().copied().filter(|_| !self.broken) {
            let command = Command::from_bytes(&slot);
            let inline = (command.cdw0.psdt().is_sgl() && command.sgl1().kind.0 == 1)
                .then_some(command.sgl1().length_bytes as usize);
            let chunks = inline.map_or(0, |bytes| bytes.div_ceil(64));
            if inline.is_some_and(|bytes| bytes > limit_bytes) || chunks + 2 > usize::from(ENTRIES) {
                self.broken = true;
            } else if chunks < self.slots.len() {
                self.slots.drain(..=chunks);
                self.expected.push_back((command.cid(), expected_status(&command, inline)));
            } else {
                return;
            }
        }
    }
}

/// Commands of this target are stores under a good key, or flushes.
fn expected_status(command: &Command, inline: Option<usize>) -> Option<Status> {
    match (command.opcode(), inline) {
        (0x01, Some(bytes)) if command.nsid == KV && command.cdw11 == 4 => {
            let as_said = bytes == command.cdw10 as usize;
            Some(if as_said { Status::SUCCESS } else { Status::DATA_SGL_LENGTH_INVALID })
        }
        (0x00, _) => Some(Status::SUCCESS),
        _ => None,
    }
}

/// Fills a ring with capsules by `bytes`.
pub fn capsules(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut machine = Machine::new(if input.byte() & 1 == 0 { "gen4x4" } else { "cosmos" });
    let limit_bytes = machine.subsystem.profile().limits.inline_max_bytes as usize;
    machine.enable();
    (1..=2).for_each(|qid| machine.create_pair(qid, ENTRIES));
    machine.enable_methods();
    while machine.reap(0).is_some() {}
    let mut model = Model::default();
    let mut filled = 0;
    while !input.is_empty() && filled < SLOTS_MAX {
        let free = usize::from(ENTRIES) - 1 - model.slots.len();
        let mut slots = capsule(&mut input, filled as u16);
        slots.truncate(free);
        filled += slots.len().max(1);
        for slot in slots {
            machine.push(QUEUE, &slot);
            model.slots.push_back(slot);
        }
        // One doorbell for all slots, or for some at a time: the tail may be inside a capsule.
        machine.ring(QUEUE);
        if !input.byte().is_multiple_of(4) {
            check(&mut machine, &mut model, limit_bytes);
        }
        if model.broken {
            break;
        }
    }
    check(&mut machine, &mut model, limit_bytes);
    machine.check_bounds();
    machine.check_usable();
}

/// A command, the length it says, and chunks: as many as that, or not.
fn capsule(input: &mut Input<'_>, number: u16) -> Vec<[u8; 64]> {
    let said_bytes = match input.byte() {
        few @ 0..=199 => u32::from(few) * 5,
        200..=249 => u32::from(input.word()) % 4000,
        _ => input.number(),
    };
    let shape = input.byte();
    let mut command = Command::new(0x01, number, if shape & 0x40 == 0 { KV } else { NVM });
    command.set_key(&number.to_le_bytes().repeat(2));
    command.cdw11 = 4;
    command.cdw10 = if shape & 7 == 7 { said_bytes ^ 1 } else { said_bytes };
    command.set_sgl1(SglDescriptor::inline(said_bytes));
    let chunks = match shape >> 3 & 7 {
        0 => said_bytes.div_ceil(64).saturating_sub(1),
        1 => said_bytes.div_ceil(64) + 1,
        2 => u32::from(input.byte()),
        _ => said_bytes.div_ceil(64),
    };
    let chunk = if shape & 0x80 == 0 { Command::new(0x00, 0x8000 | number, NVM) } else { command };
    let mut slots = vec![command.to_bytes()];
    slots.resize(1 + chunks.min(u32::from(ENTRIES)) as usize, chunk.to_bytes());
    slots
}

/// The commands that complete are those of the model, and another queue still works unless the controller has failed.
/// The order may differ: a Flush completes after its sync, and later commands need not wait for it.
fn check(machine: &mut Machine, model: &mut Model, limit_bytes: usize) {
    assert_eq!(machine.run(), Next::Idle);
    model.consume(limit_bytes);
    while let Some(entry) = machine.reap(QUEUE) {
        let at = model.expected.iter().position(|(cid, _)| *cid == entry.cid);
        let (_, status) = at.and_then(|at| model.expected.remove(at)).unwrap_or_else(|| {
            panic!("command {} completed: the boundary between commands and payloads moved", entry.cid)
        });
        if let Some(status) = status {
            assert!(entry.status().is(status), "{} is not {status}", entry.status());
        }
        machine.run();
    }
    assert_eq!(model.expected, [], "commands without a completion");
    assert_eq!(machine.csts().cfs(), model.broken);
    if !model.broken {
        let cid = machine.submit(OTHER, Command::new(0x00, 0, NVM));
        machine
            .doorbells
            .ring(DoorbellIndex::submission(OTHER), u32::from(machine.rings[usize::from(OTHER)].tail));
        machine.run();
        assert_eq!(machine.reap(OTHER).map(|entry| entry.cid), Some(cid), "a queue that waits holds another");
    }
}
