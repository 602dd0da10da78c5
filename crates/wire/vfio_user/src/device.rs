//! DEVICE_GET_INFO: type and size of the device.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::WireError;
use crate::layout::{put, take};

const RESET: u32 = 1 << 0;
const PCI: u32 = 1 << 1;

/// Flags and counts of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Whether DEVICE_RESET is known.
    pub has_reset: bool,
    /// Whether it is a PCI device; nothing else is defined.
    pub is_pci: bool,
    /// Regions, numbered from 0: 9 for a PCI device, some of size 0.
    pub regions: u32,
    /// Kinds of interrupts, numbered from 0: 5 for a PCI device, some with none.
    pub irqs: u32,
}

/// As a request, all is 0 but `argsz`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Default)]
#[repr(C)]
pub(crate) struct RawInfo {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) regions: u32,
    pub(crate) irqs: u32,
}

impl DeviceInfo {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let (raw, _) = take::<RawInfo>(payload)?;
        Ok(Self {
            has_reset: raw.flags & RESET != 0,
            is_pci: raw.flags & PCI != 0,
            regions: raw.regions,
            irqs: raw.irqs,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let reset = if self.has_reset { RESET } else { 0 };
        let pci = if self.is_pci { PCI } else { 0 };
        put(
            out,
            &RawInfo {
                argsz: size_of::<RawInfo>() as u32,
                flags: reset | pci,
                regions: self.regions,
                irqs: self.irqs,
            },
        );
    }
}
