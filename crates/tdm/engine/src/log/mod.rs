//! Redo records in device memory: a file's writes that are kept before they are synced below.
//!
//! Source: the study of transparent DAX mappings, section 5 ("Crash and fsync rules"); NVPC's absorption of synced writes
//! (arXiv 2408.04238).

mod absorb;
mod atomic;
mod cursor;
mod front;
#[path = "bypass.rs"]
mod past;
mod point;
mod record;
mod recovery;
mod replay;
mod ring;

#[cfg(all(test, loom))]
mod model;

pub use absorb::{Absorber, Begun, SyncStep};
pub use cursor::{CURSOR_BYTES, CURSOR_WORDS, Cursor, Passing};
pub use point::{POINTS, STREAMED_POINTS};
pub use record::{Entry, HEADER_BYTES, LEN_MAX_BYTES};
pub use recovery::{LowerFile, Recovered, RecoveryError, recover};
pub use replay::{ReplayEnd, Replayed};
pub use ring::{Position, Ring, RingError, RingPlace, Source};
