//! Retrieve Many: the values of many keys in one command.

use byway_spec::base::sgl::{SglDescriptor, SglKind};
use byway_spec::kv::KvOpcode;
use byway_spec::vendor::{
    Found, FoundValue, ManyCdw10, ScanCdw11, ScanHeader, VendorOpcode, WHOLE_VALUE, write_many_keys,
};
use byway_spec::{Command, Completion, Key, Status};
use zerocopy::FromBytes;

use crate::io::{DATA, Io, KV, assert_status, keyed};

const BUFFER_BYTES: usize = 64 << 10;

/// A device with keys `key000` to `key299`, the values being as long as the numbers.
fn io() -> Io {
    let mut io = Io::new();
    io.enable_methods();
    for n in 0..300_usize {
        let mut command = keyed(KvOpcode::STORE.0, key(n).as_bytes(), n);
        io.put(DATA, &vec![n as u8; n]);
        io.point_prps(&mut command, DATA, n.max(1));
        assert!(io.run(command).status().is_success());
    }
    io
}

fn key(n: usize) -> Key {
    Key::new(format!("key{n:03}").as_bytes()).unwrap()
}

/// A command whose request is in host memory.
fn command(io: &Io, keys: &[Key], buffer_bytes: usize, prefix: u16) -> Command {
    let mut request = vec![0; keys.len() * 17];
    let request_bytes = write_many_keys(keys, &mut request).unwrap();
    io.put(DATA, &vec![0xee; buffer_bytes.max(request_bytes)]);
    io.put(DATA, &request[..request_bytes]);
    let mut command = Command::new(VendorOpcode::KV_RETRIEVE_MANY.0, 0, KV);
    command.cdw10 = ManyCdw10::new().with_buffer_bytes(buffer_bytes as u32).into_bits();
    command.cdw11 = ScanCdw11::new().with_value_prefix(prefix).into_bits();
    (command.cdw12, command.cdw13) = (request_bytes as u32, keys.len() as u32);
    command
}

type Entry = (Found, u32, Vec<u8>);

fn entries(result: &[u8]) -> Vec<Entry> {
    let (head, _) = ScanHeader::read_from_prefix(result).unwrap();
    let mut rest = &result[size_of::<ScanHeader>()..head.bytes as usize];
    let mut entries = Vec::new();
    for _ in 0..head.count {
        let (entry, behind) = FoundValue::read_from_prefix(rest).unwrap();
        let moved = entry.value_moved as usize;
        entries.push((Found(entry.found), entry.value_len, behind[..moved].to_vec()));
        assert!(behind[moved..moved.next_multiple_of(4)].iter().all(|byte| *byte == 0), "padding");
        rest = &behind[moved.next_multiple_of(4)..];
    }
    assert!(rest.is_empty(), "the result has as many bytes as its head says");
    let behind = &result[head.bytes as usize..];
    assert!(behind.iter().all(|byte| *byte == 0xee), "bytes behind the result are left alone");
    entries
}

fn retrieve(io: &mut Io, keys: &[Key], buffer_bytes: usize, prefix: u16) -> Vec<Entry> {
    let mut command = command(io, keys, buffer_bytes, prefix);
    io.point_prps(&mut command, DATA, buffer_bytes);
    let done = io.run(command);
    assert!(done.status().is_success(), "{}", done.status());
    let entries = entries(&io.get(DATA, buffer_bytes));
    let values = entries.iter().filter(|(found, ..)| *found == Found::VALUE).count();
    assert_eq!(done.dw0 as usize, values);
    entries
}

fn value(n: usize) -> Entry {
    (Found::VALUE, n as u32, vec![n as u8; n])
}

#[test]
fn retrieve_many_brings_values_in_the_order_of_the_keys() {
    let mut io = io();
    let keys = [7, 299, 0, 7, 555, 100].map(key);
    let absent = (Found::ABSENT, 0, vec![]);
    let expected = [value(7), value(299), value(0), value(7), absent, value(100)];
    assert_eq!(retrieve(&mut io, &keys, BUFFER_BYTES, WHOLE_VALUE), expected);
}

#[test]
fn retrieve_many_of_as_many_keys_as_announced_brings_all() {
    let mut io = io();
    let keys: Vec<Key> = (0..1024).map(|n| key(n % 300)).collect();
    let entries = retrieve(&mut io, &keys, 1 << 20, WHOLE_VALUE);
    assert_eq!(entries, (0..1024).map(|n| value(n % 300)).collect::<Vec<_>>());
}

#[test]
fn retrieve_many_moves_at_most_the_prefix_that_was_asked_for() {
    let mut io = io();
    for prefix in [0, 7] {
        let entries = retrieve(&mut io, &[3, 100].map(key), BUFFER_BYTES, prefix);
        let prefix = usize::from(prefix);
        let part = |n: usize| (Found::VALUE, n as u32, vec![n as u8; n.min(prefix)]);
        assert_eq!(entries, [part(3), part(100)]);
    }
}

#[test]
fn retrieve_many_says_of_values_without_room_how_long_they_are() {
    let mut io = io();
    let keys = [90, 80, 20, 250].map(key);
    // Heads, and 115 bytes for values: 92 of them for the first, 20 for the third.
    let entries = retrieve(&mut io, &keys, 16 + 4 * 12 + 115, WHOLE_VALUE);
    let without_room = |n: u32| (Found::NO_ROOM, n, vec![]);
    assert_eq!(entries, [value(90), without_room(80), value(20), without_room(250)]);
    let heads_alone = retrieve(&mut io, &keys[..2], 16 + 2 * 12, WHOLE_VALUE);
    assert_eq!(heads_alone, [without_room(90), without_room(80)]);
}

#[test]
fn retrieve_many_by_sgl_brings_what_it_brings_by_prp() {
    let mut io = io();
    let keys: Vec<Key> = (0..200).map(key).collect();
    let mut by_sgl = command(&io, &keys, BUFFER_BYTES, WHOLE_VALUE);
    by_sgl.set_sgl1(SglDescriptor::data_block(DATA, BUFFER_BYTES as u32));
    assert!(io.run(by_sgl).status().is_success());
    let by_sgl = entries(&io.get(DATA, BUFFER_BYTES));
    assert_eq!(by_sgl, retrieve(&mut io, &keys, BUFFER_BYTES, WHOLE_VALUE));
}

#[test]
fn retrieve_many_by_whole_pages_brings_the_same() {
    let mut io = Io::of_profile("cosmos");
    io.enable_methods();
    let entries = retrieve(&mut io, &[1, 2].map(key), BUFFER_BYTES, WHOLE_VALUE);
    assert_eq!(entries, [(); 2].map(|()| (Found::ABSENT, 0, vec![])));
}

/// Completion of a command, after a change to it.
fn changed(io: &mut Io, change: impl FnOnce(&mut Command)) -> Completion {
    let mut command = command(io, &[1, 2].map(key), BUFFER_BYTES, WHOLE_VALUE);
    io.point_prps(&mut command, DATA, BUFFER_BYTES);
    change(&mut command);
    io.run(command)
}

#[test]
fn retrieve_many_whose_lengths_are_wrong_is_an_invalid_field() {
    let mut io = io();
    let buffer = |bytes| ManyCdw10::new().with_buffer_bytes(bytes).into_bits();
    assert_status(changed(&mut io, |command| command.cdw10 = buffer(0)), Status::INVALID_FIELD);
    assert_status(changed(&mut io, |command| command.cdw10 = buffer((1 << 20) + 1)), Status::INVALID_FIELD);
    assert_status(changed(&mut io, |command| command.cdw10 = buffer(39)), Status::INVALID_FIELD);
    for request_bytes in [0, 13, 15, 35, u32::MAX] {
        assert_status(changed(&mut io, |command| command.cdw12 = request_bytes), Status::INVALID_FIELD);
    }
    for keys in [0, 1, 3, 1025, u32::MAX] {
        assert_status(changed(&mut io, |command| command.cdw13 = keys), Status::INVALID_FIELD);
    }
}

#[test]
fn retrieve_many_of_keys_that_are_none_is_an_invalid_field() {
    let mut io = io();
    for request in [&[0; 14][..], &[17; 14], &[13; 14], &[6; 14]] {
        let mut command = command(&io, &[1, 2].map(key), BUFFER_BYTES, WHOLE_VALUE);
        io.point_prps(&mut command, DATA, BUFFER_BYTES);
        io.put(DATA, request);
        let done = io.run(command);
        let expected = if request[0] == 6 { Status::SUCCESS } else { Status::INVALID_FIELD };
        assert!(done.status().is(expected), "{request:?}: {}", done.status());
    }
}

#[test]
fn retrieve_many_whose_request_follows_in_the_ring_is_refused() {
    let mut io = io();
    let command = command(&io, &[1].map(key), BUFFER_BYTES, WHOLE_VALUE);
    let done = io.run_inline(command, b"\x06key001");
    assert_status(done, Status::SGL_TYPE_INVALID);
    let transported = SglDescriptor::new(SglKind::TRANSPORT_DATA_BLOCK, 0, BUFFER_BYTES as u32);
    assert_status(changed(&mut io, |command| command.set_sgl1(transported)), Status::SGL_TYPE_INVALID);
}

#[test]
fn retrieve_many_that_was_not_enabled_is_an_invalid_opcode() {
    let mut io = Io::new();
    assert_status(changed(&mut io, |_| ()), Status::INVALID_OPCODE);
}
