//! Reads of units from mapped media, by any thread, while the device programs and erases pages (decision 0064).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

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
    upcoming: Upcoming,
}

/// Most units that are remembered as announced: those of a group of commands.
const UPCOMING_MAX: u32 = 16;

/// Where the units are that were announced and not yet copied, oldest first. Only the thread that reads here writes it; it is made of
/// atomic words so that readers may be shared.
#[derive(Debug, Default)]
struct Upcoming {
    at: [AtomicU64; UPCOMING_MAX as usize],
    first: AtomicU32,
    end: AtomicU32,
}

impl Upcoming {
    #[inline]
    fn place(&self, index: u32) -> &AtomicU64 {
        &self.at[(index % UPCOMING_MAX) as usize]
    }

    /// Adds the unit at byte `at` of all pages, in place of the oldest if there are too many. Whether it is the only one.
    #[inline]
    fn push(&self, at: u64) -> bool {
        let (first, end) = (self.first.load(Relaxed), self.end.load(Relaxed));
        self.place(end).store(at, Relaxed);
        self.end.store(end.wrapping_add(1), Relaxed);
        if end.wrapping_sub(first) == UPCOMING_MAX {
            self.first.store(first.wrapping_add(1), Relaxed);
        }
        end == first
    }

    /// Takes the unit at byte `at` and those before it away. `None` if it was not announced, else what comes next.
    #[inline]
    fn take(&self, at: u64) -> Option<Option<u64>> {
        let (first, end) = (self.first.load(Relaxed), self.end.load(Relaxed));
        let waiting = end.wrapping_sub(first).min(UPCOMING_MAX);
        let found = (0..waiting).find(|index| self.place(first.wrapping_add(*index)).load(Relaxed) == at)?;
        let next = first.wrapping_add(found + 1);
        self.first.store(next, Relaxed);
        Some((next != end).then(|| self.place(next).load(Relaxed)))
    }
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
            upcoming: Upcoming::default(),
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
        let next = self.next_of(page, from);
        let record = RecordReader::new(&self.spare, page.0 as usize * self.record_bytes, self.units);
        let copied = |version: &Option<RecordVersion>| {
            version.is_some() && self.copy_units(kind, page, &record, (from, next), into, first)
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
        (from, next): (usize, Option<u64>),
        into: &mut [u8],
        first: EntryIndex,
    ) -> bool {
        let (mut unit, mut within, mut rest) = (from / UNIT_BYTES, from % UNIT_BYTES, into);
        let mut owner = first;
        let step = u64::from(kind == PageKind::Units);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_mut((UNIT_BYTES - within).min(rest.len()));
            let at = page.0 * self.page_bytes as u64 + (unit * UNIT_BYTES) as u64;
            let next = if after.is_empty() { next } else { Some(at + UNIT_BYTES as u64) };
            if record.owner(unit) != owner || !self.copy_unit(at, within, piece, (record.crc(unit), next)) {
                return false;
            }
            (unit, within, rest, owner) = (unit + 1, 0, after, owner + step);
        }
        true
    }

    /// Copies bytes of the unit at byte `at` of all pages; whether they match its checksum. The unit at byte `next` is prefetched.
    #[inline]
    fn copy_unit(&self, at: u64, within: usize, into: &mut [u8], (crc, next): (u32, Option<u64>)) -> bool {
        match &self.data {
            Data::File(view) => copy_checked(within, into, crc, |unit| view.copy_page(at, unit, next)),
            Data::Memory { pages, is_exact: true } => pages.copy_at(at as usize + within, into).is_ok(),
            Data::Memory { pages, is_exact: false } => copy_checked(within, into, crc, |unit| {
                pages.copy_page(at as usize, unit, next.map(|next| next as usize)).ok()
            }),
        }
    }

    /// Announces a copy that comes soon, after those announced before. Its spare record is prefetched now, and the unit while the one
    /// before it is copied.
    #[inline]
    pub(crate) fn announce(&self, page: PageId, from: usize) {
        self.prefetch_spare(page);
        let at = self.unit_at(page, from);
        if self.upcoming.push(at) {
            self.prefetch_unit(at);
        }
    }

    /// The unit to prefetch while the one at byte `from` of a page is copied. One that was not announced is prefetched itself.
    #[inline]
    fn next_of(&self, page: PageId, from: usize) -> Option<u64> {
        let at = self.unit_at(page, from);
        self.upcoming.take(at).unwrap_or_else(|| {
            self.prefetch_spare(page);
            self.prefetch_unit(at);
            None
        })
    }

    #[inline]
    fn prefetch_spare(&self, page: PageId) {
        self.spare.prefetch(page.0 as usize * self.record_bytes);
    }

    #[inline]
    fn prefetch_unit(&self, at: u64) {
        match &self.data {
            Data::File(view) => view.prefetch_page(at),
            // What is wanted of it may be short. A processor's own prefetching goes on from each of these lines.
            Data::Memory { pages, is_exact: true } => {
                (0..3).for_each(|third| pages.prefetch(at as usize + third * UNIT_BYTES / 3));
            }
            Data::Memory { pages, is_exact: false } => pages.prefetch_page(at as usize),
        }
    }

    /// The unit that byte `from` of a page is in, as a byte of all pages.
    #[inline]
    fn unit_at(&self, page: PageId, from: usize) -> u64 {
        page.0 * self.page_bytes as u64 + (from / UNIT_BYTES * UNIT_BYTES) as u64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_units_are_taken_in_order_and_name_what_comes_next() {
        let upcoming = Upcoming::default();
        assert_eq!(upcoming.take(1), None);
        assert_eq!([upcoming.push(1), upcoming.push(2), upcoming.push(3)], [true, false, false]);
        assert_eq!([upcoming.take(1), upcoming.take(9), upcoming.take(3)], [Some(Some(2)), None, Some(None)]);
        assert_eq!(upcoming.take(2), None, "one that was skipped is gone");
        assert!(upcoming.push(4), "none waits");
    }

    #[test]
    fn oldest_announced_units_are_forgotten() {
        let upcoming = Upcoming::default();
        upcoming.first.store(u32::MAX - 3, Relaxed);
        upcoming.end.store(u32::MAX - 3, Relaxed);
        (0..20).for_each(|at| _ = upcoming.push(at));
        assert_eq!([upcoming.take(3), upcoming.take(4)], [None, Some(Some(5))]);
        assert_eq!([upcoming.take(19), upcoming.take(5)], [Some(None), None]);
    }
}
