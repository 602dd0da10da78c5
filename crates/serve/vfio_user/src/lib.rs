//! A PCIe NVMe controller for hosts in other processes: QEMU's guests, and our own driver, by the vfio-user protocol.
//!
//! [`Server`] listens at a socket and serves one client at a time. A [`Function`] executes its requests: the PCI function with
//! configuration space, BARs, interrupts and the client's memory, without a socket. Behind it is
//! the controller of an image, reached by a [`RemoteFront`](byway_executor::RemoteFront).

#![forbid(unsafe_code)]

mod bar;
mod config;
mod connection;
mod device_memory;
mod function;
mod interrupts;
mod limits;
mod memory;
mod message_dma;
mod page;
mod pending_clients;
mod server;
mod session;
mod windows;

pub use bar::{BAR0_BYTES, DOORBELLS_AT, DOORBELLS_BYTES, PENDING_AT, Place, TABLE_AT, VECTORS};
pub use config::{CONFIG_BYTES, ConfigEvent, ConfigSpace};
pub use connection::Outbox;
pub use device_memory::DeviceMemoryBar;
pub use function::{Function, Refusal};
pub use interrupts::{NoEventFd, Vectors};
pub use limits::LIMITS;
pub use memory::{HostRanges, MAX_RANGES, MemoryError};
pub use message_dma::{DMA_REPLY_TIMEOUT, MessageRanges};
pub use page::DoorbellPage;
pub use server::{ClientEvent, ServeError, Server};
pub use session::Session;
