//! Byway as an engine of fio beside fio's own engines: the same load by the same program, runs by turns.
//!
//! The engine is `integrations/fio`; fio runs one job at a time, and tells commands and processor time itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use byway_benches::paired::{alternate, lower_bound, quantile};
use byway_benches::results;
use clap::Parser;
use serde::Serialize;
use serde_json::Value;

/// Bytes of a file, and most bytes of a device that are used.
const SIZE_BYTES: u64 = 256 << 20;

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
    place: &'a Place,
    rw: &'static str,
    block_bytes: u32,
    depth: u32,
}

/// Where a load goes to.
struct Place {
    path: PathBuf,
    name: String,
    size_bytes: u64,
    is_file: bool,
}

/// What a run came to.
struct Run {
    kiops: f64,
    cpu_ns: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    interface: &'static str,
    on: String,
    load: &'static str,
    block_bytes: u32,
    depth: u32,
    pairs: usize,
    fio_kiops: f64,
    ours_kiops: f64,
    /// Median over pairs of (ours / fio), in commands a second, and the bootstrapped 95 % lower bound of it.
    ratio: f64,
    ratio_low: f64,
    /// Processor time of the job for a command, in nanoseconds.
    fio_cpu_ns: f64,
    ours_cpu_ns: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let engine = arguments.engine.canonicalize().context("the engine")?;
    let mut places = vec![Place::file(Path::new("/dev/shm"))?];
    if let Some(folder) = &arguments.folder {
        places.push(Place::file(folder)?);
    }
    if let Some(device) = &arguments.device {
        places.push(Place::device(device)?);
    }
    let mut rows = Vec::new();
    for load in loads(&arguments, &places) {
        let row = compare(&arguments, &engine, &load)?;
        println!("{}", line(&row));
        rows.push(row);
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn loads<'a>(arguments: &Arguments, places: &'a [Place]) -> Vec<Load<'a>> {
    let mut loads = Vec::new();
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    for interface in INTERFACES.iter().filter(|interface| wanted(interface.byway)) {
        for (place, rw) in places.iter().flat_map(|place| [(place, "randread"), (place, "randwrite")]) {
            let depths = arguments.depths.iter().copied().filter(|depth| interface.overlaps || *depth == 1);
            for depth in depths {
                for block_bytes in arguments.block_bytes.iter().copied() {
                    loads.push(Load { interface, place, rw, block_bytes, depth });
                }
            }
        }
    }
    loads
}

fn compare(arguments: &Arguments, engine: &Path, load: &Load<'_>) -> Result<Row> {
    let mut runs = [Vec::new(), Vec::new()];
    let pairs = alternate(arguments.pairs, |is_ours| {
        let run = run(arguments, engine, load, is_ours)?;
        let kiops = run.kiops;
        runs[usize::from(is_ours)].push(run);
        Ok::<_, anyhow::Error>(kiops)
    })?;
    let ratios: Vec<f64> = pairs.iter().map(|(fio, ours)| ours / fio).collect();
    let median = |whose: usize, what: fn(&Run) -> f64| {
        quantile(&runs[whose].iter().map(what).collect::<Vec<_>>(), 0.5)
    };
    Ok(Row {
        interface: load.interface.byway,
        on: load.place.name.clone(),
        load: load.rw,
        block_bytes: load.block_bytes,
        depth: load.depth,
        pairs: pairs.len(),
        fio_kiops: median(0, |run| run.kiops),
        ours_kiops: median(1, |run| run.kiops),
        ratio: quantile(&ratios, 0.5),
        ratio_low: lower_bound(&ratios),
        fio_cpu_ns: median(0, |run| run.cpu_ns),
        ours_cpu_ns: median(1, |run| run.cpu_ns),
    })
}

fn run(arguments: &Arguments, engine: &Path, load: &Load<'_>, is_ours: bool) -> Result<Run> {
    let mut fio = Command::new("fio");
    fio.args(["--name=one", "--gtod_reduce=1", "--direct=1", "--time_based", "--norandommap"]);
    fio.args(["--randrepeat=0", "--output-format=json"]);
    fio.arg(format!("--rw={}", load.rw)).arg(format!("--bs={}", load.block_bytes));
    fio.arg(format!("--iodepth={}", load.depth)).arg(format!("--runtime={}ms", arguments.run));
    fio.arg(format!("--size={}", load.place.size_bytes));
    let path = load.place.path.display();
    if is_ours {
        fio.arg(format!("--ioengine=external:{}", engine.display())).arg(format!("--uri=file:{path}"));
        fio.arg(format!("--backend={}", load.interface.byway));
    } else {
        fio.arg(format!("--ioengine={}", load.interface.fio)).arg(format!("--filename={path}"));
    }
    let output = fio.output().context("fio cannot be run")?;
    if !output.status.success() {
        bail!("fio failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let told = String::from_utf8_lossy(&output.stdout);
    // fio says what it has to say in front of the object.
    let json: Value = serde_json::from_str(told.get(told.find('{').unwrap_or(0)..).unwrap_or_default())?;
    told_by(&json, load.rw).context("fio told no figures")
}

fn told_by(json: &Value, rw: &str) -> Option<Run> {
    let job = json.get("jobs")?.get(0)?;
    let way = job.get(rw.trim_start_matches("rand"))?;
    let commands = way.get("total_ios")?.as_f64()?;
    let share = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    let run_ns = way.get("runtime")?.as_f64()? * 1e6;
    Some(Run { kiops: way.get("iops")?.as_f64()? / 1e3, cpu_ns: share / 100.0 * run_ns / commands })
}

fn line(row: &Row) -> String {
    let Row { interface, on, load, block_bytes, depth, .. } = row;
    format!(
        "{interface:9} {on:8} {load:9} {block_bytes:6} B depth {depth:4}: fio {:8.1} ours {:8.1} kIOPS, \
         ratio {:.3} (low {:.3}), cpu {:7.0} → {:7.0} ns",
        row.fio_kiops, row.ours_kiops, row.ratio, row.ratio_low, row.fio_cpu_ns, row.ours_cpu_ns
    )
}

impl Place {
    /// A file of its own in `folder`, with bytes in it.
    fn file(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("byway-fio-{}", std::process::id()));
        let chunk = vec![0x5a; 1 << 20];
        let mut file = std::fs::File::create(&path).with_context(|| format!("making {}", path.display()))?;
        for _ in 0..SIZE_BYTES >> 20 {
            std::io::Write::write_all(&mut file, &chunk)?;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { path, name, size_bytes: SIZE_BYTES, is_file: true })
    }

    /// A block device, whose first bytes are overwritten.
    fn device(path: &Path) -> Result<Self> {
        let mut device = std::fs::OpenOptions::new().write(true).open(path)?;
        let size_bytes = std::io::Seek::seek(&mut device, std::io::SeekFrom::End(0))?.min(SIZE_BYTES);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        std::io::Seek::rewind(&mut device)?;
        for _ in 0..size_bytes >> 20 {
            std::io::Write::write_all(&mut device, &vec![0x5a; 1 << 20])?;
        }
        Ok(Self { path: path.to_owned(), name, size_bytes, is_file: false })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
