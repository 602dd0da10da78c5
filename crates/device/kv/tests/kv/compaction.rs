//! Log compaction: a namespace that is full goes on, loses nothing, and says exactly when there is no room.

use std::collections::BTreeMap;

use crate::common::{Image, Rig, get, key, list, numbered, small, value};
use byway_kit::Random;
use byway_kv::{Key, KvError, KvOptions, Packing, Placement, StoreHow, WindowId, record_header_bytes};
use proptest::prelude::*;

type Model = BTreeMap<Key, Vec<u8>>;

const SIZE: u64 = 2 << 20;
/// What a key takes beside its record.
const INDEX_BYTES: u64 = 36;
/// Where the segment table begins in the state area of [`crate::common::tiny_format`], and the bytes of a row.
const ROWS_AT: usize = 4096 * 6;
const ROW_BYTES: usize = 16;

fn charge(key: &Key, value: &[u8]) -> u64 {
    record_header_bytes(key.len()) as u64 + value.len() as u64 + INDEX_BYTES
}

fn charges(model: &Model) -> u64 {
    model.iter().map(|(key, value)| charge(key, value)).sum()
}

/// Puts new keys until the namespace is full; returns the model of its content.
fn fill(rig: &mut Rig, len: impl Fn(u64) -> usize) -> Model {
    let mut model = Model::new();
    for n in 0.. {
        let (key, value) = (numbered(n), value(n, len(n)));
        match rig.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(KvError::Full) => return model,
            Err(error) => panic!("{error}"),
        }
    }
    model
}

fn overwrite(rig: &mut Rig, model: &mut Model, puts: u64, random: &mut Random) {
    let keys: Vec<Key> = model.keys().copied().collect();
    for n in 0..puts {
        let key = keys[random.index(keys.len())];
        let value = value(n ^ 0x5555, model[&key].len());
        if let Err(error) = rig.put(&key, &value) {
            panic!("put {n}: {error}: {:#?}", rig.engine.stats());
        }
        model.insert(key, value);
    }
}

fn check(rig: &mut Rig, model: &Model) {
    for (key, value) in model {
        assert_eq!(&rig.get(key).unwrap(), value, "{key}");
    }
    let expected: Vec<_> = model.iter().map(|(key, value)| (*key, value.len() as u32)).collect();
    assert_eq!(rig.list(b""), expected);
}

fn is_filled_overwritten_emptied_and_filled_again(packing: Packing, len: impl Fn(u64) -> usize + Copy) {
    let mut rig = Rig::new(SIZE, small(packing));
    let mut random = Random::new(7);
    let mut model = fill(&mut rig, len);
    let capacity = rig.engine.capacity_bytes();
    assert!(charges(&model) <= capacity && rig.engine.used_bytes() == charges(&model));
    assert_eq!(rig.engine.keys(), model.len() as u64);
    let puts = 5 * model.len() as u64;
    overwrite(&mut rig, &mut model, puts, &mut random);
    check(&mut rig, &model);
    assert!(rig.engine.stats().compaction.moved_records > 0);
    assert_eq!(rig.reopen().damage, []);
    check(&mut rig, &model);
    for key in model.keys() {
        assert!(rig.delete(key).unwrap());
    }
    assert_eq!((rig.engine.used_bytes(), rig.engine.keys()), (0, 0));
    let again = fill(&mut rig, len);
    assert_eq!(again.len(), model.len());
    check(&mut rig, &again);
    assert_eq!(rig.engine.stats().compaction.kept_segments, 0);
}

#[test]
fn a_namespace_is_filled_overwritten_at_random_emptied_and_filled_again() {
    for packing in Packing::ALL {
        is_filled_overwritten_emptied_and_filled_again(packing, |n| (n * 37 % 300) as usize);
    }
}

#[test]
fn values_of_many_segments_are_moved_too() {
    for packing in Packing::ALL {
        // A segment has 16 KiB here.
        is_filled_overwritten_emptied_and_filled_again(packing, |n| {
            [70_000, 200, 17_000, 3000][n as usize % 4]
        });
    }
}

#[test]
fn a_full_namespace_takes_what_replaces_as_much_and_refuses_a_byte_more() {
    let mut rig = Rig::new(SIZE, small(Packing::All));
    let model = fill(&mut rig, |_| 500);
    let left = rig.engine.capacity_bytes() - rig.engine.used_bytes();
    let first = numbered(0);
    rig.put(&first, &value(1, 500 + left as usize)).unwrap();
    assert_eq!(rig.engine.used_bytes(), rig.engine.capacity_bytes());
    assert!(matches!(rig.put(&first, &value(1, 501 + left as usize)), Err(KvError::Full)));
    assert!(matches!(rig.put(&numbered(1 << 40), b""), Err(KvError::Full)));
    for n in 0..model.len() as u64 * 2 {
        let key = numbered(1 + n % (model.len() as u64 - 1));
        rig.put(&key, &value(n, 500)).unwrap();
    }
    assert!(rig.delete(&numbered(5)).unwrap());
    rig.put(&numbered(1 << 40), &value(9, 500)).unwrap();
    assert_eq!(rig.engine.used_bytes(), rig.engine.capacity_bytes());
    rig.reopen();
    assert!(matches!(rig.put(&numbered(1 << 41), b""), Err(KvError::Full)));
    rig.put(&numbered(1), b"shorter").unwrap();
}

#[test]
fn keys_and_bytes_are_exact_once_the_index_is_written() {
    let mut rig = Rig::new(SIZE, small(Packing::SelectiveBackfill));
    let (mut model, mut random) = (Model::new(), Random::new(3));
    for n in 0..6000u64 {
        let key = numbered(random.below(300));
        if random.one_in(4) {
            assert_eq!(rig.delete(&key).unwrap(), model.remove(&key).is_some());
        } else {
            let value = value(n, random.below(400) as usize);
            rig.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        assert!(rig.engine.used_bytes() >= charges(&model) && rig.engine.keys() >= model.len() as u64);
        if n % 500 == 0 {
            rig.reopen();
        }
        if n % 250 == 0 {
            rig.engine.flush(&mut rig.store, &mut 0).unwrap();
            assert_eq!((rig.engine.used_bytes(), rig.engine.keys()), (charges(&model), model.len() as u64));
        }
    }
}

#[test]
fn records_that_hosts_stored_in_windows_are_moved_too() {
    let mut rig = Rig::new(SIZE, small(Packing::All));
    let window = WindowId(1);
    rig.engine.open_window(&mut rig.store, window, &mut 0).unwrap();
    let mut model = Model::new();
    for n in 0..400u64 {
        let (key, value) = (numbered(n), value(n, 300));
        // All of it came with the command: nothing depends on where the host's cursor is.
        let how = byway_kv::StoreHow::default();
        rig.engine.put_in_place(&mut rig.store, window, &key, &value, 300, how, &mut 0).unwrap();
        model.insert(key, value);
    }
    let mut random = Random::new(1);
    let fillers: Model = (0..3000).map(|n| (numbered(1000 + n), value(n, 300))).collect();
    for (key, value) in &fillers {
        rig.put(key, value).unwrap();
    }
    let half: Vec<Key> = model.keys().copied().filter(|_| random.one_in(2)).collect();
    for key in half {
        rig.delete(&key).unwrap();
        model.remove(&key);
    }
    model.extend(fillers);
    overwrite(&mut rig, &mut model, 6000, &mut random);
    check(&mut rig, &model);
    rig.reopen();
    check(&mut rig, &model);
}

/// Nearly full, and at the edge of compaction.
fn worn(packing: Packing, len: impl Fn(u64) -> usize) -> (Rig, Model) {
    let mut rig = Rig::new(SIZE, small(packing));
    let mut model = fill(&mut rig, len);
    let puts = model.len() as u64;
    overwrite(&mut rig, &mut model, puts, &mut Random::new(11));
    (rig, model)
}

#[test]
fn crash_at_any_store_of_compaction_leaves_one_valid_copy() {
    for (packing, long) in [(Packing::All, false), (Packing::SelectiveBackfill, true)] {
        let (mut rig, mut model) =
            worn(packing, |n| if long && n % 8 == 0 { 40_000 } else { 600 + n as usize % 7 });
        let mut random = Random::new(5);
        let keys: Vec<Key> = model.keys().copied().collect();
        let (mut cuts, mut both) = (0, 0);
        while cuts < 300 {
            let moved = rig.engine.stats().compaction.moved_records;
            let key = keys[random.index(keys.len())];
            let before = model[&key].clone();
            let after = value(cuts, before.len());
            rig.store.cuts = Some(Vec::new());
            rig.put(&key, &after).unwrap();
            let images = rig.store.cuts.take().unwrap();
            model.insert(key, after.clone());
            if rig.engine.stats().compaction.moved_records == moved {
                continue;
            }
            for image in images.into_iter().step_by(3) {
                cuts += 1;
                both += u64::from(survives(&rig, image, &model, (&key, &before)));
            }
        }
        assert!(both > 0);
    }
}

/// Whether the opened image had copies to replay; every key has its value, `key` perhaps its earlier one.
fn survives(rig: &Rig, image: Image, model: &Model, (key, before): (&Key, &Vec<u8>)) -> bool {
    let (mut store, mut engine, recovery) = rig.open_image(image);
    assert_eq!(recovery.damage, []);
    for (other, value) in model {
        let found = get(&mut engine, &mut store, other).unwrap();
        assert!(&found == value || (other == key && &found == before), "{other}");
    }
    assert_eq!(list(&mut engine, &mut store, b"").len(), model.len());
    engine.flush(&mut store, &mut 0).unwrap();
    assert_eq!((engine.used_bytes(), engine.keys()), (charges(model), model.len() as u64));
    recovery.records > 0
}

#[test]
fn a_damaged_record_in_a_victim_is_named_and_its_segment_kept_and_all_others_live_on() {
    let (mut rig, mut model) = worn(Packing::All, |_| 400);
    rig.engine.flush(&mut rig.store, &mut 0).unwrap();
    let (hit, needle) = model.iter().nth(100).map(|(key, value)| (*key, value.clone())).unwrap();
    // Of the copies on flash, the one that counts: the others are dead.
    let copies: Vec<(u64, usize)> = rig
        .store
        .image
        .pages
        .iter()
        .filter_map(|(page, bytes)| {
            bytes.windows(200).position(|window| window == &needle[..200]).map(|at| (*page, at))
        })
        .collect();
    let mut damaged = copies.into_iter().filter(|(page, at)| {
        let whole = rig.store.image.pages[page].clone();
        let mut bytes = whole.to_vec();
        bytes[at + 100] ^= 1;
        rig.store.image.pages.insert(*page, bytes.into());
        let hits = rig.get(&hit).is_err();
        if !hits {
            rig.store.image.pages.insert(*page, whole);
        }
        hits
    });
    let (page, at) = damaged.next().unwrap();
    drop(damaged);
    rig.reopen();
    model.remove(&hit);
    let puts = 6 * model.len() as u64;
    overwrite(&mut rig, &mut model, puts, &mut Random::new(2));
    let damage = rig.engine.compaction_damage().to_vec();
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!((damage[0].address..damage[0].address + 900).contains(&(page * 4096 + at as u64)));
    assert!(rig.engine.stats().compaction.kept_segments > 0);
    for _ in 0..2 {
        match rig.get(&hit) {
            Err(KvError::DamagedRecord { key, .. }) => assert_eq!(key, hit),
            other => panic!("{other:?}"),
        }
        for (key, value) in &model {
            assert_eq!(&rig.get(key).unwrap(), value);
        }
        rig.reopen();
    }
    rig.put(&hit, b"repaired").unwrap();
    model.insert(hit, b"repaired".to_vec());
    let puts = 2 * model.len() as u64;
    overwrite(&mut rig, &mut model, puts, &mut Random::new(3));
    check(&mut rig, &model);
}

#[test]
fn wrong_hints_cost_time_only() {
    let (mut rig, mut model) = worn(Packing::SelectiveBackfill, |n| if n % 5 == 0 { 20_000 } else { 300 });
    let mut random = Random::new(23);
    for _ in 0..60 {
        for row in 0..(SIZE as usize * 5 / 4) >> 14 {
            let at = ROWS_AT + ROW_BYTES * row + 8;
            for half in [at, at + 4] {
                let lie = [0, random.below(16384), 16384, random.below(1 << 32)][random.below(4) as usize];
                rig.store.image.state[half..half + 4].copy_from_slice(&(lie as u32).to_le_bytes());
            }
        }
        overwrite(&mut rig, &mut model, 100, &mut random);
    }
    check(&mut rig, &model);
    assert_eq!(rig.reopen().damage, []);
    check(&mut rig, &model);
}

#[test]
fn media_errors_while_compacting_lose_nothing() {
    let (mut rig, mut model) = worn(Packing::All, |n| if n % 20 == 0 { 30_000 } else { 500 });
    let (mut random, keys) = (Random::new(31), model.keys().copied().collect::<Vec<_>>());
    let mut refused = 0;
    for n in 0..4000u64 {
        // Some operations go well and then all fail, for a while.
        rig.store.fail_after = (n / 50 % 3 == 1).then(|| random.below(40));
        let key = keys[random.index(keys.len())];
        let value = value(n, model[&key].len());
        match rig.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(KvError::Flash(_) | KvError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    rig.store.fail_after = None;
    assert!(refused > 0);
    check(&mut rig, &model);
    let puts = 3 * model.len() as u64;
    overwrite(&mut rig, &mut model, puts, &mut random);
    check(&mut rig, &model);
    assert_eq!(rig.reopen().damage, []);
    check(&mut rig, &model);
}

/// A put, or a deletion where there is no length.
type Step = (u8, Option<usize>);

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![10 => 2000usize..9000, 2 => 0usize..200, 1 => 20_000usize..60_000];
    proptest::collection::vec((any::<u8>(), proptest::option::weighted(0.9, len)), 100..500)
}

/// A step, and whether it was done. What is full, is full exactly.
fn step(rig: &mut Rig, model: &mut Model, n: u64, (name, len): Step) {
    let key = key(&[name]);
    let Some(len) = len else {
        assert_eq!(rig.delete(&key).unwrap(), model.remove(&key).is_some());
        return;
    };
    let value = value(n, len);
    let old = model.get(&key).map_or(0, |old| charge(&key, old));
    let after = charges(model) - old + charge(&key, &value);
    match rig.put(&key, &value) {
        Ok(()) => {
            assert!(after <= rig.engine.capacity_bytes());
            model.insert(key, value);
        }
        Err(KvError::Full) => {
            assert!(after > rig.engine.capacity_bytes(), "{after} bytes would fit: {:#?}", rig.engine.stats())
        }
        Err(error) => panic!("{error}"),
    }
}

fn tiny(packing: Packing) -> KvOptions {
    small(packing).memtable_bytes(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_small_namespace_under_any_load_is_a_map_that_is_full_exactly_when_it_is(steps in any_steps(), policy in 0usize..3, deaths in 1u64..200) {
        let mut rig = Rig::new(1 << 20, small(Packing::ALL[policy]));
        let mut model = Model::new();
        for (n, each) in steps.into_iter().enumerate() {
            step(&mut rig, &mut model, n as u64, each);
            if n as u64 % deaths == deaths - 1 {
                prop_assert_eq!(rig.reopen().damage, []);
            }
        }
        check(&mut rig, &model);
        prop_assert_eq!(rig.reopen().damage, []);
        check(&mut rig, &model);
    }

    #[test]
    fn crash_before_any_store_under_compaction_loses_nothing_acknowledged(steps in any_steps(), policy in 0usize..3, seed: u64) {
        let mut rig = Rig::new(1 << 20, tiny(Packing::ALL[policy]));
        let (mut model, mut random) = (Model::new(), Random::new(seed));
        for (n, each) in steps.into_iter().enumerate() {
            let before = model.clone();
            rig.store.cuts = random.one_in(8).then(Vec::new);
            step(&mut rig, &mut model, n as u64, each);
            let Some(cuts) = rig.store.cuts.take().filter(|cuts| !cuts.is_empty()) else { continue };
            let image = cuts[random.index(cuts.len())].clone();
            let (mut store, mut engine, recovery) = rig.open_image(image);
            prop_assert_eq!(recovery.damage, []);
            for name in 0..=255 {
                let key = key(&[name]);
                let found = get(&mut engine, &mut store, &key).ok();
                let allowed = [before.get(&key), model.get(&key)];
                prop_assert!(allowed.contains(&found.as_ref()), "{key}");
            }
        }
    }
}

#[test]
fn merge_larger_than_its_reserve_is_split_and_survives_a_crash_at_any_split() {
    const KEYS: u64 = 12_000;
    let options = small(Packing::All).memtable_bytes(48 * 1500);
    let mut rig = Rig::new(SIZE, options);
    let (mut model, mut random) = (Model::new(), Random::new(9));
    for n in 0..60_000u64 {
        let key = numbered(if n < KEYS { n } else { random.below(KEYS) });
        let value = value(n, 8);
        rig.store.cuts = (n % 1000 == 999).then(Vec::new);
        let before = model.insert(key, value.clone());
        rig.put(&key, &value).unwrap();
        for image in rig.store.cuts.take().into_iter().flatten().step_by(7) {
            let (mut store, mut engine, recovery) = rig.open_image(image);
            assert_eq!(recovery.damage, []);
            for probe in (0..KEYS).step_by(29) {
                let probe = numbered(probe);
                let found = get(&mut engine, &mut store, &probe).ok();
                let allowed = [model.get(&probe), before.as_ref().filter(|_| probe == key)];
                assert!(allowed.contains(&found.as_ref()), "{probe} after {n} puts");
            }
        }
    }
    let stats = rig.engine.stats();
    assert!(stats.index.cuts > 0, "{stats:?}");
    check(&mut rig, &model);
    rig.engine.reclaim(&mut rig.store, &mut 0).unwrap();
    assert_eq!(rig.engine.stats().runs, 1);
    check(&mut rig, &model);
    assert_eq!(rig.reopen().damage, []);
    check(&mut rig, &model);
    assert_eq!((rig.engine.used_bytes(), rig.engine.keys()), (charges(&model), KEYS));
}

/// A namespace with so many values of 4 KiB by DMA, each overwritten a few times at random: bytes left out for
/// alignment in the last pass, and those of values.
fn left_out_where_overwritten(fill_percent: u64) -> (u64, u64) {
    let by_dma = StoreHow { placement: Placement::Dma, ..StoreHow::default() };
    let mut rig = Rig::new(24 << 20, KvOptions::default());
    let keys = rig.engine.capacity_bytes() / 100 * fill_percent / (4096 + 28 + INDEX_BYTES);
    let mut random = Random::new(3);
    let mut wasted_bytes = 0;
    for pass in 0..4 {
        wasted_bytes = rig.engine.packing_counters().wasted_bytes;
        for n in 0..keys {
            let n = if pass == 0 { n } else { random.below(keys) };
            rig.put_how(&numbered(n), &value(n, 4096), by_dma).unwrap();
        }
    }
    (0..keys).for_each(|n| assert_eq!(rig.get(&numbered(n)).unwrap(), value(n, 4096)));
    (rig.engine.packing_counters().wasted_bytes - wasted_bytes, keys * 4096)
}

#[test]
fn values_by_dma_keep_no_boundary_where_room_is_short() {
    let (wasted, stored) = left_out_where_overwritten(95);
    assert!(wasted < stored / 50, "{wasted} bytes were left out for {stored}");
    let (wasted, stored) = left_out_where_overwritten(30);
    assert!(wasted > stored / 2, "{wasted} bytes were left out for {stored}");
}
