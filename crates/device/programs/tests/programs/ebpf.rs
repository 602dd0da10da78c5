//! eBPF: what instructions do, what is refused, what stops a run.

use byway_programs::{CALL_DEPTH_MAX, Fault, INSTRUCTIONS_MAX, Refusal, Unsound};

use crate::assembler::{EXIT, copy, load as load_number, set, slot};
use crate::{load, memory, run_by};

/// Address of the first range.
const FIRST: u64 = 16 << 32;

fn refused(slots: &[[u8; 8]]) -> Unsound {
    match load(slots.as_flattened()) {
        Err(Refusal::InvalidProgram(unsound)) => unsound,
        other => panic!("{other:?}"),
    }
}

/// Runs a program over two ranges of 16 and 9 bytes, at most 10,000 instructions.
fn run(slots: &[[u8; 8]], parameters: [u64; 2]) -> Result<u64, Fault> {
    let (mut memory, ranges) = memory(b"0123456789abcdefABCDEFGHI", &[16, 9]);
    run_by(load(slots.as_flattened()).unwrap(), (&mut memory, &ranges), parameters, (7, 10_000))
}

/// `left OPCODE right`, with both in registers.
fn compute(opcode: u8, offset: i16, left: u64, right: u64) -> u64 {
    run(&[copy(0, 3), slot(opcode, 0, 4, offset, 0), EXIT], [left, right]).unwrap()
}

/// Whether a jump by `opcode` is taken.
fn jumps(opcode: u8, left: u64, right: u64) -> bool {
    run(&[set(0, 1), slot(opcode, 3, 4, 1, 0), set(0, 0), EXIT], [left, right]).unwrap() == 1
}

const MINUS_TEN: u64 = -10_i64 as u64;

#[test]
fn arithmetic_is_that_of_the_standard() {
    let cases = [
        (0x0f, 0, u64::MAX, 2, 1),
        (0x0c, 0, u64::MAX, 2, 1),
        (0x1f, 0, 1, 2, u64::MAX),
        (0x1c, 0, 1, 2, 0xffff_ffff),
        (0x2f, 0, 1 << 63, 3, 1 << 63),
        (0x3f, 0, 10, 3, 3),
        (0x3f, 0, 10, 0, 0),
        (0x3c, 0, 10, 1 << 32, 0),
        (0x3f, 1, MINUS_TEN, 3, -3_i64 as u64),
        (0x3f, 1, i64::MIN as u64, u64::MAX, i64::MIN as u64),
        (0x3c, 1, i32::MIN as u64, u64::MAX, 0x8000_0000),
        (0x9f, 0, 10, 3, 1),
        (0x9f, 0, 10, 0, 10),
        (0x9c, 0, 0xf_0000_000a, 0, 10),
        (0x9f, 1, MINUS_TEN, 3, u64::MAX),
        (0x9f, 1, i64::MIN as u64, u64::MAX, 0),
        (0x4f, 0, 0b1100, 0b1010, 0b1110),
        (0x5f, 0, 0b1100, 0b1010, 0b1000),
        (0xaf, 0, 0b1100, 0b1010, 0b0110),
        (0x6f, 0, 1, 65, 2),
        (0x6c, 0, 1, 33, 2),
        (0x7f, 0, MINUS_TEN, 63, 1),
        (0xcf, 0, MINUS_TEN, 1, -5_i64 as u64),
        (0xcc, 0, MINUS_TEN, 1, 0xffff_fffb),
        (0xbf, 8, 0, 0x80, -128_i64 as u64),
        (0xbc, 16, 0, 0x8000, 0xffff_8000),
        (0xbf, 32, 0, 0x8000_0000, i32::MIN as i64 as u64),
        (0xbc, 0, 0, MINUS_TEN, 0xffff_fff6),
    ];
    for (opcode, offset, left, right, result) in cases {
        assert_eq!(compute(opcode, offset, left, right), result, "{opcode:#x} {offset} {left:#x} {right:#x}");
    }
}

#[test]
fn immediates_are_extended_by_their_sign() {
    assert_eq!(run(&[set(0, -1), EXIT], [0; 2]), Ok(u64::MAX));
    assert_eq!(run(&[slot(0xb4, 0, 0, 0, -1), EXIT], [0; 2]), Ok(0xffff_ffff));
    let wide = [slot(0x18, 0, 0, 0, -2), slot(0, 0, 0, 0, 1), EXIT];
    assert_eq!(run(&wide, [0; 2]), Ok(0x1_ffff_fffe));
}

#[test]
fn bytes_are_reversed_and_negated() {
    let of = |opcode, immediate| {
        run(&[copy(0, 3), slot(opcode, 0, 0, 0, immediate), EXIT], [0x0123_4567_89ab_cdef, 0])
    };
    assert_eq!(of(0xdc, 16), Ok(0xefcd));
    assert_eq!(of(0xdc, 64), Ok(0xefcd_ab89_6745_2301));
    assert_eq!(of(0xd7, 32), Ok(0xefcd_ab89));
    assert_eq!(of(0xd4, 32), Ok(0x89ab_cdef));
    assert_eq!(of(0x87, 0), Ok(0x0123_4567_89ab_cdef_u64.wrapping_neg()));
    assert_eq!(of(0x84, 0), Ok(0x7654_3211));
}

#[test]
fn comparisons_have_the_sign_and_the_width_of_their_operation() {
    let minus_one = u64::MAX;
    assert!(jumps(0x1d, 3, 3) && !jumps(0x1d, 3, 4));
    assert!(jumps(0x2d, minus_one, 3) && !jumps(0x6d, minus_one, 3));
    assert!(jumps(0x3d, 3, 3) && jumps(0x7d, 3, minus_one));
    assert!(jumps(0x4d, 6, 2) && !jumps(0x4d, 4, 2));
    assert!(jumps(0x5d, 1, 2) && jumps(0xad, 1, 2) && jumps(0xbd, 2, 2));
    assert!(jumps(0xcd, minus_one, 2) && jumps(0xdd, minus_one, 2));
    assert!(jumps(0x1e, 1 << 32, 0) && !jumps(0x1d, 1 << 32, 0));
    assert!(jumps(0xce, 0xffff_ffff, 0) && !jumps(0xcd, 0xffff_ffff, 0));
}

#[test]
fn a_program_sees_its_ranges_and_its_parameters() {
    assert_eq!(run(&[copy(0, 2), EXIT], [0; 2]), Ok(2));
    assert_eq!(run(&[copy(0, 3), slot(0x0f, 0, 4, 0, 0), EXIT], [30, 12]), Ok(42));
    assert_eq!(run(&[load_number(0, 1, 0), EXIT], [0; 2]), Ok(FIRST));
    assert_eq!(run(&[load_number(0, 1, 24), EXIT], [0; 2]), Ok(9));
    // The second range's second byte: r1 = ranges[1].base; r0 = *(u8 *)(r1 + 1).
    assert_eq!(run(&[load_number(1, 1, 16), slot(0x71, 0, 1, 1, 0), EXIT], [0; 2]), Ok(u64::from(b'B')));
}

#[test]
fn loads_and_stores_have_every_width_and_need_no_alignment() {
    let through = |store: u8, load: u8| {
        // r1 = ranges[0].base; *(r1 + 1) = r3; r0 = *(r1 + 1)
        let slots = [load_number(1, 1, 0), slot(store, 1, 3, 1, 0), slot(load, 0, 1, 1, 0), EXIT];
        run(&slots, [0x8182_8384_8586_8788, 0]).unwrap()
    };
    assert_eq!(through(0x7b, 0x79), 0x8182_8384_8586_8788);
    assert_eq!(through(0x63, 0x61), 0x8586_8788);
    assert_eq!(through(0x6b, 0x69), 0x8788);
    assert_eq!(through(0x73, 0x71), 0x88);
    assert_eq!(through(0x7b, 0x81), 0xffff_ffff_8586_8788);
    assert_eq!(through(0x7b, 0x89), 0xffff_ffff_ffff_8788);
    assert_eq!(through(0x7b, 0x91), 0xffff_ffff_ffff_ff88);
    let constant = [load_number(1, 1, 0), slot(0x7a, 1, 0, 8, -2), load_number(0, 1, 8), EXIT];
    assert_eq!(run(&constant, [0; 2]), Ok(-2_i64 as u64));
}

#[test]
fn an_access_outside_the_ranges_stops_the_program() {
    let byte_at = |address: u64| run(&[slot(0x71, 0, 3, 0, 0), EXIT], [address, 0]);
    assert_eq!(byte_at(FIRST + 15), Ok(u64::from(b'f')));
    for address in [0, 4096, FIRST - 1, FIRST + 16, FIRST + (1 << 32) + 9, FIRST + (2 << 32), u64::MAX] {
        assert_eq!(byte_at(address), Err(Fault::Access { address, bytes: 1 }));
    }
    let word_at = |address: u64| run(&[slot(0x79, 0, 3, 0, 0), EXIT], [address, 0]);
    assert_eq!(word_at(FIRST + 9), Err(Fault::Access { address: FIRST + 9, bytes: 8 }));
    let to_table = run(&[slot(0x72, 1, 0, 0, 1), EXIT], [0; 2]);
    assert!(matches!(to_table, Err(Fault::Access { bytes: 1, .. })));
}

#[test]
fn the_stack_has_512_bytes_a_function() {
    let at = |offset: i16| run(&[slot(0x7a, 10, 0, offset, 7), load_number(0, 10, offset), EXIT], [0; 2]);
    assert_eq!((at(-8), at(-512)), (Ok(7), Ok(7)));
    assert!(at(-513).is_err() && at(-7).is_err());
}

#[test]
fn a_function_keeps_the_registers_of_its_caller_and_has_a_stack_of_its_own() {
    let slots = [
        set(6, 5),
        slot(0x7a, 10, 0, -8, 11),
        slot(0x85, 0, 1, 0, 3), // call the function at 6
        load_number(1, 10, -8),
        slot(0x0f, 0, 1, 0, 0),
        slot(0x05, 0, 0, 3, 0), // to 9
        set(6, 100),
        load_number(0, 10, -8), // a fresh stack: 0
        EXIT,
        slot(0x0f, 0, 6, 0, 0),
        EXIT,
    ];
    assert_eq!(run(&slots, [0; 2]), Ok(16));
}

#[test]
fn functions_that_call_each_other_too_deep_are_stopped() {
    // while (r3-- > 0) call itself
    let slots = [slot(0x15, 3, 0, 2, 0), slot(0x07, 3, 0, 0, -1), slot(0x85, 0, 1, 0, -3), EXIT];
    assert_eq!(run(&slots, [CALL_DEPTH_MAX as u64 - 1, 0]), Ok(0));
    assert_eq!(run(&slots, [CALL_DEPTH_MAX as u64, 0]), Err(Fault::Depth));
}

#[test]
fn a_program_that_loops_is_stopped_at_its_limit() {
    assert_eq!(run(&[slot(0x05, 0, 0, -1, 0)], [0; 2]), Err(Fault::Limit));
    assert_eq!(run(&[slot(0x06, 0, 0, 0, -1)], [0; 2]), Err(Fault::Limit));
}

#[test]
fn a_limit_of_as_many_steps_as_it_makes_lets_a_program_end() {
    let by = |steps| {
        let (mut memory, ranges) = memory(&[], &[]);
        run_by(load([set(0, 1), EXIT].as_flattened()).unwrap(), (&mut memory, &ranges), [0; 2], (1, steps))
    };
    assert_eq!((by(1), by(2)), (Err(Fault::Limit), Ok(1)));
}

#[test]
fn the_checksum_helper_reads_ranges_alone() {
    // r1 = ranges[0].base; r2 = first; r3 = 0; call 1
    let slots = [load_number(1, 1, 0), copy(2, 3), set(3, 0), slot(0x85, 0, 0, 0, 1), EXIT];
    assert_eq!(run(&slots, [9, 0]), Ok(byway_sys::checksum::crc32c(b"012345678").into()));
    assert_eq!(run(&slots, [17, 0]), Err(Fault::Access { address: FIRST, bytes: 17 }));
    assert_eq!(run(&slots, [u64::MAX, 0]), Err(Fault::Access { address: FIRST, bytes: u64::MAX }));
}

#[test]
fn the_checksum_helper_takes_steps_by_its_bytes_however_a_run_is_cut() {
    // r1 = ranges[0].base; r2 = 320; call 1, which takes 11 steps; exit
    let slots = [load_number(1, 1, 0), slot(0xb7, 2, 0, 0, 320), slot(0x85, 0, 0, 0, 1), EXIT];
    let by = |quantum, steps| {
        let (mut memory, ranges) = memory(&[], &[320]);
        run_by(load(slots.as_flattened()).unwrap(), (&mut memory, &ranges), [0; 2], (quantum, steps)).is_ok()
    };
    for quantum in [1, 3, 100] {
        assert_eq!((by(quantum, 13), by(quantum, 14)), (false, true), "{quantum} steps at a time");
    }
}

#[test]
fn what_has_no_meaning_is_refused() {
    let cases = [
        (slot(0x00, 0, 0, 0, 0), Unsound::Operation(0)),
        (slot(0x20, 0, 0, 0, 0), Unsound::Operation(0)),
        (slot(0xe7, 0, 0, 0, 0), Unsound::Operation(0)),
        (slot(0xdb, 1, 2, 0, 0), Unsound::Operation(0)), // atomic
        (slot(0x86, 0, 0, 0, 1), Unsound::Operation(0)),
        (slot(0x99, 0, 1, 0, 0), Unsound::Operation(0)), // signed load of 8 bytes
        (set(10, 0), Unsound::Register(0)),
        (set(11, 0), Unsound::Register(0)),
        (copy(0, 11), Unsound::Register(0)),
        (slot(0x7b, 15, 0, 0, 0), Unsound::Register(0)),
        (slot(0x0f, 0, 1, 1, 0), Unsound::Reserved(0)),
        (slot(0x0f, 0, 1, 0, 1), Unsound::Reserved(0)),
        (slot(0xb7, 0, 1, 0, 0), Unsound::Reserved(0)),
        (slot(0xb7, 0, 0, 8, 0), Unsound::Reserved(0)),
        (slot(0xbc, 0, 1, 32, 0), Unsound::Reserved(0)),
        (slot(0xdf, 0, 0, 0, 16), Unsound::Reserved(0)),
        (slot(0x95, 0, 0, 0, 1), Unsound::Reserved(0)),
        (slot(0x67, 0, 0, 0, 64), Unsound::Immediate(0)),
        (slot(0x64, 0, 0, 0, 32), Unsound::Immediate(0)),
        (slot(0xd4, 0, 0, 0, 8), Unsound::Immediate(0)),
        (slot(0x05, 0, 0, 2, 0), Unsound::Target(0)),
        (slot(0x05, 0, 0, -2, 0), Unsound::Target(0)),
        (slot(0x85, 0, 1, 0, i32::MIN), Unsound::Target(0)),
        (slot(0x06, 0, 0, 0, i32::MAX), Unsound::Target(0)),
        (slot(0x85, 0, 0, 0, 2), Unsound::Helper(0)),
        (slot(0x85, 0, 2, 0, 1), Unsound::Helper(0)),
    ];
    for (slot, unsound) in cases {
        assert_eq!(refused(&[slot, EXIT]), unsound, "{slot:x?}");
    }
}

#[test]
fn wide_immediates_are_whole_and_no_targets() {
    let (wide, second) = (slot(0x18, 0, 0, 0, 1), slot(0, 0, 0, 0, 0));
    assert_eq!(refused(&[wide]), Unsound::End(0));
    assert_eq!(refused(&[wide, EXIT]), Unsound::Reserved(1));
    assert_eq!(refused(&[wide, slot(0, 0, 0, 1, 0), EXIT]), Unsound::Reserved(1));
    assert_eq!(refused(&[slot(0x18, 0, 1, 0, 1), second, EXIT]), Unsound::Reserved(0));
    assert_eq!(refused(&[slot(0x05, 0, 0, 1, 0), wide, second, EXIT]), Unsound::Target(0));
    assert_eq!(refused(&[wide, second]), Unsound::End(1));
}

#[test]
fn programs_that_are_empty_or_too_long_or_do_not_end_are_refused() {
    assert_eq!(load(&[]).err(), Some(Refusal::InvalidProgram(Unsound::Size)));
    assert_eq!(load(&EXIT[..7]).err(), Some(Refusal::InvalidProgram(Unsound::Size)));
    assert_eq!(refused(&[set(0, 0)]), Unsound::End(0));
    assert_eq!(refused(&vec![EXIT; INSTRUCTIONS_MAX + 1]), Unsound::TooLong);
    assert!(load(vec![EXIT; INSTRUCTIONS_MAX].as_flattened()).is_ok());
}
