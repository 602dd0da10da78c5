//! Each flush and fence of a home by name. A test leaves out one after the other and has to see acknowledged bytes go.

use byway_tdm_region::Point;

/// A file's bytes and size as they were below, before its home counts.
pub const FILLED: Point = Point("a home's bytes before it counts");
/// That a home counts, before anything is acknowledged by it.
pub const LIVE: Point = Point("that a home counts, before a sync is acknowledged by it");
/// Bytes before a size that tells of them, and before a sync is acknowledged.
pub const BYTES: Point = Point("bytes before their size, and before a sync is acknowledged");
/// A size that grew before a sync is acknowledged.
pub const SIZE: Point = Point("a size before a sync is acknowledged");
/// A size that shrank before what is behind it is written over.
pub const CUT: Point = Point("a size that shrank, before what is behind it is written over");
/// That a home does not count any more, before the file below is written by others.
pub const ENDED: Point = Point("that a home does not count, before the file below is written by others");
/// Until when the file below is written from its home, before it is. Left out, it is taken for written by others, and nothing is lost by that.
pub const ANNOUNCED: Point = Point("until when the file below may be written from its home, before it is");

/// All that acknowledged bytes hang on.
pub const POINTS: [Point; 6] = [FILLED, LIVE, BYTES, SIZE, CUT, ENDED];
