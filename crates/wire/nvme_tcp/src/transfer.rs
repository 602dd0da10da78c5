//! Transfers of several PDUs: what each side may and may not send next.

use core::ops::Range;

use slab::Slab;

use crate::pdu::C2hEnd;
use crate::{Agreement, C2hData, CommandId, H2cData, ReadyToTransfer, TransferTag, Violation};

/// The range of `bytes` at `offset_bytes`, if it begins at `next_bytes` and ends at `end_bytes` or before.
fn in_order(offset_bytes: u32, bytes: u32, next_bytes: u32, end_bytes: u32) -> Result<Range<u32>, Violation> {
    if offset_bytes != next_bytes {
        return Err(Violation::OutOfOrder { offset_bytes, expected_bytes: next_bytes });
    }
    match offset_bytes.checked_add(bytes) {
        Some(end) if end <= end_bytes => Ok(offset_bytes..end),
        _ => Err(Violation::OutOfRange { offset_bytes, bytes, end_bytes }),
    }
}

/// One R2T that is outstanding.
#[derive(Clone, Copy, Debug)]
struct Solicited {
    command: CommandId,
    next_bytes: u32,
    end_bytes: u32,
    wanted: bool,
}

/// A controller's: the R2Ts of one connection, and the data that answers them.
///
/// There are at most as many as there are places, so that a host makes this process keep no more.
#[derive(Debug)]
pub struct Solicitations {
    /// By transfer tag.
    places: Slab<Solicited>,
    most: u16,
}

/// Accepted data of an R2T.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Where it belongs in the command's buffer.
    pub range_bytes: Range<u32>,
    /// This completes the R2T's data; its tag is free.
    pub whole: bool,
    /// The command still waits for it.
    pub wanted: bool,
}

impl Solicitations {
    /// Room for `places` concurrent R2Ts, which use the tags from 0.
    pub fn new(places: u16) -> Self {
        Self { places: Slab::with_capacity(usize::from(places)), most: places }
    }

    /// An R2T for `bytes` at `offset_bytes` of the data of `command`. `None` while all tags are in use, for 0 bytes,
    /// or if it would end past 4 GiB.
    pub fn ask(&mut self, command: CommandId, offset_bytes: u32, bytes: u32) -> Option<ReadyToTransfer> {
        let end_bytes = offset_bytes.checked_add(bytes).filter(|_| bytes > 0)?;
        if self.outstanding() == usize::from(self.most) {
            return None;
        }
        let solicited = Solicited { command, next_bytes: offset_bytes, end_bytes, wanted: true };
        let tag = TransferTag(self.places.insert(solicited) as u16);
        Some(ReadyToTransfer { command, tag, offset_bytes, bytes })
    }

    /// Checks the header of an H2CData PDU.
    ///
    /// # Errors
    /// If no such R2T is outstanding, if it is of another command, or if this is not the next of its data, or too much of it.
    pub fn accept(&mut self, data: &H2cData, data_bytes: u32) -> Result<Accepted, Violation> {
        let tag = usize::from(data.tag.0);
        let solicited = self.places.get_mut(tag).ok_or(Violation::UnknownTag(data.tag))?;
        if solicited.command != data.command {
            return Err(Violation::UnknownCommand(data.command));
        }
        let (next_bytes, end_bytes) = (solicited.next_bytes, solicited.end_bytes);
        let range_bytes = in_order(data.offset_bytes, data_bytes, next_bytes, end_bytes)?;
        let whole = range_bytes.end == end_bytes;
        if data.last != whole {
            return Err(Violation::LastFlag);
        }
        solicited.next_bytes = range_bytes.end;
        let wanted = solicited.wanted;
        if whole {
            self.places.remove(tag);
        }
        Ok(Accepted { range_bytes, whole, wanted })
    }

    /// The command of this R2T ended early. The host still sends the requested data: it is accepted until complete,
    /// and discarded. Returns whether any is still to come.
    pub fn forgo(&mut self, tag: TransferTag) -> bool {
        let solicited = self.places.get_mut(usize::from(tag.0));
        solicited.is_some_and(|solicited| std::mem::replace(&mut solicited.wanted, false))
    }

    /// R2Ts that are outstanding.
    pub fn outstanding(&self) -> usize {
        self.places.len()
    }
}

/// A host's: the data that one command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound {
    next_bytes: u32,
    end_bytes: u32,
    ended: bool,
}

impl Inbound {
    /// For a command that reads up to `bytes`.
    pub const fn new(bytes: u32) -> Self {
        Self { next_bytes: 0, end_bytes: bytes, ended: false }
    }

    /// Judges C2HData by its header, and says where in the command's buffer it belongs.
    ///
    /// # Errors
    /// If the last PDU came already, or if this one is out of sequence or has too much data.
    pub fn accept(&mut self, data: &C2hData, data_bytes: u32) -> Result<Range<u32>, Violation> {
        if self.ended {
            return Err(Violation::DataAfterLast);
        }
        let range = in_order(data.offset_bytes, data_bytes, self.next_bytes, self.end_bytes)?;
        self.next_bytes = range.end;
        self.ended = data.end != C2hEnd::More;
        Ok(range)
    }

    /// Bytes received. For a command of fixed length, fewer than expected is a failure.
    pub const fn received_bytes(&self) -> u32 {
        self.next_bytes
    }
}

/// Host side: the data that one command writes, as R2Ts request it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outbound {
    next_bytes: u32,
    end_bytes: u32,
    outstanding: u32,
}

impl Outbound {
    /// For a command that writes `bytes`.
    pub const fn new(bytes: u32) -> Self {
        Self { next_bytes: 0, end_bytes: bytes, outstanding: 0 }
    }

    /// Checks an R2T of this command, and splits it into the PDUs to send. Report each to [`Self::sent`].
    ///
    /// # Errors
    /// If it does not request the next data, requests too much, or exceeds the agreed number of R2Ts.
    pub fn accept(&mut self, asked: &ReadyToTransfer, agreed: &Agreement) -> Result<Grant, Violation> {
        let (outstanding, limit) = (u64::from(self.outstanding) + 1, u64::from(agreed.max_r2t_z()) + 1);
        if outstanding > limit {
            return Err(Violation::TooManyR2ts { outstanding, limit });
        }
        let range = in_order(asked.offset_bytes, asked.bytes, self.next_bytes, self.end_bytes)?;
        self.next_bytes = range.end;
        self.outstanding += 1;
        let most_bytes = agreed.max_h2c_data_bytes();
        Ok(Grant { command: asked.command, tag: asked.tag, range_bytes: range, most_bytes })
    }

    /// All of a grant was sent.
    pub const fn sent(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Whether all data was requested and sent.
    pub const fn is_done(&self) -> bool {
        self.next_bytes == self.end_bytes && self.outstanding == 0
    }
}

/// The PDUs that answer an R2T, each with the range of the command's buffer that it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    command: CommandId,
    tag: TransferTag,
    range_bytes: Range<u32>,
    most_bytes: u32,
}

impl Iterator for Grant {
    type Item = (H2cData, Range<u32>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.range_bytes.is_empty() {
            return None;
        }
        let Range { start, end } = self.range_bytes;
        let piece = start..end.min(start.saturating_add(self.most_bytes));
        self.range_bytes.start = piece.end;
        let last = piece.end == end;
        Some((H2cData { command: self.command, tag: self.tag, offset_bytes: start, last }, piece))
    }
}
