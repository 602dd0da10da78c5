//! An NVMe driver in user space, over a [`Bus`]; one file for each transfer method.
//!
//! [`Driver::attach`] resets and starts the device behind a bus, reads what it announces, and enables its transfer
//! methods. [`Driver::queue`] opens queues, each for one thread: [`Queue`] has synchronous calls for borrowed payloads,
//! which copy a payload once and allocate nothing, and is a [`byway_core::BackendQueue`] for commands that own theirs.
//!
//! Nothing is sent that the device did not announce.

#![forbid(unsafe_code)]

mod admin;
mod admin_commands;
mod announced;
mod attach;
mod bounce;
mod bus;
mod device;
mod identify;
mod mapped;
mod prps;
mod queue_pair;
mod rings;
mod shared;
mod table;

pub use admin_commands::AdminCommands;
pub use attach::AttachOptions;
pub use bus::{Bus, BusError, DeviceMemory, Event, KeyHints, LinkModel, NoMemory};
pub use device::Driver;
pub use queue_pair::{Queue, RetrievedValue};
