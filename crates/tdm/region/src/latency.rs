//! What touching a device's memory costs a program, where time is modelled.

use byway_link::{CacheProfile, Lines};

const PS_PER_NS: u64 = 1_000;

/// Bytes at one MB/s take this long each, in picoseconds.
const PS_PER_BYTE_AT_1_MB_S: u64 = 1_000_000;

const LINE_BYTES: u64 = 64;

/// What loads, write-backs and fences cost beside what they take on this machine. Zeroes cost nothing.
///
/// Stores cost nothing by themselves: they end in the processor's caches, and what is written back is paid for. So do words
/// that are loaded alone, which are found where they were stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Toll {
    /// One load of a line from the device's cache.
    pub line_read_ns: u32,
    /// A fence, until what was written back before is kept.
    pub persist_ns: u32,
    /// What follows the first line of a read, and what is written back: in megabytes (1e6) a second; 0 is at once.
    pub stream_mb_s: u32,
}

impl Toll {
    /// Nothing costs anything.
    pub const FREE: Self = Self { line_read_ns: 0, persist_ns: 0, stream_mb_s: 0 };

    /// What a device's cache takes.
    #[must_use]
    pub const fn of(cache: &CacheProfile) -> Self {
        Self {
            line_read_ns: (cache.hit_ps / PS_PER_NS) as u32,
            persist_ns: (cache.persist_ps / PS_PER_NS) as u32,
            stream_mb_s: cache.stream_mb_s,
        }
    }

    /// Reading `bytes` that follow one another.
    #[inline]
    #[must_use]
    pub const fn read_ps(&self, bytes: u64) -> u64 {
        self.line_read_ns as u64 * PS_PER_NS + self.stream_ps(bytes.saturating_sub(LINE_BYTES))
    }

    /// Writing back the lines that hold a range.
    #[inline]
    #[must_use]
    pub const fn write_back_ps(&self, at: u64, len_bytes: u64) -> u64 {
        self.stream_ps(Lines::of(at, len_bytes).count * LINE_BYTES)
    }

    /// A fence.
    #[inline]
    #[must_use]
    pub const fn fence_ps(&self) -> u64 {
        self.persist_ns as u64 * PS_PER_NS
    }

    #[inline]
    const fn stream_ps(&self, bytes: u64) -> u64 {
        match self.stream_mb_s {
            0 => 0,
            rate => bytes * PS_PER_BYTE_AT_1_MB_S / rate as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLL: Toll = Toll { line_read_ns: 800, persist_ns: 700, stream_mb_s: 4_000 };

    #[test]
    fn a_read_waits_for_its_first_line_and_streams_the_rest() {
        assert_eq!(TOLL.read_ps(1), 800_000);
        assert_eq!(TOLL.read_ps(4096), 800_000 + 4032 * 250);
    }

    #[test]
    fn whole_lines_are_written_back() {
        assert_eq!(TOLL.write_back_ps(63, 2), 2 * 64 * 250);
        assert_eq!((TOLL.write_back_ps(0, 0), TOLL.fence_ps()), (0, 700_000));
    }

    #[test]
    fn what_is_free_costs_nothing() {
        assert_eq!(
            Toll::FREE.read_ps(1 << 20) + Toll::FREE.write_back_ps(0, 1 << 20) + Toll::FREE.fence_ps(),
            0
        );
    }
}
