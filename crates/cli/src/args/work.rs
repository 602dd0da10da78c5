//! The commands that move much: copies and loads that are measured.

use std::path::PathBuf;

use byway_console::number;
use byway_console::size;
use clap::{ArgGroup, Args};

use crate::target::Target;

/// `byway dd`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway dd blocks.bin 'embedded:disk.img?ns=2'
  byway dd /dev/sdb backup.bin --sparse --verify
  byway dd 'embedded:disk.img?ns=2' - | zstd > disk.zst
  byway dd a.bin b.bin --bs 1M --depth 32 --jobs 2 --skip 4M --count 1G --json

Sizes are bytes, or a number with K, M, G or T (powers of 1024), as 64M, 64MB, 64MiB or 1.5G. A file that is not there is made; one that is there is written over from \
--seek on, made longer if it must be, and never cut. A path is the file itself: of an image say embedded:PATH for the \
blocks of its device, or file:PATH for its bytes. Ctrl-C ends a copy between two pieces and says how much is there.")]
pub struct Dd {
    /// Where bytes come from: a path, the URI of a device of blocks (`byway help uri`), or - for standard input.
    #[arg(value_name = "SRC", value_parser = Target::of_copy)]
    pub from: Target,
    /// Where they go: the same, or - for standard output.
    #[arg(value_name = "DST", value_parser = Target::of_copy)]
    pub to: Target,
    /// Namespace of the side that is a device with namespaces; where both are, write ns= into their URIs.
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    /// Bytes of a piece: what one command moves [default: 256K, or as many as both sides can].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub bs: Option<u64>,
    /// Bytes in all [default: up to the end].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub count: Option<u64>,
    /// First byte that is read.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub skip: u64,
    /// First byte that is written.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub seek: u64,
    /// Pieces on their way at once, on either side [default: depth= of a URI, else 16; as many as
    /// queues of both sides hold].
    #[arg(long, value_name = "COUNT", value_parser = number::parse::<u32>)]
    pub depth: Option<u32>,
    /// Threads, each with a part of the range and queues of its own.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = number::parse::<u32>)]
    pub jobs: u32,
    /// Have pieces that hold nothing but zeroes zeroed, and their room given back, in place of sending them.
    #[arg(long)]
    pub sparse: bool,
    /// Read everything back, and compare; exit code 1 for a difference.
    #[arg(long)]
    pub verify: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway perf`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("load").required(true).multiple(true).args(["rw", "jobs", "compare"]),
    after_help = "\
Examples:
  byway perf null-backend:1G --rw randread --depth 32 --time 2
  byway perf /dev/nvme0n1 --rw randread --depth 32 --threads 2 --cpus 0,1 --time 10 --warmup 1
  byway perf /dev/nvme0n1 --rw randrw --rwmixread 70 --bs 4k --iodepth 32 --numjobs 2 --runtime 10 --direct=1
  byway perf 'blocks.bin?backend=io_uring&direct=1' --rw randrw --mix 70 --verify --json
  byway perf 'embedded:disk.img?transfer=inline' --rw put --keys 100000 --value-bytes 100
  byway perf blocks.bin --rw randread --direct --time 5
  byway perf disk.img --rw get --fill --keys 100000 --count 1000000 --random-distribution zipf:0.99
  byway perf disk.img --rw putget --mix 90 --fill --keys 100000 --count 1000000
  byway perf blocks.bin --rw randread --time 5 --log run --log-avg-ms 100
  byway perf blocks.bin --jobs jobs.fio --json
  byway perf /dev/nvme0n1 --rw randread --depth 1,32 --time 10 --repeat 5
  byway perf blocks.bin --rw randread --time 5 --report after --compare before
  byway perf --compare after --compare before

Loads that write overwrite what the device holds in the range, or under the keys. Each thread has a queue and a random \
number stream of its own, and of a sequential load a part of the range of its own. Ctrl-C ends the measurement and prints \
what was measured. Aliases are the words of fio, with its units and its meaning.")]
pub struct Perf {
    /// The device: the path of an image, file or device node, or a URI (`byway help uri`).
    #[arg(value_name = "DEVICE", required_unless_present_any = ["jobs", "compare"])]
    pub target: Option<Target>,
    /// Namespace, as `ns=` of a URI [default: the first that fits].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    #[command(flatten)]
    pub settings: byway_perf::Settings,
    /// Run the jobs of a file in fio's form: beside each other, or one after the other by stonewall. A job's filename is its device;
    /// without one it is DEVICE. Options are those of this command, by our names or fio's.
    #[arg(long, value_name = "FILE", help_heading = "Load", conflicts_with_all = ["rw", "mix", "bs", "depth", "batch", "threads", "cpus", "time", "count", "warmup", "offset", "length", "random_distribution", "keys", "key_bytes", "value_bytes", "fill", "direct", "invalidate", "seed", "verify", "parts", "memory", "wait", "timeout", "no_latency"])]
    pub jobs: Option<PathBuf>,
    /// Run the load so many times, and print the median of each figure with the least and the greatest. Keys are filled before the
    /// first run alone; a device that writes change is not made new in between.
    #[arg(help_heading = "Measurement", long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Write a report into a folder: report.html, its figures as SVG, CSV and PDF, and report.json.
    #[arg(help_heading = "Output", long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
    /// Print the figures beside those of a finished report, and their ratios: its folder or its report.json. Once for each; without
    /// --rw and --jobs nothing is measured, and the first finished report is compared with the others.
    #[arg(help_heading = "Output", long, value_name = "REPORT")]
    pub compare: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(help_heading = "Output", long)]
    pub json: bool,
}
