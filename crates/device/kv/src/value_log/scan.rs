//! Walking a stream record by record, over damage if need be.

use std::ops::Range;

use byway_flash::{Cause, FlashError};

use crate::error::KvError;
use crate::store::PageStore;
use crate::value_log::ValueLog;
use crate::value_log::record::{PREAMBLE_MAX_BYTES, Preamble, Shape, Stand};
use byway_spec::Key;

/// Content at a position of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A record.
    Record { preamble: Preamble, position: u64 },
    /// Bytes that are no record and no padding: `from..to` was damaged.
    Damage { from: u64, to: u64 },
    /// Nothing yet, after as much of a walk as is done at once.
    Nothing,
}

/// Times that an opening tries to read a page: what it cannot read is lost.
const TRIES: u32 = 4;

/// Bytes of a page that have a checksum of their own.
const PART_BYTES: usize = 4096;

/// Bytes of padding or damage that a walk on behalf of compaction goes over at once.
const AT_ONCE_BYTES: u64 = 32 << 10;

/// A walk from one position of a stream to another.
pub(crate) struct Scanner {
    stream: usize,
    position: u64,
    /// No record begins here or further on.
    stop: u64,
    /// No record goes on beyond this.
    end: u64,
    cause: Cause,
    /// Bytes of padding or damage to go over before something is answered.
    at_once: u64,
    /// The page that was looked at last, and the one before it: a walk over damage looks to and fro where they meet.
    held: Held,
    before: Held,
    /// The page that was last looked at where it lies.
    lent: Option<u64>,
    /// The record that comes next, if it was looked at where it lies.
    ahead: Option<(u64, Preamble)>,
    /// A page could not be read.
    has_failed: bool,
    /// Times that a page is tried.
    tries: u32,
    /// What the host said of a page that it could not read.
    refusal: Option<KvError>,
}

/// A page of the stream that is looked at.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// `None` before the first.
    page: Option<u64>,
    is_readable: bool,
    /// Page units with wrong checksums: there, a record counts only if its own checksum is right.
    doubtful: Vec<Range<usize>>,
}

impl Scanner {
    pub(crate) fn new(log: &ValueLog, stream: usize, from: u64, end: u64) -> Self {
        Self {
            stream,
            position: from,
            stop: end,
            end,
            cause: Cause::Metadata,
            at_once: u64::MAX,
            held: Held { bytes: vec![0; log.layout.page_bytes], ..Held::default() },
            before: Held::default(),
            lent: None,
            ahead: None,
            has_failed: false,
            tries: TRIES,
            refusal: None,
        }
    }

    /// A walk over the records that begin in `from..stop`, on behalf of compaction.
    pub(crate) fn for_compaction(log: &ValueLog, stream: usize, from: u64, stop: u64) -> Self {
        let end = log.streams[stream].wp();
        Self {
            stop,
            cause: Cause::LogCompaction,
            at_once: AT_ONCE_BYTES,
            tries: 1,
            ..Self::new(log, stream, from, end)
        }
    }

    /// Whether a page could not be read so far.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Why the host could not read a page, if that was why it could not be read.
    pub(crate) fn refusal(self) -> Option<KvError> {
        self.refusal
    }

    /// Current position.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The bytes of a record that was just found, if it lies in one page.
    pub(crate) fn record(&self, position: u64, bytes: u64) -> Option<&[u8]> {
        let Held { bytes: held, page, is_readable, .. } = &self.held;
        let page_bytes = held.len() as u64;
        let from = (position % page_bytes) as usize;
        let is_here = *is_readable && *page == Some(position / page_bytes);
        held.get(from..from + bytes as usize).filter(|_| is_here)
    }

    /// The next record or stretch of damage; `None` at the end.
    pub(crate) fn next<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Option<Found> {
        if let Some(found) = self.peek_record(log, store, at_ps) {
            return Some(found);
        }
        if !self.skip_padding(log, store, at_ps) {
            return Some(Found::Nothing);
        }
        if self.position >= self.stop {
            return None;
        }
        if let Some(found) = self.record_here(log, store, at_ps) {
            return Some(found);
        }
        let from = self.position;
        while self.position < self.stop && self.position - from < self.at_once {
            self.step_over_damage(log, store, at_ps);
            if let Some(Preamble { .. }) = self.preamble_here(log, store, at_ps) {
                break;
            }
        }
        Some(Found::Damage { from, to: self.position.min(self.stop) })
    }

    /// The record here, if compaction can look at it where it lies and its header is whole. Anything else, padding too, is
    /// believed only where the flash has verified the page it is in: then that is read.
    fn peek_record<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Option<Found> {
        let (position, page) = (self.position, self.position / self.held.bytes.len() as u64);
        if self.cause != Cause::LogCompaction || position >= self.stop || self.held.page == Some(page) {
            return None;
        }
        let ahead = self.ahead.take().filter(|(ahead, _)| *ahead == position).map(|(_, preamble)| preamble);
        let preamble = ahead.or_else(|| log.peek_preamble(store, self.stream, position))?;
        let end = position + preamble.shape.record_bytes();
        if end > self.end {
            return None;
        }
        if self.lent != Some(page) {
            log.lend_stream_page(store, self.stream, page, self.cause, at_ps)?;
            self.lent = Some(page);
        }
        self.position = end;
        self.look_ahead(log, store, preamble.shape.record_bytes());
        Some(Found::Record { preamble, position })
    }

    /// Looks at the next record, and asks for the memory of one further on, where it is if records are alike.
    fn look_ahead<S: PageStore>(&mut self, log: &ValueLog, store: &S, len_bytes: u64) {
        if self.position < self.stop {
            let preamble = log.peek_preamble(store, self.stream, self.position);
            let behind = self.position + preamble.map_or(len_bytes, |preamble| preamble.shape.record_bytes());
            log.prefetch_header(store, self.stream, behind + len_bytes);
            log.prefetch_if_alive(store, self.stream, self.position, behind - self.position);
            self.ahead = preamble.map(|preamble| (self.position, preamble));
        }
    }

    /// The key of the record that comes next, if it is known already.
    pub(crate) fn next_key(&self) -> Option<&Key> {
        self.ahead.as_ref().map(|(_, preamble)| &preamble.key)
    }

    fn record_here<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Option<Found> {
        let preamble = self.preamble_here(log, store, at_ps)?;
        let position = self.position;
        self.position += preamble.shape.record_bytes();
        Some(Found::Record { preamble, position })
    }

    fn preamble_here<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        at_ps: &mut u64,
    ) -> Option<Preamble> {
        let mut bytes = [0; PREAMBLE_MAX_BYTES];
        self.peek(log, store, self.position, &mut bytes[..4], at_ps)?;
        let shape = Shape::from_bits(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))?;
        if self.position + shape.record_bytes() > self.end {
            return None;
        }
        let len = shape.preamble_bytes();
        self.peek(log, store, self.position, &mut bytes[..len], at_ps)?;
        Preamble::decode(&bytes[..len], Stand::new(self.stream as u8, self.position))
    }

    /// Passes zero bytes; whether it came to their end.
    fn skip_padding<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S, at_ps: &mut u64) -> bool {
        let (page_bytes, from) = (self.held.bytes.len() as u64, self.position);
        while self.position < self.stop && self.position - from < self.at_once {
            self.load(log, store, self.position / page_bytes, at_ps);
            let Held { bytes, is_readable, doubtful, .. } = &self.held;
            let at = (self.position % page_bytes) as usize;
            // Zeroes in a unit with a wrong checksum may be damage, not padding.
            let doubtful = doubtful.iter().find(|part| part.end > at).map(|part| part.start.max(at));
            let rest = &bytes[at..doubtful.unwrap_or(bytes.len())];
            match rest.iter().position(|byte| *byte != 0) {
                _ if !is_readable || rest.is_empty() => return true,
                Some(0) => return true,
                Some(zeroes) => self.position += zeroes as u64,
                None => self.position += rest.len() as u64,
            }
        }
        self.position >= self.stop
    }

    /// One byte on, or to the next page where this one cannot be read.
    fn step_over_damage<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S, at_ps: &mut u64) {
        let page_bytes = self.held.bytes.len() as u64;
        self.load(log, store, self.position / page_bytes, at_ps);
        self.position = match self.held.is_readable {
            true => self.position + 1,
            false => (self.position / page_bytes + 1) * page_bytes,
        };
    }

    /// Copies bytes that may span pages; `None` where they end or cannot be read.
    fn peek<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        position: u64,
        into: &mut [u8],
        at_ps: &mut u64,
    ) -> Option<()> {
        let page_bytes = self.held.bytes.len() as u64;
        let mut done = 0;
        while done < into.len() {
            let at = position + done as u64;
            if at >= self.end {
                return None;
            }
            self.load(log, store, at / page_bytes, at_ps);
            let held = &self.held;
            let rest = held.bytes.get((at % page_bytes) as usize..).filter(|_| held.is_readable)?;
            let piece = rest.len().min(into.len() - done);
            into[done..done + piece].copy_from_slice(&rest[..piece]);
            done += piece;
        }
        Some(())
    }

    #[inline]
    fn load<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S, page: u64, at_ps: &mut u64) {
        if self.held.page != Some(page) {
            self.bring(log, store, page, at_ps);
        }
    }

    fn bring<S: PageStore>(&mut self, log: &mut ValueLog, store: &mut S, page: u64, at_ps: &mut u64) {
        std::mem::swap(&mut self.held, &mut self.before);
        if self.held.page == Some(page) {
            return;
        }
        let (cause, stream, into) = (self.cause, self.stream, &mut self.held.bytes);
        into.resize(log.layout.page_bytes, 0);
        let mut read = || log.read_stream_page(store, stream, page, into, cause, at_ps);
        let read = (1..self.tries).find_map(|_| read().ok()).map_or_else(read, Ok);
        self.has_failed |= read.is_err();
        self.held.doubtful.clear();
        let is_patient = self.tries > 1;
        self.held.is_readable = match &read {
            Ok(()) => true,
            Err(error) => is_patient && !is_of_host(error) && self.load_parts(log, store, page, at_ps),
        };
        self.held.page = Some(page);
        self.refusal = self.refusal.take().or(read.err().filter(is_of_host));
    }
}

impl Scanner {
    /// Reads a page that does not match its checksums part by part, and those parts that do not as they are; whether
    /// there are any.
    fn load_parts<S: PageStore>(
        &mut self,
        log: &mut ValueLog,
        store: &mut S,
        page: u64,
        at_ps: &mut u64,
    ) -> bool {
        let Held { bytes, doubtful, .. } = &mut self.held;
        let start = page * bytes.len() as u64;
        let Some(address) = log.address(self.stream, start) else { return false };
        let (mut room, mut is_there) = ([0; PART_BYTES], false);
        for (nth, part) in bytes.chunks_exact_mut(PART_BYTES).enumerate() {
            let at = address + (nth * PART_BYTES) as u64;
            if store.read(&log.home, at, part, self.cause, at_ps).is_ok() {
                is_there = true;
                continue;
            }
            match store.lend(&log.home, at, &mut room, self.cause, at_ps) {
                Ok(lent) => {
                    part.copy_from_slice(lent);
                    is_there = true;
                }
                Err(_) => part.fill(0),
            }
            doubtful.push(nth * PART_BYTES..(nth + 1) * PART_BYTES);
        }
        is_there
    }
}

/// Whether the file system failed, and not the medium that is modelled.
pub(crate) fn is_of_host(error: &KvError) -> bool {
    matches!(error, KvError::Flash(FlashError::File(_) | FlashError::Image(_)))
}

impl ValueLog {
    /// Copies a page of a stream, wherever it is.
    pub(super) fn read_stream_page<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        page: u64,
        into: &mut [u8],
        cause: Cause,
        at_ps: &mut u64,
    ) -> Result<(), KvError> {
        let s = &self.streams[stream];
        let position = s.page_start(page);
        if s.holds(page) {
            let (held, _) = s.ring().pieces(position, into.len());
            if s.ring().in_window {
                store.read_window(&self.home, held.start, into);
            } else {
                into.copy_from_slice(&store.state(&self.home)[held]);
            }
            return Ok(());
        }
        let address = self.address(stream, position).ok_or(KvError::DamagedState("the segment table"))?;
        self.work.pages_read += 1;
        Ok(store.read(&self.home, address, into, cause, at_ps)?)
    }

    /// The record at the start of a region, which is ahead of the write pointer.
    pub(crate) fn region_record<S: PageStore>(
        &mut self,
        store: &mut S,
        stream: usize,
        start: u64,
        end: u64,
        at_ps: &mut u64,
    ) -> Result<Found, KvError> {
        let mut scanner = Scanner::new(self, stream, start, end);
        let found = scanner.record_here(self, store, at_ps);
        scanner.refusal().map_or(Ok(found.unwrap_or(Found::Damage { from: start, to: end })), Err)
    }
}
