//! Records of a file, one after another, and where each ends.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use byway_console::records::Record;
use serde::{Deserialize, Serialize};

/// Where a record ends in its file, so that a later run can go on behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Bytes up to its end; 0 in Parquet, where rows are found by their number.
    pub bytes: u64,
    /// Lines up to its end; 0 in Parquet.
    pub lines: u64,
    /// Records up to it, itself and those that could not be read among them.
    pub records: u64,
}

/// Where a record is, as people count: from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its first line.
    Line(u64),
    /// Its row, of Parquet.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// Why a record, or a file, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// This record is none; the next may be one.
    #[error("{place}: {why}")]
    Record {
        /// Which.
        place: Place,
        /// What is wrong with it, as a phrase.
        why: String,
        /// The record as it stands in the file, as text.
        text: String,
    },
    /// The file could not be read.
    #[error("{place}: {source}")]
    Io {
        /// What was to be read.
        place: Place,
        /// What reading failed with.
        source: io::Error,
    },
    /// The file is not what it is taken for, as a sentence.
    #[error("{0}")]
    File(String),
}

/// The records of a file.
pub trait Source {
    /// The next record; none at the end. After [`SourceError::Record`] there may be more.
    fn next_record(&mut self) -> Option<Result<Record, SourceError>>;

    /// Reads what is left of a record that was too long to be read whole, so that the position is behind it.
    ///
    /// # Errors
    /// Those of reading the file.
    fn skip_rest(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Where the record is that was read last.
    fn place(&self) -> Place;

    /// Where it ends.
    fn position(&self) -> Position;

    /// Records of the whole file, where the file says it.
    fn total(&self) -> Option<u64> {
        None
    }
}

/// A way to read a file.
pub trait Input {
    /// Its bytes from one on.
    ///
    /// # Errors
    /// A file that cannot be opened; a stream that is asked for anything but its beginning.
    fn from(&self, bytes: u64) -> io::Result<Box<dyn Read>>;

    /// The file itself, for formats that are not read from the beginning to the end.
    ///
    /// # Errors
    /// As [`from`](Self::from); for a stream.
    fn file(&self) -> io::Result<File>;
}

/// The error of a file that could not be opened.
pub(crate) fn unopened(error: io::Error) -> SourceError {
    SourceError::File(error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Columns, FileFormat, open};

    /// Bytes as a file.
    pub struct Bytes(pub Vec<u8>);

    impl Input for Bytes {
        fn from(&self, bytes: u64) -> io::Result<Box<dyn Read>> {
            Ok(Box::new(io::Cursor::new(self.0[bytes as usize..].to_vec())))
        }

        fn file(&self) -> io::Result<File> {
            let mut file = tempfile::tempfile()?;
            io::Write::write_all(&mut file, &self.0)?;
            Ok(file)
        }
    }

    /// Every record from a position on, or what is wrong with one, with the position behind each.
    pub fn all(
        bytes: &[u8],
        format: FileFormat,
        columns: &Columns,
        at: Position,
    ) -> Vec<(Result<Record, String>, Position)> {
        let mut source = open(&Bytes(bytes.to_vec()), format, columns, at)
            .map_err(|error| error.to_string())
            .unwrap_or_else(|error| panic!("{error}"));
        let mut found = Vec::new();
        while let Some(record) = source.next_record() {
            found.push((record.map_err(|error| error.to_string()), source.position()));
        }
        found
    }

    /// Reading on behind each record gives the records after it.
    pub fn goes_on_behind_each(bytes: &[u8], format: FileFormat, columns: &Columns) {
        let whole = all(bytes, format, columns, Position::default());
        assert!(!whole.is_empty());
        for (index, (_, position)) in whole.iter().enumerate() {
            assert_eq!(all(bytes, format, columns, *position), whole[index + 1..], "behind record {index}");
        }
    }
}
