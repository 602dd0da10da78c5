//! HybridDecoder of repeated and of bit-packed integers (Parquet format, "Run Length Encoding / Bit-Packing Hybrid").

use std::ops::Range;

use crate::error::QueryError;

/// Decodes integers of up to 32 bits.
#[derive(Debug)]
pub(super) struct HybridDecoder {
    width: u8,
    /// Bytes of the runs that come.
    unread: Range<usize>,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Repeated {
        value: u32,
        remaining: usize,
    },
    /// Values from number `next` on of those packed from byte `start` on.
    Packed {
        start: usize,
        next: usize,
        remaining: usize,
    },
}

/// Values that are packed in whole bytes.
const GROUP: usize = 8;

/// Bytes that are loaded at a time: a value of 32 bits that begins at any bit of a byte is in them.
const WORD_BYTES: usize = 8;

fn damaged() -> QueryError {
    QueryError::Damaged("a page ends before its values".to_owned())
}

impl HybridDecoder {
    /// The runs of integers of `width` bits in `bytes` of a page.
    ///
    /// # Errors
    /// Integers wider than 32 bits.
    pub fn new(width: u8, bytes: Range<usize>) -> Result<Self, QueryError> {
        if width > 32 {
            return Err(QueryError::Damaged(format!("a page has dictionary indices of {width} bits")));
        }
        Ok(Self { width, unread: bytes, run: Run::Repeated { value: 0, remaining: 0 } })
    }

    /// Reads the next values, as many as `into` holds.
    pub fn read(&mut self, page: &[u8], mut into: &mut [u32]) -> Result<(), QueryError> {
        while !into.is_empty() {
            let count = self.in_run(page)?.min(into.len());
            let (now, later) = into.split_at_mut(count);
            match self.run {
                Run::Repeated { value, .. } => now.fill(value),
                Run::Packed { start, next, .. } => unpack(self.width, &page[start..], next, now),
            }
            self.advance(count);
            into = later;
        }
        Ok(())
    }

    /// Passes over `count` values.
    pub fn skip(&mut self, page: &[u8], mut count: usize) -> Result<(), QueryError> {
        while count > 0 {
            let skipped = self.in_run(page)?.min(count);
            self.advance(skipped);
            count -= skipped;
        }
        Ok(())
    }

    fn advance(&mut self, count: usize) {
        match &mut self.run {
            Run::Repeated { remaining, .. } => *remaining -= count,
            Run::Packed { next, remaining, .. } => (*next, *remaining) = (*next + count, *remaining - count),
        }
    }

    /// How many values the run at hand has remaining, at least one.
    fn in_run(&mut self, page: &[u8]) -> Result<usize, QueryError> {
        loop {
            match self.run {
                Run::Repeated { remaining: 0, .. } | Run::Packed { remaining: 0, .. } => {
                    self.run = self.next_run(page)?
                }
                Run::Repeated { remaining, .. } | Run::Packed { remaining, .. } => return Ok(remaining),
            }
        }
    }

    fn next_run(&mut self, page: &[u8]) -> Result<Run, QueryError> {
        let head = self.varint(page)?;
        let count = (head >> 1) as usize;
        if head & 1 == 0 {
            let bytes = usize::from(self.width).div_ceil(8);
            let value = self
                .bytes(page, bytes)?
                .iter()
                .rev()
                .fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
            return Ok(Run::Repeated { value, remaining: count });
        }
        // The last groups may be cut behind the last value that there is.
        let start = self.unread.start;
        let bytes = count.saturating_mul(usize::from(self.width)).min(self.unread.len());
        self.unread.start += bytes;
        let values = count.saturating_mul(GROUP);
        let remaining = match self.width {
            0 => values,
            width => values.min(bytes * 8 / usize::from(width)),
        };
        if remaining == 0 && count > 0 {
            return Err(damaged());
        }
        Ok(Run::Packed { start, next: 0, remaining })
    }

    fn bytes<'p>(&mut self, page: &'p [u8], count: usize) -> Result<&'p [u8], QueryError> {
        let end = self.unread.start + count;
        let bytes =
            page.get(self.unread.start..end).filter(|_| end <= self.unread.end).ok_or_else(damaged)?;
        self.unread.start = end;
        Ok(bytes)
    }

    fn varint(&mut self, page: &[u8]) -> Result<u64, QueryError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(page, 1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged())
    }
}

/// Unpacks values from number `next` on of those that `packed` begins with.
fn unpack(width: u8, packed: &[u8], next: usize, into: &mut [u32]) {
    let aligned = next.next_multiple_of(GROUP).min(next + into.len());
    let (head, rest) = into.split_at_mut(aligned - next);
    one_by_one(width, packed, next, head);
    let groups = rest.len() / GROUP * GROUP;
    let (rest, tail) = rest.split_at_mut(groups);
    by_width(width, &packed[(aligned / GROUP * usize::from(width)).min(packed.len())..], rest);
    one_by_one(width, packed, aligned + groups, tail);
}

fn one_by_one(width: u8, packed: &[u8], next: usize, into: &mut [u32]) {
    let mask = (1_u64 << width) - 1;
    for (number, value) in (next..).zip(into) {
        let bit = number * usize::from(width);
        let mut word = [0; WORD_BYTES];
        let bytes = &packed[(bit / 8).min(packed.len())..];
        let count = bytes.len().min(WORD_BYTES);
        word[..count].copy_from_slice(&bytes[..count]);
        *value = (u64::from_le_bytes(word) >> (bit % 8) & mask) as u32;
    }
}

/// Unpacks whole groups.
fn by_width(width: u8, packed: &[u8], into: &mut [u32]) {
    macro_rules! of_widths {
        ($($width:literal)*) => {
            match width {
                $($width => groups::<$width>(packed, into),)*
                _ => into.fill(0),
            }
        };
    }
    of_widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

fn groups<const WIDTH: usize>(packed: &[u8], into: &mut [u32]) {
    let (groups, _) = into.as_chunks_mut::<GROUP>();
    for (number, values) in groups.iter_mut().enumerate() {
        match packed.get(number * WIDTH..).and_then(|bytes| bytes.first_chunk()) {
            Some(bytes) => group::<WIDTH>(bytes, values),
            None => one_by_one(WIDTH as u8, packed, number * GROUP, values),
        }
    }
}

/// Bytes of the widest group, and of a word that begins with its last.
const WINDOW_BYTES: usize = 32 + WORD_BYTES;

/// Eight values; with the width known, each is a load and a shift.
#[inline]
fn group<const WIDTH: usize>(bytes: &[u8; WINDOW_BYTES], values: &mut [u32; GROUP]) {
    let mask = (1_u64 << WIDTH) - 1;
    for (number, value) in values.iter_mut().enumerate() {
        let (byte, bit) = (number * WIDTH / 8, number * WIDTH % 8);
        let word = bytes[byte..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        *value = (word >> bit & mask) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `values` bit-packed as one run.
    fn packed(width: u8, values: &[u32]) -> Vec<u8> {
        let groups = values.len().div_ceil(GROUP);
        let mut bytes = vec![0; groups * usize::from(width)];
        for (number, value) in values.iter().enumerate() {
            for bit in 0..usize::from(width) {
                let at = number * usize::from(width) + bit;
                bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
            }
        }
        let mut run = vec![(groups << 1 | 1) as u8];
        run.extend(bytes);
        run
    }

    fn values(width: u8, count: u32) -> Vec<u32> {
        let mask = ((1_u64 << width) - 1) as u32;
        (0..count).map(|number| number.wrapping_mul(2_654_435_761) & mask).collect()
    }

    #[test]
    fn packed_values_of_every_width_are_read_in_any_steps() {
        for width in 0..=32 {
            let (values, step) = (values(width, 77), usize::from(width) % 13 + 1);
            let page = packed(width, &values);
            let mut decoder = HybridDecoder::new(width, 0..page.len()).expect("a width");
            let mut read = vec![0; values.len()];
            for part in read.chunks_mut(step) {
                decoder.read(&page, part).expect("values");
            }
            assert_eq!(read, values, "width {width}");
        }
    }

    #[test]
    fn skipped_values_are_passed_over() {
        let values = values(5, 64);
        let mut page = packed(5, &values);
        page.extend([20, 7]);
        let mut decoder = HybridDecoder::new(5, 0..page.len()).expect("a width");
        decoder.skip(&page, 61).expect("values");
        let mut read = [0; 13];
        decoder.read(&page, &mut read).expect("values");
        assert_eq!(read[..3], values[61..]);
        assert_eq!(read[3..], [7; 10]);
    }

    #[test]
    fn runs_that_end_before_their_values_are_damaged() {
        let page = packed(9, &values(9, 16));
        for end in 0..page.len() {
            let mut decoder = HybridDecoder::new(9, 0..end).expect("a width");
            assert!(decoder.read(&page[..end], &mut [0; 16]).is_err(), "{end}");
        }
        assert!(HybridDecoder::new(33, 0..1).is_err());
    }
}
