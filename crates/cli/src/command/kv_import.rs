//! `byway kv import`: a file of records, into a device, as fast as it takes them.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use byway::{Backend, ErrorKind, Key, Kv, StoreOptions};
use byway_console::failure::No;
use byway_console::files;
use byway_console::records::Record;
use byway_console::size::counted;
use byway_console::terminal::{Interrupt, Progress, print_done, print_if_json};
use byway_records::{FileFormat, Input, Place, Position, Source, SourceError};
use serde::Serialize;

use super::import_last::LastStored;
use super::import_state::{BadRecords, Counts, StateFile, ensure_distinct_files};
use super::kv_device::flush;
use crate::{args, opened};

/// Records that are stored together, and bytes of them, but for the last one's.
const STORED_AT_ONCE: usize = 1024;
const STORED_BYTES: usize = 512 * 1024;
/// Records, and time, after which the point that is reached is written down, whichever is first. A kill costs at most that work.
const POINT_RECORDS: u64 = 16 * 1024;
const POINT_EVERY: Duration = Duration::from_millis(250);

/// The file of a command line.
pub struct FileInput<'a> {
    /// Its path; `-` is standard input.
    pub path: &'a Path,
    /// Ends a read that waits.
    pub interrupt: &'a Interrupt,
}

impl FileInput<'_> {
    fn opened(&self) -> Result<File> {
        File::open(self.path).map_err(|cause| files::refused("open", self.path, cause))
    }
}

impl Input for FileInput<'_> {
    fn from(&self, bytes: u64) -> io::Result<Box<dyn Read>> {
        if bytes == 0 {
            return files::open(self.path, self.interrupt).map_err(as_io);
        }
        let mut file = self.opened().map_err(as_io)?;
        file.seek(SeekFrom::Start(bytes))?;
        Ok(Box::new(file))
    }

    fn file(&self) -> io::Result<File> {
        let is_file = self.path.metadata().is_ok_and(|about| about.is_file());
        if self.path.exists() && !is_file || self.path == Path::new("-") {
            let shown = self.path.display();
            return Err(io::Error::other(format!(
                "{shown} is a stream; Parquet is read from a file, whose end comes first"
            )));
        }
        self.opened().map_err(as_io)
    }
}

fn as_io(error: anyhow::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

/// What an import is called in errors.
pub fn what(import: &args::Import) -> String {
    format!("import {}", import.file.display())
}

/// How many records of a file are stored, where an error ended the work.
pub fn are_stored(count: u64) -> String {
    if count == 0 {
        return "nothing is stored".to_owned();
    }
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb} stored", counted(count, "record"))
}

/// The format of an import's file.
pub fn format_of(import: &args::Import) -> FileFormat {
    import.format.unwrap_or_else(|| FileFormat::of_name(&import.file.to_string_lossy()))
}

/// Opens the file behind a position of it.
///
/// # Errors
/// A file that cannot be read, or is not of its format.
pub fn open(input: &FileInput<'_>, import: &args::Import, at: Position) -> Result<Box<dyn Source>> {
    let format = format_of(import);
    import.columns.ensure_for(format).with_context(|| what(import))?;
    byway_records::open(input, format, &import.columns.of_file(), at).with_context(|| what(import))
}

/// What an import has done.
#[derive(Serialize)]
struct Imported {
    /// Records that are stored, those of earlier runs among them.
    records: u64,
    seconds: f64,
    records_per_second: f64,
    /// Keys whose values were kept.
    kept: u64,
    skipped: u64,
    /// Records that earlier runs stored.
    #[serde(skip_serializing_if = "is_zero")]
    earlier: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, seconds, records_per_second, .. } = self;
        write!(f, "{} in {seconds:.3} s, {records_per_second:.0} a second", counted(*records, "record"))?;
        for (count, said) in [
            (self.earlier, "stored by earlier runs"),
            (self.kept, "kept as they were"),
            (self.skipped, "skipped"),
        ] {
            if count > 0 {
                write!(f, "; {count} {said}")?;
            }
        }
        Ok(())
    }
}

/// A record that waits to be stored.
struct Waiting {
    place: Place,
    /// Where it ends in the file.
    end: Position,
    key: Key,
    value: Vec<u8>,
}

/// An import at work.
struct Importer<'a> {
    import: &'a args::Import,
    interrupt: &'a Interrupt,
    kv: Kv,
    source: Box<dyn Source>,
    waiting: Vec<Waiting>,
    waiting_keys: HashSet<Key>,
    waiting_bytes: usize,
    /// Up to where every record is stored, or was skipped.
    done: Position,
    counts: Counts,
    /// The record that was stored last.
    last: Option<(Key, Vec<u8>)>,
    bad: Option<BadRecords>,
    state: Option<StateFile>,
    last_point: Instant,
    last_point_records: u64,
    bar: Bar,
}

/// Stores every record of a file.
///
/// # Errors
/// A file that cannot be read, what the device refuses, an interruption; a point to go on from that is of something else.
pub fn run(import: &args::Import, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let start = Instant::now();
    let mut importer = Importer::open(import, interrupt)?;
    let earlier = importer.counts.stored;
    let stored = importer.all().and_then(|()| importer.write_point());
    stored.map_err(|error| importer.ended_by(error))?;
    let Importer { counts, state, bar, .. } = importer;
    drop(bar);
    state.map_or(Ok(()), StateFile::remove)?;
    let seconds = start.elapsed().as_secs_f64();
    let now = counts.stored - earlier;
    let done = Imported {
        records: counts.stored,
        seconds,
        records_per_second: now as f64 / seconds.max(f64::MIN_POSITIVE),
        kept: counts.kept,
        skipped: counts.skipped,
        earlier,
    };
    match &import.skip_bad {
        Some(path) if counts.skipped > 0 && counts.stored + counts.kept == 0 => {
            print_if_json(out, import.json, &done)?;
            Err(No(format!("nothing is stored: every record was skipped; {} says why", path.display()))
                .into())
        }
        _ => Ok(print_done(out, import.json, &done)?),
    }
}

impl<'a> Importer<'a> {
    fn open(import: &'a args::Import, interrupt: &'a Interrupt) -> Result<Self> {
        ensure_distinct_files(import)?;
        let input = FileInput { path: &import.file, interrupt };
        // A file that cannot be read is said before a device is opened.
        let source = open(&input, import, Position::default())?;
        let device = opened::open(&import.device.uri()).with_context(|| what(import))?;
        let mut kv = device.kv(None).with_context(|| what(import))?;
        let namespace = device.namespace(kv.nsid())?;
        let state = StateFile::of(import, device.identity(), &namespace)?;
        let (point, counts) = state.as_ref().map(StateFile::point).unwrap_or_default();
        let open_at_point = || open(&input, import, point);
        if let Some(state) = &state {
            state.ensure_on(&mut kv, open_at_point, POINT_RECORDS + STORED_AT_ONCE as u64, interrupt)?;
        }
        let source = if point == Position::default() { source } else { open_at_point()? };
        let bad = import.skip_bad.as_deref().map(|path| {
            let kept_bytes = state.as_ref().map(|state| state.bad_bytes(path)).transpose()?.flatten();
            BadRecords::open(path, kept_bytes)
        });
        let bad = bad.transpose()?;
        // Behind the check that such a file is the import's own.
        let state = state.map(|state| state.begin(bad.as_ref())).transpose()?;
        let bar = Bar::new(import, source.as_ref(), point);
        let (waiting, waiting_keys) = (Vec::with_capacity(STORED_AT_ONCE), HashSet::new());
        let (waiting_bytes, last_point, last_point_records) = (0, Instant::now(), point.records);
        Ok(Self {
            import,
            interrupt,
            kv,
            source,
            waiting,
            waiting_keys,
            waiting_bytes,
            done: point,
            counts,
            last: None,
            bad,
            state,
            last_point,
            last_point_records,
            bar,
        })
    }

    /// Stores all that is left of the file.
    fn all(&mut self) -> Result<()> {
        while let Some(record) = self.source.next_record() {
            match record {
                Ok(record) => self.add(record)?,
                Err(error) => self.wrong(error)?,
            }
        }
        self.store()
    }

    fn add(&mut self, Record { key, value }: Record) -> Result<()> {
        let (place, end) = (self.source.place(), self.source.position());
        let key = Key::new(&key).map_err(byway::Error::from).with_context(|| place.to_string())?;
        // Stores of one key are not to pass each other on the way to a device that takes many at a time.
        if !self.waiting_keys.insert(key) {
            self.store()?;
            self.pause()?;
            self.waiting_keys.insert(key);
        }
        self.waiting_bytes += value.len();
        self.waiting.push(Waiting { place, end, key, value });
        if self.waiting.len() >= STORED_AT_ONCE || self.waiting_bytes >= STORED_BYTES {
            self.store()?;
            self.pause()?;
        }
        Ok(())
    }

    /// Between two groups of records: shows how far the work is, writes that down, and ends it if a signal came.
    fn pause(&mut self) -> Result<()> {
        self.bar.show(self.done, self.counts.stored);
        let records = self.done.records - self.last_point_records;
        if records >= POINT_RECORDS || self.last_point.elapsed() >= POINT_EVERY {
            self.write_point()?;
        }
        Ok(self.interrupt.check()?)
    }

    /// A record that the file has wrongly is skipped where that is allowed.
    fn wrong(&mut self, error: SourceError) -> Result<()> {
        self.store()?;
        let (SourceError::Record { place, why, text }, Some(bad)) = (&error, &mut self.bad) else {
            return Err(error.into());
        };
        // First, as nothing is to be written of a record whose end cannot be read.
        self.source.skip_rest()?;
        bad.add(*place, why, text)?;
        self.counts.skipped += 1;
        self.done = self.source.position();
        self.pause()
    }

    /// Stores the records that wait, in their order.
    fn store(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.waiting_keys.clear();
        self.waiting_bytes = 0;
        let pairs = waiting.iter().map(|record| (record.key, record.value.as_slice()));
        if !self.import.if_absent && self.kv.put_many(pairs).is_ok() {
            self.counts.stored += waiting.len() as u64;
            if let Some(record) = waiting.pop() {
                self.done = record.end;
                self.last = Some((record.key, record.value));
            }
        } else {
            // One by one, to find the record that is refused.
            waiting.drain(..).try_for_each(|record| self.store_one(record))?;
        }
        self.waiting = waiting;
        self.waiting.clear();
        Ok(())
    }

    fn store_one(&mut self, record: Waiting) -> Result<()> {
        let options = StoreOptions::NONE.must_not_exist(self.import.if_absent);
        match self.kv.put_if(record.key.as_bytes(), &record.value, options) {
            Ok(()) => {
                self.counts.stored += 1;
                self.last = Some((record.key, record.value));
            }
            Err(error) if error.kind() == ErrorKind::KeyExists => self.counts.kept += 1,
            Err(error) => match &mut self.bad {
                Some(bad) if is_of_the_record(error.kind()) => {
                    let text = format!("key {}, a value of {} bytes", record.key, record.value.len());
                    bad.add(record.place, &error.to_string(), &text)?;
                    self.counts.skipped += 1;
                }
                _ => return Err(anyhow::Error::new(error).context(record.place.to_string())),
            },
        }
        self.done = record.end;
        Ok(())
    }

    /// Writes down that everything up to here is stored, once it is durable.
    fn write_point(&mut self) -> Result<()> {
        let bad_bytes = self.bad.as_mut().map(BadRecords::flush).transpose()?;
        if let Some(state) = &mut self.state {
            flush(&mut self.kv)?;
            let last = self.last.as_ref().map(|(key, value)| LastStored::of(key.as_bytes(), value));
            state.write(self.done, &self.counts, last, bad_bytes)?;
        }
        (self.last_point, self.last_point_records) = (Instant::now(), self.done.records);
        Ok(())
    }

    /// The error that ended the work, with how far it came.
    fn ended_by(&mut self, error: anyhow::Error) -> anyhow::Error {
        // The work goes on from an earlier point where this one cannot be written.
        let _ = self.write_point();
        if self.state.is_some() && self.interrupt.check().is_err() {
            return error.context(format!("{}: the same command goes on from here", what(self.import)));
        }
        let how = are_stored(self.counts.stored);
        error.context(format!("{}, of which {how}", what(self.import)))
    }
}

/// Whether an error is the record's own: the next one may be stored.
fn is_of_the_record(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TooLarge | ErrorKind::InvalidArgument)
}

/// The bar of an import: bytes of the file, or its rows where the file says how many it has.
struct Bar {
    progress: Progress,
    in_rows: bool,
    shown: u64,
    began: Instant,
    stored_before: Option<u64>,
}

impl Bar {
    fn new(import: &args::Import, source: &dyn Source, at: Position) -> Self {
        let rows = source.total();
        let bytes = import.file.metadata().ok().filter(std::fs::Metadata::is_file).map(|about| about.len());
        let progress = match rows {
            Some(rows) => Progress::new("import", rows),
            None => Progress::bytes("import", bytes),
        };
        let mut bar =
            Self { progress, in_rows: rows.is_some(), shown: 0, began: Instant::now(), stored_before: None };
        bar.advance(at);
        bar
    }

    fn advance(&mut self, to: Position) {
        let done = if self.in_rows { to.records } else { to.bytes };
        self.progress.advance(done.saturating_sub(self.shown));
        self.shown = done;
    }

    fn show(&mut self, to: Position, stored: u64) {
        self.advance(to);
        let before = *self.stored_before.get_or_insert(stored);
        let rate = (stored - before) as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
        self.progress.say(&format!("{rate:.0} records/s"));
    }
}
