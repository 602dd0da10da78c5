//! Memory of the device that the host stores into: CXL windows, and the controller memory buffer.

use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use byway_controller::{CmbRegisters, Subsystem};
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace};
use byway_driver::{BusError, DeviceMemory};
use byway_link::{HostStep, Lines};
use byway_spec::base::register::{Cmbloc, Cmbsz};
use byway_sys::cacheline::{read_back, store_fence, store_through};
use byway_sys::map::{MapError, Mapping};

use crate::shared::Shared;

/// Bus address of the controller memory buffer, far above what the host maps.
const CMB_BASE: u64 = 1 << 46;

/// Bytes of the controller memory buffer.
pub(crate) const CMB_BYTES: usize = 1 << 20;

/// Windows of every key-value namespace, as one stretch of device memory: each namespace's windows stand where its
/// identifier puts them, whether it is there or not.
#[derive(Debug)]
pub(crate) struct Windows {
    window_bytes: u64,
    pub(crate) len_bytes: u64,
    /// Held weakly: a namespace that is deleted takes its memory along.
    areas: RwLock<Vec<Area>>,
}

#[derive(Debug)]
struct Area {
    first_byte: u64,
    memory: Weak<Mapping>,
}

impl Windows {
    /// The windows of `subsystem`'s namespaces.
    pub fn new(subsystem: &mut Subsystem) -> Self {
        let shape = subsystem.window_shape();
        let per_namespace = shape.window_bytes * u64::from(shape.count);
        let windows = Self {
            window_bytes: shape.window_bytes,
            len_bytes: per_namespace * u64::from(byway_controller::MAX_NAMESPACES),
            areas: RwLock::default(),
        };
        windows.refresh(subsystem);
        windows
    }

    /// Looks anew at which namespaces there are.
    fn refresh(&self, subsystem: &mut Subsystem) {
        let area = |(first, memory): (u32, Arc<Mapping>)| Area {
            first_byte: u64::from(first) * self.window_bytes,
            memory: Arc::downgrade(&memory),
        };
        let areas = subsystem.window_memory().into_iter().map(area).collect();
        *self.areas.write().unwrap_or_else(PoisonError::into_inner) = areas;
    }

    /// The memory that holds `len_bytes` bytes from `offset` on, and where in it they are.
    fn find(&self, offset: u64, len_bytes: usize) -> Option<(Arc<Mapping>, usize)> {
        let areas = self.areas.read().unwrap_or_else(PoisonError::into_inner);
        let area = areas.iter().rev().find(|area| area.first_byte <= offset)?;
        let memory = area.memory.upgrade()?;
        let at = usize::try_from(offset - area.first_byte).ok()?;
        (at.checked_add(len_bytes)? <= memory.len()).then_some((memory, at))
    }
}

/// Memory of the device as the host sees it.
#[derive(Debug, Clone)]
pub struct Window {
    kind: Kind,
    shared: Arc<Shared>,
}

/// Which of the device's memories, and so how a store reaches it.
#[derive(Debug, Clone)]
enum Kind {
    /// Host-managed device memory over CXL.mem.
    Cxl,
    /// Controller memory buffer over MMIO.
    Bytes(Arc<DmaMemory>),
}

impl DeviceMemory for Window {
    fn len_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Cxl => self.shared.windows.len_bytes,
            Kind::Bytes(memory) => memory.len() as u64,
        }
    }

    fn bus_addr(&self) -> Option<BusAddr> {
        match self.kind {
            Kind::Cxl => None,
            Kind::Bytes(_) => Some(byte_memory_at()),
        }
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), BusError> {
        let shared = &self.shared;
        match &self.kind {
            Kind::Cxl => {
                let (map, at) = self.window(offset, bytes.len())?;
                store_through(&map, at, bytes).map_err(unmapped)?;
                let lines = Lines::of(at as u64, bytes.len() as u64);
                shared.host_meter.cxl_store(lines.count, lines.partial);
                shared.clock.charge(HostStep::CxlStore { lines: lines.count }, 1);
            }
            Kind::Bytes(memory) => {
                let at = usize::try_from(offset).map_err(|_| self.outside(offset, bytes.len()))?;
                store_through(memory.mapping(), at, bytes).map_err(|_| self.outside(offset, bytes.len()))?;
                shared.host_meter.byte_store(bytes.len() as u64);
                shared.clock.charge(HostStep::ByteStore { bytes: bytes.len() as u32 }, 1);
            }
        }
        Ok(())
    }

    fn settle(&self, last: u64) -> Result<(), BusError> {
        store_fence();
        match &self.kind {
            Kind::Cxl => {
                let (map, at) = self.window(last, 1)?;
                read_back(&map, at).map_err(unmapped)?;
                self.shared.host_meter.cxl_load(1);
                self.shared.clock.charge(HostStep::CxlReadBack, 1);
            }
            Kind::Bytes(memory) => {
                let at = usize::try_from(last).map_err(|_| self.outside(last, 1))?;
                read_back(memory.mapping(), at).map_err(|_| self.outside(last, 1))?;
                self.shared.host_meter.register_read(8);
            }
        }
        Ok(())
    }
}

impl Window {
    /// The windows, if the device has any.
    pub(crate) fn cxl(shared: Arc<Shared>) -> Option<Self> {
        (shared.windows.len_bytes > 0).then_some(Self { kind: Kind::Cxl, shared })
    }

    /// The controller memory buffer.
    pub(crate) fn bytes(memory: Arc<DmaMemory>, shared: Arc<Shared>) -> Self {
        Self { kind: Kind::Bytes(memory), shared }
    }

    /// The memory of a window; looked for anew if a namespace was made since.
    fn window(&self, offset: u64, len_bytes: usize) -> Result<(Arc<Mapping>, usize), BusError> {
        let windows = &self.shared.windows;
        if let Some(found) = windows.find(offset, len_bytes) {
            return Ok(found);
        }
        self.shared.with_core(|core| windows.refresh(&mut core.subsystem))?;
        windows.find(offset, len_bytes).ok_or_else(|| self.outside(offset, len_bytes))
    }

    fn outside(&self, offset: u64, len_bytes: usize) -> BusError {
        BusError::OutsideMemory { offset, len_bytes: len_bytes as u64, memory_bytes: self.len_bytes() }
    }
}

fn unmapped(error: MapError) -> BusError {
    BusError::Mapping(error.to_string())
}

/// Where the controller memory buffer stands on the bus.
pub(crate) fn byte_memory_at() -> BusAddr {
    BusAddr(CMB_BASE)
}

/// Puts the controller memory buffer where hosts in this process reach it; the registers that announce it.
pub(crate) fn map_byte_memory(space: &DmaSpace, memory: &Arc<DmaMemory>) -> io::Result<CmbRegisters> {
    space.map(Arc::clone(memory), byte_memory_at(), Access::ReadWrite).map_err(io::Error::other)?;
    // CMBSZ for data of writes and reads, in units of 4 KiB; CMBLOC 0 in BAR 2.
    let size = Cmbsz::new().with_wds(true).with_rds(true).with_sz((CMB_BYTES / 4096) as u32);
    Ok(CmbRegisters { location: Cmbloc::new().with_bir(2).into_bits(), size: size.into_bits() })
}

/// The controller memory buffer's addresses on the bus, which the device serves itself.
#[inline]
pub(crate) fn own_memory() -> Range<u64> {
    CMB_BASE..CMB_BASE + CMB_BYTES as u64
}
