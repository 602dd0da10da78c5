//! CSV (RFC 4180): which column is the key, and which the value.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use byway_console::records::{Record, with_a_key};
use byway_console::size::counted;
use csv::{ByteRecord, ReaderBuilder};
use serde::Serializer;

use crate::columns::{Chosen, Column, Columns};
use crate::source::{Input, Place, Position, Source, SourceError, unopened};

/// Longest record that is read: twice the largest value, 16 MiB, in hexadecimal digits.
const RECORD_MAX_BYTES: u64 = 64 << 20;
/// Bytes that are read together.
const READ_BYTES: usize = 128 * 1024;

/// A CSV file.
pub(crate) struct CsvSource {
    reader: csv::Reader<Bounded>,
    left_bytes: Rc<Cell<u64>>,
    names: Vec<String>,
    chosen: Chosen,
    row: ByteRecord,
    /// Where the reader began.
    base: Position,
    records: u64,
    /// Lines before the record that was read last.
    line: u64,
}

/// A reader that fails where one record is longer than [`RECORD_MAX_BYTES`].
struct Bounded {
    from: Box<dyn Read>,
    left_bytes: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left_bytes.get() == 0 {
            let most = RECORD_MAX_BYTES >> 20;
            return Err(io::Error::other(format!("it is longer than {most} MiB, which is the most")));
        }
        let read = self.from.read(into)?;
        self.left_bytes.set(self.left_bytes.get().saturating_sub(read as u64));
        Ok(read)
    }
}

impl CsvSource {
    pub fn open(input: &dyn Input, columns: &Columns, at: Position) -> Result<Self, SourceError> {
        let left_bytes = Rc::new(Cell::new(RECORD_MAX_BYTES));
        let reader = |bytes| -> Result<csv::Reader<Bounded>, SourceError> {
            let from =
                Bounded { from: input.from(bytes).map_err(unopened)?, left_bytes: Rc::clone(&left_bytes) };
            let delimiter = columns.delimiter.unwrap_or(b',');
            let mut builder = ReaderBuilder::new();
            builder.has_headers(false).flexible(true).delimiter(delimiter).buffer_capacity(READ_BYTES);
            Ok(builder.from_reader(from))
        };
        let (mut reader, base, names) = match &columns.names {
            Some(names) => (reader(at.bytes)?, at, names.clone()),
            None => {
                let mut first = reader(0)?;
                let names = header(&mut first)?;
                if at.bytes > 0 {
                    (reader(at.bytes)?, at, names)
                } else {
                    (first, Position::default(), names)
                }
            }
        };
        let chosen = columns.choose(&names).map_err(SourceError::File)?;
        let (row, records) = (ByteRecord::new(), base.records);
        let line = base.lines + lines_of(&mut reader);
        Ok(Self { reader, left_bytes, names, chosen, row, base, records, line })
    }

    fn place_of(&self) -> Place {
        Place::Line(self.line + 1)
    }

    fn wrong(&self, why: impl Into<String>) -> SourceError {
        let fields: Vec<_> = self.row.iter().map(String::from_utf8_lossy).collect();
        SourceError::Record { place: self.place_of(), why: why.into(), text: fields.join(",") }
    }

    fn record(&self) -> Result<Record, String> {
        let (found, wanted) = (self.row.len(), self.names.len());
        if found != wanted {
            return Err(format!("it has {}, where the file has {wanted}", counted(found as u64, "column")));
        }
        let bytes_of = |column: Column| {
            let field = self.row.get(column.index).unwrap_or_default().to_vec();
            let name = self.names.get(column.index).map_or("", String::as_str);
            column.encoding.decode(field).map_err(|why| format!("column {name}: {why}"))
        };
        let value = self.chosen.value.map_or_else(|| self.whole_row(), bytes_of)?;
        with_a_key(Record { key: bytes_of(self.chosen.key)?, value })
    }

    /// The row as a JSON object, its columns in their order.
    fn whole_row(&self) -> Result<Vec<u8>, String> {
        let field = |(name, bytes): (&String, &[u8])| match std::str::from_utf8(bytes) {
            Ok(text) => Ok((name.clone(), text.to_owned())),
            Err(_) => Err(format!("column {name} is no text (UTF-8)")),
        };
        let fields: Vec<_> = self.names.iter().zip(self.row.iter()).map(field).collect::<Result<_, _>>()?;
        as_json(fields)
    }
}

/// An object of JSON, its members in their order.
pub(crate) fn as_json<V: serde::Serialize>(
    members: Vec<(impl serde::Serialize, V)>,
) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let written = serde_json::Serializer::new(&mut text).collect_map(members);
    written.map(|()| text).map_err(|error| error.to_string())
}

fn header(reader: &mut csv::Reader<Bounded>) -> Result<Vec<String>, SourceError> {
    let mut row = ByteRecord::new();
    let is_there = reader.read_byte_record(&mut row).map_err(|error| failed(error, Place::Line(1)))?;
    if !is_there {
        return Err(SourceError::File("it is empty: a CSV file begins with its columns' names".into()));
    }
    Ok(row.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Lines that a reader has behind it.
fn lines_of(reader: &mut csv::Reader<Bounded>) -> u64 {
    reader.position().line().saturating_sub(1)
}

fn failed(error: csv::Error, place: Place) -> SourceError {
    match error.into_kind() {
        csv::ErrorKind::Io(source) => SourceError::Io { place, source },
        other => SourceError::File(format!("{place}: {other:?}")),
    }
}

impl Source for CsvSource {
    fn next_record(&mut self) -> Option<Result<Record, SourceError>> {
        self.line = self.base.lines + lines_of(&mut self.reader);
        self.left_bytes.set(RECORD_MAX_BYTES);
        match self.reader.read_byte_record(&mut self.row) {
            Ok(false) => return None,
            Ok(true) => {}
            Err(error) => return Some(Err(failed(error, self.place_of()))),
        }
        self.records += 1;
        Some(self.record().and_then(with_a_key).map_err(|why| self.wrong(why)))
    }

    fn place(&self) -> Place {
        self.place_of()
    }

    fn position(&self) -> Position {
        let position = self.reader.position();
        Position {
            bytes: self.base.bytes + position.byte(),
            lines: self.base.lines + position.line().saturating_sub(1),
            records: self.records,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;
    use crate::format::FileFormat;
    use crate::source::tests::{all, goes_on_behind_each};

    fn read(text: &str, columns: &Columns) -> Vec<Result<(String, String), String>> {
        let found = all(text.as_bytes(), FileFormat::Csv, columns, Position::default());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        found
            .into_iter()
            .map(|(record, _)| record.map(|record| (text(record.key), text(record.value))))
            .collect()
    }

    fn pair(key: &str, value: &str) -> Result<(String, String), String> {
        Ok((key.into(), value.into()))
    }

    #[test]
    fn quoted_fields_hold_delimiters_quotes_and_ends_of_lines() {
        let text = "key,value\r\na,\"1,\"\"2\"\"\nthree\"\nb,\n";
        assert_eq!(read(text, &Columns::default()), [pair("a", "1,\"2\"\nthree"), pair("b", "")]);
    }

    #[test]
    fn value_without_a_column_is_the_row_in_the_order_of_its_columns() {
        let by_id = Columns { key: Some("id".into()), ..Columns::default() };
        let row = r#"{"zip":"8000","id":"7","city":"Zürich"}"#;
        assert_eq!(read("zip,id,city\n8000,7,Zürich\n", &by_id), [pair("7", row)]);
    }

    #[test]
    fn columns_without_a_header_have_the_names_that_were_given() {
        let columns = Columns {
            names: Some(vec!["value".into(), "key".into()]),
            delimiter: Some(b';'),
            value_encoding: Some(Encoding::Hex),
            ..Columns::default()
        };
        assert_eq!(read("6162;a\n", &columns), [pair("a", "ab")]);
        goes_on_behind_each(b"61;a\n\n62;b\n63;c", FileFormat::Csv, &columns);
    }

    #[test]
    fn wrong_record_is_named_by_its_line_and_the_next_is_read() {
        let found = read("key,value\na,\"1\n2\"\nb\n\nc,3\n,4\n", &Columns::default());
        assert_eq!((found.len(), &found[0], &found[2]), (4, &pair("a", "1\n2"), &pair("c", "3")));
        let (short, empty) = (found[1].as_ref().unwrap_err(), found[3].as_ref().unwrap_err());
        assert!(short.starts_with("line 4: ") && short.contains("1 column,"), "{short}");
        assert!(empty.starts_with("line 7: "), "{empty}");
    }

    #[test]
    fn reading_goes_on_behind_any_record() {
        let text = b"key,value\na,\"1\n2\"\n\nb\nc,3\r\nd,\"x\"\"y\"\ne,5";
        goes_on_behind_each(text, FileFormat::Csv, &Columns::default());
    }

    #[test]
    fn record_without_an_end_is_refused_at_the_limit() {
        struct Endless;
        impl Input for Endless {
            fn from(&self, _: u64) -> io::Result<Box<dyn Read>> {
                Ok(Box::new(io::Read::chain(&b"key,value\na,"[..], io::repeat(b'x'))))
            }
            fn file(&self) -> io::Result<std::fs::File> {
                Err(io::Error::other("none"))
            }
        }
        let mut source = CsvSource::open(&Endless, &Columns::default(), Position::default()).unwrap();
        let error = source.next_record().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("line 2: ") && error.contains("64 MiB"), "{error}");
    }
}
