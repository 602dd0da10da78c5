//! What the programs of one user and the daemon know of files together, in memory that all of them map.

// The model checker has the words alone: what finds them in mapped memory is not its to build.
#![cfg_attr(loom, allow(dead_code))]

mod atomic;
mod attributes;
#[cfg(not(loom))]
mod board;
mod counters;
#[cfg(not(loom))]
mod entry;
#[path = "resident_state.rs"]
mod housed;
mod index;
mod key;
#[cfg(not(loom))]
mod layout;
mod level;
mod lower;
mod marks;
mod served;
mod times;
mod unlisted;
#[cfg(not(loom))]
mod unserved;
#[path = "owner.rs"]
mod whose;

#[cfg(all(test, loom))]
mod model;

pub use attributes::Attributes;
#[cfg(not(loom))]
pub use board::{Board, BoardError, ENTRIES};
pub use byway_tdm_policy::Level;
pub use counters::{Counted, Counters};
#[cfg(not(loom))]
pub use entry::{Entry, RingWords};
pub use housed::{Housed, Terms};
pub use index::EntryIndex;
pub use key::{FileKey, Identified};
#[cfg(not(loom))]
pub use layout::BOARD_BYTES;
pub use level::{Standing, Why};
pub use lower::{FUSE_MAGIC, LOWER_ATTRIBUTE, is_in_mount, lower_of};
pub use marks::{Mark, MarkPlace};
pub use times::{Timed, Times};
