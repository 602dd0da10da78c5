//! Any 64 bytes as a command end in one completion, and the device goes on working.

use crate::io::{BLOCKS_512, DATA, Io, KV, blocks};
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use proptest::prelude::*;

/// Bytes that get further than noise does: an opcode that exists, a namespace that exists, an address that is mapped.
fn likely() -> impl Strategy<Value = Command> {
    let opcodes = prop::sample::select(vec![
        0x00u8, 0x01, 0x02, 0x05, 0x06, 0x08, 0x09, 0x0c, 0x10, 0x14, 0x19, 0x80, 0x84, 0x88, 0x8c, 0x90,
        0x94, 0xa1, 0xb1,
    ]);
    let address = prop_oneof![
        Just(DATA),
        (0u64..1 << 20).prop_map(|offset| DATA + offset),
        (0u64..256).prop_map(|page| DATA + page * 4096),
        any::<u64>(),
    ];
    let small = || prop_oneof![0u32..70, 0u32..20_000, any::<u32>()];
    (
        opcodes,
        0u32..5,
        0u8..4,
        (address.clone(), address),
        (small(), small(), small(), small()),
        any::<[u32; 4]>(),
    )
        .prop_map(|(opcode, nsid, psdt, (first, second), (c10, c11, c12, c13), rest)| {
            let mut command = Command::new(opcode, 0, nsid);
            let bits = command.cdw0.into_bits() | u32::from(psdt) << 14;
            command.cdw0 = bits.into();
            command.dptr = [first, second];
            (command.cdw10, command.cdw11, command.cdw12, command.cdw13) = (c10, c11, c12, c13);
            [command.cdw2, command.cdw3, command.cdw14, command.cdw15] = rest;
            command
        })
}

fn noise() -> impl Strategy<Value = Command> {
    any::<[[u8; 32]; 2]>().prop_map(|halves| {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&halves[0]);
        bytes[32..].copy_from_slice(&halves[1]);
        Command::from_bytes(&bytes)
    })
}

fn still_works(io: &mut Io) {
    io.put(DATA, &[0x5a; 512]);
    let mut write = blocks(NvmOpcode::WRITE, BLOCKS_512, 7, 1);
    io.point_prps(&mut write, DATA, 512);
    assert_eq!(io.run(write).status().code(), Status::SUCCESS);
    let mut store = Command::new(0x01, 0, KV);
    store.set_key(b"after");
    (store.cdw10, store.cdw11) = (512, 5);
    io.point_prps(&mut store, DATA, 512);
    assert_eq!(io.run(store).status().code(), Status::SUCCESS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_commands_end_in_a_completion_each(
        commands in prop::collection::vec(prop_oneof![likely(), noise()], 1..60),
        methods in any::<bool>(),
        lists in prop::collection::vec(any::<u8>(), 0..4096),
    ) {
        let mut io = Io::new();
        if methods {
            io.enable_methods();
        }
        io.put(DATA, &lists);
        for mut command in commands {
            // An inline payload of which the chunks are missing makes the queue wait, as it should.
            if methods && command.cdw0.psdt().is_sgl() && command.sgl1().kind.0 == 1 {
                command.dptr[1] = 0;
            }
            io.run(command);
        }
        still_works(&mut io);
    }
}
