//! Programs of the device.

use std::sync::Arc;

use byway_programs::{BuiltIn, DECOMPRESS_MAX_BYTES, Execution, Fault, Memory, Program, Progress};

use crate::{memory, run_by};

/// Runs a program of the device over ranges of these lengths, three steps at a time. Gives what it returns and the memory.
fn run(
    built_in: BuiltIn,
    bytes: &[u8],
    lengths: &[u32],
    parameters: [u64; 2],
) -> (Result<u64, Fault>, Memory) {
    let (mut memory, ranges) = memory(bytes, lengths);
    let value = run_by(Program::built_in(built_in), (&mut memory, &ranges), parameters, (3, 1 << 20));
    (value, memory)
}

/// A parameter that describes a field.
const fn field(record_bytes: u64, position: u64, width: u64, field_type: u64, operation: u64) -> u64 {
    operation << 56 | field_type << 52 | width << 48 | position << 32 | record_bytes
}

fn read(memory: &Memory, start: u64, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    memory.read(start, &mut read).unwrap();
    read
}

#[test]
fn filter_copies_the_records_for_which_the_comparison_holds() {
    // Records of 4 bytes: a name and a signed number of 2 bytes.
    let records = b"k \x05\0l \xff\xffm \x07\0n \x05\0";
    let matching = |operation, constant: i64| {
        let parameters = [field(4, 2, 2, 1, operation), constant as u64];
        let (count, memory) = run(BuiltIn::Filter, records, &[16, 16], parameters);
        let names = read(&memory, 16, 4 * count.unwrap() as usize);
        names.chunks(4).map(|record| char::from(record[0])).collect::<String>()
    };
    assert_eq!(matching(0, 5), "kn");
    assert_eq!(matching(1, 5), "lm");
    assert_eq!(matching(2, 5), "l");
    assert_eq!(matching(3, 5), "kln");
    assert_eq!(matching(4, -1), "kmn");
    assert_eq!(matching(5, 6), "m");
}

#[test]
fn filter_compares_floating_point_and_nothing_equals_what_is_no_number() {
    let records: Vec<u8> = [1.5_f64, f64::NAN, -2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let count = |operation, constant: f64| {
        let parameters = [field(8, 0, 8, 2, operation), constant.to_bits()];
        run(BuiltIn::Filter, &records, &[24, 24], parameters).0.unwrap()
    };
    assert_eq!((count(4, -3.0), count(2, 0.0), count(0, f64::NAN), count(1, 1.5)), (2, 1, 0, 2));
}

#[test]
fn filter_refuses_what_it_cannot_do() {
    let with =
        |parameter, lengths: &[u32]| run(BuiltIn::Filter, &[0; 16], lengths, [parameter, 0]).0.unwrap_err();
    assert_eq!(with(field(4, 0, 4, 0, 0), &[16, 12]), Fault::ResultTooLarge);
    let invalid = [
        with(field(0, 0, 0, 0, 0), &[16, 16]),
        with(field(4, 2, 4, 0, 0), &[16, 16]),
        with(field(4, 0, 3, 0, 0), &[16, 16]),
        with(field(4, 0, 2, 2, 0), &[16, 16]),
        with(field(4, 0, 4, 3, 0), &[16, 16]),
        with(field(4, 0, 4, 0, 6), &[16, 16]),
        with(field(5, 0, 4, 0, 0), &[16, 16]),
        with(field(4, 0, 4, 0, 0), &[16]),
        with(field(u32::MAX.into(), 0xffff, 8, 0, 0), &[16, 16]),
    ];
    assert!(invalid.iter().all(|fault| matches!(fault, Fault::Parameter(_))), "{invalid:?}");
}

#[test]
fn aggregates_are_the_sum_the_least_and_the_greatest() {
    let numbers: Vec<u8> = [7_u64, 3, u64::MAX, 9].iter().flat_map(|number| number.to_le_bytes()).collect();
    let of = |operation| run(BuiltIn::Aggregate, &numbers, &[32], [field(8, 0, 8, 0, operation), 0]).0;
    assert_eq!((of(0), of(1), of(2)), (Ok(18), Ok(3), Ok(u64::MAX)));
    assert!(matches!(of(3), Err(Fault::Parameter(_))));
    let narrow = run(BuiltIn::Aggregate, &numbers, &[32], [field(8, 0, 4, 0, 0), 0]).0;
    assert!(matches!(narrow, Err(Fault::Parameter(_))));
}

#[test]
fn checksums_do_not_depend_on_ranges_or_steps() {
    let bytes: Vec<u8> = (0..1000_u32).map(|index| (index * 7) as u8).collect();
    let native = u64::from(byway_sys::checksum::crc32c(&bytes));
    assert_eq!(run(BuiltIn::Crc32c, &bytes, &[1000], [0; 2]).0, Ok(native));
    assert_eq!(run(BuiltIn::Crc32c, &bytes, &[333, 1, 666], [0; 2]).0, Ok(native));
    let first = run(BuiltIn::Crc64, &bytes, &[1000], [0; 2]).0;
    assert_eq!(run(BuiltIn::Crc64, &bytes, &[500, 500], [0; 2]).0, first);
    assert_eq!(run(BuiltIn::Crc64, b"123456789", &[9], [0; 2]).0, Ok(0xae8b_1486_0a79_9888));
}

#[test]
fn a_checksum_over_its_limit_of_steps_is_stopped() {
    let (mut memory, ranges) = memory(&[0; 1024], &[1024]);
    let mut by =
        |steps| run_by(Program::built_in(BuiltIn::Crc64), (&mut memory, &ranges), [0; 2], (1 << 20, steps));
    assert!(matches!((by(127), by(129)), (Err(Fault::Limit), Ok(_))));
}

#[test]
fn decompression_gives_what_was_compressed() {
    let text = b"a text that repeats, a text that repeats, a text that repeats".repeat(20);
    let snappy = snap::raw::Encoder::new().compress_vec(&text).unwrap();
    let zstandard = zstd::bulk::compress(&text, 3).unwrap();
    for (format, compressed) in [(1, snappy), (2, zstandard)] {
        let source = (compressed.len() as u32).next_multiple_of(4);
        let lengths = [source, text.len().next_multiple_of(4) as u32];
        let parameters = [format, compressed.len() as u64];
        let (value, memory) = run(BuiltIn::Decompress, &compressed, &lengths, parameters);
        assert_eq!(value, Ok(text.len() as u64));
        assert_eq!(read(&memory, source.into(), text.len().next_multiple_of(4))[..text.len()], text);
        let short = run(BuiltIn::Decompress, &compressed, &[source, 64], parameters).0;
        assert!(matches!(short, Err(Fault::ResultTooLarge | Fault::Data(_))));
        let cut = run(BuiltIn::Decompress, &compressed, &lengths, [format, 20]).0;
        assert!(matches!(cut, Err(Fault::Data(_))));
    }
}

#[test]
fn decompression_is_bounded() {
    let of = |lengths: &[u32], parameters| run(BuiltIn::Decompress, &[], lengths, parameters).0;
    assert!(matches!(of(&[8, 8], [3, 0]), Err(Fault::Parameter(_))));
    assert!(matches!(of(&[8, 8], [1, 9]), Err(Fault::Parameter(_))));
    assert!(matches!(of(&[8, 8], [1, u64::MAX]), Err(Fault::Parameter(_))));
    assert!(matches!(of(&[DECOMPRESS_MAX_BYTES as u32 + 4, 8], [1, 0]), Err(Fault::Parameter(_))));
}

/// How often a run of a program of the device is interrupted that may make 64 steps at a time, over ranges of these lengths.
fn interruptions(built_in: BuiltIn, lengths: &[u32], parameters: [u64; 2]) -> usize {
    let (mut memory, ranges) = memory(&[], lengths);
    let mut execution = Execution::new(Arc::new(Program::built_in(built_in)), &ranges, parameters, u64::MAX);
    let mut slices = ranges.borrow([(1, &mut memory)]).unwrap();
    (0..).take_while(|_| execution.advance(&mut slices, 64).unwrap() == Progress::Pending).count()
}

#[test]
fn records_cost_steps_by_what_is_read_and_copied_of_them() {
    const RECORD: u64 = 1 << 18;
    let lengths = [4 * RECORD as u32; 2];
    let all_match = [field(RECORD, 0, 8, 0, 0), 0];
    assert_eq!(interruptions(BuiltIn::Filter, &lengths, all_match), 4 * (RECORD as usize / 64 / 64) - 1);
    let records = [64 << 10, 0];
    let none_match = [field(1024, 0, 8, 0, 1), 0];
    assert_eq!(interruptions(BuiltIn::Filter, &records[..1].repeat(2), none_match), 15);
    assert_eq!(interruptions(BuiltIn::Aggregate, &records[..1], [field(1024, 0, 8, 0, 0), 0]), 15);
    assert_eq!(interruptions(BuiltIn::Aggregate, &records[..1], [field(1 << 15, 0, 8, 0, 0), 0]), 0);
}

#[test]
fn record_copied_in_parts_is_whole() {
    let record: Vec<u8> = (0..1000_u32).map(|index| index as u8).collect();
    let (count, memory) = run(BuiltIn::Filter, &record, &[1000, 1000], [field(1000, 0, 1, 0, 0), 0]);
    assert_eq!((count, read(&memory, 1000, 1000)), (Ok(1), record));
}
