//! Segments: the units in which the extent is given to log streams and to the index, and what is alive in each.
//!
//! A row of the table is 16 bytes: a sealed word `{use (4 bits), stream (8), ordinal (44)}` that changes by one store, and two
//! hints for compaction, 4 bytes each: the offset of the first record that begins in the segment, and of the one that
//! begins there and goes on beyond it. Ordinals of a stream count up and are never reused. An index segment has the run
//! (32 bits) and its place among the run's segments (12 bits) there: a run is written from its first key to its last.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use byway_flash::{Epoch, FlashError, SyncPoint};

use crate::error::KvError;
use crate::index::cache::PageHasher;
use crate::index::entry::Entry;
use crate::layout::{FIRST_WINDOW, Layout};
use crate::sealed;
use crate::store::{Home, PageStore};
use crate::value_log::dead::Dead;
use crate::value_log::live::{Live, Part};
use crate::value_log::usage::place_of;
pub(crate) use crate::value_log::usage::{RUN_END, Use};

/// Where the replay of a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayFrom {
    pub(crate) position: u64,
    /// The segment of this very position was taken already: a record ahead of the write pointer may have stood there.
    pub(crate) is_begun: bool,
}

/// RAM of a segment: its row, three counts of live bytes, where its dead records are noted, its places among the free ones
/// and by ordinal.
const SEGMENT_RAM_BYTES: usize = 112;
/// Offset of the hints in a row.
const FIRST_HINT_AT: usize = 8;
const SPANNING_HINT_AT: usize = 12;

/// The segment table, with what follows from it.
pub(crate) struct Segments {
    layout: Layout,
    uses: Vec<Use>,
    /// When each segment was taken, by the count of those taken: how old what is in it is.
    taken_at: Vec<u64>,
    takes: u64,
    /// Free segments; the lowest is taken first.
    free: Vec<u32>,
    /// By their [places](place_of) in their streams.
    by_ordinal: HashMap<u64, u32, BuildHasherDefault<PageHasher>>,
    /// Segments of runs.
    index_count: usize,
    /// Streams of windows to which threads append by leases.
    leased: Vec<usize>,
    /// A segment that is being freed, and how many of its pages are trimmed.
    releasing: Option<(u32, u64)>,
    /// Bytes of the longest record that spans segments.
    longest_bytes: u64,
    live: Live,
    dead: Dead,
    /// Epoch in which the current manifest was selected.
    manifest_in: Epoch,
}

impl Segments {
    /// Reads the table.
    pub(crate) fn load(layout: &Layout, state: &[u8]) -> Result<Self, KvError> {
        let mut uses = Vec::with_capacity(layout.segments);
        for segment in 0..layout.segments {
            let word = sealed::read(state, layout.segment_row_at(segment));
            uses.push(word.and_then(Use::decode).ok_or(KvError::DamagedState("a row of the segment table"))?);
        }
        let free = (0..uses.len() as u32).rev().filter(|&s| uses[s as usize] == Use::Free).collect();
        let by_ordinal = uses.iter().enumerate().filter_map(|(segment, used)| match *used {
            Use::Log { stream, ordinal } => Some((place_of(stream, ordinal), segment as u32)),
            _ => None,
        });
        let by_ordinal = by_ordinal.collect();
        let index_count = uses.iter().filter(|used| matches!(used, Use::Index { .. })).count();
        let (live, dead) = (Live::new(layout), Dead::new(layout.segments, layout.segment_shift));
        let (taken_at, takes) = (order_of(&uses), uses.len() as u64);
        Ok(Self {
            layout: *layout,
            uses,
            taken_at,
            takes,
            free,
            by_ordinal,
            index_count,
            leased: Vec::new(),
            releasing: None,
            longest_bytes: 0,
            live,
            dead,
            manifest_in: Epoch::default(),
        })
    }

    /// Reads the rows of the table again, which another process has changed; the segments of which that is so. What is counted stays.
    pub(crate) fn reload(&mut self, state: &[u8]) -> Result<Vec<u32>, KvError> {
        let new = Self::load(&self.layout, state)?;
        let changed = (0..self.uses.len() as u32).filter(|&s| self.uses[s as usize] != new.uses[s as usize]);
        let changed = changed.collect();
        (self.uses, self.free, self.by_ordinal) = (new.uses, new.free, new.by_ordinal);
        (self.index_count, self.taken_at, self.takes) = (new.index_count, new.taken_at, new.takes);
        Ok(changed)
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Bytes of the table and what follows from it.
    pub(crate) fn ram_bytes(&self) -> usize {
        self.uses.len() * SEGMENT_RAM_BYTES + self.dead.ram_bytes()
    }

    /// Segments of runs.
    pub(crate) fn index_count(&self) -> usize {
        self.index_count
    }

    /// Segments there are.
    pub(crate) fn count(&self) -> usize {
        self.uses.len()
    }

    /// Segments that were taken since this one was.
    pub(crate) fn age(&self, segment: u32) -> u64 {
        self.takes - self.taken_at[segment as usize]
    }

    /// What a segment is used for; `None` beyond the last.
    #[inline]
    pub(crate) fn use_of(&self, segment: u64) -> Option<Use> {
        self.uses.get(segment as usize).copied()
    }

    /// The segment that holds ordinal `ordinal` of a stream.
    #[inline]
    pub(crate) fn find(&self, stream: u8, ordinal: u64) -> Option<u32> {
        self.by_ordinal.get(&place_of(stream, ordinal)).copied()
    }

    /// Bytes alive in a segment. Negative where more was taken off than was counted.
    pub(crate) fn alive_bytes(&self, segment: usize) -> i64 {
        self.live.of(segment).1
    }

    /// Bytes alive in a segment at the checkpoint, as a manifest keeps them.
    pub(crate) fn checkpoint_bytes(&self, segment: usize) -> u32 {
        as_kept(self.live.of(segment).0)
    }

    /// Whether nothing in a segment is alive, at the checkpoint and now.
    pub(crate) fn holds_nothing_alive(&self, segment: usize) -> bool {
        self.live.of(segment) == (0, 0)
    }

    /// Bytes alive in all segments.
    pub(crate) fn all_alive_bytes(&self) -> u64 {
        self.live.total_bytes()
    }

    /// Keys that have a value.
    pub(crate) fn keys(&self) -> u64 {
        self.live.keys().0
    }

    /// Keys that had a value at the checkpoint.
    pub(crate) fn checkpoint_keys(&self) -> u64 {
        self.live.keys().1
    }

    /// Counts keys that came or went.
    #[inline]
    pub(crate) fn count_keys(&mut self, part: Part, keys: i64) {
        self.live.add_keys(part, keys);
    }

    /// Sets the live bytes of a segment at the checkpoint.
    pub(crate) fn set_checkpoint_bytes(&mut self, segment: usize, bytes: i64) {
        self.live.set_base(segment, as_kept(bytes));
    }

    /// Sets the keys of the checkpoint.
    pub(crate) fn set_checkpoint_keys(&mut self, keys: u64) {
        self.live.set_base_keys(keys);
    }

    /// The memtable is being flushed from now on: its counts get a part of their own.
    pub(crate) fn freeze_counts(&mut self) {
        self.live.freeze();
    }

    /// Adds the counts of the flushed memtable to the checkpoint's.
    pub(crate) fn settle_counts(&mut self) {
        self.live.settle();
    }

    /// Counts nothing in a segment as alive.
    pub(crate) fn clear_live(&mut self, segment: usize) {
        self.live.forget(segment);
    }

    /// Counts nothing as alive, and drops the notes of dead records.
    pub(crate) fn clear_counts_and_notes(&mut self) {
        self.live.clear();
        self.dead.clear();
    }

    /// Drops the notes of dead records: they no longer name all of them.
    pub(crate) fn drop_notes(&mut self) {
        self.dead.clear();
    }

    /// Sets the limit of the notes of dead records, in bytes of RAM.
    pub(crate) fn limit_notes(&mut self, budget_bytes: usize) {
        self.dead.limit(budget_bytes);
    }

    /// Spreads the notes of a segment, each of whose records will be looked up.
    pub(crate) fn prepare_scan(&mut self, segment: u32) {
        self.dead.prepare_scan(segment);
    }

    /// Prefetches the note of the record at `address`, before it is marked dead.
    #[inline]
    pub(crate) fn prefetch_note(&self, address: u64) {
        self.dead.prefetch_note(address);
    }

    /// Whether every dead record of the segment of an address is noted.
    #[inline]
    pub(crate) fn knows_dead(&self, address: u64) -> bool {
        self.dead.knows(address)
    }

    /// Whether the record at an address is noted as dead.
    #[inline]
    pub(crate) fn is_noted_dead(&self, address: u64) -> bool {
        self.dead.holds(address)
    }

    /// Bytes of the longest record that spans segments.
    pub(crate) fn longest_bytes(&self) -> u64 {
        self.longest_bytes
    }

    /// Notes the longest record that spans segments, as the manifest has it.
    pub(crate) fn note_longest(&mut self, bytes: u64) {
        self.longest_bytes = bytes;
    }

    /// Epoch in which the current manifest was selected.
    pub(crate) fn manifest_in(&self) -> Epoch {
        self.manifest_in
    }

    /// Sets the epoch in which the current manifest was selected.
    pub(crate) fn note_manifest(&mut self, epoch: Epoch) {
        self.manifest_in = epoch;
    }

    /// Sets whether the engine alone appends to a window's stream from now on, by a lease, so that notes of dead records name all of them.
    pub(crate) fn set_leased(&mut self, stream: usize, is_leased: bool) {
        self.leased.retain(|leased| *leased != stream);
        if is_leased {
            self.leased.push(stream);
        }
    }

    /// Whether notes name all dead records of segments that a stream takes now. A host writes what it likes into its window.
    fn is_noted(&self, stream: u8) -> bool {
        usize::from(stream) < FIRST_WINDOW || self.leased.contains(&usize::from(stream))
    }

    /// Notes that a record was dead when it came.
    pub(crate) fn note_dead(&mut self, address: u64) {
        self.dead.note(address);
    }

    /// Drops the notes of a segment: they no longer name all of its dead records.
    pub(crate) fn drop_notes_of(&mut self, segment: u32) {
        self.dead.forget(segment);
    }

    /// Segments that pass a test.
    pub(crate) fn matching(&self, wanted: impl Fn(u32, Use) -> bool) -> Vec<u32> {
        (0..self.uses.len() as u32).filter(|&s| wanted(s, self.uses[s as usize])).collect()
    }

    /// Takes a free segment, leaving at least `keep` free.
    pub(crate) fn take<S: PageStore>(
        &mut self,
        store: &mut S,
        home: &Home,
        used: Use,
        keep: usize,
    ) -> Result<u32, KvError> {
        if self.free.len() <= keep {
            return Err(KvError::Full);
        }
        let segment = self.free.pop().ok_or(KvError::Full)?;
        self.takes += 1;
        self.taken_at[segment as usize] = self.takes;
        self.set(store, home, segment, used);
        if matches!(used, Use::Log { stream, .. } if self.is_noted(stream)) {
            self.dead.begin(segment);
        }
        Ok(segment)
    }

    /// Has free segments hold nothing: a loss of power may have undone that their pages were trimmed.
    pub(crate) fn trim_free<S: PageStore>(&self, store: &mut S, home: &Home) -> Result<(), FlashError> {
        let pages = self.layout.pages_per_segment();
        self.free.iter().try_for_each(|segment| store.trim_pages(home, u64::from(*segment) * pages, pages))
    }

    /// Frees a segment and forgets its pages. The row changes last: a segment is never free with content.
    pub(crate) fn release<S: PageStore>(
        &mut self,
        store: &mut S,
        home: &Home,
        segment: u32,
    ) -> Result<(), FlashError> {
        self.release_some(store, home, segment, u64::MAX).map(drop)
    }

    /// Frees a segment as [`release`](Self::release) does, by at most `pages` pages. Whether it is free now.
    pub(crate) fn release_some<S: PageStore>(
        &mut self,
        store: &mut S,
        home: &Home,
        segment: u32,
        pages: u64,
    ) -> Result<bool, FlashError> {
        let done = self.releasing.filter(|(releasing, _)| *releasing == segment).map_or(0, |(_, done)| done);
        if done == 0 {
            // The replacement of its content, a manifest or copies of its records, becomes durable before it is freed.
            store.order(SyncPoint::SegmentRelease)?;
        }
        let in_segment = self.layout.pages_per_segment();
        let (first, count) = (u64::from(segment) * in_segment + done, pages.min(in_segment - done));
        store.trim_pages(home, first, count)?;
        self.releasing = Some((segment, done + count));
        if done + count < in_segment {
            return Ok(false);
        }
        self.releasing = None;
        self.set(store, home, segment, Use::Free);
        self.live.forget(segment as usize);
        self.dead.forget(segment);
        self.free.push(segment);
        Ok(true)
    }

    /// Notes where the first record in a segment begins.
    pub(crate) fn hint<S: PageStore>(&self, store: &mut S, home: &Home, segment: u32, first: u32) {
        self.set_hint(store, home, segment, FIRST_HINT_AT, first);
    }

    /// Notes where the record begins that goes on beyond a segment.
    pub(crate) fn hint_spanning<S: PageStore>(&self, store: &mut S, home: &Home, segment: u32, at: u32) {
        self.set_hint(store, home, segment, SPANNING_HINT_AT, at);
    }

    /// The hints of a segment: where its first record begins, and the one that goes on beyond it. Nothing vouches for them.
    pub(crate) fn hints<S: PageStore>(&self, store: &mut S, home: &Home, segment: u32) -> (u32, u32) {
        let row = self.layout.segment_row_at(segment as usize);
        let state = store.state(home);
        let hint = |at: usize| {
            let bytes = state.get(row + at..row + at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        (hint(FIRST_HINT_AT), hint(SPANNING_HINT_AT))
    }

    fn set_hint<S: PageStore>(&self, store: &mut S, home: &Home, segment: u32, at: usize, value: u32) {
        let at = self.layout.segment_row_at(segment as usize) + at;
        if let Some(hint) = store.state(home).get_mut(at..at + 4) {
            hint.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Adds (`sign` 1) or takes (−1) a record's bytes, segment by segment.
    #[inline]
    pub(crate) fn account(&mut self, address: u64, bytes: u64, sign: i64) {
        if sign < 0 {
            self.dead.note(address);
        }
        let segment_bytes = self.layout.segment_bytes();
        let room = segment_bytes - (address & (segment_bytes - 1));
        self.live.add((address >> self.layout.segment_shift) as usize, bytes.min(room) as i64 * sign);
        if bytes > room {
            self.account_rest(address, bytes - room, sign);
        }
    }

    /// The pieces of a record, which may span segments: each with its segment and bytes. An entry that points past the
    /// extent has none.
    pub(crate) fn pieces(&self, address: u64, bytes: u64) -> Vec<(usize, i64)> {
        let segment_bytes = self.layout.segment_bytes();
        let (mut address, mut left, mut pieces) = (address, bytes, Vec::with_capacity(1));
        if address >> self.layout.segment_shift >= self.layout.segments as u64 {
            return pieces;
        }
        loop {
            let piece = left.min(segment_bytes - (address & (segment_bytes - 1)));
            pieces.push(((address >> self.layout.segment_shift) as usize, piece as i64));
            left -= piece;
            match self.after(address) {
                Some(next) if left > 0 => address = next,
                _ => return pieces,
            }
        }
    }

    /// The address at which a stream goes on after the segment that holds `address`.
    pub(crate) fn after(&self, address: u64) -> Option<u64> {
        match self.use_of(address >> self.layout.segment_shift)? {
            Use::Log { stream, ordinal } => {
                Some(u64::from(self.find(stream, ordinal + 1)?) << self.layout.segment_shift)
            }
            _ => None,
        }
    }

    /// Takes the bytes of a record that a newer entry replaced.
    pub(crate) fn drop_older(&mut self, part: Part, old: &Entry) {
        let (address, bytes) = (old.address(), old.shape().record_bytes());
        self.dead.note(address);
        if (address & (self.layout.segment_bytes() - 1)) + bytes <= self.layout.segment_bytes() {
            return self.live.add_to(part, (address >> self.layout.segment_shift) as usize, -(bytes as i64));
        }
        for (segment, bytes) in self.pieces(address, bytes) {
            self.live.add_to(part, segment, -bytes);
        }
    }

    /// Whether the segment of an address was a log's already when replays would begin at these positions: else nothing
    /// that was stored before is in it.
    pub(crate) fn is_of_checkpoint(&self, address: u64, replay_from: &[ReplayFrom]) -> bool {
        match self.use_of(address >> self.layout.segment_shift) {
            Some(Use::Log { stream, ordinal }) => {
                let start = ordinal << self.layout.segment_shift;
                let from = replay_from.get(usize::from(stream));
                from.is_some_and(|from| start < from.position || from.is_begun && start == from.position)
            }
            _ => false,
        }
    }

    #[cold]
    fn account_rest(&mut self, address: u64, bytes: u64, sign: i64) {
        let here = self.layout.segment_bytes() - (address & (self.layout.segment_bytes() - 1));
        self.longest_bytes = self.longest_bytes.max(bytes + here);
        if let Some(next) = self.after(address) {
            for (segment, piece) in self.pieces(next, bytes) {
                self.live.add(segment, piece * sign);
            }
        }
    }

    fn set<S: PageStore>(&mut self, store: &mut S, home: &Home, segment: u32, used: Use) {
        if let Use::Log { stream, ordinal } = self.uses[segment as usize] {
            self.by_ordinal.remove(&place_of(stream, ordinal));
        }
        if let Use::Log { stream, ordinal } = used {
            self.by_ordinal.insert(place_of(stream, ordinal), segment);
        }
        self.index_count -= usize::from(matches!(self.uses[segment as usize], Use::Index { .. }));
        self.index_count += usize::from(matches!(used, Use::Index { .. }));
        self.uses[segment as usize] = used;
        let place = self.layout.segment_row_at(segment as usize);
        store.commit_u64(home, place, sealed::seal(used.encode(), place));
    }
}

/// Live bytes of a segment as a manifest keeps them.
fn as_kept(bytes: i64) -> u32 {
    bytes.clamp(0, i64::from(u32::MAX)) as u32
}

/// About when each segment was taken, as far as their places in their streams show: pieces of a stream count up to the number
/// of all segments, in equal steps.
fn order_of(uses: &[Use]) -> Vec<u64> {
    let mut by_stream: BTreeMap<u8, Vec<(u64, usize)>> = BTreeMap::new();
    for (segment, used) in uses.iter().enumerate() {
        if let Use::Log { stream, ordinal } = *used {
            by_stream.entry(stream).or_default().push((ordinal, segment));
        }
    }
    let mut order = vec![0; uses.len()];
    for pieces in by_stream.values_mut() {
        pieces.sort_unstable();
        let count = pieces.len();
        for (place, (_, segment)) in pieces.iter().enumerate() {
            order[*segment] = ((place + 1) * uses.len() / count) as u64;
        }
    }
    order
}
