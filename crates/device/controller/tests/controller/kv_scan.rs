//! Scan: pairs of a range in one command.

use byway_spec::base::sgl::SglDescriptor;
use byway_spec::kv::KvOpcode;
use byway_spec::vendor::{KeyRange, ScanCdw10, ScanCdw11, ScanHeader, ScanPair, VendorOpcode, WHOLE_VALUE};
use byway_spec::{Command, Key, Status};
use zerocopy::FromBytes;

use crate::io::{DATA, Io, KV, assert_status, keyed};

const BUFFER_BYTES: usize = 64 << 10;

fn put(io: &mut Io, key: &[u8], value: &[u8]) {
    let mut command = keyed(KvOpcode::STORE.0, key, value.len());
    io.put(DATA, value);
    io.point_prps(&mut command, DATA, value.len().max(1));
    assert!(io.run(command).status().is_success());
}

/// A device with pairs `key000` to `key299`, the values being as long as the numbers.
fn io() -> Io {
    let mut io = Io::new();
    io.enable_methods();
    (0..300_usize).for_each(|n| put(&mut io, format!("key{n:03}").as_bytes(), &vec![n as u8; n]));
    io
}

fn command(range: &KeyRange, buffer_bytes: usize, prefix: u16) -> Command {
    let mut command = Command::new(VendorOpcode::KV_SCAN.0, 0, KV);
    command.cdw10 = ScanCdw10::new().with_buffer_bytes(buffer_bytes as u32).into_bits();
    command.cdw11 = ScanCdw11::new().with_value_prefix(prefix).into_bits();
    range.write_to(&mut command);
    command
}

type Pair = (Key, u32, Vec<u8>);

/// The pairs of a result, and whether the range ends with them.
fn pairs(result: &[u8]) -> (Vec<Pair>, bool) {
    let (head, _) = ScanHeader::read_from_prefix(result).unwrap();
    let resume_bytes = head.resume_len.next_multiple_of(4);
    let mut rest = &result[size_of::<ScanHeader>()..(head.bytes - resume_bytes) as usize];
    let mut pairs = Vec::new();
    for _ in 0..head.count {
        let (pair, behind) = ScanPair::read_from_prefix(rest).unwrap();
        let (len, moved) = (usize::from(pair.key_len), pair.value_moved as usize);
        let value = behind[len.next_multiple_of(4)..][..moved].to_vec();
        pairs.push((Key::new(&behind[..len]).unwrap(), pair.value_len, value));
        rest = &rest[ScanPair::bytes(len, moved)..];
    }
    assert!(rest.is_empty(), "the result has as many bytes as its head says");
    (pairs, head.is_end == 1)
}

fn scan(io: &mut Io, mut command: Command, buffer_bytes: usize) -> (Vec<Pair>, bool) {
    io.point_prps(&mut command, DATA, buffer_bytes);
    let done = io.run(command);
    assert!(done.status().is_success(), "{}", done.status());
    let (pairs, is_end) = pairs(&io.get(DATA, buffer_bytes));
    assert_eq!(done.dw0 as usize, pairs.len());
    (pairs, is_end)
}

fn numbers(pairs: &[Pair]) -> Vec<u32> {
    pairs.iter().map(|(_, len, _)| *len).collect()
}

fn key(n: u32) -> Option<Key> {
    Key::new(format!("key{n:03}").as_bytes()).ok()
}

#[test]
fn scan_brings_pairs_of_a_range_in_order() {
    let mut io = io();
    let range = KeyRange { start: key(10), bound: key(20), ..KeyRange::default() };
    let (pairs, is_end) = scan(&mut io, command(&range, BUFFER_BYTES, WHOLE_VALUE), BUFFER_BYTES);
    assert_eq!((numbers(&pairs), is_end), ((10..20).collect(), true));
    assert!(pairs.iter().all(|(_, len, value)| *value == vec![*len as u8; *len as usize]));
}

#[test]
fn scan_backward_brings_pairs_in_descending_order() {
    let mut io = io();
    let range = KeyRange { start: key(20), exclusive: true, bound: key(10), backward: true };
    let (pairs, is_end) = scan(&mut io, command(&range, BUFFER_BYTES, WHOLE_VALUE), BUFFER_BYTES);
    assert_eq!((numbers(&pairs), is_end), ((10..20).rev().collect(), true));
}

#[test]
fn scan_in_parts_goes_on_behind_the_last_key() {
    let mut io = io();
    for backward in [false, true] {
        let mut range = KeyRange { backward, ..KeyRange::default() };
        let mut seen = Vec::new();
        loop {
            let (pairs, is_end) = scan(&mut io, command(&range, 2000, WHOLE_VALUE), 2000);
            seen.extend(numbers(&pairs));
            if is_end {
                break;
            }
            range = range.behind(pairs.last().unwrap().0);
        }
        let mut expected: Vec<u32> = (0..300).collect();
        if backward {
            expected.reverse();
        }
        assert_eq!(seen, expected);
    }
}

#[test]
fn scan_of_keys_alone_and_of_prefixes_leaves_values_out() {
    let mut io = io();
    let range = KeyRange { start: key(290), ..KeyRange::default() };
    for prefix in [0, 7] {
        let (pairs, is_end) = scan(&mut io, command(&range, BUFFER_BYTES, prefix), BUFFER_BYTES);
        assert_eq!((numbers(&pairs), is_end), ((290..300).collect(), true));
        assert!(pairs.iter().all(|(_, _, value)| value.len() == usize::from(prefix)));
    }
}

#[test]
fn scan_ends_at_its_limit_of_pairs() {
    let mut io = io();
    let mut limited = command(&KeyRange::default(), BUFFER_BYTES, 0);
    limited.cdw10 = ScanCdw10::from_bits(limited.cdw10).with_pairs_low(2).into_bits();
    limited.cdw11 = ScanCdw11::from_bits(limited.cdw11).with_pairs_high(1).into_bits();
    let (pairs, is_end) = scan(&mut io, limited, BUFFER_BYTES);
    assert_eq!((numbers(&pairs), is_end), ((0..258).collect(), false));
}

#[test]
fn scan_cuts_the_value_of_a_first_pair_that_does_not_fit() {
    let mut io = io();
    let range = KeyRange { start: key(299), ..KeyRange::default() };
    let (pairs, is_end) = scan(&mut io, command(&range, 100, WHOLE_VALUE), 100);
    assert_eq!((numbers(&pairs), is_end), (vec![299], true));
    assert_eq!(pairs[0].2.len(), 100 - 16 - 12 - 8);
}

#[test]
fn scan_by_sgl_brings_what_it_brings_by_prp() {
    let mut io = io();
    let mut by_sgl = command(&KeyRange::default(), BUFFER_BYTES, WHOLE_VALUE);
    by_sgl.set_sgl1(SglDescriptor::data_block(DATA, BUFFER_BYTES as u32));
    assert!(io.run(by_sgl).status().is_success());
    let by_sgl = pairs(&io.get(DATA, BUFFER_BYTES));
    let by_prp = scan(&mut io, command(&KeyRange::default(), BUFFER_BYTES, WHOLE_VALUE), BUFFER_BYTES);
    assert_eq!(by_sgl, by_prp);
}

#[test]
fn scan_that_was_not_enabled_is_an_invalid_opcode() {
    let mut io = Io::new();
    let mut command = command(&KeyRange::default(), BUFFER_BYTES, 0);
    io.point_prps(&mut command, DATA, BUFFER_BYTES);
    assert_status(io.run(command), Status::INVALID_OPCODE);
}

#[test]
fn scan_with_a_buffer_too_short_or_too_long_is_an_invalid_field() {
    let mut io = io();
    for buffer_bytes in [0, 16, 43, (1 << 20) + 4] {
        let mut command = command(&KeyRange::default(), buffer_bytes, 0);
        io.point_prps(&mut command, DATA, buffer_bytes.max(1));
        assert_status(io.run(command), Status::INVALID_FIELD);
    }
}

#[test]
fn scan_with_a_long_key_is_an_invalid_field() {
    let mut io = io();
    for change in [ScanCdw11::with_start_len, ScanCdw11::with_bound_len] {
        let mut command = command(&KeyRange::default(), BUFFER_BYTES, 0);
        command.cdw11 = change(ScanCdw11::from_bits(command.cdw11), 17).into_bits();
        io.point_prps(&mut command, DATA, BUFFER_BYTES);
        assert_status(io.run(command), Status::INVALID_FIELD);
    }
}

/// The pairs of a scan in as many commands as it takes, how many had no pair, and how many there were.
fn scan_on(io: &mut Io, mut range: KeyRange, buffer_bytes: usize) -> (Vec<u32>, usize, usize) {
    let (mut seen, mut empty, mut commands) = (Vec::new(), 0, 0);
    loop {
        let (pairs, is_end) = scan(io, command(&range, buffer_bytes, 0), buffer_bytes);
        seen.extend(numbers(&pairs));
        commands += 1;
        if is_end {
            return (seen, empty, commands);
        }
        let result = io.get(DATA, buffer_bytes);
        let (head, _) = ScanHeader::read_from_prefix(&result).unwrap();
        let resume_len = head.resume_len as usize;
        let resume_at = head.bytes as usize - resume_len.next_multiple_of(4);
        let resume = Key::new(&result[resume_at..resume_at + resume_len]).ok();
        empty += usize::from(pairs.is_empty());
        range = range.behind(resume.or(pairs.last().map(|pair| pair.0)).expect("where to go on"));
    }
}

#[test]
fn scan_over_deleted_keys_alone_ends_with_a_key_to_resume_behind() {
    let mut io = io();
    const DELETED: u32 = 10_000;
    for n in 0..DELETED {
        let key = format!("key150-{n:05}");
        put(&mut io, key.as_bytes(), b"");
        let delete = keyed(KvOpcode::DELETE.0, key.as_bytes(), 0);
        assert!(io.run(delete).status().is_success());
    }
    for (backward, buffer_bytes) in [(false, BUFFER_BYTES), (true, BUFFER_BYTES), (false, 44), (true, 44)] {
        let range = KeyRange { backward, ..KeyRange::default() };
        let (seen, empty, commands) = scan_on(&mut io, range, buffer_bytes);
        let mut expected: Vec<u32> = (0..300).collect();
        if backward {
            expected.reverse();
        }
        assert_eq!(seen, expected);
        let is_long = buffer_bytes == BUFFER_BYTES;
        // 4,096 deleted keys each. A short buffer has room for one pair, and no room for a key to resume behind as well.
        assert_eq!((empty, commands), if is_long { (1, 3) } else { (2, 302) }, "{backward}, {buffer_bytes}");
    }
}
