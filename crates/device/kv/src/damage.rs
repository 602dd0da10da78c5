//! Damage of the log, by its place.

/// A stretch of a log that is no record and no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The stream: 0 shared, 1 compaction, from 2 on windows.
    pub stream: u8,
    /// First byte, as a position in the stream.
    pub from: u64,
    /// First byte after it.
    pub to: u64,
    /// Where the first byte is in the namespace.
    pub address: u64,
}
