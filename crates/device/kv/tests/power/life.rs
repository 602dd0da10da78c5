//! Lives of one key-value namespace, each ended by a power cut.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byway_flash::{
    Durability, FinishedSync, Flash, FlashOptions, FlashProfile, MediaKind, NamespaceKind, NamespaceRecord,
    NamespaceSpec, OpenOptions, PendingSync, RunOptions, SyncPoint,
};
use byway_forgetful::{Forgetful, Random, Versions, copy_sparse, image_folder};
use byway_kv::{
    Change, Key, KvEngine, KvError, KvFormat, KvOptions, Packing, Placement, Recovery, StoreHow, WindowId,
    record_header_bytes,
};
use byway_queue::WindowCursor;

use crate::step::Step;

/// A value, or none.
pub type Value = Option<Vec<u8>>;
/// Values by the number of their key.
pub type Model = Versions<u64, Value>;

pub const KEYS: u64 = 128;
const LIVES: u64 = 4;
/// Steps that a life goes on for at most while its cut is to come.
const STEPS_MAX: u64 = 400;
pub const WINDOW: WindowId = WindowId(1);

const NAMESPACE: NamespaceSpec =
    NamespaceSpec { nsid: Some(1), kind: NamespaceKind::Kv, size_bytes: 560 << 10 };
pub const FORMAT: KvFormat = KvFormat { ring_pages: 4, windows: 2, window_bytes: 16 << 10 };

/// Pages of one unit, and few of them a block.
pub const PROFILE: FlashProfile = FlashProfile {
    channels: 2,
    ways: 1,
    planes: 1,
    blocks_per_plane: 64,
    pages_per_block: 16,
    page_bytes: 4096,
    spare_bytes: 128,
    read_ns: 60_000,
    program_ns: 1_300_000,
    erase_ns: 3_800_000,
    bus_mb_s: 200,
    over_provisioning_percent: 10,
    buffer_pages: 4,
};

/// A closed image whose log was compacted many times.
pub struct Base {
    _folder: tempfile::TempDir,
    path: PathBuf,
    model: Model,
}

impl Base {
    pub fn shared() -> &'static Self {
        static BASE: OnceLock<Base> = OnceLock::new();
        BASE.get_or_init(Self::make)
    }

    fn make() -> Self {
        let folder = image_folder();
        let path = folder.path().join("base");
        let options = FlashOptions::new(4 << 20, PROFILE, MediaKind::File(path.clone()));
        let mut flash = Flash::create(options, &[NAMESPACE]).unwrap();
        let namespace = namespace(&flash);
        let engine = KvEngine::create(&mut flash, &namespace, &FORMAT, small(Packing::default())).unwrap();
        let mut device = Device { engine, flash, host: None };
        let (mut model, mut random) = (Model::of([]), Random::new(1));
        for step in 1..6000 {
            let step = Step::any(&mut random, step);
            let effects = step.effects(&model);
            if device.take(step).unwrap() {
                effects.into_iter().for_each(|(key, value)| model.write(key, value));
            }
            model.sync();
        }
        let stats = device.engine.stats();
        assert!(stats.compaction.moved_records > 0 && stats.index.merges > 0, "{stats:?}");
        device.flash.close().unwrap();
        Self { _folder: folder, path, model }
    }
}

/// Small tables, so that flushes and merges come early.
pub fn small(packing: Packing) -> KvOptions {
    KvOptions::default().packing(packing).memtable_bytes(44 * 24).cache_bytes(64 << 10)
}

pub fn namespace(flash: &Flash) -> NamespaceRecord {
    flash.namespace(1).unwrap().clone()
}

pub fn key(n: u64) -> Key {
    Key::new(&n.to_be_bytes()).unwrap()
}

/// The bytes of a step's value for a key.
pub fn pattern(step: u64, key: u64, len: u64) -> Vec<u8> {
    byway_kit::tagged(step, key, len as usize)
}

/// The device, and the cursor of the host that stores into its window.
pub struct Device {
    pub engine: KvEngine,
    pub flash: Flash,
    pub host: Option<WindowCursor>,
}

impl Device {
    /// Opens an image, and its engine; one whose making was cut short is made anew, where that may be.
    pub fn open(path: &Path, run: &RunOptions, packing: Packing, may_be_none: bool) -> Result<Self, String> {
        let (flash, engine, recovery) = Self::open_parts(path, run, packing, may_be_none)?;
        let mut device = Self { engine, flash, host: None };
        device.check_structures(&recovery)?;
        Ok(device)
    }

    fn open_parts(
        path: &Path,
        run: &RunOptions,
        packing: Packing,
        may_be_none: bool,
    ) -> Result<(Flash, KvEngine, Recovery), String> {
        let options = OpenOptions::default().timing(false).run(run.clone());
        let mut flash = Flash::open(path, options).map_err(|error| format!("opening: {error}"))?;
        let record = namespace(&flash);
        match KvEngine::open(&mut flash, &record, small(packing)) {
            Ok((engine, recovery)) => Ok((flash, engine, recovery)),
            Err(KvError::DamagedState(_)) if may_be_none && !byway_kv::was_made(&mut flash, &record) => {
                let made = KvEngine::create(&mut flash, &record, &FORMAT, small(packing));
                Ok((flash, made.map_err(|error| error.to_string())?, Recovery::default()))
            }
            Err(error) => Err(format!("opening the engine: {error}")),
        }
    }

    fn check_structures(&mut self, recovery: &Recovery) -> Result<(), String> {
        if self.flash.recovery().lost > 0 {
            return Err(format!("{:?}", self.flash.recovery()));
        }
        let of_flash = self.flash.check();
        let of_engine = self.engine.check(&mut self.flash, 1, recovery, &mut |_, _, _| {});
        let mut findings = of_flash.iter().chain(&of_engine).map(ToString::to_string).peekable();
        match findings.peek().cloned() {
            Some(first) => Err(format!("{} findings, first: {first}", findings.count())),
            None => Ok(()),
        }
    }

    /// Takes a step; whether it was done. One that found no room left everything as it was.
    fn take(&mut self, step: Step) -> Result<bool, KvError> {
        match self.try_to(step) {
            Ok(()) => Ok(true),
            Err(
                KvError::Full | KvError::WindowBehind | KvError::NoWindow(_) | KvError::ValueTooLong { .. },
            ) => {
                self.engine.close_window(WINDOW);
                self.host = None;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn try_to(&mut self, step: Step) -> Result<(), KvError> {
        let flash = &mut self.flash;
        match step {
            Step::Put { key: n, len, placement, step } => {
                let how = StoreHow { placement, ..StoreHow::default() };
                self.engine.put(flash, &key(n), &pattern(step, n, len), how, &mut 0)
            }
            Step::Delete { key: n } => self.engine.delete(flash, &key(n), &mut 0).map(drop),
            Step::Batch { first, count, step } => {
                let changes = Step::changes(first, count, step);
                let changes: Vec<_> = changes
                    .iter()
                    .map(|(n, value)| Change { key: key(*n), value: value.as_deref() })
                    .collect();
                self.engine.store_many(flash, &changes, &mut 0)
            }
            Step::WriteOut => self.engine.flush(flash, &mut 0),
            Step::Reclaim => self.engine.reclaim(flash, &mut 0),
            Step::PutInPlace { key: n, len, step } => self.put_in_place(&key(n), &pattern(step, n, len)),
            Step::PutByDma { key: n, len, step } => self.put_by_dma(&key(n), &pattern(step, n, len)),
            Step::Format => {
                self.host = None;
                self.engine.format(flash, &mut 0)
            }
            Step::Create => {
                self.host = None;
                let record = namespace(flash);
                self.engine = KvEngine::create(flash, &record, &FORMAT, small(Packing::default()))?;
                Ok(())
            }
        }
    }

    /// The cursor of the open window.
    fn cursor(&mut self) -> Result<&mut WindowCursor, KvError> {
        if self.host.is_none() {
            self.engine.open_window(&mut self.flash, WINDOW, &mut 0)?;
        }
        let segment_bytes = self.engine.window_segment_bytes();
        Ok(self.host.get_or_insert_with(|| WindowCursor::new(segment_bytes)))
    }

    pub fn put_in_place(&mut self, key: &Key, value: &[u8]) -> Result<(), KvError> {
        let header_bytes = record_header_bytes(key.len());
        let (range, page_bytes) = (self.engine.window_range(WINDOW), self.engine.window_page_bytes() as u64);
        let cursor = self.cursor()?;
        let page_start = cursor.position() / page_bytes * page_bytes;
        let bytes = (header_bytes + value.len()) as u64;
        let position = cursor.place(bytes).ok_or(KvError::WindowBehind)?;
        if position + bytes > page_start + range.len() as u64 {
            return Err(KvError::WindowBehind);
        }
        let at = range.start + (position % range.len() as u64) as usize + header_bytes;
        self.engine.window_memory().unwrap().write_at(at, value).unwrap();
        let (flash, len) = (&mut self.flash, value.len() as u64);
        self.engine.put_in_place(flash, WINDOW, key, &[], len, StoreHow::default(), &mut 0)
    }

    fn put_by_dma(&mut self, key: &Key, value: &[u8]) -> Result<(), KvError> {
        self.cursor()?;
        let mut rest = value;
        let fill = |piece: &mut [u8], _: &mut u64| {
            let (head, tail) = rest.split_at(piece.len());
            piece.copy_from_slice(head);
            rest = tail;
            Ok::<(), KvError>(())
        };
        let how = StoreHow { placement: Placement::Dma, ..StoreHow::default() };
        let (flash, len) = (&mut self.flash, value.len() as u64);
        let row =
            self.engine.put_in_window_by_dma(flash, WINDOW, key, len, how, fill, |_, _, _| false, &mut 0)?;
        if let (Some(row), Some(cursor)) = (row, &mut self.host) {
            cursor.note_dma(row.position, row.len).unwrap();
        }
        Ok(())
    }

    pub fn get(&mut self, n: u64) -> Result<Value, KvError> {
        let mut found = Vec::new();
        let into = |piece: &[u8], _: &mut u64| {
            found.extend_from_slice(piece);
            Ok::<(), KvError>(())
        };
        match self.engine.get(&mut self.flash, &key(n), 0, u64::MAX, into, &mut 0) {
            Ok(_) => Ok(Some(found)),
            Err(KvError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that every key has a value that it may have, and that the list agrees. The model takes over what was found.
    fn check_values(
        &mut self,
        model: &mut Model,
        batches: &[Vec<(u64, Value)>],
        last_only: bool,
    ) -> Result<(), String> {
        let mut found = Vec::new();
        for (n, allowed) in model.targets() {
            let value = self.get(n).map_err(|error| format!("key {n}: {error}"))?;
            let allowed = if last_only { &allowed[allowed.len() - 1..] } else { allowed };
            if !allowed.contains(&value) {
                let lens: Vec<_> = allowed.iter().map(|value| value.as_ref().map(Vec::len)).collect();
                let len = value.map(|value| value.len());
                return Err(format!("key {n} has {len:?}, none of its versions {lens:?}"));
            }
            found.push((n, value));
        }
        let mut listed = 0;
        let visit = |_: &Key, _: u32| {
            listed += 1;
            true
        };
        self.engine.list(&mut self.flash, b"", visit, &mut 0).map_err(|error| error.to_string())?;
        let there = found.iter().filter(|(_, value)| value.is_some()).count();
        if listed != there {
            return Err(format!("{listed} keys are listed, {there} have a value"));
        }
        let found: BTreeMap<_, _> = found.into_iter().collect();
        batches.iter().try_for_each(|batch| check_batch(batch, model, &found))?;
        *model = Model::of(found);
        Ok(())
    }
}

/// Checks a batch that no sync has covered: where one of its values is there, each of its other keys has what the batch left it or
/// a later version.
fn check_batch(batch: &[(u64, Value)], model: &Model, found: &BTreeMap<u64, Value>) -> Result<(), String> {
    let versions: BTreeMap<_, _> = model.targets().collect();
    let place = |(key, value): &(u64, Value)| versions.get(key)?.iter().position(|version| version == value);
    let values = || batch.iter().filter(|(_, value)| value.is_some());
    let is_new = values().any(|change| place(change).is_some_and(|place| place > 0));
    let is_there = values().any(|(key, value)| found.get(key) == Some(value));
    for change in batch.iter().filter(|_| is_new && is_there) {
        let (key, Some(first)) = (change.0, place(change)) else { continue };
        let last = versions[&key].iter().rposition(|version| *version == found[&key]);
        if last.is_none_or(|last| last < first) {
            return Err(format!("key {key} lacks a batch of {} keys that is there", batch.len()));
        }
    }
    Ok(())
}

/// What the medium did for a sync before the device heard of its end: nothing yet, or all.
enum UnderWay {
    Begun(PendingSync),
    Done(FinishedSync),
}

struct Life {
    /// None only while the process ends.
    device: Option<Device>,
    events: Arc<Forgetful>,
    path: PathBuf,
    run: RunOptions,
    random: Random,
    step: u64,
    /// A sync during which the device goes on.
    under_way: Option<UnderWay>,
    /// An engine was made that no sync covered yet.
    made: bool,
    /// Whether some steps are batches, and those of this life.
    with_batches: bool,
    batches: Vec<Vec<(u64, Value)>>,
}

/// Lives one after the other, each on what the power cut of the one before left.
pub fn run(base: &Base, seed: u64, steps: u64, durability: Durability) -> Result<(), String> {
    live_on(base, seed, steps, durability, false)
}

/// The same with batches.
pub fn run_with_batches(base: &Base, seed: u64, steps: u64, durability: Durability) -> Result<(), String> {
    live_on(base, seed, steps, durability, true)
}

fn live_on(
    base: &Base,
    seed: u64,
    steps: u64,
    durability: Durability,
    with_batches: bool,
) -> Result<(), String> {
    let folder = image_folder();
    let mut path = folder.path().join("image");
    copy_sparse(&base.path, &path);
    let (mut model, mut random) = (base.model.clone(), Random::new(seed));
    let (mut step, mut made) = (10_000, false);
    let mut batches = Vec::new();
    for life in 0..LIVES {
        let left = folder.path().join(format!("left-{life}"));
        let events = Forgetful::new(&path, random.next());
        let power_was_lost = life > 0;
        let run = RunOptions::default()
            .durability(durability)
            .events(Some(events.clone()))
            .power_was_lost(power_was_lost);
        let device = Some(Device::open(&path, &run, packing(&mut random), made)?);
        let mut life = Life {
            device,
            events,
            path,
            run,
            random,
            step,
            under_way: None,
            made: false,
            with_batches,
            batches: Vec::new(),
        };
        life.device().check_values(&mut model, &batches, false)?;
        // Found after a cut, and from now on what is there.
        life.device().flash.make_durable().map_err(|error| error.to_string())?;
        life.live(steps, &mut model, &left)?;
        (random, step, made) = (life.random.clone(), life.step, life.made);
        batches = std::mem::take(&mut life.batches);
        drop(life);
        path = left;
    }
    let run = RunOptions::default().durability(durability).power_was_lost(true);
    Device::open(&path, &run, Packing::default(), made)?.check_values(&mut model, &batches, false)
}

fn packing(random: &mut Random) -> Packing {
    Packing::ALL[random.below(Packing::ALL.len() as u64) as usize]
}

impl Life {
    fn device(&mut self) -> &mut Device {
        self.device.as_mut().unwrap()
    }

    /// Takes steps; somewhere in the later ones the power is cut.
    fn live(&mut self, steps: u64, model: &mut Model, left: &Path) -> Result<(), String> {
        for _ in 0..steps {
            self.take_step(model, None)?;
        }
        self.events.cut_after(1 + self.random.below(60), left);
        for _ in 0..STEPS_MAX {
            if self.take_step(model, Some(left))? {
                return Ok(());
            }
        }
        self.events.cut_now(left);
        Ok(())
    }

    /// One step, and perhaps a sync. Says whether the power was cut in it.
    fn take_step(&mut self, model: &mut Model, left: Option<&Path>) -> Result<bool, String> {
        let step = match self.with_batches && self.random.one_in(4) {
            true => Step::any_batch(&mut self.random, self.step),
            false => Step::any(&mut self.random, self.step),
        };
        self.step += 1;
        self.made |= matches!(step, Step::Create);
        let is_cut = |life: &Self| left.is_some() && !life.events.is_waiting();
        let effects = step.effects(model);
        let taken = self.device().take(step).map_err(|error| format!("{step:?}: {error}"))?;
        // What had no room may be there after a cut if it came before the room was missed: it is not.
        if taken || is_cut(self) {
            if matches!(step, Step::Batch { .. }) {
                self.batches.push(effects.clone());
            }
            effects.into_iter().for_each(|(key, value)| model.write(key, value));
        }
        let acknowledges = match self.run.durability {
            Durability::Media => !self.random.one_in(3),
            Durability::Process | Durability::Volatile => self.random.one_in(12),
        };
        if !is_cut(self) && acknowledges {
            self.acknowledge(model, &is_cut)?;
        }
        if is_cut(self) {
            return Ok(true);
        }
        if self.random.one_in(80) {
            self.end_process(model)?;
        }
        Ok(is_cut(self))
    }

    /// Begins a sync, ends one, or makes one. Nothing counts as durable if the power was cut meanwhile.
    fn acknowledge(&mut self, model: &mut Model, is_cut: &impl Fn(&Self) -> bool) -> Result<(), String> {
        match self.under_way.take() {
            None if self.random.one_in(2) => {
                model.begin_sync();
                let begun = self.device().flash.begin_sync(SyncPoint::Completion);
                self.under_way = Some(match self.random.one_in(2) {
                    true => UnderWay::Begun(begun),
                    false => UnderWay::Done(begun.wait()),
                });
                return Ok(());
            }
            None => {
                self.device().flash.make_durable().map_err(|error| error.to_string())?;
                if !is_cut(self) {
                    model.sync();
                    self.made = false;
                }
                return Ok(());
            }
            Some(UnderWay::Begun(begun)) => self.end_sync(begun.wait())?,
            Some(UnderWay::Done(done)) => self.end_sync(done)?,
        }
        if !is_cut(self) {
            model.end_sync();
        }
        Ok(())
    }

    fn end_sync(&mut self, done: FinishedSync) -> Result<(), String> {
        self.device().flash.end_sync(done).map_err(|error| error.to_string())
    }

    /// The process ends, in order or not, and another goes on.
    fn end_process(&mut self, model: &Model) -> Result<(), String> {
        self.under_way = None;
        if self.random.one_in(2) {
            self.device().flash.close().map_err(|error| error.to_string())?;
        }
        // The old device releases the image before it is opened again.
        self.device = None;
        let run = self.run.clone().power_was_lost(false);
        let packing = packing(&mut self.random);
        self.device = Some(Device::open(&self.path, &run, packing, self.made)?);
        self.device().check_values(&mut model.clone(), &[], true)
    }
}
