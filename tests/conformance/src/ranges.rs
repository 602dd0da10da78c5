//! Scans, cursors, deletions of ranges, and calls of many keys: they say what a map would, with the device's own commands and
//! without them.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use byway::{Batch, Capabilities, ErrorKind, Key, KeyRange, Kv, KvCommands, Result, ScanOptions};

type Model = BTreeMap<Key, Vec<u8>>;

/// Values of every length that matters: none, small, of a page, longer than a page of a scan.
const LENGTHS: [usize; 8] = [0, 1, 30, 127, 4095, 4096, 4097, 300_000];

/// The same calls without any of the device's commands for ranges and many keys.
#[must_use]
pub fn without_commands(kv: Kv, capabilities: &Capabilities) -> Kv {
    let mut without = capabilities.clone();
    without.kv = KvCommands::default();
    let kv = kv.with_capabilities(&without);
    assert_eq!(kv.can(), KvCommands::default());
    kv
}

/// Calls on ranges and on many keys, to an empty namespace.
pub fn every_range(kv: &mut Kv) {
    let mut model = Model::new();
    for n in 0..400_u32 {
        // Keys of 1 to 16 bytes, of which many share beginnings.
        let text = format!("{}{n:03}-and-so-long", ["", "a", "ab", "abc"][n as usize % 4]);
        let key = Key::new(&text.as_bytes()[..1 + (n as usize * 7) % 16]).unwrap();
        model.insert(key, value(n));
    }
    let pairs = model.iter().map(|(key, value)| (*key, value));
    assert_eq!(kv.put_many(pairs).unwrap(), model.len() as u64);
    // What is deleted is in the index still, and in no range.
    let deleted: Vec<Key> = model.keys().copied().step_by(3).collect();
    kv.delete_many(&deleted).unwrap();
    kv.delete_many(&deleted).unwrap();
    deleted.iter().for_each(|key| drop(model.remove(key)));
    many(kv, &model, &deleted);
    ranges().iter().for_each(|range| scans(kv, &model, *range));
    cursor(kv, &model);
    batch(kv, &mut model);
    deletions(kv, &mut model);
}

fn value(n: u32) -> Vec<u8> {
    let len = if n % 101 == 100 { LENGTHS[7] } else { LENGTHS[n as usize % 7] };
    (0..len).map(|at| (at as u32 * 3 + n) as u8).collect()
}

fn ranges() -> Vec<KeyRange> {
    let key = |bytes: &'static [u8]| bytes;
    let between = |start, end| KeyRange::new::<&[u8]>((start, end)).unwrap();
    vec![
        KeyRange::ALL,
        between(Included(key(b"a")), Unbounded),
        between(Excluded(key(b"a")), Included(key(b"ab"))),
        between(Unbounded, Excluded(key(b"abc"))),
        between(Included(key(b"ab1")), Excluded(key(b"abc2"))),
        between(Included(key(b"a1")), Excluded(key(b"ab121-and-so-long".first_chunk::<16>().unwrap()))),
        between(Included(key(b"x")), Unbounded),
        KeyRange::prefix(b"ab").unwrap(),
        KeyRange::prefix(b"nothing").unwrap(),
    ]
}

fn scans(kv: &mut Kv, model: &Model, range: KeyRange) {
    let all = || model.iter().filter(|(key, _)| range.contains(key));
    for backward in [false, true] {
        let options = ScanOptions::default().backward(backward);
        let mut wanted: Vec<(Key, Vec<u8>)> = all().map(|(key, value)| (*key, value.clone())).collect();
        if backward {
            wanted.reverse();
        }
        let mut scanned = |options| kv.scan_with(range, options).collect::<Result<Vec<_>>>().unwrap();
        assert!(scanned(options) == wanted, "{range:?}, {options:?}");
        for limit in [1, 7, 150] {
            let limited = scanned(options.limit(limit));
            assert!(limited[..] == wanted[..wanted.len().min(limit as usize)], "{range:?}, {limit}");
        }
        let keys: Vec<(Key, Vec<u8>)> = wanted.iter().map(|(key, _)| (*key, Vec::new())).collect();
        assert!(scanned(options.keys_only(true)) == keys, "{range:?}, keys");
        wanted.iter_mut().for_each(|(_, value)| value.truncate(10));
        assert!(scanned(options.value_bytes(10)) == wanted, "{range:?}, the first ten bytes");
    }
}

fn cursor(kv: &mut Kv, model: &Model) {
    let keys: Vec<&Key> = model.keys().collect();
    let mut cursor = kv.cursor();
    assert!(cursor.seek(keys[20].as_bytes()).unwrap());
    for key in &keys[21..40] {
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.key(), Some(key.as_bytes()));
    }
    for key in keys[5..39].iter().rev() {
        assert!(cursor.prev().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (Some(key.as_bytes()), Some(&model[*key][..])));
    }
    assert!(cursor.seek_last().unwrap() && !cursor.next().unwrap());
}

fn many(kv: &mut Kv, model: &Model, deleted: &[Key]) {
    let absent = (0..900_u128).map(|n| Key::new(&n.to_be_bytes()).unwrap());
    // More than any command takes, some twice; requests longer than a capsule takes.
    let mut keys: Vec<Key> = model.keys().copied().chain(deleted.iter().copied()).collect();
    keys.extend(absent);
    keys.extend(model.keys().rev());
    for room_bytes in [0, 10, 127, 4096, 70_000] {
        let keys = if room_bytes > 5000 { &keys[..100] } else { &keys[..] };
        let mut seen = vec![0; keys.len()];
        kv.get_many(keys, room_bytes, |at, value| {
            assert!(value == model.get(&keys[at]).map(Vec::as_slice), "{:?}", keys[at]);
            seen[at] += 1;
        })
        .unwrap();
        assert_eq!(seen, vec![1; keys.len()], "room for {room_bytes} bytes");
    }
    kv.get_many(&[], 100, |_, _| unreachable!("no key")).unwrap();
    kv.put_many(std::iter::empty::<(Key, Vec<u8>)>()).unwrap();
    kv.delete_many(&[]).unwrap();
}

/// Stores, deletions of keys that are there and that are not, and several changes of a key, all together; or nothing where the
/// device cannot do that.
fn batch(kv: &mut Kv, model: &mut Model) {
    let (mut batch, mut after) = (Batch::new(), model.clone());
    for (n, key) in model.keys().copied().enumerate().take(90) {
        let value = value(n as u32 % 3);
        batch.put(key.as_bytes(), b"not this one").unwrap();
        if n % 3 == 0 {
            batch.delete(key.as_bytes()).unwrap();
            after.remove(&key);
        } else {
            batch.put(key.as_bytes(), &value).unwrap();
            after.insert(key, value);
        }
    }
    batch.delete(b"absent").unwrap();
    match kv.commit(&batch) {
        Ok(()) => *model = after,
        Err(error) => {
            assert!(error.kind() == ErrorKind::Unsupported && !kv.can().store_many_atomic, "{error}");
        }
    }
    scans(kv, model, KeyRange::ALL);
    let mut long = Batch::new();
    long.put(b"long", &vec![1; 2 << 20]).unwrap();
    assert_eq!(kv.commit(&long).unwrap_err().kind(), ErrorKind::Unsupported);
    kv.commit(&Batch::new()).unwrap();
}

fn deletions(kv: &mut Kv, model: &mut Model) {
    for range in [KeyRange::prefix(b"ab").unwrap(), KeyRange::new(&b"2"[..]..).unwrap(), KeyRange::ALL] {
        let there = model.len();
        model.retain(|key, _| !range.contains(key));
        assert_eq!(kv.delete_range(range).unwrap(), (there - model.len()) as u64);
        let left: Vec<Key> = kv.keys(None).collect::<Result<_>>().unwrap();
        assert!(left.iter().eq(model.keys()), "{range:?}");
        scans(kv, model, KeyRange::ALL);
    }
}
