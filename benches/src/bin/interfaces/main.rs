//! Byway's queues beside the same loads written by hand on each interface, slices by turns.

use std::path::{Path, PathBuf};

use anyhow::Result;
use byway_benches::beside::{Ran, Row, Work};
use byway_benches::paired::alternate;
use byway_benches::results;
use byway_benches::scratch::Scratch;
use clap::Parser;
use rustix::time::{ClockId, clock_gettime};

mod bare_io_uring;
mod load;
mod ours;

use load::{Load, Runner};

#[derive(Parser)]
#[command(
    about = "Compares queues with the same loads written by hand, on a tmpfs file and on a block device"
)]
struct Arguments {
    /// Only interfaces whose name has this in it.
    only: Option<String>,
    /// A block device to use beside a file in /dev/shm. What it holds is overwritten.
    #[arg(long)]
    device: Option<PathBuf>,
    /// A folder for a file to use beside that in /dev/shm.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Pairs of slices for each row.
    #[arg(long, default_value_t = 41)]
    pairs: usize,
    /// Milliseconds of a slice, about.
    #[arg(long, default_value_t = 30)]
    slice: u64,
    /// Commands outstanding.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,128")]
    depths: Vec<u32>,
    /// Bytes of a command.
    #[arg(long, value_delimiter = ',', default_value = "4096")]
    block_bytes: Vec<u32>,
    /// Through the page cache.
    #[arg(long)]
    buffered: bool,
    /// Also writes the results to this file, one JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Two ways of giving an interface the same load.
struct Interface {
    name: &'static str,
    bare: fn(&Load) -> Result<Box<dyn Runner>>,
    ours: fn(&Load) -> Result<Box<dyn Runner>>,
}

const INTERFACES: [Interface; 3] = [
    Interface { name: "io_uring", bare: bare_io_uring::of_any_thread, ours: ours::io_uring },
    Interface {
        name: "io_uring-one-thread",
        bare: bare_io_uring::of_one_thread,
        ours: ours::io_uring_of_one_thread,
    },
    // What a comparison with itself shows is noise.
    Interface { name: "control", bare: bare_io_uring::of_any_thread, ours: bare_io_uring::of_any_thread },
];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    let file = Scratch::file(Path::new("/dev/shm"), 0)?;
    let folder = arguments.folder.as_deref().map(|folder| Scratch::file(folder, 1)).transpose()?;
    let device = arguments.device.as_deref().map(Scratch::device).transpose()?;
    for scratch in [Some(&file), folder.as_ref(), device.as_ref()].into_iter().flatten() {
        for load in loads(&arguments, scratch) {
            for interface in &INTERFACES {
                if arguments.only.as_ref().is_none_or(|only| interface.name.contains(only.as_str())) {
                    let row = compare(&arguments, interface, &load)?;
                    println!("{row}");
                    rows.push(row);
                }
            }
        }
    }
    arguments.json.map_or(Ok(()), |path| results::keep(&path, &rows))
}

fn loads<'a>(arguments: &'a Arguments, scratch: &'a Scratch) -> impl Iterator<Item = Load> + 'a {
    let each_depth = move |(writes, block_bytes)| {
        let direct = !arguments.buffered;
        arguments.depths.iter().map(move |depth| Load {
            path: scratch.path.clone(),
            on: scratch.name.clone(),
            size_bytes: scratch.size_bytes,
            writes,
            block_bytes,
            depth: *depth,
            direct,
        })
    };
    let kinds = [false, true].into_iter();
    kinds
        .flat_map(|writes| arguments.block_bytes.iter().map(move |bytes| (writes, *bytes)))
        .flat_map(each_depth)
}

/// A slice.
fn slice(runner: &mut dyn Runner, commands: u32) -> Result<Ran> {
    let now = || {
        [ClockId::Monotonic, ClockId::ProcessCPUTime].map(|clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
        })
    };
    let before = now();
    runner.run(commands)?;
    let after = now();
    let [ran_ns, cpu_ns] = [0, 1].map(|n| (after[n] - before[n]) / f64::from(commands));
    Ok(Ran { kiops: 1e6 / ran_ns, cpu_ns })
}

fn compare(arguments: &Arguments, interface: &Interface, load: &Load) -> Result<Row> {
    let mut bare = (interface.bare)(load)?;
    let mut ours = (interface.ours)(load)?;
    slice(&mut *bare, 2 * load.depth)?;
    slice(&mut *ours, 2 * load.depth)?;
    let first = slice(&mut *bare, 4 * load.depth.max(64))?;
    let commands = (first.kiops * arguments.slice as f64).clamp(f64::from(load.depth) * 4.0, 1e7) as u32;
    let pairs = alternate(arguments.pairs, |is_ours| {
        let runner = if is_ours { &mut ours } else { &mut bare };
        slice(&mut **runner, commands)
    })?;
    let work = Work {
        interface: interface.name,
        on: load.on.clone(),
        devices: 1,
        load: if load.writes { "write" } else { "read" },
        block_bytes: load.block_bytes,
        depth: load.depth,
    };
    Ok(Row::of(work, "bare", &pairs))
}
