//! Formats of files of records.

use byway_console::records::Format;

/// How records stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileFormat {
    /// The Unicode Character Database: key before the first `;`, value the whole line.
    Unicode,
    /// One JSON object a line: `{"key": …, "value": …}`; `key_hex` and `value_hex` for bytes that are no text.
    Jsonl,
    /// Key before the first tab of a line, value after it. What holds an end of a line cannot be written so.
    Tsv,
    /// Comma-separated values (RFC 4180), with a line of the columns' names.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// The format that a file's name implies.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("csv") => Self::Csv,
            Some("parquet" | "pq") => Self::Parquet,
            _ => match Format::of_name(name) {
                Format::Unicode => Self::Unicode,
                Format::Jsonl => Self::Jsonl,
                Format::Tsv => Self::Tsv,
            },
        }
    }

    /// The word for it on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unicode => "unicode",
            Self::Jsonl => "jsonl",
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// The format of lines that this is; none for CSV and Parquet.
    #[must_use]
    pub const fn of_lines(self) -> Option<Format> {
        match self {
            Self::Unicode => Some(Format::Unicode),
            Self::Jsonl => Some(Format::Jsonl),
            Self::Tsv => Some(Format::Tsv),
            Self::Csv | Self::Parquet => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_follows_the_ending_of_a_name() {
        for (name, format) in [
            ("a.csv", FileFormat::Csv),
            ("a.b/c.parquet", FileFormat::Parquet),
            ("a.pq", FileFormat::Parquet),
            ("a.ndjson", FileFormat::Jsonl),
            ("a.tsv", FileFormat::Tsv),
            ("UnicodeData.txt", FileFormat::Unicode),
        ] {
            assert_eq!(FileFormat::of_name(name), format, "{name}");
        }
    }
}
