//! Memory of a command's data, for its holder while the command is outstanding.

use std::ptr::NonNull;

use byway_sys::KernelMemory;

use crate::payload::{Payload, SmallBytes};

/// Memory of an outstanding command's data: two words wide, while a [`Payload`] has room for inline bytes. Inline bytes are
/// not moved, and not returned.
pub type Memory = Payload<Box<SmallBytes>>;

impl From<Payload> for Memory {
    #[inline]
    fn from(payload: Payload) -> Self {
        match payload {
            Payload::Empty => Self::Empty,
            Payload::Small(small) => Self::Small(Box::new(small)),
            Payload::Buffer(buffer) => Self::Buffer(buffer),
            Payload::Vectored(parts) => Self::Vectored(parts),
        }
    }
}

impl From<Memory> for Payload {
    fn from(memory: Memory) -> Self {
        match memory {
            Memory::Empty => Self::Empty,
            Memory::Small(small) => Self::Small(*small),
            Memory::Buffer(buffer) => Self::Buffer(buffer),
            Memory::Vectored(parts) => Self::Vectored(parts),
        }
    }
}

#[expect(unsafe_code, reason = "gives the kernel the addresses of the bytes")]
// SAFETY: it owns the bytes, so no other code touches them, and they stay where they are wherever it goes: those of buffers
// in what the buffers keep, the few in their box. The number and the lengths of buffers change by the owner alone.
unsafe impl KernelMemory for Memory {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Buffer;

    #[test]
    fn the_kernel_gets_every_byte_once() {
        let part = |len| Buffer::zeroed(len).unwrap();
        let payloads = [
            Payload::Empty,
            Payload::copy_of(&[1; 9]).unwrap(),
            part(3).into(),
            vec![part(5), part(0), part(7)].into(),
        ];
        for payload in payloads {
            let len = payload.len();
            let memory = Memory::from(payload);
            let segments: Vec<_> = (0..memory.segments()).filter_map(|index| memory.segment(index)).collect();
            assert_eq!(segments.iter().map(|(_, len)| len).sum::<usize>(), len);
            let same = |((start, _), part): (&(NonNull<u8>, usize), &[u8])| {
                start.as_ptr().cast_const() == part.as_ptr()
            };
            assert!(
                segments
                    .iter()
                    .zip(memory.parts().filter(|part| !part.is_empty() || segments.len() > 1))
                    .all(same)
            );
            assert_eq!(memory.segment(segments.len()), None);
        }
    }
}
