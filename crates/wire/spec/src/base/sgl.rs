//! Scatter gather list descriptors (Base 2.1, section 4.3.2).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of one descriptor.
pub const SGL_DESCRIPTOR_BYTES: usize = 16;

/// A 16-byte SGL descriptor.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SglDescriptor {
    /// Bus address, or an offset where the sub type says so.
    pub address: u64,
    /// Bytes of data, or bytes of the next segment.
    pub length_bytes: u32,
    /// Reserved for the kinds used here.
    pub reserved: [u8; 3],
    /// Descriptor type in bits 7:4, sub type in bits 3:0.
    pub kind: SglKind,
}

assert_size! { SglDescriptor = SGL_DESCRIPTOR_BYTES; }

open_enum! {
    /// Byte 15 of a descriptor: type in the high four bits, sub type in the low four.
    pub struct SglKind(u8) {
        DATA_BLOCK = 0x00 "SGL Data Block",
        /// Reserved on PCIe; Byway's inline payload and the in-capsule data of fabrics.
        DATA_BLOCK_OFFSET = 0x01 "SGL Data Block, offset",
        BIT_BUCKET = 0x10 "SGL Bit Bucket",
        SEGMENT = 0x20 "SGL Segment",
        LAST_SEGMENT = 0x30 "SGL Last Segment",
        KEYED_DATA_BLOCK = 0x40 "Keyed SGL Data Block",
        TRANSPORT_DATA_BLOCK = 0x5a "Transport SGL Data Block",
    }
}

impl SglKind {
    /// Descriptor type, bits 7:4.
    pub const fn descriptor_type(self) -> u8 {
        self.0 >> 4
    }

    /// Descriptor sub type, bits 3:0.
    pub const fn sub_type(self) -> u8 {
        self.0 & 0xf
    }
}

impl SglDescriptor {
    /// A descriptor of this kind.
    pub const fn new(kind: SglKind, address: u64, length_bytes: u32) -> Self {
        Self { address, length_bytes, reserved: [0; 3], kind }
    }

    /// Data at a bus address.
    pub const fn data_block(address: u64, length_bytes: u32) -> Self {
        Self::new(SglKind::DATA_BLOCK, address, length_bytes)
    }

    /// Data that follows the command itself: in the capsule, or in the ring slots after it.
    pub const fn inline(length_bytes: u32) -> Self {
        Self::new(SglKind::DATA_BLOCK_OFFSET, 0, length_bytes)
    }

    /// Bytes of a read that are thrown away.
    pub const fn bit_bucket(length_bytes: u32) -> Self {
        Self::new(SglKind::BIT_BUCKET, 0, length_bytes)
    }

    /// More descriptors at a bus address, ending in another segment descriptor.
    pub const fn segment(address: u64, length_bytes: u32) -> Self {
        Self::new(SglKind::SEGMENT, address, length_bytes)
    }

    /// More descriptors at a bus address, none of them a segment.
    pub const fn last_segment(address: u64, length_bytes: u32) -> Self {
        Self::new(SglKind::LAST_SEGMENT, address, length_bytes)
    }

    /// Reads 16 bytes of a segment.
    #[inline]
    pub fn from_bytes(bytes: &[u8; SGL_DESCRIPTOR_BYTES]) -> Self {
        zerocopy::transmute!(*bytes)
    }

    /// The 16 bytes of a segment.
    #[inline]
    pub fn to_bytes(&self) -> [u8; SGL_DESCRIPTOR_BYTES] {
        zerocopy::transmute!(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    #[test]
    fn an_inline_descriptor_has_byte_15_of_sgl1_at_01h_and_psdt_sgl() {
        let mut command = Command::new(0x01, 1, 1);
        command.set_sgl1(SglDescriptor::inline(200));
        let bytes = command.to_bytes();
        assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[1] >> 6, 1);
        assert_eq!(command.sgl1(), SglDescriptor::inline(200));
    }
}
