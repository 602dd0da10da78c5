//! An object as the Parquet library reads it: every read is checked, counted, and bounded.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

use super::page_header;
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

/// Bytes that a stream reads at a time: a page's header is shorter.
const STEP_BYTES: u64 = 1 << 10;

impl ObjectReader {
    /// A reader of the footer.
    pub fn new(object: Arc<dyn Object>, watch: Arc<Watch>) -> Self {
        Self { object, watch, streams_are_pages: false }
    }

    /// The same, to read pages by.
    pub fn of_pages(&self) -> Self {
        Self { streams_are_pages: true, ..self.clone() }
    }

    fn read(&self, start: u64, len_bytes: usize) -> std::result::Result<Bytes, QueryError> {
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
        let left = self.reader.object.len_bytes().saturating_sub(self.at);
        let step = left.min(STEP_BYTES);
        self.buffer = self.reader.read(self.at, step as usize)?;
        if self.reader.streams_are_pages && self.at == self.start {
            self.check_page()?;
        }
        self.at += step;
        Ok(())
    }

    fn check_page(&self) -> std::result::Result<(), QueryError> {
        let page_bytes = page_header::uncompressed_bytes(&self.buffer)
            .ok_or_else(|| QueryError::Damaged(format!("no page begins at byte {}", self.start)))?;
        self.reader.watch.check_memory(page_bytes)
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
