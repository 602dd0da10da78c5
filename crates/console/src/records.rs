//! Records in files: the Unicode Character Database, lines with a tab in them, and lines of JSON for everything else.
//!
//! The Unicode Character Database (`UnicodeData.txt`, Debian package `unicode-data`) has one record a line, some
//! 35,000 of 20 to 300 bytes. Its key is the first field, the code point in hexadecimal; its value is the record.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Write};

use byway::Key;
use serde::{Deserialize, Serialize};

use crate::json;

/// Longest line that is read. The largest value is 16 MiB: 32 MiB in hexadecimal digits.
const LINE_MAX_BYTES: usize = 64 << 20;
/// What is kept of a longer one, to be shown.
const BEGINNING_BYTES: usize = 1024;
/// What some programs write before the first line of a UTF-8 file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Format of records in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The Unicode Character Database: key before the first `;`, value the whole line.
    Unicode,
    /// One JSON object a line: `{"key": …, "value": …}`; `key_hex` and `value_hex` for bytes that are no text.
    Jsonl,
    /// Key before the first tab of a line, value after it. What holds an end of a line cannot be written so.
    Tsv,
}

impl Format {
    /// The format that a file's name implies.
    pub fn of_name(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("jsonl" | "ndjson") => Self::Jsonl,
            Some("tsv") => Self::Tsv,
            _ => Self::Unicode,
        }
    }
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file could not be read.
    #[error("line {line}: {source}")]
    Io {
        /// Counted from 1.
        line: u64,
        /// What reading the file failed with.
        source: io::Error,
    },
    /// The line is no record.
    #[error("line {line}: {why}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong with the line, as a phrase.
        why: String,
    },
}

/// Why a line could not be read.
enum LineError {
    /// What reading the file failed with.
    Io(io::Error),
    /// Longer than [`LINE_MAX_BYTES`].
    Long,
    /// Memory for so many bytes of it could not be had.
    Memory(usize),
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The records of a file, one after another.
pub struct Records<R> {
    from: R,
    format: Format,
    line: u64,
    bytes: u64,
    text: Vec<u8>,
    /// Whether the rest of a line that is too long is unread.
    has_rest: bool,
}

impl<R: BufRead> Records<R> {
    /// Reads records of a format.
    pub fn new(from: R, format: Format) -> Self {
        Self::behind(from, format, 0, 0)
    }

    /// The same of a file that is read from the end of a line on: so many lines and bytes of it were read before.
    pub fn behind(from: R, format: Format, line: u64, bytes: u64) -> Self {
        Self { from, format, line, bytes, text: Vec::new(), has_rest: false }
    }

    /// Bytes of the file up to the end of the line that was read last.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The line that was read last, without its end; of one that is too long, its beginning.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The line of the record that was read last, counted from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn read_line(&mut self) -> Option<Result<(), RecordError>> {
        let rest = self.skip_rest().map_err(LineError::Io);
        self.text.clear();
        self.line += 1;
        let line = self.line;
        match rest.and_then(|()| self.fill_line()) {
            Ok(()) if self.text.is_empty() => None,
            Ok(()) => {
                if line == 1 && self.text.starts_with(BYTE_ORDER_MARK) {
                    self.text.drain(..BYTE_ORDER_MARK.len());
                }
                while matches!(self.text.last(), Some(b'\n' | b'\r')) {
                    self.text.pop();
                }
                Some(Ok(()))
            }
            Err(LineError::Long) => {
                let why = format!("it is longer than {} MiB, which is the most", LINE_MAX_BYTES >> 20);
                Some(Err(RecordError::Line { line, why }))
            }
            Err(LineError::Memory(bytes)) => {
                let why = format!("no memory for a line of over {bytes} bytes");
                Some(Err(RecordError::Line { line, why }))
            }
            Err(LineError::Io(source)) => Some(Err(RecordError::Io { line, source })),
        }
    }

    /// Reads up to the end of a line, or of the file. Of a line that is too long only a beginning is read, and kept.
    fn fill_line(&mut self) -> Result<(), LineError> {
        loop {
            let text = &mut self.text;
            let part = take_part(&mut self.from, |part| append(text, part));
            let (read, is_end) =
                part.inspect_err(|error| self.has_rest = !matches!(error, LineError::Io(_)))?;
            self.bytes += read;
            if is_end {
                return Ok(());
            }
        }
    }

    /// Reads what is left of a line that was too long: it is no line of its own.
    ///
    /// # Errors
    /// Those of the file.
    pub fn skip_rest(&mut self) -> io::Result<()> {
        while self.has_rest {
            let (read, is_end) = take_part(&mut self.from, |_| Ok::<_, io::Error>(()))?;
            self.bytes += read;
            self.has_rest = !is_end;
        }
        Ok(())
    }

    fn parse(&self) -> Result<Record, RecordError> {
        let record = match self.format {
            Format::Unicode => parse_unicode(&self.text),
            Format::Jsonl => parse_json(&self.text),
            Format::Tsv => parse_tsv(&self.text),
        };
        record.and_then(with_a_key).map_err(|why| RecordError::Line { line: self.line, why })
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read_line()? {
                Ok(()) if self.text.is_empty() => {}
                Ok(()) => return Some(self.parse()),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Takes what is buffered of a line, up to its end, and gives its length and whether the line, or the file, ends there. What
/// cannot be kept is not taken.
fn take_part<E: From<io::Error>>(
    from: &mut impl BufRead,
    keep: impl FnOnce(&[u8]) -> Result<(), E>,
) -> Result<(u64, bool), E> {
    let some = loop {
        match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
            Ok(some) => break some.len(),
        }
    };
    let some = if some == 0 { &[] } else { from.fill_buf()? };
    let end = some.iter().position(|byte| *byte == b'\n');
    let part = end.map_or(some, |end| &some[..=end]);
    keep(part)?;
    let (read, is_end) = (part.len(), end.is_some() || part.is_empty());
    from.consume(read);
    Ok((read as u64, is_end))
}

/// Adds a part of a line. Memory that cannot be had is an error, where a Vec that grows would abort.
fn append(line: &mut Vec<u8>, part: &[u8]) -> Result<(), LineError> {
    let bytes = line.len() + part.len();
    let why = if bytes > LINE_MAX_BYTES {
        LineError::Long
    } else if line.try_reserve(part.len()).is_err() {
        LineError::Memory(bytes)
    } else {
        line.extend_from_slice(part);
        return Ok(());
    };
    line.truncate(BEGINNING_BYTES);
    Err(why)
}

/// The record, if its key is one.
///
/// # Errors
/// A key of a wrong length, as a phrase.
pub fn with_a_key(record: Record) -> Result<Record, String> {
    match Key::new(&record.key) {
        Ok(_) => Ok(record),
        Err(error) => Err(key_error(&record.key, error)),
    }
}

/// Why bytes are no key, and what can be done, as a phrase.
pub fn key_error(bytes: &[u8], error: impl fmt::Display) -> String {
    if bytes.len() > Key::MAX_BYTES {
        return format!("{error}: use a shorter key, or a hash of it");
    }
    error.to_string()
}

fn parse_unicode(line: &[u8]) -> Result<Record, String> {
    let end = line.iter().position(|&byte| byte == b';').ok_or("there is no `;` behind a code point")?;
    let key = &line[..end];
    if !(4..=6).contains(&key.len()) || !key.iter().all(u8::is_ascii_hexdigit) {
        return Err(format!(
            "{:?} is no code point of 4 to 6 hexadecimal digits",
            String::from_utf8_lossy(key)
        ));
    }
    Ok(Record { key: key.to_vec(), value: line.to_vec() })
}

fn parse_tsv(line: &[u8]) -> Result<Record, String> {
    let tab = line.iter().position(|&byte| byte == b'\t').ok_or("there is no tab behind a key")?;
    Ok(Record { key: line[..tab].to_vec(), value: line[tab + 1..].to_vec() })
}

/// A key, or a key with its value, as JSON: `key` and `value` where they are text (UTF-8), `key_hex` and `value_hex` where not.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonRecord<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_hex: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_hex: Option<Cow<'a, str>>,
}

impl<'a> JsonRecord<'a> {
    /// A key; in `hex` whatever it is, where that was asked for.
    pub fn of_key(key: &'a [u8], hex: bool) -> Self {
        match std::str::from_utf8(key) {
            Ok(text) if !hex => Self { key: Some(text.into()), ..Self::default() },
            _ => Self { key_hex: Some(to_hex(key).into()), ..Self::default() },
        }
    }

    /// The key with its value.
    pub fn with_value(self, value: &'a [u8]) -> Self {
        match std::str::from_utf8(value) {
            Ok(text) => Self { value: Some(text.into()), ..self },
            Err(_) => Self { value_hex: Some(to_hex(value).into()), ..self },
        }
    }
}

fn parse_json(line: &[u8]) -> Result<Record, String> {
    // serde would read a list as the fields of an object, in their order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(not_an_object(line));
    }
    let json: JsonRecord = serde_json::from_slice(line)
        .map_err(|error| format!("{} (byte {})", json::why(&error), error.column()))?;
    let key = bytes_of("key", json.key.as_deref(), json.key_hex.as_deref())?;
    let value = bytes_of("value", json.value.as_deref(), json.value_hex.as_deref())?;
    Ok(Record { key, value })
}

/// Why a line that does not begin as a JSON object is no record.
fn not_an_object(line: &[u8]) -> String {
    use serde_json::Value;
    let found = match serde_json::from_slice(line) {
        Ok(Value::Array(_)) => "a list",
        Ok(Value::String(_)) => "a string",
        Ok(Value::Number(_)) => "a number",
        Ok(_) => "true, false or null",
        Err(_) => "not JSON",
    };
    format!(r#"a record is an object such as {{"key": "a", "value": "b"}}; this is {found}"#)
}

fn bytes_of(name: &str, text: Option<&str>, hex: Option<&str>) -> Result<Vec<u8>, String> {
    match (text, hex) {
        (Some(text), None) => Ok(text.as_bytes().to_vec()),
        (None, Some(hex)) => parse_hex(hex),
        _ => Err(format!("expected one of `{name}` and `{name}_hex`")),
    }
}

/// Writes one record as a line of its format.
///
/// # Errors
/// Those of the writer, and bytes that the format has no way to write.
pub fn write(out: &mut impl Write, format: Format, key: &[u8], value: &[u8]) -> io::Result<()> {
    match format {
        Format::Unicode => out.write_all(value)?,
        Format::Jsonl => write_json(&mut *out, key, value)?,
        Format::Tsv => write_tsv(&mut *out, key, value)?,
    }
    out.write_all(b"\n")
}

fn write_json(out: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    let json = JsonRecord::of_key(key, false).with_value(value);
    serde_json::to_writer(out, &json).map_err(io::Error::from)
}

fn write_tsv(out: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    let ends_a_line = |bytes: &[u8]| bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    if key.contains(&b'\t') || ends_a_line(key) || ends_a_line(value) {
        let why =
            format!("key {} or its value has a tab or an end of a line: export it as jsonl", to_hex(key));
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    out.write_all(&[key, b"\t", value].concat())
}

/// Bytes from hexadecimal digits.
///
/// # Errors
/// An odd number of digits, or other letters.
pub fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let error = || format!("{text:?} is no even number of hexadecimal digits");
    if !text.len().is_multiple_of(2) || !text.bytes().all(|letter| letter.is_ascii_hexdigit()) {
        return Err(error());
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| error()))
        .collect()
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str, format: Format) -> Vec<Result<Record, RecordError>> {
        Records::new(text.as_bytes(), format).collect()
    }

    #[test]
    fn a_unicode_record_is_keyed_by_its_code_point_and_kept_whole() {
        let text =
            "0041;LATIN CAPITAL LETTER A;Lu;0;L;;;;;N;;;;0061;\n1F600;GRINNING FACE;So;0;ON;;;;;N;;;;;\n";
        let records = read(text, Format::Unicode);
        assert_eq!(records.len(), 2);
        let first = records[0].as_ref().unwrap();
        assert_eq!(first.key, b"0041");
        assert_eq!(first.value, b"0041;LATIN CAPITAL LETTER A;Lu;0;L;;;;;N;;;;0061;");
        assert_eq!(records[1].as_ref().unwrap().key, b"1F600");
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for (text, line, why) in [
            ("0041;A\nnothing here\n", "line 2", "no `;`"),
            ("0041;A\n\nxyz!;B\n", "line 3", "no code point"),
            ("\u{ff}\u{ff};B", "line 1", "no code point"),
        ] {
            let error = read(text, Format::Unicode).pop().unwrap().unwrap_err().to_string();
            assert!(error.contains(line) && error.contains(why), "{error}");
        }
        let error = read("{\"key\": \"a\"}", Format::Jsonl).pop().unwrap().unwrap_err().to_string();
        assert!(error.contains("value_hex"), "{error}");
        for (text, found) in
            [("[1,2]", "a list"), (r#"["a",null,"b",null]"#, "a list"), ("5", "a number"), ("x", "not JSON")]
        {
            let error = read(text, Format::Jsonl).pop().unwrap().unwrap_err().to_string();
            assert!(error.contains("is an object such as") && error.ends_with(found), "{error}");
        }
        let error = read("{\"kee\": \"a\"}", Format::Jsonl).pop().unwrap().unwrap_err().to_string();
        assert!(
            error.starts_with("line 1: the name \"kee\" is not known here: known are key, key_hex"),
            "{error}"
        );
    }

    /// A terminal: an end of file, after which there may be more.
    struct Typed(Vec<&'static [u8]>);

    impl io::Read for Typed {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let typed = self.0.pop().unwrap_or_default();
            into[..typed.len()].copy_from_slice(typed);
            Ok(typed.len())
        }
    }

    #[test]
    fn first_end_of_file_is_the_end() {
        let typed = io::BufReader::new(Typed(vec![b"c\td\n", b"", b"a\tb\n"]));
        let mut records = Records::new(typed, Format::Tsv);
        assert_eq!(records.next().unwrap().unwrap().key, b"a");
        assert!(records.next().is_none());
    }

    #[test]
    fn rest_of_a_line_that_is_too_long_is_no_record() {
        let long = std::iter::repeat_n(b'x', LINE_MAX_BYTES).chain(*b"a\tb\nkey\tvalue\n");
        let long: Vec<u8> = long.collect();
        let mut records = Records::new(io::BufReader::new(&long[..]), Format::Tsv);
        assert!(
            records.next().unwrap().unwrap_err().to_string().starts_with("line 1: it is longer than 64 MiB")
        );
        assert_eq!(records.text().len(), BEGINNING_BYTES);
        assert!(records.bytes() < LINE_MAX_BYTES as u64 + 4);
        let next = records.next().unwrap().unwrap();
        assert_eq!((next.key, records.line(), records.bytes()), (b"key".to_vec(), 2, long.len() as u64));
        assert!(records.next().is_none());
    }

    #[test]
    fn hexadecimal_of_odd_length_or_other_letters_is_refused() {
        for text in ["0", "zz", "é", "+1"] {
            assert!(parse_hex(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn json_lines_bring_every_record_back(key in proptest::collection::vec(any::<u8>(), 1..16),
                                              value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut text = Vec::new();
            write(&mut text, Format::Jsonl, &key, &value).unwrap();
            let records: Vec<Record> = Records::new(&text[..], Format::Jsonl).map(Result::unwrap).collect();
            prop_assert_eq!(records, vec![Record { key, value }]);
        }

        #[test]
        fn tabbed_lines_bring_back_what_they_can_hold(key in proptest::collection::vec(any::<u8>(), 1..16),
                                                      value in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut text = Vec::new();
            if write(&mut text, Format::Tsv, &key, &value).is_ok() {
                let records: Vec<Record> = Records::new(&text[..], Format::Tsv).map(Result::unwrap).collect();
                prop_assert_eq!(records, vec![Record { key, value }]);
            } else {
                prop_assert!(key.iter().chain(&value).any(|byte| b"\t\r\n".contains(byte)));
            }
        }

        #[test]
        fn any_bytes_are_records_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for format in [Format::Unicode, Format::Jsonl, Format::Tsv] {
                for record in Records::new(&bytes[..], format) {
                    drop(record);
                }
            }
        }
    }
}
