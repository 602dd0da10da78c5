//! Access to device memory, as logs need it.

use std::fmt;
use std::io;

use thiserror::Error;

/// Name of a flush or fence in the code. Tests leave out each and must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Point(pub &'static str);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Why an access failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Outside the memory, or not aligned.
    #[error(
        "{len_bytes} bytes at {at} are outside of {memory_bytes} bytes of device memory, or not aligned for the access"
    )]
    Outside {
        /// Offset of the access.
        at: u64,
        /// Length of the access.
        len_bytes: u64,
        /// Length of the memory.
        memory_bytes: u64,
    },
    /// The memory is read-only here.
    #[error("device memory that was given for reading is not written")]
    ReadOnly,
    /// Pages could not be synced (msync).
    #[error("pages of device memory could not be synced")]
    Sync(#[source] io::Error),
}

/// Memory whose stores can be made durable.
///
/// Loads and stores are coherent between all processes. Without a fence any subset of aligned 8-byte words may survive power loss, in any order;
/// what was flushed before a fence survives whole.
pub trait Memory {
    /// Its bytes.
    fn len_bytes(&self) -> u64;

    /// Reads bytes.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), MemoryError>;

    /// Writes bytes through the processor's caches.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn write(&self, at: u64, from: &[u8]) -> Result<(), MemoryError>;

    /// Writes bytes by non-temporal stores if it [streams](Memory::streams), else as [`Memory::write`]. For bytes that are made durable soon and not
    /// read. Offset and length are multiples of 16.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn stream(&self, at: u64, from: &[u8]) -> Result<(), MemoryError>;

    /// Whether streamed bytes need no flush, only a [`Memory::drain`].
    fn streams(&self) -> bool;

    /// Completes this thread's non-temporal stores: another processor's fence does not wait for them.
    fn drain(&self, point: Point);

    /// Loads an aligned little-endian word (Acquire).
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn load(&self, at: u64) -> Result<u64, MemoryError>;

    /// Stores an aligned little-endian word (Release). It survives whole or not at all.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn store(&self, at: u64, value: u64) -> Result<(), MemoryError>;

    /// Stores an aligned little-endian word if it is `from`, in one step. `false` if it is not.
    ///
    /// # Errors
    /// [`MemoryError::Outside`].
    fn exchange(&self, at: u64, from: u64, to: u64) -> Result<bool, MemoryError>;

    /// Begins to write back a range's lines. Other threads or processes may have stored them, if their stores happened before this call.
    ///
    /// # Errors
    /// [`MemoryError`], for memory that is synced by pages.
    fn flush(&self, at: u64, len_bytes: u64, point: Point) -> Result<(), MemoryError>;

    /// Waits until everything flushed before is durable.
    fn fence(&self, point: Point);
}
