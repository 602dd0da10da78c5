//! Room: a put is refused exactly when what is alive would exceed the capacity, a deletion and an overwrite with as much
//! never, in namespaces of any shape from the smallest on.
//!
//! Failures are shrunk and saved beside this file. A run of so many cases: `BYWAY_TEST_CASES=2000`.

use std::collections::BTreeMap;

use crate::common::{MemStore, Rig, key, namespace, pieces_of, value};
use byway_kit::Random;
use byway_kv::{
    Key, KvEngine, KvError, KvFormat, KvOptions, Packing, Placement, StoreHow, WindowId, record_header_bytes,
};
use byway_queue::WindowCursor;
use proptest::prelude::*;

/// What a key takes beside its record.
const INDEX_BYTES: u64 = 36;

/// A namespace and how it is run.
#[derive(Clone, Copy, Debug)]
struct Shape {
    page_bytes: usize,
    size_kib: u64,
    spare_percent: u64,
    format: KvFormat,
    packing: usize,
    memtable_entries: usize,
    /// Keys that commands use.
    keys: u16,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put {
        key: u16,
        len: u32,
        dma: bool,
    },
    /// With as much as is there.
    Again {
        key: u16,
    },
    InPlace {
        window: u16,
        key: u16,
        len: u32,
    },
    IntoWindow {
        window: u16,
        key: u16,
        len: u32,
    },
    OpenWindow {
        window: u16,
    },
    Delete {
        key: u16,
    },
    /// Puts of one length from a key on, until one is refused.
    Fill {
        first: u16,
        len: u32,
    },
    /// Everything from a key on is deleted.
    Empty {
        first: u16,
        keys: u16,
    },
    Churn {
        seed: u16,
        steps: u16,
        len: u32,
    },
    Flush,
    Reclaim,
    Die,
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let format = (prop_oneof![Just(4u16), Just(8)], 0u16..5, prop_oneof![Just(4usize), Just(8)]);
    let size = prop_oneof![3 => 0u64..64, 2 => 64u64..400];
    (
        prop_oneof![3 => Just(4096usize), 1 => Just(16384)],
        format,
        size,
        prop_oneof![Just(0u64), Just(10), Just(28)],
        0usize..3,
        prop_oneof![Just(16usize), 16..200usize, Just(5000)],
        prop_oneof![Just(40u16), Just(400), Just(6000)],
    )
        .prop_map(
            |(
                page_bytes,
                (ring_pages, windows, window_pages),
                size,
                spare_percent,
                packing,
                memtable_entries,
                keys,
            )| {
                let window_bytes = (window_pages * page_bytes) as u32;
                let format = KvFormat { ring_pages, windows, window_bytes };
                let beyond = size * (page_bytes as u64 / 1024);
                let least = fitting_kib(16, page_bytes, &format, spare_percent);
                let size_kib = fitting_kib(least + beyond, page_bytes, &format, spare_percent);
                Shape { page_bytes, size_kib, spare_percent, format, packing, memtable_entries, keys }
            },
        )
}

/// The smallest size of such a namespace, from one on.
fn fitting_kib(from: u64, page_bytes: usize, format: &KvFormat, spare_percent: u64) -> u64 {
    let mut store = MemStore::new(page_bytes);
    store.spare_percent = spare_percent;
    let fits = |kib: &u64| {
        KvEngine::create(&mut store, &namespace(*kib << 10), format, KvOptions::default()).is_ok()
    };
    (0..).map(|n| from + n * 16).find(fits).unwrap()
}

fn any_len() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..100, 4 => 0u32..1200, 2 => 1000u32..9000, 1 => 9000u32..70_000, 1 => Just(4096), 1 => Just(16384)]
}

fn any_op() -> impl Strategy<Value = Op> {
    let key = || any::<u16>();
    prop_oneof![
        6 => (key(), any_len(), any::<bool>()).prop_map(|(key, len, dma)| Op::Put { key, len, dma }),
        4 => key().prop_map(|key| Op::Again { key }),
        3 => (0u16..5, key(), any_len()).prop_map(|(window, key, len)| Op::InPlace { window, key, len }),
        1 => (0u16..5, key(), any_len()).prop_map(|(window, key, len)| Op::IntoWindow { window, key, len }),
        1 => (0u16..5).prop_map(|window| Op::OpenWindow { window }),
        3 => key().prop_map(|key| Op::Delete { key }),
        2 => (key(), any_len()).prop_map(|(first, len)| Op::Fill { first, len }),
        1 => (key(), any::<u16>()).prop_map(|(first, keys)| Op::Empty { first, keys }),
        6 => (key(), 1u16..600, any_len()).prop_map(|(seed, steps, len)| Op::Churn { seed, steps, len }),
        1 => Just(Op::Flush),
        1 => Just(Op::Reclaim),
        1 => Just(Op::Die),
    ]
}

struct Tried {
    rig: Rig,
    shape: Shape,
    model: BTreeMap<Key, Vec<u8>>,
    alive_bytes: u64,
    stamp: u64,
    /// Cursors of the hosts of open windows.
    cursors: Vec<Option<WindowCursor>>,
}

fn charge(key: &Key, len: usize) -> u64 {
    record_header_bytes(key.len()) as u64 + len as u64 + INDEX_BYTES
}

impl Tried {
    fn new(shape: Shape) -> Self {
        let mut store = MemStore::new(shape.page_bytes);
        store.spare_percent = shape.spare_percent;
        let options = KvOptions::default()
            .packing(Packing::ALL[shape.packing])
            .memtable_bytes(shape.memtable_entries * 60)
            .cache_bytes(64 << 10);
        let namespace = namespace(shape.size_kib << 10);
        let engine = KvEngine::create(&mut store, &namespace, &shape.format, options).unwrap();
        let cursors = vec![None; usize::from(engine.window_count())];
        let rig = Rig { store, engine, options, namespace };
        Self { rig, shape, model: BTreeMap::new(), alive_bytes: 0, stamp: 0, cursors }
    }

    fn key(&self, n: u16) -> Key {
        let n = n % self.shape.keys;
        match n % 3 {
            0 => key(&n.to_be_bytes()),
            _ => key(&u128::from(n).to_be_bytes()[usize::from(n % 14)..]),
        }
    }

    /// Compares the result of a put with the model, and updates the model.
    fn check_put(&mut self, key: &Key, value: Vec<u8>, result: Result<(), KvError>) -> bool {
        let old = self.model.get(key).map_or(0, |old| charge(key, old.len()));
        let after = self.alive_bytes - old + charge(key, value.len());
        let capacity = self.rig.engine.capacity_bytes();
        match result {
            Ok(()) => {
                assert!(after <= capacity, "{after} bytes alive of {capacity}");
                self.alive_bytes = after;
                self.model.insert(*key, value);
                true
            }
            Err(KvError::Full) => {
                let stats = self.rig.engine.stats();
                assert!(
                    after > capacity,
                    "{} bytes put, {after} would fit {capacity}: {stats:#?}",
                    value.len()
                );
                false
            }
            Err(KvError::ValueTooLong { limit_bytes, .. }) => {
                assert!(value.len() as u64 > limit_bytes);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn put(&mut self, key: &Key, len: usize, dma: bool) -> bool {
        self.stamp += 1;
        let value = value(self.stamp, len);
        let placement = if dma { Placement::Dma } else { Placement::Packed };
        let result = self.rig.put_how(key, &value, StoreHow { placement, ..StoreHow::default() });
        self.check_put(key, value, result)
    }

    fn delete(&mut self, key: &Key) {
        let deleted = self.rig.delete(key);
        let Ok(was_there) = deleted else { panic!("{deleted:?}: {:#?}", self.rig.engine.stats()) };
        let old = self.model.remove(key);
        assert_eq!(was_there, old.is_some());
        self.alive_bytes -= old.map_or(0, |old| charge(key, old.len()));
    }

    fn open_window(&mut self, window: u16) -> bool {
        let Some(cursor) = self.cursors.get_mut(usize::from(window)) else { return false };
        let Rig { store, engine, .. } = &mut self.rig;
        engine.open_window(store, WindowId(window), &mut 0).unwrap();
        *cursor = Some(WindowCursor::new(engine.window_segment_bytes()));
        true
    }

    fn put_in_place(&mut self, window: u16, key: &Key, len: usize) {
        let is_open = self.cursors.get(usize::from(window)).is_some_and(Option::is_some);
        if !is_open && !self.open_window(window) {
            return;
        }
        self.stamp += 1;
        let value = value(self.stamp, len);
        let header_bytes = record_header_bytes(key.len());
        let Some(cursor) = &mut self.cursors[usize::from(window)] else { return };
        let Some(position) = cursor.place((header_bytes + len) as u64) else { return };
        let range = self.rig.engine.window_range(WindowId(window));
        let at = range.start + (position % range.len() as u64) as usize + header_bytes;
        self.rig.store.image.windows.get_mut()[at..at + len].copy_from_slice(&value);
        let Rig { store, engine, .. } = &mut self.rig;
        let result =
            engine.put_in_place(store, WindowId(window), key, &[], len as u64, StoreHow::default(), &mut 0);
        if matches!(result, Err(KvError::NoWindow(_) | KvError::WindowBehind)) {
            self.cursors[usize::from(window)] = None;
            return;
        }
        self.check_put(key, value, result);
    }

    fn put_into_window(&mut self, window: u16, key: &Key, len: usize) {
        if usize::from(window) >= self.cursors.len() {
            return;
        }
        self.stamp += 1;
        let value = value(self.stamp, len);
        let fill = pieces_of(&value);
        let how = StoreHow { placement: Placement::Dma, ..StoreHow::default() };
        let Rig { store, engine, .. } = &mut self.rig;
        let row = engine.put_in_window_by_dma(
            store,
            WindowId(window),
            key,
            len as u64,
            how,
            fill,
            |_, _, _| false,
            &mut 0,
        );
        if let (Ok(Some(row)), Some(cursor)) = (&row, &mut self.cursors[usize::from(window)]) {
            cursor.note_dma(row.position, row.len).unwrap();
        }
        self.check_put(key, value, row.map(drop));
    }

    fn churn(&mut self, seed: u16, steps: u16, len: u32) {
        let mut random = Random::new(seed.into());
        for _ in 0..steps {
            let (key, len) = (self.key(random.next() as u16), random.index(len as usize + 1));
            match random.below(10) {
                0 => self.delete(&key),
                1 => self.put_in_place(0, &key, len),
                n => drop(self.put(&key, len, n == 2)),
            }
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Put { key, len, dma } => drop(self.put(&self.key(key), len as usize, dma)),
            Op::Again { key } => {
                let key = self.model.range(self.key(key)..).next().map(|(key, value)| (*key, value.len()));
                if let Some((key, len)) = key {
                    assert!(self.put(&key, len, false), "an overwrite with as much was refused");
                }
            }
            Op::InPlace { window, key, len } => self.put_in_place(window, &self.key(key), len as usize),
            Op::IntoWindow { window, key, len } => self.put_into_window(window, &self.key(key), len as usize),
            Op::OpenWindow { window } => drop(self.open_window(window)),
            Op::Delete { key } => self.delete(&self.key(key)),
            Op::Fill { first, len } => {
                let keys = (0..self.shape.keys).map(|n| self.key(first.wrapping_add(n)));
                for key in keys.collect::<Vec<_>>() {
                    if !self.put(&key, len as usize, false) {
                        break;
                    }
                }
            }
            Op::Empty { first, keys } => {
                let first = self.key(first);
                let keys: Vec<Key> =
                    self.model.range(first..).map(|(key, _)| *key).take(keys.into()).collect();
                keys.iter().for_each(|key| self.delete(key));
            }
            Op::Churn { seed, steps, len } => self.churn(seed, steps, len),
            Op::Flush => self.rig.engine.flush(&mut self.rig.store, &mut 0).unwrap(),
            Op::Reclaim => self.rig.engine.reclaim(&mut self.rig.store, &mut 0).unwrap(),
            Op::Die => {
                assert_eq!(self.rig.reopen().damage, []);
                self.cursors.fill(None);
            }
        }
    }

    fn check(&mut self) {
        for (key, value) in &self.model {
            assert_eq!(&self.rig.get(key).unwrap(), value, "{key}");
        }
        assert_eq!(self.rig.list(b"").len(), self.model.len());
    }
}

fn cases(usual: u32) -> ProptestConfig {
    ProptestConfig { cases: byway_kit::cases(usual), max_shrink_iters: 2000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn a_namespace_of_any_shape_is_full_exactly_when_it_is(shape in any_shape(), ops in proptest::collection::vec(any_op(), 1..60)) {
        let mut tried = Tried::new(shape);
        for op in ops {
            tried.step(op);
        }
        tried.check();
        tried.step(Op::Die);
        tried.check();
    }
}

/// Small memtables are written out many times while one merge of the whole index goes on, and the next one reads them all.
#[test]
fn runs_that_pile_up_behind_a_large_merge_leave_it_room() {
    let mut store = MemStore::new(16384);
    store.spare_percent = 28;
    let options = KvOptions::default().memtable_bytes(223 * 60).cache_bytes(4 << 20);
    let format = KvFormat { ring_pages: 8, windows: 0, window_bytes: 64 << 10 };
    let namespace = namespace(8 << 20);
    let engine = KvEngine::create(&mut store, &namespace, &format, options).unwrap();
    let mut rig = Rig { store, engine, options, namespace };
    let mut state = 4_210_675_189_646_705_480_u64;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let keys = rig.engine.capacity_bytes() * 84 / 100 / (32 + 28 + 36);
    for step in 0..3 * keys {
        let n = if step < keys { step } else { below(keys) };
        let key = Key::new(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).unwrap();
        let len = below(129) * below(129) / 128;
        let placement = match if step < keys { 99 } else { below(100) } {
            0..13 => {
                rig.delete(&key).map(drop).unwrap();
                continue;
            }
            13..26 => Placement::Dma,
            _ => Placement::Packed,
        };
        let how = StoreHow { placement, ..StoreHow::default() };
        let put = rig.put_how(&key, &[7; 128][..len as usize], how);
        let used_bytes = rig.engine.used_bytes();
        assert!(put.is_ok(), "{put:?} at {step}: {used_bytes} of {} bytes", rig.engine.capacity_bytes());
    }
}
