//! The submission queue entry (Base 2.1, section 4.1).

use super::sgl::SglDescriptor;
use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a submission queue entry, and so of one ring slot.
pub const COMMAND_BYTES: usize = 64;

/// NSID that names every namespace.
pub const NSID_ALL: u32 = 0xffff_ffff;

/// Command dword 0.
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Cdw0 {
    /// Opcode; its meaning depends on the queue and the namespace's command set.
    pub opcode: u8,
    /// Fused operation: see the constants.
    #[bits(2)]
    pub fuse: u8,
    #[bits(4)]
    __: u8,
    /// How the data pointer is to be read.
    #[bits(2)]
    pub psdt: DataPointer,
    /// Command identifier, echoed in the completion.
    pub cid: u16,
}

impl Cdw0 {
    /// FUSE: a command alone.
    pub const FUSE_NONE: u8 = 0;
    /// FUSE: the first of two.
    pub const FUSE_FIRST: u8 = 1;
    /// FUSE: the second of two.
    pub const FUSE_SECOND: u8 = 2;
}

/// PRP or SGL for Data Transfer (CDW0.PSDT).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataPointer {
    /// 00b: two PRP entries.
    Prp,
    /// 01b: SGL for data; the metadata pointer is a contiguous buffer.
    Sgl,
    /// 10b: SGL for data; the metadata pointer holds one SGL descriptor.
    SglMetadata,
    /// 11b.
    Reserved,
}

impl DataPointer {
    /// The two bits of the field.
    pub const fn into_bits(self) -> u8 {
        match self {
            Self::Prp => 0,
            Self::Sgl => 1,
            Self::SglMetadata => 2,
            Self::Reserved => 3,
        }
    }

    /// Reads the two bits of the field.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Prp,
            1 => Self::Sgl,
            2 => Self::SglMetadata,
            _ => Self::Reserved,
        }
    }

    /// Whether the data pointer holds SGL1.
    pub const fn is_sgl(self) -> bool {
        matches!(self, Self::Sgl | Self::SglMetadata)
    }
}

/// Data transfer direction, the low two bits of every standard and vendor opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// 00b: no data pointer.
    None,
    /// 01b: the device reads host memory.
    HostToDevice,
    /// 10b: the device writes host memory.
    DeviceToHost,
    /// 11b.
    Both,
}

impl Direction {
    /// The direction an opcode declares.
    pub const fn of(opcode: u8) -> Self {
        match opcode & 3 {
            0 => Self::None,
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            _ => Self::Both,
        }
    }
}

/// A submission queue entry.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Command {
    /// Opcode, fusing, data pointer kind and identifier.
    pub cdw0: Cdw0,
    /// Namespace.
    pub nsid: u32,
    /// Command dword 2.
    pub cdw2: u32,
    /// Command dword 3.
    pub cdw3: u32,
    /// Metadata pointer, CDW4–5.
    pub mptr: u64,
    /// Data pointer, CDW6–9: PRP1 and PRP2, or SGL1.
    pub dptr: [u64; 2],
    /// Command dword 10.
    pub cdw10: u32,
    /// Command dword 11.
    pub cdw11: u32,
    /// Command dword 12.
    pub cdw12: u32,
    /// Command dword 13.
    pub cdw13: u32,
    /// Command dword 14.
    pub cdw14: u32,
    /// Command dword 15.
    pub cdw15: u32,
}

assert_size! { Command = COMMAND_BYTES; }
assert_offset! { Command { nsid = 4, mptr = 16, dptr = 24, cdw10 = 40, cdw15 = 60, } }

impl Command {
    /// A command with this opcode, identifier and namespace, everything else zero.
    pub const fn new(opcode: u8, cid: u16, nsid: u32) -> Self {
        Self {
            cdw0: Cdw0::new().with_opcode(opcode).with_cid(cid),
            nsid,
            cdw2: 0,
            cdw3: 0,
            mptr: 0,
            dptr: [0; 2],
            cdw10: 0,
            cdw11: 0,
            cdw12: 0,
            cdw13: 0,
            cdw14: 0,
            cdw15: 0,
        }
    }

    /// Reads the 64 bytes of a ring slot.
    #[inline]
    pub fn from_bytes(bytes: &[u8; COMMAND_BYTES]) -> Self {
        zerocopy::transmute!(*bytes)
    }

    /// The 64 bytes of a ring slot, mutable, for reading a command in place.
    #[inline]
    pub fn as_mut_bytes(&mut self) -> &mut [u8; COMMAND_BYTES] {
        zerocopy::transmute_mut!(self)
    }

    /// The 64 bytes of a ring slot.
    #[inline]
    pub fn to_bytes(&self) -> [u8; COMMAND_BYTES] {
        zerocopy::transmute!(*self)
    }

    /// Opcode.
    #[inline]
    pub const fn opcode(&self) -> u8 {
        self.cdw0.opcode()
    }

    /// Command identifier.
    #[inline]
    pub const fn cid(&self) -> u16 {
        self.cdw0.cid()
    }

    /// The direction the opcode declares.
    #[inline]
    pub const fn direction(&self) -> Direction {
        Direction::of(self.opcode())
    }

    /// PRP entry 1.
    #[inline]
    pub const fn prp1(&self) -> u64 {
        self.dptr[0]
    }

    /// PRP entry 2.
    #[inline]
    pub const fn prp2(&self) -> u64 {
        self.dptr[1]
    }

    /// Sets both PRP entries and PSDT to PRP.
    #[inline]
    pub fn set_prps(&mut self, prp1: u64, prp2: u64) {
        self.cdw0.set_psdt(DataPointer::Prp);
        self.dptr = [prp1, prp2];
    }

    /// The descriptor in the data pointer; meaningful when PSDT says SGL.
    #[inline]
    pub fn sgl1(&self) -> SglDescriptor {
        zerocopy::transmute!(self.dptr)
    }

    /// Puts a descriptor into the data pointer and sets PSDT to SGL.
    #[inline]
    pub fn set_sgl1(&mut self, descriptor: SglDescriptor) {
        self.cdw0.set_psdt(DataPointer::Sgl);
        self.dptr = zerocopy::transmute!(descriptor);
    }

    /// A 64-bit value kept in CDW10 (low) and CDW11, as a starting LBA is.
    #[inline]
    pub const fn cdw10_11(&self) -> u64 {
        self.cdw10 as u64 | (self.cdw11 as u64) << 32
    }

    /// Sets CDW10 (low) and CDW11 from a 64-bit value.
    #[inline]
    pub const fn set_cdw10_11(&mut self, value: u64) {
        self.cdw10 = value as u32;
        self.cdw11 = (value >> 32) as u32;
    }

    /// The 16 key bytes of a KV command: CDW2, 3, 14, 15 in memory order, zero beyond the key.
    #[inline]
    pub fn key(&self) -> [u8; 16] {
        zerocopy::transmute!([self.cdw2, self.cdw3, self.cdw14, self.cdw15])
    }

    /// Sets the key bytes of a KV command, zero beyond the key; bytes past 16 are not carried.
    #[inline]
    pub fn set_key(&mut self, key: &[u8]) {
        let (low, high) = match key.first_chunk() {
            Some(low) => (u64::from_le_bytes(*low), low_word(&key[low.len()..])),
            None => (low_word(key), 0),
        };
        (self.cdw2, self.cdw3) = (low as u32, (low >> 32) as u32);
        (self.cdw14, self.cdw15) = (high as u32, (high >> 32) as u32);
    }
}

/// The first eight bytes of `bytes` as a word, zeroes beyond its end.
///
/// Loads only: bytes stored one by one and read back as a word would wait for the stores.
#[inline]
pub(crate) fn low_word(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(low), Some(high)) => {
            let above = 8 * (bytes.len() - 4);
            u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << above
        }
        _ => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let mut command = Command::new(0x02, 0xbeef, 7);
        command.set_cdw10_11(0x1122_3344_5566_7788);
        command.cdw0.set_psdt(DataPointer::Sgl);
        let bytes = command.to_bytes();
        assert_eq!(bytes[..8], [0x02, 0x40, 0xef, 0xbe, 7, 0, 0, 0]);
        assert_eq!(bytes[40..48], 0x1122_3344_5566_7788u64.to_le_bytes());
        assert_eq!(Command::from_bytes(&bytes), command);
    }

    #[test]
    fn a_key_is_a_plain_copy_into_dwords_2_3_14_15() {
        let mut command = Command::default();
        command.set_key(b"0123456789abcdef");
        let bytes = command.to_bytes();
        assert_eq!(bytes[8..16], *b"01234567");
        assert_eq!(bytes[56..64], *b"89abcdef");
        assert_eq!(command.key(), *b"0123456789abcdef");
    }

    #[test]
    fn a_key_of_any_length_is_padded_with_zeroes_and_cut_at_16() {
        let long = *b"0123456789abcdefghij";
        for len in 0..=long.len() {
            let mut command = Command::default();
            command.set_key(&[0xff; 16]);
            command.set_key(&long[..len]);
            let mut expected = [0; 16];
            expected[..len.min(16)].copy_from_slice(&long[..len.min(16)]);
            assert_eq!(command.key(), expected, "{len} bytes");
        }
    }

    #[test]
    fn low_opcode_bits_give_the_direction() {
        assert_eq!(Direction::of(0x10), Direction::None);
        assert_eq!(Direction::of(0x01), Direction::HostToDevice);
        assert_eq!(Direction::of(0x06), Direction::DeviceToHost);
        assert_eq!(Direction::of(0xff), Direction::Both);
    }
}
