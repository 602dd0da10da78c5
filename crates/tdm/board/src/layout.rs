//! Where each word of a board is. A front of one page, then entries of 512 bytes.

use byway_sys::robust::LOCK_BYTES;
use byway_tdm_log::CURSOR_BYTES;

use crate::board::ENTRIES;

/// "BYWTDMB" and the version: whoever meets another one maps nothing.
pub(crate) const MAGIC: u64 = 0x0142_4d44_5457_5942;

pub(crate) const FRONT_BYTES: usize = 4096;
pub(crate) const ENTRY_BYTES: usize = 512;

/// Bytes of a board.
pub const BOARD_BYTES: usize = FRONT_BYTES + ENTRIES * ENTRY_BYTES;

/// In the front.
pub(crate) mod front {
    pub(crate) const MAGIC: usize = 0;
    /// Files that were opened while there was no entry for them.
    pub(crate) const UNLISTED: usize = 8;
    /// Entries that were ever used: looking further finds nothing.
    pub(crate) const USED: usize = 16;
    /// Guards making and giving back entries.
    pub(crate) const LOCK: usize = 64;
}

/// In an entry.
pub(crate) mod entry {
    use super::{CURSOR_BYTES, LOCK_BYTES};

    /// Device, inode, birth time: three words. The inode is stored last; zero is no entry.
    pub(crate) const KEY: usize = 0;
    pub(crate) const STANDING: usize = 24;
    /// Place, length and identity of the ring: three words.
    pub(crate) const RING: usize = 32;
    pub(crate) const CURSOR: usize = 64;
    pub(crate) const LOCK: usize = CURSOR + CURSOR_BYTES;
    pub(crate) const COUNTERS: usize = 192;

    const _: () = assert!(LOCK + LOCK_BYTES <= COUNTERS);
}
