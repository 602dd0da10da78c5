//! Names of the flushes and fences of a log. Tests leave out each of them and expect acknowledged bytes to be lost.

use byway_tdm_region::Point;

/// A ring made empty for a file.
pub const FORMATTED: Point = Point("a ring was formatted");
/// A record that went past the caches, before others can count it among those that a sync of theirs keeps.
pub const STREAMED: Point = Point("a record, before its writer is done with it");
/// Records before an fsync is answered.
pub const SYNCED: Point = Point("records before a sync is acknowledged");
/// A truncation, before the size of the file changes.
pub const TRUNCATION: Point = Point("a truncation, before the size of the file changes");
/// Where a ring begins, before what is in front of it is written over.
pub const RETIRED: Point = Point("the beginning of a ring, before its records are written over");
/// Until when a file is written by its log, before it is. Left out, a file is taken for written by others, and nothing is lost by that.
pub const ANNOUNCED: Point = Point("until when a file may be written, before it is");

/// All that acknowledged bytes hang on: fences, and flushes where records go through the caches.
pub const POINTS: [Point; 4] = [FORMATTED, SYNCED, TRUNCATION, RETIRED];
/// Flushes and drains where they go past these.
pub const STREAMED_POINTS: [Point; 3] = [FORMATTED, STREAMED, RETIRED];
