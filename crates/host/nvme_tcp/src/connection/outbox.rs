//! What is to be sent: heads and small data in one run of bytes, large data from where it lies.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

use byway_core::Memory;
use byway_nvme_tcp::Frame;

use super::table::Table;

/// Most pieces that one system call gathers.
pub const GATHERED_MAX: usize = 64;

/// Sent bytes that are kept at most before those behind them move to the front.
const SPENT_BYTES_MAX: usize = 256 << 10;

/// A part of what is to be sent.
#[derive(Clone, Debug)]
enum Piece {
    /// So many of the staged bytes.
    Staged(usize),
    /// A range of a command's memory.
    Data {
        cid: u16,
        range: Range<usize>,
        /// With it, all that an R2T asked for is sent.
        ends_grant: bool,
    },
}

/// A part of a command's data that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub cid: u16,
    pub ends_grant: bool,
}

/// What is to be sent, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    staged: Vec<u8>,
    /// Staged bytes that were sent.
    spent: usize,
    pieces: VecDeque<Piece>,
    queued_bytes: u64,
    sent_bytes: u64,
}

impl Outbox {
    /// Bytes that wait.
    pub fn len(&self) -> u64 {
        self.queued_bytes - self.sent_bytes
    }

    /// Where the next byte will stand in all that the connection sends.
    pub fn next_at(&self) -> u64 {
        self.queued_bytes
    }

    /// Whether the byte that stands there was handed on.
    pub fn has_sent(&self, at: u64) -> bool {
        at < self.sent_bytes
    }

    /// Adds what `write` appends.
    pub fn stage(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.staged.len();
        write(&mut self.staged);
        let added = self.staged.len() - before;
        self.queued_bytes += added as u64;
        match self.pieces.back_mut() {
            Some(Piece::Staged(bytes)) => *bytes += added,
            _ => self.pieces.push_back(Piece::Staged(added)),
        }
    }

    /// Adds a range of a command's memory.
    fn lend(&mut self, cid: u16, range: Range<usize>, ends_grant: bool) {
        self.queued_bytes += range.len() as u64;
        self.pieces.push_back(Piece::Data { cid, range, ends_grant });
    }

    /// Adds a PDU whose data, a range of a command's memory, is sent from where it lies.
    pub fn lend_framed(&mut self, frame: &Frame<'_>, cid: u16, range: Range<usize>, ends_grant: bool) {
        self.stage(|out| out.extend_from_slice(frame.head()));
        self.lend(cid, range, ends_grant);
        if let Some(digest) = frame.tail() {
            self.stage(|out| out.extend_from_slice(&digest));
        }
    }

    /// All that waits, where nothing of it is in commands' memory.
    #[inline]
    pub fn in_one_place(&self) -> Option<&[u8]> {
        match (self.pieces.len(), self.pieces.front()) {
            (1, Some(Piece::Staged(bytes))) => self.staged.get(self.spent..self.spent + bytes),
            _ => None,
        }
    }

    /// Gathers what is next, as much as one system call takes; says how many pieces.
    pub fn gather<'a>(&'a self, table: &'a Table, into: &mut [IoSlice<'a>]) -> usize {
        let mut gathered = Gathered { into, count: 0 };
        let mut at = self.spent;
        for piece in &self.pieces {
            match piece {
                Piece::Staged(bytes) => {
                    gathered.add(self.staged.get(at..at + bytes).unwrap_or_default());
                    at += bytes;
                }
                Piece::Data { cid, range, .. } => {
                    let memory = table.get(*cid).map(|slot| &slot.memory);
                    memory.into_iter().for_each(|memory| gathered.add_range(memory, range.clone()));
                }
            }
            if gathered.is_full() {
                break;
            }
        }
        gathered.count
    }

    /// So much was sent: calls `on` for every part of a command's data that has left as a whole.
    pub fn sent(&mut self, bytes: usize, mut on: impl FnMut(Left)) {
        self.sent_bytes += bytes as u64;
        let mut left = bytes;
        while let Some(first) = self.pieces.front_mut() {
            let here = match first {
                Piece::Staged(here) => {
                    let part = left.min(*here);
                    self.spent += part;
                    *here -= part;
                    left -= part;
                    *here
                }
                Piece::Data { cid, range, ends_grant } => {
                    let part = left.min(range.len());
                    range.start += part;
                    left -= part;
                    if range.start == range.end {
                        on(Left { cid: *cid, ends_grant: *ends_grant });
                    }
                    range.len()
                }
            };
            if here > 0 {
                break;
            }
            self.pieces.pop_front();
        }
        self.forget_spent();
    }

    fn forget_spent(&mut self) {
        if self.pieces.is_empty() {
            self.staged.clear();
            self.spent = 0;
        } else if self.spent > SPENT_BYTES_MAX {
            self.staged.drain(..self.spent);
            self.spent = 0;
        }
    }

    /// Nothing of it will be sent.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.forget_spent();
        (self.queued_bytes, self.sent_bytes) = (0, 0);
    }
}

/// Pieces for one system call.
struct Gathered<'i, 'a> {
    into: &'i mut [IoSlice<'a>],
    count: usize,
}

impl<'a> Gathered<'_, 'a> {
    fn is_full(&self) -> bool {
        self.count == self.into.len()
    }

    fn add(&mut self, bytes: &'a [u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(place) = self.into.get_mut(self.count) {
            *place = IoSlice::new(bytes);
            self.count += 1;
        }
    }

    fn add_range(&mut self, memory: &'a Memory, range: Range<usize>) {
        for_each_part(memory, range, |part| self.add(part));
    }
}

/// The bytes of a range of a command's memory, part by part.
pub(crate) fn for_each_part<'a>(memory: &'a Memory, range: Range<usize>, mut on: impl FnMut(&'a [u8])) {
    let mut start = 0;
    for part in memory.parts() {
        let end = start + part.len();
        let from = range.start.clamp(start, end) - start;
        let to = range.end.clamp(start, end) - start;
        if from < to {
            on(part.get(from..to).unwrap_or_default());
        }
        start = end;
        if start >= range.end {
            return;
        }
    }
}

/// The same as a list, which is none of its own where they stand in one place.
pub(crate) fn with_parts<'a, R>(
    memory: &'a Memory,
    range: Range<usize>,
    with: impl FnOnce(&[&'a [u8]]) -> R,
) -> R {
    if let Some(all) = memory.contiguous() {
        return with(&[all.get(range).unwrap_or_default()]);
    }
    let mut parts = Vec::new();
    for_each_part(memory, range, |part| parts.push(part));
    with(&parts)
}

/// The bytes of a command's memory from `at` on, as far as they stand in one place.
pub(crate) fn part_at_mut(memory: &mut Memory, at: usize) -> &mut [u8] {
    let mut start = 0;
    for buffer in memory.buffers_mut() {
        let end = start + buffer.len();
        if at < end {
            return buffer.as_mut_slice().get_mut(at - start..).unwrap_or_default();
        }
        start = end;
    }
    &mut []
}
