//! The commands that make, look after and change images.

use std::path::PathBuf;

use byway::NewNamespace;
use byway_console::number;
use byway_console::size;
use clap::{Args, ValueEnum};

use super::Whole;
use crate::namespace;

/// `byway create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway create disk.img --size 8G
  byway create disk.img --size 8G --profile cosmos --ns kv:4G --ns nvm:2G")]
pub struct Create {
    /// Where the image shall be: a path, or embedded:PATH; nothing that exists is overwritten.
    pub image: PathBuf,
    /// Capacity that the device announces: bytes, or a number with K, M, G or T, as 64M, 64MB, 64MiB or 1.5G (powers of 1024).
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
    /// Flash beyond the size, in percent of it and rounded up to whole blocks: room for garbage collection, which more of
    /// makes cheaper. A small device has more, as blocks and their spares come whole; `info -v` says how much.
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
  byway info disk.img
  byway info -v disk.img
  byway info -v pci:0000:04:00.0
  byway info 'embedded:disk.img?profile=cosmos' --json

The first line says what the name is taken for. With --verbose the insides follow: room, wear, write amplification by cause, ages, \
power history, engines; of an NVMe device that is not in this process, what it announced.")]
pub struct Info {
    #[command(flatten)]
    pub device: Whole,
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

Without --repair the image is not changed, even one that was not closed. With it, what is kept twice or can be counted \
anew is restored, what is lost is dropped, and each lost key or block is listed. A repair may be interrupted and run again.

Exit codes: 0 clean, 1 something was found (and repaired, if asked), 2 the image cannot be used.")]
pub struct Check {
    /// The image: a path, or embedded:PATH.
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

Everything is copied into a new image beside the old one, which then takes its name: until then the old one is the \
image, whatever happens. Namespaces keep numbers, identifiers and content, the file keeps owner, mode and ACL. A symbolic \
link is followed; an image with hard links is refused. The disk needs room for both.")]
pub struct Resize {
    /// The image: a path, or embedded:PATH. No process may have it open.
    pub image: PathBuf,
    /// Capacity that the device announces from then on.
    #[arg(value_parser = size::parse, value_name = "SIZE")]
    pub size: u64,
    /// Another size for a namespace of blocks.
    #[arg(long = "ns", value_name = "NUMBER:SIZE", value_parser = namespace::parse_size)]
    pub namespaces: Vec<(u32, u64)>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway snapshot`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway snapshot disk.img copy.img
  byway snapshot disk.img copy.img --json

The copy is the image as it is at one instant: every put that was acknowledged before is in it, whole. If a process has \
the image open, that process makes the copy; its commands wait only while protected state is copied, for the time that \
is printed. It is asked only if it is of this user or of root; root asks one of the image's owner too. The copy has mode, \
ACL, owner and group of the image as with cp -p; what exists is never overwritten.")]
pub struct Snapshot {
    /// The image: a path, or embedded:PATH.
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
  byway format disk.img --ns 1 --quick --yes
  byway format embedded:disk.img --ns 1 --yes

This is the NVMe command Format NVM: a device that has no controller, such as a file, cannot do it.")]
pub struct FormatNamespace {
    #[command(flatten)]
    pub device: Whole,
    /// The namespace that is emptied.
    #[arg(long, value_name = "NUMBER", value_parser = number::parse::<u32>)]
    pub ns: u32,
    /// Bytes of a block of a namespace of blocks from now on, without metadata [default: as they are].
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub block_bytes: Option<u64>,
    /// Only forget where things are: bytes stay in the device until their room is needed.
    #[arg(long)]
    pub quick: bool,
    /// Yes, everything in the namespace shall go.
    #[arg(long, required = true)]
    pub yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `byway sanitize`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway sanitize disk.img --yes
  byway sanitize disk.img --overwrite 3 --yes
  byway sanitize embedded:disk.img --yes

This is the NVMe command Sanitize: a device that has no controller, such as a file, cannot do it. Namespaces stay, empty. \
A sanitize of an image that is interrupted is finished when the image is next opened. What the host's file system and its \
disk keep of blocks that were given back is beyond the image.")]
pub struct Sanitize {
    #[command(flatten)]
    pub device: Whole,
    /// Write over everything so many times before its room is given back.
    #[arg(long, value_name = "PASSES", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub overwrite: Option<u8>,
    /// Throw the key away that everything is encrypted with, in a device that encrypts.
    #[arg(long, conflicts_with = "overwrite")]
    pub crypto: bool,
    /// Yes, everything in the device shall go.
    #[arg(long, required = true)]
    pub yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
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
