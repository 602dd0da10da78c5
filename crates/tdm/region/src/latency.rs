//! Latency model: what touching a device's memory costs, in modelled time.

use byway_link::{CacheProfile, Lines};

const PS_PER_NS: u64 = 1_000;

/// Bytes at one MB/s take this long each, in picoseconds.
const PS_PER_BYTE_AT_1_MB_S: u64 = 1_000_000;

const LINE_BYTES: u64 = 64;

/// Costs of loads, write-backs and fences, in addition to those of this machine. Zeroes cost nothing.
///
/// Stores are free, as they end in the processor's caches and their write-back is charged. So are loads of single words, which hit those caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencyModel {
    /// One load of a line from the device's cache.
    pub line_read_ns: u32,
    /// A fence, until what was written back before is kept.
    pub persist_ns: u32,
    /// What follows the first line of a read, and what is written back: in megabytes (1e6) a second; 0 is at once.
    pub stream_mb_s: u32,
}

impl LatencyModel {
    /// A free model.
    pub const FREE: Self = Self { line_read_ns: 0, persist_ns: 0, stream_mb_s: 0 };

    /// The model of a device's cache.
    #[must_use]
    pub const fn of(cache: &CacheProfile) -> Self {
        Self {
            line_read_ns: (cache.hit_ps / PS_PER_NS) as u32,
            persist_ns: (cache.persist_ps / PS_PER_NS) as u32,
            stream_mb_s: cache.stream_mb_s,
        }
    }

    /// Reads `bytes` contiguous bytes.
    #[inline]
    #[must_use]
    pub const fn read_ps(&self, bytes: u64) -> u64 {
        self.line_read_ns as u64 * PS_PER_NS + self.stream_ps(bytes.saturating_sub(LINE_BYTES))
    }

    /// Writes back the lines of a range.
    #[inline]
    #[must_use]
    pub const fn write_back_ps(&self, at: u64, len_bytes: u64) -> u64 {
        self.stream_ps(Lines::of(at, len_bytes).count * LINE_BYTES)
    }

    /// Fences.
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

    const LATENCY: LatencyModel = LatencyModel { line_read_ns: 800, persist_ns: 700, stream_mb_s: 4_000 };

    #[test]
    fn a_read_waits_for_its_first_line_and_streams_the_rest() {
        assert_eq!(LATENCY.read_ps(1), 800_000);
        assert_eq!(LATENCY.read_ps(4096), 800_000 + 4032 * 250);
    }

    #[test]
    fn whole_lines_are_written_back() {
        assert_eq!(LATENCY.write_back_ps(63, 2), 2 * 64 * 250);
        assert_eq!((LATENCY.write_back_ps(0, 0), LATENCY.fence_ps()), (0, 700_000));
    }

    #[test]
    fn free_latency_model_costs_nothing() {
        assert_eq!(
            LatencyModel::FREE.read_ps(1 << 20)
                + LatencyModel::FREE.write_back_ps(0, 1 << 20)
                + LatencyModel::FREE.fence_ps(),
            0
        );
    }
}
