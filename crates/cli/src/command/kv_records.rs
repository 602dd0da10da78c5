//! `byway kv`: files of records, into a device and out of it.

use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use byway::{Address, ErrorKind, Key, Kv, Loader};
use byway_console::failure::No;
use byway_console::files;
use byway_console::records::{self, Format, JsonRecord, Record, Records};
use byway_console::size::counted;
use byway_console::table;
use byway_console::terminal::{Interrupt, Progress, print_done, print_if_json, print_json};
use byway_measure::experiment::{self, OfRecord, Run};
use byway_measure::rows::Stored;
use byway_measure::subject::Subject;
use serde::{Serialize, Serializer};

use super::kv::{open, open_to_read};
use crate::args;

/// Records that are compared together.
const COMPARED_AT_ONCE: usize = 128;
/// Values up to here are read together; a longer one by itself.
const COMPARED_BYTES: usize = 4096;
/// Differences that are named in words; more are counted.
const NAMED_DIFFERENCES: usize = 20;

/// A file of records and the device they are for.
pub struct Import<'a> {
    /// Where records are stored, or compared with what is.
    pub device: &'a args::Device,
    /// The file; `-` is standard input.
    pub file: &'a Path,
    /// Format of the records.
    pub format: Format,
    /// Ends the work between two records.
    pub interrupt: &'a Interrupt,
}

/// Whether the records of a file are those of the device.
#[derive(Serialize)]
struct Compared {
    count: u64,
    same: u64,
    different: Vec<Difference>,
}

#[derive(Serialize)]
struct Difference {
    #[serde(flatten, serialize_with = "as_json_key")]
    key: Vec<u8>,
    how: How,
}

/// How what is stored is not what the file has.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum How {
    Differs,
    IsMissing,
}

impl Import<'_> {
    fn records(&self) -> Result<Records<BufReader<Box<dyn Read>>>> {
        Ok(Records::new(BufReader::new(files::open(self.file, self.interrupt)?), self.format))
    }

    fn what(&self) -> String {
        format!("import {}", self.file.display())
    }

    /// Stores every record, one by one, and reports what that cost.
    ///
    /// # Errors
    /// A file that cannot be read, what the device refuses, an interruption.
    pub fn store(&self, json: bool, out: &mut impl Write) -> Result<()> {
        let records: Result<Vec<_>, _> = self.records()?.collect();
        // A file is read whole before anything of it is stored.
        let records = records.with_context(|| format!("{}, of which nothing is stored", self.what()))?;
        let progress = Progress::new("import", records.len() as u64);
        let run =
            Run { count: records.len() as u64, seed: 0, interrupt: self.interrupt, progress: &progress };
        if !matches!(self.device.uri().parse()?, Address::Embedded(_)) {
            // What a record costs is counted by devices of this process alone.
            let stored = self.store_elsewhere(&records, &run).map_err(|error| self.with_stored(error))?;
            drop(progress);
            return Ok(print_done(out, json, &stored)?);
        }
        let mut subject = Subject::open(&self.device.uri())?;
        let stored = experiment::store(&mut subject, &records, &run);
        let stored = stored.map_err(|error| self.with_stored(error))?;
        drop(progress);
        if json { Ok(print_json(out, &stored)?) } else { write_stored(&stored, out) }
    }

    /// An error of a record, with how many records before it are stored.
    fn with_stored(&self, error: anyhow::Error) -> anyhow::Error {
        let what = match error.downcast_ref::<OfRecord>() {
            Some(OfRecord(index)) => format!("{}, of which {}", self.what(), are_stored(*index as u64)),
            None => self.what(),
        };
        error.context(what)
    }

    fn store_elsewhere(&self, records: &[Record], run: &Run<'_>) -> Result<Loaded> {
        let mut kv = open(self.device)?;
        let start = Instant::now();
        for (index, Record { key, value }) in records.iter().enumerate() {
            kv.put(key, value).context(OfRecord(index))?;
            run.tick(index, records.len())?;
        }
        Ok(Loaded::since(start, records.len() as u64))
    }

    /// Reads every record back.
    ///
    /// # Errors
    /// As [`store`](Self::store); [`No`] where records are not the same.
    pub fn compare(&self, json: bool, out: &mut impl Write) -> Result<()> {
        let compared = self.differences()?;
        print_if_json(out, json, &compared)?;
        match compared.verdict() {
            Some(no) => Err(no.into()),
            None if json => Ok(()),
            None => Ok(put!(out, "{} records, all the same\n", compared.count)?),
        }
    }

    fn differences(&self) -> Result<Compared> {
        let mut kv = open_to_read(self.device)?;
        let mut compared = Compared { count: 0, same: 0, different: Vec::new() };
        let mut records = self.records()?;
        loop {
            let some: Result<Vec<_>, _> = records.by_ref().take(COMPARED_AT_ONCE).collect();
            let some = some.with_context(|| self.what())?;
            if some.is_empty() {
                return Ok(compared);
            }
            compared.add(&mut kv, &some).with_context(|| self.what())?;
            self.interrupt.check()?;
        }
    }
}

impl Compared {
    fn add(&mut self, kv: &mut Kv, records: &[Record]) -> Result<()> {
        let keys: Result<Vec<Key>, _> = records.iter().map(|record| Key::new(&record.key)).collect();
        let mut how = vec![None; records.len()];
        kv.get_many(&keys?, COMPARED_BYTES, |index, stored| {
            let wanted = records.get(index).map(|record| record.value.as_slice());
            if let Some(how) = how.get_mut(index).filter(|_| stored != wanted) {
                *how = Some(if stored.is_some() { How::Differs } else { How::IsMissing });
            }
        })?;
        let different = records.iter().zip(how).filter_map(|(record, how)| Some((record, how?)));
        self.different.extend(different.map(|(record, how)| Difference { key: record.key.clone(), how }));
        self.count += records.len() as u64;
        self.same = self.count - self.different.len() as u64;
        Ok(())
    }

    /// The report of differences.
    fn verdict(&self) -> Option<No> {
        let named: Vec<String> =
            self.different.iter().take(NAMED_DIFFERENCES).map(Difference::to_string).collect();
        let (different, count) = (self.different.len(), self.count);
        let no = || No(format!("{different} of {count} records are not the same: {}", named.join(", ")));
        (different > 0).then(no)
    }
}

fn as_json_key<S: Serializer>(key: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    JsonRecord::of_key(key, false).serialize(serializer)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            How::Differs => "differs",
            How::IsMissing => "is missing",
        };
        write!(f, "{} {how}", self.key.escape_ascii())
    }
}

/// What a load, or an import to a device of another process, has done.
#[derive(Serialize)]
struct Loaded {
    records: u64,
    seconds: f64,
    records_per_second: f64,
}

/// Stores records by bulk stores, as they are read.
///
/// # Errors
/// As [`Import::store`]; a line that is no record is named.
pub fn load(from: &Import<'_>, json: bool, out: &mut impl Write) -> Result<()> {
    let start = Instant::now();
    let file = from.file.display();
    let records = from.records().with_context(|| format!("load {file}"))?;
    let mut kv = open(from.device).with_context(|| format!("load {file}"))?;
    let mut loader = kv.loader()?;
    let added = add_all(from, records, &mut loader);
    // Records before a wrong line are stored nevertheless.
    let stored = loader.finish();
    let records = match (added, stored) {
        (Ok(()), stored) => stored.with_context(|| format!("load {file}"))?,
        (Err(error), Ok(stored)) => {
            return Err(error.context(format!("load {file}, of which {}", are_stored(stored))));
        }
        (Err(error), Err(_)) => return Err(error.context(format!("load {file}"))),
    };
    Ok(print_done(out, json, &Loaded::since(start, records))?)
}

impl Loaded {
    fn since(start: Instant, records: u64) -> Self {
        let seconds = start.elapsed().as_secs_f64();
        Self { records, seconds, records_per_second: records as f64 / seconds.max(f64::MIN_POSITIVE) }
    }
}

fn add_all(from: &Import<'_>, mut records: Records<impl BufRead>, loader: &mut Loader<'_>) -> Result<()> {
    while let Some(record) = records.next() {
        let Record { key, value } = record?;
        let added = Key::new(&key).map_err(byway::Error::from).and_then(|key| loader.add(&key, &value));
        added.with_context(|| format!("line {}", records.line()))?;
        from.interrupt.check()?;
    }
    Ok(())
}

/// How many records of a file are stored, where an error ended the work.
fn are_stored(count: u64) -> String {
    if count == 0 {
        return "nothing is stored".to_owned();
    }
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb} stored", counted(count, "record"))
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, seconds, records_per_second } = self;
        write!(f, "{records} records in {seconds:.3} s, {records_per_second:.0} a second")
    }
}

fn write_stored(stored: &Stored, out: &mut impl Write) -> Result<()> {
    let Stored { row, nand_pages } = stored;
    let (payload, wire) = (table::mean(row.payload_bytes), table::mean(row.wire_bytes));
    write!(
        out,
        "{} records by {}: {payload} payload bytes and {wire} wire bytes a record",
        row.count, row.method
    )?;
    if row.model_ns_mean.is_some() {
        put!(out, " in {} of modelled time", table::time(row.model_ns_mean))?;
    }
    put!(out, ", {nand_pages} flash pages, {}\n", table::rate(1e9 / row.wall_ns_mean.max(1.0)))?;
    Ok(())
}

/// Records on their way out of a device.
pub struct Export<'a> {
    /// Whose they are.
    pub device: &'a args::Device,
    /// Where they go; standard output without one.
    pub file: Option<&'a Path>,
    /// Format of the records.
    pub format: Format,
    /// Ends the work between two records.
    pub interrupt: &'a Interrupt,
}

/// What an export has done, and what it lacks.
#[derive(Default, Serialize)]
struct Exported {
    records: u64,
    unread_keys: u64,
    unlisted_stretches: u64,
}

impl Export<'_> {
    /// Writes every record that can be read.
    ///
    /// # Errors
    /// A file that exists or cannot be written, what the device says, an interruption; what is lacking.
    pub fn run(&self, json: bool, out: &mut impl Write) -> Result<()> {
        let Some(path) = self.file else {
            let exported = self.write(out)?;
            print_if_json(&mut io::stderr(), json, &exported)?;
            return exported.ensure_all();
        };
        let mut file = BufWriter::new(files::create_new(path)?);
        let exported = self.write(&mut file)?;
        file.flush()?;
        print_if_json(out, json, &exported)?;
        exported.ensure_all()
    }

    fn write(&self, out: &mut impl Write) -> Result<Exported> {
        let mut kv = open_to_read(self.device)?;
        let mut exported = Exported::default();
        // The keys first: taking them and reading values use one queue.
        let keys = kv.listable_keys(|unlisted| {
            exported.unlisted_stretches += 1;
            note!("byway: {unlisted}");
        })?;
        for key in keys {
            self.interrupt.check()?;
            let key = key.as_bytes();
            match kv.get(key) {
                Err(error) if error.kind() == ErrorKind::Media => {
                    exported.unread_keys += 1;
                    note!("byway: {error}");
                }
                got => {
                    let value = got?.with_context(|| format!("key {} vanished", key.escape_ascii()))?;
                    records::write(&mut *out, self.format, key, &value)?;
                    exported.records += 1;
                }
            }
        }
        Ok(exported)
    }
}

impl Exported {
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
