//! The shared file table: state of files that the programs of one user and the daemon share, in memory that all map.

// Loom builds the words only, not what finds them in mapped memory.
#![cfg_attr(loom, allow(dead_code))]

mod atomic;
mod attributes;
mod counters;
#[cfg(not(loom))]
mod entry;
#[cfg(not(loom))]
mod file_table;
mod index;
mod key;
#[cfg(not(loom))]
mod layout;
mod level;
mod lower;
mod marks;
mod owner;
mod resident_state;
mod served;
mod times;
mod unlisted;
#[cfg(not(loom))]
mod unserved;

#[cfg(all(test, loom))]
mod model;

pub use attributes::Attributes;
pub use byway_tdm_policy::{Level, Reason};
pub use counters::{Counted, Counters};
#[cfg(not(loom))]
pub use entry::{Entry, RingWords};
#[cfg(not(loom))]
pub use file_table::{ENTRIES, FileTable, FileTableError};
pub use index::EntryIndex;
pub use key::{FileKey, Identified};
#[cfg(not(loom))]
pub use layout::FILE_TABLE_BYTES;
pub use level::LevelState;
pub use lower::{FUSE_MAGIC, LOWER_ATTRIBUTE, is_in_mount, lower_of};
pub use marks::{Mark, MarkPlace};
pub use resident_state::{ResidentState, Terms};
pub use times::{Timed, Times};
