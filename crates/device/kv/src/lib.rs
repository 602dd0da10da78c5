#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod damage;
mod engine;
mod error;
mod features;
pub mod fuzz;
mod index;
mod layout;
mod list;
mod lookup_hints;
mod options;
mod repair;
mod reserve;
mod sealed;
mod store;
mod value_log;
mod work;

pub use byway_spec::Key;
pub use damage::Damage;
pub use engine::batch::{Change, DeletedRange};
pub use engine::check::FILL_CLASSES;
pub use engine::compaction::CompactionCounters;
pub use engine::follow::FollowCounters;
pub use engine::get::{Located, PREFETCH_GROUP, ValueInfo};
pub use engine::lease::{LeaseHandle, LeaseId};
pub use engine::rebuild::Repaired;
pub use engine::recovery::{Recovery, Replay};
pub use engine::scan::{PASSED_MAX, ScanPart, Selection};
pub use engine::stats::KvStats;
pub use engine::try_get::TryGet;
pub use engine::window::{Stored, WindowCopy, WindowEntry, WindowId};
pub use engine::{KvEngine, StoreHow};
pub use error::KvError;
pub use index::IndexCounters;
pub use layout::{FORMAT_VERSION, KvFormat, WINDOWS_MAX};
pub use lookup_hints::LookupHints;
pub use options::KvOptions;
pub use repair::{repair_log, repair_state, was_made};
pub use store::{Home, PageStore, STATE_AREA, WINDOWS_AREA};
pub use value_log::packing::{Packing, PackingCounters, Placement, UnknownPacking};
pub use value_log::record::{RECORD_HEADER_BYTES, VALUE_MAX_BYTES, record_header_bytes};
pub use work::Work;
