//! What the CSV reader reads from: a file whose records have a longest length, and whose blank lines are counted.

use std::io::{self, Read};

/// Longest record that is read: twice the largest value, 16 MiB, in hexadecimal digits.
const RECORD_MAX_BYTES: u64 = 64 << 20;

/// Whether the file has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    No,
    /// An end of a line was given behind it.
    Added,
    /// The reader asked for more: it is not behind a record, or a quote is open.
    Reached,
}

/// A file of CSV.
///
/// The reader counts the line feed of CR LF, and blank lines, as part of the record behind them, so its line is too low where a
/// record begins. This counts them. It ends the last line of a file too: the end of the file then ends a record only where a quote is open.
pub(crate) struct CsvInput {
    from: Box<dyn Read>,
    /// A byte order mark to give before the file's bytes.
    lead: &'static [u8],
    left_bytes: u64,
    read_bytes: u64,
    /// What was read last: the reader has nothing else before it.
    chunk: Vec<u8>,
    blank_lines: u64,
    /// Whether only ends of lines were read of the record.
    is_before_record: bool,
    end: End,
}

/// The reader leaves out one of them where it begins.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl CsvInput {
    pub fn new(from: Box<dyn Read>) -> Self {
        Self {
            from,
            lead: &[],
            left_bytes: RECORD_MAX_BYTES,
            read_bytes: 0,
            chunk: Vec::new(),
            blank_lines: 0,
            is_before_record: true,
            end: End::No,
        }
    }

    /// The same from the middle of a file, where a byte order mark is part of a record. The reader leaves one out at its beginning: it
    /// gets one for that, whose bytes count as read.
    pub fn in_the_middle(from: Box<dyn Read>) -> Self {
        Self { lead: BYTE_ORDER_MARK, ..Self::new(from) }
    }

    /// Length of the mark that is given before the file's bytes.
    pub const fn lead_bytes(is_in_the_middle: bool) -> u64 {
        if is_in_the_middle { BYTE_ORDER_MARK.len() as u64 } else { 0 }
    }

    /// Begins a record at a byte that the reader is to take next.
    pub fn begin_record(&mut self, at: u64) {
        (self.left_bytes, self.blank_lines, self.is_before_record) = (RECORD_MAX_BYTES, 0, true);
        let behind = self.read_bytes.saturating_sub(at) as usize;
        self.count_blank(self.chunk.len().saturating_sub(behind));
    }

    /// Ends of lines before the record.
    pub const fn blank_lines(&self) -> u64 {
        self.blank_lines
    }

    /// Whether the end of the file ended the record.
    pub fn is_at_end(&self) -> bool {
        self.end == End::Reached
    }

    /// Bytes of the file that were read.
    pub const fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    fn count_blank(&mut self, from: usize) {
        let some = self.chunk.get(from..).unwrap_or_default();
        let end = some.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
        let blank = some.get(..end.unwrap_or(some.len())).unwrap_or_default();
        self.blank_lines += blank.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.is_before_record = end.is_none();
    }

    fn read_end(&mut self, into: &mut [u8]) -> usize {
        self.chunk.clear();
        match (self.end, into.first_mut()) {
            (End::No, Some(first)) => {
                *first = b'\n';
                self.end = End::Added;
                1
            }
            _ => {
                self.end = End::Reached;
                0
            }
        }
    }
}

impl Read for CsvInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left_bytes == 0 {
            let most = RECORD_MAX_BYTES >> 20;
            return Err(io::Error::other(format!(
                "it is longer than {most} MiB, which is the most: perhaps a quote is not closed"
            )));
        }
        // Together with bytes of the file: a mark alone is the end of the file to the reader.
        let lead = std::mem::take(&mut self.lead);
        let (before, into) = into.split_at_mut(lead.len());
        before.copy_from_slice(lead);
        self.read_bytes += lead.len() as u64;
        let read = if self.end == End::No { self.from.read(into)? } else { 0 };
        if read == 0 {
            return Ok(lead.len() + self.read_end(into));
        }
        self.left_bytes = self.left_bytes.saturating_sub(read as u64);
        self.read_bytes += read as u64;
        self.chunk.clear();
        self.chunk.extend_from_slice(into.get(..read).unwrap_or_default());
        if self.is_before_record {
            self.count_blank(0);
        }
        Ok(lead.len() + read)
    }
}
