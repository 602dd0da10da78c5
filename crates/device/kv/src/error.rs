//! What can go wrong in the engine.

use byway_flash::FlashError;
use byway_spec::{Key, KeyError};
use byway_sys::Bytes;

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// The key is empty or too long.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value is longer than the engine takes, or than the in-place window.
    #[error("the value has {len_bytes} bytes; the limit here is {limit_bytes}")]
    ValueTooLong {
        /// Length asked for.
        len_bytes: u64,
        /// Longest value taken this way.
        limit_bytes: u64,
    },
    /// The batch is longer than what is stored atomically.
    #[error(
        "the batch has {changes} changes of {bytes} bytes; at most {limit_changes} changes of {limit_bytes} bytes are stored atomically"
    )]
    BatchTooLong {
        /// Bytes of its records: headers, keys and values.
        bytes: u64,
        /// Most bytes of a batch.
        limit_bytes: u64,
        /// Changes asked for.
        changes: usize,
        /// Most changes of a batch.
        limit_changes: usize,
    },
    /// There is no value under the key.
    #[error("the key is not there")]
    NotFound,
    /// The key is there and the store said it must not be.
    #[error("the key is already there")]
    Exists,
    /// The namespace has no room for another record.
    #[error("the namespace is full")]
    Full,
    /// A window stream was named that is not open, or all are taken.
    #[error("window {0} is not open")]
    NoWindow(u16),
    /// The host's write pointer of a window is further ahead than the window is long: the host went on after refusals. The
    /// window has to be opened again.
    #[error("the host's and the device's write pointer of the window differ; open it again")]
    WindowBehind,
    /// A slice of compaction moved more records than it had set sequence numbers aside for.
    #[error("log compaction has no sequence number left for a record that it moves")]
    NoNumberLeft,
    /// A record on flash or in protected memory does not match its checksum. Only this key is affected.
    #[error("the record of key {key} at address {address:#x} is damaged: {why}")]
    DamagedRecord {
        /// The key asked for.
        key: Key,
        /// Byte offset of its record in the namespace.
        address: u64,
        /// What did not match.
        why: &'static str,
    },
    /// A page of the index is damaged. Keys in its range that are nowhere newer cannot be answered for.
    #[error("page {page} of index run {run} {why}")]
    DamagedIndex {
        /// The run.
        run: u64,
        /// The page within the namespace.
        page: u64,
        /// What did not match.
        why: &'static str,
    },
    /// The engine's protected state is damaged or is not an engine's.
    #[error("the key-value state of the namespace is damaged: {0}")]
    DamagedState(&'static str),
    /// The namespace was made by another version of the engine.
    #[error("the key-value format is version {found}; this program knows version {known}")]
    OtherVersion {
        /// Version in the image.
        found: u32,
        /// Version of this program.
        known: u32,
    },
    /// The namespace uses features of the format that this program does not know.
    #[error("the key-value format uses features unknown to this program (bits {bits:#x})")]
    UnknownFeatures {
        /// The unknown bits.
        bits: u64,
    },
    /// The namespace is too small for the format.
    #[error("a key-value namespace of {} is too small; the least is {}", Bytes(*asked_bytes), Bytes(*least_bytes))]
    TooSmall {
        /// Size asked for.
        asked_bytes: u64,
        /// Least size.
        least_bytes: u64,
    },
    /// The flash below.
    #[error(transparent)]
    Flash(#[from] FlashError),
}
