//! Where each word of a board is. A front of one page, a list of the entries that are some file's, bits of the files that have none, places of threads,
//! then the entries, 3072 bytes each.

use crate::log::CURSOR_BYTES;
use byway_sys::robust::LOCK_BYTES;

use crate::table::board::ENTRIES;
use crate::table::marks::{MARK_BYTES, MARKS};
use crate::table::unlisted::HALF_WORDS;

/// "BYWTDMB" and the version: whoever meets another one maps nothing.
pub(super) const MAGIC: u64 = 0x0842_4d44_5457_5942;

/// Behind the front's own page, the number of each entry that was made, a word each: who looks at all of them touches no others.
pub(super) const LIST: usize = 4096;
/// Behind it, two halves.
pub(super) const UNLISTED: usize = LIST + ENTRIES * 8;
pub(super) const HALF_BYTES: usize = HALF_WORDS * 8;
/// Behind them, what threads say of their calls.
pub(super) const MARKED: usize = UNLISTED + 2 * HALF_BYTES;
pub(super) const FRONT_BYTES: usize = MARKED + MARKS * MARK_BYTES;

const _: () = assert!(MARKED.is_multiple_of(MARK_BYTES));

pub(super) const ENTRY_BYTES: usize = 3072;

/// Bytes of a board.
pub const BOARD_BYTES: usize = FRONT_BYTES + ENTRIES * ENTRY_BYTES;

/// In the front.
pub(super) mod front {
    pub(in crate::table) const MAGIC: usize = 0;
    /// How often a look at what is open made the halves of the files that have no entry change places.
    pub(in crate::table) const TURNS: usize = 8;
    /// Entries that were made.
    pub(in crate::table) const USED: usize = 16;
    /// Not zero once a file may have device memory as its home: until then nobody looks whether one has.
    pub(in crate::table) const HOUSES: usize = 24;
    /// Which daemon it is, and when it was last seen, on the monotonic clock, in nanoseconds.
    pub(in crate::table) const REIGN: usize = 32;
    pub(in crate::table) const SEEN_NS: usize = 40;
    /// The inode of the file whose entry is given back just now.
    pub(in crate::table) const GIVING: usize = 48;
    /// How often a program said that it has files open which the system does not tell of.
    pub(in crate::table) const HIDING: usize = 56;
    /// Guards making and giving back entries.
    pub(in crate::table) const LOCK: usize = 64;
    /// How many files each half was given: two words.
    pub(in crate::table) const COUNTS: usize = 128;
    /// How often files were opened that can have no entry: a word for each reason.
    pub(in crate::table) const UNSERVED: usize = 144;
}

/// In an entry.
pub(super) mod entry {
    use super::{CURSOR_BYTES, ENTRY_BYTES, LOCK_BYTES};
    use crate::resident::HOME_WORDS;

    use crate::table::attributes::ATTRIBUTE_WORDS;
    use crate::table::counters::COUNTERS as COUNTER_WORDS;
    use crate::table::housed::HOUSED_WORDS;
    use crate::table::times::TIMES as TIME_WORDS;

    /// Device, inode, birth time: three words. An inode of zero is no entry.
    pub(in crate::table) const KEY: usize = 0;
    pub(in crate::table) const STANDING: usize = 24;
    /// Place, length and identity of the ring: three words.
    pub(in crate::table) const RING: usize = 32;
    /// Where in the list it is, and how often it was given back, in its upper half.
    pub(in crate::table) const PLACE: usize = 56;
    pub(in crate::table) const CURSOR: usize = 64;
    pub(in crate::table) const LOCK: usize = CURSOR + CURSOR_BYTES;
    pub(in crate::table) const ATTRIBUTES: usize = LOCK + LOCK_BYTES;
    /// How often its file was opened.
    pub(in crate::table) const OPENED: usize = ATTRIBUTES + ATTRIBUTE_WORDS * 8;
    /// When somebody waited for the lock in vain last, on the monotonic clock, in nanoseconds.
    pub(in crate::table) const GIVEN_UP_NS: usize = OPENED + 8;
    /// Held by whoever brings its file below from its home.
    pub(in crate::table) const LEAVING: usize = GIVEN_UP_NS + 8;
    pub(in crate::table) const COUNTERS: usize = 192;
    /// Of a file at home: what it is now, then where its open file stands.
    pub(in crate::table) const HOME: usize = 384;
    pub(in crate::table) const HOUSED: usize = HOME + HOME_WORDS * 8;
    pub(in crate::table) const TIMES: usize = 448;

    const _: () = assert!(LEAVING + LOCK_BYTES <= COUNTERS);
    const _: () = assert!(COUNTERS + COUNTER_WORDS * 8 <= HOME);
    const _: () = assert!(HOUSED + HOUSED_WORDS * 8 <= TIMES);
    const _: () = assert!(TIMES + TIME_WORDS * 8 <= ENTRY_BYTES);
}
