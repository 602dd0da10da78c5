//! The flash of the software SSD: NAND array, translation layer, page buffer, image file, power loss.
//!
//! A [`Flash`] maps the logical space of namespaces onto NAND pages, does the operations on its medium (an image file,
//! memory, or nothing), counts them by [`Cause`] and says what modelled time they take.
//!
//! Two kinds of durable state lie in one image file. *Protected state* is what an SSD keeps in DRAM behind capacitors:
//! the map, the block table, unit buffers, namespace records, and areas that other crates reserve. It is mapped shared
//! from preallocated ranges, so every executed store survives the death of the process; what must be last is one
//! aligned word. *Flash pages* are written with their spare records and verified when read. The decision and its
//! reasons: `docs/decisions/0001-image-file-layout-and-crash-consistency.md`.
//!
//! A NVM extent is mapped by 4 KiB units: full pages go straight to flash, single units gather in a protected buffer.
//! A KV extent is mapped by whole pages that its owner fills.
#![forbid(unsafe_code)]

mod areas;
mod bit_repair;
mod block;
mod blocks;
mod buffer;
mod collector;
mod counters;
mod durability;
mod error;
mod event;
mod finding;
mod flash;
mod free;
mod frontier;
mod ftl;
pub mod fuzz;
mod geometry;
mod host_tallies;
mod image;
mod injection;
mod lease;
mod location;
mod map;
mod mapped;
mod media;
mod options;
#[cfg(any(test, feature = "power_loss"))]
pub mod power_loss;
mod protected;
mod retention;
mod sanitize;
mod snapshot;
mod spare;
mod stall;
mod state;
mod syncs;
mod timing;
mod victims;
mod wear;
mod word;

pub use areas::{AreaId, AreaRef};
pub use block::FactoryBad;
pub use byway_link::FlashProfile;
pub use byway_sys::{FileError, FileEvents, WriteFault};
pub use counters::{Cause, CauseCounters, FlashCounters, HostCounters, HostIo};
pub use durability::{Durability, Epoch, SyncCounters, SyncPoint};
pub use error::{FlashError, ImageError};
pub use event::FlashEvent;
pub use finding::{Finding, Hit, Remedy, Watch};
pub use flash::{
    Ages, BlockCounts, BlockReader, ExtentView, Flash, FlashHealth, FlashReads, RATED_ERASES, WearBucket,
};
pub use ftl::recovery::Recovery;
pub use geometry::{Geometry, MIN_SIZE_BYTES, UNIT_BYTES};
pub use host_tallies::{HOST_TALLIES, HostTally};
pub use image::namespaces::{
    ACCESS_STATE_BYTES, ExtentId, NamespaceKind, NamespaceRecord, NamespaceSpec, OWNER_STATE_BYTES,
};
pub use injection::{BadInjection, Injection, MediaOperation, Rule};
pub use lease::BlockLease;
pub use media::{MediaKind, Reads};
pub use options::{DEFAULT_OVER_PROVISIONING_PERCENT, FlashOptions, OpenOptions, RunOptions};
pub use protected::ImageWatch;
pub use retention::{BadRetentionLimits, RetentionLimits};
pub use sanitize::{Overwrite, Sanitize, SanitizeState};
pub use snapshot::Snapshot;
pub use stall::{Stall, StallCause, StallTimer, Stalls};
pub use state::PowerHistory;
pub use syncs::{FinishedSync, PendingSync};
pub use victims::{GcPolicy, UnknownGcPolicy};
pub use wear::WearSummary;
