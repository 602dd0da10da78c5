//! Device memory that a host in this process stores into: CXL windows, and the controller memory buffer.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};

use byway_controller::{CmbRegisters, Subsystem};
use byway_dma::{Access, BusAddr, DmaMemory, DmaSpace};
use byway_spec::base::register::{Cmbloc, Cmbsz};
use byway_sys::map::Mapping;
use parking_lot::RwLock;

/// Bus address of the controller memory buffer, far above what the host maps.
const CMB_BASE: u64 = 1 << 46;

/// Bytes of the controller memory buffer.
pub(crate) const CMB_BYTES: usize = 1 << 20;

/// The windows of all key-value namespaces as one range of device memory; a namespace's identifier gives its offset, whether it
/// exists or not.
#[derive(Debug)]
pub struct Windows {
    window_bytes: u64,
    len_bytes: u64,
    /// Weak: a deleted namespace frees its memory.
    areas: RwLock<Vec<Area>>,
}

#[derive(Debug)]
struct Area {
    first_byte: u64,
    memory: Weak<Mapping>,
}

impl Windows {
    /// The windows of `subsystem`'s namespaces.
    pub(crate) fn new(subsystem: &mut Subsystem) -> Self {
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

    /// Bytes of the windows of every possible namespace.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Updates the list of namespaces.
    pub(crate) fn refresh(&self, subsystem: &mut Subsystem) {
        let area = |(first, memory): (u32, Arc<Mapping>)| Area {
            first_byte: u64::from(first) * self.window_bytes,
            memory: Arc::downgrade(&memory),
        };
        *self.areas.write() = subsystem.window_memory().into_iter().map(area).collect();
    }

    /// The memory that holds `len_bytes` bytes from `offset` on, and their offset in it.
    pub(crate) fn find(&self, offset: u64, len_bytes: usize) -> Option<(Arc<Mapping>, usize)> {
        let areas = self.areas.read();
        let area = areas.iter().rev().find(|area| area.first_byte <= offset)?;
        let memory = area.memory.upgrade()?;
        let at = usize::try_from(offset - area.first_byte).ok()?;
        (at.checked_add(len_bytes)? <= memory.len()).then_some((memory, at))
    }
}

/// Bus address of the controller memory buffer.
pub(crate) fn byte_memory_at() -> BusAddr {
    BusAddr(CMB_BASE)
}

/// Maps the controller memory buffer for hosts in this process; returns the registers that announce it.
pub(crate) fn map_byte_memory(space: &DmaSpace, memory: &Arc<DmaMemory>) -> io::Result<CmbRegisters> {
    space.map(Arc::clone(memory), byte_memory_at(), Access::ReadWrite).map_err(io::Error::other)?;
    // CMBSZ for data of writes and reads, in units of 4 KiB; CMBLOC 0 in BAR 2.
    let size = Cmbsz::new().with_wds(true).with_rds(true).with_sz((CMB_BYTES / 4096) as u32);
    Ok(CmbRegisters { location: Cmbloc::new().with_bir(2).into_bits(), size: size.into_bits() })
}

/// Bus addresses of the controller memory buffer, which the device serves itself.
#[inline]
pub(crate) fn own_memory() -> Range<u64> {
    CMB_BASE..CMB_BASE + CMB_BYTES as u64
}
