//! What a store needs before anything of it is written: its limits and conditions, and room for it.

use byway_flash::StallCause;
use byway_spec::Key;

use crate::engine::space::Over;
use crate::engine::{KvEngine, StoreHow};
use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::SHARED;
use crate::value_log::packing::Placement;
use crate::value_log::record::PREAMBLE_MAX_BYTES;

/// Times that a batch has room made in segments and memtable: each may take of the other.
const ROOMS_MADE: usize = 8;

/// What a record asks of the segments.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    stream: usize,
    /// Where it ends at the latest.
    end: u64,
    /// Most segments that it takes.
    segments: usize,
    /// Entries of the memtable needed beside the one that is always kept free.
    extra_entries: usize,
}

impl KvEngine {
    /// Checks a store of the shared stream against its limits and conditions, and makes room for it. What is known then of the
    /// version that it replaces.
    #[inline]
    pub(crate) fn admit<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        value_len: u64,
        how: StoreHow,
        at_ps: &mut u64,
    ) -> Result<Over, KvError> {
        self.check_store(store, value_len)?;
        self.admit_to(store, key, value_len, how, self.reach_in_shared(value_len, how.placement), at_ps)
    }

    /// Checks whether anything is stored, and a value of this length.
    #[inline]
    pub(crate) fn check_store<S: PageStore>(&self, store: &S, value_len: u64) -> Result<(), KvError> {
        self.check_writable(store)?;
        if value_len > u64::from(self.value_max_bytes) {
            let limit_bytes = u64::from(self.value_max_bytes);
            return Err(KvError::ValueTooLong { len_bytes: value_len, limit_bytes });
        }
        Ok(())
    }

    /// A record of the shared stream.
    #[inline]
    pub(crate) fn reach_in_shared(&self, value_len: u64, placement: Placement) -> Reach {
        let end = self.log.shared_end(value_len, placement);
        Reach { stream: SHARED, end, segments: self.segments_for(value_len), extra_entries: 0 }
    }

    /// A record that begins at `start` of another stream, which takes segments for what it passes, too.
    pub(crate) fn reach_from(&self, stream: usize, start: u64, value_len: u64) -> Reach {
        let passed_bytes = start.saturating_sub(self.log.stream(stream).wp());
        let end = start + PREAMBLE_MAX_BYTES as u64 + value_len;
        Reach { stream, end, segments: self.segments_for(passed_bytes + value_len), extra_entries: 0 }
    }

    /// A batch of so many records, and so many bytes of log, in one segment of the shared stream. Deletions alone may use the segments
    /// that are kept free.
    pub(crate) fn reach_of_batch(&self, records: usize, bytes: u64, only_deletes: bool) -> Reach {
        let spot = self.log.batch_spot(bytes);
        let passed_bytes = spot.start - self.log.stream(SHARED).wp();
        let segments = if only_deletes { 0 } else { self.segments_for(passed_bytes + bytes) };
        Reach { stream: SHARED, end: spot.end, segments, extra_entries: records }
    }

    /// As [`admit`](Self::admit), for a record of any stream, whose length was [checked](Self::check_store).
    #[inline(always)]
    pub(crate) fn admit_to<S: PageStore>(
        &mut self,
        store: &mut S,
        key: &Key,
        value_len: u64,
        how: StoreHow,
        reach: Reach,
        at_ps: &mut u64,
    ) -> Result<Over, KvError> {
        self.make_room_in_open(store, reach, at_ps)?;
        let mut over = Over::Unknown;
        if how.must_exist || how.must_not_exist {
            let old = self.live_entry(store, key, at_ps)?;
            if how.must_not_exist && old.is_some() {
                return Err(KvError::Exists);
            }
            if how.must_exist && old.is_none() {
                return Err(KvError::NotFound);
            }
            over = Over::Known(old);
        }
        self.fit(store, key, value_len, over, at_ps)
    }

    /// Makes room in the memtable, and for a record of up to so many segments beside those that are left alone.
    #[inline]
    pub(crate) fn make_room<S: PageStore>(
        &mut self,
        store: &mut S,
        segments: usize,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.make_room_with(store, segments, 0, at_ps)
    }

    /// As [`make_room`](Self::make_room), with so many extra entries in the memtable.
    #[inline]
    fn make_room_with<S: PageStore>(
        &mut self,
        store: &mut S,
        segments: usize,
        extra_entries: usize,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        for _ in 0..ROOMS_MADE {
            if self.is_due_with(extra_entries) {
                self.make_room_in_memtable(store, extra_entries, at_ps)?;
            }
            if self.log.segments().free_count() < self.log.floor() + segments {
                self.waited_for(StallCause::Compaction, store, |engine, store| {
                    engine.free_segments(store, segments, at_ps);
                });
            }
            // Records that compaction moved are in the memtable, too.
            if extra_entries == 0 || !self.is_due_with(extra_entries) {
                return Ok(());
            }
        }
        Err(KvError::Full)
    }

    fn make_room_in_memtable<S: PageStore>(
        &mut self,
        store: &mut S,
        extra_entries: usize,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        self.take_in(store);
        // What leases had set aside and did not use is given back, and upkeep for records that were taken in may have frozen the memtable. Then
        // the active one has room, and no store waits for the frozen one.
        if self.index.is_flushing() && !self.is_due_with(extra_entries) {
            return Ok(());
        }
        self.waited_for(StallCause::Freeze, store, |engine, store| {
            engine.index.make_room(&mut engine.log, store, engine.next_seq.last(), at_ps)
        })?;
        self.note_checkpoint();
        Ok(())
    }

    /// Makes room for a deletion, which may take a segment of those that are left alone.
    pub(crate) fn make_room_for_deletion<S: PageStore>(
        &mut self,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let reach = Reach { segments: 0, ..self.reach_in_shared(0, Placement::Packed) };
        self.make_room_in_open(store, reach, at_ps)
    }

    /// As [`make_room`](Self::make_room), for a record that may stay in the segment that its stream stands in: then it takes
    /// none, and need not wait for any.
    #[inline(always)]
    pub(crate) fn make_room_in_open<S: PageStore>(
        &mut self,
        store: &mut S,
        reach: Reach,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let free_ahead = self.log.segments().free_count().saturating_sub(reach.segments);
        if free_ahead < self.log.floor() + self.compaction.pace.early {
            self.waited_for(StallCause::Compaction, store, |engine, store| engine.hurry_on(store, *at_ps));
            // A memtable that is written out takes segments.
            let is_due = self.is_due_with(reach.extra_entries);
            if !is_due && self.log.stays_in_segment(reach.stream, reach.end) {
                return Ok(());
            }
        }
        self.make_room_with(store, reach.segments, reach.extra_entries, at_ps)
    }

    /// Whether the memtable is to be written out before anything more is stored.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due_with(0)
    }

    /// The same with so many records more than leases may add.
    #[inline]
    pub(crate) fn is_due_with(&self, more: usize) -> bool {
        self.index.is_full_with(self.leases.records_out() + more) || self.unsaved.is_due()
    }
}
