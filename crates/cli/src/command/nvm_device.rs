//! What `byway nvm` has a device do by itself: zeroes, reads that check, comparisons, copies. Nothing is carried to the
//! program and back.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use byway::future::{AsyncQueue, block_on_all};
use byway::spec::base::identify::{Cns, IDENTIFY_BYTES};
use byway::spec::nvm::NvmNamespace;
use byway::{
    AdminCommand, Backend, BackendQueue, CopyRanges, Device, Error, ErrorKind, LbaRange, Nsid, Nvm,
    NvmCommand, Queue,
};
use byway_console::failure::No;
use byway_console::terminal::Interrupt;
use byway_core::moves::BlockOptions;
use serde::Serialize;
use zerocopy::FromBytes;

use super::nvm::{Blocks, Input, Touched};
use crate::args::{self, Range};
use crate::opened;

/// Most blocks of one range of a copy, where the device takes as many.
const COPY_BLOCKS: u64 = 128;

/// Has a range read as zeroes.
///
/// # Errors
/// A range that is no whole blocks or outside the namespace, and what the device says.
pub fn zero(device: &args::Device, range: &Range, interrupt: &Interrupt) -> Result<Touched> {
    let mut blocks = Blocks::open(device)?;
    let most = blocks.blocks_within(blocks.limits.write_zeroes_bytes);
    let (first, count) = blocks.blocks_of(range)?;
    for (slba, count) in pieces((first, count), most) {
        interrupt.check()?;
        blocks.nvm.write_zeroes(slba, count)?;
    }
    Ok(blocks.touched(first, count))
}

/// Has a range read by the device alone, many commands at once, each of them awaited.
///
/// # Errors
/// As [`zero`].
pub fn verify(
    device: &args::Device,
    range: &Range,
    timeout_ms: Option<u64>,
    interrupt: &Interrupt,
) -> Result<Touched> {
    let device = opened::open_to_read(&device.uri())?;
    require(device.capabilities().nvm.verify, &device, "Verify")?;
    let blocks = Blocks::of(&device)?;
    let nsid = blocks.nvm.nsid();
    let queue: AsyncQueue<Queue> = AsyncQueue::new(device.default_queue()?);
    let most = blocks.blocks_within(blocks.limits.verify_bytes);
    let (first, count) = blocks.blocks_of(range)?;
    let all: Vec<(u64, u32)> = pieces((first, count), most).collect();
    for some in all.chunks(device.queue_options().depth.commands() as usize) {
        interrupt.check()?;
        let verify = |&(slba, blocks): &(u64, u32)| {
            let command = NvmCommand::Verify { nsid, slba, blocks }.into();
            match timeout_ms {
                None => queue.execute(command),
                Some(ms) => queue.execute_within(command, Duration::from_millis(ms)),
            }
        };
        let ended = block_on_all(&queue, some.iter().map(verify));
        for ((slba, count), result) in some.iter().zip(ended) {
            let doing = || format!("verify {count} blocks from block {slba} on");
            result.map_err(Error::from).with_context(doing)?;
        }
    }
    Ok(blocks.touched(first, count))
}

/// Blocks that were compared: all up to the first that differs.
#[derive(Serialize)]
pub struct Compared {
    #[serde(flatten)]
    touched: Touched,
    same: bool,
    differs_at_block: Option<u64>,
}

impl Compared {
    /// What it means for the exit code.
    ///
    /// # Errors
    /// [`No`] with the first block that differs.
    pub fn verdict(&self) -> Result<()> {
        match self.differs_at_block {
            Some(block) => Err(No(format!("block {block} differs")).into()),
            None => Ok(()),
        }
    }
}

/// Has blocks compared with a file.
///
/// # Errors
/// As [`zero`].
pub fn compare(
    device: &args::Device,
    offset: u64,
    mut with: Input<'_>,
    interrupt: &Interrupt,
) -> Result<Compared> {
    let device = opened::open_to_read(&device.uri())?;
    require(device.capabilities().nvm.compare, &device, "Compare")?;
    let mut blocks = Blocks::of(&device)?;
    let first = blocks.block_at("an offset", offset)?;
    let mut slba = first;
    loop {
        interrupt.check()?;
        let piece = with.piece(&blocks)?;
        let differs_at_block = first_difference(&device, &mut blocks, slba, &piece)?;
        slba += piece.len() as u64 / blocks.block_bytes();
        if piece.is_empty() || differs_at_block.is_some() {
            let end = differs_at_block.map_or(slba, |block| block + 1);
            let touched = blocks.touched(first, end - first);
            return Ok(Compared { touched, same: differs_at_block.is_none(), differs_at_block });
        }
    }
}

/// The first block that differs; blocks are compared one by one only where the whole range differs.
fn first_difference(device: &Device, blocks: &mut Blocks, slba: u64, with: &[u8]) -> Result<Option<u64>> {
    if with.is_empty() || is_same(device, &mut blocks.nvm, slba, with)? {
        return Ok(None);
    }
    for (block, bytes) in (slba..).zip(with.chunks(blocks.block_bytes() as usize)) {
        if !is_same(device, &mut blocks.nvm, block, bytes)? {
            return Ok(Some(block));
        }
    }
    Ok(None)
}

fn is_same(device: &Device, nvm: &mut Nvm, slba: u64, bytes: &[u8]) -> Result<bool> {
    let mut data = device.buffer(bytes.len())?;
    data.as_mut_slice().copy_from_slice(bytes);
    let blocks = (bytes.len() / nvm.lba_bytes() as usize) as u32;
    let command = NvmCommand::Compare { nsid: nvm.nsid(), slba, blocks, data: data.into() };
    match nvm.queue().execute(command.into()) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Mismatch => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Blocks that were written in place of others, or not.
#[derive(Serialize)]
pub struct Swapped {
    #[serde(flatten)]
    touched: Touched,
    written: bool,
}

impl Swapped {
    /// What it means for the exit code.
    ///
    /// # Errors
    /// [`No`] if the block held something else.
    pub fn verdict(&self) -> Result<()> {
        match self.written {
            true => Ok(()),
            false => Err(No("something else stands there; nothing was written".into()).into()),
        }
    }
}

/// Writes blocks if the namespace holds the expected ones.
///
/// # Errors
/// As [`zero`]; files of different lengths.
pub fn compare_and_write(
    device: &args::Device,
    offset: u64,
    [mut expected, mut new]: [Input<'_>; 2],
) -> Result<Swapped> {
    let device = opened::open(&device.uri())?;
    require(device.capabilities().nvm.compare_and_write, &device, "Compare and Write")?;
    let mut blocks = Blocks::of(&device)?;
    let slba = blocks.block_at("an offset", offset)?;
    let (expected, new) = (expected.piece(&blocks)?, new.piece(&blocks)?);
    ensure!(!new.is_empty(), "there is nothing to write");
    let (old_bytes, new_bytes) = (expected.len(), new.len());
    ensure!(old_bytes == new_bytes, "{old_bytes} bytes are expected, and {new_bytes} would be written");
    let written = blocks.nvm.compare_and_write(slba, &expected, &new)?;
    let count = new.len() as u64 / blocks.block_bytes();
    Ok(Swapped { touched: blocks.touched(slba, count), written })
}

/// Blocks that were copied.
#[derive(Serialize)]
pub struct Copied {
    #[serde(flatten)]
    from: Touched,
    to_slba: u64,
}

/// Has blocks copied to another place.
///
/// # Errors
/// As [`zero`]; places that overlap.
pub fn copy(device: &args::Device, range: &Range, to: u64, interrupt: &Interrupt) -> Result<Copied> {
    let device = opened::open(&device.uri())?;
    require(device.capabilities().nvm.copy, &device, "Copy")?;
    let mut blocks = Blocks::of(&device)?;
    let (from, count) = blocks.blocks_of(range)?;
    let (to, _) = blocks.blocks_of(&Range { offset: to, length: range.length })?;
    ensure!(
        from.abs_diff(to) >= count,
        "a copy of {count} blocks from block {from} to block {to} runs into itself"
    );
    let nsid = blocks.nvm.nsid();
    let most = copy_blocks(&device, nsid)?;
    for (slba, blocks_of_piece) in pieces((from, count), most) {
        interrupt.check()?;
        let ranges = CopyRanges::new(&[LbaRange { slba, blocks: blocks_of_piece }])?;
        blocks.nvm.queue().execute(NvmCommand::Copy { nsid, to: to + (slba - from), from: ranges }.into())?;
    }
    Ok(Copied { from: blocks.touched(from, count), to_slba: to })
}

/// Most blocks of one range of a Copy that the namespace takes (MSSRL, MCL; 0 for no limit).
fn copy_blocks(device: &Device, nsid: Nsid) -> Result<u64> {
    if !device.capabilities().admin_commands {
        return Ok(COPY_BLOCKS);
    }
    let into = device.buffer(IDENTIFY_BYTES)?;
    let cns = Cns::NAMESPACE.0;
    let answered =
        device.admin(AdminCommand::Identify { cns, csi: 0, nsid: Some(nsid), selector: 0, into })?;
    let page = answered.buffer.context("the device gave no structure back")?;
    let (namespace, _) = NvmNamespace::read_from_prefix(page.as_slice())
        .ok()
        .context("the device's structure is too short")?;
    Ok(BlockOptions::of(&namespace).one_range_blocks().map_or(COPY_BLOCKS, |most| most.min(COPY_BLOCKS)))
}

fn require(can: bool, device: &Device, command: &str) -> Result<()> {
    ensure!(can, "{} does not do the command {command}", device.name());
    Ok(())
}

/// Splits a range of blocks into pieces of at most `most`.
fn pieces((first, count): (u64, u64), most: u64) -> impl Iterator<Item = (u64, u32)> {
    let most = most.max(1);
    (0..count.div_ceil(most)).map(move |piece| (first + piece * most, most.min(count - piece * most) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_piece_is_as_short_as_it_must_be() {
        assert_eq!(pieces((10, 5), 2).collect::<Vec<_>>(), [(10, 2), (12, 2), (14, 1)]);
        assert_eq!(pieces((10, 0), 2).count(), 0);
    }
}
