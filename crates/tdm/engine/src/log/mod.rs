//! Redo logs of absorbed files, in device memory ([decision 42](../../../../../docs/decisions/0042-redo-logs-of-absorbed-files.md)).
//!
//! Source: the study of transparent DAX mappings, section 5 ("Crash and fsync rules"); NVPC's absorption of synced writes
//! (arXiv 2408.04238).

mod absorb;
mod atomic;
mod bypass;
mod cursor;
mod point;
mod prefix;
mod record;
mod recovery;
mod replay;
mod ring;

#[cfg(all(test, loom))]
mod model;

pub use absorb::{Absorber, Begun, SyncStep};
pub use cursor::{Bypass, CURSOR_BYTES, CURSOR_WORDS, Cursor};
pub use point::{POINTS, STREAMED_POINTS};
pub use record::{Entry, HEADER_BYTES, LEN_MAX_BYTES};
pub use recovery::{LowerFile, Recovered, RecoveryError, recover};
pub use replay::{ReplayEnd, Replayed};
pub use ring::{Position, Ring, RingError, RingPlace, Source};
