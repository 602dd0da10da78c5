//! Records on their way into a file.

use std::io::{self, Write};

use byway_console::records::{self, Format, to_hex};

use crate::encoding::Encoding;
use crate::format::FileFormat;
use crate::parquet::ParquetSink;

/// A file of records that is written.
pub struct Sink<W: Write + Send>(Kind<W>);

enum Kind<W: Write + Send> {
    Lines(W, Format),
    Csv(Box<csv::Writer<W>>, Encoding),
    Parquet(Box<ParquetSink<W>>),
}

impl<W: Write + Send> Sink<W> {
    /// Writes into `out`, which holds whole records already where it `goes_on`. An encoding is for CSV, where it is text otherwise, and
    /// for Parquet, where bytes are stored as they are otherwise.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(out: W, format: FileFormat, encoding: Option<Encoding>, goes_on: bool) -> io::Result<Self> {
        Ok(Self(match format.of_lines() {
            Some(lines) => Kind::Lines(out, lines),
            None if format == FileFormat::Parquet => {
                Kind::Parquet(Box::new(ParquetSink::new(out, encoding)?))
            }
            None => {
                let (mut writer, encoding) = (csv::Writer::from_writer(out), encoding.unwrap_or_default());
                if !goes_on {
                    let names = ["key", "value"].map(|name| format!("{name}{}", encoding.suffix()));
                    writer.write_record(names).map_err(unwritten)?;
                }
                Kind::Csv(Box::new(writer), encoding)
            }
        }))
    }

    /// Writes one record.
    ///
    /// # Errors
    /// Those of the writer, and bytes that the format has no way to write.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Lines(out, format) => records::write(out, *format, key, value),
            Kind::Parquet(sink) => sink.write(key, value),
            Kind::Csv(writer, encoding) => {
                let field = |bytes: &[u8]| encoding.encode(bytes).ok_or_else(|| no_text(key));
                writer.write_record([field(key)?, field(value)?]).map_err(unwritten)
            }
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Kind::Lines(mut out, _) => out.flush(),
            Kind::Csv(mut writer, _) => writer.flush(),
            Kind::Parquet(sink) => sink.finish(),
        }
    }
}

/// The error of a record that is no text.
pub(crate) fn no_text(key: &[u8]) -> io::Error {
    let why = format!("key {} or its value is no text (UTF-8): say --encoding base64 or hex", to_hex(key));
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The error of the writer below, as it was.
fn unwritten(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::columns::Columns;
    use crate::source::{Position, tests::all};
    use byway_console::records::Record;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_format_brings_back_the_records_it_takes(
            pairs in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 1..16), proptest::collection::vec(any::<u8>(), 0..40)), 1..8)
        ) {
            for (format, encoding) in [
                (FileFormat::Csv, None),
                (FileFormat::Csv, Some(Encoding::Hex)),
                (FileFormat::Csv, Some(Encoding::Base64)),
                (FileFormat::Parquet, None),
                (FileFormat::Jsonl, None),
            ] {
                let (mut out, mut wanted) = (Vec::new(), Vec::new());
                let mut sink = Sink::new(&mut out, format, encoding, false).unwrap();
                for (key, value) in &pairs {
                    if sink.write(key, value).is_ok() {
                        wanted.push(Ok(Record { key: key.clone(), value: value.clone() }));
                    }
                }
                sink.finish().unwrap();
                let found = all(&out, format, &Columns::default(), Position::default());
                let found: Vec<_> = found.into_iter().map(|(record, _)| record).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
