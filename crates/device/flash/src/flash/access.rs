//! Access to extents: reads, writes, trims.

use std::ops::Range;

use crate::areas::AreaRef;
use crate::counters::Cause;
use crate::error::FlashError;
use crate::flash::Flash;
use crate::frontier::FrontierKind;
use crate::ftl::read::ReadError;
use crate::geometry::UNIT_BYTES;
use crate::image::namespaces::ExtentId;
use crate::spare::PageKind;

impl Flash {
    /// Fills `into` from byte `at_bytes` of an extent; what was never written or was trimmed reads as zeroes.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::Media`], [`FlashError::Lost`], [`FlashError::File`].
    pub fn read(
        &mut self,
        extent: ExtentId,
        at_bytes: u64,
        into: &mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let (first, kind) = self.range(extent, at_bytes, into.len() as u64)?;
        let entry_bytes = self.entry_bytes(kind);
        let (index, within) = (at_bytes / entry_bytes, (at_bytes % entry_bytes) as usize);
        if self.is_following() {
            return self.read_beside(kind, first + index, within, into, cause);
        }
        self.ftl
            .read(kind, first + index, within, into, cause, at_ps)
            .map_err(|error| self.read_error(extent, error))
    }

    /// The CRC-32C of a unit of an NVM extent that was read just now, as it was kept since the unit was written; `None` where the
    /// bytes are not a whole unit, or none is kept.
    #[inline]
    #[must_use]
    pub fn kept_crc(&self, extent: ExtentId, at_bytes: u64, len_bytes: u64) -> Option<u32> {
        let (first, kind) = self.range(extent, at_bytes, len_bytes).ok()?;
        let unit_bytes = UNIT_BYTES as u64;
        let is_unit =
            kind == PageKind::Units && len_bytes == unit_bytes && at_bytes.is_multiple_of(unit_bytes);
        if is_unit { self.ftl.kept_crc(first + at_bytes / unit_bytes) } else { None }
    }

    /// As [`Flash::read`] of bytes of one page of a KV extent, without a copy where the medium can lend them: they are
    /// then counted and timed, and **not verified**. The caller verifies what it finds there, and where that fails
    /// reads by [`Flash::read`], which names the damage. Else they are read into `room`: as [`Flash::read`] does, or, of an
    /// image that is checked, as they are.
    ///
    /// # Errors
    /// As [`Flash::read`].
    #[inline]
    pub fn lend<'a>(
        &'a mut self,
        extent: ExtentId,
        at_bytes: u64,
        room: &'a mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<&'a [u8], FlashError> {
        let (first, kind) = self.range(extent, at_bytes, room.len() as u64)?;
        let (page_bytes, index, within) = self.place_in_page(at_bytes);
        if kind == PageKind::Page
            && !self.is_following()
            && within + room.len() <= page_bytes
            && let Some(page) = self.ftl.lend_from(first + index, within, room.len(), cause, at_ps)
        {
            let lent = self.ftl.media.lend(page, within, room.len());
            return lent.ok_or(FlashError::Misuse("a medium lends all of its pages or none"));
        }
        match self.read(extent, at_bytes, room, cause, at_ps) {
            Ok(()) => Ok(room),
            Err(error) => self.as_it_is(extent, at_bytes, room).then_some(&*room).ok_or(error),
        }
    }

    /// Bytes of a page, the page of a byte, and where it is there. A page is a power of two: a shift costs less than a division.
    #[inline]
    const fn place_in_page(&self, at_bytes: u64) -> (usize, u64, usize) {
        let page_bytes = self.ftl.geometry().page_bytes;
        (
            page_bytes as usize,
            at_bytes >> page_bytes.trailing_zeros(),
            at_bytes as usize & (page_bytes as usize - 1),
        )
    }

    /// Reads what does not match the checksums of its page, of an image that is checked; false where it cannot be read at all.
    #[cold]
    fn as_it_is(&self, extent: ExtentId, at_bytes: u64, into: &mut [u8]) -> bool {
        let page_bytes = u64::from(self.ftl.geometry().page_bytes);
        let (index, within) = (at_bytes / page_bytes, (at_bytes % page_bytes) as usize);
        let range = self.range(extent, at_bytes, into.len() as u64);
        let Ok((first, PageKind::Page)) = range else { return false };
        self.is_checked
            && !self.is_following()
            && within + into.len() <= page_bytes as usize
            && self.ftl.read_as_it_is(first + index, within, into)
    }

    /// Bytes of one page of a KV extent where the medium has them, for one who will [borrow](Flash::lend) them right after: neither
    /// counted nor timed, and **not verified**. `None` where the medium cannot lend them.
    #[inline]
    #[must_use]
    pub fn peek(&self, extent: ExtentId, at_bytes: u64, len_bytes: usize) -> Option<&[u8]> {
        let (page_bytes, index, within) = self.place_in_page(at_bytes);
        let (first, kind) = self.range(extent, at_bytes, len_bytes as u64).ok()?;
        // Beside a writer, bytes are copied and then verified.
        if kind != PageKind::Page || self.is_following() || within + len_bytes > page_bytes {
            return None;
        }
        self.ftl.peek(first + index, within, len_bytes)
    }

    /// Whether every read must be known at once: data fades by being read, or a writer beside this process is looked at first. Else bytes that were
    /// [looked at](Self::peek) may be [counted](Flash::count_reads) later.
    #[inline]
    #[must_use]
    pub fn follows_reads(&self) -> bool {
        self.ftl.has_retention() || self.is_following()
    }

    /// Whether reads may come in any order, and be [counted](Flash::count_reads) together afterwards: they take no modelled time,
    /// disturb no block, and none is too old.
    #[inline]
    #[must_use]
    pub fn reads_in_any_order(&self) -> bool {
        self.ftl.reads_in_any_order()
    }

    /// Prefetches bytes of a KV extent that will soon be read, up to the end of the page of the first one.
    #[inline]
    pub fn prefetch(&self, extent: ExtentId, at_bytes: u64, len_bytes: usize) {
        let (page_bytes, index, within) = self.place_in_page(at_bytes);
        let len = len_bytes.min(page_bytes - within);
        if self.is_following() {
            return;
        }
        if let Ok((first, PageKind::Page)) = self.range(extent, at_bytes, len as u64) {
            self.ftl.prefetch(first + index, within, len);
        }
    }

    fn read_error(&self, extent: ExtentId, error: ReadError) -> FlashError {
        match error {
            ReadError::Flash(error) => error,
            ReadError::Lost { entry, why } => {
                let (nsid, first) =
                    self.namespaces.get(extent).map_or((0, 0), |found| (found.record.nsid, found.first));
                FlashError::Lost { nsid, index: entry - first, why }
            }
        }
    }

    /// Writes whole 4 KiB units of an NVM extent, from unit `first` on. Each unit is written wholly or not at all.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::Misuse`] for other lengths or extents, [`FlashError::Full`],
    /// [`FlashError::File`] when the image's disk is full, [`FlashError::ReadOnly`].
    pub fn write_units(
        &mut self,
        extent: ExtentId,
        first: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let at_bytes = first.saturating_mul(UNIT_BYTES as u64);
        if !data.len().is_multiple_of(UNIT_BYTES) {
            return Err(FlashError::Misuse("units are written whole"));
        }
        let base = self.writable_units(extent, at_bytes, data.len() as u64)?;
        // Looked at once the data is copied.
        self.ftl.map.prefetch(base + first);
        self.ftl.state.count_accepted(data.len() as u64);
        let newly = self.ftl.write_units(base + first, data, cause, at_ps)?;
        self.mapped.add(extent, newly);
        Ok(())
    }

    /// Writes any bytes of an NVM extent: units that are covered in part are read, changed and written anew.
    ///
    /// # Errors
    /// As [`Flash::write_units`] and [`Flash::read`].
    pub fn write_bytes(
        &mut self,
        extent: ExtentId,
        at_bytes: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let base = self.writable_units(extent, at_bytes, data.len() as u64)?;
        let unit = UNIT_BYTES as u64;
        if !self.ftl.media.keeps_data() {
            self.ftl.state.count_accepted(data.len() as u64);
            let units = (at_bytes + data.len() as u64).div_ceil(unit) - at_bytes / unit;
            self.ftl.discard_units(units, cause, at_ps);
            return Ok(());
        }
        let lead = (at_bytes.next_multiple_of(unit) - at_bytes).min(data.len() as u64) as usize;
        let (head, rest) = data.split_at(lead);
        let (body, tail) = rest.split_at(rest.len() / UNIT_BYTES * UNIT_BYTES);
        self.write_part((extent, base), at_bytes, head, cause, at_ps)?;
        let at_bytes = at_bytes + lead as u64;
        if !body.is_empty() {
            self.write_units(extent, at_bytes / unit, body, cause, at_ps)?;
        }
        self.write_part((extent, base), at_bytes + body.len() as u64, tail, cause, at_ps)
    }

    /// Writes bytes inside one unit of an extent whose first unit is `base`.
    fn write_part(
        &mut self,
        (extent, base): (ExtentId, u64),
        at_bytes: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        if data.is_empty() {
            return Ok(());
        }
        let first = at_bytes / UNIT_BYTES as u64;
        self.ftl.state.count_accepted(data.len() as u64);
        let within = (at_bytes % UNIT_BYTES as u64) as usize;
        let mut unit = [0; UNIT_BYTES];
        self.read(extent, first * UNIT_BYTES as u64, &mut unit, cause, at_ps)?;
        unit[within..within + data.len()].copy_from_slice(data);
        let newly = self.ftl.write_units(base + first, &unit, cause, at_ps)?;
        self.mapped.add(extent, newly);
        Ok(())
    }

    /// Notes bytes that a host handed in to be kept in a KV extent: its pages hold other things too, so only their
    /// owner knows. What is written by units is noted as it comes.
    #[inline]
    pub fn count_payload(&mut self, bytes: u64) {
        self.ftl.state.count_accepted(bytes);
    }

    /// Notes that of the bytes programmed for `cause`, so many are empty room that packing left: they are charged to
    /// [`Cause::Packing`] instead.
    pub fn charge_packing(&mut self, cause: Cause, bytes: u64) {
        self.ftl.state.charge(cause, Cause::Packing, bytes);
    }

    /// Writes one whole page of a KV extent, straight to flash.
    ///
    /// # Errors
    /// As [`Flash::write_units`].
    pub fn write_page(
        &mut self,
        extent: ExtentId,
        page: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let front = FrontierKind::of_page(cause, false);
        self.write_page_to(front, extent, page, data, cause, at_ps)
    }

    /// As [`Flash::write_page`], for a page that was made of others that were written for the same cause: it goes to blocks
    /// of its own, as it will live longer than they did.
    ///
    /// # Errors
    /// As [`Flash::write_page`].
    pub fn write_merged_page(
        &mut self,
        extent: ExtentId,
        page: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let front = FrontierKind::of_page(cause, true);
        self.write_page_to(front, extent, page, data, cause, at_ps)
    }

    fn write_page_to(
        &mut self,
        front: FrontierKind,
        extent: ExtentId,
        page: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let entry = self.writable_page(extent, page, data.len())?;
        let newly = self.ftl.write_page(front, entry, data, cause, at_ps)?;
        self.mapped.add(extent, u64::from(newly));
        Ok(())
    }

    /// As [`Flash::write_page`], from a protected area: the page-sized piece that starts at byte `at` of it.
    ///
    /// # Errors
    /// As [`Flash::write_units`]; [`FlashError::Misuse`] when the area has no such piece.
    pub fn write_page_from(
        &mut self,
        extent: ExtentId,
        page: u64,
        (area, at): (AreaRef, usize),
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        let page_bytes = self.ftl.geometry().page_bytes as usize;
        let entry = self.writable_page(extent, page, page_bytes)?;
        let piece = self.areas.bytes(area).get(at..).and_then(|rest| rest.get(..page_bytes));
        let data = piece.ok_or(FlashError::Misuse("the protected area ends before the page"))?;
        let newly = self.ftl.write_page(FrontierKind::of_page(cause, false), entry, data, cause, at_ps)?;
        self.mapped.add(extent, u64::from(newly));
        Ok(())
    }

    /// Forgets entries of an extent (units of an NVM extent, pages of a KV extent): they read as zeroes and take no
    /// flash.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`], [`FlashError::ReadOnly`].
    pub fn trim(&mut self, extent: ExtentId, entries: Range<u64>) -> Result<(), FlashError> {
        self.writable()?;
        let found = self.entry(extent)?;
        let (kind, base) = (found.record.kind.page_kind(), found.first);
        if entries.start > entries.end || entries.end > found.entries {
            return Err(self.out_of_range(extent, entries.start, entries.end.saturating_sub(entries.start)));
        }
        let (mut index, end) = (base + entries.start, base + entries.end);
        let mut gone = 0;
        while index < end {
            let absent = self.ftl.map.absent_run(index);
            if absent > 0 {
                index += absent;
                continue;
            }
            gone += u64::from(self.ftl.trim(index, kind));
            index += 1;
        }
        self.mapped.remove(extent, gone);
        Ok(())
    }

    /// Units or pages of an extent.
    ///
    /// # Errors
    /// [`FlashError::Misuse`] where there is no such extent.
    pub fn extent_entries(&self, extent: ExtentId) -> Result<u64, FlashError> {
        Ok(self.entry(extent)?.entries)
    }

    /// Deallocates everything in an extent, and frees disk space of blocks that held nothing else.
    ///
    /// # Errors
    /// As [`Flash::trim`].
    pub fn clear(&mut self, extent: ExtentId) -> Result<(), FlashError> {
        let entries = self.entry(extent)?.entries;
        self.trim(extent, 0..entries)?;
        self.ftl.reclaim_empty_blocks(0)
    }

    /// Whether entry `index` (unit or page) of an extent holds data.
    ///
    /// # Errors
    /// [`FlashError::OutOfRange`].
    pub fn is_mapped(&self, extent: ExtentId, index: u64) -> Result<bool, FlashError> {
        let found = self.entry(extent)?;
        if index >= found.entries {
            return Err(self.out_of_range(extent, index, 1));
        }
        Ok(self.ftl.is_mapped(found.first + index))
    }

    /// Bytes of an extent that hold data. The first call after opening walks the extent's map.
    ///
    /// # Errors
    /// [`FlashError::NoNamespace`].
    pub fn mapped_bytes(&mut self, extent: ExtentId) -> Result<u64, FlashError> {
        let found = self.entry(extent)?;
        let (kind, first, entries) = (found.record.kind.page_kind(), found.first, found.entries);
        let mapped = self.mapped.get(extent).unwrap_or_else(|| self.ftl.count_mapped(first, entries));
        self.mapped.set(extent, mapped);
        Ok(mapped * self.entry_bytes(kind))
    }

    /// As [`Flash::mapped_bytes`] where they were counted since the device was opened; `None` otherwise, and of no extent.
    #[must_use]
    pub fn known_mapped_bytes(&self, extent: ExtentId) -> Option<u64> {
        let kind = self.entry(extent).ok()?.record.kind.page_kind();
        Some(self.mapped.get(extent)? * self.entry_bytes(kind))
    }

    /// First entry and mapping of an extent that has the range.
    #[inline]
    pub(super) fn range(
        &self,
        extent: ExtentId,
        at_bytes: u64,
        len_bytes: u64,
    ) -> Result<(u64, PageKind), FlashError> {
        let entry = self.entry(extent)?;
        let inside = at_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.extent_bytes(entry));
        if !inside {
            return Err(self.out_of_range(extent, at_bytes, len_bytes));
        }
        Ok((entry.first, entry.record.kind.page_kind()))
    }

    #[cold]
    fn out_of_range(&self, extent: ExtentId, at_bytes: u64, len_bytes: u64) -> FlashError {
        let extent_bytes = self.namespaces.get(extent).map_or(0, |entry| self.extent_bytes(entry));
        FlashError::OutOfRange { at_bytes, len_bytes, extent_bytes }
    }

    #[inline]
    fn writable_units(&mut self, extent: ExtentId, at_bytes: u64, len_bytes: u64) -> Result<u64, FlashError> {
        self.writable()?;
        match self.range(extent, at_bytes, len_bytes)? {
            (first, PageKind::Units) => Ok(first),
            (_, PageKind::Page) => Err(FlashError::Misuse("a KV extent is written by whole pages")),
        }
    }

    #[inline]
    fn writable_page(&mut self, extent: ExtentId, page: u64, len: usize) -> Result<u64, FlashError> {
        self.writable()?;
        let page_bytes = self.ftl.geometry().page_bytes;
        if len != page_bytes as usize {
            return Err(FlashError::Misuse("a page is written whole"));
        }
        match self.range(extent, page.saturating_mul(u64::from(page_bytes)), u64::from(page_bytes))? {
            (first, PageKind::Page) => Ok(first + page),
            (_, PageKind::Units) => Err(FlashError::Misuse("an NVM extent is written by units")),
        }
    }
}
