#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod admission;
mod check;
mod compaction;
mod engine;
mod error;
pub mod fuzz;
mod get;
mod index;
mod layout;
mod list;
mod mend;
mod options;
mod outlook;
mod power_loss;
mod rebuild;
mod recovery;
mod reserve;
mod salvage;
mod sealed;
mod space;
mod stats;
mod store;
mod value_log;
mod window;
mod work;

pub use byway_spec::Key;
pub use check::FILL_CLASSES;
pub use compaction::CompactionCounters;
pub use engine::{KvEngine, StoreHow};
pub use error::KvError;
pub use get::{Expect, Located, ValueInfo};
pub use index::IndexCounters;
pub use layout::{FORMAT_VERSION, KvFormat, WINDOWS_MAX};
pub use mend::{mend_log, mend_state, was_made};
pub use options::KvOptions;
pub use outlook::Outlook;
pub use rebuild::Repaired;
pub use recovery::{Damage, Recovery, Replay};
pub use stats::KvStats;
pub use store::{Home, PageStore, STATE_AREA, WINDOWS_AREA};
pub use value_log::packing::{Packing, PackingCounters, Placement, UnknownPacking};
pub use value_log::record::{RECORD_HEADER_BYTES, VALUE_MAX_BYTES, record_header_bytes};
pub use window::{Stored, WindowCopy, WindowEntry, WindowId};
pub use work::Work;
