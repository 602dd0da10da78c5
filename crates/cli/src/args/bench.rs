//! `byway bench`: what puts cost, by transfer method.

use byway::Method;
use byway_console::{number, size};
use byway_measure::{Common, Switch, Way};
use clap::{Args, Subcommand};

use super::Device;

/// `byway bench`: what puts cost, measured. Comparisons with other stores are in `byway-lab`.
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
    /// What puts cost on the link of a device wherever it is, counted by itself, and which descriptor it was given: behind a
    /// kernel's driver, too.
    #[command(after_help = "\
Examples:
  byway bench traffic /dev/ng0n2 --methods prp,piggyback-pt
  byway bench traffic 'disk.img?sgl=off' --methods prp,inline --sizes 32,64 --json

The device is any with a key-value namespace that counts what crosses its link. Keys are overwritten by turns. Behind a kernel's driver, method prp is what the kernel chooses, PRPs or SGLs: column \
descriptors says which the device was given. A device does not see how often its doorbells are written, and so they \
are in no sum: at most two a command, 4 bytes each, 28 on the wire. Times are those of the caller.")]
    Traffic(Traffic),
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

/// `byway bench traffic`.
#[derive(Debug, Args)]
pub struct Traffic {
    #[command(flatten)]
    pub device: Device,
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
