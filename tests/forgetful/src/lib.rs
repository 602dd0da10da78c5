//! A file that forgets what was not synced: what a loss of real power leaves of an image. Device memory that forgets what was not
//! flushed and fenced. And a disk that is soon full.
//!
//! The observer is given to a device with its other options. It sees what the file holds, through mappings too, by
//! reading it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "support of tests: what cannot happen ends the test")]

mod device_memory;
mod file;
mod memory;
mod page;
mod power;
mod random;
mod small_disk;
mod sparse;
mod versions;

pub use device_memory::{ForgetfulMemory, LeftOut};
pub use file::Forgetful;
pub use page::Sector;
pub use power::{Power, every_cut};
pub use random::Random;
pub use small_disk::on_small_disk;
pub use sparse::copy_sparse;
pub use versions::Versions;
