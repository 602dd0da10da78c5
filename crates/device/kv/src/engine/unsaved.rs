//! Log that an opening would replay into the active memtable, and when that memtable is due to be flushed.

use crate::index::share::Filled;

/// Bytes of log records and their index entries since the last flush.
#[derive(Debug, Default)]
pub(crate) struct Unsaved {
    bytes: u64,
    /// The log's counter of alignment gaps, as far as it is included in `bytes`.
    counted_gap_bytes: u64,
    /// The memtable is flushed at this many bytes.
    flush_at_bytes: u64,
}

impl Unsaved {
    /// Those that an opening has replayed.
    pub(crate) const fn replayed(bytes: u64) -> Self {
        Self { bytes, counted_gap_bytes: 0, flush_at_bytes: 0 }
    }

    #[inline]
    pub(crate) const fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Adds a record, and the alignment gaps that the log has made since the last one; `gap_bytes` is the log's counter.
    #[inline]
    pub(crate) const fn add_with_gaps(&mut self, bytes: u64, gap_bytes: u64) {
        self.bytes += bytes + (gap_bytes - self.counted_gap_bytes);
        self.counted_gap_bytes = gap_bytes;
    }

    /// The log is in the index up to its end.
    pub(crate) const fn clear(&mut self) {
        self.bytes = 0;
    }

    pub(crate) const fn set_flush_at(&mut self, bytes: u64) {
        self.flush_at_bytes = bytes;
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn flush_at_bytes(&self) -> u64 {
        self.flush_at_bytes
    }

    #[inline]
    pub(crate) const fn is_due(&self) -> bool {
        self.bytes >= self.flush_at_bytes
    }

    /// Whether a `parts`-th of the bytes that make a flush due are there.
    pub(crate) const fn has_one_of(&self, parts: u64) -> bool {
        self.bytes >= self.flush_at_bytes / parts
    }

    /// How near the memtable is to being due.
    #[inline]
    pub(crate) fn filled(&self) -> Filled {
        Filled::of(self.bytes, self.flush_at_bytes)
    }
}
