//! Memory that stays mapped for as long as it is used.

use std::sync::Arc;

use byway_core::encode::Data;
use byway_core::{Buffer, BufferPool, Carried, Error, ErrorKind, Payload, Registrar, Result};
use byway_dma::{BusAddr, DmaMemory};
use byway_spec::base::register::Register;
use byway_sys::ProcessLocal;

use crate::bus::{Bus, BusError};

/// Zeroed memory of the driver's own, mapped until it is dropped.
pub(crate) struct Mapped<B: Bus> {
    bus: ProcessLocal<Arc<B>>,
    memory: Arc<DmaMemory>,
    at: BusAddr,
}

impl<B: Bus> Mapped<B> {
    /// `len` bytes, rounded up to pages.
    ///
    /// # Errors
    /// When there is no memory, or it cannot be mapped.
    pub(crate) fn zeroed(bus: &Arc<B>, len: usize) -> Result<Self> {
        let memory = Arc::new(bus.memory(len).map_err(from_bus)?);
        let at = bus.map(&memory).map_err(from_bus)?;
        Ok(Self { bus: Arc::clone(bus).into(), memory, at })
    }

    /// The memory.
    #[inline]
    pub(crate) fn memory(&self) -> &Arc<DmaMemory> {
        &self.memory
    }

    /// Where the device sees it.
    #[inline]
    pub(crate) fn bus_addr(&self) -> BusAddr {
        self.at
    }
}

impl<B: Bus> Drop for Mapped<B> {
    fn drop(&mut self) {
        // To the device, the memory is that of the process that mapped it.
        if !self.bus.owner().is_current() {
            return;
        }
        // A bus that cannot unmap has lost its device; no device is left to touch the memory.
        let _ = self.bus.unmap(self.at);
    }
}

/// Prepares the memory of a buffer pool: maps it. The token is its bus address.
pub(crate) struct MapForBus<B: Bus>(pub(crate) Arc<B>);

impl<B: Bus> Registrar for MapForBus<B> {
    fn memory(&self, len_bytes: usize) -> Result<Arc<DmaMemory>> {
        self.0.memory(len_bytes).map(Arc::new).map_err(from_bus)
    }

    fn register(&self, memory: &Arc<DmaMemory>) -> Result<u64> {
        Ok(self.0.map(memory).map_err(from_bus)?.0)
    }

    fn unregister(&self, _: &Arc<DmaMemory>, token: u64) {
        // As for `Mapped`.
        let _ = self.0.unmap(BusAddr(token));
    }
}

/// Whether the device can access a command's data directly, or the command has none.
#[inline]
pub(crate) fn stands_well<B: Bus>(command: &impl Carried, pool: &BufferPool) -> bool {
    match command.data() {
        Data::Out(Payload::Buffer(buffer)) | Data::In(buffer) | Data::Both { buffer, .. } => {
            is_reached::<B>(buffer, pool)
        }
        // Inline bytes are copied to memory that the device can read.
        Data::None | Data::Out(Payload::Empty | Payload::Small(_)) => true,
        Data::Out(Payload::Vectored(_)) | Data::InVectored(_) => false,
    }
}

/// Whether a buffer is mapped, or can be for a command.
#[inline]
fn is_reached<B: Bus>(buffer: &Buffer, pool: &BufferPool) -> bool {
    buffer.prepared(pool).is_some() || buffer.is_empty() || B::MAPS_ANY_MEMORY && buffer.memory().is_some()
}

/// Where the device sees a buffer that was prepared for it.
#[inline]
pub(crate) fn prepared_at(buffer: &Buffer, pool: &BufferPool) -> Option<BusAddr> {
    buffer.prepared(pool).map(|at| BusAddr(at.token + at.offset_bytes))
}

/// The pages of a buffer that was found to stand in pages before.
pub(crate) fn pages_of(buffer: &Buffer) -> Result<&Arc<DmaMemory>> {
    let unknown = || Error::host(ErrorKind::Unsupported, "a device can be given memory in whole pages alone");
    buffer.memory().ok_or_else(unknown)
}

/// Whether the device is gone, so that memory that a command named is not touched any more.
pub(crate) fn is_gone<B: Bus>(bus: &B) -> bool {
    matches!(bus.read_register(Register::CSTS.0, 4), Err(BusError::Gone(_)))
}

/// A failure of the bus as an error of the API.
#[cold]
pub(crate) fn from_bus(cause: BusError) -> Error {
    match cause {
        BusError::Gone(_) => Error::device(ErrorKind::DeviceLost, cause.to_string()),
        BusError::Silent(_) => Error::device(ErrorKind::TimedOut, cause.to_string()),
        BusError::NoRegister { .. } | BusError::Protocol(_) => {
            Error::device(ErrorKind::Protocol, cause.to_string())
        }
        BusError::Unready(_) => Error::host(ErrorKind::NotFound, cause.to_string()),
        BusError::Busy(_) => Error::host(ErrorKind::Busy, cause.to_string()),
        BusError::NoEvent { .. } => Error::host(ErrorKind::Unsupported, cause.to_string()),
        BusError::Mapping(_) => Error::host(ErrorKind::System, cause.to_string()),
        BusError::OutsideMemory { .. } => Error::host(ErrorKind::TooLarge, cause.to_string()),
    }
}
