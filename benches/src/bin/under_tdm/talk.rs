//! The comparison of the talk on transparent mappings (docs/reference/link-model.md), three bars: an NVMe drive, the hybrid device as a block device, and
//! the hybrid device with mappings. Valkey under its own benchmark, with each write synced and with none.
//!
//! The file system is a real one on memory of this machine, so all that the kernel does takes its own time; what a device does is added:
//! to each sync below by a library behind the program's (`below.c`), and to the log in device memory by the region's own model.
//! Parameters are those of `crates/wire/link/src/hybrid.rs`, where their sources are; the time of a hit is swept.

use std::path::Path;

use anyhow::{Context, Result, bail};
use byway_benches::paired::quantile;
use byway_benches::results;
use byway_link::HybridProfile;
use byway_tdm_daemon::Daemon;
use byway_tdm_engine::control::SOCKET_VARIABLE;
use serde::Serialize;

use crate::Arguments;
use crate::device::Device;
use crate::program::{Place, Role, Setting, below};
use crate::valkey::{Running, VALKEY, rates};

/// Of the benchmark's own, those that write and those that read.
const COMMANDS: &str = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset";

/// Those of them that read alone.
const READS: [&str; 2] = ["GET", "LRANGE_100"];

/// A write of 4 KiB to the drive of the profile until it is acknowledged, and of each 4 KiB more: its own controller under its own
/// clock (`byway bench transfer --profile gen4x4 --methods prp --sizes 4096,65536`).
const DRIVE_WRITE_NS: u64 = 2846;
const DRIVE_PAGE_NS: u64 = 669;

/// What is under the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bar {
    Drive,
    Hybrid { hit_ns: u64 },
    Mapped { hit_ns: u64 },
}

impl Bar {
    const fn name(self) -> &'static str {
        match self {
            Self::Drive => "NVMe drive",
            Self::Hybrid { .. } => "hybrid",
            Self::Mapped { .. } => "hybrid, mapped",
        }
    }

    const fn hit_ns(self) -> Option<u64> {
        match self {
            Self::Drive => None,
            Self::Hybrid { hit_ns } | Self::Mapped { hit_ns } => Some(hit_ns),
        }
    }

    /// What one written page takes below, and each page more.
    fn below(self, profile: &HybridProfile) -> (u64, u64) {
        let Some(hit_ns) = self.hit_ns() else { return (DRIVE_WRITE_NS, DRIVE_PAGE_NS) };
        // The kernel copies by the processor, as there is no interface for DMA yet [S], and waits for the last line.
        let page_ns = 4096 * 1000 / u64::from(profile.cache.stream_mb_s);
        (page_ns + hit_ns, page_ns)
    }
}

/// A bar's height.
#[derive(Debug, Clone, Serialize)]
struct Row {
    fsync: &'static str,
    bar: &'static str,
    hit_ns: Option<u64>,
    rounds: usize,
    /// Geometric means over commands, a second; medians over rounds.
    all: f64,
    writes: f64,
    reads: f64,
    /// Medians over rounds of the ratio to the bar before: the drive for the hybrid, the hybrid for the mapped one.
    beside: Option<f64>,
    beside_reads: Option<f64>,
}

/// One run: geometric means over all commands, those that write, those that read.
#[derive(Debug, Clone, Copy)]
struct Height([f64; 3]);

/// Runs the comparison.
pub fn run(arguments: &Arguments) -> Result<()> {
    let scratch = tempfile::tempdir_in(&arguments.folder).context("make a folder for the programs' files")?;
    let below = below(scratch.path())?;
    let profile = HybridProfile::by_name("cmm-h").context("the profile of the hybrid device")?;
    let mut rows = Vec::new();
    for fsync in ["always", "no"] {
        for hit_ns in &arguments.hits {
            let bars = [Bar::Drive, Bar::Hybrid { hit_ns: *hit_ns }, Bar::Mapped { hit_ns: *hit_ns }];
            let mut taken = [const { Vec::new() }; 3];
            for round in 0..arguments.rounds {
                for turn in 0..bars.len() {
                    let which = (turn + round) % bars.len();
                    let height = one(arguments, (scratch.path(), &below), (bars[which], &profile), fsync);
                    taken[which].push(height.with_context(|| bars[which].name())?);
                }
            }
            let measured = rows_of(&bars, &taken, fsync);
            measured.iter().for_each(show);
            rows.extend(measured);
        }
    }
    arguments.json.as_ref().map_or(Ok(()), |path| results::keep(path, &rows))
}

fn one(
    arguments: &Arguments,
    (scratch, below): (&Path, &Path),
    (bar, profile): (Bar, &HybridProfile),
    fsync: &str,
) -> Result<Height> {
    let folder = tempfile::tempdir_in(scratch)?;
    let place = Place::new(folder.path(), &arguments.cpus, 0)?;
    let (write_ns, page_ns) = bar.below(profile);
    let mut server = place.command(VALKEY.server, Role::Program, Setting::NoLog)?;
    server.env("BYWAY_BELOW", format!("{write_ns},{page_ns}")).env("LD_PRELOAD", below);
    let mut _daemon = None;
    if let Bar::Mapped { hit_ns } = bar {
        let socket = folder.path().join("socket");
        place.pin(Role::Driver)?;
        _daemon = Some(daemon(hit_ns, &socket)?);
        server.env("LD_PRELOAD", format!("{}:{}", place.library().display(), below.display()));
        server.env(SOCKET_VARIABLE, socket);
    }
    place.pin(Role::Program)?;
    let running = Running::start(server, folder.path(), Some(fsync))?;
    let mut driver = place.command(VALKEY.benchmark, Role::Driver, Setting::NoLog)?;
    driver.args(["-p", &running.port.to_string(), "-n", &arguments.requests.to_string()]);
    driver.args(["-c", &arguments.clients.to_string()]);
    height(&rates(driver.args(["-d", "64", "-r", "100000", "-t", COMMANDS]))?)
}

/// A daemon, and behind it the memory that it serves from.
fn daemon(hit_ns: u64, socket: &Path) -> Result<(Daemon, Device)> {
    let device =
        Device::named(&format!("emu:byway-bench-talk?size=1G&profile=cmm-h&clock=paced&hit={hit_ns}"))?;
    let daemon = Daemon::start(device.options(socket.to_owned())).context("own the device")?;
    Ok((daemon, device))
}

fn height(rates: &[(String, f64)]) -> Result<Height> {
    let mean = |counts: &dyn Fn(&str) -> bool| {
        let logs: Vec<f64> =
            rates.iter().filter(|(name, _)| counts(name)).map(|(_, rate)| rate.ln()).collect();
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    };
    let reads = |name: &str| READS.iter().any(|read| name.starts_with(read));
    if rates.len() < COMMANDS.split(',').count() {
        bail!("the benchmark printed {} rates", rates.len());
    }
    Ok(Height([mean(&|_| true), mean(&|name| !reads(name)), mean(&reads)]))
}

fn rows_of(bars: &[Bar; 3], taken: &[Vec<Height>; 3], fsync: &'static str) -> Vec<Row> {
    let median = |which: usize, part: usize| {
        quantile(&taken[which].iter().map(|height| height.0[part]).collect::<Vec<_>>(), 0.5)
    };
    let beside = |which: usize, part: usize| {
        let before = which.checked_sub(1)?;
        let ratios = taken[which].iter().zip(&taken[before]).map(|(this, that)| this.0[part] / that.0[part]);
        Some(quantile(&ratios.collect::<Vec<_>>(), 0.5))
    };
    let row = |which: usize| Row {
        fsync,
        bar: bars[which].name(),
        hit_ns: bars[which].hit_ns(),
        rounds: taken[which].len(),
        all: median(which, 0),
        writes: median(which, 1),
        reads: median(which, 2),
        beside: beside(which, 0),
        beside_reads: beside(which, 2),
    };
    (0..bars.len()).map(row).collect()
}

fn show(row: &Row) {
    let hit = row.hit_ns.map_or(String::new(), |ns| format!("hit {ns} ns"));
    let beside = row.beside.map_or(String::new(), |ratio| format!("  {ratio:.2} × the bar before"));
    let reads = row.beside_reads.map_or(String::new(), |ratio| format!(" (reads {ratio:.2})"));
    println!(
        "fsync {:6} {:14} {:11} {:>9.0}/s  writes {:>9.0}  reads {:>9.0}{beside}{reads}",
        row.fsync, row.bar, hit, row.all, row.writes, row.reads
    );
}
