//! What a query reads: bytes of an object, by position.

use std::fmt;

use bytes::Bytes;

/// An object did not give the bytes that were asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The object was overwritten or deleted since the query began.
    #[error("the object was changed or deleted while the query read it")]
    Changed,
    /// The medium could not read it.
    #[error("the object cannot be read: {0}")]
    Unreadable(String),
}

/// An object whose bytes do not change while a query reads them.
pub trait Object: Send + Sync + fmt::Debug {
    /// Its size in bytes.
    fn len_bytes(&self) -> u64;

    /// Bytes `start` to `start + len_bytes`, all of which lie inside.
    ///
    /// # Errors
    /// [`ObjectError`]: the object has changed, or cannot be read.
    fn read(&self, start: u64, len_bytes: usize) -> Result<Bytes, ObjectError>;
}

/// An object in memory.
impl Object for Bytes {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, start: u64, len_bytes: usize) -> Result<Bytes, ObjectError> {
        let start = start as usize;
        Ok(self.slice(start..start + len_bytes))
    }
}
