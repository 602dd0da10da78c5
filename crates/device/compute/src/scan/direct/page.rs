//! Pages without compression, in memory that is used again.

use std::ops::Range;

use bytes::Bytes;
use parquet::basic::Compression;

use super::super::page_header::{Encoding, PageHeader, PageKind};
use super::super::reader::ObjectReader;
use super::hybrid::HybridDecoder;
use crate::error::QueryError;

/// How the pages of a column are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Snappy,
    Zstd,
}

impl Codec {
    /// The codec; `None` for others, which the `parquet` crate reads.
    pub fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::UNCOMPRESSED => Some(Self::None),
            Compression::SNAPPY => Some(Self::Snappy),
            Compression::ZSTD(_) => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// How the values of a page are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueEncoding {
    Plain,
    Dictionary,
}

/// Where the parts of a page of rows are in its bytes.
#[derive(Debug)]
pub(super) struct PageParts {
    /// Rows, also those with NULL.
    pub rows: usize,
    pub encoding: ValueEncoding,
    /// 1 for a row with a value, 0 for NULL; `None` where the column has no NULLs.
    pub definition_levels: Option<HybridDecoder>,
    pub bytes: Range<usize>,
}

fn damaged(why: &str) -> QueryError {
    QueryError::Damaged(why.to_owned())
}

/// Reads pages into one buffer.
pub(super) struct PageReader {
    reader: ObjectReader,
    codec: Codec,
    is_optional: bool,
    /// Current page, if it is uncompressed: a slice of the object.
    stored: Option<Bytes>,
    /// Otherwise the decompressed page, in `..len_bytes`; bytes after that belong to earlier pages.
    buffer: Vec<u8>,
    len_bytes: usize,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl PageReader {
    pub fn new(reader: ObjectReader, codec: Codec, is_optional: bool) -> Self {
        Self { reader, codec, is_optional, stored: None, buffer: Vec::new(), len_bytes: 0, zstd: None }
    }

    /// Has it read pages of another row group, or of another object.
    pub fn restart(&mut self, reader: ObjectReader, codec: Codec) {
        (self.reader, self.codec, self.stored, self.len_bytes) = (reader, codec, None, 0);
    }

    /// Bytes of memory for pages.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// The page that was read last.
    pub fn page(&self) -> &[u8] {
        self.stored.as_deref().unwrap_or(&self.buffer[..self.len_bytes])
    }

    /// The header of the page at `start`.
    pub fn header(&self, start: u64) -> Result<PageHeader, QueryError> {
        self.reader.page_header(start)
    }

    /// Reads the values of a dictionary.
    pub fn read_dictionary(&mut self, start: u64, header: &PageHeader) -> Result<(), QueryError> {
        self.read(start, header, 0, true)
    }

    /// Reads a page of rows.
    pub fn read_rows(&mut self, start: u64, header: &PageHeader) -> Result<PageParts, QueryError> {
        match header.kind {
            PageKind::Data { rows, encoding, levels } => {
                self.read(start, header, 0, true)?;
                let levels = self.is_optional.then(|| self.definition_levels_in_front(levels)).transpose()?;
                let begin = levels.as_ref().map_or(0, |levels| levels.end);
                self.parts(rows, encoding, levels, begin)
            }
            PageKind::DataV2 { rows, encoding, level_bytes, is_compressed } => {
                self.read(start, header, level_bytes, is_compressed)?;
                self.parts(rows, encoding, self.is_optional.then_some(0..level_bytes), level_bytes)
            }
            PageKind::Dictionary { .. } | PageKind::Other => Err(damaged("a page of rows is none")),
        }
    }

    /// Definition levels that begin with their length.
    fn definition_levels_in_front(&self, encoding: Encoding) -> Result<Range<usize>, QueryError> {
        const LENGTH_BYTES: usize = 4;
        let length = self.page().first_chunk::<LENGTH_BYTES>().filter(|_| encoding == Encoding::RLE);
        let length = u32::from_le_bytes(*length.ok_or_else(|| damaged("a page has no levels"))?);
        let levels = LENGTH_BYTES..LENGTH_BYTES.saturating_add(length as usize);
        if levels.end > self.page().len() {
            return Err(damaged("levels are longer than their page"));
        }
        Ok(levels)
    }

    fn parts(
        &self,
        rows: usize,
        encoding: Encoding,
        levels: Option<Range<usize>>,
        begin: usize,
    ) -> Result<PageParts, QueryError> {
        let encoding = match encoding {
            Encoding::PLAIN => ValueEncoding::Plain,
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY => ValueEncoding::Dictionary,
            _ => return Err(damaged("a page is not written as the footer says")),
        };
        let definition_levels = levels.map(|bytes| HybridDecoder::new(1, bytes)).transpose()?;
        Ok(PageParts { rows, encoding, definition_levels, bytes: begin..self.page().len() })
    }

    /// Reads a page whose first `plain_bytes` are not compressed.
    fn read(
        &mut self,
        start: u64,
        header: &PageHeader,
        plain_bytes: usize,
        is_compressed: bool,
    ) -> Result<(), QueryError> {
        let stored = self.reader.read(start + header.header_bytes as u64, header.stored_bytes)?;
        let codec = if is_compressed { self.codec } else { Codec::None };
        let is_as_stored = codec == Codec::None && stored.len() == header.uncompressed_bytes;
        if is_as_stored && plain_bytes <= stored.len() {
            (self.len_bytes, self.stored) = (0, Some(stored));
            return Ok(());
        }
        self.stored = None;
        let cut = || damaged("levels are longer than their page");
        let (plain, compressed) = stored.split_at_checked(plain_bytes).ok_or_else(cut)?;
        let bytes = header.uncompressed_bytes.checked_sub(plain_bytes).ok_or_else(cut)?;
        self.len_bytes = header.uncompressed_bytes;
        if self.buffer.len() < self.len_bytes {
            self.buffer.resize(self.len_bytes, 0);
        }
        self.buffer[..plain_bytes].copy_from_slice(plain);
        if self.decompress(codec, compressed, plain_bytes..self.len_bytes)? != bytes {
            return Err(damaged("a page has not the length that it states"));
        }
        Ok(())
    }

    /// Decompresses to `into` of the buffer, and gives how many bytes that was.
    fn decompress(
        &mut self,
        codec: Codec,
        compressed: &[u8],
        into: Range<usize>,
    ) -> Result<usize, QueryError> {
        let into = &mut self.buffer[into];
        match codec {
            _ if compressed.is_empty() => Ok(0),
            Codec::None => {
                let bytes = compressed.len().min(into.len());
                into[..bytes].copy_from_slice(&compressed[..bytes]);
                Ok(compressed.len())
            }
            Codec::Snappy => snap::raw::Decoder::new().decompress(compressed, into).map_err(codec_error),
            Codec::Zstd => {
                let decoder = match &mut self.zstd {
                    Some(decoder) => decoder,
                    none => none.insert(zstd::bulk::Decompressor::new().map_err(codec_error)?),
                };
                decoder.decompress_to_buffer(compressed, into).map_err(codec_error)
            }
        }
    }
}

fn codec_error(error: impl std::fmt::Display) -> QueryError {
    QueryError::Damaged(error.to_string())
}
