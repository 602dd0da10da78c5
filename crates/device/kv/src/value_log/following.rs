//! A log that another process appends to: its streams, brought up to date from their control blocks (decision 0069).
//!
//! What is copied is what a recovery would find: a row, a pointer or a tag is copied before what it commits, and the tags of ring slots
//! once more behind the slots. A slot that was tagged anew meanwhile counts as empty, as its former page is on flash.

use std::ops::Range;

use crate::error::KvError;
use crate::features::Features;
use crate::layout::{Layout, STREAM_BLOCK_BYTES};
use crate::sealed;
use crate::store::{Home, PageStore};
use crate::value_log::ValueLog;
use crate::value_log::ring::Ring;
use crate::value_log::stream::{PROGRAMMED_AT, Stream, TABLE_AT, TAGS_AT};

/// Bytes of the header that change.
const HEADER_WORDS_BYTES: usize = 64;

/// What a stream holds that was not read yet.
pub(crate) struct Unread {
    /// Positions of records behind the former write pointer.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl ValueLog {
    /// Whether the other process has committed a record to a stream that is not read yet.
    #[inline]
    pub(crate) fn is_stream_stale<S: PageStore>(&self, store: &S, stream: usize) -> bool {
        let words = self.streams[stream].committing_words();
        words.into_iter().any(|part| store.is_stale(&self.home, part)) || self.has_unread_lease(store, stream)
    }

    /// Whether the other process has begun or ceased to hold leases.
    #[inline]
    pub(crate) fn is_header_stale<S: PageStore>(&self, store: &S) -> bool {
        store.is_stale(&self.home, 0..HEADER_WORDS_BYTES)
    }

    /// Finds out whether the other process may hold leases.
    pub(crate) fn follow_header<S: PageStore>(&mut self, store: &mut S) {
        store.refresh_state(&self.home, 0..HEADER_WORDS_BYTES);
        self.follows_leases = Features::of(store.state(&self.home)).has_leases();
    }

    /// Brings a stream up to date. `None` where its write pointer went back: it is another stream.
    pub(crate) fn follow_stream<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
    ) -> Result<Option<Unread>, KvError> {
        let old = &self.streams[stream];
        let (from, block_at, ring, had_regions) = (old.wp(), old.block_at, old.ring(), old.has_regions());
        // What was read of a lease may be ahead of the write pointer, and the lease reaches into the next page.
        let is_leased = self.follows_leases && ring.in_window;
        let (least_wp, tagged_to) = match is_leased {
            true => (from, from + self.layout.page_bytes as u64),
            false => (0, 0),
        };
        let tags = tag_words(store, &self.home, block_at, ring);
        refresh_block(store, &self.home, block_at);
        let new = Stream::load_at(&self.layout, store.state(&self.home), stream, tagged_to)?;
        if new.wp() < from {
            return Ok(None);
        }
        let first_page = new.page_of(from);
        // Regions lie anywhere in their pages.
        let is_whole = had_regions || new.has_regions();
        for (slot, (before, now)) in tags.iter().zip(tag_words(store, &self.home, block_at, ring)).enumerate()
        {
            let Some(page) = new.tagged(slot).filter(|page| *page >= first_page) else { continue };
            let known =
                if *before == now && !is_whole { from.saturating_sub(new.page_start(page)) } else { 0 };
            refresh_slot(store, &self.home, ring, slot, known as usize);
        }
        void_reused_slots(store, &self.home, block_at, ring);
        self.streams[stream] = Stream::load_at(&self.layout, store.state(&self.home), stream, least_wp)?;
        if is_leased {
            let end = self.whole_to(store, stream, self.streams[stream].wp());
            self.streams[stream] = Stream::load_at(&self.layout, store.state(&self.home), stream, end)?;
        }
        let new = &mut self.streams[stream];
        new.drop_programmed();
        let (wp, tail) = (new.wp(), new.tail());
        self.follow_segments(store, stream, from, tail)?;
        Ok(Some(Unread { from, to: wp }))
    }

    /// Reads the segment table again if it lacks a segment of `from..to`.
    fn follow_segments<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        from: u64,
        to: u64,
    ) -> Result<(), KvError> {
        let shift = self.layout.segment_shift;
        let mut ordinals = from >> shift..=to.saturating_sub(1) >> shift;
        if ordinals.all(|ordinal| self.segments.find(stream as u8, ordinal).is_some()) {
            return Ok(());
        }
        refresh_rows(store, &self.home, &self.layout);
        self.segments.reload(store.state(&self.home)).map(drop)
    }
}

/// Copies everything that an opening reads, in the order of what commits what.
pub(crate) fn refresh_all<S: PageStore>(store: &mut S, home: &Home, layout: &Layout) {
    store.refresh_state(home, 0..layout.stream_block_at(0));
    let streams = 0..layout.streams();
    streams.clone().for_each(|stream| refresh_block(store, home, layout.stream_block_at(stream)));
    refresh_rows(store, home, layout);
    for stream in streams {
        let (ring, block_at) = (Ring::new(layout, stream), layout.stream_block_at(stream));
        for (slot, word) in tag_words(store, home, block_at, ring).into_iter().enumerate() {
            if word != 0 {
                refresh_slot(store, home, ring, slot, 0);
            }
        }
        void_reused_slots(store, home, block_at, ring);
    }
}

/// Copies the segment table and the manifests, which follow it.
pub(crate) fn refresh_rows<S: PageStore>(store: &mut S, home: &Home, layout: &Layout) {
    store.refresh_state(home, layout.segment_row_at(0)..layout.manifest_at(2));
}

/// Copies a control block: rows, which a write pointer passes and then clears; the write pointer; tags of pages up to it; how many
/// of these are on flash.
fn refresh_block<S: PageStore>(store: &mut S, home: &Home, block_at: usize) {
    for part in [TABLE_AT..TAGS_AT, 0..PROGRAMMED_AT, TAGS_AT..STREAM_BLOCK_BYTES, PROGRAMMED_AT..TABLE_AT] {
        store.refresh_state(home, block_at + part.start..block_at + part.end);
    }
}

/// Copies what a ring slot holds, but for its first `known` bytes.
fn refresh_slot<S: PageStore>(store: &mut S, home: &Home, ring: Ring, slot: usize, known: usize) {
    let part = ring.slot_range(slot);
    let part = part.start + known.min(part.len())..part.end;
    if ring.in_window { store.refresh_windows(home, part) } else { store.refresh_state(home, part) }
}

/// Empties slots that were tagged anew since the tags were copied: what was copied of them may be of two pages. A host may store into a
/// window's slot as soon as its page is on flash.
fn void_reused_slots<S: PageStore>(store: &mut S, home: &Home, block_at: usize, ring: Ring) {
    store.refresh_state(home, block_at + PROGRAMMED_AT..block_at + PROGRAMMED_AT + 8);
    for slot in 0..ring.slots() {
        let at = tag_at(block_at, slot);
        if store.is_stale(home, at.clone()) {
            store.state(home)[at].fill(0);
        }
    }
}

fn tag_words<S: PageStore>(store: &mut S, home: &Home, block_at: usize, ring: Ring) -> Vec<u64> {
    let state = store.state(home);
    (0..ring.slots()).map(|slot| sealed::word(state, tag_at(block_at, slot).start)).collect()
}

fn tag_at(block_at: usize, slot: usize) -> Range<usize> {
    let at = block_at + TAGS_AT + 8 * slot;
    at..at + 8
}
