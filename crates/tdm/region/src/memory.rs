//! Access to device memory, as logs need it.

use std::fmt;
use std::io;

use thiserror::Error;

/// The name of a place in the code where stores are flushed or fenced: a test leaves each out, and has to notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Point(pub &'static str);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Why an access was not done.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The range is not in the memory, or the word is not aligned.
    #[error(
        "{len_bytes} bytes at {at} are outside of {memory_bytes} bytes of device memory, or not aligned for the access"
    )]
    Outside {
        /// Offset of the access.
        at: u64,
        /// Its length.
        len_bytes: u64,
        /// Length of the memory.
        memory_bytes: u64,
    },
    /// The memory was given for reading alone.
    #[error("device memory that was given for reading is not written")]
    ReadOnly,
    /// The system could not sync pages to where they are kept.
    #[error("pages of device memory could not be synced")]
    Sync(#[source] io::Error),
}

/// Memory whose stores can be made to survive a loss of power.
///
/// Stores and loads are coherent between all that share the memory, in whichever process. Of stores that no fence followed, any
/// subset of aligned 8-byte words may survive, in any order; what was flushed before a fence that returned survives whole.
pub trait Memory {
    /// Its length.
    fn len_bytes(&self) -> u64;

    /// Copies from it.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MemoryError>;

    /// Copies into it, through the processor's caches.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn write(&self, at: u64, from: &[u8]) -> Result<(), MemoryError>;

    /// Copies into it past the processor's caches, if it [streams](Memory::streams); else as [`Memory::write`] does. For bytes that
    /// are kept soon and not read. The offset and the length are multiples of 16.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn stream(&self, at: u64, from: &[u8]) -> Result<(), MemoryError>;

    /// Whether what is streamed needs no flush, but a [`Memory::drain`].
    fn streams(&self) -> bool;

    /// Has all that this thread has streamed be as if flushed: what is under way from one processor no fence of another waits for.
    fn drain(&self, point: Point);

    /// The aligned little-endian word at `at`, with acquire order.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn load(&self, at: u64) -> Result<u64, MemoryError>;

    /// Stores an aligned little-endian word, with release order: it survives whole or not at all.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn store(&self, at: u64, value: u64) -> Result<(), MemoryError>;

    /// Stores an aligned little-endian word as [`Memory::store`] does, if it is `from` until then; whether it was. Others may store there at the same
    /// time.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn exchange(&self, at: u64, from: u64, to: u64) -> Result<bool, MemoryError>;

    /// Begins to write back a range's lines. Other threads or processes may have stored them, if their stores happened before this call.
    ///
    /// # Errors
    /// [`MemoryError`]: where pages are synced by the system, this is where that fails.
    fn flush(&self, at: u64, len_bytes: u64, point: Point) -> Result<(), MemoryError>;

    /// Waits until all that was flushed before is kept.
    fn fence(&self, point: Point);
}
