//! DAX-resident files: device memory holds a file's bytes and size, and the file below is older
//! ([decision 45](../../../../../docs/decisions/0045-dax-resident-files.md)).
//!
//! Source: the study of transparent DAX mappings, sections 3 and 5 (data, fence, size, fence).

mod atomic;
mod file;
mod io;
mod point;
mod recovery;
mod words;

#[cfg(all(test, loom))]
mod model;

pub use crate::log::RingPlace as ResidentPlace;
pub use file::{FRONT_BYTES, ResidentError, ResidentFile};
pub use io::ResidentIo;
pub use point::POINTS;
pub use recovery::{WrittenBack, recover, write_back};
pub use words::{RESIDENT_WORDS, ResidentWords};
