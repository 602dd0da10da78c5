//! The benches, and what values are put by in them.

use std::path::PathBuf;

use byway::{ClockMode, Method, Packing};
use clap::{Args, Subcommand, ValueEnum};

use crate::contest::{Engine, Letter, Op};
use crate::endurance::skew::Skew;
use crate::number;
use crate::size;
use crate::workload::Workload;

/// `byway bench`: methods, stores and endurance, measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  byway bench transfer --sizes 32 --methods prp,piggyback,inline")]
pub struct Bench {
    /// What to measure.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// One put at a time, by size and method: bytes, commands, slots, modelled and real time.
    #[command(after_help = "\
Examples:
  byway bench transfer
  byway bench transfer --profile cosmos --sizes 32,64,4K --methods prp,inline --mps 128 --json")]
    Transfer(Transfer),
    /// The papers' workloads: A:SIZE, B, C, D and M.
    #[command(after_help = "\
Examples:
  byway bench workload --workloads M --methods prp,piggyback,adaptive --count 100000
  byway bench workload --workloads A:32,C --profile gen5x8-cxl --methods cxl --json")]
    Workload(WorkloadBench),
    /// Byway beside embedded stores: puts, gets, listings, mixes, with a sync after each put and without.
    #[command(after_help = "\
Examples:
  byway bench kv
  byway bench kv --vs fjall,lmdb --count 100000 --values 32,1K --ops put,get --json
  byway bench kv --vs fjall --ops put,get --threads 2
  byway bench kv --ycsb A,B,C,D,E,F

One process, the engines by turns in short rounds; after each, what still works in the background is waited for and \
charged to the processor time of its engine. Every engine keeps its files in the same folder, uncompressed, and does \
the same steps. A put that returned survives the process, in the flush rows the loss of power.")]
    Kv(KvBench),
    /// A device filled and then overwritten at random: write amplification by cause, wear and throughput, beside a
    /// simple model of greedy garbage collection.
    #[command(after_help = "\
Examples:
  byway bench endurance
  byway bench endurance --size 2G --overwrites 20 --gc cost-benefit --json
  byway bench endurance --skew 80/20
  byway bench endurance --kv --value 1K")]
    Endurance(EnduranceBench),
    /// What puts cost on the link of a device wherever it is, counted by itself, and which descriptor it was given: behind a
    /// kernel's driver, too.
    #[command(after_help = "\
Examples:
  byway bench traffic /dev/ng0n2 --methods prp,piggyback-pt
  byway bench traffic embedded:disk.img?sgl=off --methods prp,inline --sizes 32,64 --json

Keys are overwritten by turns. Behind a kernel's driver, method prp is what the kernel chooses, PRPs or SGLs: column \
descriptors says which the device was given. A device does not see how often its doorbells are written, and so they \
are in no sum: at most two a command, 4 bytes each, 28 on the wire. Times are those of the caller.")]
    Traffic(Traffic),
    /// Find from which size on prp is as quick as piggyback and cxl, and keep it for the adaptive method.
    #[command(after_help = "\
Examples:
  byway bench calibrate
  byway bench calibrate --profile cosmos --json")]
    Calibrate(Calibrate),
}

/// What every bench takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Profile of the device.
    #[arg(long, default_value = "cosmos", value_name = "PROFILE")]
    pub profile: String,
    /// Another link under it, gen1x1 to gen6x16.
    #[arg(long, value_name = "LINK")]
    pub link: Option<String>,
    /// Maximum payload size of the link, exactly: a controller's own bound does not apply.
    #[arg(long, value_name = "BYTES", value_parser = number::parse::<u32>)]
    pub mps: Option<u32>,
    /// Maximum read request size of the link, exactly: a controller's own rule does not apply.
    #[arg(long, value_name = "BYTES", value_parser = number::parse::<u32>)]
    pub mrrs: Option<u32>,
    /// Whether time is modelled: off, virtual or paced.
    #[arg(long, default_value = "virtual", value_name = "CLOCK")]
    pub clock: ClockMode,
    /// What holds the flash pages.
    #[arg(long, default_value = "ram")]
    pub media: MemoryMedia,
    /// By what the adaptive method chooses.
    #[arg(long, default_value = "bytes")]
    pub policy: Policy,
    /// Policy threshold: the fine-grained method [default: piggyback].
    #[arg(long, value_name = "METHOD")]
    pub below: Option<Method>,
    /// Policy threshold: shifts it, above 1 for less traffic, below 1 for less latency [default: 1].
    #[arg(long)]
    pub alpha: Option<f32>,
    /// Decides keys, sizes and values.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// By what the adaptive method chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// The fewest bytes on the wire, by the cost model.
    Bytes,
    /// The least time, by the cost model.
    Time,
    /// BandSlim's: a fine-grained method below the calibrated threshold times alpha, prp from there on.
    Threshold,
}

/// Whether something takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It does.
    On,
    /// It does not; it is still done and counted.
    Off,
}

/// `byway bench transfer`.
#[derive(Debug, Args)]
pub struct Transfer {
    #[command(flatten)]
    pub common: Common,
    /// Value sizes.
    #[arg(long, value_delimiter = ',', value_parser = size::parse_u32, value_name = "SIZES",
          default_value = "4,8,16,32,64,128,256,512,1K,2K,4K,8K")]
    pub sizes: Vec<u32>,
    /// Transfer methods; bulk and byte-store are comparators.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "METHODS",
        default_value = "prp,sgl,piggyback,piggyback-pt,prp+tail,inline,hybrid,cxl,cxl+piggyback,adaptive"
    )]
    pub methods: Vec<Way>,
    /// Puts of each size by each method.
    #[arg(long, default_value_t = 10_000, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Whether the NAND array takes time; the papers measured without.
    #[arg(long, default_value = "off")]
    pub flash: Switch,
}

/// `byway bench workload`.
#[derive(Debug, Args)]
pub struct WorkloadBench {
    #[command(flatten)]
    pub common: Common,
    /// Workloads.
    #[arg(long, value_delimiter = ',', value_name = "WORKLOADS", default_value = "B,C,D,M")]
    pub workloads: Vec<Workload>,
    /// Transfer methods; bulk and byte-store are comparators.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "METHODS",
        default_value = "prp,piggyback,inline,hybrid,cxl,adaptive"
    )]
    pub methods: Vec<Way>,
    /// Puts of each workload by each method.
    #[arg(long, default_value_t = 1_000_000, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Whether the NAND array takes time.
    #[arg(long, default_value = "on")]
    pub flash: Switch,
    /// How values are packed into flash pages: all, selective or selective-backfill.
    #[arg(long, default_value = "selective-backfill", value_name = "PACKING")]
    pub packing: Packing,
}

/// `byway bench kv`.
#[derive(Debug, Args)]
pub struct KvBench {
    /// Stores to compare with; byway itself is always there, and named alone runs alone.
    #[arg(long, value_delimiter = ',', value_name = "ENGINES", default_value = "fjall,lmdb,rocksdb")]
    pub vs: Vec<Engine>,
    /// Keys: 16 random bytes each.
    #[arg(long, default_value_t = 1_000_000, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Value sizes [default: 32,128,1K, or 1K for YCSB alone].
    #[arg(long, value_delimiter = ',', value_parser = size::parse_u32, value_name = "SIZES")]
    pub values: Vec<u32>,
    /// Kinds of work [default: all but YCSB; put and get with several threads].
    #[arg(long, value_delimiter = ',', value_name = "OPS")]
    pub ops: Vec<Op>,
    /// Workloads of YCSB, A to F; without --ops alone.
    #[arg(long, value_delimiter = ',', value_name = "LETTERS")]
    pub ycsb: Vec<Letter>,
    /// Passes, each with new stores; rates are medians of passes.
    #[arg(long, default_value_t = 3, value_parser = number::parse::<u32>)]
    pub passes: u32,
    /// Client threads, each with a queue or session of its own.
    #[arg(long, visible_alias = "queues", default_value_t = 1, value_parser = number::parse::<u32>)]
    pub threads: u32,
    /// Folder in which the stores are made and removed.
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub dir: PathBuf,
    /// More options of Byway's URI, as transfer=inline&ledger=off.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "OPTIONS")]
    pub options: String,
    /// Decides keys, values and order.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// `byway bench endurance`.
#[derive(Debug, Args)]
pub struct EnduranceBench {
    /// Capacity of the device.
    #[arg(long, default_value = "1G", value_parser = size::parse, value_name = "SIZE")]
    pub size: u64,
    /// Profile of the device.
    #[arg(long, default_value = "gen4x4", value_name = "PROFILE")]
    pub profile: String,
    /// Part of the capacity that is filled, in percent.
    #[arg(long, default_value_t = 95, value_name = "PERCENT", value_parser = number::parse::<u32>)]
    pub fill: u32,
    /// Times that as much as was filled is overwritten, each place as likely as any other.
    #[arg(long, default_value_t = 5, value_parser = number::parse::<u32>)]
    pub overwrites: u32,
    /// Overwrite some places more often: percent of writes and of the places they go to, as 80/20.
    #[arg(long, value_name = "WRITES/PLACES")]
    pub skew: Option<Skew>,
    /// Policy of garbage collection: greedy or cost-benefit.
    #[arg(long, default_value = "greedy", value_name = "POLICY")]
    pub gc: String,
    /// Flash beyond the size, in percent of it.
    #[arg(long, default_value_t = byway::DEFAULT_OVER_PROVISIONING_PERCENT, value_name = "PERCENT",
          value_parser = clap::value_parser!(u32).range(..=1000))]
    pub over_provisioning: u32,
    /// Write pairs to a key-value namespace, not blocks of 4 KiB.
    #[arg(long)]
    pub kv: bool,
    /// Bytes of a value, with --kv.
    #[arg(long, requires = "kv", default_value = "1K", value_parser = size::parse_u32, value_name = "SIZE")]
    pub value: u32,
    /// Folder in which the image is made and removed.
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub dir: PathBuf,
    /// Decides the order of writes.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a pass, and one of the whole.
    #[arg(long)]
    pub json: bool,
}

/// `byway bench traffic`.
#[derive(Debug, Args)]
pub struct Traffic {
    /// The device: any with a key-value namespace that counts what crosses its link.
    #[arg(value_name = "URI")]
    pub uri: String,
    /// Value sizes.
    #[arg(long, value_delimiter = ',', value_parser = size::parse_u32, value_name = "SIZES",
          default_value = "4,8,11,32,64,128,256,512,1K,4K")]
    pub sizes: Vec<u32>,
    /// Transfer methods, as far as the device and what is before it have them.
    #[arg(long, value_delimiter = ',', value_name = "METHODS", default_value = "prp")]
    pub methods: Vec<Method>,
    /// Puts of each size by each method, one at a time.
    #[arg(long, default_value_t = 1000, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Decides values.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// `byway bench calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// Profiles [default: every one].
    #[arg(long, value_delimiter = ',', value_name = "PROFILES")]
    pub profile: Vec<String>,
    /// Puts of each size by each method.
    #[arg(long, default_value_t = 200, value_parser = number::parse::<u64>)]
    pub count: u64,
    /// Decides values.
    #[arg(long, default_value_t = 0, value_parser = number::parse::<u64>)]
    pub seed: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// What holds the flash pages of a device that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryMedia {
    /// Memory.
    Ram,
    /// Nothing: pages are accepted and forgotten.
    Null,
}

/// How values are put: by a transfer method, or by something to compare it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A transfer method.
    Method(Method),
    /// Many pairs in one command, as KV-CSD.
    Bulk,
    /// Stores into a controller memory buffer, as 2B-SSD.
    ByteStore,
}

impl Way {
    /// The name it is asked for by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Method(method) => method.name(),
            Self::Bulk => "bulk",
            Self::ByteStore => "byte-store",
        }
    }
}

impl std::str::FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bulk" => Ok(Self::Bulk),
            "byte-store" => Ok(Self::ByteStore),
            other => match other.parse() {
                Ok(method) => Ok(Self::Method(method)),
                Err(unknown) => Err(format!("{unknown}, or one of the comparators bulk and byte-store")),
            },
        }
    }
}
