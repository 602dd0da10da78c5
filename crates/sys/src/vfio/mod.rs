//! PCI devices that the kernel's `vfio-pci` hands to a process: regions, interrupts, and memory behind an IOMMU.
//!
//! By iommufd (`/dev/vfio/devices/vfioN`, `/dev/iommu`) where the kernel has it, else by the group interface (`/dev/vfio/vfio`,
//! `/dev/vfio/GROUP`, an IOMMU of type 1 version 2).

mod abi;
mod chain;
mod device;
mod iommu;

pub use device::{VfioDevice, VfioError, VfioRegion};
pub use iommu::{VfioInterface, node_under};
