//! Physical region pages (Base 2.1, section 4.3.1).

/// Bytes of one PRP entry.
pub const PRP_ENTRY_BYTES: usize = 8;

/// Smallest memory page, and the only one Byway's controllers use (CC.MPS = 0).
pub const PAGE_BYTES: usize = 4096;

/// Bits of a PRP entry below the page that must be zero even in an offset: entries are dword aligned.
pub const PRP_OFFSET_ALIGN: u64 = 4;

/// PRP entries in one full list page.
pub const PRPS_PER_PAGE: usize = PAGE_BYTES / PRP_ENTRY_BYTES;
