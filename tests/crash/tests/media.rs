//! A medium that fails, by rule and by seed, while blocks are collected and levelled, logs compacted, memtables written and
//! runs merged, lists made and devices opened; with power cut in between. What fails is named; what was acknowledged is there
//! once the medium works again, and the check of the image finds nothing.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use byway::{Cause, ErrorKind};
use byway_crash_tests::fault::critical_warning;
use byway_crash_tests::journal::StepState;
use byway_crash_tests::model::Model;
use byway_crash_tests::runner::Runner;
use byway_crash_tests::workload::{Op, Workload};
use byway_crash_tests::{reading, sparse};
use byway_flash::power_loss::watch;
use byway_kit::mix;

const WORKLOAD: Workload = Workload::Worn;
const LIVES: u64 = 4;
const STEPS: u64 = 900;
/// Power is cut at one point in this many of a life.
const CUT_EVERY: u64 = 12_000;

/// A device whose medium fails in each life, and works in between.
struct Trial {
    image: PathBuf,
    copy: PathBuf,
    seed: u64,
    inject: String,
    model: Rc<RefCell<Model>>,
    step: u64,
    figures: Figures,
}

/// What came of it.
#[derive(Debug, Default)]
struct Figures {
    cuts: u64,
    /// Commands, and openings, that ended in a media error.
    named: u64,
    refused_openings: u64,
    media_errors: u64,
    bad_blocks: u32,
    moved: [u64; Cause::ALL.len()],
}

impl Trial {
    fn new(dir: &Path, seed: u64, inject: &str) -> Self {
        let image = dir.join("image");
        let _ = std::fs::remove_file(&image);
        byway::create(&image, &WORKLOAD.image()).unwrap();
        let model = Rc::new(RefCell::new(Model::new(WORKLOAD, seed)));
        let (copy, inject) = (dir.join("copy"), inject.to_owned());
        Self { image, copy, seed, inject, model, step: 0, figures: Figures::default() }
    }

    fn run(mut self) -> Figures {
        for life in 0..LIVES {
            match self.open(&format!("&inject={},seed={}", self.inject, self.seed + life)) {
                Ok(runner) => self.live(runner, life % 2 == 1),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Media | ErrorKind::System), "{error:?}");
                    self.figures.refused_openings += 1;
                    // As much is done on a medium that works.
                    let runner = self.open("").unwrap();
                    self.live(runner, false);
                }
            }
            self.compare(life);
        }
        self.figures
    }

    fn open(&self, more: &str) -> byway::Result<Runner> {
        let options = "transfer=adaptive&reads=checked&memtable=2K&cache=64K";
        Runner::open(&format!("embedded:{}?{options}{more}", self.image.display()), WORKLOAD, self.seed, None)
    }

    /// Does the steps of a life, and has power cut now and then on the way.
    fn live(&mut self, mut runner: Runner, ends_in_order: bool) {
        let seen = Rc::new(RefCell::new((0, 0)));
        for _ in 0..STEPS {
            self.step += 1;
            let op = WORKLOAD.op(self.seed, self.step);
            let settled = self.model.borrow().clone();
            self.model.borrow_mut().apply(self.step, StepState::Begun);
            self.watch(&seen);
            let done = runner.execute(op, self.step);
            watch(None);
            let state = self.state_after(op, done);
            *self.model.borrow_mut() = settled;
            self.model.borrow_mut().apply(self.step, state);
        }
        self.figures.cuts += seen.borrow().1;
        let flash = runner.device.flash();
        self.figures.bad_blocks += flash.health.grown_bad_blocks;
        self.figures.media_errors = flash.counters.media_errors;
        self.figures.moved = std::array::from_fn(|at| flash.counters[Cause::ALL[at]].programs);
        let Runner { pairs, blocks, device, .. } = runner;
        drop((pairs, blocks));
        if ends_in_order {
            // An end that the medium does not let be is one that never came.
            let _ = device.close();
        }
    }

    /// What a command came to. A write that met a media error is done or not.
    fn state_after(&mut self, op: Op, done: byway::Result<()>) -> StepState {
        let Err(error) = done else { return StepState::Done };
        match error.kind() {
            ErrorKind::CapacityExceeded => StepState::Refused,
            // No spare blocks are left.
            ErrorKind::Denied => StepState::Refused,
            ErrorKind::Media => {
                self.figures.named += 1;
                StepState::Begun
            }
            kind => panic!("{}: step {}, {op:?}: {kind:?}, {error}", self.inject, self.step),
        }
    }

    /// Cuts power at some of the points of a command: what that leaves is read on a medium that works.
    fn watch(&self, seen: &Rc<RefCell<(u64, u64)>>) {
        let (seen, model) = (Rc::clone(seen), Rc::clone(&self.model));
        let (image, copy, seed) = (self.image.clone(), self.copy.clone(), mix(self.seed, self.step));
        let label = format!("{}: seed {}, cut in step {}", self.inject, self.seed, self.step);
        watch(Some(Box::new(move |point| {
            let (points, cuts) = &mut *seen.borrow_mut();
            *points += 1;
            if !mix(seed, *points).is_multiple_of(CUT_EVERY) {
                return;
            }
            *cuts += 1;
            sparse::copy(&image, &copy).unwrap();
            let left = reading::read(&copy, WORKLOAD.keys(), WORKLOAD.blocks());
            let left = left.unwrap_or_else(|said| panic!("{label} before a {point:?}: refused: {said}"));
            let whole = model.borrow().clone().check_reading(&left);
            whole.unwrap_or_else(|said| panic!("{label} before a {point:?}: {said}"));
        })));
    }

    /// On a working medium every acknowledged value is read, and the image is clean.
    fn compare(&mut self, life: u64) {
        let label = format!("{}: seed {}, after life {life}", self.inject, self.seed);
        let checked = byway::check(&self.image, &mut |_, _, _| {}).unwrap();
        assert_eq!(checked.findings, [], "{label}");
        let runner = self.open("").unwrap();
        self.model.borrow_mut().check(&runner.device).unwrap_or_else(|said| panic!("{label}: {said}"));
    }
}

fn fail(rules: &[&str]) -> Vec<Figures> {
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let trials = rules.iter().zip(1..).map(|(rule, seed)| Trial::new(dir.path(), seed, rule).run());
    let figures: Vec<Figures> = trials.collect();
    rules.iter().zip(&figures).for_each(|(rule, figures)| println!("{rule}: {figures:?}"));
    let made = [Cause::LogCompaction, Cause::Gc, Cause::Index];
    assert!(made.iter().all(|cause| figures.iter().any(|run| run.moved[*cause as usize] > 0)));
    assert!(figures.iter().map(|run| run.cuts).sum::<u64>() > 0);
    figures
}

#[test]
fn programs_and_erases_that_fail_lose_nothing() {
    let rules = [
        "program:nth=50",
        "program:ppm=1500",
        "program:ppm=10000:once",
        "erase:nth=3",
        "erase:ppm=20000",
        "program:ppm=500,erase:ppm=5000",
    ];
    let figures = fail(&rules);
    assert!(figures.iter().all(|run| run.named == 0 && run.refused_openings == 0));
    assert!(figures.iter().map(|run| run.bad_blocks).sum::<u32>() > 0);
}

#[test]
fn reads_that_fail_are_named_and_lose_nothing() {
    let rules = [
        "read:nth=1",
        "read:nth=40:always:block=3",
        "read:ppm=3000",
        "read:ppm=50000",
        "read:page=2:always",
        "read:ppm=20000:correctable",
    ];
    let figures = fail(&rules);
    assert!(figures.iter().any(|run| run.named > 0));
    assert!(figures.iter().all(|run| run.named == 0 || run.media_errors > 0));
    assert_eq!(figures[5].named, 0, "what was corrected is right");
}

#[test]
fn a_medium_that_fails_in_every_way_loses_nothing() {
    fail(&["read:ppm=4000,program:ppm=700,erase:ppm=3000", "read:ppm=30000,program:nth=9,erase:nth=2"]);
}

/// Bit of the critical warning: media errors made the device less reliable (Base 2.1, figure 206).
const WARN_RELIABILITY: u8 = 1 << 2;

#[test]
fn a_log_that_an_opening_cannot_read_is_reported_and_a_second_try_may_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let [made, killed, image] = ["made", "killed", "image"].map(|name| dir.path().join(name));
    byway::create(&made, &WORKLOAD.image()).unwrap();
    let device = byway::embedded::open(&format!("embedded:{}?memtable=1M", made.display())).unwrap();
    let mut kv = device.kv(None).unwrap();
    (0..300u32).for_each(|n| kv.put(&n.to_be_bytes(), &[n as u8; 900]).unwrap());
    // As a killed process leaves it: nothing but the log has the keys.
    sparse::copy(&made, &killed).unwrap();
    let open = |inject: &str| {
        sparse::copy(&killed, &image).unwrap();
        byway::embedded::open(&format!("embedded:{}?memtable=1M&reads=checked{inject}", image.display()))
            .unwrap()
    };
    for inject in ["", "&inject=read:nth=1,read:nth=9,read:nth=17"] {
        let device = open(inject);
        assert_eq!(critical_warning(&device).unwrap(), 0, "{inject}");
        assert_eq!(device.kv(None).unwrap().keys(None).count(), 300, "{inject}");
    }
    let device = open("&inject=read:nth=5:always");
    assert_eq!(critical_warning(&device).unwrap(), WARN_RELIABILITY);
    let lost = device.kv_stats(byway::Nsid::new(1).unwrap()).unwrap().lost_log_bytes;
    assert!(lost > 0 && device.flash().counters.media_errors > 0, "{lost} bytes");
    // What is left is written out when it ends: the next opening does not read the log there.
    drop(device);
    is_reported_until_it_is_repaired(&image, lost);
}

fn is_reported_until_it_is_repaired(image: &Path, lost: u64) {
    let uri = format!("embedded:{}?memtable=1M", image.display());
    let warning_and_loss = || {
        let device = byway::embedded::open(&uri).unwrap();
        let stats = device.kv_stats(byway::Nsid::new(1).unwrap()).unwrap();
        (critical_warning(&device).unwrap(), stats.lost_log_bytes)
    };
    for _ in 0..2 {
        assert_eq!(warning_and_loss(), (WARN_RELIABILITY, lost));
        let checked = byway::check(image, &mut |_, _, _| {}).unwrap();
        assert_eq!(checked.findings.len(), 1, "{:?}", checked.findings);
        assert!(checked.findings[0].structure == "log" && checked.loses(), "{:?}", checked.findings);
    }
    assert!(byway::repair(image, &mut |_, _, _| {}).unwrap().loses());
    assert!(byway::check(image, &mut |_, _, _| {}).unwrap().is_clean());
    assert_eq!(warning_and_loss(), (0, 0));
}
