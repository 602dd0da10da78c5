//! Subsystem Local Memory Command Set (command set identifier 3, TP 4131).
//!
//! The published text was not read: opcodes and command dwords are those that two public implementations agree on. What only
//! one of them has, and the layout of [`MemoryNamespace`], is marked "to confirm".

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Addresses and lengths of a host's accesses are multiples of this many bytes. Programs access single bytes.
pub const MEMORY_ALIGN_BYTES: u64 = 4;

/// Most source ranges of one Copy command.
pub const MEMORY_COPY_RANGES_MAX: usize = 256;

open_enum! {
    /// Opcode of an I/O command to a memory namespace.
    pub struct MemoryOpcode(u8) {
        FILL = 0x00 "Memory Fill",
        COPY = 0x01 "Memory Copy",
        READ = 0x02 "Memory Read",
        WRITE = 0x05 "Memory Write",
    }
}

/// CDW12 of Copy. The length is in CDW2 (low) and CDW3, the destination in CDW10 (low) and CDW11, both in bytes.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct MemoryCopyCdw12 {
    /// Source ranges, zero-based.
    pub ranges_z: u8,
    /// Format of their descriptors: see the constants.
    #[bits(4)]
    pub format: u8,
    #[bits(20)]
    __: u32,
}

impl MemoryCopyCdw12 {
    /// [`MemoryCopyBlocks`] without protection information.
    pub const FORMAT_BLOCKS: u8 = 2;
    /// [`MemoryCopyBlocks`] with fields for 32-bit and 64-bit guards.
    pub const FORMAT_BLOCKS_WIDE_GUARD: u8 = 3;
    /// [`MemoryCopyBytes`].
    pub const FORMAT_BYTES: u8 = 4;
}

/// A source range of Copy in blocks (formats 2 and 3).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct MemoryCopyBlocks {
    /// Source namespace.
    pub snsid: u32,
    /// Reserved.
    pub reserved_4: [u8; 4],
    /// First block.
    pub slba: u64,
    /// Blocks, zero-based.
    pub nlb_z: u16,
    /// Reserved.
    pub reserved_18: [u8; 4],
    /// Source options: [`SOURCE_FAST_COPY_ONLY`].
    pub sopt: u16,
    /// Reference and application tags, in formats with protection information.
    pub tags: [u8; 8],
}

/// A source range of Copy in bytes of another memory namespace (format 4).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct MemoryCopyBytes {
    /// Source namespace.
    pub snsid: u32,
    /// Reserved.
    pub reserved_4: [u8; 4],
    /// First byte, a multiple of four.
    pub start: u64,
    /// Bytes, a multiple of four.
    pub length_bytes: u32,
    /// Reserved.
    pub reserved_20: [u8; 2],
    /// Source options: [`SOURCE_FAST_COPY_ONLY`].
    pub sopt: u16,
    /// Reserved.
    pub reserved_24: [u8; 8],
}

/// Source option of a range: refuse the command if the copy is no faster than a read and a write. Bit to confirm.
pub const SOURCE_FAST_COPY_ONLY: u16 = 1;

/// Identify Namespace, CNS 05h with command set identifier 3. Layout to confirm.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct MemoryNamespace {
    /// Size in bytes.
    pub nsze_bytes: u64,
    /// Reserved.
    pub reserved_8: [u8; 22],
    /// Multi-path and sharing: bit 0 shared.
    pub nmic: u8,
    /// Reserved.
    pub reserved_31: u8,
    /// Most source ranges of a Copy command, zero-based.
    pub msrc_z: u8,
    /// Reserved.
    pub reserved_33: [u8; 3],
    /// ANA group.
    pub anagrpid: u32,
    /// Reserved.
    pub reserved_40: [u8; 6],
    /// Endurance group.
    pub endgid: u16,
    /// Globally unique identifier.
    pub nguid: [u8; 16],
    /// IEEE extended unique identifier.
    pub eui64: [u8; 8],
    /// Reserved.
    pub reserved_72: [u8; 4024],
}

assert_size! {
    MemoryCopyBlocks = 32;
    MemoryCopyBytes = 32;
    MemoryNamespace = 4096;
}
assert_offset! { MemoryCopyBlocks { slba = 8, nlb_z = 16, sopt = 22, } }
assert_offset! { MemoryCopyBytes { start = 8, length_bytes = 16, sopt = 22, } }
assert_offset! { MemoryNamespace { nmic = 30, msrc_z = 32, anagrpid = 36, endgid = 46, nguid = 48, eui64 = 64, } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_has_its_format_above_the_count_of_ranges() {
        let cdw12 = MemoryCopyCdw12::new().with_ranges_z(3).with_format(MemoryCopyCdw12::FORMAT_BYTES);
        assert_eq!(cdw12.into_bits(), 0x0403);
    }

    #[test]
    fn opcodes_say_the_direction_of_their_data() {
        let direction = |opcode: MemoryOpcode| opcode.into_bits() & 3;
        assert_eq!(direction(MemoryOpcode::FILL), 0);
        assert_eq!(direction(MemoryOpcode::COPY), 1);
        assert_eq!(direction(MemoryOpcode::READ), 2);
        assert_eq!(direction(MemoryOpcode::WRITE), 1);
    }
}
