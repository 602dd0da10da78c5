//! Batches: all of their changes, or none.

use std::collections::BTreeMap;

use crate::common::{Image, Rig, get, key, list, numbered, small, value};
use byway_kv::{Change, DeletedRange, Key, KvError, KvOptions, PASSED_MAX, Packing, Selection};
use byway_spec::vendor::KeyRange;

type Pairs = BTreeMap<Key, Vec<u8>>;

fn rig() -> Rig {
    Rig::new(4 << 20, small(Packing::default()))
}

fn store_many(rig: &mut Rig, changes: &[(Key, Option<&[u8]>)]) -> Result<(), KvError> {
    let changes: Vec<_> = changes.iter().map(|(key, value)| Change { key: *key, value: *value }).collect();
    rig.engine.store_many(&mut rig.store, &changes, &mut 0)
}

/// All pairs of an image that a kill has left.
fn pairs_of(rig: &Rig, image: Image) -> Pairs {
    let (mut store, mut engine, recovery) = rig.open_image(image);
    assert_eq!(recovery.damage, []);
    let keys = list(&mut engine, &mut store, b"");
    keys.into_iter().map(|(key, _)| (key, get(&mut engine, &mut store, &key).unwrap())).collect()
}

/// The word of feature bits in the header.
fn features(rig: &Rig) -> u8 {
    rig.store.image.state[16]
}

#[test]
fn a_batch_stores_and_deletes_and_the_last_change_of_a_key_counts() {
    let mut rig = rig();
    rig.put(&key(b"old"), b"1").unwrap();
    rig.put(&key(b"gone"), b"1").unwrap();
    let changes: [(Key, Option<&[u8]>); 8] = [
        (key(b"new"), Some(b"2")),
        (key(b"old"), Some(b"2")),
        (key(b"gone"), None),
        (key(b"never"), None),
        (key(b"back"), None),
        (key(b"back"), Some(b"2")),
        (key(b"passing"), Some(b"2")),
        (key(b"passing"), None),
    ];
    store_many(&mut rig, &changes).unwrap();
    for _ in 0..2 {
        let names = ["back", "new", "old"].map(|name| (key(name.as_bytes()), 1));
        assert_eq!(rig.list(b""), names);
        names.iter().for_each(|(key, _)| assert_eq!(rig.get(key).unwrap(), b"2"));
        assert_eq!(rig.reopen().damage, []);
    }
    let recovery = rig.reopen();
    assert_eq!(rig.check(&recovery), []);
}

#[test]
fn deletions_of_keys_that_are_not_there_leave_nothing() {
    let mut rig = rig();
    let before = rig.store.image.state.clone();
    store_many(&mut rig, &[(key(b"a"), None), (key(b"b"), None)]).unwrap();
    store_many(&mut rig, &[]).unwrap();
    assert_eq!(rig.store.image.state, before);
}

#[test]
fn a_kill_at_any_store_of_a_batch_leaves_all_of_it_or_none() {
    let mut rig = rig();
    let mut committed = 0;
    for round in 0..60u64 {
        let before = pairs_of(&rig, rig.store.image.clone());
        let len = [10, 300, 900][round as usize % 3];
        let values: Vec<_> = (0..10).map(|n| value(round * 16 + n, len + n as usize)).collect();
        let change = |n: usize| (numbered((round * 7 + n as u64) % 32), (n % 4 != 3).then(|| &values[n][..]));
        let changes: Vec<_> = (0..10).map(change).collect();
        rig.store.cuts = Some(Vec::new());
        store_many(&mut rig, &changes).unwrap();
        let after = pairs_of(&rig, rig.store.image.clone());
        for image in rig.store.cuts.take().unwrap() {
            let found = pairs_of(&rig, image);
            assert!(found == before || found == after, "round {round}: {} pairs", found.len());
            committed += u32::from(found == after);
        }
    }
    assert!(committed > 0, "no cut came after a commit");
}

#[test]
fn a_batch_that_is_refused_changes_nothing() {
    let mut rig = rig();
    rig.put(&key(b"kept"), b"1").unwrap();
    let limit = rig.engine.batch_max_bytes() as usize;
    let (half, long) = (vec![1; limit / 2], vec![1; limit + 1]);
    let kept: (Key, Option<&[u8]>) = (key(b"kept"), None);
    let too_long = [kept, (key(b"a"), Some(&half)), (key(b"b"), Some(&half))];
    assert!(matches!(store_many(&mut rig, &too_long), Err(KvError::BatchTooLong { .. })));
    assert!(matches!(
        store_many(&mut rig, &[kept, (key(b"a"), Some(&long))]),
        Err(KvError::BatchTooLong { .. } | KvError::ValueTooLong { .. })
    ));
    let many = vec![kept; rig.engine.batch_max_changes() + 1];
    assert!(matches!(store_many(&mut rig, &many), Err(KvError::BatchTooLong { .. })));
    assert_eq!(rig.list(b""), [(key(b"kept"), 1)]);
}

#[test]
fn the_longest_batch_fits_at_any_position_of_the_log() {
    let mut rig = Rig::new(8 << 20, small(Packing::default()));
    for round in 0..40usize {
        // From somewhere else in page and segment each time.
        rig.put(&key(b"before"), &value(1, round * 331 % 4000)).unwrap();
        let len = rig.engine.batch_max_bytes() as usize - 2 * (byway_kv::record_header_bytes(8) + 50);
        let (short, long) = (value(2, 50), value(3, len / 2));
        let changes: [(Key, Option<&[u8]>); 4] = [
            (numbered(1), Some(&short)),
            (numbered(2), Some(&long[..len / 2 - 2 * byway_kv::record_header_bytes(8)])),
            (numbered(3), Some(&short)),
            (numbered(4), Some(&long)),
        ];
        store_many(&mut rig, &changes).unwrap();
        assert_eq!(rig.reopen().damage, []);
        for (key, value) in changes {
            assert_eq!(rig.get(&key).unwrap(), value.unwrap());
        }
    }
}

#[test]
fn a_full_namespace_takes_all_of_a_batch_or_none() {
    let mut rig = Rig::new(768 << 10, small(Packing::default()));
    let (mut stored, mut refused) = (Pairs::new(), 0);
    for round in 0..400u64 {
        let values: Vec<_> = (0..8).map(|n| value(round * 8 + n, 500)).collect();
        let keys: Vec<_> = (0..8).map(|n| numbered(round * 8 % 1600 + n)).collect();
        let changes: Vec<_> = keys.iter().zip(&values).map(|(key, value)| (*key, Some(&value[..]))).collect();
        match store_many(&mut rig, &changes) {
            Ok(()) => keys.into_iter().zip(values).for_each(|(key, value)| drop(stored.insert(key, value))),
            Err(KvError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(rig.engine.used_bytes() <= rig.engine.capacity_bytes());
    }
    assert!(refused > 0 && !stored.is_empty());
    assert_eq!(pairs_of(&rig, rig.store.image.clone()), stored);
    // Deletions make room, alone and with stores beside them.
    let keys: Vec<_> = stored.keys().copied().collect();
    for group in keys.chunks(8) {
        store_many(&mut rig, &group.iter().map(|key| (*key, None)).collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(rig.list(b""), []);
    store_many(&mut rig, &[(key(b"again"), Some(b"1"))]).unwrap();
}

#[test]
fn batches_keep_the_memtable_within_its_bound_while_logs_are_compacted() {
    let options = small(Packing::default()).memtable_bytes(60 * 64);
    let mut rig = Rig::new(768 << 10, options);
    let most = 2 * rig.engine.batch_max_changes() as u64;
    for round in 0..600u64 {
        let values: Vec<_> = (0..24).map(|n| value(round * 32 + n, 200)).collect();
        // Half of each batch is soon replaced, and half stays.
        let number = |n: u64| if n < 12 { n } else { 100 + (round * 12 + n) % 1000 };
        let change = |n: u64| (numbered(number(n)), Some(&values[n as usize][..]));
        match store_many(&mut rig, &(0..24).map(change).collect::<Vec<_>>()) {
            Ok(()) | Err(KvError::Full) => {}
            Err(error) => panic!("{error}"),
        }
        let entries = rig.engine.stats().memtable_entries;
        assert!(entries <= most, "{entries} entries of {most}");
    }
    let stats = rig.engine.stats();
    assert!(stats.compaction.moved_records > 0, "{stats:?}");
}

#[test]
fn a_flush_behind_batches_lets_older_releases_open_the_image() {
    let mut rig = rig();
    assert_eq!(features(&rig), 0);
    store_many(&mut rig, &[(key(b"a"), Some(b"1")), (key(b"b"), Some(b"2"))]).unwrap();
    assert_eq!(features(&rig), 2);
    assert_eq!(rig.reopen().damage, []);
    assert_eq!(features(&rig), 2, "a batch is still to be replayed");
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    assert_eq!(features(&rig), 0);
}

/// A kill between the two writes of the bit leaves it without a checksum that covers it.
#[test]
fn a_bit_that_was_half_written_is_gone_after_an_opening() {
    let mut rig = rig();
    let whole = rig.store.image.state[..64].to_vec();
    rig.store.image.state[16] = 2;
    assert_eq!(rig.reopen().damage, []);
    assert_eq!(rig.store.image.state[..64], whole);
}

#[test]
fn a_batch_replaces_what_leases_stored_before_it() {
    let mut rig = Rig::new(32 << 20, small(Packing::default()));
    let lease = rig.engine.open_lease(&mut rig.store).unwrap();
    rig.put_leased(lease, &key(b"a"), b"first").unwrap();
    rig.put_leased(lease, &key(b"a"), b"second").unwrap();
    rig.put_leased(lease, &key(b"b"), b"second").unwrap();
    store_many(&mut rig, &[(key(b"a"), Some(b"third")), (key(b"b"), None)]).unwrap();
    for _ in 0..2 {
        assert_eq!(rig.list(b""), [(key(b"a"), 5)]);
        assert_eq!(rig.get(&key(b"a")).unwrap(), b"third");
        assert_eq!(rig.reopen().damage, []);
    }
}

#[test]
fn a_deletion_of_a_range_passes_any_number_of_tombstones() {
    let options = KvOptions::default().memtable_bytes(1 << 20);
    let mut rig = Rig::new(32 << 20, options);
    for n in 0..3 * PASSED_MAX as u64 {
        rig.put(&numbered(n), b"").unwrap();
        rig.delete(&numbered(n)).unwrap();
    }
    rig.put(&numbered(u64::MAX), b"last").unwrap();
    let mut selection = Selection::default();
    let Rig { engine, store, .. } = &mut rig;
    let range = KeyRange::default();
    let deleted = engine.delete_range(store, &range, usize::MAX, &mut selection, &mut 0).unwrap();
    assert_eq!(deleted, DeletedRange { deleted_keys: 1, has_more: false });
    let deleted = engine.delete_range(store, &range, usize::MAX, &mut selection, &mut 0).unwrap();
    assert_eq!(deleted, DeletedRange { deleted_keys: 0, has_more: false });
}
