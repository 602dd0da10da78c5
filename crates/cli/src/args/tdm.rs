//! The commands of transparent DAX mappings: a daemon with device memory, and programs that are served from it unchanged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use byway_console::{number, size};
use byway_tdm_daemon::{Promotion, RING_MIN_BYTES};
use byway_tdm_engine::control::{SOCKET_VARIABLE, default_socket};
use byway_tdm_region::Domain;
use clap::{Args, Subcommand, ValueEnum};

use crate::args::top::interval;

/// `byway tdm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm serve --emulate-persistence
  byway tdm run -- valkey-server --appendonly yes --appendfsync always
  byway tdm status --once

A program that writes and syncs runs unchanged under `byway tdm run`. Once absorbing a file pays, its writes go to the file system and to a log \
in device memory, and a sync makes that log durable. Volatile memory never satisfies a sync.")]
pub struct Tdm {
    /// What to do.
    #[command(subcommand)]
    pub command: TdmCommand,
}

/// What can be done with transparent DAX mappings.
#[derive(Debug, Subcommand)]
pub enum TdmCommand {
    /// Own a region of device memory, and serve programs from it until Ctrl-C.
    Serve(TdmServe),
    /// Run a program whose writes and syncs are served.
    Run(TdmRun),
    /// Mount a folder over itself, so that every program in it is served: static ones, those of Go, io_uring, mappings.
    Mount(TdmMount),
    /// Show the files that programs write: how each is served and why, and what that spared.
    Status(TdmStatus),
    /// Say how one file is served, and why not better.
    Explain(TdmExplain),
    /// Absorb a file whatever the policy says, and keep it so however seldom it is synced; or promote it to DAX.
    #[command(after_help = "\
Examples:
  byway tdm pin appendonly.aof
  byway tdm pin --level dax appendonly.aof

At `dax` a file's bytes are in device memory alone, from its next sync on and for as long as no more than one open file of it is there: \
any other open waits until it is demoted.

Exit codes: 0 done, 1 it cannot be absorbed, and why, 2 an error.")]
    Pin(TdmPin),
    /// Have the policy decide again of a file that was pinned or evicted.
    #[command(after_help = "\
Example:
  byway tdm unpin appendonly.aof")]
    Unpin(TdmFile),
    /// Take a file down to the kernel, synced, and leave it there until it is unpinned or pinned.
    #[command(after_help = "\
Example:
  byway tdm evict appendonly.aof && cp appendonly.aof /backup")]
    Evict(TdmFile),
    /// Sync all of a file below, and go on absorbing it.
    #[command(after_help = "\
Example:
  byway tdm drain appendonly.aof")]
    Drain(TdmFile),
    /// Have the log of a file in the device's cache, where the device has one.
    #[command(after_help = "\
Example:
  byway tdm prefetch appendonly.aof

The daemon keeps the logs of absorbed files in the cache by itself; this loads evicted pages at once.")]
    Prefetch(TdmFile),
    /// Write back what a region has, without serving it.
    Recover(TdmRecover),
    /// Measure a write and a sync of it, by the kernel alone and under the library, by turns.
    Bench(TdmBench),
}

/// Where the daemon is.
#[derive(Debug, Args)]
pub struct TdmSocket {
    /// The daemon's socket [default: what BYWAY_TDM_SOCKET says, else tdm.sock in /run/user/UID/byway or /tmp/byway-UID; for
    /// root /run/byway-tdm.sock].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

impl TdmSocket {
    /// Its path: by the option, by the environment, or the default.
    ///
    /// # Errors
    /// There is no default: another user has taken the folder of this one's sockets.
    pub fn path(&self) -> Result<PathBuf> {
        let named = self.socket.clone().or_else(|| named(SOCKET_VARIABLE));
        let path = match named {
            Some(path) => path,
            None => default_socket().map_err(|why| anyhow!("no folder for the daemon's socket: {why}"))?,
        };
        Ok(std::path::absolute(&path).unwrap_or(path))
    }
}

/// What a variable of the environment says, if it says something.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The library that serves a program.
#[derive(Debug, Args)]
pub struct TdmLibrary {
    /// libbyway_tdm.so [default: what BYWAY_TDM_LIBRARY says, else beside this program, else in ../lib/byway or ../lib of it].
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
}

/// The library's file.
const LIBRARY: &str = "libbyway_tdm.so";

impl TdmLibrary {
    /// Every place where it is looked for: the one that was named, or the usual ones.
    pub fn places(&self) -> Vec<PathBuf> {
        if let Some(named) = self.library.clone().or_else(|| named("BYWAY_TDM_LIBRARY")) {
            return vec![named];
        }
        let program = std::env::current_exe().unwrap_or_default();
        let folder = program.parent().unwrap_or(Path::new("."));
        ["", "../lib/byway", "../lib"].map(|place| folder.join(place).join(LIBRARY)).to_vec()
    }
}

/// The region of device memory, and how it is opened.
#[derive(Debug, Args)]
pub struct TdmRegion {
    /// The region: emu:NAME?size=SIZE for emulated device memory, fsdax:DIR?size=SIZE, devdax:/dev/daxX.Y.
    #[arg(long, value_name = "REGION", default_value_t = usual_region())]
    pub region: String,
    /// Emulated memory counts as persistent, which it is not: for trying out and for measuring.
    #[arg(long)]
    pub emulate_persistence: bool,
    /// Persistence domain, overriding what the system says: volatile, page_sync, memory_controller or cpu_cache.
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub domain: Option<Domain>,
    /// A folder in host memory, for the shared file tables of programs and the daemon.
    #[arg(long, alias = OLD_FILE_TABLES, value_name = "PATH", default_value = "/dev/shm")]
    pub file_tables: PathBuf,
}

/// Older names of options and their values, accepted for one release.
pub(super) const OLD_FILE_TABLES: &str = "boards";
pub(super) const OLD_PROMOTE: &str = "homes";
pub(super) const OLD_PINNED: &str = "by-order";
pub(super) const OLD_BY_BENEFIT: &str = "by-merit";

/// Emulated memory under the user's number.
fn usual_region() -> String {
    format!("emu:byway-tdm-{}?size=256M", rustix::process::geteuid().as_raw())
}

fn domain(text: &str) -> Result<Domain, String> {
    let names = || Domain::ALL.map(Domain::name).join(", ");
    let found = Domain::ALL.into_iter().find(|domain| domain.name() == text);
    found.ok_or_else(|| format!("expected one of {}", names()))
}

fn log_size(text: &str) -> Result<u64, String> {
    match size::parse(text).map_err(|not| not.to_string())? {
        short if short < RING_MIN_BYTES => Err(format!("a log has {} at least", size::human(RING_MIN_BYTES))),
        bytes => Ok(bytes),
    }
}

/// `byway tdm serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm serve --emulate-persistence
  byway tdm serve --region 'fsdax:/mnt/pmem?size=4G' --log-size 64M
  byway tdm serve --region devdax:/dev/dax0.0 --json
  byway tdm serve --promote by-benefit
  printf 'never /var/tmp/**\\nabsorb /var/lib/valkey/**.aof\\n' > rules && byway tdm serve --rules rules

Files of a killed daemon are taken over first, and listed: those that programs still write stay absorbed, others are synced; \
after power loss their records are written back. Ctrl-C and SIGTERM demote every file, whole and synced.")]
pub struct TdmServe {
    #[command(flatten)]
    pub region: TdmRegion,
    #[command(flatten)]
    pub socket: TdmSocket,
    /// Room of each file's log, 64K or more. At most an eighth of its user's partition, as `byway tdm status` shows.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = log_size)]
    pub log_size: u64,
    /// A file of rules, one a line, the first that fits a path holds: `never PATTERN`, `absorb PATTERN` or `dax PATTERN`. `*` stands for any number of
    /// bytes within a folder, `**` across folders, `?` for one byte.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Files that are promoted to DAX, where calls need no system call: pinned ones only, or also absorbed ones that are measured to be faster there.
    /// Programs outside `byway tdm run` see an old size and old times of such a file until they open it.
    #[arg(long, alias = OLD_PROMOTE, value_name = "WHICH", value_enum, default_value_t = Promote::Pinned)]
    pub promote: Promote,
    /// Print JSON, an object a line.
    #[arg(long)]
    pub json: bool,
}

/// Which files are promoted to DAX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Promote {
    /// Those pinned by `byway tdm pin --level dax` or a rule.
    #[value(alias = OLD_PINNED)]
    Pinned,
    /// Also absorbed files that are measured to be faster there.
    #[value(alias = OLD_BY_BENEFIT)]
    ByBenefit,
}

impl Promote {
    /// As the daemon's option.
    pub const fn promotion(self) -> Promotion {
        match self {
            Self::Pinned => Promotion::Pinned,
            Self::ByBenefit => Promotion::ByBenefit,
        }
    }
}

/// `byway tdm run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm run -- valkey-server --appendonly yes --appendfsync always
  byway tdm run --socket /run/byway-tdm.sock -- db_bench --benchmarks=fillseq --sync=1

The program takes this one's place: its exit status is what the shell sees; 126 and 127 say that it could not be started, as those of \
env do. Without a daemon it runs unserved, and so does a statically linked program or one of another user.")]
pub struct TdmRun {
    #[command(flatten)]
    pub socket: TdmSocket,
    #[command(flatten)]
    pub library: TdmLibrary,
    /// The program, and its arguments.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

/// `byway tdm mount`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm mount /var/lib/db
  byway tdm mount /var/lib/db --at /mnt/db
  byway tdm mount /var/lib/db --allow-other --json

Programs that are started in the folder, or open its files, from then on are served whatever they are and however they write. Those that \
had files of it open go on by the file system below, and are served if they run under `byway tdm run`. Without a daemon the files are \
the kernel's alone until there is one. Ctrl-C and SIGTERM unmount it: at once, or when the last program closes its files. Locks are among \
the programs of the mount.")]
pub struct TdmMount {
    /// The folder.
    pub folder: PathBuf,
    /// See it there, not in its own place.
    #[arg(long, value_name = "MOUNTPOINT")]
    pub at: Option<PathBuf>,
    /// Other users' programs may use it, with their own rights: for root.
    #[arg(long)]
    pub allow_other: bool,
    #[command(flatten)]
    pub socket: TdmSocket,
    /// Print JSON, an object a line.
    #[arg(long)]
    pub json: bool,
}

/// `byway tdm status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm status
  byway tdm status --once
  byway tdm status --once --json | jq -r '.users[].files[] | [.path, .level, .saved_syncs] | @tsv'

On a terminal the table stays in place until q or Ctrl-C; elsewhere one follows the other.")]
pub struct TdmStatus {
    #[command(flatten)]
    pub socket: TdmSocket,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// End after one look.
    #[arg(long)]
    pub once: bool,
    /// Print each look as a line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// `byway tdm explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm explain appendonly.aof
  byway tdm explain appendonly.aof --json

Also of a file that the daemon has never seen: why that is so, and which programs have it open.")]
pub struct TdmExplain {
    #[command(flatten)]
    pub socket: TdmSocket,
    /// The file.
    pub file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A file that something is done with by hand.
#[derive(Debug, Args)]
pub struct TdmFile {
    #[command(flatten)]
    pub socket: TdmSocket,
    /// The file.
    pub file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway tdm pin`.
#[derive(Debug, Args)]
pub struct TdmPin {
    /// How it is to be served.
    #[arg(long, value_enum, default_value = "absorb")]
    pub level: PinLevel,
    #[command(flatten)]
    pub file: TdmFile,
}

/// How a file can be pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PinLevel {
    /// By the kernel, with a log of what was written in device memory.
    Absorb,
    /// By device memory alone.
    Dax,
}

/// `byway tdm recover`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm recover
  byway tdm recover --region 'fsdax:/mnt/pmem?size=4G'
  byway tdm recover --region emu:byway-tdm-0 --force --json
  byway tdm recover --forget
  byway tdm recover --remove

What `serve` does first, where nothing is to be served. As often as it takes: what was written back once is written back again, to \
the same end.

Exit codes: 0 nothing is left in the region, 1 something is, and why, 2 an error.")]
pub struct TdmRecover {
    #[command(flatten)]
    pub region: TdmRegion,
    /// Write records back over files that were written since the system was started, too.
    #[arg(long)]
    pub force: bool,
    /// Give back the room of logs that cannot be written back: their files are gone, or they are broken.
    #[arg(long)]
    pub forget: bool,
    /// After recovery, remove the emulated region: its file in /dev/shm and the shared file tables. Skipped if a log is left. A killed
    /// daemon leaves this memory allocated until the machine restarts.
    #[arg(long)]
    pub remove: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway tdm bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway tdm bench
  byway tdm bench /var/lib/valkey --sizes 64,1K --count 2000 --rounds 5
  byway tdm bench --json | jq -c '[.path, .size, .both.p50_ns, .level]'

A process of its own for each round, the two by turns: each appends to a new file in the folder and syncs it (fdatasync) after \
each write. Percentiles are of all rounds; times are those of this machine, and say nothing without the other beside them.")]
pub struct TdmBench {
    /// A folder on the file system that is compared.
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    /// Bytes of a write, several by commas.
    #[arg(long, value_name = "SIZES", default_value = "64", value_delimiter = ',', value_parser = size::parse_u32)]
    pub sizes: Vec<u32>,
    /// Writes of a round, each with its sync.
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = number::parse::<u32>)]
    pub count: u32,
    /// Rounds of each.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = number::parse::<u32>)]
    pub rounds: u32,
    #[command(flatten)]
    pub socket: TdmSocket,
    #[command(flatten)]
    pub library: TdmLibrary,
    /// Print JSON, an object for each way and size.
    #[arg(long)]
    pub json: bool,
    /// Be one round, and print its times.
    #[arg(long, hide = true)]
    pub round: bool,
}
