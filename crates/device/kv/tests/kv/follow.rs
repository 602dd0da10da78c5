//! An engine beside its writer: every read while the writer goes on, at any of its stores.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use byway_flash::{Cause, FlashError, NamespaceRecord};
use byway_kit::Random;
use byway_kv::{Change, Home, Key, KvEngine, KvError, LeaseId, Packing, PageStore, Placement, StoreHow};

use crate::common::{Image, Rig, get, numbered, small, value};

/// Bytes that a copy takes at once: the writer goes on between two.
const PIECE_BYTES: usize = 256;

/// What a follower reads: images of a writer, of which a later one may be there at every access.
struct Beside {
    images: Vec<Image>,
    now: Cell<usize>,
    random: RefCell<Random>,
    /// Of a thousand accesses, how many the writer goes on before.
    pace: u64,
    state: Vec<u8>,
    windows: RefCell<Vec<u8>>,
    page_bytes: usize,
    home: Home,
}

impl Beside {
    fn live(&self) -> &Image {
        let mut random = self.random.borrow_mut();
        if random.below(1000) < self.pace {
            let steps = 1 + random.below(8) as usize;
            self.now.set((self.now.get() + steps).min(self.images.len() - 1));
        }
        &self.images[self.now.get()]
    }
}

impl PageStore for Beside {
    fn settle_in(&mut self, _: &NamespaceRecord, _: usize, _: usize) -> Result<Home, FlashError> {
        Err(FlashError::ReadOnly)
    }

    fn find_home(&mut self, _: &NamespaceRecord) -> Option<Home> {
        Some(self.home.clone())
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn is_following(&self) -> bool {
        true
    }

    fn is_stale(&self, _: &Home, part: Range<usize>) -> bool {
        part.step_by(8).any(|at| self.live().state[at..at + 8] != self.state[at..at + 8])
    }

    fn refresh_state(&mut self, _: &Home, part: Range<usize>) {
        for from in part.clone().step_by(PIECE_BYTES) {
            let piece = from..(from + PIECE_BYTES).min(part.end);
            let bytes = self.live().state[piece.clone()].to_vec();
            self.state[piece].copy_from_slice(&bytes);
        }
    }

    fn refresh_windows(&self, _: &Home, part: Range<usize>) {
        for from in part.clone().step_by(PIECE_BYTES) {
            let piece = from..(from + PIECE_BYTES).min(part.end);
            self.windows.borrow_mut()[piece.clone()].copy_from_slice(&self.live().windows.borrow()[piece]);
        }
    }

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn read(
        &mut self,
        _: &Home,
        at_bytes: u64,
        into: &mut [u8],
        _: Cause,
        _: &mut u64,
    ) -> Result<(), FlashError> {
        let within = at_bytes as usize % self.page_bytes;
        match self.live().pages.get(&(at_bytes / self.page_bytes as u64)) {
            Some(page) => into.copy_from_slice(&page[within..within + into.len()]),
            None => into.fill(0),
        }
        Ok(())
    }

    fn write_page(&mut self, _: &Home, _: u64, _: &[u8], _: Cause, _: &mut u64) -> Result<(), FlashError> {
        panic!("a follower writes a page")
    }

    fn write_page_from_state(
        &mut self,
        _: &Home,
        _: u64,
        _: usize,
        _: Cause,
        _: &mut u64,
    ) -> Result<(), FlashError> {
        panic!("a follower writes a page")
    }

    fn trim_pages(&mut self, _: &Home, _: u64, _: u64) -> Result<(), FlashError> {
        panic!("a follower trims pages")
    }

    fn state(&mut self, _: &Home) -> &mut [u8] {
        &mut self.state
    }

    fn commit_u64(&mut self, _: &Home, _: usize, _: u64) {
        panic!("a follower commits")
    }

    fn read_window(&self, _: &Home, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.windows.borrow()[at..at + into.len()]);
    }

    fn write_window(&self, _: &Home, _: usize, _: &[u8]) {
        panic!("a follower writes to a window")
    }
}

/// What a key was and since which image.
#[derive(Default)]
struct History(Vec<(usize, Option<u64>)>);

impl History {
    /// Versions that a read may find which begins at one image and ends at another.
    fn visible(&self, from: usize, to: usize) -> Vec<Option<u64>> {
        let first = self.0.iter().rposition(|(since, _)| *since <= from);
        let mut visible: Vec<_> = self.0[first.unwrap_or(0)..].iter().collect();
        // A command is committed by one of its stores: it may be seen before it ends.
        let end = visible.iter().position(|(since, _)| *since > to).map_or(visible.len(), |end| end + 1);
        visible.truncate(end);
        let none = first.is_none().then_some(None);
        none.into_iter().chain(visible.into_iter().map(|(_, version)| *version)).collect()
    }
}

/// A writer, its images, and what they hold.
struct Writer {
    rig: Rig,
    versions: BTreeMap<u64, History>,
    next: u64,
    lens: &'static [usize],
    /// By which some of the short values are stored.
    lease: Option<LeaseId>,
}

impl Writer {
    fn write(&mut self, random: &mut Random, keys: u64) {
        if random.below(6) == 0 {
            return self.write_batch(random, keys);
        }
        let number = random.below(keys);
        let version = self.next;
        self.next += 1;
        let (is_leased, deletes) = (random.below(2) == 0, random.below(8) == 0);
        if !is_leased {
            self.rig.engine.take_in(&mut self.rig.store);
        }
        let new = if is_leased {
            self.store_by_lease(&numbered(number), &versioned(number, version, self.lens[1].min(300)));
            Some(version)
        } else if deletes {
            self.rig.delete(&numbered(number)).unwrap();
            None
        } else {
            let len = self.lens[random.below(self.lens.len() as u64) as usize];
            let placement = if random.below(3) == 0 { Placement::Dma } else { Placement::Packed };
            let how = StoreHow { placement, ..StoreHow::default() };
            self.rig.put_how(&numbered(number), &versioned(number, version, len), how).unwrap();
            Some(version)
        };
        self.note(number, new);
    }

    /// Stores and deletes a few keys at once.
    fn write_batch(&mut self, random: &mut Random, keys: u64) {
        let (first, count) = (random.below(keys), 1 + random.below(8));
        let (version, len) = (self.next, self.lens[1].min(900));
        self.next += 1;
        let numbers = (0..count).map(|n| (first + n) % keys);
        let changes: Vec<_> = numbers
            .map(|number| (number, (random.below(4) > 0).then(|| versioned(number, version, len))))
            .collect();
        let batch: Vec<_> = changes
            .iter()
            .map(|(number, value)| Change { key: numbered(*number), value: value.as_deref() })
            .collect();
        self.rig.engine.store_many(&mut self.rig.store, &batch, &mut 0).unwrap();
        changes.iter().for_each(|(number, value)| self.note(*number, value.as_ref().map(|_| version)));
    }

    fn note(&mut self, number: u64, version: Option<u64>) {
        let since = self.rig.store.cuts.as_ref().map_or(0, Vec::len);
        self.versions.entry(number).or_default().0.push((since, version));
    }

    fn store_by_lease(&mut self, key: &Key, value: &[u8]) {
        let Rig { store, engine, .. } = &mut self.rig;
        let lease = self.lease.or_else(|| engine.open_lease(store));
        self.lease = lease;
        match lease {
            Some(lease) => self.rig.put_leased(lease, key, value).unwrap(),
            None => self.rig.put(key, value).unwrap(),
        }
        let image = self.rig.store.image.clone();
        self.rig.store.cuts.iter_mut().for_each(|cuts| cuts.push(image.clone()));
    }

    /// Ends a round: everything written before counts as there from the first image of the next.
    fn begin_round(&mut self) {
        self.rig.store.cuts = Some(Vec::new());
        for history in self.versions.values_mut() {
            let last = history.0.last().and_then(|(_, version)| *version);
            history.0 = vec![(0, last)];
        }
    }

    fn images(&self) -> Vec<Image> {
        let mut images = self.rig.store.cuts.clone().unwrap_or_default();
        images.push(self.rig.store.image.clone());
        images
    }
}

fn versioned(number: u64, version: u64, len: usize) -> Vec<u8> {
    let mut bytes = value(version, 16 + len);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

fn version_of(number: u64, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    assert_eq!(bytes, versioned(number, version, bytes.len() - 16), "a torn value");
    version
}

/// A read as a controller does it: up to date before, and again if the writer went on and it failed.
fn followed<R>(
    engine: &mut KvEngine,
    store: &mut Beside,
    mut read: impl FnMut(&mut KvEngine, &mut Beside) -> Result<R, KvError>,
) -> Result<R, KvError> {
    loop {
        let caught = engine.follow(store);
        let done = caught.and_then(|()| read(engine, store));
        match done {
            Err(KvError::NotFound) | Ok(_) => return done,
            Err(_) if engine.is_behind(store) || store.now.get() + 1 < store.images.len() => {}
            Err(_) => return done,
        }
    }
}

fn get_beside(engine: &mut KvEngine, store: &mut Beside, key: &Key) -> Option<Vec<u8>> {
    match followed(engine, store, |engine, store| get(engine, store, key)) {
        Ok(bytes) => Some(bytes),
        Err(KvError::NotFound) => None,
        Err(error) => panic!("{error}"),
    }
}

fn follow_at_every_store(seed: u64, keys: u64, rounds: usize, pace: u64, lens: &'static [usize]) {
    let rig = Rig::new(6 << 20, small(Packing::default()));
    let (options, namespace, home) = (rig.options, rig.namespace.clone(), {
        let mut store = rig.store.with(rig.store.image.clone());
        store.find_home(&rig.namespace).unwrap()
    });
    let mut random = Random::new(seed);
    let mut writer = Writer { rig, versions: BTreeMap::new(), next: 1, lens, lease: None };
    writer.begin_round();
    let image = writer.rig.store.image.clone();
    let windows_bytes = image.windows.borrow().len();
    let mut store = Beside {
        state: vec![0; image.state.len()],
        windows: RefCell::new(vec![0; windows_bytes]),
        images: vec![image],
        now: Cell::new(0),
        random: RefCell::new(Random::new(seed ^ 0x5eed)),
        pace,
        page_bytes: 4096,
        home,
    };
    let mut engine = KvEngine::open(&mut store, &namespace, options).unwrap().0;
    for round in 0..rounds {
        writer.begin_round();
        // Idle followers, and such that follow each commit.
        let commands = if round % 5 == 4 { 150 } else { 1 + random.below(20) };
        (0..commands).for_each(|_| writer.write(&mut random, keys));
        (store.images, store.now) = (writer.images(), Cell::new(0));
        if round % 7 == 6 {
            engine = KvEngine::open(&mut store, &namespace, options).unwrap().0;
        }
        loop {
            let (number, from) = (random.below(keys), store.now.get());
            let found = get_beside(&mut engine, &mut store, &numbered(number));
            let found = found.map(|bytes| version_of(number, &bytes));
            let unwritten = History::default();
            let history = writer.versions.get(&number).unwrap_or(&unwritten);
            let visible =
                if history.0.is_empty() { vec![None] } else { history.visible(from, store.now.get()) };
            assert!(
                visible.contains(&found),
                "round {round}, key {number}: {found:?} of {visible:?} at images {from} to {}",
                store.now.get()
            );
            if store.now.get() + 1 == store.images.len() {
                break;
            }
        }
        check_all(&mut engine, &mut store, &writer);
    }
    let counters = engine.stats().follow;
    assert!(counters.advances > 0 && counters.reloads > 0, "{counters:?}");
}

/// Keys and values once the writer rests.
fn check_all(engine: &mut KvEngine, store: &mut Beside, writer: &Writer) {
    let mut there = Vec::new();
    followed(engine, store, |engine, store| {
        there.clear();
        let visit = |key: &Key, _: u32| {
            there.push(*key);
            true
        };
        engine.list(store, &[], visit, &mut 0)
    })
    .unwrap();
    let last = |history: &History| history.0.last().and_then(|(_, version)| *version);
    let expected = writer.versions.iter().filter(|(_, history)| last(history).is_some());
    assert_eq!(there, expected.map(|(number, _)| numbered(*number)).collect::<Vec<_>>());
    for (number, history) in &writer.versions {
        let found = get_beside(engine, store, &numbered(*number));
        assert_eq!(found.map(|bytes| version_of(*number, &bytes)), last(history), "key {number}");
    }
}

#[test]
fn follower_of_small_values_reads_what_was_committed() {
    for (seed, pace) in [(1, 20), (2, 200)] {
        follow_at_every_store(seed, 60, 25, pace, &[0, 16, 100, 900]);
    }
}

#[test]
fn follower_of_long_values_reads_whole_ones() {
    for (seed, pace) in [(4, 20), (5, 200)] {
        follow_at_every_store(seed, 12, 12, pace, &[100, 4080, 9000, 20_000, 40_000]);
    }
}
