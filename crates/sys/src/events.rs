//! Who watches a file: told before each operation on it, and able to make it fail.
//!
//! Two things stand on this: file systems that are full or failing, by choice, and files that forget what was not synced.

use std::fmt;
use std::io;

/// An observer of an [`ImageFile`](crate::ImageFile).
///
/// An implementer may answer with an error, which becomes the operation's own: nothing was done then. It is called on
/// the thread that operates on the file, before the system is asked. It may rely on being told of every read, write,
/// allocation, punch and sync; stores through mappings pass unseen.
pub trait FileEvents: fmt::Debug + Send + Sync {
    /// Bytes are about to be read.
    ///
    /// # Errors
    /// What the read is to fail with.
    fn before_read(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Bytes are about to be written.
    ///
    /// # Errors
    /// What the write is to fail with.
    fn before_write(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Disk room is about to be taken.
    ///
    /// # Errors
    /// What taking it is to fail with.
    fn before_allocate(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Disk room is about to be given back.
    ///
    /// # Errors
    /// What giving it back is to fail with.
    fn before_punch(&self, _at: u64, _len_bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// The file is about to be synced.
    ///
    /// # Errors
    /// What the sync is to fail with.
    fn before_sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Everything stored before the sync began is on the disk.
    fn after_sync(&self) {}
}
