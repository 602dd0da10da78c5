//! What a command sends: nothing, a few bytes held in the command itself, or a buffer.

use std::borrow::Borrow;
use std::fmt;

use crate::buffer::Buffer;
use crate::buffers::Buffers;
use crate::error::Result;

/// Up to [`SmallBytes::MAX_BYTES`] bytes held in place, so that a small value needs neither a buffer nor an allocation.
#[derive(Clone, Copy)]
pub struct SmallBytes {
    bytes: [u8; Self::MAX_BYTES],
    len: u8,
}

impl SmallBytes {
    /// The most that is held in place, in bytes: with it, 96 of 100 values of the mixgraph workload are small.
    pub const MAX_BYTES: usize = 127;

    /// These bytes held in place, or `None` if there are too many.
    #[must_use]
    #[inline]
    pub fn new(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_BYTES];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self { bytes, len: from.len() as u8 })
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes)
    }
}

impl fmt::Debug for SmallBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SmallBytes({} bytes)", self.len)
    }
}

/// Data that a command sends to the device; as [`Memory`](crate::Memory), the data of an outstanding command in either
/// direction. Short data is stored inline, or as `S` says. Not `non_exhaustive`: each backend has to move every kind.
#[derive(Debug, Default)]
pub enum Payload<S = SmallBytes> {
    /// No bytes.
    #[default]
    Empty,
    /// A few bytes, held in the command.
    Small(S),
    /// A buffer; its whole length is sent, and it is given back with the completion.
    Buffer(Buffer),
    /// Buffers, sent one behind the other, and given back with the completion.
    Vectored(Buffers),
}

impl Payload {
    /// A payload that holds a copy of `bytes`: in place when they are few, else in a buffer of their own.
    ///
    /// # Errors
    /// When the buffer cannot be allocated.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        match SmallBytes::new(bytes) {
            _ if bytes.is_empty() => Ok(Self::Empty),
            Some(small) => Ok(Self::Small(small)),
            None => Ok(Self::Buffer(Buffer::copy_of(bytes)?)),
        }
    }
}

impl<S: Borrow<SmallBytes>> Payload<S> {
    /// The bytes to send, unless they are in several buffers.
    #[must_use]
    #[inline]
    pub fn contiguous(&self) -> Option<&[u8]> {
        match self {
            Self::Empty => Some(&[]),
            Self::Small(small) => Some(small.borrow().as_slice()),
            Self::Buffer(buffer) => Some(buffer.as_slice()),
            Self::Vectored(_) => None,
        }
    }

    /// The bytes to send, part by part.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let parts = match self {
            Self::Vectored(parts) => parts.iter(),
            Self::Empty | Self::Small(_) | Self::Buffer(_) => [].iter(),
        };
        self.contiguous().into_iter().chain(parts.map(Buffer::as_slice))
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Small(small) => small.borrow().as_slice().len(),
            Self::Buffer(buffer) => buffer.len(),
            Self::Vectored(parts) => parts.iter().map(Buffer::len).sum(),
        }
    }

    /// Whether there is nothing to send.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffer, if the payload is one.
    #[must_use]
    #[inline]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Buffer(buffer) => Some(buffer),
            Self::Empty | Self::Small(_) | Self::Vectored(_) => None,
        }
    }

    /// Its buffers.
    pub fn buffers_mut(&mut self) -> &mut [Buffer] {
        match self {
            Self::Buffer(buffer) => std::slice::from_mut(buffer),
            Self::Vectored(parts) => parts,
            Self::Empty | Self::Small(_) => &mut [],
        }
    }

    /// The buffer, or the buffers, that a completion gives back.
    #[must_use]
    #[inline]
    pub fn into_buffers(self) -> (Option<Buffer>, Buffers) {
        match self {
            Self::Buffer(buffer) => (Some(buffer), Buffers::NONE),
            Self::Vectored(parts) => (None, parts),
            Self::Empty | Self::Small(_) => (None, Buffers::NONE),
        }
    }
}

impl<S> From<Buffer> for Payload<S> {
    fn from(buffer: Buffer) -> Self {
        Self::Buffer(buffer)
    }
}

impl<S> From<Vec<Buffer>> for Payload<S> {
    fn from(parts: Vec<Buffer>) -> Self {
        Self::Vectored(parts.into())
    }
}

impl From<SmallBytes> for Payload {
    fn from(small: SmallBytes) -> Self {
        Self::Small(small)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn few_bytes_are_held_in_place_and_many_in_a_buffer() {
        let kinds = [0, 1, 127, 128].map(|n| Payload::copy_of(&vec![5; n]).unwrap());
        assert!(matches!(kinds, [Payload::Empty, Payload::Small(_), Payload::Small(_), Payload::Buffer(_)]));
        let lengths =
            kinds.map(|payload| payload.contiguous().unwrap().iter().filter(|byte| **byte == 5).count());
        assert_eq!(lengths, [0, 1, 127, 128]);
    }
}
