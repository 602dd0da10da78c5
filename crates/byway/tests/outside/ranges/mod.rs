//! Scans, cursors, batches and deletions of ranges: against a map, with and without the commands, and with a device that lies.

mod model;

use std::collections::BTreeMap;
use std::ops::Bound;

use byway::{Batch, ErrorKind, Key, KeyRange, Kv, Result, ScanOptions};
use proptest::prelude::*;

use model::{Lie, Model, STORE_MANY_BYTES};

/// Devices with every command, without, and with short bounds as the kernel carries them.
const WAYS: [(bool, u32); 3] = [(true, 16), (false, 16), (true, 8)];

fn key(bytes: &[u8]) -> Key {
    Key::new(bytes).unwrap()
}

/// A device with numbered keys `from..to`, each with its number as the value.
fn numbered(from: u32, to: u32) -> Model {
    let model = Model::default();
    model.state().pairs = (from..to).map(|n| (key(&n.to_be_bytes()), n.to_string().into_bytes())).collect();
    model
}

fn collect(kv: &mut Kv, range: KeyRange, options: ScanOptions) -> Vec<(Key, Vec<u8>)> {
    kv.scan_with(range, options).collect::<Result<_>>().unwrap()
}

#[test]
fn scan_of_100_small_pairs_is_one_command() {
    let model = numbered(0, 1000);
    let mut kv = model.kv(true, 16);
    let range = KeyRange::new([0, 0, 1, 0]..).unwrap();
    assert_eq!(collect(&mut kv, range, ScanOptions::default().limit(100)).len(), 100);
    assert_eq!(model.state().commands, ["scan"]);
}

#[test]
fn long_scan_is_paged_within_the_devices_result_and_lends_every_pair() {
    let model = numbered(0, 5000);
    let mut kv = model.kv(true, 16);
    let (mut scan, mut next) = (kv.scan(KeyRange::ALL), 0_u32);
    while let Some((key, value)) = scan.next_pair().unwrap() {
        assert_eq!((key, value), (&next.to_be_bytes()[..], next.to_string().as_bytes()));
        next += 1;
    }
    assert_eq!(next, 5000);
    let commands = model.state().commands.len();
    assert!((12..15).contains(&commands), "{commands} commands for 100 KB by 8 KiB");
}

#[test]
fn device_without_scan_is_listed_and_read_at_depth() {
    let model = numbered(0, 100);
    let mut kv = model.kv(false, 16);
    let pairs = collect(&mut kv, KeyRange::ALL, ScanOptions::default().backward(true));
    assert_eq!((pairs.len(), pairs[0].1.as_slice(), pairs[99].1.as_slice()), (100, &b"99"[..], &b"0"[..]));
    let commands = model.state().commands.clone();
    assert_eq!(commands.iter().filter(|command| **command == "retrieve").count(), 100);
}

#[test]
fn value_longer_than_a_page_is_read_by_itself() {
    for (has_all, bound) in WAYS {
        let model = numbered(0, 10);
        let long: Vec<u8> = (0..50_000_u32).map(|n| n as u8).collect();
        model.state().pairs.insert(key(&3_u32.to_be_bytes()), long.clone());
        let mut kv = model.kv(has_all, bound);
        let pairs = collect(&mut kv, KeyRange::ALL, ScanOptions::default());
        assert_eq!((pairs.len(), &pairs[3].1, pairs[4].1.as_slice()), (10, &long, &b"4"[..]));
        let prefixed = collect(&mut kv, KeyRange::ALL, ScanOptions::default().value_bytes(10));
        assert_eq!(prefixed[3].1, long[..10]);
    }
}

#[test]
fn lies_of_a_device_end_a_scan_with_an_error() {
    fn count(bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    }
    fn nothing(bytes: &mut [u8]) {
        bytes[..16].copy_from_slice(&[0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    fn beyond(bytes: &mut [u8]) {
        bytes[4..8].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    }
    fn moved(bytes: &mut [u8]) {
        bytes[24..28].copy_from_slice(&9_u32.to_le_bytes());
    }
    fn order(bytes: &mut [u8]) {
        bytes[28..32].copy_from_slice(&[9; 4]);
    }
    fn outside(bytes: &mut [u8]) {
        bytes[28..32].copy_from_slice(&[0x7f; 4]);
    }
    fn no_end(bytes: &mut [u8]) {
        // The same pairs for ever.
        bytes[8] = 0;
    }
    let lies: [(&str, Lie); 7] = [
        ("count", count),
        ("no pairs and no end", nothing),
        ("bytes beyond the buffer", beyond),
        ("value moved", moved),
        ("order", order),
        ("outside", outside),
        ("no end", no_end),
    ];
    for (name, lie) in lies {
        let model = numbered(0, 50);
        let mut kv = model.kv(true, 16);
        model.state().lie = Some(lie);
        let range = KeyRange::new([0; 4]..[0, 0, 1, 0]).unwrap();
        let mut scan = kv.scan(range);
        let failed = scan.by_ref().take(1000).find_map(|pair| pair.err());
        let error = failed.unwrap_or_else(|| panic!("{name} went unnoticed"));
        assert_eq!(error.kind(), ErrorKind::Protocol, "{name}: {error}");
        assert!(scan.next().is_none(), "{name}: a scan goes on after an error");
    }
}

#[test]
fn scan_over_deleted_keys_alone_resumes_behind_the_key_that_the_device_names() {
    let model = numbered(0, 0);
    model.state().deleted = (0..100_u32).map(|n| key(&n.to_be_bytes())).collect();
    for backward in [false, true] {
        let options = ScanOptions::default().backward(backward);
        assert_eq!(collect(&mut model.kv(true, 16), KeyRange::ALL, options), []);
        assert_eq!(std::mem::take(&mut model.state().commands), ["scan"; 34]);
    }
}

#[test]
fn key_to_resume_behind_that_goes_back_ends_a_scan_with_an_error() {
    fn first_key(bytes: &mut [u8]) {
        let at = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        bytes[at - 4..at].copy_from_slice(&[0; 4]);
    }
    fn long(bytes: &mut [u8]) {
        bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    }
    fn empty(bytes: &mut [u8]) {
        bytes[12..16].fill(0);
    }
    for lie in [first_key as Lie, long, empty] {
        let model = numbered(50, 60);
        model.state().deleted = (0..50_u32).map(|n| key(&n.to_be_bytes())).collect();
        model.state().lie = Some(lie);
        let mut kv = model.kv(true, 16);
        let error = kv.scan(KeyRange::ALL).take(1000).find_map(Result::err).expect("an error");
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }
}

#[test]
fn deletion_of_a_range_resumes_until_the_device_has_done_all() {
    for (has_all, bound) in WAYS {
        let model = numbered(0, 3000);
        let mut kv = model.kv(has_all, bound);
        let range = KeyRange::new([0, 0, 0, 10]..[0, 0, 8, 0]).unwrap();
        assert_eq!(kv.delete_range(range).unwrap(), 2038);
        assert_eq!(model.state().pairs.len(), 962);
        assert_eq!(kv.delete_range(range).unwrap(), 0);
    }
}

#[test]
fn deletion_that_goes_on_and_deletes_nothing_is_an_error() {
    let model = numbered(0, 30);
    model.state().never_ends = true;
    let error = model.kv(true, 16).delete_range(KeyRange::ALL).unwrap_err();
    assert_eq!((error.kind(), model.state().pairs.len()), (ErrorKind::Protocol, 30));
}

#[test]
fn range_with_a_long_bound_is_deleted_exactly_where_bounds_are_short() {
    let model = Model::default();
    let keys = [b"prefix-0aa", b"prefix-0ab", b"prefix-0ac"];
    model.state().pairs = keys.map(|bytes| (key(bytes), Vec::new())).into();
    let range = KeyRange::new(&b"prefix-0aa"[..]..&b"prefix-0ac"[..]).unwrap();
    assert_eq!(model.kv(true, 8).delete_range(range).unwrap(), 2);
    assert_eq!(model.state().pairs.keys().copied().collect::<Vec<_>>(), [key(b"prefix-0ac")]);
}

#[test]
fn batch_is_one_atomic_command_in_which_the_last_change_of_a_key_counts() {
    let model = numbered(0, 3);
    let mut kv = model.kv(true, 16);
    let mut batch = Batch::new();
    batch.put(&[0, 0, 0, 9], b"first").unwrap();
    batch.delete(&[0, 0, 0, 1]).unwrap();
    batch.put(&[0, 0, 0, 9], b"last").unwrap();
    kv.commit(&batch).unwrap();
    assert_eq!(model.state().commands, ["atomic"]);
    let nine = kv.get(&[0, 0, 0, 9]).unwrap().unwrap();
    assert_eq!((nine.as_slice(), kv.get(&[0, 0, 0, 1]).unwrap()), (&b"last"[..], None));
    batch.clear();
    kv.commit(&batch).unwrap();
}

#[test]
fn batch_that_the_device_cannot_do_is_refused_in_a_sentence() {
    let model = Model::default();
    let mut batch = Batch::new();
    batch.put(b"key", &[0; STORE_MANY_BYTES as usize]).unwrap();
    for (has_all, said) in [(false, "no atomic Store Many"), (true, "4096 bytes")] {
        let error = model.kv(has_all, 16).commit(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(said), "{error}");
    }
    assert!(model.state().commands.is_empty());
}

#[test]
fn many_keys_are_read_stored_and_deleted_by_few_commands_or_at_depth() {
    for (has_all, bound) in WAYS {
        let model = Model::default();
        let mut kv = model.kv(has_all, bound);
        let keys: Vec<Key> = (0..300_u32).map(|n| key(&n.to_be_bytes())).collect();
        let pairs = keys
            .iter()
            .map(|key| (*key, vec![key.as_bytes()[3]; 10 + 3000 * usize::from(key.as_bytes()[3] == 7)]));
        assert_eq!(kv.put_many(pairs.clone()).unwrap(), 300);
        let absent = [keys.clone(), vec![key(b"absent")]].concat();
        let mut values = vec![Some(Vec::new()); 301];
        kv.get_many(&absent, 100, |at, value| values[at] = value.map(<[u8]>::to_vec)).unwrap();
        assert!(pairs.clone().zip(&values).all(|((_, value), read)| Some(&value) == read.as_ref()));
        assert_eq!(values[300], None);
        kv.delete_many(&absent).unwrap();
        assert!(model.state().pairs.is_empty());
    }
}

/// Keys from few bytes, so that they meet often.
fn any_key() -> impl Strategy<Value = Key> {
    let byte = prop_oneof![Just(0), Just(1), Just(0x61), Just(0xfe), Just(0xff)];
    let len = prop_oneof![1..4_usize, 7..10_usize, 15..17_usize];
    len.prop_flat_map(move |len| prop::collection::vec(byte.clone(), len)).prop_map(|bytes| key(&bytes))
}

fn any_bound() -> impl Strategy<Value = Bound<Key>> {
    prop_oneof![
        Just(Bound::Unbounded),
        any_key().prop_map(Bound::Included),
        any_key().prop_map(Bound::Excluded),
    ]
}

fn any_pairs() -> impl Strategy<Value = BTreeMap<Key, Vec<u8>>> {
    let value = prop_oneof![9 => 0..40_usize, 1 => 5000..9000_usize].prop_map(|len| vec![len as u8; len]);
    prop::collection::btree_map(any_key(), value, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scan_gives_what_a_map_gives(
        pairs in any_pairs(), deleted in prop::collection::btree_set(any_key(), 0..40), start in any_bound(),
        end in any_bound(), backward: bool, way in 0..3_usize, limit in prop::option::of(0..20_u64), value_bytes in prop::option::of(0..50_u16),
    ) {
        let model = Model::default();
        model.state().pairs.clone_from(&pairs);
        model.state().deleted = deleted.into_iter().filter(|key| !pairs.contains_key(key)).collect();
        let range = KeyRange::new::<&[u8]>((as_bytes(&start), as_bytes(&end))).unwrap();
        let options = ScanOptions::default().backward(backward).limit(limit).value_bytes(value_bytes);
        let mut kv = model.kv(WAYS[way].0, WAYS[way].1);
        let inside = pairs.iter().filter(|(key, _)| range.contains(key));
        let mut expected: Vec<_> = inside.map(|(key, value)| {
            let moved = value_bytes.map_or(value.len(), |most| value.len().min(most.into()));
            (*key, value[..moved].to_vec())
        }).collect();
        if backward {
            expected.reverse();
        }
        expected.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        prop_assert_eq!(collect(&mut kv, range, options), expected);
    }

    #[test]
    fn cursor_moves_as_in_a_map(
        pairs in any_pairs(), moves in prop::collection::vec((0..6_u8, any_key()), 1..40), way in 0..3_usize,
    ) {
        let model = Model::default();
        model.state().pairs.clone_from(&pairs);
        let mut kv = model.kv(WAYS[way].0, WAYS[way].1);
        let keys: Vec<Key> = pairs.keys().copied().collect();
        // One before the first is -1.
        let (mut cursor, mut at) = (kv.cursor(), -1_i64);
        let last = keys.len() as i64;
        for (what, key) in moves {
            let went = match what {
                0 => { at = keys.partition_point(|other| *other < key) as i64; cursor.seek(key.as_bytes()) }
                1 => { at = last - 1; cursor.seek_last() }
                2 => { at = if last == 0 { last } else { 0 }; cursor.seek_first() }
                3 | 4 => { at = (at + 1).min(last); cursor.next() }
                _ => { at = (at - 1).max(-1); cursor.prev() }
            }.unwrap();
            let expected = usize::try_from(at).ok().and_then(|at| keys.get(at));
            prop_assert_eq!(went, expected.is_some());
            prop_assert_eq!(cursor.key(), expected.map(Key::as_bytes));
            prop_assert_eq!(cursor.value(), expected.map(|key| pairs[key].as_slice()));
        }
    }
}

fn as_bytes(bound: &Bound<Key>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key.as_bytes()),
        Bound::Excluded(key) => Bound::Excluded(key.as_bytes()),
        Bound::Unbounded => Bound::Unbounded,
    }
}
