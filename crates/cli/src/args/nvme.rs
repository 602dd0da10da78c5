//! The commands that are named as in nvme-cli, with its short options.

use std::path::PathBuf;

use byway::spec::base::reservation::ReservationType;
use byway_console::{number, size};
use clap::{Args, Subcommand};

use super::{FeatureName, Form, Page, PassCommand, PassIo, Whole};

/// A structure or a log page of a device, or of a namespace of it.
#[derive(Debug, Args)]
pub struct AskedPage {
    #[command(flatten)]
    pub device: Whole,
    /// Namespace, where what is asked for is of one [default: the URI's, or the first].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    #[command(flatten)]
    pub form: Form,
}

/// What nvme-cli can do with a controller and its namespaces.
#[derive(Debug, Subcommand)]
pub enum NvmeCommand {
    /// Identify Controller: as `identify DEVICE controller`.
    #[command(after_help = "Examples:\n  byway id-ctrl disk.img\n  byway id-ctrl /dev/nvme0 -o json")]
    IdCtrl(AskedPage),
    /// Identify Namespace: as `identify DEVICE namespace`.
    #[command(after_help = "Examples:\n  byway id-ns disk.img -n 2\n  byway id-ns /dev/nvme0n1 -o json")]
    IdNs(AskedPage),
    /// Namespaces that are attached to the controller: as `identify DEVICE namespaces`.
    #[command(after_help = "Examples:\n  byway list-ns disk.img\n  byway list-ns /dev/nvme0 --all")]
    ListNs(ListNs),
    /// Controllers of the subsystem, or those that a namespace is attached to.
    #[command(after_help = "Examples:\n  byway list-ctrl disk.img\n  byway list-ctrl /dev/nvme0 -n 1")]
    ListCtrl(AskedPage),
    /// Identifiers of a namespace: as `identify DEVICE descriptors`.
    #[command(after_help = "Example:\n  byway ns-descs disk.img -n 1")]
    NsDescs(AskedPage),
    /// Health: as `log DEVICE smart`.
    #[command(after_help = "Examples:\n  byway smart-log disk.img\n  byway smart-log /dev/nvme0 -o json")]
    SmartLog(AskedPage),
    /// Errors of commands: as `log DEVICE error`.
    #[command(after_help = "Examples:\n  byway error-log disk.img\n  byway error-log /dev/nvme0 -e 16")]
    ErrorLog(ErrorLog),
    /// Firmware slots: as `log DEVICE firmware`.
    #[command(after_help = "Example:\n  byway fw-log disk.img")]
    FwLog(AskedPage),
    /// Effects of commands: as `log DEVICE effects`.
    #[command(after_help = "Example:\n  byway effects-log disk.img -o json")]
    EffectsLog(AskedPage),
    /// Namespaces that changed: as `log DEVICE changed-namespaces`.
    #[command(after_help = "Example:\n  byway changed-ns-list-log disk.img")]
    ChangedNsListLog(AskedPage),
    /// Self-tests: as `log DEVICE self-test`.
    #[command(after_help = "Example:\n  byway self-test-log /dev/nvme0")]
    SelfTestLog(AskedPage),
    /// ANA states: as `log DEVICE ana`.
    #[command(after_help = "Example:\n  byway ana-log tcp://10.0.0.1/nqn.2026-11.example:disk")]
    AnaLog(AskedPage),
    /// The last sanitize: as `log DEVICE sanitize`.
    #[command(after_help = "Example:\n  byway sanitize-log disk.img")]
    SanitizeLog(AskedPage),
    /// Log pages that there are: as `log DEVICE pages`.
    #[command(after_help = "Example:\n  byway supported-log-pages disk.img")]
    SupportedLogPages(AskedPage),
    /// Any log page: as `log DEVICE PAGE`.
    #[command(after_help = "Example:\n  byway get-log disk.img -i 2 -l 512 -b | xxd | head")]
    GetLog(GetLog),
    /// Read the telemetry log into a file.
    #[command(after_help = "\
The file is a header of 512 bytes, then the vendor's data. Byway's own devices write one JSON text.

Examples:
  byway telemetry-log /dev/nvme0 -o telemetry.bin
  byway telemetry-log disk.img -o telemetry.bin && tail -c +513 telemetry.bin | jq .health")]
    TelemetryLog(TelemetryLog),
    /// Read a feature: as `feature get`.
    #[command(
        after_help = "Example:\n  byway get-feature disk.img -f 7\n  byway get-feature /dev/nvme0 -f 4 -s 1 -o json"
    )]
    GetFeature(GetFeature),
    /// Set a feature: as `feature set`.
    #[command(
        disable_version_flag = true,
        after_help = "Example:\n  byway set-feature /dev/nvme0 -f 4 -V 0x160"
    )]
    SetFeature(SetFeature),
    /// Create a namespace; it is of use once it is attached.
    #[command(after_help = "\
Examples:
  byway create-ns disk.img --size 16M
  byway create-ns disk.img --size 16M --csi kv
  byway create-ns /dev/nvme0 -s 32768 -c 32768 -f 0
  byway create-ns /dev/nvme0 --size 1M --csi slm

The number of the namespace is printed; `byway attach-ns` attaches it. A device in an image attaches every namespace when it is opened.")]
    CreateNs(CreateNs),
    /// Delete a namespace, with all that it holds.
    #[command(after_help = "Example:\n  byway delete-ns disk.img -n 3 --yes")]
    DeleteNs(DeleteNs),
    /// Attach a namespace to controllers.
    #[command(
        after_help = "Examples:\n  byway attach-ns disk.img -n 3\n  byway attach-ns /dev/nvme0 -n 3 -c 1,2"
    )]
    AttachNs(AttachNs),
    /// Detach a namespace from controllers.
    #[command(
        after_help = "Examples:\n  byway detach-ns disk.img -n 3\n  byway detach-ns /dev/nvme0 -n 3 -c 1,2"
    )]
    DetachNs(AttachNs),
    /// Register this host for the reservation of a namespace, or end its registration.
    #[command(after_help = "\
Examples:
  byway resv-register /dev/nvme0n1 -k 0x11
  byway resv-register /dev/nvme0n1 -r 1 -c 0x11")]
    ResvRegister(ResvRegister),
    /// Reserve a namespace for this host, or take the reservation from another.
    #[command(after_help = "\
Examples:
  byway resv-acquire /dev/nvme0n1 -c 0x11 -t 1
  byway resv-acquire /dev/nvme0n1 -c 0x11 -t 1 -a 1 -p 0x22")]
    ResvAcquire(ResvAcquire),
    /// Release the reservation of a namespace, or clear it with every registration.
    #[command(after_help = "\
Examples:
  byway resv-release /dev/nvme0n1 -c 0x11 -t 1
  byway resv-release /dev/nvme0n1 -c 0x11 -a 1")]
    ResvRelease(ResvRelease),
    /// List the hosts that are registered with a namespace, and who holds the reservation.
    #[command(
        after_help = "Examples:\n  byway resv-report disk.img -n 1\n  byway resv-report /dev/nvme0n1 -o json"
    )]
    ResvReport(ResvReport),
    /// Show the registers of a controller, or its properties over fabrics.
    #[command(after_help = "\
Examples:
  byway show-regs disk.img
  byway show-regs tcp://10.0.0.1/nqn.2026-11.example:disk -o json

The kernel gives programs no registers of a PCIe controller: of /dev/nvme0 there are those of controllers over fabrics.")]
    ShowRegs(OneController),
    /// Reset a controller.
    #[command(after_help = "\
Example:
  byway reset /dev/nvme0

A kernel's driver resets its controller and begins its commands again. A device that the command drives itself, and a controller over \
NVMe/TCP, which each host has its own of, are reset by being opened.")]
    Reset(OneController),
    /// Send any admin command: as `pass admin`.
    #[command(after_help = "\
Examples:
  byway admin-passthru disk.img -o 6 --cdw10 1 -l 4096 -r
  byway admin-passthru /dev/nvme0 -o 0x0a --cdw10 7 --dry-run")]
    AdminPassthru(PassCommand),
    /// Send any I/O command: as `pass io`.
    #[command(after_help = "\
Examples:
  byway io-passthru disk.img -n 2 -o 2 -l 512 -r --latency
  byway io-passthru /dev/nvme0n1 -o 2 -l 4096 -r --cdw12 7 --show-command")]
    IoPassthru(PassIo),
}

/// `byway list-ns`.
#[derive(Debug, Args)]
pub struct ListNs {
    #[command(flatten)]
    pub device: Whole,
    /// Every namespace that there is, attached or not.
    #[arg(long, short)]
    pub all: bool,
    #[command(flatten)]
    pub form: Form,
}

/// `byway error-log`.
#[derive(Debug, Args)]
pub struct ErrorLog {
    #[command(flatten)]
    pub device: Whole,
    /// Entries, the newest first [default: all].
    #[arg(long, short = 'e', value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub log_entries: Option<u32>,
    #[command(flatten)]
    pub form: Form,
}

/// `byway get-log`.
#[derive(Debug, Args)]
pub struct GetLog {
    #[command(flatten)]
    pub device: Whole,
    /// Which page: its name, or its number (LID).
    #[arg(long, short = 'i', value_name = "PAGE")]
    pub log_id: Page,
    /// Bytes, a multiple of 4 [default: the whole page where its length is known, else 512].
    #[arg(long, short = 'l', value_name = "SIZE", value_parser = size::parse_u32)]
    pub log_len: Option<u32>,
    /// First byte, a multiple of 4.
    #[arg(long, short = 'L', value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub lpo: u64,
    /// Command set that the page is asked for: nvm, kv or a number.
    #[arg(long, short = 'y', value_name = "SET", default_value = "nvm")]
    pub csi: super::CommandSet,
    /// Leave the event that announced the page standing.
    #[arg(long, short = 'r')]
    pub rae: bool,
    /// Namespace, where the page is of one [default: the whole controller].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    #[command(flatten)]
    pub form: Form,
}

/// `byway telemetry-log`.
#[derive(Debug, Args)]
pub struct TelemetryLog {
    #[command(flatten)]
    pub device: Whole,
    /// A new file for the log.
    #[arg(long, short = 'o', value_name = "PATH")]
    pub output_file: PathBuf,
    /// Have the controller make a new log first: 1, or 0 for the one that there is.
    #[arg(long, short = 'g', value_name = "0|1", default_value = "1", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub host_generate: u8,
    /// The log that the controller made by itself.
    #[arg(long, short = 'c', conflicts_with = "host_generate")]
    pub controller_init: bool,
    /// Data areas, from 1 to this one.
    #[arg(long, short = 'd', value_name = "1..4", default_value = "3", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub data_area: u8,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway get-feature`.
#[derive(Debug, Args)]
pub struct GetFeature {
    #[command(flatten)]
    pub device: Whole,
    /// Which feature: its name, or its number (FID).
    #[arg(long, short = 'f', value_name = "FEATURE")]
    pub feature_id: FeatureName,
    /// Which value: 0 current, 1 default, 2 saved, 3 what can be done with it.
    #[arg(long, short = 's', value_name = "0..3", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub sel: u8,
    /// The feature's own selector, such as a sensor or a vector.
    #[arg(long, short = 'c', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw11: u32,
    /// Bytes of its data [default: as the specification has it].
    #[arg(long, short = 'l', value_name = "SIZE", value_parser = size::parse_u32)]
    pub data_len: Option<u32>,
    /// Namespace, where the feature is of one.
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    #[command(flatten)]
    pub form: Form,
}

/// `byway set-feature`.
#[derive(Debug, Args)]
pub struct SetFeature {
    #[command(flatten)]
    pub device: Whole,
    /// Which feature: its name, or its number (FID).
    #[arg(long, short = 'f', value_name = "FEATURE")]
    pub feature_id: FeatureName,
    /// Value (CDW11).
    #[arg(long, short = 'V', value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub value: u32,
    /// Second part of the value (CDW12).
    #[arg(long, short = 'q', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u32>)]
    pub cdw12: u32,
    /// Keep it over power cycles.
    #[arg(long, short = 's')]
    pub save: bool,
    /// Data of the feature; - is standard input.
    #[arg(long, short = 'd', value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Namespace, where the feature is of one.
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `byway create-ns`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("how_large").required(true).args(["size", "nsze"]))]
pub struct CreateNs {
    #[command(flatten)]
    pub device: Whole,
    /// Size in bytes.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub size: Option<u64>,
    /// Size in blocks (NSZE); of a key-value namespace in bytes.
    #[arg(long, short = 's', value_name = "COUNT", value_parser = number::parse::<u64>)]
    pub nsze: Option<u64>,
    /// Capacity in blocks (NCAP) [default: the size].
    #[arg(long, short = 'c', value_name = "COUNT", value_parser = number::parse::<u64>, requires = "nsze")]
    pub ncap: Option<u64>,
    /// Index of the format of blocks (FLBAS) [default: 0].
    #[arg(long, short = 'f', value_name = "NUMBER", value_parser = number::parse::<u8>)]
    pub flbas: Option<u8>,
    /// Bytes of a block, without metadata, in place of an index.
    #[arg(long, short = 'b', value_name = "SIZE", value_parser = size::parse, conflicts_with = "flbas")]
    pub block_size: Option<u64>,
    /// Multi-path and sharing (NMIC): 1 for a namespace that several controllers may have.
    #[arg(long, short = 'm', value_name = "NUMBER", default_value = "0", value_parser = number::parse::<u8>)]
    pub nmic: u8,
    /// Command set: nvm, kv, slm (local memory), cp (programs) or a number.
    #[arg(long, short = 'y', value_name = "SET", default_value = "nvm")]
    pub csi: super::CommandSet,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway delete-ns`.
#[derive(Debug, Args)]
pub struct DeleteNs {
    #[command(flatten)]
    pub device: Whole,
    /// The namespace; 0xffffffff is each of them.
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: u32,
    /// Yes, everything in the namespace shall go.
    #[arg(long, required = true)]
    pub yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway attach-ns` and `byway detach-ns`.
#[derive(Debug, Args)]
pub struct AttachNs {
    #[command(flatten)]
    pub device: Whole,
    /// The namespace.
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: u32,
    /// Controllers (CNTLID) [default: the one that is asked].
    #[arg(long, short = 'c', value_name = "NUMBERS", value_delimiter = ',', value_parser = number::parse::<u16>)]
    pub controllers: Vec<u16>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// One namespace, for a reservation of it.
#[derive(Debug, Args)]
pub struct Reserved {
    #[command(flatten)]
    pub device: Whole,
    /// The namespace [default: the URI's, or the first].
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway resv-register`.
#[derive(Debug, Args)]
pub struct ResvRegister {
    #[command(flatten)]
    pub of: Reserved,
    /// The key that the host is registered by.
    #[arg(long, short = 'c', value_name = "KEY", default_value = "0", value_parser = number::parse::<u64>)]
    pub crkey: u64,
    /// The key that it is registered by from now on.
    #[arg(long, short = 'k', value_name = "KEY", default_value = "0", value_parser = number::parse::<u64>)]
    pub nrkey: u64,
    /// 0 registers, 1 unregisters, 2 replaces the key.
    #[arg(long, short = 'r', value_name = "0..2", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub rrega: u8,
    /// What becomes of registrations when the device loses power: 0 as before, 2 they end, 3 they persist.
    #[arg(long, short = 'p', value_name = "0|2|3", default_value = "0", value_parser = ["0", "2", "3"])]
    pub cptpl: String,
    /// Whatever the host is registered by, in place of --crkey.
    #[arg(long, short = 'i')]
    pub iekey: bool,
}

/// `byway resv-acquire`.
#[derive(Debug, Args)]
pub struct ResvAcquire {
    #[command(flatten)]
    pub of: Reserved,
    /// The key that the host is registered by.
    #[arg(long, short = 'c', value_name = "KEY", value_parser = number::parse::<u64>)]
    pub crkey: u64,
    /// The key of the registrants that are preempted.
    #[arg(long, short = 'p', value_name = "KEY", default_value = "0", value_parser = number::parse::<u64>)]
    pub prkey: u64,
    /// 1 write exclusive, 2 exclusive access; 3 and 4 the same for registrants only, 5 and 6 for all registrants.
    #[arg(long, short = 't', value_name = "1..6", value_parser = reservation_type)]
    pub rtype: ReservationType,
    /// 0 acquires, 1 preempts, 2 preempts and aborts.
    #[arg(long, short = 'a', value_name = "0..2", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub racqa: u8,
}

/// `byway resv-release`.
#[derive(Debug, Args)]
pub struct ResvRelease {
    #[command(flatten)]
    pub of: Reserved,
    /// The key that the host is registered by.
    #[arg(long, short = 'c', value_name = "KEY", value_parser = number::parse::<u64>)]
    pub crkey: u64,
    /// The type of the reservation that is released, as it was acquired.
    #[arg(long, short = 't', value_name = "1..6", value_parser = reservation_type, required_if_eq("rrela", "0"))]
    pub rtype: Option<ReservationType>,
    /// 0 releases, 1 clears: every registration ends too.
    #[arg(long, short = 'a', value_name = "0|1", default_value = "0", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub rrela: u8,
}

/// `byway resv-report`.
#[derive(Debug, Args)]
pub struct ResvReport {
    #[command(flatten)]
    pub of: Reserved,
    /// The extended form, which is always asked for.
    #[arg(long, short = 'e', hide = true)]
    pub eds: bool,
}

/// A controller.
#[derive(Debug, Args)]
pub struct OneController {
    #[command(flatten)]
    pub device: Whole,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

fn reservation_type(text: &str) -> Result<ReservationType, String> {
    let number: u8 = number::parse(text).map_err(|error| error.to_string())?;
    match number {
        1..=6 => Ok(ReservationType(number)),
        _ => Err("expected a type of reservation from 1 to 6".to_owned()),
    }
}
