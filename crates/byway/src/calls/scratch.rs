//! A buffer that borrowed bytes travel in, where a queue takes none: kept from call to call.

use byway_core::{Buffer, Result};

/// A buffer that is kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Option<Buffer>);

impl Scratch {
    /// A buffer of this length, whatever it holds.
    pub(crate) fn take(&mut self, len: usize) -> Result<Buffer> {
        match self.0.take().filter(|kept| kept.capacity() >= len) {
            Some(mut kept) => {
                kept.set_len(len);
                Ok(kept)
            }
            None => Buffer::zeroed(len),
        }
    }

    /// One that holds a copy of these bytes.
    pub(crate) fn copy_of(&mut self, bytes: &[u8]) -> Result<Buffer> {
        let mut copy = self.take(bytes.len())?;
        copy.as_mut_slice().copy_from_slice(bytes);
        Ok(copy)
    }

    /// Whether no buffer is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Keeps a buffer that came back.
    pub(crate) fn keep(&mut self, buffer: Option<Buffer>) {
        self.0 = buffer;
    }
}
