//! `byway kv export`: the records of a device or of a range of its keys, into a file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use byway::{ErrorKind, Key, KeyRange, Kv};
use byway_console::files;
use byway_console::terminal::{Interrupt, Progress, print_if_json};
use byway_records::{Columns, Encoding, FileFormat, Position, Sink, whole_records};
use serde::Serialize;

use super::kv_device::{open_to_read, text};
use super::kv_import::FileInput;
use crate::args;

/// Keys whose values are read together, and values that are; a longer one by itself.
const READ_AT_ONCE: usize = 128;
const READ_BYTES: usize = 4096;

/// What an export has done, and what it lacks.
#[derive(Default, Serialize)]
struct Exported {
    records: u64,
    unread_keys: u64,
    unlisted_stretches: u64,
}

/// Where records go.
struct Target {
    out: Box<dyn Write + Send>,
    /// The last key that is there already.
    after: Option<Key>,
}

/// Writes every record that can be read.
///
/// # Errors
/// A file that exists or cannot be written, what the device says, an interruption; what is lacking.
pub fn run(export: &args::Export, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let format = format_of(export);
    let file = export.file.as_deref().filter(|path| *path != Path::new("-"));
    let encoding_applies = export.encoding.is_none() || format.of_lines().is_none();
    ensure!(
        encoding_applies,
        "--encoding does not apply to a file that is written as {}: see --format",
        format.name()
    );
    let range = export.range.parsed()?;
    let mut kv = open_to_read(&export.device)?;
    let target = match file {
        Some(path) if export.resume && path.exists() => {
            ensure_begun(path, format, export.encoding.unwrap_or_default())?;
            kept(path, format, (range, export.range.hex), interrupt)?
        }
        Some(path) => Target::new(files::create_new(path)?),
        None => {
            let is_shown = format == FileFormat::Parquet && io::stdout().is_terminal();
            ensure!(!is_shown, "Parquet is no text for a terminal: name a file by --file");
            Target::new(io::stdout())
        }
    };
    let after = target.after;
    let mut sink = Sink::new(target.out, format, export.encoding, after.is_some())?;
    let exported = write(&mut kv, &mut sink, (range, after), interrupt)?;
    sink.finish()?;
    match file {
        None => print_if_json(&mut io::stderr(), export.json, &exported)?,
        Some(_) => print_if_json(out, export.json, &exported)?,
    }
    exported.ensure_all()
}

/// The format that was asked for, or that the file's name implies.
fn format_of(export: &args::Export) -> FileFormat {
    let named = export.file.as_deref().map(|path| FileFormat::of_name(&path.to_string_lossy()));
    // A name that implies nothing is no reason to write values alone.
    export.format.or(named.filter(|format| *format != FileFormat::Unicode)).unwrap_or(FileFormat::Jsonl)
}

impl Target {
    fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Box::new(BufWriter::new(out)), after: None }
    }
}

/// Refuses a file that no export of this format and encoding has begun: it would be cut, or get two kinds of records.
fn ensure_begun(path: &Path, format: FileFormat, encoding: Encoding) -> Result<()> {
    let beginning = match format {
        FileFormat::Csv => format!("key{suffix},value{suffix}\n", suffix = encoding.suffix()),
        FileFormat::Jsonl => "{\"key".to_owned(),
        _ => return Ok(()),
    };
    let mut head = Vec::new();
    let file = File::open(path).map_err(|cause| files::refused("open", path, cause))?;
    file.take(beginning.len() as u64)
        .read_to_end(&mut head)
        .map_err(|cause| files::refused("read", path, cause))?;
    ensure!(
        beginning.as_bytes().starts_with(&head),
        "{} is no export to go on with: one of this format and encoding begins with {}",
        path.display(),
        beginning.trim_end()
    );
    Ok(())
}

/// The file of an export that did not end, cut behind its last whole record.
fn kept(
    path: &Path,
    format: FileFormat,
    (range, hex): (KeyRange, bool),
    interrupt: &Interrupt,
) -> Result<Target> {
    let shown = path.display();
    if format == FileFormat::Parquet {
        bail!(
            "{shown}: a part of a Parquet file is of no use; remove it, or export as jsonl or csv to be able to resume"
        );
    }
    let mut file =
        File::options().write(true).open(path).map_err(|cause| files::refused("open", path, cause))?;
    let input = FileInput { path, interrupt };
    let columns = Columns::default();
    let whole = match byway_records::open(&input, format, &columns, Position::default()) {
        Ok(mut source) => {
            whole_records(source.as_mut()).with_context(|| format!("{shown} is no export to go on with"))?
        }
        // Not even the columns' names are whole.
        Err(_) if file.metadata()?.len() < "key_base64,value_base64\n".len() as u64 => None,
        Err(error) => return Err(error).with_context(|| format!("{shown} is no export to go on with")),
    };
    let after = whole.as_ref().map(|whole| Key::new(&whole.last_key)).transpose()?;
    if let Some(after) = after.filter(|after| !range.contains(after)) {
        bail!(
            "{shown} ends behind key {}, which is not of the range: name the range that it began with",
            text(after.as_bytes(), hex)
        );
    }
    // Lines of tabbed text have no beginning of their own to be recognised by.
    let is_recognised = whole.is_some() || format != FileFormat::Tsv || file.metadata()?.len() == 0;
    ensure!(is_recognised, "{shown} has no two whole records to go on from: remove it, and begin again");
    let end = whole.as_ref().map_or(0, |whole| whole.end.bytes);
    file.set_len(end)
        .and_then(|()| file.seek(SeekFrom::End(0)))
        .map_err(|cause| files::refused("write", path, cause))?;
    Ok(Target { after, ..Target::new(file) })
}

fn write(
    kv: &mut Kv,
    sink: &mut Sink<impl Write + Send>,
    (range, after): (KeyRange, Option<Key>),
    interrupt: &Interrupt,
) -> Result<Exported> {
    let mut exported = Exported::default();
    // The keys first: taking them and reading values use one queue.
    let mut keys = kv.listable_keys(|unlisted| {
        exported.unlisted_stretches += 1;
        note!("byway: {unlisted}");
    })?;
    keys.retain(|key| range.contains(key));
    keys.sort_unstable();
    let done = after.map_or(0, |after| keys.partition_point(|key| *key <= after));
    let progress = Progress::new("export", keys.len() as u64);
    progress.advance(done as u64);
    for some in keys.get(done..).unwrap_or_default().chunks(READ_AT_ONCE) {
        interrupt.checked("the export is not whole; with --file and --resume another goes on from here")?;
        for (key, value) in some.iter().zip(exported.read(kv, some)?) {
            if let Some(value) = value {
                sink.write(key.as_bytes(), &value)?;
                exported.records += 1;
            }
        }
        progress.advance(some.len() as u64);
    }
    Ok(exported)
}

impl Exported {
    /// The values of keys; none of those that cannot be read.
    fn read(&mut self, kv: &mut Kv, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        let read = kv.get_many(keys, READ_BYTES, |at, value| {
            if let Some(place) = values.get_mut(at) {
                *place = value.map(<[u8]>::to_vec);
            }
        });
        match read {
            // One by one, to find those that cannot be read.
            Err(error) if error.kind() == ErrorKind::Media => {
                keys.iter().map(|key| self.read_one(kv, key)).collect()
            }
            read => {
                read?;
                match keys.iter().zip(&values).find(|(_, value)| value.is_none()) {
                    Some((key, _)) => bail!("key {key} vanished"),
                    None => Ok(values),
                }
            }
        }
    }

    fn read_one(&mut self, kv: &mut Kv, key: &Key) -> Result<Option<Vec<u8>>> {
        match kv.get(key.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::Media => {
                self.unread_keys += 1;
                note!("byway: {error}");
                Ok(None)
            }
            got => Ok(Some(got?.with_context(|| format!("key {key} vanished"))?)),
        }
    }

    /// An error where an export lacks something.
    fn ensure_all(&self) -> Result<()> {
        let some = |count: u64, one: &str, more: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {more}")),
        };
        let lacking = [
            some(self.unread_keys, "key that cannot be read", "keys that cannot be read"),
            some(
                self.unlisted_stretches,
                "stretch of keys that cannot be listed",
                "stretches of keys that cannot be listed",
            ),
        ];
        let lacking: Vec<String> = lacking.into_iter().flatten().collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let lacking = lacking.join(" and ");
        bail!("the export lacks {lacking}; all else is in it")
    }
}
