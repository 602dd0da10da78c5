//! A PCIe NVMe controller for hosts in other processes: QEMU's guests, and our own driver, by the vfio-user protocol.
//!
//! [`Server`] listens at a socket and serves one client after the other. What they ask goes to a [`Function`]: the PCI
//! function with its configuration space, BAR, interrupts and the client's memory, which knows no socket. Behind it stands
//! the controller of an image, reached by a [`Front`](byway_local::Front).

#![forbid(unsafe_code)]

mod bar;
mod config;
mod connection;
mod device_memory;
mod door;
mod far;
mod function;
mod interrupts;
mod memory;
mod page;
mod server;
mod session;
mod waiting;
mod windows;

pub use bar::{BAR0_BYTES, DOORBELLS_AT, DOORBELLS_BYTES, PENDING_AT, Place, TABLE_AT, VECTORS};
pub use config::{CONFIG_BYTES, ConfigEvent, ConfigSpace};
pub use connection::Outbox;
pub use device_memory::DeviceMemoryBar;
pub use door::{Door, DoorError};
pub use far::{FarRanges, PATIENCE};
pub use function::{Function, Refusal};
pub use interrupts::{NoEventFd, Vectors};
pub use memory::{HostRanges, MAX_RANGES, MemoryError};
pub use page::DoorbellPage;
pub use server::{ServeError, Server, Told};
pub use session::{LIMITS, Session};
