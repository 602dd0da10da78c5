//! Programs of random instructions: what the verifier accepts neither panics, nor leaves its ranges, nor runs past its limit.

use byway_kit::cases;
use byway_programs::{Memory, Program, RangeLimits, Ranges, Refusal, Unsound};
use byway_spec::programs::MemoryRangeDescriptor;
use proptest::prelude::*;

use crate::assembler::{EXIT, copy, slot};
use crate::{load, memory, run_by};

/// Opcodes that are sound, most of them with any fields.
fn opcode() -> impl Strategy<Value = u8> {
    let arithmetic = (0_u8..14, 0_u8..2, prop::sample::select(vec![4_u8, 7]));
    let arithmetic = arithmetic.prop_map(|(operation, source, class)| operation << 4 | source << 3 | class);
    let jump = (0_u8..14, 0_u8..2, prop::sample::select(vec![5_u8, 6]));
    let jump = jump.prop_map(|(operation, source, class)| operation << 4 | source << 3 | class);
    let access = (0_u8..4, 1_u8..4, prop::sample::select(vec![0x60_u8, 0x80]));
    let access = access.prop_map(|(size, class, mode)| mode | size << 3 | class);
    prop_oneof![4 => arithmetic, 2 => jump, 4 => access, 1 => any::<u8>()]
}

/// One instruction that is mostly sound: unused fields are zero where the operation has none.
fn instruction() -> impl Strategy<Value = [u8; 8]> {
    let numbers = prop_oneof![-4_i32..64, any::<i32>()];
    (opcode(), 0_u8..11, 0_u8..11, -6_i16..7, numbers).prop_map(|(opcode, to, source, offset, immediate)| {
        let is_jump = matches!(opcode & 7, 5 | 6);
        let is_access = matches!(opcode & 7, 1..=3);
        let has_register = opcode & 8 != 0;
        match (is_jump, is_access, has_register) {
            (_, true, _) if opcode & 7 == 2 => slot(opcode, to, 0, offset, immediate),
            (_, true, _) => slot(opcode, to, source, offset, 0),
            (true, _, true) => slot(opcode, to, source, offset, 0),
            (true, ..) => slot(opcode, to, 0, offset, immediate),
            (_, _, true) => slot(opcode, to, source, 0, 0),
            _ => slot(opcode, to, 0, 0, immediate),
        }
    })
}

/// A program of these instructions, and `EXIT`. Each instruction that is refused is replaced by `r0 = r0`, and so counts as sound
/// alone what the verifier accepts.
fn accepted(slots: &[[u8; 8]]) -> Option<Vec<[u8; 8]>> {
    // r5 = ranges[0].base, so that some accesses hit.
    let mut slots = [&[slot(0x79, 5, 1, 0, 0)], slots, &[EXIT]].concat();
    for _ in 0..=2 * slots.len() {
        let unsound = match load(slots.as_flattened()) {
            Ok(_) => return Some(slots),
            Err(Refusal::InvalidProgram(unsound)) => unsound,
            Err(_) => return None,
        };
        let index = index_of(unsound)?;
        let first = index.saturating_sub(usize::from(slots[index - 1][0] == 0x18));
        slots[first..=index].fill(copy(0, 0));
    }
    None
}

/// The instruction that was refused.
fn index_of(unsound: Unsound) -> Option<usize> {
    match unsound {
        Unsound::Operation(index)
        | Unsound::Register(index)
        | Unsound::Reserved(index)
        | Unsound::Immediate(index)
        | Unsound::Target(index)
        | Unsound::Helper(index)
        | Unsound::End(index) => Some(index),
        _ => None,
    }
}

fn loaded(slots: &[[u8; 8]]) -> Program {
    load(slots.as_flattened()).unwrap()
}

/// Bytes around two ranges: 8, a range of 16, 8, a range of 24, 8.
const SIZE_BYTES: usize = 64;

fn outside(memory: &Memory) -> Vec<u8> {
    let mut bytes = [0; SIZE_BYTES];
    memory.read(0, &mut bytes).unwrap();
    [&bytes[..8], &bytes[24..32], &bytes[56..]].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2000)))]

    #[test]
    fn a_program_that_is_accepted_stays_within_its_ranges_and_its_limit(
        slots in prop::collection::vec(instruction(), 1..24),
        parameters in any::<[u64; 2]>(),
        quantum in 1_u64..50,
    ) {
        let Some(slots) = accepted(&slots) else { return Ok(()) };
        let (mut memory, _) = memory(&[0xa5; SIZE_BYTES], &[]);
        let descriptor = |start, length_bytes| MemoryRangeDescriptor { nsid: 1, length_bytes, start, ..Default::default() };
        let descriptors = [descriptor(8, 16), descriptor(32, 24)];
        let ranges = Ranges::check(&descriptors, &RangeLimits::default(), |_| Some(SIZE_BYTES as u64)).unwrap();
        let _ = run_by(loaded(&slots), (&mut memory, &ranges), parameters, (quantum, 2000));
        prop_assert_eq!(outside(&memory), vec![0xa5; 24]);
    }

    #[test]
    fn a_run_does_not_depend_on_how_it_is_cut(
        slots in prop::collection::vec(instruction(), 1..24),
        parameters in any::<[u64; 2]>(),
        quantum in 1_u64..50,
    ) {
        let Some(slots) = accepted(&slots) else { return Ok(()) };
        let results = [quantum, 2000].map(|quantum| {
            let (mut memory, ranges) = memory(&[1; 32], &[16, 16]);
            let result = run_by(loaded(&slots), (&mut memory, &ranges), parameters, (quantum, 2000));
            let mut bytes = [0; 32];
            memory.read(0, &mut bytes).unwrap();
            (result, bytes)
        });
        prop_assert_eq!(results[0], results[1]);
    }

    #[test]
    fn any_bytes_are_refused_or_run(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(program) = load(&bytes) {
            let (mut memory, ranges) = memory(&[1; 32], &[16, 16]);
            let _ = run_by(program, (&mut memory, &ranges), [0; 2], (100, 2000));
        }
    }
}
