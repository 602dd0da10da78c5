//! Names of the flushes and fences of a resident file. Tests leave out each of them and expect acknowledged bytes to be lost.

use byway_tdm_region::Point;

/// Bytes and size copied by a promotion, before the header is valid.
pub const FILLED: Point = Point("a resident file's bytes, before its header is valid");
/// The valid header, before a sync is acknowledged.
pub const LIVE: Point = Point("a resident file's valid header, before a sync is acknowledged");
/// Bytes before a size that covers them, and before a sync is acknowledged.
pub const BYTES: Point = Point("bytes before their size, and before a sync is acknowledged");
/// A larger size, before a sync is acknowledged.
pub const SIZE: Point = Point("a size before a sync is acknowledged");
/// A smaller size, before the bytes behind it are overwritten.
pub const TRUNCATION: Point = Point("a size that shrank, before what is behind it is written over");
/// The void header, before others write the file below.
pub const ENDED: Point = Point("a resident file's void header, before the file below is written by others");
/// The announced time, before the file below is written. Left out, recovery takes the file for written by others and loses nothing.
pub const ANNOUNCED: Point =
    Point("until when the file below may be written from device memory, before it is");

/// Those that acknowledged bytes depend on.
pub const POINTS: [Point; 6] = [FILLED, LIVE, BYTES, SIZE, TRUNCATION, ENDED];
