//! Any bytes as an admin command: a completion or a fatal state as the specification says, never a panic or a hang.

use crate::common::{MEMORY_AT, TestHost, kv, nvm};
use byway_queue::DoorbellIndex;
use byway_spec::Command;
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::register::Register;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn host() -> TestHost {
    TestHost::new(32 * MIB, &[nvm(4 * MIB, 512), kv(8 * MIB)])
}

/// Every admin opcode that does something, more often than the others.
fn opcode() -> impl Strategy<Value = u8> {
    let known =
        vec![0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x15, 0x18, 0x7c, 0x80];
    prop_oneof![4 => prop::sample::select(known), 1 => any::<u8>()]
}

/// A dword as hosts send them: small fields, all ones, or anything.
fn dword() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 0u32..260,
        2 => (0u32..4, 0u32..132).prop_map(|(high, low)| high << 16 | low),
        1 => Just(u32::MAX),
        1 => any::<u32>(),
    ]
}

/// A pointer into the test memory, on a page or not, or anywhere.
fn pointer() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => (0u64..64).prop_map(|page| MEMORY_AT + (4 << 20) + page * 4096),
        1 => (0u64..1 << 18).prop_map(|at| MEMORY_AT + (4 << 20) + at),
        1 => any::<u64>(),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let dwords = prop::array::uniform6(dword());
    (opcode(), dword(), prop::array::uniform2(pointer()), dwords, prop::bool::weighted(0.05)).prop_map(
        |(opcode, nsid, prps, dwords, sgl)| {
            let mut command = Command::new(opcode, 0, nsid);
            command.dptr = prps;
            [command.cdw10, command.cdw11, command.cdw12, command.cdw13, command.cdw14, command.cdw15] =
                dwords;
            if sgl {
                command.cdw0.set_psdt(byway_spec::DataPointer::Sgl);
            }
            command
        },
    )
}

/// Puts the commands in, a few at a time, and takes whatever completes.
fn drive(host: &mut TestHost, commands: &[[u8; 64]]) {
    for batch in commands.chunks(8) {
        if host.csts().cfs() {
            host.reset();
            host.enable();
        }
        for slot in batch {
            host.push(0, slot);
        }
        host.ring(0);
        host.run();
        while host.reap(0).is_some() {}
        // I/O queues that were created fetch the random bytes of their memory.
        for qid in 1..4 {
            host.ring_raw(DoorbellIndex::submission(qid), 1 + u32::from(batch[0][0] & 3));
        }
        host.run();
    }
}

fn assert_usable(host: &mut TestHost) {
    host.reset();
    host.enable();
    assert!(host.identify(Cns::CONTROLLER, 0, Csi::NVM).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_64_bytes_are_answered(slots in prop::collection::vec(prop::array::uniform32(any::<[u8; 2]>()), 1..24)) {
        let mut host = host();
        let slots: Vec<[u8; 64]> = slots.iter().map(|slot| slot.as_flattened().try_into().unwrap()).collect();
        drive(&mut host, &slots);
        assert_usable(&mut host);
    }

    #[test]
    fn likely_commands_with_any_fields_are_answered(commands in prop::collection::vec(command(), 1..48)) {
        let mut host = host();
        let slots: Vec<[u8; 64]> = commands.iter().map(Command::to_bytes).collect();
        drive(&mut host, &slots);
        assert_usable(&mut host);
    }

    #[test]
    fn any_register_and_doorbell_writes_are_survived(
        writes in prop::collection::vec((0u32..0x80, any::<u32>(), 0u32..300, any::<u32>()), 1..40),
    ) {
        let mut host = host();
        for (offset, value, doorbell, tail) in writes {
            host.write_register(Register(offset & !3), value);
            host.ring_raw(DoorbellIndex::at(doorbell).unwrap(), tail);
            host.run();
        }
        assert_usable(&mut host);
    }
}
