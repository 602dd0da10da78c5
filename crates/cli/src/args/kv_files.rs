//! `byway kv import` and `byway kv export`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use byway_records::{Encoding, FileFormat};
use clap::Args;

use super::{Device, KeyRange};

/// `byway kv import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway kv import disk.img records.jsonl
  byway kv import disk.img cities.csv --key zip --value name
  byway kv import disk.img cities.csv --key zip --resume
  byway kv import disk.img events.parquet --key id --skip-bad bad.jsonl
  byway kv import disk.img /usr/share/unicode/UnicodeData.txt --compare
  byway kv export disk.img | byway kv import other.img - --format jsonl

With --resume the point that is reached is kept in a file, and the same command goes on from there after Ctrl-C, an error or a kill. \
Every record before that point is stored and flushed. Records behind it may be stored once more, by the same values. The file is \
removed when all is stored.")]
pub struct Import {
    #[command(flatten)]
    pub device: Device,
    /// The file; - is standard input.
    pub file: PathBuf,
    /// How records stand in it [default: by its name: *.jsonl, *.ndjson, *.tsv, *.csv, *.parquet, *.pq; else unicode].
    #[arg(long)]
    pub format: Option<FileFormat>,
    #[command(flatten)]
    pub columns: Columns,
    /// Keep the values of keys that exist.
    #[arg(long, conflicts_with_all = ["compare", "cost"])]
    pub if_absent: bool,
    /// Write records that cannot be stored to this file, as JSON lines, and go on. The exit code is 1 where nothing is stored.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["compare", "cost"])]
    pub skip_bad: Option<PathBuf>,
    /// Go on where an import of this file ended, and keep the point that is reached.
    #[arg(long, conflicts_with_all = ["compare", "cost"])]
    pub resume: bool,
    /// Keep the point here, as --resume does [default: FILE.import-state].
    #[arg(long, value_name = "PATH", conflicts_with_all = ["compare", "cost"])]
    pub state: Option<PathBuf>,
    /// Write nothing: read every record back and compare.
    #[arg(long)]
    pub compare: bool,
    /// Store one record by each command, and say what that cost: bytes on the link, flash pages, modelled time. The file is read whole first.
    #[arg(long, conflicts_with = "compare")]
    pub cost: bool,
    /// Print the figures as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The columns of CSV and Parquet.
#[derive(Debug, Args)]
pub struct Columns {
    /// Column of the key, in CSV and Parquet [default: key, key_hex or key_base64].
    #[arg(long, value_name = "COLUMN")]
    pub key: Option<String>,
    /// Column of the value [default: the whole row as a JSON object; without --key: value, value_hex or value_base64, if there is one].
    #[arg(long, value_name = "COLUMN")]
    pub value: Option<String>,
    /// How keys stand in their column.
    #[arg(long, value_name = "ENCODING")]
    pub key_encoding: Option<Encoding>,
    /// How values stand in theirs.
    #[arg(long, value_name = "ENCODING")]
    pub value_encoding: Option<Encoding>,
    /// Names of the columns of a CSV file that begins with a record.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// What parts the columns of a CSV file: one character, or tab [default: a comma].
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,
}

impl Columns {
    /// As files of records want them.
    pub fn of_file(&self) -> byway_records::Columns {
        byway_records::Columns {
            key: self.key.clone(),
            value: self.value.clone(),
            key_encoding: self.key_encoding,
            value_encoding: self.value_encoding,
            names: self.columns.clone(),
            delimiter: self.delimiter,
        }
    }
}

impl Columns {
    /// Refuses options that mean nothing to files of a format.
    ///
    /// # Errors
    /// Options of columns for lines, and of CSV for Parquet.
    pub fn ensure_for(&self, format: FileFormat) -> Result<()> {
        let (is_csv, has_columns) = (format == FileFormat::Csv, format.of_lines().is_none());
        let options = [
            ("--key", self.key.is_some(), has_columns),
            ("--value", self.value.is_some(), has_columns),
            ("--key-encoding", self.key_encoding.is_some(), has_columns),
            ("--value-encoding", self.value_encoding.is_some(), has_columns),
            ("--columns", self.columns.is_some(), is_csv),
            ("--delimiter", self.delimiter.is_some(), is_csv),
        ];
        match options.into_iter().find(|(_, is_given, applies)| *is_given && !applies) {
            Some((option, ..)) => {
                bail!("{option} does not apply to a file that is read as {}: see --format", format.name())
            }
            None => Ok(()),
        }
    }
}

fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    match text.as_bytes() {
        _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ => Err("expected is one ASCII character, such as ; or the word tab".to_owned()),
    }
}

/// `byway kv export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  byway kv export disk.img > records.jsonl
  byway kv export disk.img --file records.parquet
  byway kv export disk.img --file records.csv --encoding base64
  byway kv export disk.img --file records.jsonl --resume
  byway kv export disk.img --prefix sensor- --file sensors.csv
  byway kv export disk.img --format unicode --file UnicodeData.txt

--resume goes on behind the last whole record of the file, with the next key of the range; the device and the range are taken to be the same. A Parquet file \
is of use only when it is whole, and is begun anew.")]
pub struct Export {
    #[command(flatten)]
    pub device: Device,
    /// Where to write [default: standard output].
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub range: KeyRange,
    /// How records shall stand in it; unicode writes values alone, a line each [default: by the file's name, else jsonl].
    #[arg(long)]
    pub format: Option<FileFormat>,
    /// How keys and values stand in the columns of CSV [default: text] and Parquet [default: binary columns].
    #[arg(long)]
    pub encoding: Option<Encoding>,
    /// Go on where an export to the file ended.
    #[arg(long, requires = "file")]
    pub resume: bool,
    /// Print what was done as one JSON object: on standard error where the records go to standard output.
    #[arg(long)]
    pub json: bool,
}
