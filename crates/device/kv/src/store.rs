//! What the engine needs of the flash below it.
//!
//! The engine uses this trait, so that a test can intervene between any two stores and any two page
//! operations. [`byway_flash::Flash`] implements it.

use std::ops::Range;
use std::sync::Arc;

use byway_flash::{
    AreaId, AreaRef, Cause, Durability, Epoch, ExtentId, ExtentView, Flash, FlashError, FlashReads,
    NamespaceRecord, StallCause, SyncPoint,
};
use byway_sys::Mapping;

/// The engine's own state: manifest, segment table, write pointers, page buffers.
pub const STATE_AREA: AreaId = AreaId(1);
/// The page buffers that hosts store into: device memory.
pub const WINDOWS_AREA: AreaId = AreaId(2);

/// What names a namespace's room on flash. The engine keeps it and hands it back with every call below.
#[derive(Clone, Debug)]
pub struct Home {
    /// The namespace's pages.
    pub extent: ExtentId,
    /// Its [`STATE_AREA`].
    pub state: AreaRef,
    /// Memory of its [`WINDOWS_AREA`], if it has windows.
    pub windows: Option<Arc<Mapping>>,
}

/// Logical pages of one namespace, and its protected memory.
///
/// An implementer keeps two promises. Protected memory survives the death of the process at any instruction, with
/// stores in program order; [`commit_u64`](Self::commit_u64) is ordered after every store before it and is never
/// torn. A page write replaces the page wholly or not at all. The caller stays inside extent and areas, and
/// overwrites no page whose content it still needs. `at_ps` is the modelled time, moved on by operations that the
/// caller waits for.
pub trait PageStore {
    /// Where a namespace lives here, its areas added if it has none yet.
    ///
    /// # Errors
    /// A full disk, or an area that is not there and may not be added.
    fn settle_in(
        &mut self,
        namespace: &NamespaceRecord,
        state_bytes: usize,
        windows_bytes: usize,
    ) -> Result<Home, FlashError>;

    /// Where a namespace that was settled in earlier lives; `None` if it was not.
    fn find_home(&mut self, namespace: &NamespaceRecord) -> Option<Home>;

    /// Bytes of a namespace's extent: at least its size. Compaction works in what is more.
    fn extent_bytes(&self, namespace: &NamespaceRecord) -> u64 {
        namespace.size_bytes
    }

    /// Whether nothing can be changed.
    fn is_read_only(&self) -> bool;

    /// Whether something can be changed now. What could be may no longer be.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    fn check_takes_writes(&self) -> Result<(), FlashError> {
        if self.is_read_only() { Err(FlashError::ReadOnly) } else { Ok(()) }
    }

    /// Bytes of a page: a power of two, at least 4096.
    fn page_bytes(&self) -> usize;

    /// Reads bytes of one page. A page never written, or trimmed, reads as zeroes.
    ///
    /// # Errors
    /// Media errors.
    fn read(
        &mut self,
        home: &Home,
        at_bytes: u64,
        into: &mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError>;

    /// As [`read`](Self::read), without a copy where the store can lend the bytes: these are **not verified**, so the
    /// caller verifies what it finds there and where that fails reads again. Else they are read into `room`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[inline]
    fn lend<'a>(
        &'a mut self,
        home: &Home,
        at_bytes: u64,
        room: &'a mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<&'a [u8], FlashError> {
        self.read(home, at_bytes, room, cause, at_ps)?;
        Ok(room)
    }

    /// Bytes of one page where they lie, if they are in memory that can be looked at: not verified, and not counted as
    /// read, as they will be read right after.
    #[inline]
    fn peek(&self, _home: &Home, _at_bytes: u64, _len_bytes: usize) -> Option<&[u8]> {
        None
    }

    /// The pages, to look at many records one after another, where that is cheap: [`peek`](Self::peek) is for one.
    #[inline]
    fn view(&self, _home: &Home) -> Option<ExtentView<'_>> {
        None
    }

    /// Whether what is [looked at](Self::peek) may be [counted](Self::count_reads) later, for several reads together: reads take no
    /// modelled time and disturb nothing.
    #[inline]
    fn reads_in_any_order(&self) -> bool {
        false
    }

    /// Counts reads for a host that were looked at.
    #[inline]
    fn count_reads(&mut self, _reads: FlashReads) {}

    /// Prefetches bytes that will soon be read.
    #[inline]
    fn prefetch(&self, _home: &Home, _at_bytes: u64, _len_bytes: usize) {}

    /// Writes one whole page.
    ///
    /// # Errors
    /// Media errors, a full host disk.
    fn write_page(
        &mut self,
        home: &Home,
        page: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError>;

    /// As [`write_page`](Self::write_page), for a page of the index that others were merged into: it lives longer than they did.
    ///
    /// # Errors
    /// As [`write_page`](Self::write_page).
    fn write_merged_page(
        &mut self,
        home: &Home,
        page: u64,
        data: &[u8],
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        self.write_page(home, page, data, Cause::Index, at_ps)
    }

    /// Writes one whole page from byte `at` of the state area.
    ///
    /// # Errors
    /// As [`write_page`](Self::write_page).
    fn write_page_from_state(
        &mut self,
        home: &Home,
        page: u64,
        at: usize,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError>;

    /// Forgets pages.
    ///
    /// # Errors
    /// Media errors.
    fn trim_pages(&mut self, home: &Home, first: u64, count: u64) -> Result<(), FlashError>;

    /// Notes bytes of a key and its value that a host handed in.
    fn count_payload(&mut self, _bytes: u64) {}

    /// Notes that some of the bytes programmed for a cause are padding that packing left.
    fn charge_packing(&mut self, _cause: Cause, _bytes: u64) {}

    /// The state area.
    fn state(&mut self, home: &Home) -> &mut [u8];

    /// The state area, to look at, if it can be looked at by shared reference.
    #[inline]
    fn peek_state(&self, _home: &Home) -> Option<&[u8]> {
        None
    }

    /// Whether another process writes what is here. The state area is then a copy that [`refresh_state`](Self::refresh_state) brings up
    /// to date, windows are too, and every read is copied and then verified.
    #[inline]
    fn is_following(&self) -> bool {
        false
    }

    /// Whether words of the state area are no longer as that process has them now, before everything that is read after them. The
    /// range is aligned to eight bytes.
    #[inline]
    fn is_stale(&self, _home: &Home, _part: Range<usize>) -> bool {
        false
    }

    /// Copies a part of the state area from that process, from its first byte to its last.
    fn refresh_state(&mut self, _home: &Home, _part: Range<usize>) {}

    /// The same of the window area.
    fn refresh_windows(&self, _home: &Home, _part: Range<usize>) {}

    /// Stores eight aligned bytes of the state area, little-endian, as one store after all stores before it.
    fn commit_u64(&mut self, home: &Home, at: usize, value: u64);

    /// Puts what was stored so far on the medium before what follows, where power may be lost. Where it cannot, there
    /// is nothing to do.
    ///
    /// # Errors
    /// A sync that failed: then what follows must not be stored.
    fn order(&mut self, _point: SyncPoint) -> Result<(), FlashError> {
        Ok(())
    }

    /// As [`order`](Self::order), for what was stored in `epoch`: nothing to do if that has ended.
    ///
    /// # Errors
    /// As there.
    fn order_since(&mut self, point: SyncPoint, _epoch: Epoch) -> Result<(), FlashError> {
        self.order(point)
    }

    /// Whether what was stored in `epoch` is on the medium for certain.
    fn is_synced(&self, _epoch: Epoch) -> bool {
        false
    }

    /// Whether what was stored in `epoch` can be lost though this process lives: power may be lost, and it is not synced.
    fn may_lose(&self, _epoch: Epoch) -> bool {
        false
    }

    /// Whether a page holds what was written to it: not one that never was, or was trimmed since.
    fn holds_page(&self, _home: &Home, _page: u64) -> bool {
        false
    }

    /// Time of all waits that were noted so far, in nanoseconds.
    fn stalled_ns(&self) -> u64 {
        0
    }

    /// Notes that a command waited for work of the engine's.
    fn note_stall(&mut self, _cause: StallCause, _waited_ns: u64) {}

    /// How often real power was lost, or may have been, since the device was made.
    fn power_losses(&self) -> u64 {
        0
    }

    /// The epoch that what is stored now belongs to.
    fn epoch(&self) -> Epoch {
        Epoch::default()
    }

    /// Copies from window memory, which a host may be storing into.
    fn read_window(&self, home: &Home, at: usize, into: &mut [u8]);

    /// Copies into window memory, by one thread for each window at a time.
    fn write_window(&self, home: &Home, at: usize, from: &[u8]);
}

impl PageStore for Flash {
    fn settle_in(
        &mut self,
        namespace: &NamespaceRecord,
        state_bytes: usize,
        windows_bytes: usize,
    ) -> Result<Home, FlashError> {
        for (area, len_bytes) in [(STATE_AREA, state_bytes), (WINDOWS_AREA, windows_bytes)] {
            if len_bytes == 0 || self.find_area(namespace.nsid, area).is_some() {
                continue;
            }
            match Self::is_read_only(self) {
                true => self.add_area_in_memory(namespace.nsid, area, len_bytes)?,
                false => self.add_area(namespace.nsid, area, len_bytes)?,
            };
        }
        self.find_home(namespace).ok_or(FlashError::Misuse("an area that was just added is not there"))
    }

    fn find_home(&mut self, namespace: &NamespaceRecord) -> Option<Home> {
        let state = self.find_area(namespace.nsid, STATE_AREA)?;
        let windows = self.find_area(namespace.nsid, WINDOWS_AREA);
        Some(Home { extent: namespace.extent, state, windows: windows.map(|area| self.area_memory(area)) })
    }

    fn extent_bytes(&self, namespace: &NamespaceRecord) -> u64 {
        self.extent_len_bytes(namespace.extent).unwrap_or(namespace.size_bytes)
    }

    fn is_read_only(&self) -> bool {
        Self::is_read_only(self)
    }

    #[inline]
    fn check_takes_writes(&self) -> Result<(), FlashError> {
        Self::check_takes_writes(self)
    }

    fn page_bytes(&self) -> usize {
        self.geometry().page_bytes as usize
    }

    #[inline]
    fn read(
        &mut self,
        home: &Home,
        at_bytes: u64,
        into: &mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        Self::read(self, home.extent, at_bytes, into, cause, at_ps)
    }

    #[inline]
    fn lend<'a>(
        &'a mut self,
        home: &Home,
        at_bytes: u64,
        room: &'a mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<&'a [u8], FlashError> {
        Self::lend(self, home.extent, at_bytes, room, cause, at_ps)
    }

    #[inline]
    fn peek(&self, home: &Home, at_bytes: u64, len_bytes: usize) -> Option<&[u8]> {
        Self::peek(self, home.extent, at_bytes, len_bytes)
    }

    #[inline]
    fn view(&self, home: &Home) -> Option<ExtentView<'_>> {
        Self::view(self, home.extent)
    }

    #[inline]
    fn reads_in_any_order(&self) -> bool {
        Self::reads_in_any_order(self)
    }

    #[inline]
    fn count_reads(&mut self, reads: FlashReads) {
        Self::count_reads(self, reads);
    }

    #[inline]
    fn prefetch(&self, home: &Home, at_bytes: u64, len_bytes: usize) {
        Self::prefetch(self, home.extent, at_bytes, len_bytes);
    }

    fn write_page(
        &mut self,
        home: &Home,
        page: u64,
        data: &[u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        Self::write_page(self, home.extent, page, data, cause, at_ps)
    }

    fn write_merged_page(
        &mut self,
        home: &Home,
        page: u64,
        data: &[u8],
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        Self::write_merged_page(self, home.extent, page, data, Cause::Index, at_ps)
    }

    fn write_page_from_state(
        &mut self,
        home: &Home,
        page: u64,
        at: usize,
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), FlashError> {
        self.write_page_from(home.extent, page, (home.state, at), cause, at_ps)
    }

    fn count_payload(&mut self, bytes: u64) {
        Self::count_payload(self, bytes);
    }

    fn charge_packing(&mut self, cause: Cause, bytes: u64) {
        Self::charge_packing(self, cause, bytes);
    }

    fn trim_pages(&mut self, home: &Home, first: u64, count: u64) -> Result<(), FlashError> {
        self.trim(home.extent, first..first + count)
    }

    #[inline]
    fn state(&mut self, home: &Home) -> &mut [u8] {
        self.protected(home.state)
    }

    #[inline]
    fn peek_state(&self, home: &Home) -> Option<&[u8]> {
        Some(self.area(home.state))
    }

    #[inline]
    fn is_following(&self) -> bool {
        Self::is_following(self)
    }

    #[inline]
    fn is_stale(&self, home: &Home, part: Range<usize>) -> bool {
        self.is_area_stale(home.state, part)
    }

    fn refresh_state(&mut self, home: &Home, part: Range<usize>) {
        self.refresh_area(home.state, part);
    }

    fn refresh_windows(&self, home: &Home, part: Range<usize>) {
        home.windows.iter().for_each(|windows| self.refresh_memory(windows, part.clone()));
    }

    #[inline]
    fn commit_u64(&mut self, home: &Home, at: usize, value: u64) {
        Self::commit_u64(self, home.state, at, value);
    }

    #[inline]
    fn order(&mut self, point: SyncPoint) -> Result<(), FlashError> {
        Self::order(self, point)
    }

    #[inline]
    fn order_since(&mut self, point: SyncPoint, epoch: Epoch) -> Result<(), FlashError> {
        Self::order_since(self, point, epoch)
    }

    #[inline]
    fn epoch(&self) -> Epoch {
        Self::epoch(self)
    }

    #[inline]
    fn is_synced(&self, epoch: Epoch) -> bool {
        Self::is_synced(self, epoch)
    }

    #[inline]
    fn may_lose(&self, epoch: Epoch) -> bool {
        self.durability() != Durability::Process && !Self::is_synced(self, epoch)
    }

    fn holds_page(&self, home: &Home, page: u64) -> bool {
        self.is_mapped(home.extent, page).unwrap_or(false)
    }

    fn stalled_ns(&self) -> u64 {
        self.stalls().total_ns()
    }

    fn note_stall(&mut self, cause: StallCause, waited_ns: u64) {
        Self::note_stall(self, cause, waited_ns);
    }

    fn power_losses(&self) -> u64 {
        self.power_history().power_losses
    }

    fn read_window(&self, home: &Home, at: usize, into: &mut [u8]) {
        let copied = home.windows.as_ref().map(|windows| windows.read_at(at, into));
        debug_assert!(matches!(copied, Some(Ok(()))), "windows lie inside their area");
    }

    fn write_window(&self, home: &Home, at: usize, from: &[u8]) {
        let copied = home.windows.as_ref().map(|windows| windows.write_at(at, from));
        debug_assert!(matches!(copied, Some(Ok(()))), "windows lie inside their area");
    }
}
