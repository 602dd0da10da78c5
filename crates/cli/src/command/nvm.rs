//! `byway nvm`: blocks.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use byway::{Backend, Device, Nvm};

use super::nvm_device;
use crate::args::{self, NvmCommand, Range};
use crate::terminal::Interrupt;

/// Most bytes of one command, where the device can.
const PIECE_BYTES: u64 = 1 << 20;

/// Does one of the commands.
///
/// # Errors
/// A range that is no whole blocks or outside the namespace, what the device says, or files that fail.
pub fn run(command: &NvmCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        NvmCommand::Read { device, range, file } => {
            let blocks = Blocks::of(&byway::open_to_read(&device.uri)?)?;
            match file {
                Some(path) => {
                    let file = File::create_new(path).with_context(|| format!("make {}", path.display()))?;
                    let mut file = BufWriter::new(file);
                    blocks.read(range, &mut file, interrupt)?;
                    Ok(file.flush()?)
                }
                None => blocks.read(range, out, interrupt),
            }
        }
        NvmCommand::Write { device, offset, file } => {
            let from: Box<dyn Read> = match file {
                Some(path) => Box::new(File::open(path).with_context(|| format!("open {}", path.display()))?),
                None => Box::new(io::stdin().lock()),
            };
            Blocks::open(device)?.write(*offset, from, file.as_deref(), interrupt)
        }
        NvmCommand::Trim { device, range } => Blocks::open(device)?.trim(range),
        NvmCommand::Zero { device, range } => nvm_device::zero(device, range, interrupt),
        NvmCommand::Verify { device, range, timeout } => {
            nvm_device::verify(device, range, *timeout, interrupt)
        }
        NvmCommand::Compare { device, offset, file } => {
            nvm_device::compare(device, *offset, file.as_deref(), interrupt)
        }
        NvmCommand::Copy { device, range, to } => nvm_device::copy(device, range, *to, interrupt),
        NvmCommand::Flush { device } => Ok(Blocks::open(device)?.nvm.flush()?),
    }
}

/// A namespace, addressed in bytes.
pub struct Blocks {
    pub nvm: Nvm,
    /// Most bytes of one command, whole blocks.
    pub piece_bytes: u64,
}

impl Blocks {
    /// Opens the namespace of a URI.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(device: &args::Device) -> Result<Self> {
        Self::of(&byway::open(&device.uri)?)
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
        Ok(Self { nvm, piece_bytes: most - most % block_bytes })
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

    fn read(mut self, range: &Range, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
        let (mut slba, mut left) = self.blocks_of(range)?;
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
        Ok(())
    }

    fn write(
        mut self,
        offset: u64,
        mut from: impl Read,
        file: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let mut slba = self.block_at("an offset", offset)?;
        let doing = || format!("read {}", file.map_or("standard input".into(), Path::to_string_lossy));
        loop {
            interrupt.check()?;
            let mut piece = Vec::new();
            from.by_ref().take(self.piece_bytes).read_to_end(&mut piece).with_context(doing)?;
            if piece.is_empty() {
                return Ok(());
            }
            piece.resize(piece.len().next_multiple_of(self.block_bytes() as usize), 0);
            self.nvm.write(slba, &piece)?;
            slba += piece.len() as u64 / self.block_bytes();
        }
    }

    fn trim(mut self, range: &Range) -> Result<()> {
        let (mut slba, mut left) = self.blocks_of(range)?;
        while left > 0 {
            let blocks = u32::try_from(left).unwrap_or(u32::MAX);
            self.nvm.trim(slba, blocks)?;
            slba += u64::from(blocks);
            left -= u64::from(blocks);
        }
        Ok(())
    }
}
