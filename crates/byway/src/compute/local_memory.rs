//! Synchronous calls to a namespace of local memory.

use byway_core::{
    Backend, BackendQueue, Error, ErrorKind, Nsid, Outcome, Payload, RawCommand, RawData, Result,
};
use byway_spec::Command as Entry;
use byway_spec::base::identify::Csi;
use byway_spec::memory::{
    MEMORY_ALIGN_BYTES, MemoryCopyBlocks, MemoryCopyBytes, MemoryCopyCdw12, MemoryOpcode,
};
use zerocopy::FromZeros;

use super::namespaces::check_set;
use crate::calls::{Queue, Scratch};
use crate::device::Device;

/// Most bytes of one command.
const STEP_BYTES: u64 = 1 << 20;

/// A namespace of local memory, with a queue of its own. One thread uses it.
///
/// Positions and lengths are in bytes, and multiples of 4; programs access single bytes.
pub struct LocalMemory {
    queue: Queue,
    nsid: Nsid,
    size_bytes: u64,
    /// Most bytes that one command moves.
    step_bytes: usize,
    /// What borrowed bytes travel in.
    scratch: Scratch,
}

/// Where [`LocalMemory::copy`] copies from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// Blocks of a namespace of blocks.
    Blocks {
        /// The namespace.
        nsid: Nsid,
        /// First block.
        slba: u64,
        /// Blocks, at most 65,536.
        blocks: u32,
    },
    /// Bytes of a namespace of local memory: this one, or another.
    Memory {
        /// The namespace.
        nsid: Nsid,
        /// First byte.
        start: u64,
        /// Bytes.
        len_bytes: u32,
    },
}

impl LocalMemory {
    pub(super) fn open(device: &Device, nsid: Nsid) -> Result<Self> {
        check_set(device, nsid, Csi::SLM, "local memory")?;
        let size_bytes = device.namespace(nsid)?.size_bytes;
        let most_bytes = device.capabilities().limits.transfer_bytes.min(STEP_BYTES);
        let step_bytes = (most_bytes - most_bytes % MEMORY_ALIGN_BYTES).max(MEMORY_ALIGN_BYTES) as usize;
        let queue = device.default_queue()?;
        Ok(Self { queue, nsid, size_bytes, step_bytes, scratch: Scratch::default() })
    }

    /// The namespace.
    pub fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The queue beneath, for commands and completions of one's own.
    pub fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Writes `data` from byte `start` on.
    ///
    /// # Errors
    /// A position or a length that is no multiple of 4; a range outside the memory; what the device says.
    pub fn write(&mut self, start: u64, data: &[u8]) -> Result<()> {
        self.check(start, data.len() as u64)?;
        let mut at = start;
        for part in data.chunks(self.step_bytes) {
            let copy = self.scratch.copy_of(part)?;
            let entry = self.entry(MemoryOpcode::WRITE, at, part.len() as u32);
            let sent = self.execute(entry, RawData::ToDevice(copy.into()))?.buffer;
            self.scratch.keep(sent);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Reads from byte `start` on.
    ///
    /// # Errors
    /// As [`LocalMemory::write`].
    pub fn read(&mut self, start: u64, into: &mut [u8]) -> Result<()> {
        self.check(start, into.len() as u64)?;
        let mut at = start;
        for part in into.chunks_mut(self.step_bytes) {
            let buffer = self.scratch.take(part.len())?;
            let entry = self.entry(MemoryOpcode::READ, at, part.len() as u32);
            let read = self.execute(entry, RawData::FromDevice(buffer))?.buffer;
            let bytes = read.as_ref().and_then(|read| read.as_slice().get(..part.len()));
            part.copy_from_slice(bytes.ok_or_else(no_data)?);
            self.scratch.keep(read);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Sets bytes to zero.
    ///
    /// # Errors
    /// As [`LocalMemory::write`].
    pub fn fill(&mut self, start: u64, len_bytes: u32) -> Result<()> {
        self.check(start, len_bytes.into())?;
        let entry = self.entry(MemoryOpcode::FILL, start, len_bytes);
        self.execute(entry, RawData::None).map(drop)
    }

    /// Copies `sources`, one behind the other, to byte `start` on, within the device; `len_bytes` is how long they are together. Byway's
    /// device copies at most 1 MiB by one call, and from no namespace of keys.
    ///
    /// # Errors
    /// No source, more than 256, or of both kinds; a source outside its namespace, one that overlaps the destination, other sources than
    /// `len_bytes` says; what the device says.
    pub fn copy(&mut self, start: u64, len_bytes: u64, sources: &[CopySource]) -> Result<()> {
        let format = CopySource::format(sources)?;
        let ranges_z = u8::try_from(sources.len() - 1).map_err(|_| too_many())?;
        let mut entry = self.entry(MemoryOpcode::COPY, start, 0);
        (entry.cdw2, entry.cdw3) = (len_bytes as u32, (len_bytes >> 32) as u32);
        entry.cdw12 = MemoryCopyCdw12::new().with_format(format).with_ranges_z(ranges_z).into_bits();
        let descriptors = sources.iter().map(|source| source.descriptor()).collect::<Result<Vec<_>>>()?;
        self.execute(entry, RawData::ToDevice(Payload::copy_of(descriptors.as_flattened())?)).map(drop)
    }

    fn check(&self, start: u64, len_bytes: u64) -> Result<()> {
        if !start.is_multiple_of(MEMORY_ALIGN_BYTES) || !len_bytes.is_multiple_of(MEMORY_ALIGN_BYTES) {
            let said = format!("{len_bytes} bytes at {start} are no whole dwords of local memory");
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        if start.checked_add(len_bytes).is_none_or(|end| end > self.size_bytes) {
            let said = format!("{len_bytes} bytes at {start} are outside a memory of {}", self.size_bytes);
            return Err(Error::host(ErrorKind::OutOfRange, said));
        }
        Ok(())
    }

    fn entry(&self, opcode: MemoryOpcode, start: u64, len_bytes: u32) -> Entry {
        let mut entry = Entry::new(opcode.0, 0, self.nsid.get());
        (entry.cdw10, entry.cdw11, entry.cdw12) = (start as u32, (start >> 32) as u32, len_bytes);
        entry
    }

    fn execute(&mut self, entry: Entry, data: RawData) -> Result<Outcome> {
        self.queue.execute(RawCommand { entry, data }.into())
    }
}

impl CopySource {
    /// The format of the descriptors that all sources have.
    fn format(sources: &[Self]) -> Result<u8> {
        let is_blocks = |source: &Self| matches!(source, Self::Blocks { .. });
        match sources.first() {
            None => Err(Error::host(ErrorKind::InvalidArgument, "a copy has at least one source")),
            Some(first) if sources.iter().any(|source| is_blocks(source) != is_blocks(first)) => Err(
                Error::host(ErrorKind::InvalidArgument, "a copy is of blocks or of local memory, not both"),
            ),
            Some(Self::Blocks { .. }) => Ok(MemoryCopyCdw12::FORMAT_BLOCKS),
            Some(Self::Memory { .. }) => Ok(MemoryCopyCdw12::FORMAT_BYTES),
        }
    }

    fn descriptor(self) -> Result<[u8; 32]> {
        Ok(match self {
            Self::Blocks { nsid, slba, blocks } => {
                let nlb_z = blocks.checked_sub(1).and_then(|nlb_z| u16::try_from(nlb_z).ok());
                let nlb_z = nlb_z.ok_or_else(|| number_of(blocks))?;
                let blocks =
                    MemoryCopyBlocks { snsid: nsid.get(), slba, nlb_z, ..MemoryCopyBlocks::new_zeroed() };
                zerocopy::transmute!(blocks)
            }
            Self::Memory { nsid, start, len_bytes } => {
                let bytes = MemoryCopyBytes {
                    snsid: nsid.get(),
                    start,
                    length_bytes: len_bytes,
                    ..MemoryCopyBytes::new_zeroed()
                };
                zerocopy::transmute!(bytes)
            }
        })
    }
}

fn no_data() -> Error {
    Error::device(ErrorKind::Protocol, "the device gave less of its memory than was read")
}

fn number_of(blocks: u32) -> Error {
    Error::host(ErrorKind::InvalidArgument, format!("a source has from 1 to 65536 blocks, not {blocks}"))
}

fn too_many() -> Error {
    Error::host(ErrorKind::InvalidArgument, "a copy has at most 256 sources")
}
