//! Power cut before every operation of the medium and every store to protected memory of a script: with overwrites,
//! deletions, bulk stores, blocks written and trimmed, flushes of memtables, merges, compaction, garbage collection.
//! What a cut leaves is copied, read without being changed, and compared; some copies are opened, checked and written to.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use byway::{Cause, ErrorKind};
use byway_crash_tests::journal::StepState;
use byway_crash_tests::model::Model;
use byway_crash_tests::runner::Runner;
use byway_crash_tests::workload::Workload;
use byway_crash_tests::{reading, sparse};
use byway_flash::power_loss::{Point, watch};
use byway_kit::mix;

const WORKLOAD: Workload = Workload::Worn;
const SEED: u64 = 11;
const PRELUDE: u64 = 2200;
const STEPS: u64 = 900;

/// Power is cut at one in [`EVERY`] points; with this set at all of them, with `media` at all that are no stores.
const ALL_POINTS: &str = "BYWAY_TEST_CUT_EVERYWHERE";
/// `PART/PARTS` of those points, so that a long run can be made in pieces: parts are numbered from 0.
const PART: &str = "BYWAY_TEST_CUT_PART";
const EVERY: u64 = 130;
/// One in so many cuts that leave another image than the one before is opened for writing.
const OPENED: u64 = 8;

/// What is known when power is cut.
struct Cuts {
    image: PathBuf,
    copy: PathBuf,
    opened: PathBuf,
    mirror: sparse::Mirror,
    model: Model,
    /// Whether the model is another one than at the last cut.
    is_new_step: bool,
    selection: Selection,
    seen: u64,
    counts: [u64; 4],
    made: u64,
    /// Cuts that left another image than the one before, or the same one after another command.
    distinct: u64,
    /// Those that were opened for writing.
    written: u64,
}

/// Where to cut.
struct Selection {
    every: u64,
    at_all_media: bool,
    part: u64,
    parts: u64,
}

impl Selection {
    fn of_environment() -> Self {
        let asked = std::env::var(ALL_POINTS).ok();
        let at_all_media = asked.as_ref().is_some_and(|asked| asked == "media");
        let part = std::env::var(PART).unwrap_or_else(|_| "0/1".into());
        let (part, parts) = part.split_once('/').unwrap();
        Self {
            every: if asked.is_some() && !at_all_media { 1 } else { EVERY },
            at_all_media,
            part: part.parse().unwrap(),
            parts: parts.parse().unwrap(),
        }
    }

    fn is_wanted(&self, point: Point, number: u64) -> bool {
        let every = match point {
            Point::Store => self.every,
            _ if self.at_all_media => 1,
            Point::Read => self.every,
            Point::Program | Point::Erase => self.every.div_ceil(16),
        };
        let drawn = mix(SEED, number);
        drawn.is_multiple_of(every) && drawn / every % self.parts == self.part
    }
}

impl Cuts {
    fn begin(&mut self, step: u64) {
        self.model.apply(step, StepState::Begun);
        self.is_new_step = true;
    }

    fn at(&mut self, point: Point) {
        self.seen += 1;
        self.counts[point as usize] += 1;
        if !self.selection.is_wanted(point, self.seen) {
            return;
        }
        self.made += 1;
        let is_new_image = self.mirror.update(&self.image, &self.copy).unwrap();
        if !is_new_image && !std::mem::take(&mut self.is_new_step) {
            return;
        }
        self.is_new_step = false;
        self.distinct += 1;
        let label = format!("cut {} of {point:?}", self.seen);
        let left = reading::read(&self.copy, WORKLOAD.keys(), WORKLOAD.blocks());
        let left = left.unwrap_or_else(|said| panic!("{label}: refused: {said}"));
        self.model.clone().check_reading(&left).unwrap_or_else(|said| panic!("{label}: {said}"));
        if self.distinct.is_multiple_of(OPENED) {
            self.written += 1;
            sparse::copy(&self.copy, &self.opened).unwrap();
            self.open(&label);
        }
    }

    /// What was left is opened as a device, compared, and goes on.
    fn open(&self, label: &str) {
        let mut model = self.model.clone();
        let mut runner = open(&self.opened);
        model.check(&runner.device).unwrap_or_else(|said| panic!("{label}, opened: {said}"));
        for step in 10_000..10_020 {
            let state = if runner.execute(WORKLOAD.op(SEED, step), step).is_ok() {
                StepState::Done
            } else {
                StepState::Refused
            };
            model.apply(step, state);
        }
        model.check(&runner.device).unwrap_or_else(|said| panic!("{label}, going on: {said}"));
        drop(runner);
        let checked = byway::check(&self.opened, &mut |_, _, _| {}).unwrap();
        assert_eq!(checked.findings, [], "{label}");
    }
}

fn open(image: &Path) -> Runner {
    let uri = format!("embedded:{}?transfer=adaptive&reads=checked&memtable=2K&cache=256K", image.display());
    Runner::open(&uri, WORKLOAD, SEED, None).unwrap()
}

/// Pages programmed by what has to be cut off in the middle too: flushes and merges, log compaction, garbage collection.
fn moved(runner: &Runner) -> [u64; 3] {
    let counters = runner.device.flash().counters;
    [Cause::Index, Cause::LogCompaction, Cause::Gc].map(|cause| counters[cause].programs)
}

#[test]
fn power_cut_before_any_operation_loses_and_tears_nothing() {
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let (image, copy) = (dir.path().join("image"), dir.path().join("copy"));
    byway::create(&image, &WORKLOAD.image()).unwrap();
    let cuts = Cuts {
        image: image.clone(),
        copy,
        opened: dir.path().join("opened"),
        mirror: sparse::Mirror::default(),
        model: Model::new(WORKLOAD, SEED),
        is_new_step: true,
        selection: Selection::of_environment(),
        seen: 0,
        counts: [0; 4],
        made: 0,
        distinct: 0,
        written: 0,
    };
    let cuts = Rc::new(RefCell::new(cuts));

    let (mut runner, mut before) = (open(&image), [0; 3]);
    for step in 1..=PRELUDE + STEPS {
        if step == PRELUDE {
            before = moved(&runner);
        }
        let op = WORKLOAD.op(SEED, step);
        let settled = cuts.borrow().model.clone();
        cuts.borrow_mut().begin(step);
        if step > PRELUDE {
            let observer = Rc::clone(&cuts);
            watch(Some(Box::new(move |point| observer.borrow_mut().at(point))));
        }
        let done = runner.execute(op, step);
        watch(None);
        let state = match done {
            Ok(()) => StepState::Done,
            Err(error) if error.kind() == ErrorKind::CapacityExceeded => StepState::Refused,
            Err(error) => panic!("step {step}, {op:?}: {error}"),
        };
        cuts.borrow_mut().model = settled;
        cuts.borrow_mut().model.apply(step, state);
    }
    let moved = moved(&runner);
    assert!(before.iter().zip(&moved).all(|(before, after)| before < after), "{before:?}, {moved:?}");
    let cuts = cuts.borrow();
    let [stores, programs, reads, erases] = cuts.counts;
    println!(
        "{} cuts of {} points: {stores} stores, {programs} programs, {reads} reads, {erases} erases; {} left another \
         image than the one before, {} of these were written to",
        cuts.made, cuts.seen, cuts.distinct, cuts.written
    );
    assert!(stores > 1000 && programs > 50 && cuts.made > 50 / cuts.selection.parts);
}
