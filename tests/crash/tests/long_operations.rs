//! Kills at random instants of what takes long: a snapshot, a resize, a format, a sanitize, a repair, a load. Each leaves what
//! was, or what shall be, and can be done again.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byway::{Key, Nsid, Remedy, Wipe};
use byway_crash_tests::content::{key_of, value_of};
use byway_crash_tests::journal::StepState;
use byway_crash_tests::model::Model;
use byway_crash_tests::runner::Runner;
use byway_crash_tests::sparse;
use byway_crash_tests::workload::{Op, Workload};
use byway_kit::{Random, mix};
use parking_lot::Mutex;

const WORKLOAD: Workload = Workload::Worn;
const SEED: u64 = 3;
const STEPS: u64 = 1000;
/// The step that an operation counts as.
const STEP: u64 = STEPS + 1;

/// Kills of each operation; `BYWAY_TEST_ROUNDS` sets more.
fn kills() -> u64 {
    std::env::var("BYWAY_TEST_ROUNDS").map_or(12, |rounds| rounds.parse().unwrap())
}

/// The environment variable that names an operation and its image to a child process.
const OPERATION: &str = "BYWAY_TEST_UNDERTAKING";

fn uri(image: &Path) -> String {
    format!("embedded:{}?transfer=adaptive&memtable=2K&cache=256K", image.display())
}

fn open(image: &Path) -> Runner {
    Runner::open(&uri(image), WORKLOAD, SEED, None).unwrap()
}

/// Does it from its beginning to its end.
fn perform(what: &str, image: &Path) {
    let device = || byway::embedded::open(&uri(image)).unwrap();
    match what {
        "snapshot" => _ = byway::snapshot(image, image.with_extension("copy")).unwrap(),
        "live snapshot" => _ = device().snapshot(image.with_extension("copy")).unwrap(),
        "resize" => {
            byway::resize(image, 12 << 20, &[(2, 2 << 20)], &mut |_, _| ControlFlow::Continue(())).unwrap()
        }
        "format of pairs" => device().format(Nsid::new(1).unwrap(), 0, true).unwrap(),
        "format of blocks" => device().format(Nsid::new(2).unwrap(), 0, true).unwrap(),
        "sanitize" => device().sanitize(Wipe::BlockErase, |_| ControlFlow::Continue(())).unwrap(),
        "repair" => drop(byway::repair(image, &mut |_, _, _| {}).unwrap()),
        "load" => {
            let pairs = (0..WORKLOAD.keys()).map(|key| (Key::new(&key_of(key)).unwrap(), loaded(key)));
            let _ = device().kv(None).unwrap().load(pairs).unwrap();
        }
        _ => panic!("{what:?}"),
    }
}

fn loaded(key: u16) -> Vec<u8> {
    value_of(STEP, key, WORKLOAD.len(SEED, STEP, key) as usize)
}

/// What it may change: each of the slots, whole.
fn changes(what: &str) -> Vec<Op> {
    match what {
        "format of pairs" => vec![Op::FormatPairs],
        "format of blocks" => vec![Op::FormatBlocks],
        "sanitize" => vec![Op::FormatPairs, Op::FormatBlocks],
        "load" => vec![Op::Bulk { first: 0, pairs: WORKLOAD.keys() }],
        _ => vec![],
    }
}

#[test]
fn a_process_does_the_operation_of_its_environment() {
    let Ok(asked) = std::env::var(OPERATION) else { return };
    let (what, image) = asked.split_once(':').unwrap();
    eprintln!("open");
    perform(what, Path::new(image));
}

/// Has another process perform it, and kills that after so long.
fn kill_in(what: &str, image: &Path, instant: Duration) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["a_process_does_the_operation_of_its_environment", "--exact", "--nocapture"])
        .env(OPERATION, format!("{what}:{}", image.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = process.stderr.as_mut().unwrap().read(&mut [0]);
    std::thread::sleep(instant);
    let ended = process.try_wait().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(ended.is_none_or(|status| status.success()), "{what}: ended by itself, {ended:?}");
}

/// An image on which much was done, and what it holds.
fn base(dir: &Path) -> (PathBuf, Model) {
    let (image, base) = (dir.join("made"), dir.join("base"));
    byway::create(&image, &WORKLOAD.image()).unwrap();
    let (mut runner, mut model) = (open(&image), Model::new(WORKLOAD, SEED));
    for step in 1..=STEPS {
        let done = runner.execute(WORKLOAD.op(SEED, step), step);
        model.apply(step, if done.is_ok() { StepState::Done } else { StepState::Refused });
    }
    // As it is while it is open: an opener of the copy has to recover it first.
    sparse::copy(&image, &base).unwrap();
    (base, model)
}

/// Flips bits until a check finds something, all of which can be restored.
fn damage(image: &Path) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let places: Vec<u64> = sparse::stretches(&file).unwrap().into_iter().flatten().step_by(97).collect();
    for at in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
        let checked = byway::check(image, &mut |_, _, _| {}).unwrap();
        let restores =
            |finding: &byway::Finding| finding.remedy == Remedy::Restore && finding.hits.is_empty();
        if checked.is_usable() && !checked.is_clean() && checked.findings.iter().all(restores) {
            return;
        }
        file.write_all_at(&byte, at).unwrap();
    }
    panic!("no damage of this image can be restored");
}

/// The image is sound, and holds what it held or what it shall hold.
fn verify(what: &str, image: &Path, model: &Model, label: &str) {
    let checked = byway::check(image, &mut |_, _, _| {}).unwrap();
    assert_eq!(checked.findings, [], "{label}");
    let mut model = model.clone();
    changes(what).iter().for_each(|op| model.begin(*op, STEP));
    let reader = Runner::open(&format!("{}&readonly=1", uri(image)), WORKLOAD, SEED, None);
    let reader = reader.unwrap_or_else(|refused| panic!("{label}, read-only: {refused}"));
    model.clone().check(&reader.device).unwrap_or_else(|said| panic!("{label}, read-only: {said}"));
    drop(reader);
    let runner = open(image);
    model.check(&runner.device).unwrap_or_else(|said| panic!("{label}: {said}"));
}

/// What has a temporary name: nothing, or a new image that was killed just before it took the name of the old one.
fn temporary(dir: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let known = ["made", "base", "image", "image.copy"];
    paths.filter(|path| !known.iter().any(|known| path.ends_with(known))).collect()
}

fn killed(what: &str) {
    // A process that is being started has whatever the one that starts it has open: the images of other tests too.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let (base, model) = base(dir.path());
    let image = dir.path().join("image");
    if what == "repair" {
        damage(&base);
    }
    let fresh = || {
        for left in ["image", "image.copy"] {
            let _ = std::fs::remove_file(dir.path().join(left));
        }
        sparse::copy(&base, &image).unwrap();
    };
    fresh();
    let begun = Instant::now();
    perform(what, &image);
    let whole_us = begun.elapsed().as_micros() as u64;
    let mut random = Random::starting_at(mix(SEED, what.len() as u64), 1);
    for kill in 0..kills() {
        fresh();
        let instant = Duration::from_micros(random.below(whole_us + whole_us / 4));
        let label = format!("{what}, kill {kill}, after {instant:?} of {whole_us} us");
        kill_in(what, &image, instant);
        let copy = image.with_extension("copy");
        if copy.exists() {
            verify(what, &copy, &model, &format!("{label}, the copy"));
            std::fs::remove_file(&copy).unwrap();
        }
        for left in temporary(dir.path()) {
            verify(what, &left, &model, &format!("{label}, {}", left.display()));
            std::fs::remove_file(left).unwrap();
        }
        if what != "repair" {
            verify(what, &image, &model, &label);
        }
        perform(what, &image);
        verify(what, &image, &model, &format!("{label}, done again"));
    }
}

#[test]
fn killed_snapshots_leave_the_image_and_a_whole_copy_or_none() {
    killed("snapshot");
    killed("live snapshot");
}

#[test]
fn killed_resizes_leave_the_old_image_or_the_new_one() {
    killed("resize");
}

#[test]
fn killed_formats_forget_everything_or_nothing_of_their_namespace() {
    killed("format of pairs");
    killed("format of blocks");
}

#[test]
fn killed_sanitizes_are_finished_at_the_next_opening() {
    killed("sanitize");
}

#[test]
fn killed_repairs_can_be_done_again() {
    killed("repair");
}

#[test]
fn killed_loads_leave_each_pair_old_or_new() {
    killed("load");
}
