//! WebAssembly: what a module may do, what is refused, what stops a run.

use byway_programs::{Fault, Program, Refusal, Unsound, WASM_MEMORY_MAX_BYTES};
use byway_spec::programs::ProgramType;

use crate::{memory, run_by};

/// Imports of every function of the device.
const IMPORTS: &str = r#"
    (import "byway" "count" (func $count (result i32)))
    (import "byway" "length" (func $length (param i32) (result i32)))
    (import "byway" "read" (func $read (param i32 i32 i32 i32)))
    (import "byway" "write" (func $write (param i32 i32 i32 i32)))"#;

/// A module of this text.
fn module(text: &str) -> Result<Program, Refusal> {
    Program::load(ProgramType::WASM, None, &wat::parse_str(text).unwrap())
}

/// A module that runs `body`, with a page of memory.
fn of(body: &str) -> Program {
    let run = format!(r#"(func (export "run") (param $first i64) (param $second i64) (result i64) {body})"#);
    module(&format!(r#"(module {IMPORTS} (memory (export "memory") 1) {run})"#)).unwrap()
}

/// Runs `body` over ranges of 16 and 9 bytes, `quantum` steps at a time.
fn run_in_pieces(body: &str, parameters: [u64; 2], quantum: u64) -> (Result<u64, Fault>, [u8; 28]) {
    let (mut memory, ranges) = memory(b"0123456789abcdefABCDEFGHI", &[16, 9]);
    let result = run_by(of(body), (&mut memory, &ranges), parameters, (quantum, 1_000_000));
    let mut bytes = [0; 28];
    memory.read(0, &mut bytes).unwrap();
    (result, bytes)
}

fn run(body: &str, parameters: [u64; 2]) -> Result<u64, Fault> {
    run_in_pieces(body, parameters, 10_000).0
}

fn refused(text: &str) -> bool {
    matches!(module(text), Err(Refusal::InvalidProgram(Unsound::Module(_))))
}

#[test]
fn a_module_sees_its_parameters_and_the_lengths_of_its_ranges() {
    assert_eq!(run("(i64.add (local.get $first) (local.get $second))", [40, 2]), Ok(42));
    assert_eq!(run("(i64.extend_i32_u (call $count))", [0; 2]), Ok(2));
    assert_eq!(run("(i64.extend_i32_u (call $length (i32.const 1)))", [0; 2]), Ok(9));
    assert_eq!(run("(i64.extend_i32_u (call $length (i32.const 2)))", [0; 2]), Ok(0));
}

#[test]
fn ranges_are_copied_to_memory_and_back() {
    let body = "
        (call $read (i32.const 1) (i32.const 1) (i32.const 100) (i32.const 4))
        (call $write (i32.const 0) (i32.const 12) (i32.const 100) (i32.const 4))
        (i64.load32_u (i32.const 100))";
    for quantum in [1, 7, 10_000] {
        let (result, bytes) = run_in_pieces(body, [0; 2], quantum);
        assert_eq!(result, Ok(u32::from_le_bytes(*b"BCDE").into()), "{quantum} steps at a time");
        assert_eq!(&bytes, b"0123456789abBCDEABCDEFGHI\0\0\0");
    }
}

#[test]
fn an_access_outside_a_range_or_the_memory_stops_the_module() {
    let read = |range: i64, position: i64, address: i64, bytes: i64| {
        let numbers =
            [range, position, address, bytes].map(|number| format!("(i32.const {number})")).concat();
        run(&format!("(call $read {numbers}) (i64.const 1)"), [0; 2])
    };
    assert_eq!(read(0, 0, 65_520, 16), Ok(1));
    for (range, position, address, bytes) in [
        (2, 0, 0, 1),
        (0, 1, 0, 16),
        (0, 17, 0, 0),
        (0, -1, 0, 1),
        (0, 0, 65_521, 16),
        (0, 0, 0, -1),
        (-1, 0, 0, 0),
    ] {
        let result = read(range, position, address, bytes);
        assert!(
            matches!(result, Err(Fault::Access { .. })),
            "{range} {position} {address} {bytes}: {result:?}"
        );
    }
    assert_eq!(run("(i64.load (i32.const 65529))", [0; 2]), Err(Fault::Trap));
}

#[test]
fn a_module_that_traps_or_loops_or_nests_too_deep_is_stopped() {
    assert_eq!(run("(i64.div_u (i64.const 1) (local.get $first))", [0; 2]), Err(Fault::Trap));
    assert_eq!(run("unreachable", [0; 2]), Err(Fault::Trap));
    assert_eq!(run("(loop $again (br $again)) (i64.const 0)", [0; 2]), Err(Fault::Limit));
    let nested = r#"(module (memory (export "memory") 1)
        (func $run (export "run") (param i64 i64) (result i64) (call $run (local.get 0) (local.get 1))))"#;
    let (mut memory, ranges) = memory(&[], &[]);
    let result = run_by(module(nested).unwrap(), (&mut memory, &ranges), [0; 2], (1000, 1_000_000));
    assert_eq!(result, Err(Fault::Depth));
}

#[test]
fn copies_in_a_row_are_charged_although_no_jump_is_between_them() {
    let copies = "(call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 16))".repeat(1000);
    let (mut memory, ranges) = memory(&[0; 16], &[16]);
    let mut by = |steps| {
        let program = of(&format!("{copies} (i64.const 0)"));
        run_by(program, (&mut memory, &ranges), [0; 2], (500, steps))
    };
    assert_eq!((by(30_000), by(60_000)), (Err(Fault::Limit), Ok(0)));
}

#[test]
fn memory_grows_to_its_limit() {
    let pages = WASM_MEMORY_MAX_BYTES / 65_536;
    let grow = |by: usize| run(&format!("(i64.extend_i32_s (memory.grow (i32.const {by})))"), [0; 2]);
    assert_eq!((grow(pages - 1), grow(pages)), (Ok(1), Ok(u64::MAX)));
}

#[test]
fn operations_on_much_memory_go_on_over_small_pieces_of_a_run() {
    let body = "(drop (memory.grow (i32.const 60)))
        (memory.fill (i32.const 0) (i32.const 7) (i32.const 3900000)) (i64.load8_u (i32.const 3899999))";
    assert_eq!(run_in_pieces(body, [0; 2], 10).0, Ok(7));
}

#[test]
fn modules_that_lack_or_want_something_are_refused() {
    let exports =
        r#"(memory (export "memory") 1) (func (export "run") (param i64 i64) (result i64) (i64.const 0))"#;
    assert!(module(&format!("(module {exports})")).is_ok());
    assert!(refused(r#"(module (func (export "run") (param i64 i64) (result i64) (i64.const 0)))"#));
    assert!(refused(r#"(module (memory (export "memory") 1))"#));
    assert!(refused(
        r#"(module (memory (export "memory") 1) (func (export "run") (param i64) (result i64) (i64.const 0)))"#
    ));
    assert!(refused(&format!(r#"(module (import "wasi" "exit" (func)) {exports})"#)));
    assert!(refused(&format!(r#"(module (import "byway" "read" (func (param i64))) {exports})"#)));
    assert!(refused(&format!("(module {exports} (func $start) (start $start))")));
    assert!(refused(&format!(r#"(module {exports} (data (i32.const 65535) "ab"))"#)));
    assert!(refused(&format!("(module {} )", exports.replace(" 1)", " 65)"))));
    assert!(Program::load(ProgramType::WASM, None, b"\0asm").is_err());
}
