//! The engine against a plain map: any commands, any policy, with the process dying in between.

use std::collections::BTreeMap;

use crate::common::{Rig, key, numbered, scan, small, value};
use byway_flash::FlashReads;
use byway_kv::{Change, Key, KvError, LeaseId, Packing, Placement, Selection, StoreHow, TryGet};
use byway_spec::vendor::KeyRange;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: Key,
        len: usize,
        dma: bool,
    },
    /// By one of two leases, beside the other.
    PutBeside {
        key: Key,
        len: usize,
        second: bool,
    },
    PutNew {
        key: Key,
        len: usize,
    },
    PutOver {
        key: Key,
        len: usize,
    },
    Delete(Key),
    /// Stores, and deletes where there is no length.
    Batch(Vec<(Key, Option<usize>)>),
    DeleteRange {
        range: KeyRange,
        most: usize,
    },
    Get(Key),
    List(Key, usize),
    Scan {
        range: KeyRange,
        most: usize,
        value_bytes: u32,
    },
    /// Steps of upkeep, while leases are active.
    Upkeep(usize),
    Die,
    Flush,
    Format,
}

/// Few keys, so that they meet again; of all lengths, and prefixes of each other.
fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => (0u8..40).prop_map(|n| key(&[b'k', n])),
        1 => proptest::collection::vec(0u8..2, 1..17).prop_map(|bytes| key(&bytes)),
    ]
}

fn any_len() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0usize..200, 2 => 200usize..5000, 1 => 5000usize..40_000, 1 => Just(4096), 1 => Just(8192)]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (any_key(), any_len(), any::<bool>()).prop_map(|(key, len, dma)| Op::Put { key, len, dma }),
        8 => (any_key(), 0usize..300, any::<bool>())
            .prop_map(|(key, len, second)| Op::PutBeside { key, len, second }),
        1 => (any_key(), any_len()).prop_map(|(key, len)| Op::PutNew { key, len }),
        1 => (any_key(), any_len()).prop_map(|(key, len)| Op::PutOver { key, len }),
        3 => any_key().prop_map(Op::Delete),
        2 => proptest::collection::vec((any_key(), proptest::option::weighted(0.7, 0usize..900)), 0..10)
            .prop_map(Op::Batch),
        1 => (any_range(), 1usize..20).prop_map(|(range, most)| Op::DeleteRange { range, most }),
        4 => any_key().prop_map(Op::Get),
        1 => (any_key(), 1usize..20).prop_map(|(start, limit)| Op::List(start, limit)),
        2 => (any_range(), 1usize..50, prop_oneof![Just(0), 1u32..100, Just(u32::MAX)])
            .prop_map(|(range, most, value_bytes)| Op::Scan { range, most, value_bytes }),
        4 => (1usize..20).prop_map(Op::Upkeep),
        1 => Just(Op::Die),
        1 => Just(Op::Flush),
    ]
}

fn any_range() -> impl Strategy<Value = KeyRange> {
    let end = || proptest::option::of(any_key());
    (end(), any::<bool>(), end(), any::<bool>()).prop_map(|(start, exclusive, bound, backward)| KeyRange {
        start,
        exclusive,
        bound,
        backward,
    })
}

/// Whether a range has a key, by the words of its description.
fn has(range: &KeyRange, key: &Key) -> bool {
    let is_behind_start = range.start.is_none_or(|start| match range.backward {
        false => *key > start || *key == start && !range.exclusive,
        true => *key < start || *key == start && !range.exclusive,
    });
    let is_before_bound =
        range.bound.is_none_or(|bound| if range.backward { *key >= bound } else { *key < bound });
    is_behind_start && is_before_bound
}

fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![100 => any_op(), 1 => Just(Op::Format)];
    proptest::collection::vec(op, 1..400)
}

struct Checked {
    rig: Rig,
    model: BTreeMap<Key, Vec<u8>>,
    leases: [Option<LeaseId>; 2],
}

impl Checked {
    fn put(&mut self, n: u64, key: &Key, len: usize, how: StoreHow) {
        let value = value(n, len);
        match self.rig.put_how(key, &value, how) {
            Ok(()) => {
                self.model.insert(*key, value);
                self.check_try_get(key);
            }
            // A full namespace says so; it is small here.
            Err(KvError::Full) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn put_beside(&mut self, n: u64, key: &Key, len: usize, second: bool) {
        let lease = &mut self.leases[usize::from(second)];
        *lease = lease.or_else(|| self.rig.engine.open_lease(&mut self.rig.store));
        let Some(lease) = *lease else { return };
        let value = value(n, len);
        match self.rig.put_leased(lease, key, &value) {
            Ok(()) => drop(self.model.insert(*key, value)),
            Err(KvError::Full) => {}
            Err(error) => panic!("{error}"),
        }
        self.check_try_get(key);
    }

    fn batch(&mut self, n: u64, changes: &[(Key, Option<usize>)]) {
        let values: Vec<_> = changes.iter().map(|(_, len)| len.map(|len| value(n, len))).collect();
        let pairs = changes.iter().zip(&values);
        let batch: Vec<_> =
            pairs.clone().map(|((key, _), value)| Change { key: *key, value: value.as_deref() }).collect();
        match self.rig.engine.store_many(&mut self.rig.store, &batch, &mut 0) {
            Ok(()) => pairs.for_each(|((key, _), value)| match value {
                Some(value) => drop(self.model.insert(*key, value.clone())),
                None => drop(self.model.remove(key)),
            }),
            Err(KvError::Full) => {}
            Err(error) => panic!("{error}"),
        }
        changes.iter().for_each(|(key, _)| self.check_try_get(key));
    }

    /// Deletes some keys of a range, the first of them.
    fn delete_range(&mut self, range: KeyRange, most: usize) {
        let mut keys: Vec<_> = self.model.keys().copied().filter(|key| has(&range, key)).collect();
        if range.backward {
            keys.reverse();
        }
        let Rig { engine, store, .. } = &mut self.rig;
        match engine.delete_range(store, &range, most, &mut Selection::default(), &mut 0) {
            Ok(deleted) => {
                assert!(deleted.deleted_keys <= most && (deleted.deleted_keys > 0 || keys.is_empty()));
                assert!(deleted.has_more || deleted.deleted_keys == keys.len());
                keys[..deleted.deleted_keys].iter().for_each(|key| drop(self.model.remove(key)));
            }
            Err(KvError::Full) => {}
            Err(error) => panic!("{error}"),
        }
        keys.iter().for_each(|key| self.check_try_get(key));
    }

    fn step(&mut self, n: u64, op: Op) {
        if !matches!(op, Op::PutBeside { .. } | Op::Upkeep(_) | Op::Die) {
            self.rig.engine.take_in(&mut self.rig.store);
        }
        let there = |model: &BTreeMap<Key, Vec<u8>>, key: &Key| model.contains_key(key);
        match op {
            Op::Put { key, len, dma } => {
                let placement = if dma { Placement::Dma } else { Placement::Packed };
                self.put(n, &key, len, StoreHow { placement, ..StoreHow::default() });
            }
            Op::PutBeside { key, len, second } => self.put_beside(n, &key, len, second),
            Op::PutNew { key, len } if !there(&self.model, &key) => {
                self.put(n, &key, len, StoreHow { must_not_exist: true, ..StoreHow::default() });
            }
            Op::PutNew { key, .. } => {
                let how = StoreHow { must_not_exist: true, ..StoreHow::default() };
                assert!(matches!(self.rig.put_how(&key, b"no", how), Err(KvError::Exists)));
            }
            Op::PutOver { key, len } if there(&self.model, &key) => {
                self.put(n, &key, len, StoreHow { must_exist: true, ..StoreHow::default() });
            }
            Op::PutOver { key, .. } => {
                let how = StoreHow { must_exist: true, ..StoreHow::default() };
                assert!(matches!(self.rig.put_how(&key, b"no", how), Err(KvError::NotFound)));
            }
            Op::Delete(key) => match self.rig.delete(&key) {
                Ok(was_there) => {
                    assert_eq!(was_there, self.model.remove(&key).is_some());
                    self.check_try_get(&key);
                }
                Err(KvError::Full) => {}
                Err(error) => panic!("{error}"),
            },
            Op::Batch(changes) => self.batch(n, &changes),
            Op::DeleteRange { range, most } => self.delete_range(range, most),
            Op::Get(key) => self.check(&key),
            Op::List(start, limit) => {
                let listed = self.rig.list(start.as_bytes());
                let expected = self.model.range(start..).map(|(k, v)| (*k, v.len() as u32));
                assert_eq!(listed[..limit.min(listed.len())], expected.take(limit).collect::<Vec<_>>());
            }
            Op::Scan { range, most, value_bytes } => self.check_scan(range, most, value_bytes),
            Op::Upkeep(steps) => {
                let Rig { engine, store, .. } = &mut self.rig;
                (0..steps).for_each(|_| {
                    engine.keep_up(store, &mut 0);
                });
            }
            Op::Die => {
                assert_eq!(self.rig.reopen().damage, []);
                self.leases = [None; 2];
            }
            Op::Flush => match self.rig.engine.flush(&mut self.rig.store, &mut 0) {
                Ok(()) | Err(KvError::Full) => {}
                Err(error) => panic!("{error}"),
            },
            Op::Format => {
                self.rig.engine.format(&mut self.rig.store, &mut 0).unwrap();
                self.model.clear();
                self.leases = [None; 2];
            }
        }
    }

    /// Scans a range, `most` pairs at a time.
    fn check_scan(&mut self, mut range: KeyRange, most: usize, value_bytes: u32) {
        let mut expected: Vec<_> = self.model.iter().filter(|(key, _)| has(&range, key)).collect();
        if range.backward {
            expected.reverse();
        }
        let mut expected = expected.into_iter();
        loop {
            let (pairs, is_end) = scan(&mut self.rig.engine, &mut self.rig.store, &range, most, value_bytes);
            for (key, len, value) in &pairs {
                let (expected_key, expected_value) = expected.next().unwrap();
                assert_eq!((key, *len as usize), (expected_key, expected_value.len()));
                assert_eq!(value[..], expected_value[..expected_value.len().min(value_bytes as usize)]);
            }
            match pairs.last() {
                Some((last, ..)) if !is_end => range = range.behind(*last),
                _ => break assert!(is_end && expected.next().is_none()),
            }
        }
    }

    fn check(&mut self, key: &Key) {
        self.check_try_get(key);
        match (self.rig.get(key), self.model.get(key)) {
            (Ok(found), Some(expected)) => assert_eq!(&found, expected, "{key}"),
            (Err(KvError::NotFound), None) => {}
            (found, expected) => panic!("{key}: {found:?} where {:?} was put", expected.map(Vec::len)),
        }
    }

    /// A get by shared reference says the same, or nothing.
    fn check_try_get(&self, key: &Key) {
        let (mut into, expected) = (vec![0; 50_000], self.model.get(key));
        match self.rig.engine.try_get(&self.rig.store, key, false, &mut into) {
            TryGet::Found { len_bytes, .. } => {
                assert_eq!(Some(&into[..len_bytes as usize]), expected.map(Vec::as_slice))
            }
            TryGet::Absent => assert_eq!(expected, None, "{key}"),
            TryGet::Unknown => {}
        }
    }

    fn check_all(&mut self) {
        let keys: Vec<Key> = self.model.keys().copied().collect();
        keys.iter().for_each(|key| self.check(key));
        let expected: Vec<_> = self.model.iter().map(|(k, v)| (*k, v.len() as u32)).collect();
        assert_eq!(self.rig.list(b""), expected);
        for backward in [false, true] {
            self.check_scan(KeyRange { backward, ..KeyRange::default() }, 1000, u32::MAX);
        }
    }
}

fn run(packing: Packing, size_bytes: u64, ops: Vec<Op>) {
    let mut checked =
        Checked { rig: Rig::new(size_bytes, small(packing)), model: BTreeMap::new(), leases: [None; 2] };
    for (n, op) in ops.into_iter().enumerate() {
        checked.step(n as u64, op);
    }
    checked.rig.engine.take_in(&mut checked.rig.store);
    checked.check_all();
    assert_eq!(checked.rig.reopen().damage, []);
    checked.check_all();
}

/// One that runs full, and one that does not.
fn size(large: bool) -> u64 {
    if large { 4 << 20 } else { 768 << 10 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_engine_that_packs_everything_is_a_map_that_survives(ops in any_ops(), large: bool) {
        run(Packing::All, size(large), ops);
    }

    #[test]
    fn an_engine_that_packs_selectively_is_a_map_that_survives(ops in any_ops(), large: bool) {
        run(Packing::Selective, size(large), ops);
    }

    #[test]
    fn an_engine_that_backfills_is_a_map_that_survives(ops in any_ops(), large: bool) {
        run(Packing::SelectiveBackfill, size(large), ops);
    }
}

#[test]
fn a_get_by_shared_reference_finds_what_is_in_memory_and_what_a_hint_names() {
    let mut rig = Rig::new(4 << 20, small(Packing::All));
    rig.put(&key(b"kept"), b"value").unwrap();
    let found = |rig: &Rig, key: Key, into: &mut [u8]| rig.engine.try_get(&rig.store, &key, false, into);
    let mut into = [0; 8];
    assert_eq!(found(&rig, key(b"other"), &mut into), TryGet::Absent);
    let kept = found(&rig, key(b"kept"), &mut into[..3]);
    assert_eq!(kept, TryGet::Found { len_bytes: 5, reads: FlashReads::default() });
    assert_eq!(into, *b"val\0\0\0\0\0");
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    assert!(matches!(found(&rig, key(b"kept"), &mut into), TryGet::Found { len_bytes: 5, .. }));
    assert_eq!(found(&rig, key(b"other"), &mut into), TryGet::Unknown, "a run is searched under the lock");
}

#[test]
fn a_get_by_shared_reference_finds_records_that_lie_in_several_pages() {
    let mut rig = Rig::new(4 << 20, small(Packing::All));
    let values: Vec<Vec<u8>> = (0..12).map(|n| value(n, 10_000)).collect();
    for (n, value) in values.iter().enumerate() {
        rig.put(&numbered(n as u64), value).unwrap();
    }
    let get = |rig: &Rig, n: usize, into: &mut [u8]| {
        rig.engine.try_get(&rig.store, &numbered(n as u64), false, into)
    };
    let mut into = vec![0; 10_000];
    for (n, value) in values.iter().enumerate() {
        let found = get(&rig, n, &mut into);
        assert!(matches!(found, TryGet::Found { len_bytes: 10_000, .. }), "{n}: {found:?}");
        assert_eq!(&into, value, "{n}");
    }
    let TryGet::Found { reads, .. } = get(&rig, 0, &mut into) else { panic!("it was found before") };
    let before = rig.store.reads;
    rig.get(&numbered(0)).unwrap();
    assert_eq!((reads.pages, reads.bytes), (rig.store.reads - before, reads.pages << 12), "pages have 4 KiB");
    assert_eq!(get(&rig, 0, &mut into[..9_999]), TryGet::Unknown, "there is no room to check it in");
}

#[test]
fn a_get_by_shared_reference_leaves_a_damaged_record_of_several_pages_to_a_verified_read() {
    let mut rig = Rig::new(4 << 20, small(Packing::All));
    (0..12).for_each(|n| rig.put(&numbered(n), &value(n, 10_000)).unwrap());
    let pages: Vec<u64> = rig.store.image.pages.keys().copied().collect();
    for page in pages {
        let flipped: Vec<u8> = rig.store.image.pages[&page].iter().map(|byte| byte ^ 1).collect();
        rig.store.image.pages.insert(page, flipped.into());
    }
    let mut into = vec![0; 10_000];
    assert_eq!(rig.engine.try_get(&rig.store, &numbered(0), false, &mut into), TryGet::Unknown);
}
