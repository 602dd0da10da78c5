//! What running a program costs: one that returns at once, and a checksum of 1 MiB, beside the same in native code.
//!
//!     cargo run --release -p byway-programs --example programs

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_programs::{BuiltIn, Execution, Memory, Program, RangeLimits, Ranges};
use byway_spec::programs::{MemoryRangeDescriptor, ProgramType};

type Failure = Box<dyn std::error::Error>;

const SIZE_BYTES: u32 = 1 << 20;

/// `return 0;`
const EMPTY: [u64; 2] = [0xb7, 0x95];

/// The sum of all 64-bit words of the first range.
const SUM: [u64; 9] = [
    0x0000_0000_0000_1279, // r2 = *(u64 *)(r1 + 0)
    0x0000_0000_0008_1379, // r3 = *(u64 *)(r1 + 8)
    0x0000_0000_0000_230f, // r3 += r2
    0x0000_0000_0000_00b7, // r0 = 0
    0x0000_0000_0000_2479, // r4 = *(u64 *)(r2 + 0)
    0x0000_0000_0000_400f, // r0 += r4
    0x0000_0008_0000_0207, // r2 += 8
    0x0000_0000_fffc_32ad, // if r2 < r3 goto -4
    0x95,
];

/// CRC-32C of the first range by helper 1, 64 KiB at a time.
const CHECKSUM: [u64; 11] = [
    0x0000_0000_0000_1679, // r6 = *(u64 *)(r1 + 0)
    0x0000_0000_0008_1779, // r7 = *(u64 *)(r1 + 8)
    0x0000_0000_0000_670f, // r7 += r6
    0x0000_0000_0000_00b7, // r0 = 0
    0x0000_0000_0000_61bf, // r1 = r6
    0x0001_0000_0000_02b7, // r2 = 65536
    0x0000_0000_0000_03bf, // r3 = r0
    0x0000_0001_0000_0085, // call 1
    0x0001_0000_0000_0607, // r6 += 65536
    0x0000_0000_fffa_76ad, // if r6 < r7 goto -6
    0x95,
];

/// The sum of all 64-bit words of the first range, copied to memory 64 KiB at a time.
const SUM_MODULE: &str = r#"(module
    (import "byway" "length" (func $length (param i32) (result i32)))
    (import "byway" "read" (func $read (param i32 i32 i32 i32)))
    (memory (export "memory") 1)
    (func (export "run") (param i64 i64) (result i64) (local $done i32) (local $at i32) (local $sum i64)
        (loop $pieces
            (call $read (i32.const 0) (local.get $done) (i32.const 0) (i32.const 65536))
            (local.set $at (i32.const 0))
            (loop $words
                (local.set $sum (i64.add (local.get $sum) (i64.load (local.get $at))))
                (local.set $at (i32.add (local.get $at) (i32.const 8)))
                (br_if $words (i32.lt_u (local.get $at) (i32.const 65536))))
            (local.set $done (i32.add (local.get $done) (i32.const 65536)))
            (br_if $pieces (i32.lt_u (local.get $done) (call $length (i32.const 0)))))
        (local.get $sum)))"#;

/// A module that returns at once.
const EMPTY_MODULE: &str = r#"(module (memory (export "memory") 1)
    (func (export "run") (param i64 i64) (result i64) (i64.const 0)))"#;

/// The shortest of many times.
fn shortest(mut work: impl FnMut() -> u64) -> Duration {
    let time = |work: &mut dyn FnMut() -> u64| {
        let begun = Instant::now();
        black_box(work());
        begun.elapsed()
    };
    (0..200).map(|_| time(&mut work)).min().unwrap_or_default()
}

fn ebpf(words: &[u64]) -> Result<Arc<Program>, Failure> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(Arc::new(Program::load(ProgramType::EBPF, None, &bytes)?))
}

/// A module, if programs in WebAssembly were built in.
fn wasm(text: &str) -> Option<Arc<Program>> {
    let bytes = wat::parse_str(text).ok()?;
    Program::load(ProgramType::WASM, None, &bytes).ok().map(Arc::new)
}

/// The ranges of a memory, and runs over them.
struct Bench {
    memory: Memory,
    ranges: Ranges,
}

impl Bench {
    fn new() -> Result<Self, Failure> {
        let mut memory = Memory::new(SIZE_BYTES.into())?;
        let bytes: Vec<u8> = (0..SIZE_BYTES).map(|index| ((index * 31) >> 3) as u8).collect();
        memory.write(0, &bytes)?;
        let descriptor = MemoryRangeDescriptor { nsid: 1, length_bytes: SIZE_BYTES, ..Default::default() };
        let ranges = Ranges::check(&[descriptor], &RangeLimits::default(), |_| Some(SIZE_BYTES.into()))?;
        Ok(Self { memory, ranges })
    }

    /// One run, with all that an Execute command does for it.
    fn run(&mut self, program: &Arc<Program>) -> u64 {
        let execution = Execution::new(Arc::clone(program), &self.ranges, [0; 2], 1 << 24);
        let Some(mut slices) = self.ranges.borrow([(1, &mut self.memory)]) else { return 0 };
        execution.finish(&mut slices).unwrap_or(0)
    }

    /// The mean of many runs.
    fn mean(&mut self, name: &str, program: &Arc<Program>) {
        const RUNS: u32 = 100_000;
        let begun = Instant::now();
        (0..RUNS).for_each(|_| _ = black_box(self.run(program)));
        let mean = begun.elapsed().as_secs_f64() / f64::from(RUNS);
        println!("{name:<28} {:>12.3} µs", mean * 1e6);
    }

    fn line(&mut self, name: &str, program: &Arc<Program>, native: Duration) {
        let time = shortest(|| self.run(program));
        let speed = native.as_secs_f64() / time.as_secs_f64();
        println!("{name:<28} {:>12.3} µs   {speed:.3} of native", time.as_secs_f64() * 1e6);
    }
}

fn main() -> Result<(), Failure> {
    let mut bench = Bench::new()?;
    let mut bytes = vec![0; SIZE_BYTES as usize];
    bench.memory.read(0, &mut bytes)?;
    let crc = shortest(|| byway_sys::checksum::crc32c(black_box(&bytes)).into());
    let (words, _) = bytes.as_chunks::<8>();
    let sum =
        shortest(|| black_box(words).iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word))));

    bench.mean("empty, eBPF", &ebpf(&EMPTY)?);
    if let Some(empty) = wasm(EMPTY_MODULE) {
        bench.mean("empty, WebAssembly", &empty);
    }
    println!("{:<28} {:>12.3} µs", "CRC-32C of 1 MiB, native", crc.as_secs_f64() * 1e6);
    bench.line("CRC-32C of 1 MiB, built in", &Arc::new(Program::built_in(BuiltIn::Crc32c)), crc);
    bench.line("CRC-32C of 1 MiB, eBPF", &ebpf(&CHECKSUM)?, crc);
    println!("{:<28} {:>12.3} µs", "sum of 1 MiB, native", sum.as_secs_f64() * 1e6);
    bench.line("sum of 1 MiB, eBPF", &ebpf(&SUM)?, sum);
    if let Some(module) = wasm(SUM_MODULE) {
        bench.line("sum of 1 MiB, WebAssembly", &module, sum);
    }
    let crc64 = shortest(|| bench.run(&Arc::new(Program::built_in(BuiltIn::Crc64))));
    println!("{:<28} {:>12.3} µs", "CRC-64 of 1 MiB, built in", crc64.as_secs_f64() * 1e6);
    Ok(())
}
