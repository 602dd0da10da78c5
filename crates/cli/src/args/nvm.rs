//! The commands that move blocks.

use std::path::PathBuf;

use byway_console::size;
use clap::{Args, Subcommand};

use super::Device;

/// `byway nvm`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  byway nvm write disk.img --ns 2 --file boot.bin")]
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
  byway nvm read disk.img --ns 2 --offset 1M --length 4K | xxd | head")]
    Read {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: Range,
        /// Where to write [default: standard output].
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
        /// Print what was done as one JSON object: on standard error where the blocks go to standard output.
        #[arg(long)]
        json: bool,
    },
    /// Write a file or standard input to blocks; the last block is filled with zeroes.
    #[command(after_help = "\
Examples:
  byway nvm write disk.img --ns 2 --file boot.bin
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
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Deallocate blocks (Dataset Management); those of a Byway device read as zeroes then.
    #[command(after_help = "\
Example:
  byway nvm trim disk.img --ns 2 --offset 1M --length 64K")]
    Trim {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: Range,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Have blocks read as zeroes.
    #[command(after_help = "\
Example:
  byway nvm zero disk.img --ns 2 --offset 1M --length 64K")]
    Zero {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: Range,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Have the device read blocks to see that it can; nothing crosses the link.
    #[command(after_help = "\
Example:
  byway nvm verify disk.img --ns 2 --length 16M")]
    Verify {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: Range,
        /// Give each command up after so many milliseconds.
        #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(1..))]
        timeout: Option<u64>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Have the device compare blocks with a file or standard input; exit code 1 for a difference.
    #[command(after_help = "\
Example:
  byway nvm compare disk.img --ns 2 --file boot.bin")]
    Compare {
        #[command(flatten)]
        device: Device,
        /// First byte, a multiple of the block size.
        #[arg(long, default_value = "0", value_parser = size::parse, value_name = "SIZE")]
        offset: u64,
        /// What to compare with, its last block filled with zeroes [default: standard input].
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compare a block and write it if it is equal, atomically among all writers; exit code 1 if it differs.
    #[command(after_help = "\
Example:
  byway nvm compare-and-write disk.img --ns 2 --expected old.bin --file new.bin")]
    CompareAndWrite {
        #[command(flatten)]
        device: Device,
        /// First byte, a multiple of the block size.
        #[arg(long, default_value = "0", value_parser = size::parse, value_name = "SIZE")]
        offset: u64,
        /// What is expected there, its last block filled with zeroes.
        #[arg(long, value_name = "PATH")]
        expected: PathBuf,
        /// What to write in its place, as many blocks [default: standard input].
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Have the device copy blocks to another place of the namespace; nothing crosses the link.
    #[command(after_help = "\
Example:
  byway nvm copy disk.img --ns 2 --offset 0 --length 1M --to 8M")]
    Copy {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        range: Range,
        /// First byte of the copy, a multiple of the block size.
        #[arg(long, value_parser = size::parse, value_name = "SIZE")]
        to: u64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make completed writes durable.
    #[command(after_help = "\
Example:
  byway nvm flush disk.img --ns 2")]
    Flush {
        #[command(flatten)]
        device: Device,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}
