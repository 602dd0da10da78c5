//! Lives of one device, each ended by a power cut.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use byway::{CreateOptions, NewNamespace};
use byway_flash::{Durability, RunOptions};
use byway_forgetful::{Random, copy_sparse, image_folder};

use crate::device::{Device, Watch};
use crate::model::{Allowed, History, Model, Promise};
use crate::step::{Step, Target};

const LIVES: u64 = 3;
/// One in so many lives has the cut before it has begun: in its opening, if that does enough.
const EARLY: u64 = 4;

/// A closed image full of what was overwritten, so that garbage is collected from the start.
pub struct Base {
    _folder: tempfile::TempDir,
    pub path: PathBuf,
    pub model: Model,
}

impl Base {
    pub fn shared() -> &'static Self {
        static BASE: OnceLock<Base> = OnceLock::new();
        BASE.get_or_init(Self::make)
    }

    fn make() -> Self {
        let folder = image_folder();
        let path = folder.path().join("base");
        let kv = NewNamespace { size_bytes: Some(3 << 20), ..NewNamespace::KV };
        let nvm = NewNamespace { size_bytes: Some(1 << 20), ..NewNamespace::NVM };
        let namespaces = vec![kv, nvm];
        let options = CreateOptions::new(4 << 20).namespaces(namespaces).uuid([1; 16]);
        byway::create(&path, &options).unwrap();
        let mut device = Device::open(&path, RunOptions::default(), 32);
        let (mut random, mut history) = (Random::new(1), History::default());
        for number in 1..3000 {
            device.submit(&[(Step::any(&mut random), number)], &mut history);
            device.take(0, &mut history);
        }
        assert!(device.garbage_collected());
        let model = device.read();
        Self { _folder: folder, path, model }
    }
}

/// Something acknowledged is not there.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
pub struct Lost(String);

/// How a device is run, and what is held against it.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    pub seed: u64,
    pub depth: u32,
    pub durability: Durability,
    pub promise: Promise,
}

/// What is known of a device: what was there, and what was done since.
#[derive(Default)]
struct Known {
    before: Model,
    history: History,
    posted: usize,
}

/// Lives one after the other, each on what the power cut of the one before left.
///
/// # Errors
/// When what was acknowledged is lost. Whatever else goes wrong panics.
pub fn run(trial: Trial) -> Result<(), Lost> {
    let (base, folder) = (Base::shared(), image_folder());
    let mut path = folder.path().join("image");
    copy_sparse(&base.path, &path);
    let mut random = Random::new(trial.seed);
    let mut known = Known { before: base.model.clone(), ..Known::default() };
    let mut number = 10_000;
    for life in 0..=LIVES {
        let left = folder.path().join(format!("left-{life}"));
        let watch = Watch::new(&path, random.next());
        if random.one_in(EARLY) {
            watch.file.cut_after(1 + random.below(40), &left);
        }
        let events = Some(watch.clone() as Arc<_>);
        let run = RunOptions::default().durability(trial.durability).events(events).power_was_lost(life > 0);
        let mut device = Device::open(&path, run, trial.depth);
        let found = check(&mut device, &known, trial)?;
        if watch.at_cut().is_none() {
            known = Known { before: found, ..Known::default() };
            live(device, &mut known, &watch, (&mut random, &mut number), &left);
        }
        path = left;
    }
    let run = RunOptions::default().power_was_lost(true);
    check(&mut Device::open(&path, run, 1), &known, trial).map(drop)
}

/// Takes steps; somewhere in the later ones, or at the orderly end, the power is cut.
fn live(
    mut device: Device,
    known: &mut Known,
    watch: &Watch,
    (random, number): (&mut Random, &mut u64),
    left: &Path,
) {
    watch.count_in(device.space());
    let history = &mut known.history;
    let (quiet, steps) = (*number + random.below(60), *number + 140);
    while *number < steps && watch.at_cut().is_none() {
        if *number >= quiet && !watch.file.is_waiting() {
            watch.file.cut_after(1 + random.below(60), left);
        }
        let batch: Vec<(Step, u64)> = (0..1 + random.below(device.room().into()))
            .map(|_| {
                *number += 1;
                (Step::any(random), *number)
            })
            .collect();
        device.submit(&batch, history);
        let under_way = random.below(device.depth().into()) as u32;
        device.take(under_way, history);
    }
    device.take(0, history);
    assert_eq!(watch.posted(), history.taken, "each completion was seen");
    drop(device);
    if watch.at_cut().is_none() {
        watch.cut_now(left);
    }
    known.posted = watch.at_cut().unwrap();
}

/// Checks that every value is an allowed one; the values found are the expected ones from now on.
fn check(device: &mut Device, known: &Known, trial: Trial) -> Result<Model, Lost> {
    let allowed = known.history.allowed(&known.before, known.posted, trial.promise);
    check_values(device, &allowed, &trial)
}

pub fn check_values(device: &mut Device, allowed: &Allowed, trial: &dyn Debug) -> Result<Model, Lost> {
    let found = device.read();
    for target in Target::all() {
        let value = found.at(target);
        let versions = allowed.get(&target);
        if !versions.map_or(value.is_empty(), |versions| versions.contains(&value)) {
            let count = versions.map_or(0, Vec::len);
            let why = format!("{target:?} is none of the {count} versions that it may be: {trial:?}");
            return Err(Lost(why));
        }
    }
    Ok(found)
}
