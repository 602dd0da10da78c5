//! Layout of the shared file table: a header page, the list of used entries, the filter of files without an entry, marks, then the entries of
//! 3072 bytes.

use crate::log::CURSOR_BYTES;
use byway_sys::robust::LOCK_BYTES;

use crate::table::file_table::ENTRIES;
use crate::table::marks::{MARK_BYTES, MARKS};
use crate::table::unlisted::HALF_WORDS;

/// "BYWTDMB" and the version. A table of another version is refused.
pub(super) const MAGIC: u64 = 0x0842_4d44_5457_5942;

/// List of the entries in use, one word each, after the header page.
pub(super) const LIST: usize = 4096;
/// Filter of the files without an entry: two halves.
pub(super) const UNLISTED: usize = LIST + ENTRIES * 8;
pub(super) const HALF_BYTES: usize = HALF_WORDS * 8;
/// Marks of system calls in flight.
pub(super) const MARKED: usize = UNLISTED + 2 * HALF_BYTES;
pub(super) const FRONT_BYTES: usize = MARKED + MARKS * MARK_BYTES;

const _: () = assert!(MARKED.is_multiple_of(MARK_BYTES));

pub(super) const ENTRY_BYTES: usize = 3072;

/// Bytes of a table.
pub const FILE_TABLE_BYTES: usize = FRONT_BYTES + ENTRIES * ENTRY_BYTES;

/// Words of the header.
pub(super) mod front {
    pub(in crate::table) const MAGIC: usize = 0;
    /// Swaps of the filter's halves.
    pub(in crate::table) const GENERATION: usize = 8;
    /// Number of entries made.
    pub(in crate::table) const USED: usize = 16;
    /// Nonzero once any file was promoted: programs skip a check until then.
    pub(in crate::table) const RESIDENT_FILES: usize = 24;
    /// Daemon epoch, and when that daemon was last seen (ns of the monotonic clock).
    pub(in crate::table) const DAEMON_EPOCH: usize = 32;
    pub(in crate::table) const SEEN_NS: usize = 40;
    /// Inode whose entry is being reclaimed.
    pub(in crate::table) const GIVING: usize = 48;
    /// Times that a program reported open files that `/proc` does not show.
    pub(in crate::table) const HIDING: usize = 56;
    /// Lock for making and reclaiming entries.
    pub(in crate::table) const LOCK: usize = 64;
    /// Files added to each half: two words.
    pub(in crate::table) const COUNTS: usize = 128;
    /// Opens of files that can have no entry: a word for each reason.
    pub(in crate::table) const UNSERVED: usize = 144;
}

/// Words of an entry.
pub(super) mod entry {
    use super::{CURSOR_BYTES, ENTRY_BYTES, LOCK_BYTES};
    use crate::resident::RESIDENT_WORDS;

    use crate::table::attributes::ATTRIBUTE_WORDS;
    use crate::table::counters::COUNTERS as COUNTER_WORDS;
    use crate::table::resident_state::RESIDENT_STATE_WORDS;
    use crate::table::times::TIMES as TIME_WORDS;

    /// Device, inode, birth time. Inode 0: never used.
    pub(in crate::table) const KEY: usize = 0;
    pub(in crate::table) const LEVEL_STATE: usize = 24;
    /// Place, length and identity of the ring.
    pub(in crate::table) const RING: usize = 32;
    /// Position in the list; the upper half counts reclaims.
    pub(in crate::table) const PLACE: usize = 56;
    pub(in crate::table) const CURSOR: usize = 64;
    pub(in crate::table) const LOCK: usize = CURSOR + CURSOR_BYTES;
    pub(in crate::table) const ATTRIBUTES: usize = LOCK + LOCK_BYTES;
    /// Opens counted.
    pub(in crate::table) const OPENED: usize = ATTRIBUTES + ATTRIBUTE_WORDS * 8;
    /// When a waiter for the lock last timed out (ns of the monotonic clock).
    pub(in crate::table) const GIVEN_UP_NS: usize = OPENED + 8;
    /// Demotion lock.
    pub(in crate::table) const DEMOTING: usize = GIVEN_UP_NS + 8;
    pub(in crate::table) const COUNTERS: usize = 192;
    /// Size and dirty range of a DAX-resident file; its position and terms follow.
    pub(in crate::table) const RESIDENT: usize = 384;
    pub(in crate::table) const RESIDENT_STATE: usize = RESIDENT + RESIDENT_WORDS * 8;
    pub(in crate::table) const TIMES: usize = 448;

    const _: () = assert!(DEMOTING + LOCK_BYTES <= COUNTERS);
    const _: () = assert!(COUNTERS + COUNTER_WORDS * 8 <= RESIDENT);
    const _: () = assert!(RESIDENT_STATE + RESIDENT_STATE_WORDS * 8 <= TIMES);
    const _: () = assert!(TIMES + TIME_WORDS * 8 <= ENTRY_BYTES);
}
