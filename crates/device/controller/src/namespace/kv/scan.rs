//! Scan: the pairs of a range of keys in one result (vendor; layout in `byway_spec::vendor::ScanHeader`).

use std::mem;

use byway_kv::{ScanPart, Selection};
use byway_spec::kv::KEY_MAX_BYTES;
use byway_spec::vendor::{KeyRange, ScanCdw10, ScanCdw11, ScanHeader, ScanPair, WHOLE_VALUE};
use byway_spec::{Command, Key};
use zerocopy::IntoBytes;

use super::KvNamespace;
use crate::data_pointer;
use crate::error::CommandError;
use crate::limits::RESULT_MAX_BYTES;
use crate::namespace::media::timed;
use crate::namespace::{Execution, Outcome};

/// Keys, values and heads in a result are padded to this.
const ALIGN_BYTES: usize = 4;

/// A buffer has room for any key at least.
const BUFFER_MIN_BYTES: usize = size_of::<ScanHeader>() + ScanPair::bytes(KEY_MAX_BYTES, 0);

/// Bytes before the value of a pair whose key is the longest.
const PAIR_FRONT_BYTES: usize = ScanPair::bytes(KEY_MAX_BYTES, 0);

/// Bytes of an average pair, to guess how many fit a buffer.
const PAIR_BYTES: usize = 64;

/// Selected pairs that a namespace keeps room for between scans.
pub(super) const PAIRS_KEPT: usize = 1024;

/// A Scan command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scan {
    range: KeyRange,
    buffer_bytes: usize,
    /// Most pairs.
    pairs_max: usize,
    /// Most bytes of each value.
    prefix_bytes: u32,
}

impl Scan {
    fn parse(command: &Command) -> Result<Self, CommandError> {
        let (cdw10, cdw11) = (ScanCdw10::from_bits(command.cdw10), ScanCdw11::from_bits(command.cdw11));
        let buffer_bytes = cdw10.buffer_bytes() as usize;
        if buffer_bytes < BUFFER_MIN_BYTES {
            return Err(SHORT_BUFFER);
        }
        if buffer_bytes > RESULT_MAX_BYTES {
            return Err(LONG_BUFFER);
        }
        let pairs_max = match usize::from(cdw11.pairs_high()) << 8 | usize::from(cdw10.pairs_low()) {
            0 => usize::MAX,
            pairs => pairs,
        };
        let prefix_bytes = match cdw11.value_prefix() {
            WHOLE_VALUE => u32::MAX,
            bytes => u32::from(bytes),
        };
        let range = KeyRange::read_from(command).map_err(|_| LONG_KEY)?;
        Ok(Self { range, buffer_bytes, pairs_max, prefix_bytes })
    }

    fn expected_pairs(&self) -> usize {
        self.pairs_max.min(self.buffer_bytes / PAIR_BYTES)
    }
}

/// Which pairs fit the host's buffer.
struct Fitting {
    pairs_left: usize,
    bytes_left: usize,
    prefix_bytes: u32,
    has_any: bool,
}

impl Fitting {
    fn new(scan: &Scan) -> Self {
        Self {
            pairs_left: scan.pairs_max,
            bytes_left: scan.buffer_bytes - size_of::<ScanHeader>(),
            prefix_bytes: scan.prefix_bytes,
            has_any: false,
        }
    }

    /// How many bytes of the next pair's value go to the result; `None` if the result ends before the pair.
    #[inline]
    fn take(&mut self, key_len: usize, value_len: u32) -> Option<u32> {
        self.pairs_left = self.pairs_left.checked_sub(1)?;
        let value_bytes = value_len.min(self.prefix_bytes);
        let pair_bytes = ScanPair::bytes(key_len, value_bytes as usize);
        if pair_bytes <= self.bytes_left {
            self.bytes_left -= pair_bytes;
            self.has_any = true;
            return Some(value_bytes);
        }
        // The first pair's value is cut: else a scan would never get past it.
        let room_bytes = self.bytes_left.saturating_sub(ScanPair::bytes(key_len, 0));
        (self.pairs_left, self.bytes_left) = (0, 0);
        (!self.has_any).then_some((room_bytes - room_bytes % ALIGN_BYTES) as u32)
    }
}

/// A result that is being filled.
struct ScanResult<'a> {
    /// Filled up to `len`; behind it what a result before left there.
    bytes: &'a mut Vec<u8>,
    len: usize,
    /// Where the last pair begins.
    pair_at: usize,
}

impl<'a> ScanResult<'a> {
    /// An empty result, for which `expected_bytes` are ready.
    fn new(bytes: &'a mut Vec<u8>, expected_bytes: usize) -> Self {
        if bytes.len() < expected_bytes {
            bytes.resize(expected_bytes, 0);
        }
        let mut result = Self { bytes, len: 0, pair_at: 0 };
        result.append(ScanHeader::default().as_bytes());
        result.pair_at = result.len;
        result
    }

    #[inline]
    fn push(&mut self, part: ScanPart<'_>) {
        match part {
            ScanPart::Whole { key, value_len, value } => self.push_pair(&key, value_len, value),
            ScanPart::Pair { key, value_len, value_bytes } => {
                self.begin_pair(&key, value_len, value_bytes);
            }
            ScanPart::Value(bytes) => self.append(bytes),
        }
    }

    /// Appends a pair at once: one look at the room for all of it.
    #[inline]
    fn push_pair(&mut self, key: &Key, value_len: u32, value: &[u8]) {
        self.pad();
        let (at, moved) = (self.len, value.len());
        let front = ScanPair::bytes(key.len(), 0);
        let room = self.room(PAIR_FRONT_BYTES + moved);
        write_front(room, key, value_len, moved as u32);
        copy_short(&mut room[front..front + moved], value);
        (self.pair_at, self.len) = (at, at + front + moved);
    }

    fn begin_pair(&mut self, key: &Key, value_len: u32, value_moved: u32) {
        self.pad();
        self.pair_at = self.len;
        write_front(self.room(PAIR_FRONT_BYTES), key, value_len, value_moved);
        self.len += ScanPair::bytes(key.len(), 0);
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// The next bytes, whatever they hold.
    #[inline]
    fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if end > self.bytes.len() {
            self.grow(end);
        }
        &mut self.bytes[self.len..end]
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize(end.next_power_of_two(), 0);
    }

    #[inline]
    fn pad(&mut self) {
        while !self.len.is_multiple_of(ALIGN_BYTES) {
            self.append(&[0]);
        }
    }

    /// The result of `count` pairs of a selection; one begun behind them is dropped.
    fn finish(mut self, count: usize, selection: &Selection, buffer_bytes: usize) -> &'a [u8] {
        if count < selection.len() {
            self.len = self.pair_at;
        }
        self.pad();
        // Without room for it the host goes on behind the last pair: a result without pairs has room for any key.
        let has_room = |key: &Key| self.len + key.len().next_multiple_of(ALIGN_BYTES) <= buffer_bytes;
        let resume = selection.resume().filter(has_room);
        self.append(resume.as_ref().map_or(&[], Key::as_bytes));
        self.pad();
        let head = ScanHeader {
            count: count as u32,
            bytes: self.len as u32,
            is_end: selection.is_end().into(),
            resume_len: resume.map_or(0, |key| key.len() as u32),
        };
        let bytes = &mut self.bytes[..self.len];
        bytes[..size_of::<ScanHeader>()].copy_from_slice(head.as_bytes());
        bytes
    }
}

/// Copies bytes, most often few: without a call for up to 64, by pieces of known size that may overlap.
#[inline]
fn copy_short(into: &mut [u8], from: &[u8]) {
    match from.len() {
        16..=32 => copy_ends::<16>(into, from),
        33..=64 => copy_ends::<32>(into, from),
        _ => into.copy_from_slice(from),
    }
}

/// Copies the first `N` bytes and the last: all of them, if there are up to twice as many.
#[inline]
fn copy_ends<const N: usize>(into: &mut [u8], from: &[u8]) {
    if let (Some(into), Some(from)) = (into.first_chunk_mut::<N>(), from.first_chunk()) {
        *into = *from;
    }
    if let (Some(into), Some(from)) = (into.last_chunk_mut::<N>(), from.last_chunk()) {
        *into = *from;
    }
}

/// Writes what stands before a value. All of the key's field, of which as much counts as the key has: copies of known size.
#[inline]
fn write_front(room: &mut [u8], key: &Key, value_len: u32, value_moved: u32) {
    let head = ScanPair { key_len: key.len() as u8, reserved: [0; 3], value_len, value_moved };
    if let Some(room) = room.first_chunk_mut::<PAIR_FRONT_BYTES>() {
        let (head_bytes, key_bytes) = room.split_at_mut(size_of::<ScanPair>());
        head_bytes.copy_from_slice(head.as_bytes());
        key_bytes.copy_from_slice(key.padded());
    }
}

impl KvNamespace {
    /// Brings pairs of a range. DW0 is their number.
    pub fn scan(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let scan = Scan::parse(command)?;
        let mut selection = mem::take(&mut self.selection);
        let scanned = self.scan_selected(execution, command, &scan, &mut selection);
        selection.shrink_to(PAIRS_KEPT);
        self.selection = selection;
        scanned
    }

    fn scan_selected(
        &mut self,
        execution: &mut Execution<'_, '_>,
        command: &Command,
        scan: &Scan,
        selection: &mut Selection,
    ) -> Result<Outcome, CommandError> {
        let Execution { flash, port, room, whole_pages, .. } = execution;
        let (engine, expected) = (&mut self.engine, scan.expected_pairs());
        let mut fitting = Fitting::new(scan);
        let wants = |key: &Key, value_len| fitting.take(key.len(), value_len);
        timed(port, |now_ps| engine.select(*flash, &scan.range, expected, selection, wants, now_ps))?;
        // The key's field of the last pair may go beyond it.
        let expected_bytes = scan.buffer_bytes - fitting.bytes_left + KEY_MAX_BYTES;
        let mut result = ScanResult::new(&mut room.bytes, expected_bytes);
        let into = |part: ScanPart<'_>| result.push(part);
        let count = timed(port, |now_ps| engine.read_selected(*flash, selection, into, now_ps))?;
        let result = result.finish(count, selection, scan.buffer_bytes);
        let mapped = &mut room.mapped;
        let data =
            data_pointer::map_buffer(port, mapped, command, scan.buffer_bytes, result.len(), *whole_pages)?;
        let mut sink = data.sink(&mut room.stage)?;
        sink.put(port, result)?;
        sink.finish(port)?;
        Ok(Outcome::with(count as u32))
    }
}

const SHORT_BUFFER: CommandError =
    CommandError::invalid_field("the scan buffer has no room for a key").at_byte(40);
const LONG_BUFFER: CommandError =
    CommandError::invalid_field("the scan buffer is over the announced limit").at_byte(40);
pub(super) const LONG_KEY: CommandError =
    CommandError::invalid_field("a key of the range is too long; keys are 1 to 16 bytes").at_byte(44);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitting_ends_at_the_limit_of_pairs_or_bytes() {
        let scan = Scan {
            range: KeyRange::default(),
            buffer_bytes: 16 + 2 * ScanPair::bytes(16, 8),
            pairs_max: usize::MAX,
            prefix_bytes: 8,
        };
        let mut fitting = Fitting::new(&scan);
        assert_eq!([0; 3].map(|_| fitting.take(16, 100)), [Some(8), Some(8), None]);
        let mut fitting = Fitting::new(&Scan { pairs_max: 1, ..scan });
        assert_eq!([0; 2].map(|_| fitting.take(16, 100)), [Some(8), None]);
    }

    #[test]
    fn fitting_cuts_the_value_of_the_first_pair_alone() {
        let scan = Scan {
            range: KeyRange::default(),
            buffer_bytes: BUFFER_MIN_BYTES + 11,
            pairs_max: usize::MAX,
            prefix_bytes: u32::MAX,
        };
        assert_eq!(Fitting::new(&scan).take(16, 100), Some(8));
        let mut fitting = Fitting::new(&Scan { buffer_bytes: BUFFER_MIN_BYTES + 60, ..scan });
        assert_eq!([0, 100].map(|len| fitting.take(16, len)), [Some(0), None]);
    }
}
