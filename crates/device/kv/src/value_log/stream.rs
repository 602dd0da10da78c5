//! A stream: an endless log cut into segments, its open run of pages in protected memory, and its write pointer.
//!
//! Positions count bytes of the stream since the namespace was made. Position p is in segment ordinal
//! `p >> segment_shift` and, while its page is open, at byte `p mod ring_bytes` of the ring. A record is committed by one store:
//! of the write pointer past it, or, for an aligned value whose gap stays open, of its word in the DMA log table.
//!
//! Control block: write pointer (byte 0), pages programmed (8), position synced (16), DMA log table (64 words from
//! byte 64), tags (one word a ring page from byte 1024). All are sealed words. A tag says which page its ring slot
//! holds; it stays until the slot is used again, since a page that was programmed may be lost with the power until a sync.

use std::collections::VecDeque;
use std::ops::Range;

use byway_flash::Epoch;

use crate::error::KvError;
use crate::layout::Layout;
use crate::sealed;
use crate::store::{Home, PageStore};
use crate::value_log::record::record_header_bytes;
use crate::value_log::region::{Region, TABLE_ROWS, read_regions};
use crate::value_log::ring::Ring;

/// Pages below this are on flash, as far as the process that wrote it lived to see.
pub(crate) const PROGRAMMED_AT: usize = 8;
/// Everything before this position was synced once.
pub(crate) const SYNCED_AT: usize = 16;
pub(crate) const TABLE_AT: usize = 64;
/// Offset of the tags in the ring.
pub(crate) const TAGS_AT: usize = 1024;

/// Write pointers stay below this, so that positions ahead of them are numbers too.
const WP_END: u64 = 1 << 55;

/// A stream in RAM. What it must not lose is in its control block.
pub(crate) struct Stream {
    id: u8,
    ring: Ring,
    pub(super) block_at: usize,
    wp: u64,
    /// Below this, segments are taken and pages tagged: a record that ends here needs no preparation.
    ready_to: u64,
    /// Pages below this are on flash.
    programmed_to: u64,
    /// For each ring slot, 1 + the page it holds, 0 for none.
    held: Vec<u64>,
    /// The segment written last: its ordinal, and its address in the extent.
    segment: (u64, u64),
    regions: VecDeque<Region>,
    next_row: usize,
    /// For each ring slot, when its page was programmed.
    programmed_in: Vec<Epoch>,
    /// Rows of regions that the write pointer passed, and when.
    spent: VecDeque<(usize, Epoch)>,
    synced_to: u64,
    /// Where the write pointer was in some epoch that was not synced yet.
    noted: Option<(Epoch, u64)>,
}

impl Stream {
    /// Writes the control block of a stream that begins at `position`.
    pub(crate) fn create<S: PageStore>(
        store: &mut S,
        home: &Home,
        layout: &Layout,
        stream: usize,
        position: u64,
    ) {
        let at = layout.stream_block_at(stream);
        store.commit_u64(home, at, sealed::seal(position, at));
    }

    /// Reads a control block.
    pub(crate) fn load(layout: &Layout, state: &[u8], stream: usize) -> Result<Self, KvError> {
        Self::load_at(layout, state, stream, 0)
    }

    /// Reads a control block, of a stream whose records go on at least to a position.
    pub(super) fn load_at(
        layout: &Layout,
        state: &[u8],
        stream: usize,
        least_wp: u64,
    ) -> Result<Self, KvError> {
        let ring = Ring::new(layout, stream);
        let block_at = layout.stream_block_at(stream);
        let word = |at: usize| sealed::read(state, block_at + at);
        // Streams begin behind a segment that is none, so a pointer wiped to zero is no pointer.
        let wp = word(0).filter(|wp| (layout.segment_bytes()..WP_END).contains(wp));
        let wp = wp.ok_or(KvError::DamagedState("a write pointer"))?.max(least_wp);
        let regions = read_regions(state, block_at, wp, ring.bytes())?;
        let next_row = regions.last().map_or(0, |region| (region.row + 1) % TABLE_ROWS);
        let mut held = Vec::with_capacity(ring.slots());
        for slot in 0..ring.slots() {
            held.push(word(TAGS_AT + 8 * slot).ok_or(KvError::DamagedState("a page tag"))?);
        }
        let regions = regions.into();
        let mut loaded = Self {
            id: stream as u8,
            ring,
            block_at,
            wp,
            ready_to: 0,
            programmed_to: 0,
            held,
            segment: (u64::MAX, 0),
            regions,
            next_row,
            programmed_in: vec![Epoch::default(); ring.slots()],
            spent: VecDeque::new(),
            synced_to: word(SYNCED_AT).unwrap_or(0),
            noted: None,
        };
        let programmed = word(PROGRAMMED_AT).ok_or(KvError::DamagedState("a mark of programmed pages"))?;
        loaded.drop_foreign_tags();
        if programmed > loaded.programmed_to {
            loaded.programmed_to = programmed.min(loaded.page_of(wp));
        }
        Ok(loaded)
    }

    /// What its writer changes to commit a record: the write pointer's word, and the DMA log table.
    pub(super) fn committing_words(&self) -> [Range<usize>; 2] {
        let table_at = self.block_at + TABLE_AT;
        [self.block_at..self.block_at + 8, table_at..table_at + 8 * TABLE_ROWS]
    }

    /// Its number, as rows of the segment table have it.
    #[inline]
    pub(crate) fn id(&self) -> u8 {
        self.id
    }

    #[inline]
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Whether a record that ends at `end` needs no preparation: its segment is taken, and its pages are tagged.
    #[inline]
    pub(super) fn is_ready(&self, end: u64) -> bool {
        end <= self.ready_to
    }

    /// Notes that records up to the end of the page of `end - 1` need no preparation.
    pub(super) fn note_prepared(&mut self, end: u64) {
        self.ready_to = self.page_start(self.page_of(end - 1) + 1);
    }

    /// Has the next record prepared.
    pub(super) fn unprepare(&mut self) {
        self.ready_to = 0;
    }

    /// Pages before the write pointer's that are to be programmed.
    #[inline]
    pub(super) fn full_pages(&self) -> Range<u64> {
        self.programmed_to..self.page_of(self.wp)
    }

    /// Notes that no page before the write pointer's is to be programmed.
    #[inline]
    pub(super) fn close_full_pages(&mut self) {
        self.programmed_to = self.page_of(self.wp);
    }

    /// Address of the segment of an ordinal, if it is the one used last.
    #[inline]
    pub(super) fn segment_at(&self, ordinal: u64) -> Option<u64> {
        (self.segment.0 == ordinal).then_some(self.segment.1)
    }

    /// Remembers the segment used last: its ordinal, and its address in the extent.
    #[inline]
    pub(super) fn remember_segment(&mut self, ordinal: u64, address: u64) {
        self.segment = (ordinal, address);
    }

    /// Invalidates the cached segment: the next use looks it up in the table.
    pub(super) fn invalidate_cached_segment(&mut self) {
        self.segment = (u64::MAX, 0);
    }

    #[inline]
    pub(crate) fn wp(&self) -> u64 {
        self.wp
    }

    #[inline]
    pub(crate) fn page_of(&self, position: u64) -> u64 {
        position >> self.ring.page_shift
    }

    #[inline]
    pub(crate) fn page_start(&self, page: u64) -> u64 {
        page << self.ring.page_shift
    }

    /// The end of everything committed: the write pointer, or the last region ahead of it.
    #[inline]
    pub(crate) fn tail(&self) -> u64 {
        self.regions.back().map_or(self.wp, |region| region.end)
    }

    pub(crate) fn regions(&self) -> &VecDeque<Region> {
        &self.regions
    }

    #[inline]
    pub(crate) fn has_regions(&self) -> bool {
        !self.regions.is_empty()
    }

    pub(crate) fn table_is_full(&self) -> bool {
        self.regions.len() == TABLE_ROWS
    }

    /// Whether a record that ends at `end` keeps every open page in the ring.
    #[inline]
    pub(crate) fn fits(&self, end: u64) -> bool {
        end - self.page_start(self.page_of(self.wp)) <= self.ring.bytes()
    }

    /// Where a packed record of `bytes` goes: at the write pointer, past every region it would cross.
    #[inline]
    pub(crate) fn packed_start(&self, bytes: u64) -> u64 {
        let mut at = self.wp;
        for region in &self.regions {
            if at + bytes <= region.start {
                break;
            }
            at = region.end;
        }
        at
    }

    /// Whether the ring holds the content of a page. A window's slot belongs to the host again once its page is on flash.
    #[inline]
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.held[self.ring.slot(page)] == page + 1 && (page >= self.programmed_to || !self.ring.in_window)
    }

    /// Everything before this position is on flash.
    pub(crate) fn written_to(&self) -> u64 {
        self.page_start(self.programmed_to)
    }

    /// Pages before the write pointer's that are not on flash.
    pub(crate) fn open_full_pages(&self) -> u64 {
        let current = self.page_of(self.wp);
        self.held.iter().filter(|held| **held > self.programmed_to && **held <= current).count() as u64
    }

    /// The page whose content a slot has that is not on flash.
    pub(super) fn tagged(&self, slot: usize) -> Option<u64> {
        let page = self.held.get(slot)?.checked_sub(1)?;
        (page >= self.programmed_to).then_some(page)
    }

    /// Whether a slot has this page, as one that is not on flash.
    pub(crate) fn is_tagged(&self, page: u64) -> bool {
        self.held[self.ring.slot(page)] == page + 1 && page >= self.programmed_to
    }

    /// Whether a slot that `page` needs holds an open page.
    pub(crate) fn slot_is_open(&self, page: u64) -> bool {
        let held = self.held[self.ring.slot(page)];
        held > self.page_of(self.wp) && held != page + 1
    }

    /// Where its control block is in the state area.
    pub(super) fn block_at(&self) -> usize {
        self.block_at
    }

    /// Whether a ring slot is tagged with a page in the state area, though nothing committed may reach it.
    pub(super) fn has_tag(&self, state: &[u8], page: u64) -> bool {
        sealed::read(state, self.tag_at(page)) == Some(page + 1)
    }

    /// Moves the write pointer: the commit of every record before it.
    #[inline(always)]
    pub(crate) fn commit<S: PageStore>(&mut self, store: &mut S, home: &Home, wp: u64) {
        debug_assert!(wp >= self.wp);
        store.commit_u64(home, self.block_at, sealed::seal(wp, self.block_at));
        self.wp = wp;
        if self.has_regions() {
            self.consume_regions(store, home);
        }
    }

    /// Commits a record ahead of the write pointer.
    pub(crate) fn commit_region<S: PageStore>(
        &mut self,
        store: &mut S,
        home: &Home,
        start: u64,
        key_len: usize,
        value_len: u32,
    ) {
        let row = self.next_row;
        let value_at = start + record_header_bytes(key_len) as u64;
        let at = self.block_at + TABLE_AT + 8 * row;
        let word = Region::encode(value_at, key_len, value_len);
        store.commit_u64(home, at, sealed::seal(word, at));
        self.regions.push_back(Region { start, end: value_at + u64::from(value_len), row });
        self.next_row = (row + 1) % TABLE_ROWS;
    }

    /// Tags the slots of the open pages up to the one that holds `end - 1`.
    pub(crate) fn open_pages<S: PageStore>(&mut self, store: &mut S, home: &Home, from: u64, end: u64) {
        for page in self.page_of(from)..=self.page_of(end - 1) {
            if self.held[self.ring.slot(page)] != page + 1 {
                self.set_tag(store, home, page, page + 1);
            }
        }
    }

    /// When the slots that pages up to the one of `end - 1` need were given up, at the latest.
    pub(crate) fn given_up(&self, from: u64, end: u64) -> Option<Epoch> {
        let slots = (self.page_of(from)..=self.page_of(end - 1))
            .map(|page| (page, self.ring.slot(page)))
            .filter(|(page, slot)| self.held[*slot] != 0 && self.held[*slot] != page + 1);
        slots.map(|(_, slot)| self.programmed_in[slot]).max()
    }

    /// When the row that the next region takes was passed, if it still holds what it held then.
    pub(crate) fn row_passed_in(&self) -> Option<Epoch> {
        self.spent.iter().find(|(row, _)| *row == self.next_row).map(|(_, epoch)| *epoch)
    }

    /// Notes how far the stream is synced. The mark may be late: what is behind it is damage where it cannot be read.
    pub(crate) fn note_synced<S: PageStore>(&mut self, store: &mut S, home: &Home) {
        if let Some((epoch, wp)) = self.noted
            && store.is_synced(epoch)
        {
            let at = self.block_at + SYNCED_AT;
            store.commit_u64(home, at, sealed::seal(wp, at));
            (self.noted, self.synced_to) = (None, wp);
        }
        if self.noted.is_none() && self.synced_to < self.wp {
            self.noted = Some((store.epoch(), self.wp));
        }
    }

    /// Everything before this position was synced once.
    pub(crate) fn synced_to(&self) -> u64 {
        self.synced_to
    }

    /// After a loss of power: a page whose programming did not reach the medium is in its slot still. One that is on
    /// flash is there whole, and its slot may hold parts of a later page.
    pub(crate) fn distrust_programs(&mut self, mut is_on_flash: impl FnMut(u64) -> bool) {
        let current = self.page_of(self.wp);
        for held in &mut self.held {
            if held.checked_sub(1).is_some_and(|page| page < current && is_on_flash(page)) {
                *held = 0;
            }
        }
        self.hold_current();
        self.find_programmed();
    }

    /// Without a loss of power: drops the ring's copies of pages that were programmed, as these are on flash.
    pub(crate) fn drop_programmed(&mut self) {
        for held in &mut self.held {
            if *held <= self.programmed_to {
                *held = 0;
            }
        }
    }

    /// Notes that the write pointer's page is in its slot, whether its tag became durable or not.
    fn hold_current(&mut self) {
        let page = self.page_of(self.wp);
        if self.wp > self.page_start(page) {
            let slot = self.ring.slot(page);
            self.held[slot] = page + 1;
        }
    }

    /// After a loss of power: ends the stream at `end`. Rows ahead of it are regions again, and pages from there on
    /// are in the ring alone.
    pub(crate) fn cut_back<S: PageStore>(
        &mut self,
        store: &mut S,
        home: &Home,
        end: u64,
    ) -> Result<(), KvError> {
        store.commit_u64(home, self.block_at, sealed::seal(end, self.block_at));
        self.wp = end;
        let state = store.state(home);
        self.regions = read_regions(state, self.block_at, end, self.ring.bytes())?.into();
        self.next_row = self.regions.back().map_or(0, |region| (region.row + 1) % TABLE_ROWS);
        self.ready_to = 0;
        let current = self.page_of(end);
        for slot in 0..self.held.len() {
            let tag = sealed::read(state, self.block_at + TAGS_AT + 8 * slot).unwrap_or(0);
            if tag > current {
                self.held[slot] = tag;
            }
        }
        self.hold_current();
        self.drop_foreign_tags();
        Ok(())
    }

    /// Parts of the ring that hold nothing: behind the write pointer's page as far as slots are free, without regions.
    pub(crate) fn unused(&self) -> Vec<(u64, u64)> {
        let first = self.page_of(self.wp);
        let pages = (first..first + self.ring.slots() as u64)
            .filter(|page| self.held[self.ring.slot(*page)].checked_sub(1).is_none_or(|held| held >= first));
        let parts = pages.map(|page| (self.page_start(page).max(self.wp), self.page_start(page + 1)));
        parts.flat_map(|(from, to)| self.gaps(from, to)).collect()
    }

    /// Forgets a region whose record is torn.
    pub(crate) fn drop_region<S: PageStore>(&mut self, store: &mut S, home: &Home, region: Region) {
        store.commit_u64(home, self.block_at + TABLE_AT + 8 * region.row, 0);
        self.regions.retain(|other| *other != region);
    }

    /// Notes that a page is on flash. Its slot may still serve reads.
    pub(crate) fn page_is_on_flash<S: PageStore>(&mut self, store: &mut S, home: &Home, page: u64) {
        let at = self.block_at + PROGRAMMED_AT;
        store.commit_u64(home, at, sealed::seal(page + 1, at));
        self.programmed_to = page + 1;
        let slot = self.ring.slot(page);
        self.programmed_in[slot] = store.epoch();
    }

    /// Forgets pages that were opened for a record that was not committed.
    pub(crate) fn close_uncommitted<S: PageStore>(&mut self, store: &mut S, home: &Home) {
        let last = self.page_of(self.tail());
        for slot in 0..self.held.len() {
            if self.held[slot] > last + 1 {
                self.set_tag(store, home, self.held[slot] - 1, 0);
            }
        }
        self.ready_to = self.ready_to.min(self.page_start(last));
    }

    /// The parts of `from..to` that are in no region.
    pub(crate) fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let (mut at, mut gaps) = (from, Vec::new());
        for region in &self.regions {
            gaps.push((at.min(to), region.start.min(to)));
            at = at.max(region.end);
        }
        gaps.push((at.min(to), to));
        gaps.retain(|(from, to)| from < to);
        gaps
    }

    fn set_tag<S: PageStore>(&mut self, store: &mut S, home: &Home, page: u64, held: u64) {
        let at = self.tag_at(page);
        let slot = self.ring.slot(page);
        store.commit_u64(home, at, if held == 0 { 0 } else { sealed::seal(held, at) });
        self.held[slot] = held;
    }

    fn tag_at(&self, page: u64) -> usize {
        self.block_at + TAGS_AT + 8 * self.ring.slot(page)
    }

    #[cold]
    fn consume_regions<S: PageStore>(&mut self, store: &mut S, home: &Home) {
        while let Some(region) = self.regions.front().copied()
            && region.start < self.wp
        {
            self.spent.push_back((region.row, store.epoch()));
            self.regions.pop_front();
        }
        self.clear_spent(store, home);
    }

    /// Clears rows that were passed, so that their words are not taken for regions when positions come round. A row
    /// is the commit of its record until the write pointer past it cannot be lost.
    pub(crate) fn clear_spent<S: PageStore>(&mut self, store: &mut S, home: &Home) {
        while let Some((row, epoch)) = self.spent.front().copied()
            && !store.may_lose(epoch)
        {
            store.commit_u64(home, self.block_at + TABLE_AT + 8 * row, 0);
            self.spent.pop_front();
        }
    }

    /// After a crash a tag may name a page that nothing committed reaches: it counts for nothing.
    fn drop_foreign_tags(&mut self) {
        let last = self.page_of(self.tail());
        for slot in 0..self.held.len() {
            let held = self.held[slot];
            if held != 0 && (held > last + 1 || self.ring.slot(held - 1) != slot) {
                self.held[slot] = 0;
            }
        }
        self.find_programmed();
    }

    fn find_programmed(&mut self) {
        let first =
            self.held.iter().filter(|held| **held != 0).min().map_or(self.page_of(self.wp), |held| held - 1);
        self.programmed_to = first.min(self.page_of(self.wp));
    }

    /// Puts in protected memory what opening made of it: tags, how far pages are on flash, and the rows of the DMA log
    /// table that count.
    pub(crate) fn rewrite_block<S: PageStore>(&self, store: &mut S, home: &Home) {
        for (slot, held) in self.held.iter().enumerate() {
            let at = self.block_at + TAGS_AT + 8 * slot;
            store.commit_u64(home, at, if *held == 0 { 0 } else { sealed::seal(*held, at) });
        }
        let at = self.block_at + PROGRAMMED_AT;
        store.commit_u64(home, at, sealed::seal(self.programmed_to, at));
        for row in (0..TABLE_ROWS).filter(|row| self.regions.iter().all(|region| region.row != *row)) {
            store.commit_u64(home, self.block_at + TABLE_AT + 8 * row, 0);
        }
    }
}
