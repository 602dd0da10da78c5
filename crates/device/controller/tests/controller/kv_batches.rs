//! Changes of many keys that take effect atomically: atomic Store Many, and Delete Range.

use std::collections::BTreeMap;

use byway_kit::pattern;
use byway_spec::base::identify::{Cns, Controller, Csi};
use byway_spec::kv::KvOpcode;
use byway_spec::vendor::{
    BulkPair, DeleteRangeResult, KeyRange, Methods, ScanCdw10, ScanCdw11, ScanHeader, ScanPair,
    StoreManyCdw12, VendorOpcode, WHOLE_VALUE,
};
use byway_spec::{Command, Completion, Key, Status};
use zerocopy::{FromBytes, IntoBytes};

use crate::io::{DATA, Io, KV, assert_status, keyed};

const ATOMIC: StoreManyCdw12 = StoreManyCdw12::new().with_atomic(true);

fn io() -> Io {
    let mut io = Io::new();
    io.enable_methods();
    io
}

/// A payload of pairs, of which one without a value is a deletion.
fn payload(changes: &[(&[u8], Option<&[u8]>)]) -> Vec<u8> {
    let mut payload = (changes.len() as u32).to_le_bytes().to_vec();
    for (key, value) in changes {
        let flags = if value.is_none() { BulkPair::DELETE } else { 0 };
        let value = value.unwrap_or_default();
        let (key_len, value_len) = (key.len() as u8, value.len() as u32);
        payload.extend_from_slice(BulkPair { key_len, value_len, flags, ..BulkPair::default() }.as_bytes());
        for part in [*key, value] {
            payload.extend_from_slice(part);
            payload.resize(payload.len().next_multiple_of(4), 0);
        }
    }
    payload
}

fn store_many(io: &mut Io, payload: &[u8], options: u32) -> Completion {
    let mut command = Command::new(VendorOpcode::KV_BULK_STORE.0, 0, KV);
    (command.cdw10, command.cdw12) = (payload.len() as u32, options);
    io.put(DATA, payload);
    io.point_prps(&mut command, DATA, payload.len());
    io.run(command)
}

fn store(io: &mut Io, key: &[u8], value: &[u8]) {
    let mut command = keyed(KvOpcode::STORE.0, key, value.len());
    io.put(DATA, value);
    io.point_prps(&mut command, DATA, value.len());
    assert_status(io.run(command), Status::SUCCESS);
}

fn delete_range(io: &mut Io, range: &KeyRange, most: u32) -> DeleteRangeResult {
    let mut command = Command::new(VendorOpcode::KV_DELETE_RANGE.0, 0, KV);
    command.cdw10 = most;
    range.write_to(&mut command);
    let done = io.run(command);
    assert_status(done, Status::SUCCESS);
    DeleteRangeResult::from_bits(done.dw0)
}

/// All pairs, which fit one result.
fn all(io: &mut Io) -> BTreeMap<Vec<u8>, Vec<u8>> {
    const BUFFER_BYTES: usize = 256 << 10;
    let mut command = Command::new(VendorOpcode::KV_SCAN.0, 0, KV);
    command.cdw10 = ScanCdw10::new().with_buffer_bytes(BUFFER_BYTES as u32).into_bits();
    command.cdw11 = ScanCdw11::new().with_value_prefix(WHOLE_VALUE).into_bits();
    io.point_prps(&mut command, DATA, BUFFER_BYTES);
    assert_status(io.run(command), Status::SUCCESS);
    let result = io.get(DATA, BUFFER_BYTES);
    let (head, mut rest) = ScanHeader::read_from_prefix(&result).unwrap();
    assert_eq!(head.is_end, 1);
    let mut pairs = BTreeMap::new();
    for _ in 0..head.count {
        let (pair, behind) = ScanPair::read_from_prefix(rest).unwrap();
        let (len, moved) = (usize::from(pair.key_len), pair.value_moved as usize);
        let value = behind[len.next_multiple_of(4)..][..moved].to_vec();
        pairs.insert(behind[..len].to_vec(), value);
        rest = &rest[ScanPair::bytes(len, moved)..];
    }
    pairs
}

fn key(n: u32) -> Option<Key> {
    Key::new(format!("key{n:04}").as_bytes()).ok()
}

#[test]
fn an_atomic_store_many_stores_and_deletes() {
    let mut io = io();
    store(&mut io, b"gone", b"1");
    store(&mut io, b"kept", b"1");
    let long = pattern(1, 5000);
    let changes: [(&[u8], Option<&[u8]>); 4] =
        [(b"new", Some(&long)), (b"gone", None), (b"never", None), (b"empty", Some(b""))];
    let done = store_many(&mut io, &payload(&changes), ATOMIC.into_bits());
    assert_status(done, Status::SUCCESS);
    assert_eq!(done.dw0, 4);
    let expected: [(&[u8], &[u8]); 3] = [(b"empty", b""), (b"kept", b"1"), (b"new", &long)];
    assert_eq!(all(&mut io), expected.map(|(key, value)| (key.to_vec(), value.to_vec())).into());
}

#[test]
fn an_atomic_store_many_that_is_refused_changes_nothing() {
    let mut io = io();
    store(&mut io, b"kept", b"1");
    let good = payload(&[(b"kept", Some(b"2")), (b"new", Some(b"2"))]);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let (first, second) = (4, 4 + BulkPair::bytes(4, 1));
    let (no_key, long_key, flags) = (with(second, 0), with(first, 17), with(second + 1, 2));
    let deletes_a_value = with(first + 1, BulkPair::DELETE);
    let one_more = with(0, 3);
    for (bytes, status) in [
        (no_key, Status::INVALID_KEY_SIZE),
        (long_key, Status::INVALID_KEY_SIZE),
        (flags, Status::INVALID_FIELD),
        (deletes_a_value, Status::INVALID_FIELD),
        (one_more, Status::INVALID_FIELD),
    ] {
        assert_status(store_many(&mut io, &bytes, ATOMIC.into_bits()), status);
    }
    // Options that there are not, and deletions among pairs that are stored one by one.
    assert_status(store_many(&mut io, &good, 2), Status::INVALID_FIELD);
    assert_status(store_many(&mut io, &payload(&[(b"kept", None)]), 0), Status::INVALID_FIELD);
    assert_eq!(all(&mut io), [(b"kept".to_vec(), b"1".to_vec())].into());
}

#[test]
fn a_payload_of_the_announced_limit_is_taken_whatever_its_pairs() {
    let mut io = io();
    let data = io.host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    let (controller, _) = Controller::read_from_prefix(&data).unwrap();
    let limit = controller.vendor.store_many_max_bytes as usize;
    assert!(limit >= 16 << 10, "{limit}");
    // Most record bytes for each byte of payload: keys of four bytes without values.
    let pairs = (limit - 4) / BulkPair::bytes(4, 0);
    let keys: Vec<_> = (0..pairs as u32).map(u32::to_be_bytes).collect();
    let changes: Vec<(&[u8], Option<&[u8]>)> = keys.iter().map(|key| (&key[..], Some(&[][..]))).collect();
    assert_status(store_many(&mut io, &payload(&changes), ATOMIC.into_bits()), Status::SUCCESS);
    assert_eq!(all(&mut io).len(), pairs);
    let value = pattern(2, limit - 4 - BulkPair::bytes(4, 0));
    let done = store_many(&mut io, &payload(&[(b"long", Some(&value))]), ATOMIC.into_bits());
    assert_status(done, Status::SUCCESS);
    let value = pattern(3, limit);
    let changes: [(&[u8], Option<&[u8]>); 3] =
        [(b"a", Some(&value)), (b"b", Some(&value)), (b"c", Some(&value))];
    assert_status(store_many(&mut io, &payload(&changes), ATOMIC.into_bits()), Status::INVALID_FIELD);
}

#[test]
fn delete_range_deletes_the_range_and_says_whether_more_is_there() {
    let mut io = io();
    (0..300_u32).for_each(|n| store(&mut io, format!("key{n:04}").as_bytes(), b"1"));
    let range = KeyRange { start: key(10), bound: key(20), ..KeyRange::default() };
    let result = delete_range(&mut io, &range, 0);
    assert_eq!((result.deleted(), result.has_more()), (10, false));
    assert_eq!((delete_range(&mut io, &range, 0).deleted(), all(&mut io).len()), (0, 290));
    let backward = KeyRange { start: key(299), backward: true, bound: key(200), ..KeyRange::default() };
    let result = delete_range(&mut io, &backward, 30);
    assert_eq!((result.deleted(), result.has_more()), (30, true));
    assert!(all(&mut io).keys().next_back().unwrap() == b"key0269");
    let mut rounds = 0;
    while delete_range(&mut io, &KeyRange::default(), 100).has_more() {
        rounds += 1;
    }
    assert_eq!((rounds, all(&mut io).len()), (2, 0));
}

#[test]
fn delete_range_ends_where_a_range_is_longer_than_one_command_deletes() {
    let mut io = io();
    for group in 0..30_u32 {
        let keys: Vec<_> = (0..100).map(|n| format!("key{:04}", group * 100 + n)).collect();
        let changes: Vec<(&[u8], Option<&[u8]>)> =
            keys.iter().map(|key| (key.as_bytes(), Some(&b"1"[..]))).collect();
        assert_status(store_many(&mut io, &payload(&changes), ATOMIC.into_bits()), Status::SUCCESS);
    }
    let (mut deleted, mut commands) = (0, 0);
    loop {
        let result = delete_range(&mut io, &KeyRange::default(), 0);
        (deleted, commands) = (deleted + result.deleted(), commands + 1);
        if !result.has_more() {
            break;
        }
    }
    assert!(deleted == 3000 && commands > 1, "{deleted} keys by {commands} commands");
}

#[test]
fn commands_that_the_host_did_not_enable_are_refused() {
    let mut io = Io::new();
    let range = Command::new(VendorOpcode::KV_DELETE_RANGE.0, 0, KV);
    assert_status(io.run(range), Status::INVALID_OPCODE);
    io.enable(Methods::new().with_bulk(true));
    assert_status(io.run(range), Status::INVALID_OPCODE);
    let bytes = payload(&[(b"a", Some(b"1"))]);
    assert_status(store_many(&mut io, &bytes, ATOMIC.into_bits()), Status::INVALID_FIELD);
    assert_status(store_many(&mut io, &bytes, 0), Status::SUCCESS);
}
