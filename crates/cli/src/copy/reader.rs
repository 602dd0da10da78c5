//! Blocks read ahead, many pieces at once, and handed over in their order.

use std::collections::VecDeque;
use std::ops::Range;

use anyhow::{Context, Result};
use byway::{Backend, BackendQueue, Buffer};
use slab::Slab;

use super::place::Blocks;
use super::plan::How;
use super::side::CopySide;
use super::{LOOK_EVERY, Shared};

/// A piece on its way, or read.
struct Piece {
    at: u64,
    /// What was read, once it was.
    read: Option<Buffer>,
}

/// Pieces of a range that are read ahead.
pub struct Reader {
    side: CopySide,
    piece_bytes: u64,
    next: u64,
    end: u64,
    /// By tag.
    pieces: Slab<Piece>,
    /// Memory that no piece has; the number of buffers bounds the pieces.
    free: Vec<Buffer>,
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
        let buffer = |_| blocks.device().buffer(how.piece_bytes as usize);
        Ok(Self {
            side: blocks.side(how.depth)?,
            piece_bytes: how.piece_bytes,
            next: range.start,
            end: range.end,
            free: (0..pieces).map(buffer).collect::<byway::Result<_>>()?,
            pieces: Slab::with_capacity(pieces as usize),
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
            while let Some((at, read)) = self.next_read() {
                on(at, read.as_slice())?;
                self.free.push(read);
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
    fn next_read(&mut self) -> Option<(u64, Buffer)> {
        let index = *self.order.front()?;
        let piece = self.pieces.get_mut(index)?;
        let (at, read) = (piece.at, piece.read.take()?);
        self.pieces.remove(index);
        self.order.pop_front();
        Some((at, read))
    }

    fn begin(&mut self) -> Result<()> {
        let Self { side, piece_bytes, next, end, pieces, free, order } = self;
        let addresses = side.blocks;
        let mut commands = std::iter::from_fn(|| {
            if *next >= *end {
                return None;
            }
            let mut into = free.pop()?;
            let at = *next;
            into.set_len((*piece_bytes).min(*end - at) as usize);
            *next += into.len() as u64;
            let index = pieces.insert(Piece { at, read: None });
            order.push_back(index);
            Some((addresses.read(at, into), index as u64))
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
            piece.read = Some(outcome.buffer.context("a read gave no buffer back")?);
        }
        Ok(taken)
    }
}
