//! The embedded device: a controller in the same process, reached over a bus without a message.
//!
//! A doorbell write runs the controller in the caller's thread, with no hop; or a thread of the device's own polls
//! the doorbells ([`RunBy`]). Knows no command set: it carries registers, doorbells and memory.

#![deny(unsafe_code)]

mod bus;
mod capsules;
mod cell;
mod clock;
mod core;
mod device;
mod engines;
mod front;
mod interrupts;
mod lanes;
mod memory;
mod runner;
mod served;
mod shared;
mod snapshot;
mod syncing;
mod workers;

pub use bus::InProcessBus;
pub use capsules::{AttachError, CapsuleDevice, Capsules};
pub use device::{Embedded, Handle, Hosts, RunBy, RunOptions, StartError};
pub use engines::{EngineEvents, ExportError, WatchedBy};
pub use front::Front;
pub use memory::Window;
pub use shared::Failed;
pub use snapshot::{ABSORB_NS, DeviceSnapshot};
