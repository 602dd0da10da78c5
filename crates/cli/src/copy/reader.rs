//! Blocks read ahead, many pieces at once, and handed over in their order.

use std::collections::VecDeque;
use std::ops::Range;

use anyhow::{Context, Result};
use byway::{Backend, BackendQueue, Buffer};

use super::place::Blocks;
use super::plan::How;
use super::side::CopySide;
use super::{LOOK_EVERY, Shared};

/// A piece on its way, or read.
struct Piece {
    at: u64,
    len: usize,
    buffer: Option<Buffer>,
    is_read: bool,
}

/// Pieces of a range that are read ahead.
pub struct Reader {
    side: CopySide,
    piece_bytes: u64,
    next: u64,
    end: u64,
    pieces: Vec<Piece>,
    free: Vec<usize>,
    /// Pieces on their way, the first in the range in front.
    order: VecDeque<usize>,
}

impl Reader {
    /// Reads a range, whole blocks, of one side.
    ///
    /// # Errors
    /// When the device gives no queue or no memory.
    pub fn new(blocks: &Blocks, how: &How, range: Range<u64>) -> Result<Self> {
        let pieces = (range.end - range.start).div_ceil(how.piece_bytes).min(how.depth.into());
        let piece = |_| -> Result<Piece> {
            let buffer = blocks.device().buffer(how.piece_bytes as usize)?;
            Ok(Piece { at: 0, len: 0, buffer: Some(buffer), is_read: false })
        };
        let pieces: Vec<Piece> = (0..pieces).map(piece).collect::<Result<_>>()?;
        Ok(Self {
            side: blocks.side(how.depth)?,
            piece_bytes: how.piece_bytes,
            next: range.start,
            end: range.end,
            free: (0..pieces.len()).rev().collect(),
            pieces,
            order: VecDeque::new(),
        })
    }

    /// Hands each piece to `on`, in order, until all were or the copy is over.
    ///
    /// # Errors
    /// What the device says, with the byte where it was; those of `on`.
    pub fn each(mut self, shared: &Shared<'_>, mut on: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        while !shared.is_over() {
            self.begin()?;
            let taken = self.take()?;
            while let Some(index) = self.next_read() {
                let Some(piece) = self.pieces.get_mut(index) else { break };
                piece.is_read = false;
                on(piece.at, piece.buffer.as_ref().map_or(&[], Buffer::as_slice))?;
                self.free.push(index);
            }
            if self.order.is_empty() && self.next >= self.end {
                break;
            }
            if taken == 0 {
                self.side.wait(LOOK_EVERY)?;
            }
        }
        Ok(())
    }

    /// The first piece on its way, once it was read.
    fn next_read(&mut self) -> Option<usize> {
        let index = *self.order.front()?;
        self.pieces.get(index).filter(|piece| piece.is_read)?;
        self.order.pop_front()
    }

    fn begin(&mut self) -> Result<()> {
        let Self { side, piece_bytes, next, end, pieces, free, order } = self;
        let addresses = side.blocks;
        let mut commands = std::iter::from_fn(|| {
            if *next >= *end {
                return None;
            }
            let index = free.pop()?;
            let piece = pieces.get_mut(index)?;
            (piece.at, piece.len) = (*next, (*piece_bytes).min(*end - *next) as usize);
            *next += piece.len as u64;
            order.push_back(index);
            let mut into = piece.buffer.take()?;
            into.set_len(piece.len);
            Some((addresses.read(piece.at, into), index as u64))
        });
        side.queue.submit_all(&mut commands).map_err(byway::Error::from).context("read")
    }

    fn take(&mut self) -> Result<usize> {
        let finished = self.side.take()?;
        let taken = finished.len();
        for one in finished {
            let Some(piece) = self.pieces.get_mut(one.tag as usize) else { continue };
            let outcome = one.result.map_err(byway::Error::from);
            let outcome = outcome.with_context(|| format!("read at byte {} of the copy", piece.at))?;
            piece.buffer = outcome.buffer;
            piece.is_read = true;
        }
        Ok(taken)
    }
}
