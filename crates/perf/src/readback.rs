//! What a load wrote, read back.

use std::time::Duration;

use anyhow::{Context, Result};
use byway::{Backend, BackendQueue, Buffer, Finished, NvmCommand};
use byway_console::failure::No;
use byway_console::terminal::Interrupt;

use super::pattern::Pattern;
use super::plan::{Blocks, Plan, What};

/// Reads every piece whose bit is set, many at once; returns how many there were.
///
/// # Errors
/// What the device says; [`No`] for a difference.
pub fn read_back(plan: &Plan, touched: &[u64], interrupt: &Interrupt) -> Result<u64> {
    let What::Blocks(blocks) = plan.what else { return Ok(0) };
    let mut queue = plan.queue()?;
    let buffers = (0..plan.depth).map(|_| plan.device.buffer(blocks.piece_bytes as usize));
    let mut free: Vec<Buffer> = buffers.collect::<byway::Result<_>>()?;
    let (mut read, mut failed) = (0, None);
    let mut pieces = pieces_of(touched);
    loop {
        interrupt.check()?;
        let mut commands = std::iter::from_fn(|| {
            // A buffer is taken for a piece that there is.
            let into = free.pop()?;
            let Some(piece) = pieces.next() else {
                free.push(into);
                return None;
            };
            Some((command(blocks, piece, into).into(), piece))
        });
        queue.submit_all(&mut commands).map_err(byway::Error::from)?;
        if queue.outstanding() == 0 {
            break;
        }
        queue.wait(1, Duration::from_millis(100), &mut |finished| match check(plan, blocks, finished) {
            Ok(buffer) => {
                read += 1;
                free.extend(buffer);
            }
            Err(error) => drop(failed.get_or_insert(error)),
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(read)
}

fn pieces_of(touched: &[u64]) -> impl Iterator<Item = u64> {
    let bits = |(index, word): (u64, &u64)| {
        let word = *word;
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
    };
    (0..).zip(touched).flat_map(bits)
}

fn command(of: Blocks, piece: u64, into: Buffer) -> NvmCommand {
    let slba = (of.offset + piece * of.piece_bytes) / of.lba_bytes;
    NvmCommand::Read { nsid: of.nsid, slba, blocks: (of.piece_bytes / of.lba_bytes) as u32, into }
}

fn check(plan: &Plan, of: Blocks, finished: Finished) -> Result<Option<Buffer>> {
    let at = of.offset + finished.tag * of.piece_bytes;
    let outcome = finished.result.map_err(byway::Error::from);
    let buffer = outcome.with_context(|| format!("read back at byte {at}"))?.buffer;
    let wrong = buffer.as_ref().and_then(|buffer| Pattern(plan.seed).difference(at, buffer.as_slice()));
    match wrong {
        None => Ok(buffer),
        Some(wrong) => Err(No(format!("byte {wrong} was written and does not hold it")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_bit_is_one_piece() {
        let pieces: Vec<u64> = pieces_of(&[0b101, 0, 1 << 63]).collect();
        assert_eq!(pieces, [0, 2, 191]);
    }
}
