//! The commands that speak with a controller: what it is, what it logs, its features, and any command passed through.

use std::path::PathBuf;
use std::str::FromStr;

use byway::spec::base::feature::FeatureId;
use byway::spec::base::identify::{Cns, Csi};
use byway::spec::base::log::LogPage;
use byway_console::number;
use byway_console::size;
use clap::{Args, Subcommand, ValueEnum};

use super::Whole;
use crate::target::Target;

/// `byway list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway list
  byway list disk.img /dev/nvme0n1
  byway list --json | jq -r '.[].namespaces[]?.nsid'

Each device is opened for reading alone; where that fails, the line says why, and the exit code is 2 if it was asked for by \
its name. `byway enum` opens nothing.")]
pub struct List {
    /// Devices: paths and URIs (`byway help uri`) [default: every one that the kernel knows].
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<Target>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// How an answer shall be printed.
#[derive(Clone, Debug, Args)]
pub struct Form {
    /// Print JSON.
    #[arg(long, conflicts_with_all = ["raw", "file"])]
    pub json: bool,
    /// Write the bytes as they are to standard output; on a terminal as hexadecimal digits.
    #[arg(long, conflicts_with = "file")]
    pub raw: bool,
    /// Write the bytes as they are to a new file.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
}

/// `byway identify`.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  byway identify disk.img
  byway identify disk.img namespace --ns 2
  byway identify /dev/nvme0 0x1c --json
  byway identify disk.img controller --raw | xxd | head

Structures by name: {}.", names(STRUCTURES)))]
pub struct Identify {
    #[command(flatten)]
    pub device: Whole,
    /// Which structure: its name, or its number (CNS).
    #[arg(default_value = "controller")]
    pub structure: Structure,
    /// Namespace [default: the URI's, or the first, where the structure is of one].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    /// Command set: nvm, kv or a number [default: that of the namespace, else nvm].
    #[arg(long, value_name = "SET")]
    pub csi: Option<CommandSet>,
    /// The structure's own selector, such as the index of a format (CDW11, low half).
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u16>)]
    pub selector: u16,
    #[command(flatten)]
    pub form: Form,
}

/// `byway log`.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  byway log disk.img smart
  byway log /dev/nvme0 error --json
  byway log disk.img effects --csi kv
  byway log disk.img 0xc0 --length 512 --raw | xxd | head

Pages by name: {}.", names(PAGES)))]
pub struct Log {
    #[command(flatten)]
    pub device: Whole,
    /// Which page: its name, or its number (LID).
    pub page: Page,
    /// Namespace, where the page is of one [default: the whole controller].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    /// Command set that the page is asked for: nvm, kv or a number.
    #[arg(long, value_name = "SET", default_value = "nvm")]
    pub csi: CommandSet,
    /// First byte, a multiple of 4; a page that does not begin at 0 is not decoded.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub offset: u64,
    /// Bytes, a multiple of 4 [default: the whole page where its length is known, else 512].
    #[arg(long, value_name = "SIZE", value_parser = size::parse_u32)]
    pub length: Option<u32>,
    /// Leave the event that announced the page standing.
    #[arg(long)]
    pub retain_event: bool,
    #[command(flatten)]
    pub form: Form,
}

/// `byway feature`.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  byway feature list embedded:disk.img
  byway feature get embedded:disk.img temperature-threshold

Features by name: {}.", names(FEATURES)))]
pub struct Feature {
    /// What to do.
    #[command(subcommand)]
    pub command: FeatureCommand,
}

/// What can be done with features.
#[derive(Debug, Subcommand)]
pub enum FeatureCommand {
    /// List the features that the controller has, with their values.
    #[command(after_help = "\
Example:
  byway feature list embedded:disk.img")]
    List {
        #[command(flatten)]
        device: Whole,
        /// Namespace, for features of one [default: the URI's, or the first].
        #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
        ns: Option<u32>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read a feature.
    #[command(after_help = "\
Examples:
  byway feature get embedded:disk.img number-of-queues
  byway feature get embedded:disk.img 0x20 --ns 1 --select supported --json")]
    Get {
        #[command(flatten)]
        device: Whole,
        /// Which feature: its name, or its number (FID).
        feature: FeatureName,
        /// Which value.
        #[arg(long, value_enum, default_value = "current")]
        select: Select,
        /// Namespace, where the feature is of one.
        #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
        ns: Option<u32>,
        /// The feature's own selector, such as a sensor or a vector.
        #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
        cdw11: u32,
        /// Bytes of its data [default: as the specification has it].
        #[arg(long, value_name = "SIZE", value_parser = size::parse_u32)]
        length: Option<u32>,
        #[command(flatten)]
        form: Form,
    },
    /// Set a feature.
    #[command(after_help = "\
Examples:
  byway feature set /dev/nvme0 temperature-threshold --value 0x160
  byway feature set embedded:disk.img 0x20 --ns 1 --value 1

What is not saved lasts until the controller is reset. A device in this process is reset when it is closed, so there a \
feature lasts as long as this command.")]
    Set {
        #[command(flatten)]
        device: Whole,
        /// Which feature: its name, or its number (FID).
        feature: FeatureName,
        /// Value (CDW11).
        #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
        value: u32,
        /// Second part of the value (CDW12).
        #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
        cdw12: u32,
        /// Keep it over power cycles.
        #[arg(long)]
        save: bool,
        /// Namespace, where the feature is of one.
        #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
        ns: Option<u32>,
        /// Data of the feature; - is standard input.
        #[arg(long, value_name = "PATH")]
        input: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Which value of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Select {
    /// The one in use.
    Current,
    /// The one of a new device.
    Default,
    /// The one after the next reset.
    Saved,
    /// What can be done with it.
    Supported,
}

/// `byway pass`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway pass admin embedded:disk.img --opcode 0x06 --cdw10 1 --data-len 4096
  byway pass io 'embedded:disk.img?ns=2' --opcode 0x02 --data-len 512 --output block.bin

The bytes of the command go to the device as they are; what they ask for is done.")]
pub struct Pass {
    /// Which queue.
    #[command(subcommand)]
    pub queue: PassQueue,
}

/// Which queue a command is for.
#[derive(Debug, Subcommand)]
pub enum PassQueue {
    /// Send an admin command.
    #[command(after_help = "\
Examples:
  byway pass admin disk.img --opcode 0x06 --cdw10 1 --data-len 4096
  byway pass admin disk.img --opcode 0x0a --cdw10 7 --json
  byway pass admin /dev/nvme0 --opcode 0x06 --cdw10 1 --data-len 4096 --dry-run")]
    Admin(PassCommand),
    /// Send an I/O command.
    #[command(after_help = "\
Examples:
  byway pass io 'embedded:disk.img?ns=2' --opcode 0x02 --data-len 512
  byway pass io ./blocks.bin --opcode 0x01 --cdw12 7 --input eight-blocks.bin
  byway pass io ./blocks.bin --opcode 0x02 --cdw12 7 --data-len 4096 --parts 2 --output out.bin")]
    Io(PassIo),
}

/// A command passed through.
#[derive(Debug, Args)]
pub struct PassCommand {
    #[command(flatten)]
    pub device: Whole,
    /// Opcode.
    #[arg(long, short = 'o', value_name = "NUMBER", value_parser = number::parse::<u8>)]
    pub opcode: u8,
    /// Namespace [default: of an I/O command the URI's, or the first; of an admin command none].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    /// Command dword 2.
    #[arg(long, short = '2', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw2: u32,
    /// Command dword 3.
    #[arg(long, short = '3', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw3: u32,
    /// Command dword 10.
    #[arg(long, short = '4', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw10: u32,
    /// Command dword 11.
    #[arg(long, short = '5', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw11: u32,
    /// Command dword 12.
    #[arg(long, short = '6', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw12: u32,
    /// Command dword 13.
    #[arg(long, short = '7', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw13: u32,
    /// Command dword 14.
    #[arg(long, short = '8', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw14: u32,
    /// Command dword 15.
    #[arg(long, short = '9', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw15: u32,
    /// Bytes of data [default: those of --input, else none].
    #[arg(long, short = 'l', value_name = "SIZE", value_parser = size::parse_u32)]
    pub data_len: Option<u32>,
    /// The device sends the data [default: as the opcode's low bits say].
    #[arg(long, short = 'r', conflicts_with_all = ["write", "input"])]
    pub read: bool,
    /// The device is sent the data.
    #[arg(long, short = 'w', conflicts_with = "output", requires = "input")]
    pub write: bool,
    /// What is sent; - is standard input.
    #[arg(long, short = 'i', alias = "input-file", value_name = "PATH", conflicts_with = "output")]
    pub input: Option<PathBuf>,
    /// A new file for what is received [default: hexadecimal digits on standard output].
    #[arg(long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Give the command up after so many milliseconds.
    #[arg(long, short = 't', value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Fill the buffer with this byte before data is received into it.
    #[arg(long, short = 'p', value_name = "BYTE", default_value = "0", value_parser = number::parse::<u8>)]
    pub prefill: u8,
    /// Write what is received to standard output, as it is.
    #[arg(long, conflicts_with_all = ["output", "json"])]
    pub raw: bool,
    /// Print the command on standard error before it is sent.
    #[arg(long, short = 's')]
    pub show_command: bool,
    /// Print the command, and send nothing.
    #[arg(long, short = 'd', conflicts_with = "raw")]
    pub dry_run: bool,
    /// Say how long the command took, as this process saw it.
    #[arg(long, short = 'T', conflicts_with = "raw")]
    pub latency: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// An I/O command passed through.
#[derive(Debug, Args)]
pub struct PassIo {
    #[command(flatten)]
    pub command: PassCommand,
    /// Move the data by so many buffers, one behind the other.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub parts: u32,
}

/// Something with a name on the command line, and a number on the wire.
type Named<T> = (&'static str, T);

fn names<T>(known: &[Named<T>]) -> String {
    known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// By its name or its number.
fn by_name<T: Copy>(text: &str, known: &[Named<T>], of: impl Fn(u8) -> T) -> Result<T, String> {
    match known.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(*value),
        None => number::parse(text).map(of).map_err(|_| {
            format!("expected a number of at most 8 bits such as 0x06, or one of: {}", names(known))
        }),
    }
}

/// An identify structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure(pub Cns);

const STRUCTURES: &[Named<Cns>] = &[
    ("controller", Cns::CONTROLLER),
    ("namespace", Cns::NAMESPACE),
    ("namespaces", Cns::ACTIVE_NAMESPACES),
    ("descriptors", Cns::NAMESPACE_DESCRIPTORS),
    ("set-namespace", Cns::SET_NAMESPACE),
    ("set-controller", Cns::SET_CONTROLLER),
    ("set-namespaces", Cns::SET_ACTIVE_NAMESPACES),
    ("independent-namespace", Cns::INDEPENDENT_NAMESPACE),
    ("allocated-namespaces", Cns::ALLOCATED_NAMESPACES),
    ("allocated-namespace", Cns::ALLOCATED_NAMESPACE),
    ("attached-controllers", Cns::ATTACHED_CONTROLLERS),
    ("controllers", Cns::CONTROLLERS),
    ("command-sets", Cns::COMMAND_SETS),
];

impl FromStr for Structure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(text, STRUCTURES, Cns).map(Self)
    }
}

/// A log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page(pub LogPage);

const PAGES: &[Named<LogPage>] = &[
    ("pages", LogPage::SUPPORTED_PAGES),
    ("error", LogPage::ERROR),
    ("smart", LogPage::SMART),
    ("firmware", LogPage::FIRMWARE_SLOT),
    ("changed-namespaces", LogPage::CHANGED_NAMESPACES),
    ("effects", LogPage::EFFECTS),
    ("self-test", LogPage::SELF_TEST),
    ("telemetry-host", LogPage::TELEMETRY_HOST),
    ("telemetry-controller", LogPage::TELEMETRY_CONTROLLER),
    ("ana", LogPage::ANA),
    ("features", LogPage::FEATURES),
    ("discovery", LogPage::DISCOVERY),
    ("sanitize", LogPage::SANITIZE),
    ("programs", LogPage::PROGRAM_LIST),
    ("ledger", LogPage::LEDGER),
    ("error-texts", LogPage::ERROR_TEXTS),
    ("stalls", LogPage::STALLS),
];

impl FromStr for Page {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(text, PAGES, LogPage).map(Self)
    }
}

/// A feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureName(pub FeatureId);

const FEATURES: &[Named<FeatureId>] = &[
    ("arbitration", FeatureId::ARBITRATION),
    ("power-management", FeatureId::POWER_MANAGEMENT),
    ("temperature-threshold", FeatureId::TEMPERATURE_THRESHOLD),
    ("error-recovery", FeatureId::ERROR_RECOVERY),
    ("volatile-write-cache", FeatureId::VOLATILE_WRITE_CACHE),
    ("number-of-queues", FeatureId::NUMBER_OF_QUEUES),
    ("interrupt-coalescing", FeatureId::INTERRUPT_COALESCING),
    ("interrupt-vector", FeatureId::INTERRUPT_VECTOR),
    ("write-atomicity", FeatureId::WRITE_ATOMICITY),
    ("async-events", FeatureId::ASYNC_EVENTS),
    ("timestamp", FeatureId::TIMESTAMP),
    ("keep-alive", FeatureId::KEEP_ALIVE),
    ("host-behavior", FeatureId::HOST_BEHAVIOR),
    ("command-sets", FeatureId::IO_COMMAND_SET_PROFILE),
    ("key-value", FeatureId::KEY_VALUE),
    ("methods", FeatureId::METHODS),
    ("window", FeatureId::WINDOW),
];

impl FromStr for FeatureName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(text, FEATURES, FeatureId).map(Self)
    }
}

/// A command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSet(pub Csi);

const COMMAND_SETS: &[Named<Csi>] =
    &[("nvm", Csi::NVM), ("kv", Csi::KV), ("zns", Csi::ZNS), ("slm", Csi::SLM), ("cp", Csi::CP)];

impl FromStr for CommandSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(text, COMMAND_SETS, Csi).map(Self)
    }
}
