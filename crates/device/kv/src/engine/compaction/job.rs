//! Emptying one segment.

use byway_flash::Cause;
use byway_sys::checksum;

use crate::damage::Damage;
use crate::engine::KvEngine;
use crate::engine::compaction::{Budget, is_of_place};
use crate::engine::space::charge;
use crate::error::KvError;
use crate::index::entry::Entry;
use crate::index::short_values::Value;
use crate::store::PageStore;
use crate::value_log::packing::Placement;
use crate::value_log::read::Wanted;
use crate::value_log::record::{Kind, PREAMBLE_MAX_BYTES, Preamble, pieces_of};
use crate::value_log::scan::{Found, Scanner};
use crate::value_log::segment::Use;
use crate::value_log::streamed::LongAppend;
use crate::value_log::{Draft, MOVED, ValueLog};

/// A segment being emptied.
pub(super) struct Job {
    pub(super) segment: u32,
    /// What was alive in it when it was chosen.
    pub(super) alive_bytes: u64,
    stream: u8,
    /// The first position after the segment.
    stop: u64,
    scanner: Scanner,
    /// A record that began in an earlier segment and goes on into this one.
    before: Option<(Preamble, u64)>,
    pub(super) long: Option<LongMove>,
    /// Bytes before the first record may be the rest of one whose other segments were freed.
    may_begin_amid: bool,
    /// A record goes on from here into another segment, or came from one.
    pub(super) spans: bool,
    /// Where the first record begins is certain, and everything from there on was a record or padding: nothing alive
    /// was overlooked.
    is_all_seen: bool,
}

/// A record that is longer than the ring, moved page by page.
pub(super) struct LongMove {
    pub(super) append: LongAppend,
    old: Entry,
    value_crc: u32,
    position: u64,
    value_at: u64,
    /// Value bytes that were moved.
    moved: u64,
}

/// What a page of a long record counts for, in records.
const PIECE_RECORDS: u32 = 8;

impl Job {
    /// Whether nothing that is alive can have been overlooked.
    pub(super) fn is_all_seen(&self) -> bool {
        self.is_all_seen && !self.scanner.has_failed()
    }

    /// Whether a position is in an earlier segment.
    fn is_before(&self, position: u64, shift: u32) -> bool {
        position >> shift < (self.stop >> shift) - 1
    }

    /// Whether the segment is still the piece of the stream that it was.
    pub(super) fn is_still_there(&self, log: &ValueLog) -> bool {
        let ordinal = (self.stop >> log.layout().segment_shift) - 1;
        log.segments().find(self.stream, ordinal) == Some(self.segment)
    }
}

impl KvEngine {
    /// Looks where the first record of a segment begins. The hints say where; nothing is believed but records that
    /// match their checksums at their place.
    pub(super) fn begin_job<S: PageStore>(&mut self, segment: u32, store: &mut S, at_ps: &mut u64) -> Job {
        let shift = self.log.layout().segment_shift;
        let (stream, ordinal) = match self.log.segments().use_of(u64::from(segment)) {
            Some(Use::Log { stream, ordinal }) => (stream, ordinal),
            _ => (0, 0),
        };
        let (start, stop) = (ordinal << shift, (ordinal + 1) << shift);
        self.log.segments_mut().prepare_scan(segment);
        let (first, _) = self.log.hints(store, segment);
        let mut job = Job {
            segment,
            alive_bytes: self.log.segments().alive_bytes(segment as usize).max(0) as u64,
            stream,
            stop,
            scanner: self.scan(stream, start, stop),
            before: None,
            long: None,
            may_begin_amid: false,
            spans: false,
            is_all_seen: true,
        };
        if first == 0 || self.is_record(stream, start, store, at_ps) {
            return job;
        }
        let is_tried = self.is_tried(segment);
        match self.spanning_into(stream, ordinal, is_tried, store, at_ps) {
            Some((preamble, position)) => {
                let end = position + preamble.shape.record_bytes();
                job.scanner = self.scan(stream, end.min(stop), stop);
                job.before = Some((preamble, position));
            }
            None => {
                // May be the rest of a record whose first segment was freed.
                job.may_begin_amid = true;
                job.is_all_seen =
                    is_tried && self.log.segments().find(stream, ordinal.saturating_sub(1)).is_none();
                let hinted = start + u64::from(first).min(stop - start);
                if !is_tried && (hinted == stop || self.leads_on(stream, hinted, stop, store, at_ps)) {
                    job.scanner = self.scan(stream, hinted, stop);
                }
            }
        }
        job
    }

    fn scan(&self, stream: u8, from: u64, stop: u64) -> Scanner {
        Scanner::for_compaction(&self.log, usize::from(stream), from, stop)
    }

    fn is_record<S: PageStore>(&mut self, stream: u8, at: u64, store: &mut S, at_ps: &mut u64) -> bool {
        let found = self.scan(stream, at, at + 1).next(&mut self.log, store, at_ps);
        matches!(found, Some(Found::Record { position, .. }) if position == at)
    }

    /// Whether a position is a record's, or of padding that leads to one or to the end: what an aligned record leaves out.
    fn leads_on<S: PageStore>(
        &mut self,
        stream: u8,
        at: u64,
        stop: u64,
        store: &mut S,
        at_ps: &mut u64,
    ) -> bool {
        let found = self.scan(stream, at, stop).next(&mut self.log, store, at_ps);
        !matches!(found, Some(Found::Damage { .. }))
    }

    /// The record that began in an earlier segment of a stream and goes on into this one.
    fn spanning_into<S: PageStore>(
        &mut self,
        stream: u8,
        ordinal: u64,
        ignores_hints: bool,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Option<(Preamble, u64)> {
        let (shift, segment_bytes) = (self.log.layout().segment_shift, self.log.layout().segment_bytes());
        for earlier in (1..ordinal).rev() {
            let segment = self.log.segments().find(stream, earlier)?;
            let (first, spanning) = self.log.hints(store, segment);
            if u64::from(first) >= segment_bytes && !ignores_hints {
                continue;
            }
            let at = (earlier << shift) + u64::from(spanning).min(segment_bytes - 1);
            if let Some((preamble, position)) = self.last_record(stream, at, at + 1, store, at_ps)
                && position + preamble.shape.record_bytes() > ordinal << shift
            {
                return Some((preamble, position));
            }
            if !ignores_hints {
                return None;
            }
            let (from, to) = (earlier << shift, (earlier + 1) << shift);
            if let Some((preamble, position)) = self.last_record(stream, from, to, store, at_ps) {
                let spans = position + preamble.shape.record_bytes() > ordinal << shift;
                return spans.then_some((preamble, position));
            }
        }
        None
    }

    /// The last record that begins in `from..to`.
    fn last_record<S: PageStore>(
        &mut self,
        stream: u8,
        from: u64,
        to: u64,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Option<(Preamble, u64)> {
        let (mut scanner, mut last) = (self.scan(stream, from, to), None);
        while let Some(found) = scanner.next(&mut self.log, store, at_ps) {
            if let Found::Record { preamble, position } = found {
                last = Some((preamble, position));
            }
        }
        last
    }

    /// Goes on with a job until the budget is spent; whether it is done.
    pub(super) fn work<S: PageStore>(
        &mut self,
        job: &mut Job,
        store: &mut S,
        budget: &mut Budget,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        while !budget.is_spent() && !self.is_due() {
            if job.long.is_some() {
                self.move_piece(job, store, budget, at_ps)?;
                continue;
            }
            if let Some((preamble, position)) = job.before.take() {
                self.consider(job, &preamble, position, store, budget, at_ps)?;
                continue;
            }
            let from = job.scanner.position();
            let Some(found) = job.scanner.next(&mut self.log, store, at_ps) else { return Ok(true) };
            let scanned = job.scanner.position().min(job.stop) - from.min(job.stop);
            self.compaction.counters.scanned_bytes += scanned;
            budget.spend(scanned, 1);
            self.log.count_records(1);
            match found {
                Found::Record { preamble, position } => {
                    job.may_begin_amid = false;
                    job.scanner.next_key().into_iter().for_each(|key| self.index.prefetch_in_ram(key));
                    self.consider(job, &preamble, position, store, budget, at_ps)?;
                }
                Found::Damage { .. } if job.may_begin_amid => {}
                Found::Damage { from, to } if self.breaks_off(job, from, to) => {}
                Found::Damage { from, to } => self.damaged(job, from, to),
                Found::Nothing => {}
            }
        }
        Ok(false)
    }

    /// Whether a stretch may be the beginning of a header that went on in a segment that is gone, its record dead.
    fn breaks_off(&self, job: &Job, from: u64, to: u64) -> bool {
        let next = job.stop >> self.log.layout().segment_shift;
        let is_gone = self.log.segments().find(job.stream, next).is_none();
        to == job.stop && to - from < PREAMBLE_MAX_BYTES as u64 && is_gone
    }

    /// Moves a record if it is alive.
    fn consider<S: PageStore>(
        &mut self,
        job: &mut Job,
        preamble: &Preamble,
        position: u64,
        store: &mut S,
        budget: &mut Budget,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        if preamble.shape.kind() != Kind::Value {
            return Ok(());
        }
        job.spans |= position + preamble.shape.record_bytes() > job.stop
            || job.is_before(position, self.log.layout().segment_shift);
        let (bytes, shift) = (preamble.shape.record_bytes(), self.log.layout().segment_shift);
        let Some(segment) = self.log.segments().find(job.stream, position >> shift) else { return Ok(()) };
        let address = u64::from(segment) << shift | position & (self.log.layout().segment_bytes() - 1);
        let entry = Entry::new(&preamble.key, preamble.shape, address, preamble.seq);
        let pages_before = self.index.pages_read();
        let is_alive = self.is_alive(&entry, store, at_ps);
        // A page costs as much as a record or more.
        budget.spend(0, self.index.pages_read() - pages_before);
        match is_alive {
            Ok(true) => self.move_record(job, &entry, preamble, position, store, budget, at_ps),
            Ok(false) => Ok(()),
            Err(_) => {
                // Whether it is alive is unknown: it stays.
                self.damaged(job, position, position + bytes);
                Ok(())
            }
        }
    }

    /// Whether the record of an entry is the newest of its key. Whatever replaced it takes it off the counts now: at the end
    /// they show whether anything was overlooked.
    fn is_alive<S: PageStore>(
        &mut self,
        entry: &Entry,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<bool, KvError> {
        let segments = self.log.segments();
        if segments.knows_dead(entry.address()) {
            // A victim is on flash with its index: what is not noted as dead is the newest that runs have.
            return Ok(!segments.is_noted_dead(entry.address()) && self.index.is_newest(entry, &mut self.log));
        }
        let newest = self.index.get(&entry.key(), store, at_ps)?;
        let is_alive =
            newest.is_some_and(|newest| newest.address() == entry.address() && newest.seq() == entry.seq());
        if !is_alive {
            self.index.settle_key(&entry.key(), &mut self.log, store, at_ps);
        }
        Ok(is_alive)
    }

    #[expect(clippy::too_many_arguments, reason = "a record, where it is, and what it costs")]
    fn move_record<S: PageStore>(
        &mut self,
        job: &mut Job,
        old: &Entry,
        preamble: &Preamble,
        position: u64,
        store: &mut S,
        budget: &mut Budget,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let (shape, draft) = (preamble.shape, self.moved_draft(preamble)?);
        if self.log.is_long(MOVED, &draft) {
            let append = self.log.begin_long(store, MOVED, &draft, at_ps)?;
            let value_crc = preamble.value_crc;
            let value_at = position + shape.preamble_bytes() as u64;
            job.long = Some(LongMove { append, old: *old, value_crc, position, value_at, moved: 0 });
            return Ok(());
        }
        let (bytes, key_bytes) = (shape.record_bytes(), shape.preamble_bytes());
        let address = match job.scanner.record(position, bytes) {
            Some(record) => {
                let value = record.get(key_bytes..).unwrap_or_default();
                if checksum::crc32c_append(0, value) != preamble.value_crc {
                    self.damaged(job, position, position + bytes);
                    return Ok(());
                }
                self.append_moved(store, &draft, value, at_ps)?
            }
            None => {
                let mut buffer = std::mem::take(&mut self.compaction.buffer);
                let gathered = match self.log.peek_value(store, old.address(), preamble, &mut buffer) {
                    true => Ok(()),
                    false => self.gather(old, &mut buffer, store, at_ps),
                };
                let moved = match gathered {
                    Ok(()) => self.append_moved(store, &draft, &buffer, at_ps),
                    Err(error) => Err(error),
                };
                self.compaction.buffer = buffer;
                match moved {
                    Err(error) if is_of_place(&error) => {
                        self.damaged(job, position, position + bytes);
                        return Ok(());
                    }
                    moved => moved?,
                }
            }
        };
        budget.spend(bytes, 1);
        self.enter_moved(&draft, old, address);
        Ok(())
    }

    fn moved_draft(&mut self, preamble: &Preamble) -> Result<Draft, KvError> {
        Ok(Draft {
            key: preamble.key,
            kind: Kind::Value,
            seq: self.moved_number()?,
            value_len: preamble.shape.value_len(),
            placement: Placement::Packed,
        })
    }

    fn append_moved<S: PageStore>(
        &mut self,
        store: &mut S,
        draft: &Draft,
        value: &[u8],
        at_ps: &mut u64,
    ) -> Result<u64, KvError> {
        self.log.append(store, MOVED, draft, pieces_of::<KvError>(value), at_ps)
    }

    /// Reads a value that spans pages.
    fn gather<S: PageStore>(
        &mut self,
        entry: &Entry,
        into: &mut Vec<u8>,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        into.clear();
        let wanted = Wanted::part(0, u64::from(entry.shape().value_len()));
        let mut take = |piece: &[u8], _: &mut u64| {
            into.extend_from_slice(piece);
            Ok::<(), KvError>(())
        };
        self.log.read_value(store, entry, wanted, Cause::LogCompaction, &mut take, at_ps)
    }

    /// Enters a record that was moved in the index, in place of `old`.
    fn enter_moved(&mut self, draft: &Draft, old: &Entry, address: u64) {
        let entry = Entry::new(&draft.key, old.shape(), address, draft.seq);
        let bytes = old.shape().record_bytes();
        self.unsaved.add(charge(bytes));
        self.index.insert_over(entry, Value::Unchanged, Some(old), &mut self.log);
        self.index.earn();
        self.compaction.counters.moved_records += 1;
        self.compaction.counters.moved_bytes += bytes;
    }

    /// Moves the next page of a long record, or commits it.
    fn move_piece<S: PageStore>(
        &mut self,
        job: &mut Job,
        store: &mut S,
        budget: &mut Budget,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Some(long) = &mut job.long else { return Ok(()) };
        let bytes = long.append.wants(self.log.layout().page_bytes);
        if bytes == 0 {
            return self.end_long(job, store, at_ps);
        }
        let mut buffer = std::mem::take(&mut self.compaction.buffer);
        let from = long.value_at + long.moved;
        let read = self.log.read_span(store, job.stream, from, bytes, &mut buffer, at_ps);
        let fed = read.and_then(|()| self.log.feed_long(store, &mut long.append, &buffer, at_ps));
        long.moved += bytes as u64;
        self.compaction.buffer = buffer;
        budget.spend(2 * bytes as u64, PIECE_RECORDS);
        self.log.count_records(1);
        match fed {
            Err(error) if is_of_place(&error) => self.give_up_move(job, store, at_ps),
            fed => fed,
        }
    }

    fn end_long<S: PageStore>(
        &mut self,
        job: &mut Job,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Some(long) = &mut job.long else { return Ok(()) };
        let newest = self.index.get(&long.old.key(), store, at_ps)?;
        let is_alive = newest.is_some_and(|entry| entry.seq() == long.old.seq());
        if !is_alive || long.append.value_crc() != long.value_crc {
            return self.give_up_move(job, store, at_ps);
        }
        let number = self.moved_number()?;
        let Some(long) = &mut job.long else { return Ok(()) };
        long.append.renumber(number);
        let address = self.log.commit_long(store, &long.append, at_ps)?;
        let (draft, old) = (*long.append.draft(), long.old);
        job.long = None;
        self.enter_moved(&draft, &old, address);
        Ok(())
    }

    /// Leaves a long record where it is: it cannot be read, or was overwritten or deleted while it was on its way.
    fn give_up_move<S: PageStore>(
        &mut self,
        job: &mut Job,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let Some(long) = job.long.take() else { return Ok(()) };
        self.log.give_up_long(store, &long.append);
        let key = long.old.key();
        if self.index.get(&key, store, at_ps)?.is_some_and(|entry| entry.seq() == long.old.seq()) {
            self.damaged(job, long.position, long.position + long.old.shape().record_bytes());
        } else {
            self.index.settle_key(&key, &mut self.log, store, at_ps);
        }
        Ok(())
    }

    /// Notes that a part of a victim cannot be moved: the victim stays.
    fn damaged(&mut self, job: &mut Job, from: u64, to: u64) {
        job.is_all_seen = false;
        let shift = self.log.layout().segment_shift;
        let within = from & (self.log.layout().segment_bytes() - 1);
        let segment = self.log.segments().find(job.stream, from >> shift).unwrap_or(job.segment);
        let address = u64::from(segment) << shift | within;
        self.note_damage(Damage { stream: job.stream, from, to, address });
    }
}

#[cfg(test)]
mod tests;
