//! The owner of a region of device memory: which file has which log, what is written back when, and what happens after a loss
//! of power.
#![forbid(unsafe_code)]

mod absorb;
mod attempt;
#[path = "table_file.rs"]
mod board_file;
mod boot;
mod clock;
mod error;
#[path = "tenant.rs"]
mod estate;
#[path = "absorbed.rs"]
mod held;
#[path = "promoted_file.rs"]
mod home;
#[path = "promotion.rs"]
mod homes;
mod judge;
mod lower;
mod maps;
mod namespace;
mod open_files;
mod options;
mod orders;
#[path = "partitions.rs"]
mod parts;
mod recovery;
mod report;
#[path = "cache_pins.rs"]
mod resident;
mod retire;
mod rings;
mod serve;
#[path = "quotas.rs"]
mod shares;
mod sweep;
mod table;
mod unserved;

pub use byway_tdm_policy::Rules;
pub use clock::Clock;
pub use error::DaemonError;
pub use maps::{MappedFile, mapped_files};
pub use options::{Homing, Options};
pub use recovery::{Outcome, RecoveredFile, forget, recover};
pub use report::{CacheReport, FileReport, RegionReport, Report, UnservedOpens, UnservedReport, UserReport};
pub use rings::RING_MIN_BYTES;
pub use serve::{Daemon, EndedFile};
pub use table::{Assignment, BootId, Found, Kind, POINTS, SLOTS, SlotNumber, TABLE_BYTES, Table};
