//! Kills: a writer is started, killed at some instant, and its image is opened and compared.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use byway::Method;
use byway_flash::{Flash, OpenOptions};

use crate::journal::{Journal, StepState};
use crate::life::Life;
use crate::model::Model;
use crate::record::{Record, Verdict};
use crate::workload::Workload;
use byway_kit::Random;

/// Kills of one image, one after the other, before another is made.
const KILLS_OF_AN_IMAGE: u64 = 6;

/// Longest time from the opening of an image to the kill, in microseconds.
const LIFE_US: u64 = 24_000;

const DEPTHS: [u32; 4] = [1, 8, 1, 32];

/// A series of kills of one workload by one transfer method, on one image.
#[derive(Debug)]
pub struct Series {
    /// The program that writers are.
    pub writer: PathBuf,
    /// Where the image is.
    pub dir: PathBuf,
    /// What writers do.
    pub workload: Workload,
    /// How payloads cross the link.
    pub method: Method,
    /// From which everything but the instants themselves follows.
    pub seed: u64,
    /// Kills to make.
    pub kills: u64,
}

/// What the kills of a run have in common.
#[derive(Debug)]
pub struct Run {
    /// The program that writers are.
    pub writer: PathBuf,
    /// Where images are.
    pub dir: PathBuf,
    /// From which everything but the instants themselves follows.
    pub seed: u64,
    /// Kills to make.
    pub kills: u64,
    /// What writers do, in turn.
    pub workloads: Vec<Workload>,
}

impl Run {
    /// Makes the kills; `on` gets each with its verdict.
    pub fn go(&self, on: &mut impl FnMut(&Record)) {
        let (mut done, mut series) = (0, 0);
        while done < self.kills {
            let turn = series as usize;
            let workload = self.workloads[turn % self.workloads.len()];
            // Each workload comes to each method, as the method moves on by one more with each round of workloads.
            let method = Method::ALL[(turn + turn / Method::ALL.len()) % Method::ALL.len()];
            let kills = KILLS_OF_AN_IMAGE.min(self.kills - done);
            let seed = self.seed ^ series << 32;
            let (writer, dir) = (self.writer.clone(), self.dir.clone());
            Series { writer, dir, workload, method, seed, kills }.go(&mut |record| {
                on(&Record { number: done + record.number, ..record.clone() });
            });
            done += kills;
            series += 1;
        }
    }
}

impl Series {
    /// Makes the kills; `on` gets each with its verdict. The first violation ends the series, and keeps the image.
    pub fn go(&self, on: &mut impl FnMut(&Record)) {
        let image = self.dir.join(format!("{}-{:x}.img", self.workload, self.seed));
        let journal = image.with_extension("journal");
        let mut random = Random::starting_at(self.seed, 1);
        let mut state = State::new(self.workload, self.seed);
        for number in 0..self.kills {
            let life = self.next_life(&image, &journal, state.next_step, number);
            let plan = Plan {
                from_start: self.workload == Workload::Create || random.below(5) == 0,
                instant_us: random.below(LIFE_US),
            };
            let mut record = Record::of(self, &life, &plan, number);
            let verdict = self.prepare(&image, number, &mut state).and_then(|()| {
                let killed = killed_in(&self.writer, &life, &plan)?;
                verify(&life, &killed, &mut state, &mut record)
            });
            record.verdict = match verdict {
                Ok(()) => Verdict::Kept,
                Err(said) => Verdict::Broken(format!("{said} (image kept: {})", image.display())),
            };
            on(&record);
            if record.verdict != Verdict::Kept {
                return;
            }
        }
        let _ = (std::fs::remove_file(&image), std::fs::remove_file(&journal));
    }

    /// An image for the next life: a new one at first, and always where the making itself is killed.
    fn prepare(&self, image: &Path, number: u64, state: &mut State) -> Result<(), String> {
        if number > 0 && self.workload != Workload::Create {
            return Ok(());
        }
        let _ = std::fs::remove_file(image);
        *state = State { next_step: state.next_step, ..State::new(self.workload, self.seed) };
        if self.workload == Workload::Create {
            return Ok(());
        }
        byway::create(image, &self.workload.image()).map_err(|error| error.to_string())
    }

    fn next_life(&self, image: &Path, journal: &Path, first_step: u64, number: u64) -> Life {
        let depth = match self.workload {
            Workload::Format => 1,
            _ => DEPTHS[(number % DEPTHS.len() as u64) as usize],
        };
        let run = if number % 6 == 5 { "thread" } else { "caller" };
        // Every other life writes its memtable out all the time, and merges what it wrote.
        let memtable = if self.workload.has_small_memtables() || number % 2 == 1 { "2K" } else { "1M" };
        let flush = ["process", "process", "command", "process", "media"][(number % 5) as usize];
        Life {
            image: image.into(),
            journal: journal.into(),
            workload: self.workload,
            seed: self.seed,
            first_step,
            depth,
            options: format!(
                "&transfer={}&run={run}&memtable={memtable}&cache=256K&flush={flush}",
                self.method
            ),
        }
    }
}

/// When a writer is killed.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Whether the time runs from the start of the process, or from when the image is open.
    pub from_start: bool,
    /// The time.
    pub instant_us: u64,
}

/// What the kills of an image go on from.
#[derive(Debug)]
struct State {
    model: Model,
    next_step: u64,
}

impl State {
    fn new(workload: Workload, seed: u64) -> Self {
        Self { model: Model::new(workload, seed), next_step: 1 }
    }
}

/// Runs a writer, kills it, and returns what it recorded of its steps.
fn killed_in(writer: &Path, life: &Life, plan: &Plan) -> Result<Vec<(u64, StepState)>, String> {
    let _ = std::fs::remove_file(&life.journal);
    let mut process = Command::new(writer)
        .arg("live")
        .args(life.to_args())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the writer cannot be started: {error}"))?;
    if !plan.from_start {
        // A writer that cannot open the image ends, and its end of the pipe with it.
        let _ = process.stdout.as_mut().map(|said| said.read(&mut [0]));
    }
    std::thread::sleep(Duration::from_micros(plan.instant_us));
    let ended = process.try_wait().map_err(|error| error.to_string())?;
    process.kill().map_err(|error| format!("the writer cannot be killed: {error}"))?;
    process.wait().map_err(|error| error.to_string())?;
    if let Some(status) = ended {
        let mut said = String::new();
        let _ = process.stderr.as_mut().map(|from| from.read_to_string(&mut said));
        return Err(ended_by_itself(status, &said));
    }
    Journal::read(&life.journal, life.first_step).map_err(|error| error.to_string())
}

fn ended_by_itself(status: ExitStatus, said: &str) -> String {
    format!("the writer ended by itself, {status}: {}", said.trim())
}

/// Opens what is left, and compares it with the journal.
fn verify(
    life: &Life,
    journal: &[(u64, StepState)],
    state: &mut State,
    record: &mut Record,
) -> Result<(), String> {
    let has = |what| journal.iter().filter(|(_, state)| *state == what).count() as u64;
    (record.begun, record.acknowledged) = (journal.len() as u64, has(StepState::Done));
    record.refused = has(StepState::Refused);
    for (step, reported) in journal {
        state.model.apply(*step, *reported);
    }
    state.next_step = journal.last().map_or(life.first_step, |(step, _)| step + 1);
    if life.workload == Workload::Create && !life.journal.exists() && is_refused(&life.image)? {
        record.refused_image = true;
        return Ok(());
    }
    check_image(&life.image)?;
    let device = byway::embedded::open(&life.uri()).map_err(|error| error.to_string())?;
    state.model.check(&device)?;
    drop(device);
    check_image(&life.image)
}

/// Whether an image whose making was killed is refused by a word for it, not by an accident.
fn is_refused(image: &Path) -> Result<bool, String> {
    let Err(error) = Flash::open(image, OpenOptions::default().read_only(true)) else {
        return Ok(false);
    };
    let said = error.to_string();
    let named = ["does not exist", "is not a Byway image", "is truncated", "is damaged"];
    if named.iter().any(|word| said.contains(word)) { Ok(true) } else { Err(said) }
}

/// The check of the image finds nothing.
pub(crate) fn check_image(image: &Path) -> Result<(), String> {
    let checked = byway::check(image, &mut |_, _, _| {}).map_err(|error| error.to_string())?;
    match checked.findings.first() {
        None => Ok(()),
        Some(first) => Err(format!("the check finds {} faults: {first}", checked.findings.len())),
    }
}
