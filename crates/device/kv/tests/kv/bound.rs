//! No store and no deletion does more than is stated, whatever came before: every single one is looked at, not a share of them.
//!
//! Work is counted in pages, entries and records, so what is asserted is the same on every machine, and a command that would
//! never come to its end is found as one that does too much.

use crate::common::{MemStore, Rig, namespace, value};
use byway_kv::{
    Key, KvEngine, KvError, KvFormat, KvOptions, LeaseId, PASSED_MAX, Placement, Selection, StoreHow,
    WindowId, Work,
};
use byway_queue::WindowCursor;
use byway_spec::vendor::KeyRange;
use proptest::prelude::*;

/// A namespace, and what is done to it.
#[derive(Clone, Copy, Debug)]
struct Load {
    page_bytes: usize,
    size_kib: u64,
    windows: u16,
    memtable_entries: usize,
    cache_bytes: usize,
    /// Values have up to so many bytes, or just as many.
    len: u64,
    is_mixed: bool,
    /// How much of the capacity is filled, in percent, and how often that is overwritten.
    fill: u64,
    overwrites: u64,
    /// Percentages of deletes, of stores by DMA, and of stores in place.
    deletes: u64,
    by_dma: u64,
    in_place: u64,
    /// Threads that store by leases what is packed.
    leases: usize,
    seed: u64,
}

/// Values of one length, overwritten at random.
const EVEN: Load = Load {
    page_bytes: 4096,
    size_kib: 4 << 10,
    windows: 0,
    memtable_entries: 5000,
    cache_bytes: 256 << 10,
    len: 128,
    is_mixed: false,
    fill: 95,
    overwrites: 3,
    deletes: 0,
    by_dma: 0,
    in_place: 0,
    leases: 0,
    seed: 1,
};

struct Run {
    load: Load,
    rig: Rig,
    state: u64,
    data: Vec<u8>,
    cursor: Option<WindowCursor>,
    leases: Vec<LeaseId>,
    waits: u64,
}

fn number(n: u64) -> Key {
    Key::new(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).unwrap()
}

impl Run {
    fn new(load: Load) -> Self {
        let mut store = MemStore::new(load.page_bytes);
        store.spare_percent = 28;
        let memtable_bytes = load.memtable_entries * 60;
        let options = KvOptions::default().memtable_bytes(memtable_bytes).cache_bytes(load.cache_bytes);
        let namespace = namespace(load.size_kib << 10);
        let format = KvFormat { ring_pages: 8, windows: load.windows, window_bytes: 64 << 10 };
        let mut engine = KvEngine::create(&mut store, &namespace, &format, options).unwrap();
        let data = value(load.seed, engine.value_max_bytes() as usize);
        let leases = (0..load.leases).map(|_| engine.open_lease(&mut store).unwrap()).collect();
        let rig = Rig { store, engine, options, namespace };
        Self { load, rig, state: load.seed, data, cursor: None, leases, waits: 0 }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % end.max(1)
    }

    /// A length, small ones more often where they differ.
    fn len(&mut self) -> u64 {
        let most = self.load.len.min(self.data.len() as u64);
        if self.load.is_mixed { self.below(most + 1) * self.below(most + 1) / most.max(1) } else { most }
    }

    /// How often a command waited.
    fn go(mut self) -> u64 {
        let mean = if self.load.is_mixed { self.load.len / 4 } else { self.load.len };
        let keys = self.rig.engine.capacity_bytes() * self.load.fill / 100 / (mean + 28 + 36);
        for n in 0..keys {
            let len = self.len();
            self.put(&number(n), len, Placement::Packed);
        }
        for _ in 0..keys * self.load.overwrites {
            let (key, len, kind) = (number(self.below(keys)), self.len(), self.below(100));
            let Load { deletes, by_dma, in_place, .. } = self.load;
            match kind {
                kind if kind < deletes => self.delete(&key),
                kind if kind < deletes + by_dma => self.put(&key, len, Placement::Dma),
                kind if kind < deletes + by_dma + in_place => self.put_in_place(&key, len),
                _ => self.put(&key, len, Placement::Packed),
            }
        }
        let stats = self.rig.engine.stats();
        println!(
            "{:?}: {:?}, {} and {} waited",
            self.load, stats.most_work, stats.index.stalls, stats.compaction.stalls
        );
        self.waits
    }

    fn put(&mut self, key: &Key, len: u64, placement: Placement) {
        if placement == Placement::Packed && !self.leases.is_empty() {
            return self.put_by_lease(key, len);
        }
        let how = StoreHow { placement, ..StoreHow::default() };
        let bound = self.bound(len);
        let done = self.rig.put_how(key, &self.data[..len as usize], how);
        self.check(bound, len, done);
    }

    /// Of stores without the engine there is no work to hold against a bound: the one that takes them in does it.
    fn put_by_lease(&mut self, key: &Key, len: u64) {
        // One thread stores much, the others little: most of what is set aside for them stays unused.
        let at = if self.below(8) == 0 { self.below(self.load.leases as u64) as usize } else { 0 };
        let lease = self.leases[at];
        let Self { rig, data, .. } = self;
        if rig.engine.put_beside(&rig.store, lease, key, &data[..len as usize]) {
            return;
        }
        let bound = self.bound(len);
        let done = self.rig.put_leased(lease, key, &self.data[..len as usize]);
        self.check(bound, len, done);
    }

    fn delete(&mut self, key: &Key) {
        let bound = self.bound(0);
        let done = self.rig.delete(key).map(drop);
        self.check(bound, 0, done);
    }

    fn put_in_place(&mut self, key: &Key, len: u64) {
        let bound = self.bound(len);
        let Rig { store, engine, .. } = &mut self.rig;
        let cursor = self.cursor.get_or_insert_with(|| {
            engine.open_window(store, WindowId(0), &mut 0).unwrap();
            WindowCursor::new(engine.window_segment_bytes())
        });
        if cursor.place(byway_kv::record_header_bytes(key.len()) as u64 + len).is_none() {
            return;
        }
        let how = StoreHow::default();
        let done = engine.put_in_place(store, WindowId(0), key, &[], len, how, &mut 0);
        if matches!(done, Err(KvError::NoWindow(_) | KvError::WindowBehind)) {
            self.cursor = None;
            return;
        }
        self.check(bound, len, done);
    }

    /// What the next command may do, if it need not wait, and if it must.
    fn bound(&self, len: u64) -> [Work; 2] {
        [self.rig.engine.work_bound(len), self.rig.engine.waiting_bound(len)]
    }

    /// Holds a command against the bound. One that is refused for want of capacity has looked for room first.
    fn check(&mut self, [bound, waiting_bound]: [Work; 2], len: u64, done: Result<(), KvError>) {
        let engine = &self.rig.engine;
        assert!(matches!(done, Ok(()) | Err(KvError::Full)), "{done:?}");
        let (work, stats) = (engine.last_work(), engine.stats());
        let stalls = stats.index.stalls + stats.compaction.stalls;
        let waited = stalls > std::mem::replace(&mut self.waits, stalls);
        let bound = if waited { waiting_bound } else { bound };
        let keeps = work.pages_read <= bound.pages_read
            && work.pages_written <= bound.pages_written
            && work.pages_trimmed <= bound.pages_trimmed
            && work.entries <= bound.entries
            && work.records <= bound.records
            && work.rows <= bound.rows;
        assert!(
            keeps,
            "{work:?} is more than {bound:?} for {len} bytes, {done:?}, waited {waited}, {} runs: {:?}",
            stats.runs, self.load
        );
    }
}

#[test]
fn small_values_are_put_within_the_bound_and_none_waits_nearly_full() {
    for len in [32, 128, 1024] {
        assert_eq!(Run::new(Load { len, overwrites: 2, ..EVEN }).go(), 0);
    }
}

#[test]
fn small_values_are_put_within_the_bound_and_none_waits_full() {
    for len in [32, 128, 1024] {
        assert_eq!(Run::new(Load { len, fill: 99, size_kib: 2 << 10, ..EVEN }).go(), 0);
    }
}

#[test]
fn stores_do_not_wait_for_a_memtable_that_is_due_by_unused_leases_alone() {
    for len in [32, 128, 1024] {
        let load = Load { len, leases: 7, windows: 8, memtable_entries: 300, size_kib: 8 << 10, ..EVEN };
        assert_eq!(Run::new(Load { overwrites: 1, ..load }).go(), 0, "{len} bytes");
    }
}

#[test]
fn values_of_any_length_are_put_within_the_bound() {
    for len in [8000, 60_000, 1 << 20] {
        let load =
            Load { len, is_mixed: true, size_kib: 16 << 10, deletes: 10, by_dma: 20, fill: 90, ..EVEN };
        Run::new(load).go();
    }
}

#[test]
fn windows_do_not_make_a_put_do_more() {
    for len in [400, 2000, 20_000] {
        let (is_mixed, windows, size_kib) = (true, 2, 4 << 10);
        Run::new(Load { len, is_mixed, windows, size_kib, in_place: 40, by_dma: 10, fill: 85, ..EVEN }).go();
    }
}

fn any_load() -> impl Strategy<Value = Load> {
    (
        prop_oneof![3 => Just(4096usize), 1 => Just(16384)],
        1u64..4,
        0u16..3,
        prop_oneof![32..500usize, 500..5000usize, Just(5000), Just(1_000_000)],
        prop_oneof![Just(64usize << 10), Just(4 << 20)],
        prop_oneof![Just(128u64), Just(1024), 100u64..3000, 100u64..200_000],
        any::<bool>(),
        (70u64..100, 0u64..15, 0u64..15, 0u64..30),
        any::<u64>(),
    )
        .prop_map(
            |(
                page_bytes,
                size,
                windows,
                memtable_entries,
                cache_bytes,
                len,
                is_mixed,
                (fill, deletes, by_dma, in_place),
                seed,
            )| {
                let size_kib = if page_bytes > 4096 { (size + 5) << 10 } else { size << 10 };
                let in_place = if windows > 0 { in_place } else { 0 };
                let overwrites = 2;
                Load {
                    page_bytes,
                    size_kib,
                    windows,
                    memtable_entries,
                    cache_bytes,
                    len,
                    is_mixed,
                    fill,
                    overwrites,
                    deletes,
                    by_dma,
                    in_place,
                    leases: 0,
                    seed,
                }
            },
        )
}

fn cases(usual: u32) -> ProptestConfig {
    ProptestConfig { cases: byway_kit::cases(usual), max_shrink_iters: 60, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn no_command_on_any_namespace_does_more_than_is_stated(load in any_load()) {
        Run::new(load).go();
    }
}

/// A merge keeps one page of filters of what it has passed, and trims the pages beside it. Otherwise the pages of an input that was
/// passed in part would be space that the reserve does not count.
#[test]
fn a_merge_of_long_pages_gives_back_what_it_has_passed() {
    let (page_bytes, size_kib, memtable_entries, cache_bytes) = (16384, 7168, 210, 64 << 10);
    let load = Load { page_bytes, size_kib, memtable_entries, cache_bytes, is_mixed: true, fill: 70, ..EVEN };
    Run::new(Load { by_dma: 2, overwrites: 2, seed: 3_965_668_428_753_845_306, ..load }).go();
}

/// A scan in as many selections as it takes: its keys, how many selections there were, and how many entries they passed.
fn select_all(rig: &mut Rig, mut range: KeyRange) -> (Vec<Key>, usize, usize) {
    let (mut keys, mut selections, mut passed) = (Vec::new(), 0, 0);
    loop {
        let mut selection = Selection::default();
        let wants = |key: &Key, _| {
            keys.push(*key);
            Some(0)
        };
        rig.engine.select(&mut rig.store, &range, 100, &mut selection, wants, &mut 0).unwrap();
        assert!(selection.passed() <= PASSED_MAX, "{} entries", selection.passed());
        (selections, passed) = (selections + 1, passed + selection.passed());
        match selection.resume() {
            Some(resume) => range = range.behind(resume),
            None => return (keys, selections, passed),
        }
    }
}

#[test]
fn scan_over_a_million_deleted_keys_passes_a_bounded_number_at_a_time() {
    const DELETED: u64 = 1_000_000;
    let namespace = namespace(1 << 30);
    let mut store = MemStore::new(4096);
    let options = KvOptions::default().memtable_bytes(256 << 20);
    let engine = KvEngine::create(&mut store, &namespace, &KvFormat::default(), options).unwrap();
    let mut rig = Rig { store, engine, options, namespace };
    let key = |n: u64| Key::new(&n.to_be_bytes()).unwrap();
    let how = StoreHow { placement: Placement::Packed, ..StoreHow::default() };
    for n in 0..=DELETED + 1 {
        rig.engine.put(&mut rig.store, &key(n), b"", how, &mut 0).unwrap();
        if (1..=DELETED).contains(&n) {
            rig.engine.delete(&mut rig.store, &key(n), &mut 0).unwrap();
        }
    }
    for backward in [false, true] {
        let (mut keys, selections, passed) =
            select_all(&mut rig, KeyRange { backward, ..KeyRange::default() });
        keys.sort();
        assert_eq!(keys, [key(0), key(DELETED + 1)]);
        assert_eq!((passed, selections), (DELETED as usize, DELETED as usize / PASSED_MAX + 1));
    }
    // Deleted keys beyond the bound are not passed.
    let bounded = KeyRange { bound: Some(key(10)), ..KeyRange::default() };
    assert_eq!(select_all(&mut rig, bounded), (vec![key(0)], 1, 9));
}
