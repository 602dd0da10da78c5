//! Lives of one device, each ended by a power cut.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byway_flash::{
    AreaId, BlockLease, Cause, Durability, ExtentId, FinishedSync, Flash, FlashError, FlashOptions,
    MediaKind, NamespaceKind, NamespaceSpec, OpenOptions, PendingSync, RunOptions, SyncPoint,
};
use byway_forgetful::{Forgetful, Random, copy_sparse, image_folder};
pub use byway_kit::tagged as pattern;
use byway_link::Profile;

use crate::model::{Model, Target, Value};

pub const UNIT: usize = 4096;
const PAGE: usize = 16384;
const UNITS: u64 = 512;
const PAGES: u64 = 128;
const LIVES: u64 = 3;
/// Steps that a life goes on for at most while its cut is to come.
const STEPS_MAX: u64 = 400;

pub const NVM: NamespaceSpec = NamespaceSpec {
    nsid: Some(1),
    kind: NamespaceKind::Nvm { lba_bytes: 512 },
    size_bytes: UNITS * UNIT as u64,
};
const KV: NamespaceSpec =
    NamespaceSpec { nsid: Some(2), kind: NamespaceKind::Kv, size_bytes: PAGES * PAGE as u64 };
const PASSING: NamespaceSpec =
    NamespaceSpec { nsid: Some(3), kind: NamespaceKind::Kv, size_bytes: 2 * PAGE as u64 };
const AREA: AreaId = AreaId(1);

/// A closed image whose flash is full of what was overwritten, so that garbage is collected from the start.
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
        let profile = Profile::by_name("gen4x4").unwrap().flash;
        let options = FlashOptions::new(4 << 20 | 64 << 10, profile, MediaKind::File(path.clone()))
            .over_provisioning_percent(5);
        let mut flash = Flash::create(options, &[NVM, KV]).unwrap();
        let mut model = Model::of([]);
        let mut random = Random::new(1);
        for step in 1..2500 {
            let step = Step::any(&mut random, step, &flash);
            let effects = step.effects(&model);
            step.take(&mut flash).unwrap();
            for (target, value) in effects {
                model.write(target, value);
            }
            model.sync();
        }
        assert!(flash.counters()[Cause::Gc].erases > 0);
        flash.close().unwrap();
        Self { _folder: folder, path, model }
    }
}

/// One thing a host does.
#[derive(Debug, Clone, Copy)]
enum Step {
    Units { first: u64, units: u64, step: u64 },
    Bytes { at: u64, len: u64, step: u64 },
    TrimUnits { first: u64, units: u64 },
    Page { page: u64, step: u64 },
    TrimPage { page: u64 },
    Owner { step: u64 },
    AddPassing { step: u64 },
    RemovePassing,
}

impl Step {
    fn any(random: &mut Random, step: u64, flash: &Flash) -> Self {
        let unit = random.below(UNITS - 16);
        match random.below(32) {
            0 => Self::Owner { step },
            1 if flash.namespace(3).is_some() => Self::RemovePassing,
            1 => Self::AddPassing { step },
            2..=4 => Self::TrimUnits { first: unit, units: 1 + random.below(5) },
            5..=9 => Self::Page { page: random.below(PAGES), step },
            10 => Self::TrimPage { page: random.below(PAGES) },
            11..=14 => {
                Self::Bytes { at: unit * UNIT as u64 + random.below(4000), len: 1 + random.below(9000), step }
            }
            15..=18 => Self::Units { first: unit, units: 1 + random.below(9), step },
            _ => Self::Units { first: unit % 40, units: 1, step },
        }
    }

    /// What is at each target once the step is done.
    fn effects(self, model: &Model) -> Vec<(Target, Value)> {
        match self {
            Self::Units { first, units, step } => {
                (first..first + units).map(|unit| (Target::Unit(unit), pattern(step, unit, UNIT))).collect()
            }
            Self::Bytes { at, len, step } => changed_units(model, at, &pattern(step, at, len as usize)),
            Self::TrimUnits { first, units } => {
                (first..first + units).map(|unit| (Target::Unit(unit), Value::new())).collect()
            }
            Self::Page { page, step } => vec![(Target::Page(page), pattern(step, page, PAGE))],
            Self::TrimPage { page } => vec![(Target::Page(page), Value::new())],
            Self::Owner { step } => vec![(Target::Owner, pattern(step, 0, 256))],
            Self::AddPassing { step } => vec![
                (Target::PassingArea, pattern(step, 1, 64)),
                (Target::PassingPage, pattern(step, 0, PAGE)),
            ],
            Self::RemovePassing => {
                vec![(Target::PassingArea, Value::new()), (Target::PassingPage, Value::new())]
            }
        }
    }

    /// Takes the step: units that a lease takes by one, if there is one, and everything else once leases are recalled.
    fn take_by(self, flash: &mut Flash, lease: Option<&BlockLease>) -> Result<(), FlashError> {
        match (self, lease) {
            (Self::Units { first, units: units @ 1..=2, step }, Some(lease)) => {
                let data: Vec<u8> =
                    (first..first + units).flat_map(|unit| pattern(step, unit, UNIT)).collect();
                write_by(flash, lease, first, &data)
            }
            _ => {
                flash.take_in_writes();
                self.take(flash)
            }
        }
    }

    fn take(self, flash: &mut Flash) -> Result<(), FlashError> {
        let cause = Cause::Host;
        match self {
            Self::Units { first, units, step } => {
                let data: Vec<u8> =
                    (first..first + units).flat_map(|unit| pattern(step, unit, UNIT)).collect();
                flash.write_units(extent(flash, 1), first, &data, cause, &mut 0)
            }
            Self::Bytes { at, len, step } => {
                flash.write_bytes(extent(flash, 1), at, &pattern(step, at, len as usize), cause, &mut 0)
            }
            Self::TrimUnits { first, units } => flash.trim(extent(flash, 1), first..first + units),
            Self::Page { page, step } => {
                flash.write_page(extent(flash, 2), page, &pattern(step, page, PAGE), cause, &mut 0)
            }
            Self::TrimPage { page } => flash.trim(extent(flash, 2), page..page + 1),
            Self::Owner { step } => flash.set_owner_state(1, &pattern(step, 0, 256)),
            Self::AddPassing { step } => add_passing(flash, step),
            Self::RemovePassing => flash.remove_namespace(3),
        }
    }
}

/// Writes units by a lease, which is renewed first if it has no room.
pub fn write_by(flash: &mut Flash, lease: &BlockLease, first: u64, data: &[u8]) -> Result<(), FlashError> {
    let reader = flash.block_reader(extent(flash, 1)).unwrap();
    let write = || reader.write_by(lease, first * UNIT as u64, data, || true);
    if write() {
        return Ok(());
    }
    flash.renew_block_lease(lease)?;
    if write() {
        return Ok(());
    }
    // The first write to a part of the map.
    flash.take_in_writes();
    flash.write_units(extent(flash, 1), first, data, Cause::Host, &mut 0)
}

pub fn add_passing(flash: &mut Flash, step: u64) -> Result<(), FlashError> {
    let made = flash.add_namespace(PASSING)?;
    let area = flash.add_area(3, AREA, 64)?;
    flash.protected(area).copy_from_slice(&pattern(step, 1, 64));
    flash.write_page(made.extent, 0, &pattern(step, 0, PAGE), Cause::Host, &mut 0)
}

fn changed_units(model: &Model, at: u64, data: &[u8]) -> Vec<(Target, Value)> {
    let (mut at, mut data, mut changed) = (at, data, Vec::new());
    while !data.is_empty() {
        let target = Target::Unit(at / UNIT as u64);
        let within = at as usize % UNIT;
        let len = data.len().min(UNIT - within);
        let mut unit = model.last(target);
        unit.resize(UNIT, 0);
        unit[within..within + len].copy_from_slice(&data[..len]);
        changed.push((target, unit));
        (at, data) = (at + len as u64, &data[len..]);
    }
    changed
}

pub fn extent(flash: &Flash, nsid: u32) -> ExtentId {
    flash.namespace(nsid).unwrap().extent
}

/// Reads the value of a target.
fn found_at(flash: &mut Flash, target: Target) -> Result<Value, FlashError> {
    let (nsid, at, len) = match target {
        Target::Unit(unit) => (1, unit * UNIT as u64, UNIT),
        Target::Page(page) => (2, page * PAGE as u64, PAGE),
        Target::Owner => return Ok(some(flash.namespace(1).unwrap().owner_state.to_vec())),
        Target::PassingPage => (3, 0, PAGE),
        Target::PassingArea => {
            let area = flash.find_area(3, AREA);
            return Ok(area.map_or_else(Value::new, |area| some(flash.area(area).to_vec())));
        }
    };
    let Some(extent) = flash.namespace(nsid).map(|record| record.extent) else { return Ok(Value::new()) };
    let mut data = vec![0; len];
    flash.read(extent, at, &mut data, Cause::Host, &mut 0)?;
    Ok(some(data))
}

/// Zeroes are nothing.
fn some(data: Value) -> Value {
    if data.iter().all(|byte| *byte == 0) { Value::new() } else { data }
}

struct Life {
    flash: Flash,
    events: Arc<Forgetful>,
    path: PathBuf,
    run: RunOptions,
    random: Random,
    step: u64,
    /// None, or two that write in turn.
    leases: Vec<BlockLease>,
    /// A sync during which the device goes on.
    under_way: Option<UnderWay>,
}

/// What the medium did for a sync before the device heard of its end: nothing yet, or all.
enum UnderWay {
    Begun(PendingSync),
    Done(FinishedSync),
}

/// Lives one after the other, each on what the power cut of the one before left.
pub fn run(
    base: &Base,
    seed: u64,
    steps: u64,
    durability: Durability,
    has_leases: bool,
) -> Result<(), String> {
    let folder = image_folder();
    let mut path = folder.path().join("image");
    copy_sparse(&base.path, &path);
    let mut model = base.model.clone();
    let mut random = Random::new(seed);
    let mut step = 10_000;
    for life in 0..LIVES {
        let left = folder.path().join(format!("left-{life}"));
        let events = Forgetful::new(&path, random.next());
        let options = RunOptions::default()
            .durability(durability)
            .events(Some(events.clone()))
            .power_was_lost(life > 0);
        let flash = open(&path, &options)?;
        let mut life =
            Life { flash, events, path, run: options, random, step, leases: Vec::new(), under_way: None };
        life.check(&mut model)?;
        life.open_leases(has_leases);
        // Found after a cut, and from now on what is there.
        life.flash.make_durable().map_err(|error| error.to_string())?;
        life.live(steps, &mut model, &left)?;
        (random, step) = (life.random.clone(), life.step);
        drop(life);
        path = left;
    }
    let options = RunOptions::default().durability(durability).power_was_lost(true);
    let mut flash = open(&path, &options)?;
    check(&mut flash, &mut model)
}

fn open(path: &Path, run: &RunOptions) -> Result<Flash, String> {
    let options = OpenOptions::default().timing(false).run(run.clone());
    Flash::open(path, options).map_err(|error| format!("opening: {error}"))
}

impl Life {
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
        let step = Step::any(&mut self.random, self.step, &self.flash);
        self.step += 1;
        let effects = step.effects(model);
        let lease = self.leases.get((self.step % 2) as usize);
        let taken = step.take_by(&mut self.flash, lease);
        for (target, value) in effects {
            model.write(target, value);
        }
        taken.map_err(|error| format!("{step:?}: {error}"))?;
        let acknowledges = match self.run.durability {
            Durability::Media => !self.random.one_in(3),
            Durability::Process | Durability::Volatile => self.random.one_in(12),
        };
        let begins = acknowledges && self.under_way.is_none() && self.random.one_in(2);
        if begins {
            model.begin_sync();
            self.begin_sync();
        } else if acknowledges {
            self.make_durable()?;
        }
        if left.is_some() && !self.events.is_waiting() {
            return Ok(true);
        }
        match acknowledges {
            true if begins => {}
            true if self.under_way.is_none() => model.sync(),
            true => self.end_sync(model)?,
            false => {}
        }
        if self.random.one_in(60) {
            self.end_process(model)?;
        }
        Ok(left.is_some() && !self.events.is_waiting())
    }

    fn open_leases(&mut self, has_leases: bool) {
        let leases = 0..2 * u64::from(has_leases);
        self.leases = leases.map(|_| self.flash.open_block_lease().unwrap()).collect();
    }

    fn begin_sync(&mut self) {
        let begun = self.flash.begin_sync(SyncPoint::Completion);
        self.under_way = Some(match self.random.one_in(2) {
            true => UnderWay::Begun(begun),
            false => UnderWay::Done(begun.wait()),
        });
    }

    /// Lets the medium finish a sync that is under way, or makes one.
    fn make_durable(&mut self) -> Result<(), String> {
        match self.under_way.take() {
            Some(UnderWay::Begun(begun)) => self.under_way = Some(UnderWay::Done(begun.wait())),
            Some(done) => self.under_way = Some(done),
            None => self.flash.make_durable().map_err(|error| error.to_string())?,
        }
        Ok(())
    }

    fn end_sync(&mut self, model: &mut Model) -> Result<(), String> {
        if let Some(UnderWay::Done(done)) = self.under_way.take() {
            self.flash.end_sync(done).map_err(|error| error.to_string())?;
            model.end_sync();
        }
        Ok(())
    }

    /// The process ends, in order or not, and another goes on.
    fn end_process(&mut self, model: &mut Model) -> Result<(), String> {
        self.under_way = None;
        if self.random.one_in(2) {
            self.flash.close().map_err(|error| error.to_string())?;
        }
        let unopened = MediaKind::Ram;
        let profile = Profile::by_name("gen4x4").unwrap().flash;
        let has_leases = !self.leases.is_empty();
        self.leases.clear();
        // The old device releases the image before it is opened again.
        self.flash = Flash::create(FlashOptions::new(4 << 20, profile, unopened), &[]).unwrap();
        let run = self.run.clone().power_was_lost(false);
        self.flash = open(&self.path, &run)?;
        let mut seen = model.clone();
        check_values(&mut self.flash, &mut seen, true)?;
        self.open_leases(has_leases);
        Ok(())
    }

    fn check(&mut self, model: &mut Model) -> Result<(), String> {
        check(&mut self.flash, model)
    }
}

/// Checks that every value is an allowed one; the values found are the expected ones from now on.
fn check(flash: &mut Flash, model: &mut Model) -> Result<(), String> {
    if flash.recovery().lost > 0 {
        return Err(format!("{:?}", flash.recovery()));
    }
    let findings = flash.check();
    if let Some(finding) = findings.first() {
        return Err(format!("{} findings, first: {finding}", findings.len()));
    }
    check_values(flash, model, false)
}

fn check_values(flash: &mut Flash, model: &mut Model, last_only: bool) -> Result<(), String> {
    let mut found = Vec::new();
    for (target, allowed) in model.targets() {
        let value = found_at(flash, target).map_err(|error| format!("{target:?}: {error}"))?;
        let allowed = if last_only { &allowed[allowed.len() - 1..] } else { allowed };
        if !allowed.contains(&value) {
            let places: Vec<usize> = (0..allowed.len()).collect();
            return Err(format!("{target:?} is none of its {} versions {places:?}", allowed.len()));
        }
        found.push((target, value));
    }
    *model = Model::of(found);
    Ok(())
}
