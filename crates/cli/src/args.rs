//! The command tree. Help, man pages and completions are all made from it.

use std::path::PathBuf;

use byway::{ClockMode, Method, NewNamespace, Packing};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::contest::{Engine, Letter, Op};
use crate::namespace;
use crate::records::Format;
use crate::size;
use crate::workload::Workload;

/// Move bytes between programs and SSDs at the size the program has.
#[derive(Debug, Parser)]
#[command(
    name = "byway",
    version,
    propagate_version = true,
    after_help = "\
Examples:
  byway create disk.img --size 8G
  byway kv put 'embedded:disk.img?transfer=inline' 0041 'LATIN CAPITAL LETTER A'
  byway bench transfer --sizes 32 --methods prp,piggyback,inline

Exit codes: 0 done, 1 no such key or a difference found, 2 an error, 130 interrupted."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an image: the file that holds one device.
    Create(Create),
    /// Say what a device is: profile, namespaces, transfer methods, limits, counters.
    Info(Info),
    /// Verify every structure of an image, and repair one.
    Check(Check),
    /// Give an image another size.
    Resize(Resize),
    /// Copy an image, also while another process writes to it.
    Snapshot(Snapshot),
    /// Empty one namespace; no byte of what it held is left in the image.
    Format(FormatNamespace),
    /// Empty the whole device; no byte of what was ever stored is left in the image.
    Sanitize(Sanitize),
    /// Keys and values.
    Kv(Kv),
    /// Blocks.
    Nvm(Nvm),
    /// Measure transfer methods.
    Bench(Bench),
    /// Run the papers' experiments and write report.html.
    Report(Report),
    /// Print man pages or shell completions.
    Gen(Gen),
}

/// `byway create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway create disk.img --size 8G
  byway create disk.img --size 8G --profile cosmos --ns kv:4G --ns nvm:2G")]
pub struct Create {
    /// Where the image shall be; nothing that exists is overwritten.
    pub image: PathBuf,
    /// Capacity that the device announces.
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub size: u64,
    /// Profile of the device: its flash geometry, link, firmware and limits.
    #[arg(long, default_value = "gen4x4", value_name = "PROFILE")]
    pub profile: String,
    /// A namespace: kv or nvm, with a size or for an equal part of what is left [default: kv].
    #[arg(long = "ns", value_name = "KIND[:SIZE]", value_parser = namespace::parse)]
    pub namespaces: Vec<NewNamespace>,
    /// What holds the flash pages. With ram or null the image only describes the device, which is empty at each opening.
    #[arg(long, default_value = "file")]
    pub media: Media,
    /// Flash beyond the size, in percent of it: room for garbage collection, which more of makes cheaper.
    #[arg(long, default_value_t = byway::DEFAULT_OVER_PROVISIONING_PERCENT, value_name = "PERCENT",
          value_parser = clap::value_parser!(u32).range(..=1000))]
    pub over_provisioning: u32,
    /// Print what was made as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `byway info`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway info embedded:disk.img
  byway info -v embedded:disk.img
  byway info 'embedded:disk.img?profile=cosmos' --json")]
pub struct Info {
    #[command(flatten)]
    pub device: Device,
    /// Its insides too: room, wear, write amplification by cause, ages, power history, engines.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway check disk.img
  byway check disk.img --json
  byway check disk.img --repair

Without --repair the image is not changed, even one that was not closed. With it, what is kept twice or can be
counted anew is restored, what is lost is dropped, and each lost key or block is listed. A repair may be interrupted and run again.

Exit codes: 0 clean, 1 something was found (and repaired, if asked), 2 the image cannot be used.")]
pub struct Check {
    /// The image.
    pub image: PathBuf,
    /// Restore what can be restored, drop what is lost.
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway resize`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway resize disk.img 16G
  byway resize disk.img 16G --ns 2:8G
  byway resize disk.img 4G

Everything is copied into a new image beside the old one, which then takes its name: until then the old one is the image,
whatever happens. Namespaces keep numbers, identifiers and content. The disk needs room for both.")]
pub struct Resize {
    /// The image; nobody may have it open.
    pub image: PathBuf,
    /// Capacity that the device announces from then on.
    #[arg(value_parser = size::parse, value_name = "SIZE")]
    pub size: u64,
    /// Another size for a namespace of blocks.
    #[arg(long = "ns", value_name = "NUMBER:SIZE", value_parser = namespace::parse_size)]
    pub namespaces: Vec<(u32, u64)>,
}

/// `byway snapshot`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway snapshot disk.img copy.img
  byway snapshot disk.img copy.img --json

The copy is the image as it is at one instant: every put that was acknowledged before is in it, whole. If a process has
the image open, that process makes the copy; its commands wait only while protected state is copied, for the time that is printed.")]
pub struct Snapshot {
    /// The image.
    pub image: PathBuf,
    /// Where the copy shall be; nothing that exists is overwritten.
    pub out: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway format`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway format disk.img --ns 1 --yes
  byway format disk.img --ns 2 --block-bytes 4096 --yes
  byway format disk.img --ns 1 --quick --yes")]
pub struct FormatNamespace {
    /// The image.
    pub image: PathBuf,
    /// The namespace that is emptied.
    #[arg(long, value_name = "NUMBER")]
    pub ns: u32,
    /// Bytes of a block from now on: 512 or 4096, of a namespace of blocks.
    #[arg(long, value_name = "BYTES", default_value = "512", value_parser = ["512", "4096"])]
    pub block_bytes: String,
    /// Only forget where things are: bytes stay in the image until their room is needed.
    #[arg(long)]
    pub quick: bool,
    /// Yes, everything in the namespace shall go.
    #[arg(long, required = true)]
    pub yes: bool,
}

/// `byway sanitize`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway sanitize disk.img --yes
  byway sanitize disk.img --overwrite 3 --yes

Namespaces stay, empty. A sanitize that is interrupted is finished when the image is next opened. What the host's file
system and its disk keep of blocks that were given back is beyond the image.")]
pub struct Sanitize {
    /// The image.
    pub image: PathBuf,
    /// Write over everything so many times before its room is given back.
    #[arg(long, value_name = "PASSES", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub overwrite: Option<u8>,
    /// Yes, everything in the device shall go.
    #[arg(long, required = true)]
    pub yes: bool,
}

/// What holds the flash pages of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Media {
    /// The image.
    File,
    /// Memory: gone when the device is closed.
    Ram,
    /// Nothing: pages are accepted and forgotten.
    Null,
}

/// What holds the flash pages of a device that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryMedia {
    /// Memory.
    Ram,
    /// Nothing: pages are accepted and forgotten.
    Null,
}

/// Which device, and how it is driven.
#[derive(Debug, Args)]
pub struct Device {
    /// The device: embedded:PATH, or ram:SIZE for one in memory; options after `?`, joined by `&`
    /// (transfer=, policy=, tau=, alpha=, below=, profile=, link=, mps=, mrrs=, clock=, ns=, run=, ledger=, flash=,
    /// packing=, gc=, inject=, flush=, depth=, ring=, reads=, memtable=, cache=).
    #[arg(value_name = "URI")]
    pub uri: String,
}

/// `byway kv`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway kv put embedded:disk.img sensor-7 21.5
  byway kv list embedded:disk.img")]
pub struct Kv {
    /// What to do.
    #[command(subcommand)]
    pub command: KvCommand,
}

/// What can be done with keys and values.
#[derive(Debug, Subcommand)]
pub enum KvCommand {
    /// Store a value under a key.
    #[command(after_help = "\
Examples:
  byway kv put 'embedded:disk.img?transfer=piggyback' sensor-7 21.5
  byway kv put embedded:disk.img photo --file photo.jpg
  date | byway kv put embedded:disk.img now")]
    Put {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
        /// The value; without it and without --file it is read from standard input.
        value: Option<String>,
        /// Take the value from a file.
        #[arg(long, conflicts_with = "value", value_name = "PATH")]
        file: Option<PathBuf>,
        /// Only if the key exists.
        #[arg(long, conflicts_with = "if_absent")]
        if_present: bool,
        /// Only if the key does not exist.
        #[arg(long)]
        if_absent: bool,
    },
    /// Store the records of a file as fast as they can be read: many of them by one command.
    #[command(after_help = "\
Example:
  byway kv load embedded:disk.img records.jsonl")]
    Load {
        #[command(flatten)]
        device: Device,
        /// The file; - is standard input.
        file: PathBuf,
        /// How records stand in it [default: jsonl for *.jsonl, else unicode].
        #[arg(long)]
        format: Option<Format>,
    },
    /// Write the value of a key to standard output.
    #[command(after_help = "\
Example:
  byway kv get embedded:disk.img sensor-7")]
    Get {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
        /// Write the value to a file instead.
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
    },
    /// Delete a key.
    #[command(after_help = "\
Example:
  byway kv delete embedded:disk.img sensor-7")]
    Delete {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
    },
    /// Say by the exit code whether a key exists.
    #[command(after_help = "\
Example:
  byway kv exists embedded:disk.img sensor-7 && echo yes")]
    Exists {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        key: Key,
    },
    /// List keys in order.
    #[command(after_help = "\
Examples:
  byway kv list embedded:disk.img
  byway kv list embedded:disk.img --from 1F600 --limit 10 --json")]
    List {
        #[command(flatten)]
        device: Device,
        /// Begin at this key, or the next one after it.
        #[arg(long, value_name = "KEY")]
        from: Option<String>,
        /// Print at most so many keys.
        #[arg(long, value_name = "COUNT")]
        limit: Option<u64>,
        /// Keys are hexadecimal digits, here and in what is printed.
        #[arg(long)]
        hex: bool,
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Store every record of a file, or compare a file with what is stored.
    #[command(after_help = "\
Examples:
  byway kv import 'embedded:disk.img?transfer=inline' /usr/share/unicode/UnicodeData.txt
  byway kv import embedded:disk.img /usr/share/unicode/UnicodeData.txt --compare
  byway kv export embedded:disk.img | byway kv import embedded:other.img - --format jsonl")]
    Import {
        #[command(flatten)]
        device: Device,
        /// The file; - is standard input.
        file: PathBuf,
        /// How records stand in it [default: jsonl for *.jsonl, else unicode].
        #[arg(long)]
        format: Option<Format>,
        /// Write nothing: read every record back and compare.
        #[arg(long)]
        compare: bool,
        /// Print the figures as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write every record to standard output or a file.
    #[command(after_help = "\
Examples:
  byway kv export embedded:disk.img > records.jsonl
  byway kv export embedded:disk.img --format unicode --file UnicodeData.txt")]
    Export {
        #[command(flatten)]
        device: Device,
        /// Where to write [default: standard output].
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
        /// How records shall stand in it; unicode writes values alone, a line each.
        #[arg(long, default_value = "jsonl")]
        format: Format,
    },
}

/// A key on the command line.
#[derive(Debug, Args)]
pub struct Key {
    /// The key: 1 to 16 bytes of text.
    pub key: String,
    /// The key is hexadecimal digits.
    #[arg(long)]
    pub hex: bool,
}

/// `byway nvm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  byway nvm write 'embedded:disk.img?ns=2' --file boot.bin")]
pub struct Nvm {
    /// What to do.
    #[command(subcommand)]
    pub command: NvmCommand,
}

/// A range of bytes of a namespace, whole blocks.
#[derive(Debug, Args)]
pub struct Range {
    /// First byte, a multiple of the block size.
    #[arg(long, default_value = "0", value_parser = size::parse, value_name = "SIZE")]
    pub offset: u64,
    /// Bytes, a multiple of the block size.
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub length: u64,
}

/// What can be done with blocks.
#[derive(Debug, Subcommand)]
pub enum NvmCommand {
    /// Write blocks to standard output or a file.
    #[command(after_help = "\
Example:
  byway nvm read 'embedded:disk.img?ns=2' --offset 1M --length 4K | xxd | head")]
    Read {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: Range,
        /// Where to write [default: standard output].
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
    },
    /// Write a file or standard input to blocks; the last block is filled with zeroes.
    #[command(after_help = "\
Examples:
  byway nvm write 'embedded:disk.img?ns=2' --file boot.bin
  echo hello | byway nvm write 'embedded:disk.img?ns=2&transfer=inline' --offset 4K")]
    Write {
        #[command(flatten)]
        device: Device,
        /// First byte, a multiple of the block size.
        #[arg(long, default_value = "0", value_parser = size::parse, value_name = "SIZE")]
        offset: u64,
        /// What to write [default: standard input].
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
    },
    /// Tell the device that blocks are no longer needed; they read as zeroes.
    #[command(after_help = "\
Example:
  byway nvm trim 'embedded:disk.img?ns=2' --offset 1M --length 64K")]
    Trim {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: Range,
    },
    /// Make completed writes durable.
    #[command(after_help = "\
Example:
  byway nvm flush 'embedded:disk.img?ns=2'")]
    Flush {
        #[command(flatten)]
        device: Device,
    },
}

/// `byway bench`.
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
    #[command(
        after_help = "\
Examples:
  byway bench kv
  byway bench kv --vs fjall,lmdb --count 100000 --values 32,1K --ops put,get --json
  byway bench kv --vs fjall --ops put,get --threads 2
  byway bench kv --ycsb A,B,C,D,E,F

One process, the engines by turns in short rounds; after each, what still works in the background is waited for and
charged to the processor time of its engine. Every engine keeps its files in the same folder, uncompressed, and does
the same steps. A put that returned survives the process, in the flush rows the loss of power.",
        verbatim_doc_comment
    )]
    Kv(KvBench),
    /// A device filled and then overwritten at random: write amplification by cause, wear and throughput, beside a
    /// simple model of greedy garbage collection.
    #[command(after_help = "\
Examples:
  byway bench endurance
  byway bench endurance --size 2G --overwrites 20 --gc cost-benefit --json
  byway bench endurance --kv --value 1K")]
    Endurance(EnduranceBench),
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
    #[arg(long, value_name = "BYTES")]
    pub mps: Option<u32>,
    /// Maximum read request size of the link, exactly: a controller's own rule does not apply.
    #[arg(long, value_name = "BYTES")]
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
    /// The fine-grained method of policy threshold.
    #[arg(long, default_value = "piggyback", value_name = "METHOD")]
    pub below: Method,
    /// Shifts the threshold: above 1 for less traffic, below 1 for less latency.
    #[arg(long, default_value_t = 1.0)]
    pub alpha: f32,
    /// Decides keys, sizes and values.
    #[arg(long, default_value_t = 0)]
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
    #[arg(long, default_value_t = 10_000)]
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
    #[arg(long, default_value_t = 1_000_000)]
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
    #[arg(long, default_value_t = 1_000_000)]
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
    #[arg(long, default_value_t = 3)]
    pub passes: u32,
    /// Client threads, each with a queue or session of its own.
    #[arg(long, visible_alias = "queues", default_value_t = 1)]
    pub threads: u32,
    /// Folder in which the stores are made and removed.
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub dir: PathBuf,
    /// More options of Byway's URI, as transfer=inline&ledger=off.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "OPTIONS")]
    pub options: String,
    /// Decides keys, values and order.
    #[arg(long, default_value_t = 0)]
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
    #[arg(long, default_value_t = 95, value_name = "PERCENT")]
    pub fill: u32,
    /// Times that as much as was filled is overwritten, each place as likely as any other.
    #[arg(long, default_value_t = 5)]
    pub overwrites: u32,
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
    /// Bytes of a value.
    #[arg(long, default_value = "1K", value_parser = size::parse_u32, value_name = "SIZE")]
    pub value: u32,
    /// Folder in which the image is made and removed.
    #[arg(long, default_value = ".", value_name = "PATH")]
    pub dir: PathBuf,
    /// Decides the order of writes.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print one JSON object a pass, and one of the whole.
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
    #[arg(long, default_value_t = 200)]
    pub count: u64,
    /// Decides values.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// `byway report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway report out
  byway report out --full
  byway report out --records /usr/share/unicode/UnicodeData.txt")]
pub struct Report {
    /// Where report.html and report.json are written.
    pub dir: PathBuf,
    /// A million puts of each workload, as the papers had, instead of 100,000.
    #[arg(long, conflicts_with = "count")]
    pub full: bool,
    /// Puts of each workload.
    #[arg(long, value_name = "COUNT")]
    pub count: Option<u64>,
    /// Import these records (UnicodeData.txt) by each transfer method, reopen, read back and compare.
    #[arg(long, value_name = "PATH")]
    pub records: Option<PathBuf>,
    /// Decides keys, sizes and values.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// `byway gen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway gen man --dir man
  byway gen completions bash > /etc/bash_completion.d/byway")]
pub struct Gen {
    /// What to print.
    #[command(subcommand)]
    pub what: GenWhat,
}

/// What is made from the command tree.
#[derive(Debug, Subcommand)]
pub enum GenWhat {
    /// The man page of `byway`, or a page for each command into a folder.
    #[command(after_help = "\
Examples:
  byway gen man | man -l -
  byway gen man --dir /usr/local/share/man/man1")]
    Man {
        /// A folder for all pages, made if it is not there.
        #[arg(long, value_name = "PATH")]
        dir: Option<PathBuf>,
    },
    /// The reference of all commands, as Markdown.
    #[command(after_help = "\
Example:
  byway gen reference > docs/reference/commands.md")]
    Reference,
    /// Completions for a shell.
    #[command(after_help = "\
Example:
  byway gen completions zsh > ~/.zfunc/_byway")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Every command, with its names from the root.
    fn commands(command: &clap::Command, path: &str) -> Vec<(String, clap::Command)> {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        let below = command.get_subcommands().flat_map(|sub| commands(sub, &path));
        std::iter::once((path.clone(), command.clone())).chain(below).collect()
    }

    /// What a shell hands to the command: words up to a pipe or a redirection, quotes taken off.
    fn words(line: &str) -> Vec<String> {
        let line = [" | ", " > ", " && "].iter().fold(line, |line, end| line.split(end).next().unwrap());
        let unquoted = |(index, part): (usize, &str)| match index % 2 {
            0 => part.replace(' ', "\n"),
            _ => part.to_owned(),
        };
        let line: String = line.split('\'').enumerate().map(unquoted).collect();
        line.split('\n').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        for (path, mut command) in commands(&Cli::command(), "") {
            let help = command.render_help().to_string();
            let example = help.split_once("Example").unwrap_or_else(|| panic!("{path} has no example")).1;
            assert!(example.contains(&path), "{path}: {example}");
            for line in example.lines().filter(|line| line.trim_start().starts_with(&path)) {
                Cli::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }

    #[test]
    fn a_way_parses_from_its_name() {
        for name in ["prp+tail", "bulk", "byte-store"] {
            assert_eq!(name.parse::<Way>().unwrap().name(), name);
        }
        let said = "warp".parse::<Way>().unwrap_err();
        assert!(said.contains("cxl+piggyback") && said.contains("byte-store"), "{said}");
    }
}
