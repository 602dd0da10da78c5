//! `byway nvm`: blocks.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use byway::{Backend, Device, Nvm, NvmLimits};
use byway_console::files;
use byway_console::terminal::{Interrupt, print_if_json};
use serde::Serialize;

use super::nvm_device;
use crate::args::{self, NvmCommand, Range};
use crate::opened;

/// Most bytes of one command, where the device can.
const PIECE_BYTES: u64 = 1 << 20;

/// Does one of the commands.
///
/// # Errors
/// A range that is no whole blocks or outside the namespace, what the device says, or files that fail.
pub fn run(command: &NvmCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        NvmCommand::Read { device, range, file, json } => {
            let blocks = Blocks::of(&opened::open_to_read(&device.uri())?)?;
            let Some(path) = file else {
                let done = blocks.read(range, out, interrupt)?;
                return Ok(print_if_json(&mut io::stderr(), *json, &done)?);
            };
            let mut file = BufWriter::new(files::create_new(path)?);
            let done = blocks.read(range, &mut file, interrupt)?;
            file.flush()?;
            Ok(print_if_json(out, *json, &done)?)
        }
        NvmCommand::Write { device, offset, file, json } => {
            let from = Input::open(file.as_deref(), interrupt)?;
            let done = Blocks::open(device)?.write(*offset, from, interrupt)?;
            Ok(print_if_json(out, *json, &done)?)
        }
        NvmCommand::Trim { device, range, json } => {
            Ok(print_if_json(out, *json, &Blocks::open(device)?.trim(range)?)?)
        }
        NvmCommand::Flush { device, json } => {
            let mut blocks = Blocks::open(device)?;
            blocks.nvm.flush()?;
            Ok(print_if_json(out, *json, &Flushed { nsid: blocks.nvm.nsid().get() })?)
        }
        NvmCommand::Zero { device, range, json } => {
            Ok(print_if_json(out, *json, &nvm_device::zero(device, range, interrupt)?)?)
        }
        NvmCommand::Verify { device, range, timeout, json } => {
            Ok(print_if_json(out, *json, &nvm_device::verify(device, range, *timeout, interrupt)?)?)
        }
        NvmCommand::Compare { device, offset, file, json } => {
            let with = Input::open(file.as_deref(), interrupt)?;
            let compared = nvm_device::compare(device, *offset, with, interrupt)?;
            print_if_json(out, *json, &compared)?;
            compared.verdict()
        }
        NvmCommand::CompareAndWrite { device, offset, expected, file, json } => {
            let both = [Input::open(Some(expected), interrupt)?, Input::open(file.as_deref(), interrupt)?];
            let swapped = nvm_device::compare_and_write(device, *offset, both)?;
            print_if_json(out, *json, &swapped)?;
            swapped.verdict()
        }
        NvmCommand::Copy { device, range, to, json } => {
            Ok(print_if_json(out, *json, &nvm_device::copy(device, range, *to, interrupt)?)?)
        }
    }
}

/// Blocks of a command, as `--json` prints them.
#[derive(Debug, Serialize)]
pub struct Touched {
    /// Namespace.
    pub nsid: u32,
    /// The first of them.
    pub slba: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// The same in bytes.
    pub bytes: u64,
}

/// A namespace whose completed writes are durable.
#[derive(Serialize)]
struct Flushed {
    #[serde(rename = "flushed_nsid")]
    nsid: u32,
}

/// A file that is read, or standard input.
pub struct Input<'a> {
    from: Box<dyn Read>,
    file: Option<&'a Path>,
}

impl<'a> Input<'a> {
    fn open(file: Option<&'a Path>, interrupt: &Interrupt) -> Result<Self> {
        Ok(Self { from: files::open(file.unwrap_or(Path::new("-")), interrupt)?, file })
    }

    /// The next bytes of a namespace, filled up to whole blocks with zeroes; none at the end.
    ///
    /// # Errors
    /// What the file says.
    pub fn piece(&mut self, blocks: &Blocks) -> Result<Vec<u8>> {
        let doing = || format!("read {}", self.file.map_or("standard input".into(), Path::to_string_lossy));
        let mut piece = Vec::new();
        self.from.by_ref().take(blocks.piece_bytes).read_to_end(&mut piece).with_context(doing)?;
        piece.resize(piece.len().next_multiple_of(blocks.block_bytes() as usize), 0);
        Ok(piece)
    }
}

/// A namespace, addressed in bytes.
pub struct Blocks {
    pub nvm: Nvm,
    /// Most bytes of one command, whole blocks.
    pub piece_bytes: u64,
    /// Limits of commands that move no data.
    pub limits: NvmLimits,
}

impl Blocks {
    /// Opens the namespace of a URI.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(device: &args::Device) -> Result<Self> {
        Self::of(&opened::open(&device.uri())?)
    }

    /// The namespace of a device.
    ///
    /// # Errors
    /// When it has none of blocks.
    pub fn of(device: &Device) -> Result<Self> {
        let nvm = device.nvm(None)?;
        let block_bytes = u64::from(nvm.lba_bytes());
        let most =
            device.capabilities().limits.transfer_bytes.clamp(block_bytes, PIECE_BYTES.max(block_bytes));
        let limits = device.capabilities().nvm_limits;
        Ok(Self { nvm, piece_bytes: most - most % block_bytes, limits })
    }

    /// Most blocks of a command that moves no data, of which the device takes so many bytes; 0 for any.
    pub fn blocks_within(&self, limit_bytes: u64) -> u64 {
        let limit_bytes = if limit_bytes == 0 { u64::MAX } else { limit_bytes };
        (self.piece_bytes.min(limit_bytes) / self.block_bytes()).max(1)
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.nvm.lba_bytes().into()
    }

    /// The block that begins at a byte.
    ///
    /// # Errors
    /// A byte within a block.
    pub fn block_at(&self, what: &str, bytes: u64) -> Result<u64> {
        let block_bytes = self.block_bytes();
        ensure!(
            bytes.is_multiple_of(block_bytes),
            "{what} of {bytes} bytes is no whole number of blocks of {block_bytes} bytes"
        );
        Ok(bytes / block_bytes)
    }

    /// First block and number of blocks of a range that is within the namespace.
    ///
    /// # Errors
    /// A range that is no whole blocks, or is not within it.
    pub fn blocks_of(&self, range: &Range) -> Result<(u64, u64)> {
        let (first, count) =
            (self.block_at("an offset", range.offset)?, self.block_at("a length", range.length)?);
        let all = self.nvm.blocks();
        let within = first.checked_add(count).is_some_and(|end| end <= all);
        ensure!(within, "{count} blocks from block {first} on are not within a namespace of {all} blocks");
        Ok((first, count))
    }

    /// The report on `count` blocks from `slba` on.
    pub fn touched(&self, slba: u64, count: u64) -> Touched {
        let nsid = self.nvm.nsid().get();
        Touched { nsid, slba, blocks: count, bytes: count * self.block_bytes() }
    }

    fn read(mut self, range: &Range, out: &mut impl Write, interrupt: &Interrupt) -> Result<Touched> {
        let (first, count) = self.blocks_of(range)?;
        let (mut slba, mut left) = (first, count);
        let most = self.piece_bytes / self.block_bytes();
        let mut piece = vec![0; self.piece_bytes.min(range.length) as usize];
        while left > 0 {
            interrupt.check()?;
            let blocks = left.min(most);
            piece.truncate((blocks * self.block_bytes()) as usize);
            self.nvm.read(slba, &mut piece)?;
            out.write_all(&piece)?;
            slba += blocks;
            left -= blocks;
        }
        Ok(self.touched(first, count))
    }

    fn write(mut self, offset: u64, mut from: Input<'_>, interrupt: &Interrupt) -> Result<Touched> {
        let first = self.block_at("an offset", offset)?;
        let mut slba = first;
        loop {
            interrupt.check()?;
            let piece = from.piece(&self)?;
            if piece.is_empty() {
                return Ok(self.touched(first, slba - first));
            }
            self.nvm.write(slba, &piece)?;
            slba += piece.len() as u64 / self.block_bytes();
        }
    }

    fn trim(mut self, range: &Range) -> Result<Touched> {
        let (first, count) = self.blocks_of(range)?;
        let (mut slba, mut left) = (first, count);
        let limits = [u64::from(self.limits.deallocate_range_blocks), self.limits.deallocate_blocks];
        let most = limits.into_iter().filter(|most| *most > 0).fold(u64::from(u32::MAX), u64::min);
        while left > 0 {
            let blocks = left.min(most) as u32;
            self.nvm.trim(slba, blocks)?;
            slba += u64::from(blocks);
            left -= u64::from(blocks);
        }
        Ok(self.touched(first, count))
    }
}
