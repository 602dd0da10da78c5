//! The position of the next record in a queue's window of device memory.
//!
//! Host and device each keep a [`WindowCursor`] and apply the same rule, so that no command carries an address
//! (BandSlim, "In-Device Value Packing": the CXL.mem write pointer and the DMA log table). Positions only grow; the
//! owner takes them modulo the size of the window.
//!
//! The rule: a record is placed at the write pointer, unless
//!
//! 1. it would span the end of a segment: then the pointer moves to the next segment; or
//! 2. it would overlap the first entry of the DMA log table, a value that the device placed at an aligned position
//!    ahead:
//!    then the pointer moves to the end of that entry, which is removed.
//!
//! The device places values that it moves by DMA, and reports each position in the completion. The two cursors agree
//! as long as the host places no record while such a value is in flight in the same queue.

use std::collections::VecDeque;

/// Capacity of the DMA log table; one more entry pushes the write pointer past the first.
const LOG_ENTRIES: usize = 64;

/// The write pointer of a window and the DMA log table ahead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowCursor {
    segment_bytes: u64,
    position: u64,
    log: VecDeque<LogEntry>,
}

/// A value placed ahead of the write pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogEntry {
    at: u64,
    end: u64,
}

/// A reported position that overlaps earlier values or overflows 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of {len} bytes at {at}: expected one that begins at or behind {from}")]
pub struct BadEntry {
    /// The position reported.
    pub at: u64,
    /// The length reported, in bytes.
    pub len: u64,
    /// The lowest valid position.
    pub from: u64,
}

impl WindowCursor {
    /// A cursor at position 0. No record spans a multiple of `segment_bytes`; 0 counts as 1.
    pub fn new(segment_bytes: u64) -> Self {
        Self { segment_bytes: segment_bytes.max(1), position: 0, log: VecDeque::with_capacity(LOG_ENTRIES) }
    }

    /// A cursor at a given position, as reported by a device that continues from an earlier one.
    pub fn at(segment_bytes: u64, position: u64) -> Self {
        Self { position, ..Self::new(segment_bytes) }
    }

    /// The write pointer.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Segment size in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Places a record and moves the write pointer behind it; returns its position.
    ///
    /// `None`, and nothing moves, for a record larger than a segment, or past the end of 64-bit positions.
    pub fn place(&mut self, record_bytes: u64) -> Option<u64> {
        let (at, passed) = self.find(record_bytes)?;
        self.log.drain(..passed);
        self.position = at + record_bytes;
        Some(at)
    }

    /// The position [`WindowCursor::place`] would return.
    pub fn peek(&self, record_bytes: u64) -> Option<u64> {
        self.find(record_bytes).map(|(at, _)| at)
    }

    /// Places a value that the device moves by DMA: at the next multiple of `align_bytes` behind everything placed so
    /// far, within one segment, and enters it in the DMA log table. The write pointer stays in the gap before it.
    ///
    /// `None`, and nothing changes, for a value larger than a segment, an alignment that is no power of two, or a
    /// position past 64 bits.
    pub fn place_dma(&mut self, record_bytes: u64, align_bytes: u64) -> Option<u64> {
        if record_bytes > self.segment_bytes || !align_bytes.is_power_of_two() {
            return None;
        }
        let aligned = self.log_end().checked_next_multiple_of(align_bytes)?;
        let at = if self.fits(aligned, record_bytes) {
            aligned
        } else {
            // A segment need not begin at a multiple of the alignment.
            self.next_segment(aligned)?.checked_next_multiple_of(align_bytes)?
        };
        if !self.fits(at, record_bytes) {
            return None;
        }
        self.note_dma(at, record_bytes).ok()?;
        Some(at)
    }

    /// Enters a value in the DMA log table, at the position that its completion reported. Empty values are not
    /// entered.
    ///
    /// # Errors
    /// A value before the write pointer or before an entered one, or past the end of 64-bit positions.
    pub fn note_dma(&mut self, at: u64, len: u64) -> Result<(), BadEntry> {
        let from = self.log_end();
        let end = at.checked_add(len).filter(|_| at >= from).ok_or(BadEntry { at, len, from })?;
        if len == 0 {
            return Ok(());
        }
        if self.log.len() == LOG_ENTRIES
            && let Some(first) = self.log.pop_front()
        {
            self.position = first.end;
        }
        self.log.push_back(LogEntry { at, end });
        Ok(())
    }

    /// Entries of the DMA log table.
    pub fn noted(&self) -> usize {
        self.log.len()
    }

    /// The position for a record, and how many entries of the log it passes.
    fn find(&self, record_bytes: u64) -> Option<(u64, usize)> {
        if record_bytes > self.segment_bytes {
            return None;
        }
        let mut at = self.position;
        let mut passed = 0;
        loop {
            if !self.fits(at, record_bytes) {
                at = self.next_segment(at)?;
            }
            let end = at.checked_add(record_bytes)?;
            match self.log.get(passed) {
                Some(entry) if end > entry.at => {
                    at = at.max(entry.end);
                    passed += 1;
                }
                _ => return Some((at, passed)),
            }
        }
    }

    fn fits(&self, at: u64, record_bytes: u64) -> bool {
        record_bytes <= self.segment_bytes - at % self.segment_bytes
    }

    fn next_segment(&self, at: u64) -> Option<u64> {
        (at / self.segment_bytes + 1).checked_mul(self.segment_bytes)
    }

    /// The end of all placed records and values.
    fn log_end(&self) -> u64 {
        self.log.back().map_or(self.position, |entry| entry.end)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_stand_one_behind_the_other_within_a_segment() {
        let mut cursor = WindowCursor::new(100);
        assert_eq!([40, 60, 1, 99].map(|len| cursor.place(len)), [Some(0), Some(40), Some(100), Some(101)]);
        assert_eq!(cursor.place(50), Some(200));
        assert_eq!(cursor.peek(51), Some(300));
        assert_eq!(cursor.place(51), Some(300));
        assert_eq!(cursor.place(101), None);
        assert_eq!(cursor.position(), 351);
    }

    #[test]
    fn the_gap_before_a_dma_value_is_filled_until_a_record_would_cross_it() {
        let mut cursor = WindowCursor::new(16_384);
        cursor.place(100).unwrap();
        assert_eq!(cursor.place_dma(5000, 4096), Some(4096));
        assert_eq!(cursor.place(3996), Some(100));
        assert_eq!(cursor.place(1), Some(9096));
        assert_eq!(cursor.noted(), 0);
    }

    #[test]
    fn a_record_passes_every_value_it_would_cross() {
        let mut cursor = WindowCursor::new(16_384);
        cursor.place(10).unwrap();
        cursor.note_dma(4096, 4096).unwrap();
        cursor.note_dma(8192, 100).unwrap();
        assert_eq!(cursor.place(4087), Some(8292));
    }

    #[test]
    fn a_dma_value_does_not_span_a_segment() {
        let mut cursor = WindowCursor::new(16_384);
        cursor.place(9000).unwrap();
        assert_eq!(cursor.place_dma(8192, 4096), Some(16_384));
        assert_eq!(cursor.place_dma(16_385, 4096), None);
        assert_eq!(cursor.place_dma(1, 3), None);
        assert_eq!(cursor.place(7384), Some(9000));
    }

    #[test]
    fn a_full_log_pushes_the_write_pointer_past_its_first_value() {
        let mut cursor = WindowCursor::new(1 << 20);
        for value in 0..=LOG_ENTRIES as u64 {
            cursor.place_dma(10, 64).unwrap();
            assert_eq!(cursor.position(), if value < LOG_ENTRIES as u64 { 0 } else { 10 });
        }
    }

    #[test]
    fn note_dma_before_the_write_pointer_is_refused() {
        let mut cursor = WindowCursor::at(100, 50);
        assert_eq!(cursor.note_dma(49, 1), Err(BadEntry { at: 49, len: 1, from: 50 }));
        assert!(cursor.note_dma(u64::MAX, 2).is_err());
        cursor.note_dma(60, 10).unwrap();
        assert!(cursor.note_dma(69, 1).is_err());
        assert_eq!(cursor.noted(), 1);
    }

    #[test]
    fn positions_end_before_they_wrap() {
        let mut cursor = WindowCursor::at(1000, u64::MAX - 10);
        assert_eq!(cursor.place(500), None);
        assert_eq!(cursor.place_dma(500, 4096), None);
        assert_eq!(cursor.position(), u64::MAX - 10);
    }

    /// One put on a queue.
    #[derive(Clone, Copy, Debug)]
    enum Put {
        Record(u64),
        Dma(u64),
    }

    fn puts() -> impl Strategy<Value = Vec<Put>> {
        let put = prop_oneof![3 => (0u64..=256).prop_map(Put::Record), 1 => (0u64..=256).prop_map(Put::Dma)];
        prop::collection::vec(put, 0..300)
    }

    proptest! {
        #[test]
        fn host_and_device_agree_and_nothing_overlaps_or_spans(puts in puts()) {
            let (mut host, mut device) = (WindowCursor::new(256), WindowCursor::new(256));
            let mut placed: Vec<(u64, u64)> = Vec::new();
            for put in puts {
                let (at, len) = match put {
                    Put::Record(len) => {
                        let at = host.place(len).unwrap();
                        prop_assert_eq!(device.place(len), Some(at));
                        (at, len)
                    }
                    Put::Dma(len) => {
                        let at = device.place_dma(len, 64).unwrap();
                        host.note_dma(at, len).unwrap();
                        prop_assert_eq!(at % 64, 0);
                        (at, len)
                    }
                };
                prop_assert_eq!(&host, &device);
                if len > 0 {
                    prop_assert_eq!(at / 256, (at + len - 1) / 256);
                    placed.push((at, at + len));
                }
            }
            placed.sort_unstable();
            prop_assert!(placed.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }
}
