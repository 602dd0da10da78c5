//! The owner of a region of device memory: which file has which log, what is written back when, and what happens after a loss
//! of power.
#![forbid(unsafe_code)]

mod absorb;
mod attempt;
mod board_file;
mod boot;
mod clock;
mod error;
mod estate;
mod held;
mod home;
mod homes;
mod judge;
mod lower;
mod maps;
mod namespace;
mod open_files;
mod options;
mod orders;
mod parts;
mod recovery;
mod report;
mod resident;
mod retire;
mod rings;
mod serve;
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
