//! Device memory that is mapped into this process.

use std::sync::Arc;

use byway_dma::BusAddr;
use byway_driver::{BusError, DeviceMemory};
use byway_sys::cacheline::{read_back, store_fence, store_through};
use byway_sys::map::Mapping;

/// Most of a BAR that is mapped: no device has more memory than address space is left for.
pub(crate) const MAPPED_BYTES_MAX: u64 = 1 << 40;

/// A BAR of device memory, mapped whole.
#[derive(Clone, Debug)]
pub struct MappedBar(Arc<Mapping>);

impl MappedBar {
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self(Arc::new(mapping))
    }
}

impl DeviceMemory for MappedBar {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        None
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        let at = inside(offset, bytes.len(), self.len_bytes())?;
        store_through(&self.0, at, bytes).map_err(|_| outside(offset, bytes.len(), self.len_bytes()))
    }

    fn settle(&self, last: u64) -> Result<(), BusError> {
        let at = inside(last, 1, self.len_bytes())?;
        store_fence();
        read_back(&self.0, at).map(drop).map_err(|_| outside(last, 1, self.len_bytes()))
    }
}

/// Offset of a range in memory of `memory_bytes`.
///
/// # Errors
/// When it is not inside.
pub(crate) fn inside(offset: u64, len_bytes: usize, memory_bytes: u64) -> Result<usize, BusError> {
    let inside = offset.checked_add(len_bytes as u64).is_some_and(|end| end <= memory_bytes);
    let at = usize::try_from(offset).ok().filter(|_| inside);
    at.ok_or_else(|| outside(offset, len_bytes, memory_bytes))
}

fn outside(offset: u64, len_bytes: usize, memory_bytes: u64) -> BusError {
    BusError::OutsideMemory { offset, len_bytes: len_bytes as u64, memory_bytes }
}
