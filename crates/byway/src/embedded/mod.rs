//! Devices in this process, by their own types: what [`crate::open`] opens for `embedded:`, `embedded-ram:` and `embedded-null:`, with
//! nothing in between, and with what only they have: a ledger, a clock, the flash beneath.

pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod control_folder;
pub(crate) mod copying;
pub(crate) mod create;
pub(crate) mod details;
mod device;
pub(crate) mod errors;
mod memory;
pub(crate) mod open;
pub(crate) mod queries;
pub(crate) mod resize;
pub(crate) mod snapshot;

pub use crate::calls::EmbeddedQueue;
pub use device::{EmbeddedDevice, FlashReport};
pub use open::{open, open_to_read, open_uri, open_watched};
