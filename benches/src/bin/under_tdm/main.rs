//! Unmodified programs that write and sync, with their files absorbed into device memory, beside the same programs on the file
//! system alone: Valkey and Redis, RocksDB, SQLite, and a loop of write and fdatasync.
//!
//! Rounds take turns over the cases, so that a busy moment of the machine, and of its disk, falls on all of them. The device is
//! emulated: its memory is this machine's, and its time is what the options of the region say.
#![forbid(unsafe_code)]

mod calls;
mod databases;
mod device;
mod in_mount;
mod loads;
mod program;
mod show;
mod talk;
mod valkey;

use std::path::PathBuf;

use anyhow::{Context, Result};
use byway_benches::paired::quantile;
use byway_benches::results;
use byway_tdm_daemon::Daemon;
use clap::Parser;
use serde::Serialize;

use device::Device;
use program::{Program, Setting};

#[derive(Parser)]
#[command(
    about = "Times programs that write and sync with their files in device memory, beside the file system alone",
    after_help = "\
Examples:
  under_tdm
  under_tdm --only calls --rounds 15
  under_tdm --only valkey-64-c50 --folder /mnt/ext4
  under_tdm --region 'emu:bench?size=1G&profile=cmm-h&clock=paced&hit=800'
  under_tdm --only valkey-64-c50,valkey-1024-c50 --sync-us 0,1000,3000
  under_tdm --json benches/results/tdm.json
  under_tdm --only read-,scan-,mixed- --region 'emu:bench?size=256M&profile=cmm-h&cache=64M&clock=paced'
  under_tdm --talk --rounds 5 --folder /mnt/ext4-in-memory --json benches/results/tdm-talk.json

Cases: calls-LEN (write and fdatasync, in a mount too where this runs as root), writes-LEN (write alone, at PASS), valkey-LEN-cCLIENTS, redis-LEN-cCLIENTS, rocksdb, sqlite;
read-PERCENT%, scan-PERCENT%, mixed-PERCENT% of the device's cache (64 MiB where it has none), beside the same load without the library.
A program that is not installed is left out, and said to be. Needs target/release/libbyway_tdm.so."
)]
struct Arguments {
    /// Rounds over all cases of a program.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only cases whose name has one of these in it.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the programs have their files: a folder on the file system that is compared.
    #[arg(long, default_value = "target")]
    folder: PathBuf,
    /// The device.
    #[arg(long, default_value = "emu:byway-bench-tdm?size=10G")]
    region: String,
    /// Bytes of each file's log, and of the room that a DAX-resident file begins with. Root's region has eight users, each log an eighth of one's part.
    #[arg(long, default_value_t = 160 << 20)]
    log_bytes: u64,
    /// Processors: of the program, and of its load generator.
    #[arg(long, value_delimiter = ',', default_value = "0,1")]
    cpus: Vec<usize>,
    /// Delays added to each sync below, in microseconds: one emulated slower disk after the other.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    sync_us: Vec<u64>,
    /// The talk's comparison instead: an NVMe drive, the hybrid device, the same with mappings, all modelled. `benches/talk.sh` makes a
    /// file system in memory for it.
    #[arg(long)]
    talk: bool,
    /// With --talk: nanoseconds of a hit in the device's cache.
    #[arg(long, value_delimiter = ',', default_value = "150,300,800,1500")]
    hits: Vec<u64>,
    /// With --talk: requests of each command.
    #[arg(long, default_value_t = 20_000)]
    requests: u32,
    /// With --talk: clients at once; the benchmark's own default.
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    side: calls::Side,
    #[command(flatten)]
    load: loads::Turns,
}

/// The result of a case.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    case: String,
    setting: &'static str,
    /// Delay added to each sync below, in microseconds.
    sync_us: u64,
    unit: &'static str,
    rounds: usize,
    median: f64,
    best: f64,
    worst: f64,
    /// Median over rounds of this setting beside the file system alone in the same round: above one is better.
    beside_file_system: Option<f64>,
    /// The same beside the most that the program can do: without its log, or without syncs.
    beside_most: Option<f64>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.side.is_asked_for() {
        return arguments.side.run();
    }
    if arguments.load.is_asked_for() {
        return arguments.load.run();
    }
    if arguments.talk {
        return talk::run(&arguments);
    }
    let scratch = tempfile::tempdir_in(&arguments.folder).context("make a folder for the programs' files")?;
    let device = Device::named(&arguments.region)?;
    let options = device.options(scratch.path().join("socket")).ring_bytes(arguments.log_bytes);
    let daemon = Daemon::start(options).context("own the device")?;
    let report = daemon.report();
    println!("{}, {}: {}", arguments.region, report.region.domain, report.region.why);
    let mut rows = Vec::new();
    for sync_us in &arguments.sync_us {
        let place = program::Place::new(scratch.path(), &arguments.cpus, *sync_us)?;
        rows.extend(above(&place, &daemon, &arguments)?);
    }
    arguments.json.as_ref().map_or(Ok(()), |path| results::keep(path, &rows))
}

/// Runs all cases above one disk.
fn above(place: &program::Place, daemon: &Daemon, arguments: &Arguments) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if place.sync_us() > 0 {
        println!("\nabove a disk whose syncs take {} µs longer", place.sync_us());
    }
    for mut program in programs(arguments) {
        match program.version() {
            Some(version) => println!("\n{}: {version}", program.name()),
            None => {
                println!("\n{}: not installed, left out", program.name());
                continue;
            }
        }
        rows.extend(measure(program.as_mut(), place, arguments.rounds)?);
        show::show(&rows[rows.len() - program.settings().len()..]);
    }
    for load in loads::Load::all().into_iter().filter(|load| is_wanted(arguments, &load.name())) {
        println!("\n{}", load.name());
        let measured = load.measure(place, daemon, arguments.rounds)?;
        show::show(&measured);
        rows.extend(measured);
    }
    Ok(rows)
}

fn is_wanted(arguments: &Arguments, name: &str) -> bool {
    arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part.as_str()))
}

fn programs(arguments: &Arguments) -> Vec<Box<dyn Program>> {
    let mut all: Vec<Box<dyn Program>> = Vec::new();
    for len in [64, 1024] {
        all.push(Box::new(calls::Calls::synced(len)));
        all.push(Box::new(calls::Calls::unsynced(len)));
    }
    for server in [valkey::VALKEY, valkey::REDIS] {
        for len in [64, 1024] {
            for clients in [1, 50] {
                all.push(Box::new(valkey::Load::new(server, len, clients)));
            }
        }
    }
    all.push(Box::new(databases::RocksDb));
    all.push(Box::new(databases::Sqlite));
    all.retain(|program| is_wanted(arguments, &program.name()));
    all
}

/// Alternates rounds over a program's settings.
fn measure(program: &mut dyn Program, place: &program::Place, rounds: usize) -> Result<Vec<Row>> {
    let settings = program.settings();
    let mut taken: Vec<Vec<f64>> = vec![Vec::new(); settings.len()];
    // Not counted: a first touch of device memory may make this machine's host find it, a page at a time.
    for setting in settings.iter().filter(|setting| setting.is_served()) {
        program.run(*setting, place).with_context(|| format!("{} at {}", program.name(), setting.name()))?;
    }
    for round in 0..rounds {
        for turn in 0..settings.len() {
            // The order is reversed the next time.
            let which = (turn + round) % settings.len();
            let rate = program.run(settings[which], place);
            taken[which]
                .push(rate.with_context(|| format!("{} at {}", program.name(), settings[which].name()))?);
        }
    }
    let beside = |which: usize, other: Setting| -> Option<f64> {
        let other = settings.iter().position(|setting| *setting == other).filter(|other| *other != which)?;
        let ratios = taken[which].iter().zip(&taken[other]).map(|(this, other)| this / other);
        Some(quantile(&ratios.collect::<Vec<_>>(), 0.5))
    };
    let row = |which: usize| Row {
        case: program.name(),
        setting: settings[which].name(),
        sync_us: place.sync_us(),
        unit: "per second",
        rounds,
        median: quantile(&taken[which], 0.5),
        best: quantile(&taken[which], 1.0),
        worst: quantile(&taken[which], 0.0),
        beside_file_system: settings[which].alone().and_then(|alone| beside(which, alone)),
        beside_most: beside(which, Setting::NoLog).or_else(|| beside(which, Setting::Unsynced)),
    };
    Ok((0..settings.len()).map(row).collect())
}
