//! Reads of units from mapped media, by any thread, while the device programs and erases pages (decision 0064).

use std::sync::Arc;

use byway_queue::validated;
use byway_sys::{MappingReader, ReadMapping};

use crate::geometry::{Geometry, PageId, UNIT_BYTES};
use crate::location::EntryIndex;
use crate::spare::{PageKind, RecordReader, RecordVersion};

/// Reads units of pages, each verified by the spare record of its page as it is copied.
#[derive(Debug)]
pub(crate) struct PageReader {
    page_bytes: usize,
    units: usize,
    record_bytes: usize,
    spare: MappingReader,
    data: Data,
}

/// Where pages are.
#[derive(Debug)]
enum Data {
    File(Arc<ReadMapping>),
    Memory { pages: MappingReader, is_exact: bool },
}

impl PageReader {
    /// Of an image file, whose pages `view` maps.
    pub(crate) fn of_file(geometry: &Geometry, spare: MappingReader, view: Arc<ReadMapping>) -> Self {
        Self::new(geometry, spare, Data::File(view))
    }

    /// Of memory. Checksums are not looked at where it `is_exact`.
    pub(crate) fn of_memory(
        geometry: &Geometry,
        spare: MappingReader,
        pages: MappingReader,
        is_exact: bool,
    ) -> Self {
        Self::new(geometry, spare, Data::Memory { pages, is_exact })
    }

    fn new(geometry: &Geometry, spare: MappingReader, data: Data) -> Self {
        Self {
            page_bytes: geometry.page_bytes as usize,
            units: geometry.units_per_page() as usize,
            record_bytes: geometry.spare_record_bytes(),
            spare,
            data,
        }
    }

    /// Fills `into` from byte `from` of a page on. Whether these are units of `first` and the entries behind it (of `first` alone, of a
    /// page that is one entry), as they were programmed, and the page was not erased meanwhile. Of damage `into` may hold anything.
    #[inline]
    pub(crate) fn copy(
        &self,
        kind: PageKind,
        page: PageId,
        from: usize,
        into: &mut [u8],
        first: EntryIndex,
    ) -> bool {
        if from + into.len() > self.page_bytes {
            return false;
        }
        self.prefetch(page, from);
        let record = RecordReader::new(&self.spare, page.0 as usize * self.record_bytes, self.units);
        let copied = |version: &Option<RecordVersion>| {
            version.is_some() && self.copy_units(kind, page, &record, from, into, first)
        };
        validated(1, || record.version(kind), copied) == Some(true)
    }

    /// The same of a record that does not change meanwhile.
    #[inline]
    fn copy_units(
        &self,
        kind: PageKind,
        page: PageId,
        record: &RecordReader<'_>,
        from: usize,
        into: &mut [u8],
        first: EntryIndex,
    ) -> bool {
        let (mut unit, mut within, mut rest) = (from / UNIT_BYTES, from % UNIT_BYTES, into);
        let mut owner = first;
        let step = u64::from(kind == PageKind::Units);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_mut((UNIT_BYTES - within).min(rest.len()));
            let at = page.0 * self.page_bytes as u64 + (unit * UNIT_BYTES) as u64;
            if record.owner(unit) != owner || !self.copy_unit(at, within, piece, record.crc(unit)) {
                return false;
            }
            (unit, within, rest, owner) = (unit + 1, 0, after, owner + step);
        }
        true
    }

    /// Copies bytes of the unit at byte `at` of all pages; whether they match its checksum.
    #[inline]
    fn copy_unit(&self, at: u64, within: usize, into: &mut [u8], crc: u32) -> bool {
        match &self.data {
            Data::File(view) => copy_checked(within, into, crc, |unit| view.copy_page(at, unit)),
            Data::Memory { pages, is_exact: true } => pages.copy_at(at as usize + within, into).is_ok(),
            Data::Memory { pages, is_exact: false } => {
                copy_checked(within, into, crc, |unit| pages.copy_page(at as usize, unit).ok())
            }
        }
    }

    /// Prefetches the spare record and the lines with which copies of the unit at byte `from` begin, each of which a processor's own
    /// prefetching goes on from: misses of all overlap.
    #[inline]
    pub(crate) fn prefetch(&self, page: PageId, from: usize) {
        self.spare.prefetch(page.0 as usize * self.record_bytes);
        let at = page.0 * self.page_bytes as u64 + (from / UNIT_BYTES * UNIT_BYTES) as u64;
        for part in (0..3).map(|part| at + (part * UNIT_BYTES / 3) as u64) {
            match &self.data {
                Data::File(view) => view.prefetch(part, 1),
                Data::Memory { pages, .. } => pages.prefetch(part as usize),
            }
        }
    }
}

/// Fills `into` from byte `within` of a unit on, of which `copy` makes a copy and says the checksum; whether that is `crc`.
#[inline]
pub(crate) fn copy_checked(
    within: usize,
    into: &mut [u8],
    crc: u32,
    copy: impl FnOnce(&mut [u8; UNIT_BYTES]) -> Option<u32>,
) -> bool {
    if let Ok(whole) = into.try_into() {
        return copy(whole) == Some(crc);
    }
    let mut unit = [0; UNIT_BYTES];
    let matches = copy(&mut unit) == Some(crc);
    into.copy_from_slice(&unit[within..within + into.len()]);
    matches
}
