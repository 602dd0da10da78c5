//! What a command sends: nothing, a few bytes held in the command itself, or a buffer.

use std::fmt;
use std::ptr::NonNull;

use byway_sys::KernelMemory;

use crate::buffer::Buffer;
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

/// What a command sends to the device.
#[derive(Debug, Default)]
pub enum Payload {
    /// No bytes.
    #[default]
    Empty,
    /// A few bytes, held in the command.
    Small(SmallBytes),
    /// A buffer; its whole length is sent, and it is given back with the completion.
    Buffer(Buffer),
    /// Buffers, sent one behind the other, and given back with the completion.
    Vectored(Vec<Buffer>),
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

    /// The bytes to send, unless they stand in several buffers.
    #[must_use]
    #[inline]
    pub fn contiguous(&self) -> Option<&[u8]> {
        match self {
            Self::Empty => Some(&[]),
            Self::Small(small) => Some(small.as_slice()),
            Self::Buffer(buffer) => Some(buffer.as_slice()),
            Self::Vectored(_) => None,
        }
    }

    /// The bytes to send, part by part.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let parts = match self {
            Self::Vectored(parts) => parts.as_slice(),
            Self::Empty | Self::Small(_) | Self::Buffer(_) => &[],
        };
        self.contiguous().into_iter().chain(parts.iter().map(Buffer::as_slice))
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Small(small) => small.as_slice().len(),
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

    /// The buffer, or the buffers, that a completion gives back.
    #[must_use]
    #[inline]
    pub fn into_buffers(self) -> (Option<Buffer>, Vec<Buffer>) {
        match self {
            Self::Buffer(buffer) => (Some(buffer), Vec::new()),
            Self::Vectored(parts) => (None, parts),
            Self::Empty | Self::Small(_) => (None, Vec::new()),
        }
    }
}

#[expect(unsafe_code, reason = "tells the kernel where the bytes are")]
// SAFETY: a payload owns its bytes, so nobody else touches them. Those of buffers stay where they are wherever the payload
// goes, and those held in place do as long as the payload stays; the number and the lengths of buffers change by the
// payload's owner alone.
unsafe impl KernelMemory for Payload {
    #[inline]
    fn segments(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Small(_) | Self::Buffer(_) => 1,
            Self::Vectored(parts) => parts.len(),
        }
    }

    #[inline]
    fn segment(&self, index: usize) -> Option<(NonNull<u8>, usize)> {
        match (self, index) {
            (Self::Buffer(buffer), 0) => Some((buffer.as_ptr(), buffer.len())),
            (Self::Small(small), 0) => {
                let bytes = small.as_slice();
                Some((NonNull::from(bytes).cast(), bytes.len()))
            }
            (Self::Vectored(parts), _) => parts.get(index).map(|part| (part.as_ptr(), part.len())),
            (Self::Empty | Self::Small(_) | Self::Buffer(_), _) => None,
        }
    }
}

impl From<Buffer> for Payload {
    fn from(buffer: Buffer) -> Self {
        Self::Buffer(buffer)
    }
}

impl From<Vec<Buffer>> for Payload {
    fn from(parts: Vec<Buffer>) -> Self {
        Self::Vectored(parts)
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

    #[test]
    fn the_kernel_is_told_of_every_byte_once() {
        let part = |len| Buffer::zeroed(len).unwrap();
        let payloads = [Payload::Empty, Payload::copy_of(&[1; 9]).unwrap(), part(3).into()];
        for payload in payloads.into_iter().chain([Payload::Vectored(vec![part(5), part(0), part(7)])]) {
            let told: Vec<_> = (0..payload.segments()).filter_map(|index| payload.segment(index)).collect();
            assert_eq!(told.iter().map(|(_, len)| len).sum::<usize>(), payload.len());
            let same = |((start, _), part): (&(NonNull<u8>, usize), &[u8])| {
                start.as_ptr().cast_const() == part.as_ptr()
            };
            assert!(
                told.iter().zip(payload.parts().filter(|part| !part.is_empty() || told.len() > 1)).all(same)
            );
            assert_eq!(payload.segment(told.len()), None);
        }
    }
}
