//! What the device may touch: memory of this process, at bus addresses that its IOMMU has.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use byway_dma::{BusAddr, DmaMemory};
use byway_driver::BusError;
use byway_sys::map::PAGE_BYTES;
use byway_sys::vfio::VfioDevice;
use parking_lot::Mutex;

use crate::room::Room;

/// Bus addresses of a device whose IOMMU does not report its ranges: from 4 GiB, above what a PC has for 32-bit devices and
/// interrupts, to what the narrowest IOMMU of one reaches.
const USUAL: (u64, u64) = (1 << 32, (1 << 39) - 1);

/// Nothing is mapped below this: a pointer that a command does not need is 0, and a device that follows it must fault.
const LOWEST: u64 = 1 << 20;

/// The device's view of this process.
#[derive(Debug)]
pub(crate) struct HostMemory {
    device: Arc<VfioDevice>,
    first: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    room: Room,
    mapped: BTreeMap<u64, Arc<DmaMemory>>,
}

impl HostMemory {
    /// Nothing mapped.
    ///
    /// # Errors
    /// When the kernel does not answer, or the IOMMU has no addresses.
    pub(crate) fn new(device: Arc<VfioDevice>) -> Result<Self, BusError> {
        let ranges = device.address_ranges();
        let ranges =
            ranges.map_err(|cause| BusError::Mapping(format!("the IOMMU does not answer: {cause}")))?;
        let (first, bytes) = widest(&ranges)
            .ok_or_else(|| BusError::Mapping(format!("the IOMMU has no room for memory in {ranges:x?}")))?;
        let inner = Inner { room: Room::new(bytes), mapped: BTreeMap::new() };
        Ok(Self { device, first, inner: Mutex::new(inner) })
    }

    /// Lets the device touch memory, which is kept until it may not any more.
    pub(crate) fn map(&self, memory: &Arc<DmaMemory>) -> Result<BusAddr, BusError> {
        let mut inner = self.inner.lock();
        let bytes = place_bytes(memory);
        let offset = inner.room.take(bytes);
        let offset = offset.ok_or_else(|| BusError::Mapping("the IOMMU has no addresses left".to_owned()))?;
        let at = self.first + offset;
        if let Err(cause) = self.device.map_memory(memory.mapping(), at) {
            inner.room.give_back(offset, bytes);
            return Err(BusError::Mapping(why_not(&cause, memory.len())));
        }
        inner.mapped.insert(at, Arc::clone(memory));
        Ok(BusAddr(at))
    }

    /// Takes it away.
    pub(crate) fn unmap(&self, at: BusAddr) -> Result<(), BusError> {
        let mut inner = self.inner.lock();
        let memory = inner.mapped.remove(&at.0);
        let memory = memory.ok_or_else(|| BusError::Mapping(format!("nothing is mapped at {:#x}", at.0)))?;
        match self.device.unmap_memory(at.0, memory.len() as u64) {
            Ok(()) => {
                inner.room.give_back(at.0 - self.first, place_bytes(&memory));
                Ok(())
            }
            Err(cause) => {
                // The device may touch it still: it is kept for ever.
                let said = format!("memory cannot be taken from the device: {cause}");
                std::mem::forget(memory);
                Err(BusError::Mapping(said))
            }
        }
    }
}

/// Addresses that a piece of memory takes: a page more than it has, so that an access that runs over its end faults.
fn place_bytes(memory: &DmaMemory) -> u64 {
    (memory.len() + PAGE_BYTES) as u64
}

/// The longest stretch that memory may be mapped in: where it begins, and how long it is.
fn widest(ranges: &[(u64, u64)]) -> Option<(u64, u64)> {
    let usual = [USUAL];
    let ranges = if ranges.is_empty() { usual.as_slice() } else { ranges };
    let page = PAGE_BYTES as u64;
    let stretch = |(first, last): &(u64, u64)| {
        let first = (*first).max(LOWEST).checked_next_multiple_of(page)?;
        let bytes = last.checked_sub(first)?.saturating_add(1) / page * page;
        (bytes > 0).then_some((first, bytes))
    };
    ranges.iter().filter_map(stretch).max_by_key(|(_, bytes)| *bytes)
}

fn why_not(cause: &io::Error, len_bytes: usize) -> String {
    match cause.kind() {
        io::ErrorKind::OutOfMemory => format!(
            "{len_bytes} bytes more than the process may lock in memory: raise its limit (ulimit -l, or memlock in \
             limits.conf)"
        ),
        io::ErrorKind::StorageFull => {
            "the kernel keeps no more mappings (dma_entry_limit of vfio_iommu_type1)".to_owned()
        }
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_mapped_in_the_longest_stretch_and_never_at_the_bottom() {
        let pc = [(0, 0xfedf_ffff), (0xfef0_0000, 0x7f_ffff_ffff)];
        assert_eq!(widest(&pc), Some((0xfef0_0000, 0x7f_0110_0000)));
        assert_eq!(widest(&[(0, 0xffff_ffff)]), Some((LOWEST, (1 << 32) - LOWEST)));
        assert_eq!(widest(&[(0, u64::MAX)]).map(|(first, _)| first), Some(LOWEST));
        assert_eq!(widest(&[]).map(|(first, _)| first), Some(1 << 32));
        assert_eq!(widest(&[(0, 0xffff), (5, 4)]), None);
    }
}
