//! What is written into the spare bytes of each page: whose data it holds, its age and its checksums.
//!
//! ```text
//! 0  crc32c of the rest   4  kind   5  cause (ff: a repair)   6  units   8  sequence number
//! 16 owner of each unit (u64)                             …  crc32c of each unit's data (u32)
//! ```

use byway_sys::{MappingReader, checksum};

use crate::geometry::UNIT_BYTES;
use crate::location::EntryIndex;

const UNITS_MAX: usize = 16;
const HEADER_BYTES: usize = 16;

/// First word of a record that counts for nothing.
pub(crate) const VOID: u64 = 0;

/// Kinds of pages, as records have them.
const PAGE: u8 = 1;
const UNITS: u8 = 2;

/// In place of a cause: a repair made the record.
const MADE_ANEW: u8 = 0xff;

/// Owner of a unit that holds nothing.
pub(crate) const NO_OWNER: EntryIndex = u64::MAX;

/// What the map points into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// The whole page belongs to one entry.
    Page,
    /// Each unit belongs to its own entry.
    Units,
}

/// The spare record of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpareRecord {
    pub(crate) kind: PageKind,
    pub(crate) cause: u8,
    pub(crate) seq: u64,
    units: u8,
    owners: [EntryIndex; UNITS_MAX],
    crcs: [u32; UNITS_MAX],
}

impl SpareRecord {
    /// A record of `units` units that hold nothing yet.
    pub(crate) const fn new(kind: PageKind, cause: u8, units: usize) -> Self {
        let (owners, crcs) = ([NO_OWNER; UNITS_MAX], [0; UNITS_MAX]);
        Self { kind, cause, seq: 0, units: units as u8, owners, crcs }
    }

    /// A record in place of a damaged one. It names no owner: those of its units are unknown.
    pub(crate) const fn made_anew(kind: PageKind, units: usize, seq: u64) -> Self {
        let mut record = Self::new(kind, MADE_ANEW, units);
        record.seq = seq;
        record
    }

    /// Whether it was [`made_anew`](Self::made_anew).
    pub(crate) const fn is_made_anew(&self) -> bool {
        self.cause == MADE_ANEW
    }

    /// Names owner and checksum of unit `unit`.
    pub(crate) fn set(&mut self, unit: usize, owner: EntryIndex, crc: u32) {
        self.owners[unit] = owner;
        self.crcs[unit] = crc;
    }

    /// Whether the record is void: its page was erased, or its program was cut short.
    pub(crate) fn is_void(&self) -> bool {
        self.seq == 0 && self.owners[..self.units()].iter().all(|owner| *owner == NO_OWNER)
    }

    pub(crate) fn units(&self) -> usize {
        usize::from(self.units)
    }

    /// The entry that owns unit `unit`: of a page with one owner, that one.
    #[inline]
    pub(crate) fn owner(&self, unit: usize) -> EntryIndex {
        match self.kind {
            PageKind::Page => self.owners[0],
            PageKind::Units => self.owners[unit],
        }
    }

    #[inline]
    pub(crate) fn crc(&self, unit: usize) -> u32 {
        self.crcs[unit]
    }

    /// Writes the record; `into` has [`crate::Geometry::spare_record_bytes`].
    pub(crate) fn encode(&self, into: &mut [u8]) {
        let units = self.units();
        into.fill(0);
        into[4] = match self.kind {
            PageKind::Page => PAGE,
            PageKind::Units => UNITS,
        };
        into[5] = self.cause;
        into[6..8].copy_from_slice(&u16::from(self.units).to_le_bytes());
        into[8..16].copy_from_slice(&self.seq.to_le_bytes());
        let (owners, crcs) = into[HEADER_BYTES..].split_at_mut(8 * units);
        for (place, owner) in owners.as_chunks_mut().0.iter_mut().zip(self.owners) {
            *place = owner.to_le_bytes();
        }
        for (place, crc) in crcs.as_chunks_mut().0.iter_mut().zip(&self.crcs[..units]) {
            *place = crc.to_le_bytes();
        }
        let crc = checksum::crc32c(&into[4..HEADER_BYTES + 12 * units]);
        into[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a record of `units` units; `None` when it does not match its checksum. A page that was erased, or whose
    /// record was [voided](VOID), is one that holds nothing.
    pub(crate) fn decode(from: &[u8], units: usize) -> Option<Self> {
        let from = from.get(..HEADER_BYTES + 12 * units)?;
        if from[..8] == VOID.to_le_bytes() {
            return Some(Self::new(PageKind::Units, 0, units));
        }
        let stored = u32::from_le_bytes(*from.first_chunk()?);
        if checksum::crc32c(&from[4..]) != stored || usize::from(from[6]) != units || from[7] != 0 {
            return None;
        }
        let kind = match from[4] {
            PAGE => PageKind::Page,
            UNITS => PageKind::Units,
            _ => return None,
        };
        let mut record = Self::new(kind, from[5], units);
        record.seq = u64::from_le_bytes(*from[8..].first_chunk()?);
        let (owners, crcs) = from[HEADER_BYTES..].split_at(8 * units);
        for (owner, bytes) in record.owners.iter_mut().zip(owners.as_chunks().0) {
            *owner = u64::from_le_bytes(*bytes);
        }
        for (crc, bytes) in record.crcs.iter_mut().zip(crcs.as_chunks().0) {
            *crc = u32::from_le_bytes(*bytes);
        }
        Some(record)
    }
}

/// Whether whole units match the checksums that the spare record keeps from `first` on.
pub(crate) fn crcs_match(spare: &SpareRecord, first: usize, data: &[u8]) -> bool {
    data.chunks_exact(UNIT_BYTES)
        .enumerate()
        .all(|(i, unit)| first + i < spare.units() && checksum::crc32c(unit) == spare.crc(first + i))
}

/// Owners in a record's bytes, without a check of its checksum: for prefetching only.
#[inline]
pub(crate) fn owners_in(from: &[u8], units: usize) -> impl Iterator<Item = EntryIndex> {
    let owners = from.get(HEADER_BYTES..HEADER_BYTES + 8 * units).unwrap_or_default();
    owners.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The number in a record's bytes, without a check of its checksum; 0 in one that is void.
#[inline]
pub(crate) fn seq_in(from: &[u8]) -> u64 {
    match from.as_chunks().0 {
        [first, seq, ..] if *first != VOID.to_le_bytes() => u64::from_le_bytes(*seq),
        _ => 0,
    }
}

/// Checksum of `unit` in a record's bytes, without a check of the record's own: for media that return exactly what was programmed.
#[inline]
pub(crate) fn crc_in(from: &[u8], units: usize, unit: usize) -> Option<u32> {
    let crcs = from.get(HEADER_BYTES + 8 * units..)?;
    crcs.as_chunks().0.get(unit).map(|bytes| u32::from_le_bytes(*bytes))
}

/// Reads the spare record of a page while the device programs and erases pages, without a check of the record's own checksum:
/// data that matches the owner and the checksum that it names shows that both are right.
pub(crate) struct RecordReader<'a> {
    region: &'a MappingReader,
    at: usize,
    units: usize,
}

/// What a record has that no other record of its page ever has: checksum and number. Its first word is zeroed first and stored last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordVersion([u64; 2]);

impl<'a> RecordReader<'a> {
    /// The record of `units` units at byte `at` of the region of all.
    #[inline]
    pub(crate) const fn new(region: &'a MappingReader, at: usize, units: usize) -> Self {
        Self { region, at, units }
    }

    /// The version of a record of this kind; `None` of any other, and of a page that is not programmed.
    #[inline]
    pub(crate) fn version(&self, kind: PageKind) -> Option<RecordVersion> {
        let (first, seq) = (self.word(0), self.word(8));
        let [.., stored, _, units, high] = first.to_le_bytes();
        let wanted = match kind {
            PageKind::Page => PAGE,
            PageKind::Units => UNITS,
        };
        let is_of_kind = stored == wanted && usize::from(units) == self.units && high == 0;
        is_of_kind.then_some(RecordVersion([first, seq]))
    }

    /// The owner of unit `unit`.
    #[inline]
    pub(crate) fn owner(&self, unit: usize) -> EntryIndex {
        self.word(HEADER_BYTES + 8 * unit)
    }

    /// The checksum of unit `unit`.
    #[inline]
    pub(crate) fn crc(&self, unit: usize) -> u32 {
        let at = HEADER_BYTES + 8 * self.units + 4 * unit;
        (self.word(at / 8 * 8) >> (at % 8 * 8)) as u32
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.region.load_u64(self.at + at).unwrap_or(VOID)
    }
}

/// Makes the checksums of records of `record_bytes` fit that say something, for fuzzers.
pub(crate) fn reseal(region: &mut [u8], record_bytes: usize) {
    for bytes in region.chunks_exact_mut(record_bytes) {
        let units = usize::from(bytes[6]).min((record_bytes - HEADER_BYTES) / 12);
        if bytes.iter().any(|byte| *byte != 0) {
            let crc = checksum::crc32c(&bytes[4..HEADER_BYTES + 12 * units]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_record_comes_back_as_written_and_a_flipped_bit_is_found() {
        for units in [1, 2, 4, 16] {
            let mut record = SpareRecord::new(PageKind::Units, 3, units);
            record.seq = 99;
            for unit in 0..units {
                record.set(unit, unit as u64 * 7, unit as u32 + 1);
            }
            let mut bytes = vec![0; (16 + 12 * units).next_power_of_two()];
            record.encode(&mut bytes);
            assert_eq!(SpareRecord::decode(&bytes, units), Some(record));
            for bit in 0..(16 + 12 * units) * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(SpareRecord::decode(&bytes, units), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn an_erased_record_holds_nothing() {
        let record = SpareRecord::decode(&[0; 64], 4).unwrap();
        assert!((0..4).all(|unit| record.owner(unit) == NO_OWNER));
        let mut nearly = [0; 64];
        nearly[7] = 1;
        assert_eq!(SpareRecord::decode(&nearly, 4), None);
    }
}
