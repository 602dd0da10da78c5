//! An object as the Parquet library reads it: every read is checked, counted, and bounded.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

use super::page_header::{self, NoHeader, PageHeader};
use crate::error::QueryError;
use crate::limits::Watch;
use crate::object::Object;

/// Reads an object for one query.
#[derive(Debug, Clone)]
pub(super) struct ObjectReader {
    object: Arc<dyn Object>,
    watch: Arc<Watch>,
    /// Whether streams begin at pages, whose headers say how much memory their pages need.
    streams_are_pages: bool,
}

/// Bytes that a stream reads at a time.
const STEP_BYTES: u64 = 1 << 10;

/// Bytes in which a page's header is looked for. It is longer than the first only with long strings in its statistics.
const HEADER_BYTES: [u64; 3] = [256, 64 << 10, 16 << 20];

/// Most bytes that the library needs for a value of a dictionary, beside those of strings.
const VALUE_BYTES: usize = 16;

impl ObjectReader {
    /// A reader of the footer.
    pub fn new(object: Arc<dyn Object>, watch: Arc<Watch>) -> Self {
        Self { object, watch, streams_are_pages: false }
    }

    /// The same, to read pages by.
    pub fn of_pages(&self) -> Self {
        Self { streams_are_pages: true, ..self.clone() }
    }

    /// The header of the page at `start`, which needs no more memory than a query may take.
    pub fn page_header(&self, start: u64) -> std::result::Result<PageHeader, QueryError> {
        for bytes in HEADER_BYTES {
            let left = self.object.len_bytes().saturating_sub(start);
            match page_header::read(&self.read(start, left.min(bytes) as usize)?) {
                Ok(header) => {
                    self.watch.check_memory(header.uncompressed_bytes)?;
                    self.watch.check_memory(header.dictionary_values().saturating_mul(VALUE_BYTES))?;
                    return Ok(header);
                }
                Err(NoHeader::Cut) => {}
                Err(NoHeader::Wrong) => break,
            }
        }
        Err(QueryError::Damaged(format!("no page begins at byte {start}")))
    }

    /// Bytes of the object.
    pub fn read(&self, start: u64, len_bytes: usize) -> std::result::Result<Bytes, QueryError> {
        self.watch.check()?;
        self.watch.check_memory(len_bytes)?;
        let end = start.checked_add(len_bytes as u64).filter(|end| *end <= self.object.len_bytes());
        if end.is_none() {
            return Err(QueryError::Damaged(format!(
                "it names {len_bytes} bytes at {start}, and has {} bytes",
                self.object.len_bytes()
            )));
        }
        self.watch.note_read(len_bytes);
        Ok(self.object.read(start, len_bytes)?)
    }
}

impl Length for ObjectReader {
    fn len(&self) -> u64 {
        self.object.len_bytes()
    }
}

impl ChunkReader for ObjectReader {
    type T = Stream;

    fn get_read(&self, start: u64) -> Result<Stream> {
        Ok(Stream { reader: self.clone(), start, at: start, buffer: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.read(start, length).map_err(|error| self.watch.note_failure(error))
    }
}

/// Reads an object from a position on. The Parquet library begins streams that it does not read, inside of pages too.
pub(super) struct Stream {
    reader: ObjectReader,
    start: u64,
    at: u64,
    buffer: Bytes,
}

impl Stream {
    fn fill(&mut self) -> std::result::Result<(), QueryError> {
        if self.reader.streams_are_pages && self.at == self.start {
            self.check_page()?;
        }
        self.buffer = self.reader.read(self.at, self.step(STEP_BYTES))?;
        self.at += self.buffer.len() as u64;
        Ok(())
    }

    /// The next bytes, at most `bytes` and up to the object's end.
    fn step(&self, bytes: u64) -> usize {
        self.reader.object.len_bytes().saturating_sub(self.at).min(bytes) as usize
    }

    fn check_page(&self) -> std::result::Result<(), QueryError> {
        self.reader.page_header(self.start).map(drop)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            let filled = self.fill();
            filled.map_err(|error| io::Error::other(self.reader.watch.note_failure(error)))?;
        }
        let bytes = into.len().min(self.buffer.len());
        self.buffer.copy_to_slice(&mut into[..bytes]);
        Ok(bytes)
    }
}
