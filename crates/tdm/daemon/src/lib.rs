//! The daemon: owns a region of device memory, assigns logs and places to files, retires, promotes and demotes them, and recovers after power loss.
#![forbid(unsafe_code)]

mod absorb;
mod absorbed;
mod attempt;
mod boot;
mod cache_pins;
mod clients;
mod clock;
mod error;
mod evaluator;
mod files;
mod lower;
mod maps;
mod namespace;
mod open_files;
mod options;
mod orders;
mod outcome;
mod promoted_file;
mod promoted_files;
mod promotion;
mod promotion_attempt;
mod quotas;
mod recovery;
mod report;
mod retire;
mod rings;
mod serve;
mod sweep;
mod sweep_schedule;
mod table;
mod table_file;
mod tenant;
mod tenants;
mod unserved;

pub use byway_tdm_policy::Rules;
pub use clock::Clock;
pub use error::DaemonError;
pub use maps::{MappedFile, mapped_files};
pub use options::{Options, Promotion};
pub use outcome::{Outcome, RecoveredFile};
pub use report::{CacheReport, FileReport, RegionReport, Report, UnservedOpens, UnservedReport, UserReport};
pub use rings::RING_MIN_BYTES;
pub use serve::{Daemon, EndedFile, forget, recover, remove};
pub use table::{Assignment, BootId, Found, Kind, POINTS, SLOTS, SlotNumber, TABLE_BYTES, Table};
