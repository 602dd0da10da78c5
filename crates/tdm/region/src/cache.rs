//! The DRAM cache of a modelled hybrid SSD: LRU; dirty pages are written to the drive.
//!
//! It belongs to the device's owner. Other processes touch pages through the [page table](PageTable); pages that they load are found and charged
//! with the owner's next operation.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use byway_flash::FlashError;

use crate::drive::Drive;
use crate::page_table::PageTable;
use crate::stats::{RegionStats, Residency};

/// Share of the cache that is never pinned, so that other pages can be touched.
const UNPINNED_PART: u64 = 16;

/// The cache of one device.
pub(crate) struct Cache {
    page_table: Arc<PageTable>,
    page_bytes: u64,
    capacity_pages: u64,
    state: Mutex<State>,
}

/// State of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the drive only.
    Absent,
    /// Being loaded, until this time.
    Coming(u64),
    /// Resident and in LRU order, with this stamp.
    Ordered(u64),
    /// Resident and pinned, outside the LRU order.
    Parked,
}

impl Place {
    const fn is_held(self) -> bool {
        matches!(self, Self::Ordered(_) | Self::Parked)
    }
}

struct State {
    drive: Drive,
    /// Resident pages by their last known touch. Entries that differ from `places` are outdated.
    order: BinaryHeap<Reverse<(u64, u64)>>,
    places: Vec<Place>,
    held_pages: u64,
    /// Pages being loaded, by end.
    arrivals: BTreeSet<(u64, u64)>,
    pins: HashMap<u64, u32>,
    foreign_seen: u64,
    misses: u64,
    evictions: u64,
    fetched_pages: u64,
    stored_pages: u64,
}

impl Cache {
    /// An empty cache of `capacity_bytes` in front of a drive, for a device of `pages` pages.
    pub(crate) fn new(
        page_table: Arc<PageTable>,
        drive: Drive,
        pages: u64,
        page_bytes: u64,
        capacity_bytes: u64,
    ) -> Self {
        let state = State {
            drive,
            order: BinaryHeap::new(),
            places: vec![Place::Absent; pages as usize],
            held_pages: 0,
            arrivals: BTreeSet::new(),
            pins: HashMap::new(),
            foreign_seen: 0,
            misses: 0,
            evictions: 0,
            fetched_pages: 0,
            stored_pages: 0,
        };
        let capacity_pages = (capacity_bytes / page_bytes).max(1);
        Self { page_table, page_bytes, capacity_pages, state: Mutex::new(state) }
    }

    fn lock(&self, now_ps: u64) -> Result<MutexGuard<'_, State>, FlashError> {
        let mut state = byway_sys::locked(&self.state);
        state.settle(&self.page_table, now_ps);
        self.adopt(&mut state, now_ps)?;
        Ok(state)
    }

    fn pages(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.page_bytes..range.end.div_ceil(self.page_bytes)
    }

    fn units(&self, pages: Range<u64>) -> Range<u64> {
        let units = self.page_bytes / byway_flash::UNIT_BYTES as u64;
        pages.start * units..pages.end * units
    }

    /// Adopts pages that other processes loaded.
    fn adopt(&self, state: &mut State, now_ps: u64) -> Result<(), FlashError> {
        let foreign = self.page_table.foreign();
        if foreign == state.foreign_seen {
            return Ok(());
        }
        state.foreign_seen = foreign;
        for page in 0..state.places.len() as u64 {
            if self.page_table.is_resident(page) && !state.place(page).is_held() {
                state.hold(page, self.page_table.stamp(page));
                self.fetch(state, page..page + 1, now_ps)?;
            }
        }
        self.make_room(state, 0, now_ps).map(drop)
    }

    fn fetch(&self, state: &mut State, pages: Range<u64>, at_ps: u64) -> Result<u64, FlashError> {
        let count = pages.end - pages.start;
        state.misses += count;
        state.fetched_pages += count;
        state.drive.fetch(self.units(pages), at_ps)
    }

    /// Evicts pages until so many fit; returns when the drive has taken the dirty ones.
    fn make_room(&self, state: &mut State, pages: u64, at_ps: u64) -> Result<u64, FlashError> {
        let mut at_ps = at_ps;
        while state.held_pages + state.arrivals.len() as u64 + pages > self.capacity_pages {
            let Some(page) = state.oldest(&self.page_table) else { break };
            at_ps = self.evict_page(state, page, at_ps)?;
        }
        Ok(at_ps)
    }

    fn evict_page(&self, state: &mut State, page: u64, at_ps: u64) -> Result<u64, FlashError> {
        state.set_place(page, Place::Absent);
        state.evictions += 1;
        if !self.page_table.evict(page).was_dirty {
            return Ok(at_ps);
        }
        state.stored_pages += 1;
        state.drive.store(self.units(page..page + 1), at_ps)
    }

    /// Loads a page for a waiting thread; returns when it is resident. A failure of the drive is reported by the next prefetch.
    pub(crate) fn bring_now(&self, page: u64, now_ps: u64) -> u64 {
        let Ok(mut state) = self.lock(now_ps) else { return now_ps };
        if let Place::Coming(ready_ps) = state.place(page) {
            state.arrive(&self.page_table, page);
            return ready_ps;
        }
        if state.place(page).is_held() {
            return now_ps;
        }
        let brought = self
            .make_room(&mut state, 1, now_ps)
            .and_then(|at_ps| self.fetch(&mut state, page..page + 1, at_ps));
        state.arrive(&self.page_table, page);
        brought.unwrap_or(now_ps)
    }

    /// Loads absent pages of a range; returns the end.
    pub(crate) fn prefetch(&self, range: &Range<u64>, now_ps: u64) -> Result<u64, FlashError> {
        let mut state = self.lock(now_ps)?;
        let pages = self.pages(range);
        let (mut page, mut ready_ps) = (pages.start, now_ps);
        while page < pages.end {
            let run = state.absent_run(page, pages.end, self.capacity_pages);
            if run == 0 {
                if let Place::Coming(there_ps) = state.place(page) {
                    ready_ps = ready_ps.max(there_ps);
                }
                page += 1;
                continue;
            }
            let at_ps = self.make_room(&mut state, run, now_ps)?;
            let done_ps = self.fetch(&mut state, page..page + run, at_ps)?;
            (page..page + run).for_each(|page| state.set_place(page, Place::Coming(done_ps)));
            ready_ps = ready_ps.max(done_ps);
            page += run;
        }
        state.settle(&self.page_table, now_ps);
        Ok(ready_ps)
    }

    /// Completes loads whose time has come.
    pub(crate) fn settle(&self, now_ps: u64) {
        // A failure of the drive is reported by the next prefetch.
        drop(self.lock(now_ps));
    }

    pub(crate) fn residency(&self, range: &Range<u64>, now_ps: u64) -> Result<Residency, FlashError> {
        let state = self.lock(now_ps)?;
        let mut found = Residency::default();
        for page in self.pages(range) {
            let bytes = match state.place(page) {
                Place::Ordered(_) | Place::Parked => &mut found.resident_bytes,
                Place::Coming(_) => &mut found.coming_bytes,
                Place::Absent => &mut found.absent_bytes,
            };
            *bytes += self.page_bytes;
        }
        Ok(found)
    }

    /// Evicts a range, except pages pinned or being loaded.
    pub(crate) fn evict(&self, range: &Range<u64>, now_ps: u64) -> Result<(), FlashError> {
        let mut state = self.lock(now_ps)?;
        for page in self.pages(range) {
            if state.place(page).is_held() && !state.pins.contains_key(&page) {
                self.evict_page(&mut state, page, now_ps)?;
            }
        }
        Ok(())
    }

    /// Pins a range that is resident or being loaded. `false` if it does not fit.
    pub(crate) fn pin(&self, range: &Range<u64>, now_ps: u64) -> Result<bool, FlashError> {
        let mut state = self.lock(now_ps)?;
        let new = self.pages(range).filter(|page| !state.pins.contains_key(page)).count() as u64;
        let room = self.capacity_pages - self.capacity_pages.div_ceil(UNPINNED_PART);
        if state.pins.len() as u64 + new > room {
            return Ok(false);
        }
        for page in self.pages(range) {
            *state.pins.entry(page).or_insert(0) += 1;
        }
        Ok(true)
    }

    /// Drops one pin of a range.
    pub(crate) fn unpin(&self, range: &Range<u64>) {
        let mut state = byway_sys::locked(&self.state);
        for page in self.pages(range) {
            let Some(count) = state.pins.get_mut(&page) else { continue };
            *count -= 1;
            if *count == 0 {
                state.pins.remove(&page);
                if state.place(page) == Place::Parked {
                    state.hold(page, self.page_table.stamp(page));
                }
            }
        }
    }

    pub(crate) fn stats(&self, now_ps: u64) -> RegionStats {
        self.settle(now_ps);
        let state = byway_sys::locked(&self.state);
        RegionStats {
            cache_bytes: Some(self.capacity_pages * self.page_bytes),
            resident_bytes: state.held_pages * self.page_bytes,
            pinned_bytes: state.pins.len() as u64 * self.page_bytes,
            hits: self.page_table.hits(),
            misses: state.misses,
            blocking_touches: self.page_table.blocking(),
            evictions: state.evictions,
            from_flash_bytes: state.fetched_pages * self.page_bytes,
            to_flash_bytes: state.stored_pages * self.page_bytes,
            programmed_bytes: state.drive.programmed_bytes(),
            modelled_ps: now_ps,
        }
    }
}

impl State {
    /// Pages outside the device are absent.
    fn place(&self, page: u64) -> Place {
        self.places.get(page as usize).copied().unwrap_or(Place::Absent)
    }

    /// The only place where pages change state, so that counts stay right.
    fn set_place(&mut self, page: u64, to: Place) {
        let Some(place) = self.places.get_mut(page as usize) else { return };
        let was = std::mem::replace(place, to);
        self.held_pages += u64::from(to.is_held());
        self.held_pages -= u64::from(was.is_held());
        if let Place::Coming(ready_ps) = was {
            self.arrivals.remove(&(ready_ps, page));
        }
        if let Place::Coming(ready_ps) = to {
            self.arrivals.insert((ready_ps, page));
        }
    }

    fn hold(&mut self, page: u64, stamp: u64) {
        self.set_place(page, Place::Ordered(stamp));
        self.order.push(Reverse((stamp, page)));
    }

    /// Completes a load.
    fn arrive(&mut self, page_table: &PageTable, page: u64) {
        page_table.bring(page);
        self.hold(page, page_table.stamp(page));
    }

    /// Completes loads whose time has come.
    fn settle(&mut self, page_table: &PageTable, now_ps: u64) {
        while let Some((ready_ps, page)) = self.arrivals.first().copied() {
            if ready_ps > now_ps {
                return;
            }
            self.arrive(page_table, page);
        }
    }

    /// Absent pages from `page` on, before `end`; as many as fit at once.
    fn absent_run(&self, page: u64, end: u64, capacity_pages: u64) -> u64 {
        let pages = page..end.min(page + capacity_pages);
        pages.take_while(|page| self.place(*page) == Place::Absent).count() as u64
    }

    /// The least recently used page that may be evicted; if all others are being loaded, the first to be complete.
    fn oldest(&mut self, page_table: &PageTable) -> Option<u64> {
        // Touches continue meanwhile: after this many tries, accept one that is old enough.
        let mut looks_left = self.order.len();
        while let Some(Reverse((known, page))) = self.order.pop() {
            looks_left = looks_left.saturating_sub(1);
            if self.place(page) != Place::Ordered(known) {
                continue;
            }
            if self.pins.contains_key(&page) {
                self.set_place(page, Place::Parked);
                continue;
            }
            let stamp = page_table.stamp(page);
            if stamp <= known || looks_left == 0 {
                return Some(page);
            }
            self.hold(page, stamp);
        }
        let mut pages = self.arrivals.iter().map(|(_, page)| *page);
        pages.find(|page| !self.pins.contains_key(page))
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("capacity_pages", &self.capacity_pages).finish_non_exhaustive()
    }
}
