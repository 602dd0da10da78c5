//! Devices in this process, by their own types: what [`crate::open`] opens for `embedded:`, `ram:` and `null:`, with
//! nothing in between, and with what only they have: a ledger, a clock, the flash beneath.

pub use crate::device::{Device, EmbeddedQueue, FlashReport};
pub use crate::open::{open, open_to_read, open_uri, open_watched};
