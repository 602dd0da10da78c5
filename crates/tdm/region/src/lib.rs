//! Device memory: regions, their persistence, and models of their latency.
//!
//! A [`DeviceRegion`] has one owner: emulated memory (`emu`), a file mapped past the page cache (`fsdax`) or a character device (`devdax`), opened by
//! a [description](open). The owner, and processes that it [exports](DeviceRegion::export) the region to, access it through a [`Window`].
//!
//! Source: the study of transparent DAX mappings.
#![forbid(unsafe_code)]

mod access;
mod admitted;
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
mod latency;
mod mapped;
mod memory;
mod model;
mod modelled;
mod open;
mod opening;
mod page_table;
mod partition;
mod region;
mod stats;
mod sysfs;
mod terms;
mod window;

pub use access::Access;
pub use admitted::Admitted;
pub use description::{Description, Place};
pub use domain::Domain;
pub use error::{RegionError, Unsupported};
pub use export::{EXPORT_BYTES, Export, ExportDescription};
#[cfg(loom)]
pub use interleaved::Interleaved;
pub use latency::LatencyModel;
pub use memory::{Memory, MemoryError, Point};
pub use model::ModelTerms;
pub use open::{open, open_described};
pub use opening::Opening;
pub use partition::PartitionName;
pub use region::{DeviceRegion, Pin, Ticket};
pub use stats::{RegionStats, Residency};
pub use window::Window;
