//! Commands of a key-value namespace, seen from the host: what they do and what they refuse.

use crate::io::{BLOCKS_512, DATA, Io, KV, assert_status, keyed};
use byway_kit::pattern;
use byway_spec::kv::{KvCdw11, KvConfiguration, KvOpcode};
use byway_spec::vendor::{BulkPair, VendorOpcode};
use byway_spec::{Command, Completion, Status};
use zerocopy::IntoBytes;

fn store_with(io: &mut Io, key: &[u8], value: &[u8], options: KvCdw11) -> Completion {
    let mut command = keyed(KvOpcode::STORE.0, key, value.len());
    command.cdw11 |= options.into_bits();
    io.put(DATA, value);
    io.point_prps(&mut command, DATA, value.len());
    io.run(command)
}

fn store(io: &mut Io, key: &[u8], value: &[u8]) {
    assert_status(store_with(io, key, value, KvCdw11::new()), Status::SUCCESS);
}

/// Retrieves into a buffer of `buffer` bytes. Returns the completion and the buffer, filled with EEh before.
fn retrieve(io: &mut Io, key: &[u8], buffer: usize) -> (Completion, Vec<u8>) {
    let mut command = keyed(KvOpcode::RETRIEVE.0, key, buffer);
    io.put(DATA, &vec![0xee; buffer]);
    io.point_prps(&mut command, DATA, buffer);
    let done = io.run(command);
    (done, io.get(DATA, buffer))
}

fn list(io: &mut Io, start: &[u8], buffer: usize) -> (Completion, Vec<Vec<u8>>) {
    let mut command = keyed(KvOpcode::LIST.0, start, buffer);
    io.point_prps(&mut command, DATA, buffer);
    let done = io.run(command);
    (done, keys_in(&io.get(DATA, buffer)))
}

fn keys_in(buffer: &[u8]) -> Vec<Vec<u8>> {
    let count = u32::from_le_bytes(buffer[..4].try_into().unwrap());
    let mut at = 4;
    let mut keys = Vec::new();
    for _ in 0..count {
        let len = usize::from(u16::from_le_bytes(buffer[at..at + 2].try_into().unwrap()));
        keys.push(buffer[at + 2..at + 2 + len].to_vec());
        at = (at + 2 + len).next_multiple_of(4);
    }
    keys
}

fn simple(io: &mut Io, opcode: KvOpcode, key: &[u8]) -> Completion {
    io.run(keyed(opcode.0, key, 0))
}

fn value(len: usize) -> Vec<u8> {
    pattern(len as u64, len)
}

#[test]
fn stored_values_of_every_length_are_retrieved() {
    let mut io = Io::new();
    for len in [0, 1, 35, 64, 4095, 4096, 4097, 16_384, 20_000, 300_000] {
        let key = format!("k{len}");
        store(&mut io, key.as_bytes(), &value(len));
        let (done, bytes) = retrieve(&mut io, key.as_bytes(), len.max(1));
        assert_status(done, Status::SUCCESS);
        assert_eq!(done.dw0 as usize, len);
        assert!(bytes[..len] == value(len), "{len}");
    }
}

#[test]
fn values_have_at_most_a_32nd_of_the_extent() {
    let mut io = Io::new();
    // The namespace has 96 MiB, its extent up to half as much again.
    let longest = value(3 << 20);
    store(&mut io, b"long", &longest);
    let (done, bytes) = retrieve(&mut io, b"long", longest.len());
    assert_eq!(done.dw0 as usize, longest.len());
    assert!(bytes == longest);
    let command = keyed(KvOpcode::STORE.0, b"longer", 5 << 20);
    assert_status(io.run(command), Status::INVALID_VALUE_SIZE);
}

#[test]
fn a_newer_value_replaces_an_older_one() {
    let mut io = Io::new();
    store(&mut io, b"key", &value(500));
    store(&mut io, b"key", &value(20));
    let (done, bytes) = retrieve(&mut io, b"key", 100);
    assert_eq!(done.dw0, 20);
    assert_eq!(bytes[..20], value(20));
    assert!(bytes[20..].iter().all(|byte| *byte == 0xee), "bytes past the value stay as they were");
}

#[test]
fn a_short_buffer_gets_the_first_bytes_and_the_whole_length() {
    let mut io = Io::new();
    store(&mut io, b"key", &value(10_000));
    for buffer in [1, 100, 4096, 9_999] {
        let (done, bytes) = retrieve(&mut io, b"key", buffer);
        assert_status(done, Status::SUCCESS);
        assert_eq!(done.dw0, 10_000);
        assert!(bytes == value(10_000)[..buffer]);
    }
    let done = io.run(keyed(KvOpcode::RETRIEVE.0, b"key", 0));
    assert_status(done, Status::SUCCESS);
    assert_eq!(done.dw0, 10_000);
}

#[test]
fn the_raw_bit_changes_nothing_since_values_are_kept_as_they_came() {
    let mut io = Io::new();
    store_with(&mut io, b"key", &value(50), KvCdw11::new().with_no_compression(true));
    let mut command = keyed(KvOpcode::RETRIEVE.0, b"key", 50);
    command.cdw11 |= KvCdw11::new().with_must_exist_or_raw(true).into_bits();
    io.point_prps(&mut command, DATA, 50);
    assert_status(io.run(command), Status::SUCCESS);
    assert_eq!(io.get(DATA, 50), value(50));
}

#[test]
fn store_conditions_hold() {
    let mut io = Io::new();
    let if_exists = KvCdw11::new().with_must_exist_or_raw(true);
    let if_absent = KvCdw11::new().with_must_not_exist(true);
    assert_status(store_with(&mut io, b"key", &value(9), if_exists), Status::KEY_DOES_NOT_EXIST);
    assert_status(store_with(&mut io, b"key", &value(9), if_absent), Status::SUCCESS);
    assert_status(store_with(&mut io, b"key", &value(8), if_absent), Status::KEY_EXISTS);
    assert_eq!(retrieve(&mut io, b"key", 20).0.dw0, 9);
    assert_status(store_with(&mut io, b"key", &value(7), if_exists), Status::SUCCESS);
    assert_eq!(retrieve(&mut io, b"key", 20).0.dw0, 7);
    let both = KvCdw11::from_bits(if_exists.into_bits() | if_absent.into_bits());
    assert_status(store_with(&mut io, b"key", &value(6), both), Status::INVALID_FIELD);
}

#[test]
fn exist_answers_by_its_status() {
    let mut io = Io::new();
    assert_status(simple(&mut io, KvOpcode::EXIST, b"key"), Status::KEY_DOES_NOT_EXIST);
    store(&mut io, b"key", b"");
    assert_status(simple(&mut io, KvOpcode::EXIST, b"key"), Status::SUCCESS);
}

#[test]
fn a_deleted_key_is_gone_and_deleting_it_again_succeeds() {
    let mut io = Io::new();
    store(&mut io, b"key", &value(5_000));
    assert_status(simple(&mut io, KvOpcode::DELETE, b"key"), Status::SUCCESS);
    assert_status(simple(&mut io, KvOpcode::EXIST, b"key"), Status::KEY_DOES_NOT_EXIST);
    assert_status(retrieve(&mut io, b"key", 10).0, Status::KEY_DOES_NOT_EXIST);
    assert_status(simple(&mut io, KvOpcode::DELETE, b"key"), Status::SUCCESS);
}

#[test]
fn with_ednek_set_deleting_a_missing_key_is_an_error() {
    let mut io = Io::new();
    io.set_kv_configuration(KV, KvConfiguration::new().with_ednek(true));
    assert_status(simple(&mut io, KvOpcode::DELETE, b"key"), Status::KEY_DOES_NOT_EXIST);
    store(&mut io, b"key", b"v");
    assert_status(simple(&mut io, KvOpcode::DELETE, b"key"), Status::SUCCESS);
}

#[test]
fn list_gives_keys_in_order_from_the_start_key_on() {
    let mut io = Io::new();
    for key in ["b", "a", "ab", "c", "aa"] {
        store(&mut io, key.as_bytes(), b"v");
    }
    let names =
        |keys: Vec<Vec<u8>>| keys.into_iter().map(|k| String::from_utf8(k).unwrap()).collect::<Vec<_>>();
    let (done, keys) = list(&mut io, b"", 4096);
    assert_status(done, Status::SUCCESS);
    assert_eq!(names(keys), ["a", "aa", "ab", "b", "c"]);
    assert_eq!(names(list(&mut io, b"aa", 4096).1), ["aa", "ab", "b", "c"]);
    assert_eq!(names(list(&mut io, b"aaa", 4096).1), ["ab", "b", "c"]);
    assert!(list(&mut io, b"d", 4096).1.is_empty());
    assert_eq!(names(list(&mut io, b"", 4 + 4 + 4).1), ["a", "aa"]);
    assert!(list(&mut io, b"", 7).1.is_empty());
}

#[test]
fn a_list_buffer_without_room_for_the_count_is_an_invalid_field() {
    let mut io = Io::new();
    let mut command = keyed(KvOpcode::LIST.0, b"", 3);
    io.point_prps(&mut command, DATA, 3);
    assert_status(io.run(command), Status::INVALID_FIELD);
}

#[test]
fn key_lengths_are_checked_for_every_command() {
    let mut io = Io::new();
    for opcode in [KvOpcode::STORE, KvOpcode::RETRIEVE, KvOpcode::DELETE, KvOpcode::EXIST, KvOpcode::LIST] {
        let mut command = keyed(opcode.0, b"0123456789abcdef", 64);
        command.cdw11 = 17;
        io.point_prps(&mut command, DATA, 64);
        assert_status(io.run(command), Status::INVALID_FIELD);
        command.cdw11 = 0;
        let expected = if opcode == KvOpcode::LIST { Status::SUCCESS } else { Status::INVALID_KEY_SIZE };
        assert_status(io.run(command), expected);
    }
}

#[test]
fn keys_of_sixteen_bytes_differ_in_their_last_byte() {
    let mut io = Io::new();
    store(&mut io, b"0123456789abcdef", &value(1));
    store(&mut io, b"0123456789abcdeg", &value(2));
    assert_eq!(retrieve(&mut io, b"0123456789abcdef", 10).0.dw0, 1);
    assert_eq!(retrieve(&mut io, b"0123456789abcdeg", 10).0.dw0, 2);
}

#[test]
fn all_namespaces_at_once_and_other_sets_opcodes_are_refused() {
    let mut io = Io::new();
    let mut command = keyed(KvOpcode::EXIST.0, b"k", 0);
    command.nsid = 0xffff_ffff;
    assert_status(io.run(command), Status::INVALID_NAMESPACE);
    assert_status(io.run(Command::new(0x09, 0, KV)), Status::INVALID_OPCODE);
    let mut command = keyed(KvOpcode::EXIST.0, b"k", 0);
    command.nsid = BLOCKS_512;
    assert_status(io.run(command), Status::INVALID_OPCODE);
}

fn bulk(io: &mut Io, payload: &[u8]) -> Completion {
    io.enable_methods();
    let mut command = Command::new(VendorOpcode::KV_BULK_STORE.0, 0, KV);
    command.cdw10 = payload.len() as u32;
    io.put(DATA, payload);
    io.point_prps(&mut command, DATA, payload.len());
    io.run(command)
}

fn pairs(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut payload = (pairs.len() as u32).to_le_bytes().to_vec();
    for (key, value) in pairs {
        let head =
            BulkPair { key_len: key.len() as u8, value_len: value.len() as u32, ..BulkPair::default() };
        payload.extend_from_slice(head.as_bytes());
        for part in [*key, *value] {
            payload.extend_from_slice(part);
            payload.resize(payload.len().next_multiple_of(4), 0);
        }
    }
    payload
}

#[test]
fn a_bulk_store_stores_every_pair() {
    let mut io = Io::new();
    let payload = pairs(&[(b"one", b"1"), (b"two", &value(5_000)), (b"three", b"")]);
    let done = bulk(&mut io, &payload);
    assert_status(done, Status::SUCCESS);
    assert_eq!(done.dw0, 3);
    assert_eq!(retrieve(&mut io, b"two", 10).0.dw0, 5_000);
    assert_eq!(list(&mut io, b"", 100).1.len(), 3);
}

#[test]
fn a_bulk_store_that_lies_about_a_length_stores_nothing() {
    let mut io = Io::new();
    let mut payload = pairs(&[(b"one", b"1"), (b"two", b"2")]);
    let last = payload.len() - 12;
    payload[last + 1 - 8 + 8 + 3] = 0xff;
    payload.truncate(payload.len() - 4);
    let done = bulk(&mut io, &payload);
    assert_status(done, Status::INVALID_FIELD);
    assert!(list(&mut io, b"", 100).1.is_empty());
}

#[test]
fn a_list_buffer_over_the_longest_transfer_is_refused() {
    let mut io = Io::new();
    store(&mut io, b"key", b"value");
    for bytes in [(16 << 20) + 1, u32::MAX as usize] {
        assert_status(io.run(keyed(KvOpcode::LIST.0, b"", bytes)), Status::INVALID_FIELD);
    }
}
