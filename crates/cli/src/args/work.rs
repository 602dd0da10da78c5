//! The commands that move much: copies and loads that are measured.

use byway_console::number;
use byway_console::size;
use clap::{Args, ValueEnum};

/// `byway dd`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway dd ./blocks.bin 'embedded:disk.img?ns=2'
  byway dd /dev/sdb ./backup.bin --sparse --verify
  byway dd 'embedded:disk.img?ns=2' - | zstd > disk.zst
  byway dd ./a.bin ./b.bin --bs 1M --depth 32 --jobs 2 --skip 4M --count 1G --json

Sizes are bytes, or a number with K, M, G or T (powers of 1024), as 64M, 64MB, 64MiB or 1.5G. A file that is not there is made; one that is there is written over from \
--seek on, made longer if it must be, and never cut. Ctrl-C ends a copy between two pieces and says how much is there.")]
pub struct Dd {
    /// Where bytes come from: the URI of a device of blocks, a file, or - for standard input.
    #[arg(value_name = "SRC")]
    pub from: String,
    /// Where they go: the same, or - for standard output.
    #[arg(value_name = "DST")]
    pub to: String,
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
#[command(after_help = "\
Examples:
  byway perf nil:1G --rw randread --depth 32 --time 2
  byway perf /dev/nvme0n1 --rw randread --depth 32 --threads 2 --cpus 0,1 --time 10 --warmup 1
  byway perf './blocks.bin?backend=io_uring&direct=1' --rw randrw --mix 70 --verify --json
  byway perf 'embedded:disk.img?transfer=inline' --rw put --keys 100000 --value-bytes 100
  byway perf ./blocks.bin --rw randread --direct --time 5
  byway perf embedded:disk.img --rw get --fill --keys 100000 --count 1000000
  byway perf embedded:disk.img --rw putget --mix 90 --fill --keys 100000 --count 1000000

Loads that write overwrite what the device holds in the range, or under the keys. Each thread has a queue and a random \
number stream of its own, and of a sequential load a part of the range of its own. Ctrl-C ends the measurement and prints \
what was measured.")]
pub struct Perf {
    #[command(flatten)]
    pub device: super::Device,
    /// The load.
    #[arg(long, value_enum)]
    pub rw: Load,
    /// Of a mixed load, percent that read [default: 50].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub mix: Option<u8>,
    /// Bytes of a command [default: 4K].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub bs: Option<u64>,
    /// Commands outstanding of each thread [default: depth= of the URI, else 1].
    #[arg(long, value_name = "COUNT", value_parser = number::parse::<u32>)]
    pub depth: Option<u32>,
    /// Commands that are submitted together, at least.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = number::parse::<u32>)]
    pub batch: u32,
    /// Threads.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Processors for the threads, such as 0,2-3: one each, over again when there are more threads.
    #[arg(long, value_name = "LIST", value_parser = crate::perf::parse_cpus)]
    pub cpus: Option<crate::perf::Cpus>,
    /// Seconds that are measured [default: 10, or until --count].
    #[arg(long, value_name = "SECONDS", value_parser = crate::perf::parse_seconds)]
    pub time: Option<std::time::Duration>,
    /// Commands of each thread that are measured, if --time does not end it before.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Seconds before the measurement.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = crate::perf::parse_seconds)]
    pub warmup: std::time::Duration,
    /// First byte of the range.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub offset: Option<u64>,
    /// Bytes of the range [default: up to the end].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub length: Option<u64>,
    /// Keys that a load of keys and values uses [default: 10000].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub keys: Option<u64>,
    /// Bytes of a key [default: 16].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u8).range(8..=16))]
    pub key_bytes: Option<u8>,
    /// Bytes of a value [default: 100].
    #[arg(long, value_name = "SIZE", value_parser = size::parse_u32)]
    pub value_bytes: Option<u32>,
    /// Store every key once before anything is measured. Without it, keys that are not there are errors: they are counted, are no
    /// part of the rate, and make the exit code 1.
    #[arg(long)]
    pub fill: bool,
    /// Open a file or block device past the page cache (O_DIRECT), as ?direct=1 does.
    #[arg(long)]
    pub direct: bool,
    /// Sync the file and drop what the page cache holds of it before the measurement, so that nothing is read from there.
    /// fio's invalidate, which is on by default, does so with files that fio has laid out and synced; here it is off by default.
    #[arg(long)]
    pub invalidate: bool,
    /// Decides places, keys and what is written.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Writes carry what --seed says of their place and are read back after the measurement; reads of a load that only reads
    /// are compared with it. Exit code 1 for a difference.
    #[arg(long)]
    pub verify: bool,
    /// Each command moves its data by so many buffers.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub parts: u32,
    /// Which memory holds the data.
    #[arg(long, value_enum, default_value = "device")]
    pub memory: MemoryOf,
    /// How a thread waits for completions.
    #[arg(long, value_enum, default_value = "sleep")]
    pub wait: Wait,
    /// Give a command up after so many milliseconds, and end.
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Do not time each command: no percentiles.
    #[arg(long)]
    pub no_latency: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Which memory holds a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryOf {
    /// What the device's backend prepares and keeps for commands.
    Device,
    /// The program's own, prepared once before the load.
    Prepared,
    /// The program's own, unprepared: the backend registers or copies it for each command.
    Brought,
}

/// What a load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// Reads one block behind the other.
    Read,
    /// Writes one behind the other.
    Write,
    /// Reads anywhere.
    Randread,
    /// Writes anywhere.
    Randwrite,
    /// Reads and writes anywhere.
    Randrw,
    /// Deallocates random blocks (Dataset Management).
    Trim,
    /// Has blocks anywhere read as zeroes.
    Zeroes,
    /// Stores values under any keys.
    Put,
    /// Reads values of any keys.
    Get,
    /// Stores and reads values.
    Putget,
}

/// How completions are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// As the queue does: spinning a little, then asleep.
    Sleep,
    /// Asking again and again.
    Spin,
    /// By the queue's descriptor, as a program with its own event loop does.
    Event,
    /// By the call that sends the command: one at a time.
    Call,
}
