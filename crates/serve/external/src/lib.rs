//! What the host library reaches, exported as a namespace of a served controller: a block device, a file, another NVMe device,
//! memory.
//!
//! An [`Export`] is the controller's [`BlockEngine`](byway_controller::BlockEngine) over one queue of any
//! [`Backend`](byway_core::Backend). It knows neither which: both wings meet here.

#![forbid(unsafe_code)]

mod export;
mod memory;
mod slots;
mod status;

pub use export::{Export, ExportAs};
