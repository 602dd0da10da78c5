//! Buses to devices outside this process: what the driver of [`byway_driver`] reaches PCIe devices by.
//!
//! * [`vfio_user`]: a device that another process serves at a Unix socket.
//! * [`vfio`]: a device of this machine, behind an IOMMU.
//!
//! Each is a folder with the same files: `bus.rs` (the [`byway_driver::Bus`]), `memory.rs` (what the device may touch, and what
//! of the device is stored into), `interrupts.rs` (how they wait for the [`interrupts`] that both count alike).
#![forbid(unsafe_code)]

mod interrupts;
mod mapped;
mod room;
pub mod vfio;
pub mod vfio_user;

pub use mapped::MappedBar;
pub use vfio::{PciAddress, VfioBus};
pub use vfio_user::VfioUserBus;
