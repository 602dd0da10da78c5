//! The page table: pages, time and counters of a modelled device, shared by all processes that touch it.
//!
//! A sealed memory file with a word for each page: resident, dirty, last touch. **Memory ordering:** words change by single relaxed atomic
//! operations, as each stands alone; no bytes depend on them. One pair is ordered: a process that loads a page without the owner raises a counter
//! afterwards (release), so that the owner, loading the counter (acquire), finds the page.
//!
//! Any process that maps it may spoil it, which spoils figures only: nothing here is an index, a length or a loop condition.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use byway_sys::map::{PAGE_BYTES, Sharing};
use byway_sys::{Mapping, memfd};

const RESIDENT: u64 = 1 << 63;
const DIRTY: u64 = 1 << 62;
const STAMP: u64 = DIRTY - 1;

/// Bound of modelled times.
const LATEST_PS: u64 = 1 << 62;

const WORD_BYTES: usize = size_of::<u64>();
/// Words before the pages' words.
const HEADER_WORDS: usize = PAGE_BYTES / WORD_BYTES;
/// Each on a cache line of its own.
const TICK: usize = 0;
const NOW_PS: usize = 8;
const BROUGHT: usize = 16;
const BLOCKING: usize = 24;
const FOREIGN: usize = 32;
const EPOCH_NS: usize = 40;

/// The page table of a device, mapped in this process.
#[derive(Debug)]
pub(crate) struct PageTable {
    map: Mapping,
}

/// A page that was evicted.
pub(crate) struct Evicted {
    pub(crate) was_dirty: bool,
}

impl PageTable {
    /// A table for `pages` pages, none resident, and its file.
    pub(crate) fn new(pages: u64, epoch_ns: u64) -> io::Result<(Self, File)> {
        let words = pages.checked_add(HEADER_WORDS as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = words.checked_mul(WORD_BYTES as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let file = memfd::sealed("byway-page-table", bytes.next_multiple_of(PAGE_BYTES as u64))?;
        let page_table = Self::map(&file)?;
        page_table.words()[EPOCH_NS].store(epoch_ns, Relaxed);
        Ok((page_table, file))
    }

    /// Maps another process's page table.
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        let len_bytes = file.metadata()?.len();
        let is_page_table = len_bytes > PAGE_BYTES as u64 && memfd::stays(file, 0, len_bytes);
        let len_bytes =
            usize::try_from(len_bytes).ok().filter(|_| is_page_table).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { map: Mapping::file(file, 0, len_bytes, Sharing::Shared)? })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.map.words_u64()
    }

    #[inline]
    fn page(&self, page: u64) -> Option<&AtomicU64> {
        let index = usize::try_from(page).ok()?.checked_add(HEADER_WORDS)?;
        self.words().get(index)
    }

    /// Records a touch. `false` if the page is absent. Pages outside the device count as resident.
    #[inline]
    pub(crate) fn touch(&self, page: u64, writes: bool) -> bool {
        let Some(word) = self.page(page) else { return true };
        let stamp = self.words()[TICK].fetch_add(1, Relaxed) & STAMP;
        let dirty = if writes { DIRTY } else { 0 };
        // In one operation: a page evicted meanwhile does not return.
        let touched = |now: u64| (now & RESIDENT != 0).then_some(RESIDENT | (now & DIRTY) | dirty | stamp);
        word.fetch_update(Relaxed, Relaxed, touched).is_ok()
    }

    /// Counts a touch that waits.
    pub(crate) fn note_blocking(&self) {
        self.words()[BLOCKING].fetch_add(1, Relaxed);
    }

    /// Marks a page loaded without the device's owner, which finds it later.
    pub(crate) fn bring_without_owner(&self, page: u64, writes: bool) {
        self.bring(page);
        self.touch(page, writes);
        self.words()[FOREIGN].fetch_add(1, Release);
    }

    /// Marks a page resident, touched now.
    pub(crate) fn bring(&self, page: u64) {
        let stamp = self.words()[TICK].fetch_add(1, Relaxed) & STAMP;
        self.words()[BROUGHT].fetch_add(1, Relaxed);
        let brought = |now: u64| Some(RESIDENT | (now & DIRTY) | stamp);
        let _ = self.page(page).map(|word| word.fetch_update(Relaxed, Relaxed, brought));
    }

    /// Marks a page absent.
    pub(crate) fn evict(&self, page: u64) -> Evicted {
        let was = self.page(page).map_or(0, |word| word.swap(0, Relaxed));
        Evicted { was_dirty: was & DIRTY != 0 }
    }

    pub(crate) fn is_resident(&self, page: u64) -> bool {
        self.page(page).is_some_and(|word| word.load(Relaxed) & RESIDENT != 0)
    }

    /// Last touch of a page, in touches.
    pub(crate) fn stamp(&self, page: u64) -> u64 {
        self.page(page).map_or(0, |word| word.load(Relaxed) & STAMP)
    }

    /// Modelled time of all processes.
    #[inline]
    pub(crate) fn now_ps(&self) -> u64 {
        self.words()[NOW_PS].load(Relaxed).min(LATEST_PS)
    }

    /// Advances modelled time.
    #[inline]
    pub(crate) fn add_ps(&self, ps: u64) {
        self.words()[NOW_PS].fetch_add(ps, Relaxed);
    }

    /// Advances modelled time to `at_ps`, if it is earlier.
    pub(crate) fn advance_to(&self, at_ps: u64) {
        self.words()[NOW_PS].fetch_max(at_ps, Relaxed);
    }

    /// Start of the device's time, on the machine's clock.
    pub(crate) fn epoch_ns(&self) -> u64 {
        self.words()[EPOCH_NS].load(Relaxed)
    }

    /// Touches of resident pages. A waiting touch counts twice, and each load took a stamp.
    pub(crate) fn hits(&self) -> u64 {
        let stamps = self.words()[TICK].load(Relaxed);
        let others = self.words()[BROUGHT].load(Relaxed).saturating_add(self.blocking().saturating_mul(2));
        stamps.saturating_sub(others)
    }

    pub(crate) fn blocking(&self) -> u64 {
        self.words()[BLOCKING].load(Relaxed)
    }

    pub(crate) fn foreign(&self) -> u64 {
        self.words()[FOREIGN].load(Acquire)
    }
}
