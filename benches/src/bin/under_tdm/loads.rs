//! Loads that gain little from device memory: random reads, scans, and a mix with writes and syncs, over half, once and twice the
//! device's cache. Under the library they must not be slower.
//!
//! Two processes with the same load, one under the library, alternate by slices of some milliseconds on one processor, which shows
//! differences below the drift of the machine. A control runs both without the library.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Instant, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use byway_benches::paired::{alternate, quantile};
use byway_kit::Random;
use byway_tdm_daemon::Daemon;
use clap::{Args, ValueEnum};

use crate::Row;
use crate::program::{Place, Role, Setting};

/// A page, as reads and writes at random have it.
const PAGE: usize = 4096;

/// A call of a scan.
const SCAN: usize = 128 << 10;

/// One call in so many of a mixed load writes.
const WRITES_ONE_IN: u64 = 4;

/// A mixed load syncs after so many writes.
const WRITES_A_SYNC: u64 = 64;

/// Turns before those that count: the policy has decided by then.
const WARM_UP: usize = 40;

/// Pairs of turns that count, each round.
const PAIRS: usize = 60;

/// Where the device has no cache, as if it had one of that size.
const USUAL_CACHE_BYTES: u64 = 64 << 20;

/// What the child process does with its files, by name of the option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Read,
    Scan,
    Mixed,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Read, Self::Scan, Self::Mixed];

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Scan => "scan",
            Self::Mixed => "mixed",
        }
    }

    /// Calls of one turn: some milliseconds, and some syncs.
    const fn calls(self) -> u64 {
        match self {
            Self::Read => 8_000,
            Self::Scan => 160,
            Self::Mixed => 4 * WRITES_ONE_IN * WRITES_A_SYNC,
        }
    }
}

/// Options of the child process that makes the load.
#[derive(Debug, Args)]
pub struct Turns {
    /// The load to make; given to the child alone.
    #[arg(long, hide = true)]
    load: Option<Kind>,
    #[arg(long, hide = true)]
    over: Option<PathBuf>,
}

impl Turns {
    /// Whether this process is the child.
    pub const fn is_asked_for(&self) -> bool {
        self.load.is_some()
    }

    /// Runs a slice for each line of input, and answers with the nanoseconds of a call.
    pub fn run(&self) -> Result<()> {
        let (kind, path) = self.load.zip(self.over.as_ref()).context("a load and a file")?;
        let file = File::options().read(true).write(true).open(path)?;
        let pages = file.metadata()?.len() / PAGE as u64;
        let mut work = Work { kind, file, pages, random: Random::new(1), calls: 0, writes: 0 };
        let mut buffer = vec![b'm'; if kind == Kind::Scan { SCAN } else { PAGE }];
        for line in std::io::stdin().lines() {
            let calls: u64 = line?.parse()?;
            let begun = Instant::now();
            for _ in 0..calls {
                work.call(&mut buffer)?;
            }
            println!("{}", begun.elapsed().as_nanos() as f64 / calls as f64);
        }
        Ok(())
    }
}

/// A load under way.
struct Work {
    kind: Kind,
    file: File,
    pages: u64,
    random: Random,
    calls: u64,
    writes: u64,
}

impl Work {
    fn call(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        self.calls += 1;
        match self.kind {
            Kind::Scan => self.scan(buffer),
            Kind::Mixed if self.calls.is_multiple_of(WRITES_ONE_IN) => self.write(buffer),
            Kind::Read | Kind::Mixed => {
                let at = self.somewhere();
                self.file.read_exact_at(buffer, at)
            }
        }
    }

    fn scan(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        if self.file.read(buffer)? < buffer.len() {
            self.file.rewind()?;
        }
        Ok(())
    }

    fn write(&mut self, buffer: &[u8]) -> std::io::Result<()> {
        let at = self.somewhere();
        self.file.write_all_at(buffer, at)?;
        self.writes += 1;
        if self.writes.is_multiple_of(WRITES_A_SYNC) { sync(&self.file) } else { Ok(()) }
    }

    /// The beginning of a page; each as likely as another.
    fn somewhere(&mut self) -> u64 {
        self.random.below(self.pages) * PAGE as u64
    }
}

#[expect(clippy::disallowed_methods, reason = "what is measured")]
fn sync(file: &File) -> std::io::Result<()> {
    file.sync_data()
}

/// A load over so many hundredths of the cache.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    kind: Kind,
    percent: u64,
}

impl Load {
    /// All loads.
    pub fn all() -> Vec<Self> {
        let over = |kind| [50, 100, 200].map(|percent| Self { kind, percent });
        Kind::ALL.into_iter().flat_map(over).collect()
    }

    /// Its name in results.
    pub fn name(self) -> String {
        format!("{}-{}%", self.kind.name(), self.percent)
    }

    /// Rounds of it and of its control.
    pub fn measure(self, place: &Place, daemon: &Daemon, rounds: usize) -> Result<Vec<Row>> {
        let cache_bytes = daemon.report().region.cache.map_or(USUAL_CACHE_BYTES, |cache| cache.bytes);
        let (mut control, mut served) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let folder = place.fresh()?;
            let files = self.files(folder.path(), cache_bytes * self.percent / 100)?;
            control.extend(self.round(place, &files, Setting::Always)?);
            served.extend(self.round(place, &files, Setting::Served)?);
            println!("  {:16} {}", self.name(), how_served(daemon, &files[1])?);
        }
        Ok(vec![
            self.row("file system, beside itself", (place, rounds), &control),
            self.row(Setting::Served.name(), (place, rounds), &served),
        ])
    }

    /// The file of each side. Loads that only read share one file, so that both find the same pages; loads that sync have one each, as a
    /// sync would also write the other's data.
    fn files(self, folder: &Path, len_bytes: u64) -> Result<[PathBuf; 2]> {
        let alone = folder.join("alone");
        let served = if self.kind == Kind::Mixed { folder.join("served") } else { alone.clone() };
        let files = [alone, served];
        files.iter().try_for_each(|file| make(file, len_bytes))?;
        Ok(files)
    }

    /// Nanoseconds of a call by the file system alone and at `setting`, turn by turn.
    fn round(self, place: &Place, files: &[PathBuf; 2], setting: Setting) -> Result<Vec<(f64, f64)>> {
        let start = |file, setting| Worker::start(self.kind, place, file, setting);
        let mut workers = [start(&files[0], Setting::Always)?, start(&files[1], setting)?];
        let mut turn = |is_served: bool| workers[usize::from(is_served)].turn(self.kind.calls());
        alternate(WARM_UP, &mut turn)?;
        alternate(PAIRS, &mut turn)
    }

    fn row(self, setting: &'static str, (place, rounds): (&Place, usize), pairs: &[(f64, f64)]) -> Row {
        let rates: Vec<f64> = pairs.iter().map(|(_, ns)| 1e9 / ns).collect();
        let ratios: Vec<f64> = pairs.iter().map(|(alone, ns)| alone / ns).collect();
        Row {
            case: self.name(),
            setting,
            sync_us: place.sync_us(),
            unit: "calls per second",
            rounds,
            median: quantile(&rates, 0.5),
            best: quantile(&rates, 1.0),
            worst: quantile(&rates, 0.0),
            beside_file_system: Some(quantile(&ratios, 0.5)),
            beside_most: None,
        }
    }
}

/// A file of so many bytes.
fn make(path: &Path, len_bytes: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let some = vec![b'b'; 1 << 20];
    for _ in 0..len_bytes >> 20 {
        file.write_all(&some)?;
    }
    Ok(sync(&file)?)
}

/// The daemon's status of the file.
fn how_served(daemon: &Daemon, path: &Path) -> Result<String> {
    let found = path.metadata()?;
    let born_ns = found.created()?.duration_since(UNIX_EPOCH)?.as_nanos();
    let users = daemon.report().users;
    let mut files = users.iter().flat_map(|user| &user.files);
    // An inode's number may have been another file's.
    let file = files.find(|file| file.key[1] == found.ino() && u128::from(file.key[2]) == born_ns);
    let file = file.context("the library has not seen the file")?;
    let why = file.reason.as_ref().unwrap_or(&file.why);
    Ok(format!("{}, {} of {} syncs spared: {why}", file.level, file.saved_syncs, file.syncs))
}

/// A process that makes a load.
struct Worker {
    child: Child,
    turns: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(kind: Kind, place: &Place, file: &Path, setting: Setting) -> Result<Self> {
        let mut command = place.command(std::env::current_exe()?, Role::Program, setting)?;
        command.args(["--load", kind.name(), "--over"]).arg(file);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        place.pin(Role::Driver)?;
        let (turns, answers) = (child.stdin.take(), child.stdout.take());
        let (turns, answers) = turns.zip(answers).context("the load's ends")?;
        Ok(Self { child, turns, answers: BufReader::new(answers) })
    }

    fn turn(&mut self, calls: u64) -> Result<f64> {
        writeln!(self.turns, "{calls}")?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            bail!("the load ended");
        }
        answer.trim().parse().context("the load's answer")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
