//! `byway kv import`: what records cost, and whether a device has those of a file.

use std::fmt;
use std::io::Write;

use anyhow::{Context, Result, bail};
use byway::{Address, Key, Kv};
use byway_console::failure::No;
use byway_console::records::{JsonRecord, Record};
use byway_console::table;
use byway_console::terminal::{Interrupt, Progress, print_if_json, print_json};
use byway_measure::experiment::{self, OfRecord, Run};
use byway_measure::rows::Stored;
use byway_measure::subject::Subject;
use byway_records::{Position, Source, SourceError};
use serde::{Serialize, Serializer};

use super::kv_device::{open_to_read, text};
use super::kv_import::{self, FileInput, are_stored, what};
use crate::args;

/// Records that are compared together.
const COMPARED_AT_ONCE: usize = 128;
/// Values up to here are read together; a longer one by itself.
const COMPARED_BYTES: usize = 4096;
/// Differences that are named in words; more are counted.
const NAMED_DIFFERENCES: usize = 20;

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

/// Stores every record of a file, one by one, and reports what that cost.
///
/// # Errors
/// A file that cannot be read, what the device refuses, an interruption; a device that is not of this process.
pub fn store(import: &args::Import, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let uri = import.device.uri();
    if !matches!(uri.parse()?, Address::Embedded(_)) {
        bail!(
            "what a record costs is counted by devices of this process alone (embedded:): leave --cost out"
        );
    }
    let records = all_of(import, interrupt)?;
    let progress = Progress::new("import", records.len() as u64);
    let run = Run { count: records.len() as u64, seed: 0, interrupt, progress: &progress };
    let stored = experiment::store(&mut Subject::open(&uri)?, &records, &run);
    let stored = stored.map_err(|error| {
        let done = error.downcast_ref::<OfRecord>().map(|OfRecord(index)| are_stored(*index as u64));
        let done = done.map_or_else(String::new, |done| format!(", of which {done}"));
        error.context(format!("{}{done}", what(import)))
    })?;
    drop(progress);
    if import.json { Ok(print_json(out, &stored)?) } else { write_stored(&stored, out) }
}

/// Every record of a file that is read whole before anything of it is stored.
fn all_of(import: &args::Import, interrupt: &Interrupt) -> Result<Vec<Record>> {
    let mut source = opened(import, interrupt)?;
    let records: Result<Vec<Record>, SourceError> = std::iter::from_fn(|| source.next_record()).collect();
    records.with_context(|| format!("{}, of which nothing is stored", what(import)))
}

fn opened(import: &args::Import, interrupt: &Interrupt) -> Result<Box<dyn Source>> {
    let input = FileInput { path: &import.file, interrupt };
    kv_import::open(&input, import, Position::default())
}

/// Reads every record of a file back from a device.
///
/// # Errors
/// As [`store`]; [`No`] where records are not the same.
pub fn compare(import: &args::Import, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let compared = differences(import, interrupt)?;
    print_if_json(out, import.json, &compared)?;
    match compared.verdict() {
        Some(no) => Err(no.into()),
        None if import.json => Ok(()),
        None => Ok(put!(out, "{} records, all the same\n", compared.count)?),
    }
}

fn differences(import: &args::Import, interrupt: &Interrupt) -> Result<Compared> {
    let mut kv = open_to_read(&import.device)?;
    let mut compared = Compared { count: 0, same: 0, different: Vec::new() };
    let mut source = opened(import, interrupt)?;
    loop {
        let some: Result<Vec<_>, _> =
            std::iter::from_fn(|| source.next_record()).take(COMPARED_AT_ONCE).collect();
        let some = some.with_context(|| what(import))?;
        if some.is_empty() {
            return Ok(compared);
        }
        compared.add(&mut kv, &some).with_context(|| what(import))?;
        interrupt.check()?;
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
        write!(f, "{} {how}", text(&self.key, false))
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
