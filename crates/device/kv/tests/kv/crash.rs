//! The process dies: before any store that commits something, before any page operation, and anywhere in between.

use std::collections::BTreeMap;

use crate::common::{Image, Rig, get, key, list, numbered, small, value};
use byway_kit::Random;
use byway_kv::{Change, Key, KvError, KvOptions, Packing, Placement, StoreHow};
use proptest::prelude::*;

/// More than the memtable holds.
const KEYS: u8 = 40;

type Model = BTreeMap<Key, Vec<u8>>;

/// A put, or a deletion where there is no length.
#[derive(Clone, Copy, Debug)]
struct Step {
    key: u8,
    len: Option<usize>,
    dma: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![8 => 0usize..120, 2 => 120usize..6000, 1 => 12_000usize..40_000];
    (0u8..KEYS, proptest::option::weighted(0.85, len), any::<bool>()).prop_map(|(key, len, dma)| Step {
        key,
        len,
        dma,
    })
}

/// Steps by commands of their own, or short ones in one batch.
#[derive(Clone, Debug)]
enum Act {
    One(Step),
    Batch(Vec<Step>),
}

fn any_act() -> impl Strategy<Value = Act> {
    let short = (0u8..KEYS, proptest::option::weighted(0.7, 0usize..1200)).prop_map(|(key, len)| Step {
        key,
        len,
        dma: false,
    });
    prop_oneof![
        8 => any_step().prop_map(Act::One),
        1 => proptest::collection::vec(short, 1..9).prop_map(Act::Batch),
    ]
}

fn do_act(rig: &mut Rig, n: u64, act: &Act, model: &mut Model) {
    match act {
        Act::One(step) => do_step(rig, n, *step, model),
        Act::Batch(steps) => do_batch(rig, n, steps, model),
    }
}

fn do_batch(rig: &mut Rig, n: u64, steps: &[Step], model: &mut Model) {
    let pairs = steps.iter().map(|step| (key(&[step.key]), step.len.map(|len| value(n, len))));
    let pairs: Vec<_> = pairs.collect();
    let changes: Vec<_> =
        pairs.iter().map(|(key, value)| Change { key: *key, value: value.as_deref() }).collect();
    rig.engine.store_many(&mut rig.store, &changes, &mut 0).unwrap();
    for (key, value) in pairs {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

fn do_step(rig: &mut Rig, n: u64, step: Step, model: &mut Model) {
    let key = key(&[step.key]);
    let placement = if step.dma { Placement::Dma } else { Placement::Packed };
    match step.len {
        Some(len) => {
            let value = value(n, len);
            rig.put_how(&key, &value, StoreHow { placement, ..StoreHow::default() }).unwrap();
            model.insert(key, value);
        }
        None => assert_eq!(rig.delete(&key).unwrap(), model.remove(&key).is_some()),
    }
}

/// The smallest memtable there is: flushes and merges are cut too.
fn tiny(packing: Packing) -> KvOptions {
    small(packing).memtable_bytes(0)
}

/// All keys have what they had before the act that was cut, or all what they have after.
fn check(rig: &Rig, image: Image, before: &Model, after: &Model) {
    let (mut store, mut engine, recovery) = rig.open_image(image);
    assert_eq!(recovery.damage, []);
    let mut found = Model::new();
    for n in 0..KEYS {
        let key = key(&[n]);
        match get(&mut engine, &mut store, &key) {
            Ok(value) => drop(found.insert(key, value)),
            Err(KvError::NotFound) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let lens = |model: &Model| model.iter().map(|(key, value)| (*key, value.len())).collect::<Vec<_>>();
    assert!(found == *before || found == *after, "{:?}", lens(&found));
    let listed = list(&mut engine, &mut store, b"");
    assert_eq!(listed.len(), found.len());
    // What was found goes on working, and is still there the next time.
    engine.put(&mut store, &numbered(77), b"after", StoreHow::default(), &mut 0).unwrap();
    let (mut store, mut engine, recovery) = rig.open_image(store.image);
    assert_eq!(recovery.damage, []);
    assert_eq!(get(&mut engine, &mut store, &numbered(77)).unwrap(), b"after");
    assert_eq!(list(&mut engine, &mut store, b"").len(), listed.len() + 1);
}

fn cut_everywhere(packing: Packing, acts: &[Act]) {
    let mut rig = Rig::new(2 << 20, tiny(packing));
    let mut model = Model::new();
    for (n, act) in acts.iter().enumerate() {
        let before = model.clone();
        rig.store.cuts = Some(Vec::new());
        do_act(&mut rig, n as u64, act, &mut model);
        for image in rig.store.cuts.take().unwrap() {
            check(&rig, image, &before, &model);
        }
    }
}

/// An image between two: commits are whole, and of everything else any bytes may have been stored.
fn torn(earlier: &Image, later: &Image, seed: u64) -> Image {
    let mut torn = earlier.clone();
    let mut random = Random::new(seed);
    for (at, byte) in torn.state.iter_mut().enumerate() {
        if random.one_in(2) {
            *byte = later.state[at];
        }
    }
    torn
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn crash_before_any_store_loses_nothing_acknowledged(acts in proptest::collection::vec(any_act(), 1..150), policy in 0usize..3) {
        cut_everywhere(Packing::ALL[policy], &acts);
    }

    #[test]
    fn crash_between_two_commits_loses_nothing_acknowledged(acts in proptest::collection::vec(any_act(), 1..100), policy in 0usize..3, seed: u64) {
        let mut rig = Rig::new(2 << 20, tiny(Packing::ALL[policy]));
        let mut model = Model::new();
        for (n, act) in acts.iter().enumerate() {
            let before = model.clone();
            rig.store.cuts = Some(Vec::new());
            do_act(&mut rig, n as u64, act, &mut model);
            let mut cuts = rig.store.cuts.take().unwrap();
            cuts.push(rig.store.image.clone());
            for pair in cuts.windows(2) {
                // The first store of the interval is the commit of `pair[0]`; only then others follow.
                let mut from = pair[0].clone();
                apply_first_commit(&mut from, &pair[1]);
                check(&rig, torn(&from, &pair[1], seed ^ n as u64), &before, &model);
            }
        }
    }
}

/// Sealed words that differ are commits: they are taken whole. Words in buffers that happen to differ may be torn, and
/// lie beyond the control structures.
fn apply_first_commit(from: &mut Image, to: &Image) {
    // Header, roots, stream blocks and segment rows: every word of them changes by a commit or is a hint.
    let control_bytes = (4096 * 6 + 16 * (2 << 20 >> 14)).min(from.state.len());
    for at in (0..control_bytes).step_by(8) {
        let word = at..at + 8;
        let (old, new) = (from.state[word.clone()].to_vec(), &to.state[word.clone()]);
        if old != new {
            from.state[word].copy_from_slice(new);
        }
    }
    from.pages = to.pages.clone();
}

#[test]
fn a_format_leaves_everything_or_nothing() {
    let mut rig = Rig::new(2 << 20, small(Packing::SelectiveBackfill));
    let mut model = Model::new();
    for n in 0..100 {
        let step = Step { key: n as u8 % KEYS, len: Some(n * 37 % 3000), dma: n % 3 == 0 };
        do_step(&mut rig, n as u64, step, &mut model);
    }
    rig.store.cuts = Some(Vec::new());
    rig.engine.format(&mut rig.store, &mut 0).unwrap();
    for image in rig.store.cuts.take().unwrap() {
        let (mut store, mut engine, recovery) = rig.open_image(image);
        assert_eq!(recovery.damage, []);
        let found = list(&mut engine, &mut store, b"").len();
        assert!(found == 0 || found == model.len(), "{found} keys of {}", model.len());
    }
    assert!(rig.list(b"").is_empty());
    assert_eq!(rig.engine.used_bytes(), 0);
}

#[test]
fn a_value_that_fails_to_arrive_leaves_the_old_one() {
    for packing in Packing::ALL {
        let mut rig = Rig::new(2 << 20, small(packing));
        for len in [40, 4096, 20_000, 50_000] {
            rig.put(&key(b"k"), &value(1, len)).unwrap();
            for fail_at in 0..3 {
                let mut pieces = 0;
                let fill = |piece: &mut [u8], _: &mut u64| {
                    piece.fill(0xaa);
                    pieces += 1;
                    if pieces > fail_at { Err(KvError::NotFound) } else { Ok(()) }
                };
                let how = StoreHow { placement: Placement::Dma, ..StoreHow::default() };
                let _ =
                    rig.engine.put_with(&mut rig.store, &key(b"j"), 50_000, how, fill, &mut 0).unwrap_err();
                assert_eq!(rig.get(&key(b"k")).unwrap(), value(1, len));
                rig.put(&key(b"i"), &value(fail_at, 100)).unwrap();
                assert_eq!(rig.reopen().damage, []);
                assert_eq!(rig.get(&key(b"k")).unwrap(), value(1, len));
                assert_eq!(rig.get(&key(b"i")).unwrap(), value(fail_at, 100));
                assert!(matches!(rig.get(&key(b"j")), Err(KvError::NotFound)));
            }
        }
    }
}

#[test]
fn flash_that_fails_for_a_while_loses_nothing() {
    let mut rig = Rig::new(2 << 20, small(Packing::SelectiveBackfill));
    let mut model = Model::new();
    let mut refused = 0;
    for n in 0u64..600 {
        rig.store.fail_after = (n / 60 % 2 == 1).then_some(0);
        let (key, value) = (key(&[n as u8 % 50]), value(n, n as usize * 13 % 700));
        match rig.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(KvError::Flash(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    rig.store.fail_after = None;
    for _ in 0..2 {
        for (key, value) in &model {
            assert_eq!(&rig.get(key).unwrap(), value);
        }
        assert_eq!(rig.reopen().damage, []);
    }
}
