//! Devices of every kind behind one type: what [`crate::open`] gives.
//!
//! A [`Device`] knows which backend serves it and why that one was chosen; its [`Queue`]s hand every call on by one
//! match. A program that wants the least cost names a backend's own types (`byway::backends`, [`crate::embedded`]).

mod address;
mod admin;
mod choose;
mod device;
mod nvm;
#[cfg(feature = "vfio")]
mod pcie;
mod queue;
mod scan;
mod scratch;
#[cfg(feature = "tcp")]
mod tcp;

pub use address::{Address, BLOCK_OPTIONS, BlockOptions, BlockPlace, BlockUri};
pub use choose::{Chosen, PassedOver};
pub use device::{Device, open, open_address, open_to_read};
pub use nvm::Nvm;
#[cfg(feature = "vfio")]
pub use pcie::{PCIE_OPTIONS, PciePlace, PcieUri, VfioQueue, VfioUserQueue};
pub(crate) use queue::by_driver;
pub use queue::{Queue, QueueKind};
pub use scan::{Found, FoundKind, scan};
pub(crate) use scratch::Scratch;
#[cfg(feature = "tcp")]
pub use tcp::{TCP_OPTIONS, TcpUri, discover};
