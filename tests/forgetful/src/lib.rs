//! Power-loss simulation: a file that loses what was not synced, and device memory that loses what was not flushed
//! and fenced. Also a disk that fills up soon.
//!
//! The observer is passed to a device with its other options. It reads the file to see changes, also those made
//! through mappings.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "support of tests: what cannot happen ends the test")]

mod device_memory;
mod file;
mod memory;
mod named_ranges;
mod page;
mod power;
mod small_disk;
mod sparse;
mod versions;

pub use byway_kit::Random;
pub use device_memory::{ForgetfulMemory, LeftOut};
pub use file::Forgetful;
pub use named_ranges::{NamedRanges, image_folder};
pub use page::Sector;
pub use power::{Power, every_cut};
pub use small_disk::on_small_disk;
pub use sparse::copy_sparse;
pub use versions::Versions;
