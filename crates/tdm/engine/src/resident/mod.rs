//! A file whose home is device memory: its bytes and its size lie there, and the file below is written only when it goes home.
//!
//! Source: the study of transparent DAX mappings, sections 3 and 5 (data, fence, size, fence).

mod atomic;
#[path = "file.rs"]
mod home;
mod point;
mod recovery;
#[path = "io.rs"]
mod resident;
mod words;

#[cfg(all(test, loom))]
mod model;

pub use crate::log::RingPlace as HomePlace;
pub use home::{FRONT_BYTES, Home, HomeError};
pub use point::POINTS;
pub use recovery::{WrittenBack, recover, write_back};
pub use resident::Resident;
pub use words::{HOME_WORDS, HomeWords};
