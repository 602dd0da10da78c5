//! Results as bytes: CSV, JSON lines or a stream of Arrow IPC.

use std::io::{self, Write};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_json::WriterBuilder as JsonBuilder;
use arrow_json::writer::LineDelimited;
use arrow_schema::{ArrowError, SchemaRef};

use crate::error::{Limit, QueryError};

/// How a result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Comma-separated values (RFC 4180) with `\n` behind each line; NULL is an empty field.
    Csv {
        /// The first line names the columns.
        header: bool,
    },
    /// An object of JSON a line.
    JsonLines,
    /// A stream of Arrow IPC (Arrow columnar format, "IPC Streaming Format").
    ArrowStream,
}

/// Text of a result that is made before it is handed over, about.
const PIECE_BYTES: usize = 64 << 10;

/// The same at most: rows of a piece may be longer than those before.
const PIECE_MAX_BYTES: usize = 64 << 20;

/// Rows of a piece, first and at most.
const ROWS_FIRST: usize = 8;
const ROWS_MAX: usize = 1 << 13;

/// Bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    /// Bytes that may follow.
    left_bytes: usize,
    is_over: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left_bytes = self.left_bytes.checked_sub(bytes.len());
        let is_piece = self.bytes.len() + bytes.len() <= PIECE_MAX_BYTES;
        let Some(left_bytes) = left_bytes.filter(|_| is_piece) else {
            self.is_over = true;
            return Err(io::Error::other("the result is over its limit"));
        };
        self.left_bytes = left_bytes;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes batches of a result.
pub(crate) struct Output {
    form: Form,
    limit_bytes: usize,
    rows_at_once: usize,
}

enum Form {
    Csv { header: Option<SchemaRef>, into: Bounded },
    JsonLines(arrow_json::Writer<Bounded, LineDelimited>),
    ArrowStream(Box<StreamWriter<Bounded>>),
}

impl Output {
    /// An empty result with the columns of `schema`.
    pub fn new(format: Format, schema: &SchemaRef, limit_bytes: usize) -> Result<Self, QueryError> {
        let into = Bounded { bytes: Vec::new(), left_bytes: limit_bytes, is_over: false };
        let form = match format {
            Format::Csv { header } => Form::Csv { header: header.then(|| schema.clone()), into },
            Format::JsonLines => Form::JsonLines(JsonBuilder::new().with_explicit_nulls(true).build(into)),
            Format::ArrowStream => Form::ArrowStream(Box::new(StreamWriter::try_new(into, schema)?)),
        };
        Ok(Self { form, limit_bytes, rows_at_once: ROWS_FIRST })
    }

    /// Adds a batch with the columns of the schema.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let over = QueryError::Over(Limit::Result { limit_bytes: self.limit_bytes });
        let (result, is_over) = match &mut self.form {
            Form::Csv { header: None, into } if batch.columns().iter().all(is_number) => {
                (write_numbers(batch, into), into.is_over)
            }
            Form::Csv { header, into } => {
                let with_header = header.take().is_some();
                let mut writer = arrow_csv::WriterBuilder::new().with_header(with_header).build(&mut *into);
                let result = writer.write(batch);
                drop(writer);
                (result, into.is_over)
            }
            Form::JsonLines(writer) => {
                let result = writer.write(batch);
                (result, writer.get_ref().is_over)
            }
            Form::ArrowStream(writer) => {
                let result = writer.write(batch);
                (result, writer.get_ref().is_over)
            }
        };
        if is_over { Err(over) } else { Ok(result?) }
    }

    /// What was written since the last call.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let into = match &mut self.form {
            Form::Csv { into, .. } => into,
            Form::JsonLines(writer) => writer.get_mut(),
            Form::ArrowStream(writer) => writer.get_mut(),
        };
        let bytes = std::mem::take(&mut into.bytes);
        self.rows_at_once = match bytes.len() {
            0..PIECE_BYTES => (self.rows_at_once * 2).min(ROWS_MAX),
            _ => (self.rows_at_once / 2).max(1),
        };
        bytes
    }

    /// Rows to write at once, so that a piece of text has about [`PIECE_BYTES`]. A batch of Arrow is no longer than its arrays.
    pub fn rows_at_once(&self) -> usize {
        match &self.form {
            Form::ArrowStream(_) => usize::MAX,
            Form::Csv { .. } | Form::JsonLines(_) => self.rows_at_once,
        }
    }

    /// Ends the result; what was written since the last [`take_bytes`](Self::take_bytes).
    pub fn end(&mut self) -> Result<Vec<u8>, QueryError> {
        let over = QueryError::Over(Limit::Result { limit_bytes: self.limit_bytes });
        let ended = match &mut self.form {
            Form::Csv { header, into } => match header.take() {
                None => Ok(()),
                Some(schema) => {
                    let empty = RecordBatch::new_empty(schema);
                    arrow_csv::WriterBuilder::new().with_header(true).build(into).write(&empty)
                }
            },
            Form::JsonLines(writer) => writer.finish(),
            Form::ArrowStream(writer) => writer.finish(),
        };
        ended.map_err(|_| over)?;
        Ok(self.take_bytes())
    }
}

/// Whether a column's values are written without quotes, as they are.
fn is_number(column: &ArrayRef) -> bool {
    column.data_type().is_numeric()
}

/// Writes lines of numbers: what `arrow_csv` writes, without the memory that it needs for quotes.
fn write_numbers(batch: &RecordBatch, into: &mut Bounded) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let is_alone = columns.len() == 1;
    for row in 0..batch.num_rows() {
        for (index, column) in columns.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Write `""` for a lone NULL, as `arrow_csv` does: CSV readers skip empty lines.
            if is_alone && batch.column(index).is_null(row) {
                into.write_all(b"\"\"")?;
            } else {
                write!(into, "{comma}{}", column.value(row))?;
            }
        }
        into.write_all(b"\n")?;
    }
    Ok(())
}
