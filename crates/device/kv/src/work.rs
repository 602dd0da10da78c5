//! What one command does at most: counted exactly, and the same on every machine.
//!
//! Nothing here is a time. A page that is read or written costs microseconds on the medium that is modelled, an entry or a
//! record some tens of nanoseconds of processor time, a row of the segment table about one.

/// Work of one command, its own and its share of what goes on in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Pages that were read, of the log and of the index.
    pub pages_read: u32,
    /// Pages that were written, of the log and of the index.
    pub pages_written: u32,
    /// Pages that were given back.
    pub pages_trimmed: u32,
    /// Entries of the index that were looked for in runs, written by a flush, or passed by a merge.
    pub entries: u32,
    /// Records of the log that compaction looked at, and pages of long ones that it moved.
    pub records: u32,
    /// Rows of the segment table that were walked over, all together.
    pub rows: u32,
}

impl Work {
    /// Whether anything was done at all beside what stays in RAM.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        let Self { pages_read, pages_written, pages_trimmed, entries, records, rows } = *self;
        pages_read | pages_written | pages_trimmed | entries | records | rows != 0
    }

    /// The larger of each.
    pub(crate) fn most(self, other: Self) -> Self {
        Self {
            pages_read: self.pages_read.max(other.pages_read),
            pages_written: self.pages_written.max(other.pages_written),
            pages_trimmed: self.pages_trimmed.max(other.pages_trimmed),
            entries: self.entries.max(other.entries),
            records: self.records.max(other.records),
            rows: self.rows.max(other.rows),
        }
    }
}
