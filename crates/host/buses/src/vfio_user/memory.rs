//! Memory on both sides: what this process shares with the device, and what of the device this process stores into.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use byway_dma::{BusAddr, DmaMemory};
use byway_driver::{BusError, DeviceMemory};
use byway_sys::map::{Mapping, PAGE_BYTES, Sharing};
use byway_sys::memfd;
use byway_vfio_user_wire::{Access, DmaMap, DmaRange, Errno, RegionIndex, Reply, Request};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};

use super::connection::{Connection, DATA_BYTES_MAX, Fault, HostBytes};
use crate::mapped::{MappedBar, inside};
use crate::room::Room;

/// Bytes of one shared file, unless more are asked for at once. No page of it is taken before it is used.
const CHUNK_BYTES: u64 = 64 << 20;

/// Bus address of the first file: neither 0, nor in the range of a PC's 32-bit devices.
const FIRST_AT: u64 = 1 << 32;

/// What the device may touch: files in memory of which parts are lent. Each is mapped at the server once, so that memory that
/// comes and goes costs no message and no descriptor.
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    inner: Mutex<Inner>,
    /// Held by the thread that maps one more file at the server.
    growing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    chunks: Vec<Chunk>,
    /// What is lent, by where it is mapped in this process.
    lent: BTreeMap<usize, Lent>,
    /// Where it is mapped in this process, by bus address.
    places: BTreeMap<u64, usize>,
    /// Where files end that were mapped at the server. One that has not said whether it took a file may have it all the same.
    end: u64,
}

#[derive(Debug)]
struct Chunk {
    file: Arc<File>,
    at: u64,
    bytes: u64,
    room: Room,
}

#[derive(Clone, Copy, Debug)]
struct Lent {
    at: u64,
    bytes: u64,
}

impl HostMemory {
    /// Zeroed memory of at least `len_bytes`, which the server knows.
    ///
    /// # Errors
    /// When there is none, or the server does not take it.
    pub(crate) fn lend(&self, connection: &Connection, len_bytes: usize) -> Result<DmaMemory, BusError> {
        let bytes = len_bytes.checked_next_multiple_of(PAGE_BYTES).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| BusError::Mapping(format!("no memory has {len_bytes} bytes")))?;
        // Memory of a lost server is not lent again: the server may still be there, and write it.
        connection.check()?;
        loop {
            if let Some(lent) = self.take(bytes)? {
                return Ok(lent);
            }
            self.grow(connection, bytes as u64)?;
        }
    }

    /// Where the device sees memory that was lent.
    ///
    /// # Errors
    /// For any other memory.
    pub(crate) fn find(&self, memory: &DmaMemory) -> Result<BusAddr, BusError> {
        let found = self.inner.lock().lent.get(&address(memory)).copied();
        found.map(|lent| BusAddr(lent.at)).ok_or_else(|| {
            BusError::Mapping("another process can be given memory alone that this bus has made".to_owned())
        })
    }

    /// Takes memory back. It is zeroes when it is lent again.
    ///
    /// # Errors
    /// When nothing stands there.
    pub(crate) fn take_back(&self, at: BusAddr) -> Result<(), BusError> {
        let mut inner = self.inner.lock();
        let address = inner.places.remove(&at.0);
        let lent = address.and_then(|address| inner.lent.remove(&address));
        let lent = lent.ok_or_else(|| BusError::Mapping(format!("nothing is mapped at {:#x}", at.0)))?;
        inner.free(lent);
        Ok(())
    }

    fn take(&self, bytes: usize) -> Result<Option<DmaMemory>, BusError> {
        let mut inner = self.inner.lock();
        let Some((file, offset, lent)) = inner.take(bytes as u64) else { return Ok(None) };
        let mapped = Mapping::file(&file, offset, bytes, Sharing::Shared);
        let memory = match mapped {
            Ok(mapping) => DmaMemory::from_mapping(mapping),
            Err(cause) => {
                inner.free(lent);
                return Err(BusError::Mapping(format!("no memory of {bytes} bytes: {cause}")));
            }
        };
        inner.places.insert(lent.at, address(&memory));
        if let Some(dropped) = inner.lent.insert(address(&memory), lent) {
            // It was dropped without ever having been mapped: its place in this process is another's now.
            inner.places.remove(&dropped.at);
            inner.free(dropped);
        }
        Ok(Some(memory))
    }

    /// Shares one more file with the server. Nothing that answers the server is locked meanwhile.
    fn grow(&self, connection: &Connection, bytes: u64) -> Result<(), BusError> {
        let _growing = self.growing.lock();
        if self.inner.lock().has_room(bytes) {
            return Ok(());
        }
        let bytes = bytes.max(CHUNK_BYTES);
        let next = self.inner.lock().next_at(bytes);
        let file = memfd::sealed("byway", bytes);
        let file = file.map_err(|cause| BusError::Mapping(format!("no file in memory: {cause}")))?;
        share(connection, self, &file, next, bytes)?;
        let chunk = Chunk { file: Arc::new(file), at: next, bytes, room: Room::new(bytes) };
        self.inner.lock().chunks.push(chunk);
        Ok(())
    }

    /// The file that holds all of `len` bytes at a bus address, and where in it.
    fn locate(&self, address: u64, len: usize) -> Option<(Arc<File>, u64)> {
        let inner = self.inner.lock();
        let chunk = inner.chunks.iter().find(|chunk| address.wrapping_sub(chunk.at) < chunk.bytes)?;
        let offset = address - chunk.at;
        (len as u64 <= chunk.bytes - offset).then(|| (Arc::clone(&chunk.file), offset))
    }
}

/// Maps a file at the server.
fn share(
    connection: &Connection,
    host: &HostMemory,
    file: &File,
    at: u64,
    bytes: u64,
) -> Result<(), BusError> {
    let range = DmaRange::new(at, bytes).map_err(|wrong| BusError::Mapping(wrong.to_string()))?;
    let map = DmaMap { range, file_offset: 0, readable: true, writable: true };
    let mapped = connection.ask(&Request::DmaMap(map), &[file.as_fd()], host, |reply, _| match reply {
        Reply::Done => Ok(()),
        other => Err(format!("{other:?} to a mapping")),
    });
    mapped.map_err(|fault| match fault {
        Fault::Refused(errno) if errno != Errno::EBUSY => {
            BusError::Mapping(format!("the server does not take memory of {bytes} bytes: {errno}"))
        }
        other => other.into(),
    })
}

impl Inner {
    /// Addresses for one more file. Files never touch: an access that runs over an end meets a hole.
    fn next_at(&mut self, bytes: u64) -> u64 {
        let next = self.end.max(FIRST_AT).next_multiple_of(CHUNK_BYTES) + CHUNK_BYTES;
        self.end = next + bytes;
        next
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.chunks.iter().any(|chunk| chunk.room.has(bytes))
    }

    fn take(&mut self, bytes: u64) -> Option<(Arc<File>, u64, Lent)> {
        self.chunks.iter_mut().find_map(|chunk| {
            let offset = chunk.room.take(bytes)?;
            Some((Arc::clone(&chunk.file), offset, Lent { at: chunk.at + offset, bytes }))
        })
    }

    fn free(&mut self, lent: Lent) {
        let chunk = self.chunks.iter_mut().find(|chunk| lent.at.wrapping_sub(chunk.at) < chunk.bytes);
        let Some(chunk) = chunk else { return };
        let offset = lent.at - chunk.at;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Pages that cannot be given back would not be zeroes: then the room is not used again.
        if fallocate(&chunk.file, hole, offset, lent.bytes).is_ok() {
            chunk.room.give_back(offset, lent.bytes);
        }
    }
}

impl HostBytes for HostMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let found = self.locate(address, into.len());
        found.is_some_and(|(file, offset)| file.read_exact_at(into, offset).is_ok())
    }

    fn write(&self, address: u64, from: &[u8]) -> bool {
        let found = self.locate(address, from.len());
        found.is_some_and(|(file, offset)| file.write_all_at(from, offset).is_ok())
    }
}

fn address(memory: &DmaMemory) -> usize {
    memory.mapping().as_ptr().addr()
}

/// A connection, and what is shared over it.
#[derive(Debug)]
pub(crate) struct Link {
    pub connection: Connection,
    pub host: HostMemory,
}

impl Link {
    /// Asks for bytes of a region.
    pub(crate) fn read_region(&self, region: RegionIndex, offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = Access { region, offset, bytes: into.len() as u32 };
        self.connection.ask(&Request::RegionRead(from), &[], &self.host, |reply, _| match reply {
            Reply::RegionRead { from: at, data } if at == from && data.len() == into.len() => {
                into.copy_from_slice(data);
                Ok(())
            }
            other => Err(format!("{other:?} to a read of {from:?}")),
        })
    }

    /// Writes bytes of a region, and waits until that is done.
    pub(crate) fn write_region(&self, region: RegionIndex, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let to = Access { region, offset, bytes: data.len() as u32 };
        let request = Request::RegionWrite { to, data };
        self.connection.ask(&request, &[], &self.host, |reply, _| match reply {
            Reply::RegionWritten(at) if at == to => Ok(()),
            other => Err(format!("{other:?} to a write of {to:?}")),
        })
    }

    /// Writes bytes of a region without waiting for the reply.
    pub(crate) fn post_region(&self, region: RegionIndex, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let to = Access { region, offset, bytes: data.len() as u32 };
        self.connection.post(&Request::RegionWrite { to, data })
    }
}

/// Device memory in a BAR.
#[derive(Clone, Debug)]
pub enum DeviceMemoryBar {
    /// The server shares all of it.
    Mapped(MappedBar),
    /// It is stored into by messages.
    Messages(MessageBar),
}

/// Device memory that no descriptor came with.
#[derive(Clone, Debug)]
pub struct MessageBar {
    pub(crate) link: Arc<Link>,
    pub(crate) region: RegionIndex,
    pub(crate) bytes: u64,
}

impl DeviceMemory for DeviceMemoryBar {
    fn len_bytes(&self) -> u64 {
        match self {
            Self::Mapped(bar) => bar.len_bytes(),
            Self::Messages(bar) => bar.bytes,
        }
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        None
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        match self {
            Self::Mapped(bar) => bar.store(offset, bytes),
            Self::Messages(bar) => bar.store(offset, bytes),
        }
    }

    fn settle(&self, last: u64) -> Result<(), BusError> {
        match self {
            Self::Mapped(bar) => bar.settle(last),
            Self::Messages(bar) => bar.settle(last),
        }
    }
}

impl MessageBar {
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        inside(offset, bytes.len(), self.bytes)?;
        let most = self.link.connection.server().max_data_xfer_size().clamp(1, DATA_BYTES_MAX) as usize;
        let mut at = offset;
        for piece in bytes.chunks(most) {
            self.link.post_region(self.region, at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn settle(&self, last: u64) -> Result<(), BusError> {
        inside(last, 1, self.bytes)?;
        // Messages are taken in their order: with this answer all before it were.
        Ok(self.link.read_region(self.region, last, &mut [0])?)
    }
}
