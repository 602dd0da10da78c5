//! Full namespaces on a flash whose blocks fail one after the other: every put that replaces one is taken until the spares
//! of the flash are used up, and everything can be read from then on.

use std::path::Path;

use crate::common::{get, list, numbered, spec, value};
use byway_flash::{
    Cause, Flash, FlashError, FlashOptions, FlashProfile, MediaKind, NamespaceSpec, OpenOptions, RunOptions,
};
use byway_kit::spread;
use byway_kv::{KvEngine, KvError, KvFormat, KvOptions, Placement, StoreHow};

/// A rule by which nothing fails.
const NOTHING: &str = "read:nth=1000000000";

fn run(inject: &str) -> RunOptions {
    RunOptions::default().injection(Some(inject.parse().unwrap()))
}

/// Small pages and few open blocks, so that nearly all of the flash is promised.
fn flash_options(media: MediaKind, inject: &str) -> FlashOptions {
    let cosmos = byway_link::Profile::by_name("cosmos").unwrap().flash;
    let profile = FlashProfile {
        channels: 1,
        ways: 2,
        planes: 1,
        pages_per_block: 32,
        page_bytes: 4096,
        spare_bytes: 256,
        ..cosmos
    };
    FlashOptions::new(12 << 20, profile, media).timing(false).run(run(inject))
}

fn options() -> KvOptions {
    KvOptions::default().memtable_bytes(60 * 400).cache_bytes(256 << 10)
}

/// A namespace and which version of each of its keys must be there.
struct Store {
    flash: Flash,
    engine: KvEngine,
    value_len: usize,
    versions: Vec<u64>,
    step: u64,
}

impl Store {
    fn new(options: FlashOptions, namespaces: &[NamespaceSpec], value_len: usize) -> Self {
        let mut flash = Flash::create(options, namespaces).unwrap();
        let namespace = flash.namespace(1).unwrap().clone();
        let format = KvFormat { ring_pages: 8, windows: 0, window_bytes: 64 << 10 };
        let engine = KvEngine::create(&mut flash, &namespace, &format, self::options()).unwrap();
        Self { flash, engine, value_len, versions: Vec::new(), step: 0 }
    }

    fn reopen(self, path: &Path, inject: &str) -> Self {
        let Self { flash, engine, value_len, versions, step } = self;
        drop((engine, flash));
        let mut flash = Flash::open(path, OpenOptions::default().run(run(inject)).timing(false)).unwrap();
        let namespace = flash.namespace(1).unwrap().clone();
        let (engine, recovery) = KvEngine::open(&mut flash, &namespace, options()).unwrap();
        assert_eq!(recovery.damage, []);
        Self { flash, engine, value_len, versions, step }
    }

    fn put(&mut self, n: u64) -> Result<(), KvError> {
        self.step += 1;
        let value = value(self.step, self.value_len);
        let placement = if self.step.is_multiple_of(5) { Placement::Dma } else { Placement::Packed };
        let how = StoreHow { placement, ..StoreHow::default() };
        self.engine.put(&mut self.flash, &numbered(n), &value, how, &mut 0)
    }

    /// Fills so much of the capacity, or all of it.
    fn fill(&mut self, percent: u64) {
        let most_bytes = self.engine.capacity_bytes() * percent / 100;
        while self.engine.used_bytes() < most_bytes {
            match self.put(self.versions.len() as u64) {
                Ok(()) => self.versions.push(self.step),
                Err(KvError::Full) if percent == 100 => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Puts one of the keys again, or deletes and puts it.
    fn overwrite(&mut self) -> Result<(), KvError> {
        let n = spread(self.step) % self.versions.len() as u64;
        self.put(n)?;
        self.versions[n as usize] = self.step;
        Ok(())
    }

    fn overwrite_until_another_is_bad(&mut self) {
        let bad = self.flash.health().grown_bad_blocks;
        for _ in 0..40 * self.versions.len() {
            let health = self.flash.health();
            let put = self.overwrite();
            assert!(put.is_ok(), "{put:?}: {health:?}");
            if self.flash.health().grown_bad_blocks > bad {
                return;
            }
        }
        panic!("no block fails any more");
    }

    fn overwrite_until_refused(&mut self) -> KvError {
        (0..40 * self.versions.len()).find_map(|_| self.overwrite().err()).unwrap()
    }

    fn assert_holds(&mut self) {
        for (n, step) in (0..).zip(self.versions.clone()) {
            let found = get(&mut self.engine, &mut self.flash, &numbered(n)).unwrap();
            assert!(found == value(step, self.value_len), "key {n}");
        }
        assert_eq!(list(&mut self.engine, &mut self.flash, b"").len(), self.versions.len());
        assert_eq!(self.flash.check(), []);
    }

    fn assert_is_read_and_not_written(&mut self) {
        let health = self.flash.health();
        assert!(health.worn_out && health.available_spare_percent == 0 && self.flash.is_read_only());
        let refused = self.overwrite_until_refused();
        assert!(matches!(refused, KvError::Flash(FlashError::WornOut)), "{refused}");
        let refused = self.engine.delete(&mut self.flash, &numbered(0), &mut 0);
        assert!(matches!(refused, Err(KvError::Flash(FlashError::WornOut))), "{refused:?}");
        self.assert_holds();
    }
}

/// By turns: a program that fails, of whatever is written by then, and an erase, which is always one of garbage collection.
#[test]
fn a_full_namespace_takes_every_put_until_the_spares_are_used_up_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    for (percent, value_len) in [(100, 900), (95, 100), (100, 6000)] {
        let path = dir.path().join(format!("{percent}-{value_len}"));
        let media = MediaKind::File(path.clone());
        let mut store = Store::new(flash_options(media, NOTHING), &[spec(12 << 20)], value_len);
        store.fill(percent);
        let all = store.flash.health().spare_blocks;
        assert!(all >= 4, "{all} blocks to spare");
        for left in (0..all).rev() {
            let inject = if left % 2 == 0 { "program:nth=700" } else { "erase:nth=11" };
            store = store.reopen(&path, inject);
            store.overwrite_until_another_is_bad();
            let health = store.flash.health();
            assert_eq!((health.spare_blocks, health.spare_blocks_left), (all, left));
            assert_eq!(u32::from(health.available_spare_percent), left * 100 / all);
            assert!(!health.worn_out);
            store.assert_holds();
        }
        store = store.reopen(&path, NOTHING);
        for _ in 0..store.versions.len() {
            store.overwrite().unwrap();
        }
        store = store.reopen(&path, "program:nth=70,erase");
        let refused = store.overwrite_until_refused();
        assert!(matches!(refused, KvError::Flash(FlashError::WornOut)), "{refused}");
        store.assert_is_read_and_not_written();
        store = store.reopen(&path, NOTHING);
        store.assert_is_read_and_not_written();
    }
}

#[test]
fn put_succeeds_when_a_block_fails_under_any_write() {
    let dir = tempfile::tempdir().unwrap();
    for (percent, value_len) in [(100, 900), (95, 100)] {
        for seed in 0..6 {
            let path = dir.path().join(format!("{percent}-{seed}"));
            let options = flash_options(MediaKind::File(path.clone()), NOTHING);
            let mut store = Store::new(options, &[spec(12 << 20)], value_len);
            store.fill(percent);
            store = store.reopen(&path, &format!("seed={seed},program:ppm=300,erase:ppm=3000"));
            let refused = store.overwrite_until_refused();
            assert!(matches!(refused, KvError::Flash(FlashError::WornOut)), "{refused}");
            for cause in [Cause::LogCompaction, Cause::Index, Cause::Gc] {
                assert!(store.flash.counters()[cause].programs > 0, "{cause:?} programmed nothing");
            }
            store.assert_is_read_and_not_written();
        }
    }
}
