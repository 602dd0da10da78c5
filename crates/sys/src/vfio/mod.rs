//! PCI devices that the kernel's `vfio-pci` hands to a process: regions, interrupts, and memory behind an IOMMU.
//!
//! The group interface (`/dev/vfio/vfio`, `/dev/vfio/GROUP`, an IOMMU of type 1 version 2), which every kernel with VFIO has.

mod abi;
mod chain;
mod device;

pub use device::{VfioDevice, VfioError, VfioRegion};
