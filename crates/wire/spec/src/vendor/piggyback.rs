//! Value bytes in the commands themselves: how the fields of a command are packed.

use bitfield_struct::bitfield;

use crate::Command;
#[cfg(doc)]
use crate::vendor::VendorOpcode;

/// Value bytes in a write command ([`VendorOpcode::KV_WRITE_PIGGYBACK`], [`VendorOpcode::KV_STORE_CXL_PIGGYBACK`]).
pub const WRITE_BYTES: usize = 35;
/// Value bytes in a transfer command.
pub const TRANSFER_BYTES: usize = 56;
/// Value bytes in a pass-through write command.
pub const WRITE_PT_BYTES: usize = 11;
/// Value bytes in a pass-through transfer command.
pub const TRANSFER_PT_BYTES: usize = 28;

/// Packs up to 35 value bytes into CDW4–9, CDW11 bits 31:8 and CDW12–13. CDW11 bits 7:0, the key length, stays.
#[inline(always)]
pub fn pack_write(command: &mut Command, bytes: &[u8]) {
    let [a, b, c, eleven @ ..] = words::<5>(bytes);
    command.mptr = a;
    command.dptr = [b, c];
    pack_eleven(command, eleven);
}

/// The 35 value bytes of a write command.
#[inline]
pub fn unpack_write(command: &Command) -> [u8; WRITE_BYTES] {
    let wide: [u8; 24] = zerocopy::transmute!([command.mptr, command.dptr[0], command.dptr[1]]);
    let mut field = [0; WRITE_BYTES];
    field[..24].copy_from_slice(&wide);
    field[24..].copy_from_slice(&unpack_eleven(command));
    field
}

/// Packs up to 56 value bytes into CDW2–15.
#[inline]
pub fn pack_transfer(command: &mut Command, bytes: &[u8]) {
    let [a, b, c, d, e, f, g] = words::<7>(bytes);
    (command.cdw2, command.cdw3) = halves(a);
    command.mptr = b;
    command.dptr = [c, d];
    (command.cdw10, command.cdw11) = halves(e);
    (command.cdw12, command.cdw13) = halves(f);
    (command.cdw14, command.cdw15) = halves(g);
}

/// The 56 value bytes of a transfer command.
#[inline]
pub fn unpack_transfer(command: &Command) -> [u8; TRANSFER_BYTES] {
    let slot = command.to_bytes();
    *split::<8, TRANSFER_BYTES>(&slot).1
}

/// Packs up to 11 value bytes into CDW11 bits 31:8 and CDW12–13. CDW11 bits 7:0, the key length, stays.
#[inline]
pub fn pack_write_pt(command: &mut Command, bytes: &[u8]) {
    pack_eleven(command, words::<2>(bytes));
}

/// The 11 value bytes of a pass-through write command.
#[inline]
pub fn unpack_write_pt(command: &Command) -> [u8; WRITE_PT_BYTES] {
    unpack_eleven(command)
}

/// CDW2 of a pass-through transfer command.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct TransferPt {
    /// Payload id: DW0 of the write command's completion.
    pub payload: u16,
    /// Where the bytes go: fragment n carries value bytes from 11 + 28 n.
    pub fragment: u16,
}

/// Packs up to 28 value bytes into CDW3 and CDW10–15 of the transfer command that CDW2 describes.
#[inline]
pub fn pack_transfer_pt(command: &mut Command, place: TransferPt, bytes: &[u8]) {
    let [a, b, c, d] = words::<4>(bytes);
    command.cdw2 = place.into_bits();
    (command.cdw3, command.cdw10) = halves(a);
    (command.cdw11, command.cdw12) = halves(b);
    (command.cdw13, command.cdw14) = halves(c);
    command.cdw15 = d as u32;
}

/// The place and the 28 value bytes of a pass-through transfer command.
#[inline]
pub fn unpack_transfer_pt(command: &Command) -> (TransferPt, [u8; TRANSFER_PT_BYTES]) {
    let dwords = [
        command.cdw3,
        command.cdw10,
        command.cdw11,
        command.cdw12,
        command.cdw13,
        command.cdw14,
        command.cdw15,
    ];
    (TransferPt::from_bits(command.cdw2), zerocopy::transmute!(dwords))
}

/// Transfer commands a piggybacked value needs after its write command.
#[inline]
pub const fn transfers(value_bytes: usize) -> usize {
    value_bytes.saturating_sub(WRITE_BYTES).div_ceil(TRANSFER_BYTES)
}

/// Transfer commands a pass-through value needs after its write command.
#[inline]
pub const fn transfers_pt(value_bytes: usize) -> usize {
    value_bytes.saturating_sub(WRITE_PT_BYTES).div_ceil(TRANSFER_PT_BYTES)
}

/// Packs eleven bytes, the low ones of two words, into CDW11 bits 31:8 and CDW12–13.
#[inline]
fn pack_eleven(command: &mut Command, [low, high]: [u64; 2]) {
    command.cdw11 = command.cdw11 & 0xff | (low as u32) << 8;
    command.cdw12 = (low >> 24) as u32;
    command.cdw13 = (low >> 56) as u32 | (high as u32) << 8;
}

#[inline]
fn unpack_eleven(command: &Command) -> [u8; 11] {
    let [_, a, b, c] = command.cdw11.to_le_bytes();
    let rest: [u8; 8] = zerocopy::transmute!([command.cdw12, command.cdw13]);
    let mut bytes = [0; 11];
    bytes[..3].copy_from_slice(&[a, b, c]);
    bytes[3..].copy_from_slice(&rest);
    bytes
}

/// The first 8 N bytes of `bytes` as words, zeroes beyond its end.
#[inline(always)]
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let (whole, rest) = bytes.as_chunks::<8>();
    let mut words = [0; N];
    for (i, into) in words.iter_mut().enumerate() {
        *into = match whole.get(i) {
            Some(word) => u64::from_le_bytes(*word),
            None if i == whole.len() => crate::base::command::low_word(rest),
            None => 0,
        };
    }
    words
}

#[inline]
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[inline]
fn split<const A: usize, const B: usize>(bytes: &[u8]) -> (&[u8; A], &[u8; B]) {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(head), Some(tail)) => (head, tail),
        _ => (&[0; A], &[0; B]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::VendorOpcode;

    fn bytes<const N: usize>() -> [u8; N] {
        core::array::from_fn(|i| i as u8 + 1)
    }

    #[test]
    fn a_write_command_carries_35_bytes_beside_its_key() {
        let mut command = Command::new(VendorOpcode::KV_WRITE_PIGGYBACK.0, 9, 1);
        command.set_key(b"key");
        command.cdw10 = 35;
        command.cdw11 = 3;
        pack_write(&mut command, &bytes::<35>());
        let slot = command.to_bytes();
        assert_eq!(slot[16..40], bytes::<24>());
        assert_eq!(slot[44..48], [3, 25, 26, 27]);
        assert_eq!(slot[48..56], [28, 29, 30, 31, 32, 33, 34, 35]);
        assert_eq!(unpack_write(&command), bytes::<35>());
        assert_eq!((command.cdw10, &command.key()[..4]), (35, &b"key\0"[..]));
    }

    #[test]
    fn a_transfer_command_carries_56_bytes_and_keeps_cdw0_and_nsid() {
        let mut command = Command::new(VendorOpcode::KV_TRANSFER.0, 9, 7);
        pack_transfer(&mut command, &bytes::<56>());
        assert_eq!(command.to_bytes()[8..], bytes::<56>());
        assert_eq!((command.opcode(), command.cid(), command.nsid), (0x84, 9, 7));
        assert_eq!(unpack_transfer(&command), bytes::<56>());
    }

    #[test]
    fn the_pass_through_form_uses_only_the_dwords_linux_carries() {
        let mut command = Command::new(VendorOpcode::KV_WRITE_PT.0, 1, 1);
        pack_write_pt(&mut command, &bytes::<11>());
        assert_eq!((command.mptr, command.dptr), (0, [0, 0]));
        assert_eq!(unpack_write_pt(&command), bytes::<11>());

        let mut command = Command::new(VendorOpcode::KV_TRANSFER_PT.0, 1, 1);
        let place = TransferPt::new().with_payload(0x1234).with_fragment(5);
        pack_transfer_pt(&mut command, place, &bytes::<28>());
        assert_eq!((command.mptr, command.dptr), (0, [0, 0]));
        assert_eq!(command.cdw2, 0x0005_1234);
        assert_eq!(unpack_transfer_pt(&command), (place, bytes::<28>()));
    }

    #[test]
    fn a_short_payload_is_padded_with_zeroes_and_a_long_one_cut() {
        let long = bytes::<64>();
        let expected = |len: usize| core::array::from_fn::<u8, 64, _>(|i| if i < len { long[i] } else { 0 });
        for len in 0..=long.len() {
            let mut command = Command::from_bytes(&[0xff; 64]);
            let (payload, expected) = (&long[..len], expected(len));
            pack_write(&mut command, payload);
            assert_eq!(unpack_write(&command), expected[..35], "{len} bytes");
            pack_write_pt(&mut command, payload);
            assert_eq!(unpack_write_pt(&command), expected[..11], "{len} bytes");
            assert_eq!(command.cdw11 & 0xff, 0xff, "the key length stays");
            pack_transfer_pt(&mut command, TransferPt::new(), payload);
            assert_eq!(unpack_transfer_pt(&command).1, expected[..28], "{len} bytes");
            pack_transfer(&mut command, payload);
            assert_eq!(unpack_transfer(&command), expected[..56], "{len} bytes");
        }
    }

    #[test]
    fn command_counts_are_those_of_the_papers() {
        let commands = |bytes| 1 + transfers(bytes);
        for (bytes, expected) in [(35, 1), (64, 2), (128, 3), (256, 5), (512, 10), (1024, 19), (4096, 74)] {
            assert_eq!(commands(bytes), expected, "{bytes} bytes");
        }
        assert_eq!((transfers_pt(11), transfers_pt(12), transfers_pt(40)), (0, 1, 2));
    }
}
