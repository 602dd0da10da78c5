//! CSV (RFC 4180): which column is the key, and which the value.

use byway_console::records::{Record, with_a_key};
use byway_console::size::counted;
use csv::{ByteRecord, ReaderBuilder};
use serde::Serializer;

use crate::columns::{Chosen, Column, Columns};
use crate::csv_input::CsvInput;
use crate::source::{Input, Place, Position, Source, SourceError, unopened};

/// Bytes that are read together.
const READ_BYTES: usize = 128 * 1024;
/// Of a record that the end of the file ended.
const UNCLOSED: &str = "a quote is opened and not closed; a quote within a field is written as two";

/// A CSV file.
pub(crate) struct CsvSource {
    reader: csv::Reader<CsvInput>,
    names: Vec<String>,
    chosen: Chosen,
    row: ByteRecord,
    /// Where the reader began.
    base: Position,
    /// Bytes of a mark that the reader gets before the file's.
    lead_bytes: u64,
    records: u64,
    /// Lines before the record that was read last, or is read.
    line: u64,
}

impl CsvSource {
    pub fn open(input: &dyn Input, columns: &Columns, at: Position) -> Result<Self, SourceError> {
        let reader = |bytes| -> Result<csv::Reader<CsvInput>, SourceError> {
            let from = input.from(bytes).map_err(unopened)?;
            let from = if bytes > 0 { CsvInput::in_the_middle(from) } else { CsvInput::new(from) };
            let delimiter = columns.delimiter.unwrap_or(b',');
            let mut builder = ReaderBuilder::new();
            builder.has_headers(false).flexible(true).delimiter(delimiter).buffer_capacity(READ_BYTES);
            Ok(builder.from_reader(from))
        };
        let (reader, base, names) = match &columns.names {
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
        let chosen = columns.choose(&names).map_err(|why| {
            let delimiter = names.first().and_then(|only| other_delimiter(names.len(), only.as_bytes()));
            SourceError::File(delimiter.map_or(why, |delimiter| {
                format!("its first line is one column, {:?}: say {delimiter}", names.join(","))
            }))
        })?;
        let (row, records) = (ByteRecord::new(), base.records);
        let lead_bytes = CsvInput::lead_bytes(base.bytes > 0);
        let mut source = Self { reader, names, chosen, row, base, lead_bytes, records, line: 0 };
        source.line = source.position().lines;
        Ok(source)
    }

    fn place_of(&self) -> Place {
        Place::Line(self.line + 1)
    }

    fn wrong(&self, why: impl Into<String>) -> SourceError {
        let fields: Vec<_> = self.row.iter().map(String::from_utf8_lossy).collect();
        let mut text = fields.join(",");
        if self.reader.get_ref().is_at_end() {
            // The end of a line that the input added.
            text.pop();
        }
        SourceError::Record { place: self.place_of(), why: why.into(), text }
    }

    fn record(&self) -> Result<Record, String> {
        let (found, wanted) = (self.row.len(), self.names.len());
        if found != wanted {
            let hint = other_delimiter(found, self.row.get(0).unwrap_or_default());
            let hint = hint.map_or_else(String::new, |delimiter| format!(": perhaps say {delimiter}"));
            let found = counted(found as u64, "column");
            return Err(format!("it has {found}, where the file has {wanted}{hint}"));
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

fn header(reader: &mut csv::Reader<CsvInput>) -> Result<Vec<String>, SourceError> {
    let mut row = ByteRecord::new();
    let is_there = reader.read_byte_record(&mut row).map_err(|error| failed(error, Place::Line(1)))?;
    if !is_there {
        return Err(SourceError::File("it is empty: a CSV file begins with its columns' names".into()));
    }
    if reader.get_ref().is_at_end() {
        return Err(SourceError::File(format!("its first line: {UNCLOSED}")));
    }
    Ok(row.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// The option that would part the only column of a line, where it looks as if another character did.
fn other_delimiter(columns: usize, only: &[u8]) -> Option<&'static str> {
    let has = |byte| columns == 1 && only.contains(&byte);
    [(b'\t', "--delimiter tab"), (b';', "--delimiter ';'")]
        .into_iter()
        .find_map(|(byte, option)| has(byte).then_some(option))
}

fn failed(error: csv::Error, place: Place) -> SourceError {
    match error.into_kind() {
        csv::ErrorKind::Io(source) => SourceError::Io { place, source },
        other => SourceError::File(format!("{place}: {other:?}")),
    }
}

impl Source for CsvSource {
    fn next_record(&mut self) -> Option<Result<Record, SourceError>> {
        let (before, at) = (self.position().lines, self.reader.position().byte());
        self.reader.get_mut().begin_record(at);
        let read = self.reader.read_byte_record(&mut self.row);
        self.line = before + self.reader.get_ref().blank_lines();
        match read {
            Ok(false) => return None,
            Ok(true) => {}
            Err(error) => return Some(Err(failed(error, self.place_of()))),
        }
        self.records += 1;
        if self.reader.get_ref().is_at_end() {
            return Some(Err(self.wrong(UNCLOSED)));
        }
        Some(self.record().and_then(with_a_key).map_err(|why| self.wrong(why)))
    }

    fn place(&self) -> Place {
        self.place_of()
    }

    fn position(&self) -> Position {
        let position = self.reader.position();
        // The end of a line that the input adds to the file is none of its bytes.
        let added = position.byte().saturating_sub(self.reader.get_ref().read_bytes());
        Position {
            bytes: self.base.bytes + position.byte().saturating_sub(self.lead_bytes + added),
            lines: self.base.lines + (position.line() - 1).saturating_sub(added),
            records: self.records,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{self, Read};

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
    fn line_is_the_same_whatever_ends_lines_and_however_many_are_blank() {
        let text = "key,value\na,\"1\n2\"\nb\n\n\nc\nd,4\n,5";
        for (ends, before) in [("\n", ""), ("\r\n", ""), ("\r\n", "\u{feff}")] {
            let text = format!("{before}{}", text.replace('\n', ends));
            let found = read(&text, &Columns::default());
            let lines: Vec<_> =
                found.iter().filter_map(|record| Some(record.as_ref().err()?.split_once(':')?.0)).collect();
            assert_eq!(lines, ["line 4", "line 7", "line 9"], "{ends:?}");
            goes_on_behind_each(text.as_bytes(), FileFormat::Csv, &Columns::default());
        }
    }

    #[test]
    fn byte_order_mark_in_the_middle_of_a_file_is_a_part_of_its_record() {
        let text = "key,value\n\u{feff}a,1\n\u{feff}b,2\n";
        assert_eq!(read(text, &Columns::default()), [pair("\u{feff}a", "1"), pair("\u{feff}b", "2")]);
        goes_on_behind_each(text.as_bytes(), FileFormat::Csv, &Columns::default());
    }

    #[test]
    fn quote_that_is_not_closed_is_named_where_it_is_opened() {
        let found = read("key,value\r\na,\"1\"\r\nb,\"2\r\nc,3\r\n", &Columns::default());
        assert_eq!((found.len(), &found[0]), (2, &pair("a", "1")));
        let why = found[1].as_ref().unwrap_err();
        assert!(why.starts_with("line 3: a quote is opened and not closed"), "{why}");
        assert_eq!(read("key,value\na,\"1\"", &Columns::default()), [pair("a", "1")]);
        assert_eq!(read("key,value\na,1\"\n\n", &Columns::default()), [pair("a", "1\"")]);
    }

    #[test]
    fn other_delimiter_is_suggested() {
        let open = |text: &str, columns: &Columns| {
            let input = crate::source::tests::Bytes(text.into());
            CsvSource::open(&input, columns, Position::default()).err().map(|error| error.to_string())
        };
        let by_id = Columns { key: Some("id".into()), ..Columns::default() };
        for columns in [Columns::default(), by_id] {
            let (semicolon, tab) = (open("id;city\n", &columns), open("id\tcity\n", &columns));
            assert!(semicolon.unwrap().contains("say --delimiter ';'"));
            assert!(tab.unwrap().contains("say --delimiter tab"));
            assert!(!open("city,zip\n", &columns).unwrap().contains("--delimiter"));
        }
        let found =
            read("a;1\n", &Columns { names: Some(vec!["key".into(), "value".into()]), ..Columns::default() });
        assert!(found[0].as_ref().unwrap_err().ends_with("perhaps say --delimiter ';'"), "{found:?}");
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
