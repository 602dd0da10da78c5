//! Programs over one object.

use std::sync::Arc;

use byway_programs::{BuiltIn, Fault, OUTPUT_MAX_BYTES, ObjectRun, Program};

use crate::assembler::{EXIT, copy, load as load_word, set, slot};
use crate::load;

/// Runs a program over an object, `quantum` steps at a time, of whose output the host takes 8 bytes.
fn run_by(program: Program, object: &[u8], input: &[u8], quantum: u64) -> Result<Vec<u8>, Fault> {
    let mut run = ObjectRun::new(Arc::new(program), object.to_vec(), input.to_vec(), 8, 1 << 22)?;
    loop {
        if let Some(output) = run.advance_while(quantum, || true)? {
            return Ok(output.to_vec());
        }
    }
}

fn run(program: Program, object: &[u8], input: &[u8]) -> Result<Vec<u8>, Fault> {
    run_by(program, object, input, 1 << 14)
}

fn ebpf(instructions: &[[u8; 8]]) -> Program {
    load(&instructions.concat()).unwrap()
}

/// `*(u8 *)(to + offset) = source`, and `to = *(u8 *)(base + offset)`.
const fn store_byte(to: u8, offset: i16, source: u8) -> [u8; 8] {
    slot(0x73, to, source, offset, 0)
}
const fn load_byte(to: u8, base: u8, offset: i16) -> [u8; 8] {
    slot(0x71, to, base, offset, 0)
}

/// `output[0] = object[1]; output[1] = input[0]; return 2`.
const MIX: [[u8; 8]; 9] = [
    load_word(6, 1, 0),
    load_byte(7, 6, 1),
    load_word(6, 1, 32),
    store_byte(6, 0, 7),
    load_word(8, 1, 16),
    load_byte(7, 8, 0),
    store_byte(6, 1, 7),
    set(0, 2),
    EXIT,
];

#[test]
fn loaded_program_sees_object_input_and_room_for_its_output() {
    // The lengths of the three ranges, their number, and what the host takes.
    let program = ebpf(&[
        load_word(6, 1, 32),
        load_word(7, 1, 8),
        store_byte(6, 0, 7),
        load_word(7, 1, 24),
        store_byte(6, 1, 7),
        load_word(7, 1, 40),
        slot(0x77, 7, 0, 0, 16),
        store_byte(6, 2, 7),
        store_byte(6, 3, 2),
        store_byte(6, 4, 3),
        store_byte(6, 5, 4),
        set(0, 6),
        EXIT,
    ]);
    assert_eq!(run(program, b"object", b"input!!"), Ok(vec![6, 7, (OUTPUT_MAX_BYTES >> 16) as u8, 3, 8, 0]));
}

#[test]
fn output_is_made_of_object_and_input() {
    for quantum in [1, 3, 1000] {
        assert_eq!(run_by(ebpf(&MIX), b"abc", b"xyz", quantum), Ok(b"bx".to_vec()), "{quantum}");
    }
    let no_input = run(ebpf(&MIX), b"abc", b"");
    assert!(matches!(no_input, Err(Fault::Access { .. })), "{no_input:?}");
}

#[test]
fn output_over_its_room_is_a_fault() {
    let full = ebpf(&[set(0, OUTPUT_MAX_BYTES as i32), EXIT]);
    assert_eq!(run(full, b"", b"").unwrap().len(), OUTPUT_MAX_BYTES);
    for returned in [OUTPUT_MAX_BYTES as i32 + 1, -1] {
        assert_eq!(run(ebpf(&[set(0, returned), EXIT]), b"", b""), Err(Fault::ResultTooLarge));
    }
    assert_eq!(run(ebpf(&[copy(0, 4), EXIT]), b"object", b"input"), Ok(vec![]), "the second parameter is 0");
}

#[test]
fn loop_over_an_object_is_stopped() {
    assert_eq!(run(ebpf(&[slot(0x05, 0, 0, -1, 0), EXIT]), b"", b""), Err(Fault::Limit));
}

#[test]
fn program_of_the_device_takes_its_parameters_from_the_input() {
    // CRC-32C of "123456789" and CRC-64/NVME of the same, of the catalogue of parametrised CRC algorithms.
    let crc = |built_in| run(Program::built_in(built_in), b"123456789", b"");
    assert_eq!(crc(BuiltIn::Crc32c), Ok(0xe306_9283_u64.to_le_bytes().to_vec()));
    assert_eq!(crc(BuiltIn::Crc64), Ok(0xae8b_1486_0a79_9888_u64.to_le_bytes().to_vec()));
    // Records of 4 bytes whose unsigned number in bytes 2 and 3 is over 5; the sum of such numbers.
    let records = b"k \x05\0l \x09\0m \x07\0";
    let field: u64 = 4 << 56 | 2 << 48 | 2 << 32 | 4;
    let parameters = [field.to_le_bytes(), 5_u64.to_le_bytes()].concat();
    assert_eq!(
        run(Program::built_in(BuiltIn::Filter), records, &parameters),
        Ok(b"l \x09\0m \x07\0".to_vec())
    );
    let numbers: Vec<u8> = [40_u64, 2].iter().flat_map(|number| number.to_le_bytes()).collect();
    let parameters = [(8_u64 << 48 | 8).to_le_bytes(), [0; 8]].concat();
    let sum = run(Program::built_in(BuiltIn::Aggregate), &numbers, &parameters);
    assert_eq!(sum, Ok(42_u64.to_le_bytes().to_vec()));
}

#[test]
fn program_of_the_device_decompresses_an_object() {
    let packed = snap::raw::Encoder::new().compress_vec(&[7; 5000]).unwrap();
    let parameters = [1_u64.to_le_bytes(), [0; 8]].concat();
    assert_eq!(run(Program::built_in(BuiltIn::Decompress), &packed, &parameters), Ok(vec![7; 5000]));
}

#[test]
fn input_that_is_no_two_parameters_is_a_fault() {
    for input in [&[0; 1][..], &[0; 15], &[0; 17]] {
        let result = run(Program::built_in(BuiltIn::Crc32c), b"object", input);
        assert!(matches!(result, Err(Fault::Parameter(_))), "{result:?}");
    }
    // Records of no bytes.
    let result = run(Program::built_in(BuiltIn::Filter), b"object", b"");
    assert!(matches!(result, Err(Fault::Parameter(_))), "{result:?}");
}
