//! Records that are lines.

use std::io::{BufReader, Read};

use byway_console::records::{Format, Record, RecordError, Records};

use crate::source::{Input, Place, Position, Source, SourceError, unopened};

/// Bytes that are read together.
const READ_BYTES: usize = 128 * 1024;

/// A file of lines.
pub(crate) struct LineSource {
    lines: Records<BufReader<Box<dyn Read>>>,
    records: u64,
}

impl LineSource {
    pub fn open(input: &dyn Input, format: Format, at: Position) -> Result<Self, SourceError> {
        let from = input.from(at.bytes).map_err(unopened)?;
        let from = BufReader::with_capacity(READ_BYTES, from);
        Ok(Self { lines: Records::behind(from, format, at.lines, at.bytes), records: at.records })
    }
}

impl Source for LineSource {
    fn next_record(&mut self) -> Option<Result<Record, SourceError>> {
        let record = self.lines.next()?;
        self.records += 1;
        Some(record.map_err(|error| match error {
            RecordError::Io { line, source } => SourceError::Io { place: Place::Line(line), source },
            RecordError::Line { line, why } => {
                let text = String::from_utf8_lossy(self.lines.text()).into_owned();
                SourceError::Record { place: Place::Line(line), why, text }
            }
        }))
    }

    fn skip_rest(&mut self) -> Result<(), SourceError> {
        let place = self.place();
        self.lines.skip_rest().map_err(|source| SourceError::Io { place, source })
    }

    fn place(&self) -> Place {
        Place::Line(self.lines.line())
    }

    fn position(&self) -> Position {
        Position { bytes: self.lines.bytes(), lines: self.lines.line(), records: self.records }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Columns;
    use crate::format::FileFormat;
    use crate::source::tests::{all, goes_on_behind_each};

    #[test]
    fn reading_goes_on_behind_any_line() {
        let text = b"a\t1\n\nno tab here\nb\t2\r\nc\t3";
        goes_on_behind_each(text, FileFormat::Tsv, &Columns::default());
        let found = all(text, FileFormat::Tsv, &Columns::default(), Position::default());
        assert!(matches!(&found[1].0, Err(why) if why.starts_with("line 3: ")), "{found:?}");
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn line_is_the_same_whatever_ends_lines_and_a_byte_order_mark_is_no_part_of_a_key() {
        for (format, text) in [
            (FileFormat::Tsv, "a\t1\n\nb\n\n\nc\nd\t2"),
            (
                FileFormat::Jsonl,
                "{\"key\":\"a\",\"value\":\"1\"}\n\nb\n\n\nc\n{\"key\":\"d\",\"value\":\"2\"}\n",
            ),
        ] {
            for (ends, before) in [("\n", ""), ("\r\n", "\u{feff}")] {
                let text = format!("{before}{}", text.replace('\n', ends));
                let found = all(text.as_bytes(), format, &Columns::default(), Position::default());
                assert_eq!(found[0].0.as_ref().map(|record| &record.key[..]), Ok(&b"a"[..]), "{format:?}");
                let wrong =
                    found.iter().filter_map(|(record, _)| Some(record.as_ref().err()?.split_once(':')?.0));
                assert_eq!(wrong.collect::<Vec<_>>(), ["line 3", "line 6"], "{format:?} {ends:?}");
                goes_on_behind_each(text.as_bytes(), format, &Columns::default());
            }
        }
    }
}
