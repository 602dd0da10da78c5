//! What the programs of one user and the daemon know of files together, in memory that all of them map.

mod atomic;
mod attributes;
mod board;
mod counters;
mod entry;
mod housed;
mod key;
mod layout;
mod level;
mod lower;
mod marks;
mod times;
mod unlisted;
mod unserved;

pub use attributes::Attributes;
pub use board::{Board, BoardError, ENTRIES};
pub use byway_tdm_policy::Level;
pub use counters::{Counted, Counters};
pub use entry::{Entry, EntryIndex, RingWords};
pub use housed::{Housed, Terms};
pub use key::{FileKey, Identified};
pub use layout::BOARD_BYTES;
pub use level::{Standing, Why};
pub use lower::{FUSE_MAGIC, LOWER_ATTRIBUTE, is_in_mount, lower_of};
pub use marks::{Mark, MarkPlace};
pub use times::{Timed, Times};
