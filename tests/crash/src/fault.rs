//! A host file system that fails: at one operation of a script, once or from then on, with no room or an I/O error.
//!
//! Whatever fails, the command that met it says so; what was acknowledged is there, and can be read on the spot; a device
//! whose image could not be written takes no more writes and reports it; and once the file system is well, the image
//! opens as if nothing had been.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byway::{AdminCommand, Buffer, ErrorKind, FileEvents};
use rustix::io::Errno;
use serde::Serialize;

use crate::journal::StepState;
use crate::kill::check_image;
use crate::model::Model;
use crate::runner::Runner;
use crate::sparse;
use crate::workload::Workload;

const WORKLOAD: Workload = Workload::Script;
const SEED: u64 = 5;
/// Steps of which the image is made, and steps with a fault among them.
const PRELUDE: u64 = 300;
const SCRIPT: u64 = 300;
/// Steps once the file system is well again.
const CODA: u64 = 30;

/// Operations that are to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// Writes, requests for room, syncs.
    Writes,
    /// Reads.
    Reads,
}

/// How they fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Which operations.
    pub on: On,
    /// The first of them that fails, from 0.
    pub at: u64,
    /// Whether those after it fail too.
    pub lasts: bool,
    /// With no room, or else an I/O error.
    pub full: bool,
}

/// The file system, as a watcher of the image's file.
#[derive(Debug)]
struct Failing {
    fault: Fault,
    seen: AtomicU64,
    hit: AtomicBool,
    repaired: AtomicBool,
}

impl Failing {
    fn new(fault: Fault) -> Arc<Self> {
        let (seen, hit, repaired) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { fault, seen, hit, repaired })
    }

    fn operation(&self, on: On, may_be_full: bool) -> io::Result<()> {
        if on != self.fault.on || self.repaired.load(Ordering::Relaxed) {
            return Ok(());
        }
        let nth = self.seen.fetch_add(1, Ordering::Relaxed);
        if nth < self.fault.at || nth > self.fault.at && !self.fault.lasts {
            return Ok(());
        }
        self.hit.store(true, Ordering::Relaxed);
        let errno = if self.fault.full && may_be_full { Errno::NOSPC } else { Errno::IO };
        Err(errno.into())
    }
}

impl FileEvents for Failing {
    fn before_read(&self, _: u64, _: u64) -> io::Result<()> {
        self.operation(On::Reads, false)
    }

    fn before_write(&self, _: u64, _: u64) -> io::Result<()> {
        self.operation(On::Writes, true)
    }

    fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
        self.operation(On::Writes, true)
    }

    fn before_punch(&self, _: u64, _: u64) -> io::Result<()> {
        self.operation(On::Writes, false)
    }

    fn before_sync(&self) -> io::Result<()> {
        self.operation(On::Writes, false)
    }
}

/// A script, and the image it starts from.
#[derive(Debug)]
pub struct Script {
    base: std::path::PathBuf,
    model: Model,
    /// Options of the URI, each with its `&`.
    options: String,
}

/// What a run with a fault in it came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Whether the fault was met.
    pub hit: bool,
    /// Whether the opening met it, and said so.
    pub refused: bool,
    /// Steps that failed.
    pub failed_steps: u64,
    /// Whether the device could only be read in the end.
    pub read_only: bool,
}

impl Script {
    /// Makes the image that the script starts from.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(base: &Path, options: &str) -> Result<Self, String> {
        let said = |error: byway::Error| error.to_string();
        let _ = std::fs::remove_file(base);
        byway::create(base, &WORKLOAD.image()).map_err(said)?;
        let mut script =
            Self { base: base.into(), model: Model::new(WORKLOAD, SEED), options: options.into() };
        let mut runner = script.open(base, None).map_err(said)?;
        for step in 1..=PRELUDE {
            runner.execute(WORKLOAD.op(SEED, step), step).map_err(said)?;
            script.model.apply(step, StepState::Done);
        }
        let Runner { pairs, blocks, device, .. } = runner;
        drop((pairs, blocks));
        device.close().map_err(said)?;
        Ok(script)
    }

    fn open(&self, image: &Path, events: Option<Arc<dyn FileEvents>>) -> byway::Result<Runner> {
        let uri = format!("embedded:{}?depth=1&memtable=2K&cache=256K{}", image.display(), self.options);
        Runner::open(&uri, WORKLOAD, SEED, events)
    }

    /// Operations that a run without a fault asks of the file system.
    ///
    /// # Errors
    /// What goes wrong without a fault.
    pub fn operations(&self, on: On, image: &Path) -> Result<u64, String> {
        let watcher = Failing::new(Fault { on, at: u64::MAX, lasts: false, full: false });
        self.run_on(image, &watcher)?;
        Ok(watcher.seen.load(Ordering::Relaxed))
    }

    /// Runs the script on a copy of the image with a fault in it.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn run(&self, image: &Path, fault: Fault) -> Result<Outcome, String> {
        self.run_on(image, &Failing::new(fault))
    }

    fn run_on(&self, image: &Path, failing: &Arc<Failing>) -> Result<Outcome, String> {
        sparse::copy(&self.base, image).map_err(|error| error.to_string())?;
        let mut model = self.model.clone();
        let mut outcome = Outcome::default();
        match self.open(image, Some(Arc::clone(failing) as Arc<dyn FileEvents>)) {
            Ok(runner) => self.go_through(runner, failing, &mut model, &mut outcome)?,
            Err(error) => {
                outcome.refused = true;
                one_sentence(&error)?;
            }
        }
        outcome.hit = failing.hit.load(Ordering::Relaxed);
        if outcome.refused && !outcome.hit {
            return Err("the image was refused though nothing failed".into());
        }
        self.check_well(image, &mut model)?;
        Ok(outcome)
    }

    /// The steps, with the fault among them; then everything is read while the device is still open.
    fn go_through(
        &self,
        mut runner: Runner,
        failing: &Failing,
        model: &mut Model,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        for step in PRELUDE + 1..=PRELUDE + SCRIPT {
            let op = WORKLOAD.op(SEED, step);
            match runner.execute(op, step) {
                Ok(()) => model.apply(step, StepState::Done),
                Err(error) => {
                    one_sentence(&error).map_err(|said| format!("step {step}, {op:?}: {said}"))?;
                    if !failing.hit.load(Ordering::Relaxed) {
                        return Err(format!("step {step}, {op:?} failed before anything else did: {error}"));
                    }
                    outcome.failed_steps += 1;
                    model.apply(step, StepState::Refused);
                }
            }
        }
        if failing.fault.on == On::Reads {
            failing.repaired.store(true, Ordering::Relaxed);
        }
        model.clone().check(&runner.device).map_err(|said| format!("while the device is open: {said}"))?;
        outcome.read_only = self.check_warning(&mut runner, failing)?;
        Ok(())
    }

    /// A device whose image could not be written says so, and takes no writes; any other does.
    fn check_warning(&self, runner: &mut Runner, failing: &Failing) -> Result<bool, String> {
        let warnings = critical_warning(&runner.device).map_err(|error| error.to_string())?;
        let read_only = warnings & WARN_READ_ONLY != 0;
        let refused = runner.pairs.put(b"another key", b"").err().map(|error| error.kind());
        let of_writes = failing.hit.load(Ordering::Relaxed) && failing.fault.on == On::Writes;
        match (read_only, refused) {
            (true, Some(ErrorKind::Denied)) if of_writes => {}
            // What can be put need not be deletable: the open pages may be full now.
            (false, None) => _ = runner.pairs.delete(b"another key"),
            // A disk that stays full has no room for a deletion either, once the open pages are full.
            (false, Some(ErrorKind::CapacityExceeded)) if of_writes && failing.fault.full => {}
            (warned, refused) => {
                return Err(format!(
                    "read-only by the health log: {warned}; a put was refused as {refused:?}"
                ));
            }
        }
        Ok(read_only)
    }

    /// Opened again on a file system that is well, the image has everything, and goes on.
    fn check_well(&self, image: &Path, model: &mut Model) -> Result<(), String> {
        let again = |said: String| format!("opened again: {said}");
        check_image(image).map_err(again)?;
        let mut runner = self.open(image, None).map_err(|error| again(error.to_string()))?;
        // Whether the put that looked for read-only mode is there depends on what failed.
        runner.pairs.delete(b"another key").map_err(|error| again(error.to_string()))?;
        model.check(&runner.device).map_err(again)?;
        for step in PRELUDE + SCRIPT + 1..=PRELUDE + SCRIPT + CODA {
            let op = WORKLOAD.op(SEED, step);
            runner.execute(op, step).map_err(|error| format!("once well again, {op:?}: {error}"))?;
            model.apply(step, StepState::Done);
        }
        model.check(&runner.device).map_err(|said| format!("once well again: {said}"))?;
        drop(runner);
        check_image(image)
    }
}

/// A refusal says what it is in one sentence, and is no accident.
fn one_sentence(error: &byway::Error) -> Result<(), String> {
    let said = error.to_string();
    let named = matches!(
        error.kind(),
        ErrorKind::CapacityExceeded | ErrorKind::Denied | ErrorKind::Media | ErrorKind::System
    );
    if named && !said.contains('\n') {
        Ok(())
    } else {
        Err(format!("no clear word: {:?}, {said}", error.kind()))
    }
}

/// Bit of the critical warning: the media can only be read (Base 2.1, figure 206).
const WARN_READ_ONLY: u8 = 1 << 3;

/// What the health log warns of (Base 2.1, figure 206).
///
/// # Errors
/// When the device does not answer.
pub fn critical_warning(device: &byway::embedded::EmbeddedDevice) -> byway::Result<u8> {
    const SMART: u8 = 2;
    let into = Buffer::zeroed(512)?;
    let log =
        AdminCommand::GetLog { log: SMART, csi: 0, nsid: None, retain_event: true, offset_bytes: 0, into };
    let read = device.driver().admin(log)?;
    Ok(read.buffer.and_then(|buffer| buffer.as_slice().first().copied()).unwrap_or_default())
}
