//! Memory of a device that programs store into: what keeps a store, and what it takes until it is kept.
//!
//! A [`DeviceRegion`] is such memory with one owner: an emulated device (`emu`), a file that is mapped past the page cache
//! (`fsdax`) or a character device (`devdax`), [opened](open) by a description. Its owner and those it
//! [exports](DeviceRegion::export) to touch it by a [`Window`].
//!
//! Source: the study of transparent DAX mappings (seed 003), DESIGN.md "Boundaries" 8.
#![forbid(unsafe_code)]

mod admitted;
#[path = "page_table.rs"]
mod board;
mod cache;
mod description;
mod devdax;
mod domain;
mod drive;
mod emu;
mod error;
mod export;
mod fsdax;
#[cfg(loom)]
mod interleaved;
mod mapped;
mod memory;
mod model;
mod modelled;
mod open;
mod region;
#[path = "partition.rs"]
mod slice;
mod sysfs;
#[path = "latency.rs"]
mod toll;
mod window;

pub use admitted::Admitted;
pub use description::{Description, Place};
pub use domain::Domain;
pub use error::{RegionError, Unsupported};
pub use export::{Access, EXPORT_BYTES, Export, ExportDescription};
#[cfg(loom)]
pub use interleaved::Interleaved;
pub use memory::{Memory, MemoryError, Point};
pub use model::ModelTerms;
pub use open::{Opening, open, open_described};
pub use region::{DeviceRegion, Pin, RegionStats, Residency, Ticket};
pub use slice::SliceName;
pub use toll::Toll;
pub use window::Window;
