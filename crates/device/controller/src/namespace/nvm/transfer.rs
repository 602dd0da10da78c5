//! Read, Write, Compare and Verify: blocks between the flash and the host.
//!
//! Long transfers go through [`CHUNK_BYTES`] of working memory at a time, so a command of 16 MiB costs no more
//! memory than a small one. A write that fails half-way has written its first blocks; NVMe promises no more.

use byway_flash::Flash;
use byway_spec::{Command, Status};

use super::NvmNamespace;
use super::command::Blocks;
use crate::data_pointer;
use crate::error::CommandError;
use crate::namespace::{Execution, Outcome, Room, sized};
use crate::payload::{HostData, Stage};
use crate::port::Port;

/// Working memory of a transfer. A multiple of the flash's unit.
const CHUNK_BYTES: u64 = 128 << 10;

/// Bytes of a namespace, checked to lie inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
}

impl ByteRange {
    /// Whether both have a byte.
    pub fn meets(self, other: Self) -> bool {
        let (end, other_end) = (self.at.saturating_add(self.len), other.at.saturating_add(other.len));
        self.at < other_end && other.at < end && self.len > 0 && other.len > 0
    }

    /// The range in pieces for working memory, as (place, length). They end where chunks of the namespace do, so
    /// that no unit is written in two parts.
    pub fn chunks(self) -> impl Iterator<Item = (u64, usize)> {
        let end = self.at + self.len;
        let mut at = self.at;
        std::iter::from_fn(move || {
            let here = at;
            let len = (CHUNK_BYTES - here % CHUNK_BYTES).min(end - here);
            at += len;
            (len > 0).then_some((here, len as usize))
        })
    }
}

/// A command that moves blocks, and what it has at hand for it.
struct Transfer<'a, 'p> {
    range: ByteRange,
    /// The host's side of it.
    data: HostData<'a>,
    flash: &'a mut Flash,
    port: &'a mut Port<'p>,
    stage: &'a mut Stage,
    bytes: &'a mut Vec<u8>,
}

impl NvmNamespace {
    /// Checks what a command names, in the namespace and in the host.
    #[inline]
    fn start<'a, 'p>(
        &self,
        execution: &'a mut Execution<'_, 'p>,
        command: &Command,
        blocks: Blocks,
    ) -> Result<Transfer<'a, 'p>, CommandError> {
        let range = self.bytes(blocks)?;
        let Execution { flash, port, room, carried, whole_pages, .. } = execution;
        let Room { mapped, stage, bytes, .. } = &mut **room;
        let data = data_pointer::map(port, mapped, command, range.len as usize, *carried, *whole_pages)?;
        Ok(Transfer { range, data, flash, port, stage, bytes })
    }

    pub(super) fn read(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        blocks: Blocks,
    ) -> Result<Outcome, CommandError> {
        let Transfer { range, data, flash, port, stage, bytes } = self.start(execution, command, blocks)?;
        let mut sink = data.sink(stage)?;
        if let Some(reply) = port.lend_reply(range.len as usize) {
            let read = self.load(flash, port, range.at, &mut reply[..range.len as usize]);
            port.return_reply(reply, if read.is_ok() { range.len as usize } else { 0 });
            port.note_crc(|| flash.kept_crc(self.record.extent, range.at, range.len));
            return read.map(|()| Outcome::OK);
        }
        for (at, len) in range.chunks() {
            let buffer = sized(bytes, len);
            self.load(flash, port, at, buffer)?;
            sink.put(port, buffer)?;
        }
        sink.finish(port)?;
        Ok(Outcome::OK)
    }

    pub(super) fn write(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        blocks: Blocks,
    ) -> Result<Outcome, CommandError> {
        let Transfer { range, data, flash, port, stage, bytes } = self.start(execution, command, blocks)?;
        if let HostData::Carried(carried) = data {
            self.save(flash, port, range.at, carried)?;
            return Ok(Outcome::OK);
        }
        let mut source = data.source(stage);
        for (at, len) in range.chunks() {
            let buffer = sized(bytes, len);
            source.fill(port, buffer)?;
            self.save(flash, port, at, buffer)?;
        }
        Ok(Outcome::OK)
    }

    pub(super) fn compare(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        blocks: Blocks,
    ) -> Result<Outcome, CommandError> {
        let Transfer { range, data, flash, port, stage, bytes } = self.start(execution, command, blocks)?;
        let mut source = data.source(stage);
        for (at, len) in range.chunks() {
            let (ours, theirs) = sized(bytes, 2 * len).split_at_mut(len);
            source.fill(port, theirs)?;
            self.load(flash, port, at, ours)?;
            if ours != theirs {
                return Err(CommandError::new(Status::COMPARE_FAILURE, "the blocks differ from the host's"));
            }
        }
        Ok(Outcome::OK)
    }

    pub(super) fn verify(
        &mut self,
        execution: &mut Execution<'_, '_>,
        blocks: Blocks,
    ) -> Result<Outcome, CommandError> {
        let range = self.bytes(blocks)?;
        let Execution { flash, port, room, .. } = execution;
        for (at, len) in range.chunks() {
            self.load(flash, port, at, sized(&mut room.bytes, len))?;
        }
        Ok(Outcome::OK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_where_chunks_of_the_namespace_do() {
        let range = ByteRange { at: CHUNK_BYTES - 512, len: CHUNK_BYTES + 1024 };
        let chunks: Vec<_> = range.chunks().collect();
        assert_eq!(chunks, [(CHUNK_BYTES - 512, 512), (CHUNK_BYTES, 131_072), (2 * CHUNK_BYTES, 512)]);
    }
}
