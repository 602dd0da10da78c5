//! What Byway adds to NVMe: the announcement in Identify Controller, the feature that enables transfer methods,
//! the vendor logs, and the vendor I/O opcodes with the packing of their fields.
//!
//! Nothing here is sent to a device that did not announce it in [`VendorArea`] and on which the host did not
//! enable it by feature [`FEATURE_METHODS`]. Opcodes that carry payload in the command itself have 00b in their
//! low two bits, so that no layer in between expects a data pointer.

use crate::Command;
use crate::base::feature::FeatureId;
use crate::base::log::LogPage;
use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First bytes of the vendor area (Identify Controller, byte 3072).
pub const MAGIC: [u8; 8] = *b"BYWAYSSD";

/// Version of the vendor area described here.
pub const VERSION: u32 = 1;

/// Vendor feature: CDW11 holds the [`Methods`] to enable, for this controller until its next reset.
pub const FEATURE_METHODS: FeatureId = FeatureId::METHODS;

/// Vendor log: [`LedgerLog`], its rows, its counters.
pub const LOG_LEDGER: LogPage = LogPage::LEDGER;

/// Transfer methods and extensions: announced in the vendor area, enabled by [`FEATURE_METHODS`].
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Methods {
    /// 35 bytes in the write command, 56 in each transfer command.
    pub piggyback: bool,
    /// The pass-through form: 11 bytes, then 28 in each transfer, bound by payload id.
    pub piggyback_pt: bool,
    /// Whole pages by PRP, the tail in transfer commands.
    pub prp_tail: bool,
    /// Payload in the ring slots after the command.
    pub inline: bool,
    /// Value stored through device memory.
    pub cxl: bool,
    /// Value stored through device memory, its first 35 bytes in the command.
    pub cxl_piggyback: bool,
    /// Many pairs in one Bulk Store.
    pub bulk: bool,
    /// Byte stores into the controller memory buffer.
    pub byte_store: bool,
    #[bits(24)]
    __: u32,
}

/// The vendor area of Identify Controller, bytes 3072–4095.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct VendorArea {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`]; a host reads the fields of the versions it knows.
    pub version: u32,
    /// What the controller can do.
    pub methods: Methods,
    /// Longest inline payload in bytes.
    pub inline_max_bytes: u32,
    /// Longest piggybacked payload in bytes, either form.
    pub piggyback_max_bytes: u32,
    /// Most unfinished pass-through payloads at a time.
    pub pt_payloads_max: u32,
    /// An unfinished pass-through payload is dropped after this long; 0 where time has no part in it, and a payload gives
    /// way when another needs the room and nobody has added to it for many commands.
    pub pt_expiry_ms: u32,
    /// Longest value in bytes.
    pub value_max_bytes: u32,
    /// Longest Bulk Store payload in bytes.
    pub bulk_max_bytes: u32,
    /// Device memory in bytes, 0 for none.
    pub device_memory_bytes: u64,
    /// Offset in device memory of queue 1's window; queue n's follows at n − 1 windows.
    pub cxl_window_offset: u64,
    /// Bytes of one queue's window.
    pub cxl_window_bytes: u64,
    /// Queues that have a window.
    pub cxl_windows: u32,
    /// A record never spans a multiple of this.
    pub cxl_segment_bytes: u32,
    /// Room before each value that the device fills in, without the key.
    pub cxl_header_bytes: u32,
    /// Records in a window begin at multiples of this.
    pub cxl_align_bytes: u32,
    /// Size of the controller memory buffer's region for byte stores, 0 for none.
    pub byte_region_bytes: u64,
    /// The device keeps a window's pages of this size until its write pointer has left them; 0 for whole segments.
    pub cxl_page_bytes: u32,
    /// Reserved.
    pub reserved: [u8; 932],
}

assert_size! { VendorArea = 1024; }

impl VendorArea {
    /// Whether magic and version are ones this crate describes.
    pub fn is_known(&self) -> bool {
        self.magic == MAGIC && self.version >= 1
    }
}

open_enum! {
    /// Vendor I/O opcode.
    pub struct VendorOpcode(u8) {
        /// Store: 35 value bytes in CDW4–9, CDW11 bits 31:8, CDW12–13; the rest by [`Self::KV_TRANSFER`].
        KV_WRITE_PIGGYBACK = 0x80 "KV Write Piggyback",
        /// 56 more value bytes in CDW2–15, bound to their write by queue order.
        KV_TRANSFER = 0x84 "KV Transfer",
        /// Store, pass-through form: 11 value bytes; a longer value's completion returns a payload id.
        KV_WRITE_PT = 0x88 "KV Write, pass-through",
        /// 28 more value bytes of a payload id.
        KV_TRANSFER_PT = 0x8c "KV Transfer, pass-through",
        /// Store of a value that stands in device memory.
        KV_STORE_CXL = 0x90 "KV Store CXL",
        /// The same with the first 35 value bytes in the command.
        KV_STORE_CXL_PIGGYBACK = 0x94 "KV Store CXL Piggyback",
        /// Store: whole pages by PRP, the tail (length mod 4096) by [`Self::KV_TRANSFER`].
        KV_STORE_PRP_TAIL = 0xa1 "KV Store PRP Tail",
        /// Store of many pairs: see [`BulkPair`].
        KV_BULK_STORE = 0xb1 "KV Bulk Store",
    }
}

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

/// Slots an inline payload takes after its command.
#[inline]
pub const fn inline_chunks(payload_bytes: usize) -> usize {
    payload_bytes.div_ceil(crate::base::command::COMMAND_BYTES)
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

/// What the completion of a store tells a host that stores through device memory: the DMA log table entry its
/// write pointer must not cross (BandSlim, In-Device Value Packing).
///
/// A record begins at any byte, since only its value is aligned, so both are given to the byte. The result's bits
/// 39:0 are the position, DW0 and the low byte of DW1; bits 63:40 are the length.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DmaLogEntry {
    /// First byte, counted from the start of the queue's log, modulo 2^40.
    pub position: u64,
    /// Length in bytes, header and key included; less than 2^24, and 0 for no entry.
    pub len_bytes: u32,
}

impl DmaLogEntry {
    const POSITION_BITS: u32 = 40;

    /// Reads DW0 and DW1 of a completion.
    pub const fn from_result(result: u64) -> Self {
        let position = result & ((1 << Self::POSITION_BITS) - 1);
        Self { position, len_bytes: (result >> Self::POSITION_BITS) as u32 }
    }

    /// DW0 and DW1 of a completion.
    pub const fn into_result(self) -> u64 {
        let position = self.position & ((1 << Self::POSITION_BITS) - 1);
        position | (self.len_bytes as u64) << Self::POSITION_BITS
    }
}

/// Bytes of the pair count that begins a Bulk Store payload.
pub const BULK_COUNT_BYTES: usize = 4;

/// Head of one pair of a Bulk Store payload; the key follows, padded to 4 bytes, then the value, padded to 4.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct BulkPair {
    /// Key length in bytes.
    pub key_len: u8,
    /// Reserved.
    pub reserved: [u8; 3],
    /// Value length in bytes.
    pub value_len: u32,
}

assert_size! { BulkPair = 8; }

impl BulkPair {
    /// Bytes a pair takes in the payload.
    pub const fn bytes(key_bytes: usize, value_bytes: usize) -> usize {
        size_of::<Self>() + key_bytes.next_multiple_of(4) + value_bytes.next_multiple_of(4)
    }
}

/// Vendor log: an [`ErrorText`] for each entry of the Error Information log, which names this page in its Vendor Specific
/// Information Available field.
pub const LOG_ERROR_TEXTS: LogPage = LogPage::ERROR_TEXTS;

/// What an error was, in words, in [`LOG_ERROR_TEXTS`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ErrorText {
    /// Serial number of the error, as in the Error Information log; 0 for no entry.
    pub error_count: u64,
    /// The words, ASCII, padded with zeroes.
    pub text: [u8; 120],
}

impl ErrorText {
    /// What error `error_count` was. Words beyond the room are cut off.
    #[must_use]
    pub fn new(error_count: u64, words: &str) -> Self {
        let mut text = [0; 120];
        text.iter_mut().zip(words.bytes()).for_each(|(to, from)| *to = from);
        Self { error_count, text }
    }

    /// The words, if they are text.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        let len = self.text.iter().position(|byte| *byte == 0).unwrap_or(self.text.len());
        core::str::from_utf8(self.text.get(..len)?).ok().filter(|words| !words.is_empty())
    }
}

/// Head of the vendor log; `rows` of [`LedgerRow`] follow, then `counters` of [`Counter`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LedgerLog {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Number of ledger rows.
    pub rows: u32,
    /// Number of counters.
    pub counters: u32,
    /// Reserved.
    pub reserved: u32,
}

/// One class of transactions in the vendor log.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct LedgerRow {
    /// Name of the class, ASCII, padded with zeroes.
    pub class: [u8; 16],
    /// Transactions.
    pub count: u64,
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Wire bytes, host to device.
    pub down_bytes: u64,
    /// Wire bytes, device to host.
    pub up_bytes: u64,
}

/// One counter of the device in the vendor log: named, so that new ones need no new version.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Counter {
    /// Name, ASCII, padded with zeroes, such as `program.host`.
    pub name: [u8; 24],
    /// Value.
    pub value: u64,
}

assert_size! {
    LedgerLog = 24;
    LedgerRow = 48;
    Counter = 32;
}

/// A name field: ASCII, cut or padded with zeroes to its size.
pub fn name_field<const N: usize>(name: &str) -> [u8; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    field
}

/// The text of a name field, up to its first zero; empty if it is not ASCII.
pub fn name_text(field: &[u8]) -> &str {
    let len = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let text = field.get(..len).unwrap_or_default();
    if text.is_ascii() { core::str::from_utf8(text).unwrap_or_default() } else { "" }
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
        assert_eq!((inline_chunks(0), inline_chunks(64), inline_chunks(65)), (0, 1, 2));
        assert_eq!((transfers_pt(11), transfers_pt(12), transfers_pt(40)), (0, 1, 2));
    }

    #[test]
    fn opcodes_that_carry_payload_declare_no_data_transfer() {
        use crate::Direction;
        for opcode in VendorOpcode::ALL {
            let has_pointer = *opcode >= VendorOpcode::KV_STORE_PRP_TAIL;
            let expected = if has_pointer { Direction::HostToDevice } else { Direction::None };
            assert_eq!(Direction::of(opcode.0), expected, "{opcode}");
        }
    }

    #[test]
    fn a_dma_log_entry_is_told_to_the_byte() {
        let entry = DmaLogEntry { position: 0xff_1234_5678, len_bytes: 0xab_cdef };
        assert_eq!(entry.into_result(), 0xabcd_efff_1234_5678);
        assert_eq!(DmaLogEntry::from_result(entry.into_result()), entry);
        assert_eq!(DmaLogEntry::from_result(0), DmaLogEntry::default());
    }

    #[test]
    fn names_in_the_log_survive_the_trip() {
        assert_eq!(name_text(&name_field::<16>("doorbell")), "doorbell");
        assert_eq!(name_text(&name_field::<4>("doorbell")), "door");
        assert_eq!(name_text(&[0xff, 0xff]), "");
    }
}
