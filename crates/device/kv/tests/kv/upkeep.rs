//! Upkeep ahead of stores, by threads that have nothing else to do.

use std::collections::BTreeMap;

use crate::common::{Rig, numbered, small, value};
use byway_kit::Random;
use byway_kv::{KvOptions, LeaseId, Packing, TryGet, Work};

const KEYS: u64 = 12_000;
const LEN: usize = 300;

fn options() -> KvOptions {
    small(Packing::All).memtable_bytes(60 * 4000)
}

/// A namespace that is nearly full and was overwritten for a while.
fn worn() -> (Rig, BTreeMap<u64, u64>) {
    let mut rig = Rig::new(8 << 20, options());
    let (mut random, mut versions) = (Random::new(1), BTreeMap::new());
    let mut stored = 0;
    while rig.engine.used_bytes() < rig.engine.capacity_bytes() / 100 * 90 && stored < KEYS {
        put(&mut rig, &mut versions, stored, 0);
        stored += 1;
    }
    for version in 1..2 * stored {
        put(&mut rig, &mut versions, random.below(stored), version);
    }
    (rig, versions)
}

fn put(rig: &mut Rig, versions: &mut BTreeMap<u64, u64>, n: u64, version: u64) {
    rig.put(&numbered(n), &value(version, LEN)).unwrap();
    versions.insert(n, version);
}

fn keep_up(rig: &mut Rig) -> bool {
    rig.engine.keep_up(&mut rig.store, &mut 0)
}

/// Upkeep until there is none left; how many steps.
fn keep_up_until_quiet(rig: &mut Rig) -> u64 {
    let mut steps = 0;
    while keep_up(rig) {
        steps += 1;
        assert!(steps < 1_000_000, "upkeep of an engine without stores ends");
    }
    steps
}

fn check(rig: &mut Rig, versions: &BTreeMap<u64, u64>) {
    for (n, version) in versions {
        assert_eq!(rig.get(&numbered(*n)).unwrap(), value(*version, LEN), "{n}");
    }
}

#[test]
fn upkeep_of_an_engine_without_stores_ends() {
    let (mut rig, versions) = worn();
    assert!(keep_up_until_quiet(&mut rig) > 0, "a full namespace owes some");
    let before = rig.engine.stats();
    assert!(!rig.engine.owes_upkeep());
    for _ in 0..1000 {
        assert!(!keep_up(&mut rig));
    }
    let after = rig.engine.stats();
    assert_eq!((after.index, after.compaction), (before.index, before.compaction));
    check(&mut rig, &versions);
    assert_eq!(rig.reopen().damage, []);
    check(&mut rig, &versions);
}

/// Work of stores of some keys, with as many steps of upkeep before each.
fn work_of_stores(steps: usize) -> Work {
    let (mut rig, mut versions) = worn();
    let (mut random, mut all) = (Random::new(2), Work::default());
    for version in 0..3000 {
        for _ in 0..steps {
            keep_up(&mut rig);
        }
        let n = random.below(versions.len() as u64);
        put(&mut rig, &mut versions, n, 1_000_000 + version);
        let work = rig.engine.last_work();
        all.entries += work.entries;
        all.records += work.records;
        all.pages_written += work.pages_written;
    }
    check(&mut rig, &versions);
    all
}

#[test]
fn upkeep_does_the_work_that_stores_would_owe() {
    let (alone, helped) = (work_of_stores(0), work_of_stores(2));
    assert!(helped.entries * 4 < alone.entries, "{helped:?} beside upkeep, {alone:?} without");
    assert!(helped.records * 4 < alone.records, "{helped:?} beside upkeep, {alone:?} without");
    assert!(helped.pages_written < alone.pages_written, "{helped:?} beside upkeep, {alone:?} without");
}

/// A lease that has room, by the store of a key.
fn renewed(rig: &mut Rig, versions: &mut BTreeMap<u64, u64>, lease: LeaseId, n: u64, version: u64) {
    rig.put_leased(lease, &numbered(n), &value(version, LEN)).unwrap();
    versions.insert(n, version);
}

#[test]
fn compaction_leaves_leases_active_and_newer_stores_of_what_it_moves_count() {
    let (mut rig, mut versions) = worn();
    let lease = rig.engine.open_lease(&mut rig.store).unwrap();
    let (mut random, keys) = (Random::new(3), versions.len() as u64);
    let (mut beside, mut moved_beside) = (0, 0);
    for version in 10_000_000..10_020_000 {
        let n = random.below(keys);
        if rig.engine.put_beside(&rig.store, lease, &numbered(n), &value(version, LEN)) {
            versions.insert(n, version);
            beside += 1;
            let before = rig.engine.stats().compaction.moved_records;
            keep_up(&mut rig);
            moved_beside += rig.engine.stats().compaction.moved_records - before;
            // What was just stored waits to be taken in, unless the step had a memtable written out.
            let mut into = [0; LEN];
            if rig.engine.try_get(&rig.store, &numbered(n), false, &mut into) != TryGet::Unknown {
                assert_eq!(into[..], value(version, LEN), "what was moved is older than {n}");
            }
        } else {
            renewed(&mut rig, &mut versions, lease, n, version);
        }
        if version % 5000 == 4999 {
            // A kill, with records that wait.
            let killed = rig.store.image.clone();
            let (mut store, mut engine, recovery) = rig.open_image(killed);
            assert_eq!(recovery.damage, []);
            for (n, version) in &versions {
                let found = crate::common::get(&mut engine, &mut store, &numbered(*n)).unwrap();
                assert_eq!(found, value(*version, LEN), "{n}");
            }
        }
    }
    assert!(beside > 10_000, "{beside} stores by the lease");
    assert!(moved_beside > 1000, "{moved_beside} records moved while the lease was active");
    rig.engine.take_in(&mut rig.store);
    check(&mut rig, &versions);
    let recovery = rig.reopen();
    assert_eq!(rig.check(&recovery), []);
    check(&mut rig, &versions);
}
