//! A range of device memory that a host in this process stores into.

use std::sync::Arc;

use byway_dma::BusAddr;
use byway_link::{HostStep, Lines};
use byway_sys::cacheline::{read_back, store_fence, store_through};
use byway_sys::map::{MapError, Mapping};

use crate::executor::Executor;
use crate::options::Failed;
use crate::windows::byte_memory_at;

/// A range of device memory that a host in this process stores into.
#[derive(Debug, Clone)]
pub struct DeviceWindow {
    kind: Kind,
    executor: Arc<Executor>,
}

/// Which memory, and so how a store reaches it.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Host-managed device memory over CXL.mem.
    Cxl,
    /// The controller memory buffer over MMIO.
    Bytes,
}

/// Why device memory could not be accessed.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// Outside the memory.
    #[error("{len_bytes} bytes at {offset:#x} are outside {memory_bytes} bytes of device memory")]
    Outside {
        /// The first byte.
        offset: u64,
        /// The length.
        len_bytes: u64,
        /// Bytes of the memory.
        memory_bytes: u64,
    },
    /// The mapping refused the access.
    #[error(transparent)]
    Mapping(#[from] MapError),
    /// The device has failed.
    #[error(transparent)]
    Failed(#[from] Failed),
}

impl DeviceWindow {
    /// CXL windows, if the device has any.
    pub(crate) fn cxl(executor: Arc<Executor>) -> Option<Self> {
        (executor.windows().len_bytes() > 0).then_some(Self { kind: Kind::Cxl, executor })
    }

    /// The controller memory buffer.
    pub(crate) fn bytes(executor: Arc<Executor>) -> Self {
        Self { kind: Kind::Bytes, executor }
    }

    /// Bytes of the memory.
    pub fn len_bytes(&self) -> u64 {
        match self.kind {
            Kind::Cxl => self.executor.windows().len_bytes(),
            Kind::Bytes => self.executor.byte_memory().len() as u64,
        }
    }

    /// Its bus address, if commands can point there.
    pub fn bus_addr(&self) -> Option<BusAddr> {
        match self.kind {
            Kind::Cxl => None,
            Kind::Bytes => Some(byte_memory_at()),
        }
    }

    /// Stores `bytes` at `offset`.
    ///
    /// # Errors
    /// Outside the memory; the device has failed.
    pub fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), WindowError> {
        let executor = &self.executor;
        match self.kind {
            Kind::Cxl => {
                let (map, at) = self.window(offset, bytes.len())?;
                store_through(&map, at, bytes)?;
                let lines = Lines::of(at as u64, bytes.len() as u64);
                executor.host_meter().cxl_store(lines.count, lines.partial);
                executor.clock().charge(HostStep::CxlStore { lines: lines.count }, 1);
            }
            Kind::Bytes => {
                let at = usize::try_from(offset).map_err(|_| self.outside(offset, bytes.len()))?;
                let stored = store_through(executor.byte_memory().mapping(), at, bytes);
                stored.map_err(|_| self.outside(offset, bytes.len()))?;
                executor.host_meter().byte_store(bytes.len() as u64);
                executor.clock().charge(HostStep::ByteStore { bytes: bytes.len() as u32 }, 1);
            }
        }
        Ok(())
    }

    /// Completes stores: a fence, then a read of the byte at `last`.
    ///
    /// # Errors
    /// Outside the memory; the device has failed.
    pub fn settle(&self, last: u64) -> Result<(), WindowError> {
        store_fence();
        let executor = &self.executor;
        match self.kind {
            Kind::Cxl => {
                let (map, at) = self.window(last, 1)?;
                read_back(&map, at)?;
                executor.host_meter().cxl_load(1);
                executor.clock().charge(HostStep::CxlReadBack, 1);
            }
            Kind::Bytes => {
                let at = usize::try_from(last).map_err(|_| self.outside(last, 1))?;
                read_back(executor.byte_memory().mapping(), at).map_err(|_| self.outside(last, 1))?;
                executor.host_meter().register_read(8);
            }
        }
        Ok(())
    }

    /// The memory of a window; the list of namespaces is updated if it is not found.
    fn window(&self, offset: u64, len_bytes: usize) -> Result<(Arc<Mapping>, usize), WindowError> {
        let windows = self.executor.windows();
        if let Some(found) = windows.find(offset, len_bytes) {
            return Ok(found);
        }
        self.executor.with_core(|core| windows.refresh(&mut core.subsystem))?;
        windows.find(offset, len_bytes).ok_or_else(|| self.outside(offset, len_bytes))
    }

    fn outside(&self, offset: u64, len_bytes: usize) -> WindowError {
        WindowError::Outside { offset, len_bytes: len_bytes as u64, memory_bytes: self.len_bytes() }
    }
}
