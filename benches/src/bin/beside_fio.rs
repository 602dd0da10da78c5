//! Byway as an engine of fio beside fio's own engines: the same load by the same program, runs by turns.
//!
//! The engine is `integrations/fio`; fio runs one job at a time, and reports commands and processor time itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use byway_benches::beside::{Ran, Row, Work};
use byway_benches::paired::alternate;
use byway_benches::results;
use byway_benches::scratch::Scratch;
use clap::Parser;
use serde_json::Value;

#[derive(Parser)]
#[command(about = "Compares Byway's engine of fio with fio's own, on a tmpfs file and on a block device")]
struct Arguments {
    /// The engine, as `integrations/fio/build.sh` makes it.
    engine: PathBuf,
    /// Only interfaces whose name has this in it.
    #[arg(long)]
    only: Option<String>,
    /// A block device to use beside a file in /dev/shm. What it holds is overwritten.
    #[arg(long)]
    device: Option<PathBuf>,
    /// A folder for a file to use beside that in /dev/shm.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Pairs of runs for each row.
    #[arg(long, default_value_t = 15)]
    pairs: usize,
    /// Milliseconds of a run.
    #[arg(long, default_value_t = 500)]
    run: u32,
    /// Commands outstanding; an interface that waits for each command has one.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,128")]
    depths: Vec<u32>,
    /// Bytes of a command.
    #[arg(long, value_delimiter = ',', default_value = "4096")]
    block_bytes: Vec<u32>,
    /// So many files at once, each with commands of its own outstanding, all from one processor.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    devices: Vec<usize>,
    /// From one processor with a single file, too.
    #[arg(long)]
    one_core: bool,
    /// fio's engines beside themselves: the noise of this machine.
    #[arg(long)]
    control: bool,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// An interface: fio's word for it, and Byway's.
struct Interface {
    fio: &'static str,
    byway: &'static str,
    overlaps: bool,
}

const INTERFACES: [Interface; 4] = [
    Interface { fio: "io_uring", byway: "io_uring", overlaps: true },
    Interface { fio: "libaio", byway: "libaio", overlaps: true },
    Interface { fio: "posixaio", byway: "posix_aio", overlaps: true },
    Interface { fio: "psync", byway: "psync", overlaps: false },
];

/// A load of one interface.
struct Load<'a> {
    interface: &'a Interface,
    on: &'a [Scratch],
    rw: &'static str,
    block_bytes: u32,
    depth: u32,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let engine = arguments.engine.canonicalize().context("the engine")?;
    let places = places(&arguments)?;
    let (of_ours, peer) = if arguments.control { (false, "fio-itself") } else { (true, "fio") };
    let mut rows = Vec::new();
    for load in loads(&arguments, &places) {
        let pairs =
            alternate(arguments.pairs, |is_ours| run(&arguments, &engine, &load, is_ours && of_ours))?;
        let row = Row::of(load.work(), peer, &pairs);
        println!("{row}");
        rows.push(row);
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

/// What loads may go to: a list of as many as are used at once for each kind.
fn places(arguments: &Arguments) -> Result<Vec<Vec<Scratch>>> {
    let most = arguments.devices.iter().copied().max().unwrap_or(1);
    let folders = [Some(Path::new("/dev/shm")), arguments.folder.as_deref()];
    let mut places = Vec::new();
    for (which, folder) in folders.into_iter().flatten().enumerate() {
        let files: Result<_> = (0..most).map(|n| Scratch::file(folder, which * most + n)).collect();
        places.push(files?);
    }
    if let Some(device) = &arguments.device {
        places.push(vec![Scratch::device(device)?]);
    }
    Ok(places)
}

fn loads<'a>(arguments: &'a Arguments, places: &'a [Vec<Scratch>]) -> Vec<Load<'a>> {
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut loads = Vec::new();
    for interface in INTERFACES.iter().filter(|interface| wanted(interface.byway)) {
        for (place, rw) in places.iter().flat_map(|place| [(place, "randread"), (place, "randwrite")]) {
            for on in arguments.devices.iter().filter_map(|count| place.get(..*count)) {
                let depths = arguments.depths.iter().copied();
                let depths = depths.filter(|depth| interface.overlaps || *depth == 1);
                let sizes = |depth| arguments.block_bytes.iter().map(move |bytes| (depth, *bytes));
                loads.extend(depths.flat_map(sizes).map(|(depth, block_bytes)| Load {
                    interface,
                    on,
                    rw,
                    block_bytes,
                    depth,
                }));
            }
        }
    }
    loads
}

impl Load<'_> {
    fn work(&self) -> Work {
        Work {
            interface: self.interface.byway,
            on: self.on.first().map(|first| first.name.clone()).unwrap_or_default(),
            devices: self.on.len(),
            load: self.rw,
            block_bytes: self.block_bytes,
            depth: self.depth,
        }
    }
}

fn run(arguments: &Arguments, engine: &Path, load: &Load<'_>, is_ours: bool) -> Result<Ran> {
    let mut fio = Command::new("fio");
    fio.args(["--gtod_reduce=1", "--direct=1", "--time_based", "--norandommap", "--group_reporting"]);
    fio.args(["--randrepeat=0", "--output-format=json"]);
    fio.arg(format!("--rw={}", load.rw)).arg(format!("--bs={}", load.block_bytes));
    fio.arg(format!("--iodepth={}", load.depth)).arg(format!("--runtime={}ms", arguments.run));
    match is_ours {
        true => fio.arg(format!("--ioengine=external:{}", engine.display())),
        false => fio.arg(format!("--ioengine={}", load.interface.fio)),
    };
    if load.on.len() > 1 || arguments.one_core {
        fio.arg("--cpus_allowed=0");
    }
    for scratch in load.on {
        fio.arg("--name=one").arg(format!("--size={}", scratch.size_bytes));
        let path = scratch.path.display();
        match is_ours {
            true => fio.arg(format!("--uri=file:{path}")).arg(format!("--backend={}", load.interface.byway)),
            false => fio.arg(format!("--filename={path}")),
        };
    }
    let output = fio.output().context("fio cannot be run")?;
    if !output.status.success() {
        bail!("fio failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // fio says what it has to say in front of the object.
    let json: Value = serde_json::from_str(text.get(text.find('{').unwrap_or(0)..).unwrap_or_default())?;
    parse_figures(&json, load).context("fio printed no figures")
}

fn parse_figures(json: &Value, load: &Load<'_>) -> Option<Ran> {
    let job = json.get("jobs")?.get(0)?;
    let way = job.get(load.rw.trim_start_matches("rand"))?;
    let commands = way.get("total_ios")?.as_f64()?;
    let share = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    // Shares of processor time are of the time of all jobs.
    let run_ns = way.get("runtime")?.as_f64()? * 1e6 * load.on.len() as f64;
    Some(Ran { kiops: way.get("iops")?.as_f64()? / 1e3, cpu_ns: share / 100.0 * run_ns / commands })
}
