//! A file of records, by its format.

use byway_console::records::Format;

use crate::columns::Columns;
use crate::csv::CsvSource;
use crate::format::FileFormat;
use crate::lines::LineSource;
use crate::parquet::ParquetSource;
use crate::source::{Input, Position, Source, SourceError};

/// Opens a file of records behind a position of it.
///
/// # Errors
/// A file that cannot be read or is not of the format, and columns that it has not.
pub fn open(
    input: &dyn Input,
    format: FileFormat,
    columns: &Columns,
    at: Position,
) -> Result<Box<dyn Source>, SourceError> {
    Ok(match format {
        FileFormat::Csv => Box::new(CsvSource::open(input, columns, at)?),
        FileFormat::Parquet => Box::new(ParquetSource::open(input, columns, at)?),
        FileFormat::Unicode => Box::new(LineSource::open(input, Format::Unicode, at)?),
        FileFormat::Jsonl => Box::new(LineSource::open(input, Format::Jsonl, at)?),
        FileFormat::Tsv => Box::new(LineSource::open(input, Format::Tsv, at)?),
    })
}
