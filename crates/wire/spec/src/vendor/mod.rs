//! What Byway adds to NVMe: the announcement in Identify Controller, the feature that enables transfer methods,
//! the vendor logs, and the vendor I/O opcodes with the packing of their fields.
//!
//! Nothing here is sent to a device that did not announce it in [`VendorArea`] and on which the host did not
//! enable it by feature [`FEATURE_METHODS`]. Opcodes that carry payload in the command itself have 00b in their
//! low two bits, so that no layer in between expects a data pointer.

mod exec;
mod inline_read;
mod log;
mod many_keys;
mod piggyback;
mod query;
mod range;

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::base::feature::FeatureId;

pub use exec::{EXEC_KEY_LEN_BYTES, ExecFields, exec_request_head, read_exec_request};
pub use inline_read::{
    INLINE_RESULT, RESULT_ENTRY_BYTES, ResultsCdw11, has_inline_result, inline_result_bytes,
    inline_result_max_bytes, result_buffer_bytes, result_bytes, result_entries, result_entry,
    set_inline_result_max_bytes,
};
pub use log::{
    Counter, ErrorText, LOG_ERROR_TEXTS, LOG_LEDGER, LOG_STALLS, LedgerLog, LedgerRow, StallLog, StallRow,
    StallScope, name_field, name_text,
};
pub use many_keys::{MANY_KEY_MAX_BYTES, ManyKeysError, read_many_keys, write_many_keys};
pub use piggyback::{
    TRANSFER_BYTES, TRANSFER_PT_BYTES, TransferPt, WRITE_BYTES, WRITE_PT_BYTES, pack_transfer,
    pack_transfer_pt, pack_write, pack_write_pt, transfers, transfers_pt, unpack_transfer,
    unpack_transfer_pt, unpack_write, unpack_write_pt,
};
pub use query::{BlockObject, PlanFields, QueryAnswer, QueryCdw11, QueryFormat, ResultsAnswer};
pub use range::{
    DeleteRangeResult, Found, FoundValue, KeyRange, ManyCdw10, RESULT_MAX_BYTES, ScanCdw10, ScanCdw11,
    ScanHeader, ScanPair, StoreManyCdw12, WHOLE_VALUE,
};

/// First bytes of the vendor area (Identify Controller, byte 3072).
pub const MAGIC: [u8; 8] = *b"BYWAYSSD";

/// Version of the vendor area described here.
pub const VERSION: u32 = 1;

/// Vendor feature: CDW11 holds the [`Methods`] to enable, for this controller until its next reset.
pub const FEATURE_METHODS: FeatureId = FeatureId::METHODS;

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
    /// Scan: pairs of a range of keys in one command.
    pub scan: bool,
    /// Retrieve Many: values of many keys in one command.
    pub retrieve_many: bool,
    /// Atomic Store Many.
    pub store_many: bool,
    /// Delete Range.
    pub delete_range: bool,
    /// Short results in the completion queue, behind their completions.
    pub inline_read: bool,
    #[bits(19)]
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
    /// Transfer methods that the controller supports.
    pub methods: Methods,
    /// Longest inline payload in bytes.
    pub inline_max_bytes: u32,
    /// Longest piggybacked payload in bytes, either form.
    pub piggyback_max_bytes: u32,
    /// Most unfinished pass-through payloads at a time.
    pub pt_payloads_max: u32,
    /// Milliseconds after which an unfinished pass-through payload is dropped. 0 for a device without a clock: there
    /// a payload is dropped if another needs its memory and no fragment of it came for many commands.
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
    /// Size of the pages in which the device frees a window behind its write pointer; 0 for whole segments.
    pub cxl_page_bytes: u32,
    /// Longest result of Scan and Retrieve Many in bytes.
    pub result_max_bytes: u32,
    /// Most keys of one Retrieve Many.
    pub retrieve_many_max: u32,
    /// Longest payload of an atomic Store Many that every namespace takes, whatever its pairs are, in bytes.
    pub store_many_max_bytes: u32,
    /// Longest text of a Query in bytes, 0 where there are no queries.
    pub query_text_max_bytes: u32,
    /// Longest result behind its completion in bytes.
    pub inline_read_max_bytes: u32,
    /// Longest request and longest output of Exec in bytes, 0 where no namespace allows a program.
    pub exec_max_bytes: u32,
    /// Reserved.
    pub reserved: [u8; 908],
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
        /// A program over the value of a key: see [`ExecFields`].
        KV_EXEC = 0x83 "KV Exec",
        /// 56 more value bytes in CDW2–15, bound to their write by queue order.
        KV_TRANSFER = 0x84 "KV Transfer",
        /// Store, pass-through form: 11 value bytes; a longer value's completion returns a payload id.
        KV_WRITE_PT = 0x88 "KV Write, pass-through",
        /// 28 more value bytes of a payload id.
        KV_TRANSFER_PT = 0x8c "KV Transfer, pass-through",
        /// Store of a value in device memory.
        KV_STORE_CXL = 0x90 "KV Store CXL",
        /// As `KV Store CXL`, with the first 35 value bytes in the command.
        KV_STORE_CXL_PIGGYBACK = 0x94 "KV Store CXL Piggyback",
        /// A part of a result: see [`PlanFields`].
        GET_RESULT = 0x92 "Get Result",
        /// A part of a query's text: see [`PlanFields`].
        WRITE_EXECUTION_PLAN = 0x95 "Write Execution Plan",
        /// Deletes the keys of a [`KeyRange`], a part of them at a time: see [`DeleteRangeResult`].
        KV_DELETE_RANGE = 0x98 "KV Delete Range",
        /// Store: whole pages by PRP, the tail (length mod 4096) by [`Self::KV_TRANSFER`].
        KV_STORE_PRP_TAIL = 0xa1 "KV Store PRP Tail",
        /// Store of many pairs: see [`BulkPair`].
        KV_BULK_STORE = 0xb1 "KV Bulk Store",
        /// The pairs of a [`KeyRange`] in order: see [`ScanHeader`].
        KV_SCAN = 0xb2 "KV Scan",
        /// The values of many keys: see [`ManyCdw10`].
        KV_RETRIEVE_MANY = 0xb3 "KV Retrieve Many",
        /// SQL over an object: see [`QueryCdw11`].
        QUERY = 0xb5 "Query",
        /// The next bytes of a query's result: see [`ResultsAnswer`].
        QUERY_RESULTS = 0xb6 "Query Results",
        /// Waits for more of a query's result: see [`QueryAnswer`].
        QUERY_WAIT = 0xb8 "Query Wait",
        /// Ends a query.
        QUERY_END = 0xbc "Query End",
    }
}

/// Number of slots of an inline payload after its command.
#[inline]
pub const fn inline_chunks(payload_bytes: usize) -> usize {
    payload_bytes.div_ceil(crate::base::command::COMMAND_BYTES)
}

/// What a store's completion reports to a host that stores through device memory: the DMA log table entry that its
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
    /// In an atomic Store Many, 1 to delete the key instead, its value being of no bytes.
    pub flags: u8,
    /// Reserved.
    pub reserved: [u8; 2],
    /// Value length in bytes.
    pub value_len: u32,
}

assert_size! { BulkPair = 8; }

impl BulkPair {
    /// Flag of a pair that deletes its key.
    pub const DELETE: u8 = 1;

    /// Bytes a pair takes in the payload.
    pub const fn bytes(key_bytes: usize, value_bytes: usize) -> usize {
        size_of::<Self>() + key_bytes.next_multiple_of(4) + value_bytes.next_multiple_of(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_payload_takes_whole_slots() {
        assert_eq!((inline_chunks(0), inline_chunks(64), inline_chunks(65)), (0, 1, 2));
    }

    #[test]
    fn opcodes_that_carry_payload_declare_no_data_transfer() {
        use crate::Direction;
        for opcode in VendorOpcode::ALL {
            let expected = match *opcode {
                VendorOpcode::KV_SCAN | VendorOpcode::GET_RESULT | VendorOpcode::QUERY_RESULTS => {
                    Direction::DeviceToHost
                }
                VendorOpcode::WRITE_EXECUTION_PLAN => Direction::HostToDevice,
                VendorOpcode::QUERY_WAIT | VendorOpcode::QUERY_END => Direction::None,
                VendorOpcode::KV_RETRIEVE_MANY | VendorOpcode::KV_EXEC => Direction::Both,
                opcode if opcode >= VendorOpcode::KV_STORE_PRP_TAIL => Direction::HostToDevice,
                _ => Direction::None,
            };
            assert_eq!(Direction::of(opcode.0), expected, "{opcode}");
        }
    }

    #[test]
    fn dma_log_entry_round_trips_exactly() {
        let entry = DmaLogEntry { position: 0xff_1234_5678, len_bytes: 0xab_cdef };
        assert_eq!(entry.into_result(), 0xabcd_efff_1234_5678);
        assert_eq!(DmaLogEntry::from_result(entry.into_result()), entry);
        assert_eq!(DmaLogEntry::from_result(0), DmaLogEntry::default());
    }
}
