//! The memory as a medium, and as a controller with one namespace of blocks.

use std::io;

use byway_core::{
    Capabilities, Command, Error, ErrorKind, Failed, Identity, Memory, Namespace, NamespaceKind, Nsid,
    Outcome, Result,
};
use byway_sys::{Mapping, RangeChange};

use crate::request::Request;
use crate::synchronous::Synchronous;
use crate::target::{Shape, TRANSFER_MAX_BYTES, blocks_capabilities};
use crate::work::{self, Medium};

/// Bytes of a block.
const LBA_BYTES: u32 = 512;

/// Blocks in memory.
#[derive(Debug)]
pub struct RamDisk {
    memory: Mapping,
    blocks: u64,
    identity: Identity,
}

impl RamDisk {
    /// One of `size_bytes` zeroes, in blocks of 512 bytes. Memory is taken from the system where it is written first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a size below a block, and when there is no room in the process.
    pub fn new(size_bytes: u64) -> Result<Self> {
        let blocks = size_bytes / u64::from(LBA_BYTES);
        if blocks == 0 {
            let said = format!("{size_bytes} bytes have no room for a block of {LBA_BYTES} bytes");
            return Err(Error::host(ErrorKind::InvalidArgument, said));
        }
        let none = |cause| Error::kernel(format!("no memory for {size_bytes} bytes of blocks"), cause);
        let len = usize::try_from(blocks * u64::from(LBA_BYTES))
            .map_err(|_| none(io::ErrorKind::OutOfMemory.into()))?;
        let memory = Mapping::anonymous(len).map_err(none)?;
        let identity = Identity { model: "Byway ram".into(), ..Identity::default() };
        Ok(Self { memory, blocks, identity })
    }
}

/// A place that a checked command names.
fn place(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(io::Error::other)
}

impl Medium for RamDisk {
    fn shape(&self) -> Shape {
        Shape {
            lba_shift: LBA_BYTES.trailing_zeros(),
            blocks: self.blocks,
            transfer_max_bytes: TRANSFER_MAX_BYTES,
            align_bytes: 1,
            read_only: false,
        }
    }

    #[inline]
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.memory.read_at(place(at)?, into).map_err(io::Error::other)?;
        Ok(into.len())
    }

    #[inline]
    fn write_at(&self, at: u64, from: &[u8]) -> io::Result<usize> {
        self.memory.write_at(place(at)?, from).map_err(io::Error::other)?;
        Ok(from.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn change(&self, at: u64, len_bytes: u64, _: RangeChange) -> io::Result<()> {
        self.memory.fill_at(place(at)?, place(len_bytes)?, 0).map_err(io::Error::other)
    }

    fn ended(&self, at: u64) -> Error {
        Error::host(ErrorKind::OutOfRange, format!("the memory ends before byte {at}"))
    }
}

impl Synchronous for RamDisk {
    type Request = Request;

    #[inline]
    fn check(&self, command: &Command) -> Result<Request> {
        Request::of(command, &self.shape())
    }

    #[inline]
    fn perform(&self, request: Request, memory: Memory) -> Result<Outcome, Failed> {
        work::run_over(self, request, memory)
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self, overlaps: bool, cancel: bool) -> Capabilities {
        Capabilities { overlaps, cancel, ..blocks_capabilities() }
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        let kind = NamespaceKind::Nvm { lba_bytes: LBA_BYTES, blocks: self.blocks };
        let size_bytes = self.blocks * u64::from(LBA_BYTES);
        Ok(vec![Namespace { nsid: Nsid::FIRST, kind, size_bytes, used_bytes: size_bytes, nguid: [0; 16] }])
    }
}
