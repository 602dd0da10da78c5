//! `byway kv`: keys and values.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use byway::{ErrorKind, Key, Kv, StoreOptions};
use serde::Serialize;

use crate::args::{self, KvCommand};
use crate::experiment::{self, Run};
use crate::failure::{No, Silent};
use crate::records::{self, Format, Records, parse_hex, to_hex};
use crate::report::measured::Stored;
use crate::subject::Subject;
use crate::table;
use crate::terminal::{Interrupt, Progress, print_json};

/// Records that are compared together.
const COMPARED_AT_ONCE: usize = 128;
/// Values up to here are read together; a longer one by itself.
const COMPARED_BYTES: usize = 4096;
/// Differences that are named; more are counted.
const NAMED_DIFFERENCES: usize = 20;

/// Does one of the commands.
///
/// # Errors
/// When the device refuses, a file cannot be read or written, or the work is interrupted; [`No`] when a key is not there.
pub fn run(command: &KvCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        KvCommand::Put { device, key, value, file, if_present, if_absent } => {
            let value = read_value(value.as_deref(), file.as_deref())?;
            let options =
                StoreOptions { must_exist: *if_present, must_not_exist: *if_absent, uncompressed: false };
            Ok(open(device)?.put_if(&parse_key(key)?, &value, options)?)
        }
        KvCommand::Get { device, key, file } => get(device, key, file.as_deref(), out),
        KvCommand::Delete { device, key } => delete(device, key),
        KvCommand::Exists { device, key } => exists(device, key),
        KvCommand::List { device, from, prefix, limit, hex, json } => {
            let bytes = |text: &Option<String>| text.as_deref().map(|text| key_of(text, *hex)).transpose();
            let (from, prefix) = (bytes(from)?, bytes(prefix)?.unwrap_or_default());
            let shown = Shown { hex: *hex, json: *json };
            list(device, from, &prefix, limit.unwrap_or(u64::MAX), shown, out)
        }
        KvCommand::Import { device, file, format, compare, json } => {
            let format = format.unwrap_or_else(|| Format::of_name(&file.to_string_lossy()));
            let import = Import { device, file, format, interrupt };
            if *compare { import.compare(*json, out) } else { import.store(*json, out) }
        }
        KvCommand::Load { device, file, format } => {
            let records =
                records_of(file, format.unwrap_or_else(|| Format::of_name(&file.to_string_lossy())))?;
            let loaded = load(device, records, out, interrupt);
            loaded.with_context(|| format!("load {}", file.display()))
        }
        KvCommand::Export { device, file, format } => {
            export(device, file.as_deref(), *format, out, interrupt)
        }
    }
}

fn open(device: &args::Device) -> Result<Kv> {
    Ok(byway::open(&device.uri)?.kv(None)?)
}

/// The same for a command that only reads.
fn open_to_read(device: &args::Device) -> Result<Kv> {
    Ok(byway::open_to_read(&device.uri)?.kv(None)?)
}

fn parse_key(key: &args::Key) -> Result<Vec<u8>> {
    key_of(&key.key, key.hex)
}

fn key_of(text: &str, hex: bool) -> Result<Vec<u8>> {
    if hex { parse_hex(text).map_err(anyhow::Error::msg) } else { Ok(text.as_bytes().to_vec()) }
}

fn read_value(value: Option<&str>, file: Option<&Path>) -> Result<Vec<u8>> {
    if let Some(value) = value {
        return Ok(value.as_bytes().to_vec());
    }
    if let Some(path) = file {
        return std::fs::read(path).with_context(|| format!("read {}", path.display()));
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).context("read standard input")?;
    Ok(bytes)
}

fn get(device: &args::Device, key: &args::Key, file: Option<&Path>, out: &mut impl Write) -> Result<()> {
    let value = open_to_read(device)?.get(&parse_key(key)?)?.ok_or_else(|| no_key(&key.key))?;
    match file {
        Some(path) => std::fs::write(path, value).with_context(|| format!("write {}", path.display())),
        None => show(&value, out),
    }
}

/// Writes the bytes of a value and no more, but for the end of a line where a person reads them.
fn show(value: &[u8], out: &mut impl Write) -> Result<()> {
    out.write_all(value)?;
    if io::stdout().is_terminal() && !value.ends_with(b"\n") {
        writeln!(out)?;
    }
    Ok(())
}

fn no_key(key: &str) -> No {
    No(format!("there is no key {key:?}"))
}

fn delete(device: &args::Device, key: &args::Key) -> Result<()> {
    let bytes = parse_key(key)?;
    let mut kv = open(device)?;
    if !kv.exists(&bytes)? {
        return Err(no_key(&key.key).into());
    }
    Ok(kv.delete(&bytes)?)
}

fn exists(device: &args::Device, key: &args::Key) -> Result<()> {
    if open_to_read(device)?.exists(&parse_key(key)?)? { Ok(()) } else { Err(Silent.into()) }
}

/// How keys are shown.
#[derive(Clone, Copy)]
struct Shown {
    hex: bool,
    json: bool,
}

/// A key as JSON: text where it is text, else digits.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum JsonKey<'a> {
    Key(&'a str),
    KeyHex(String),
}

impl Shown {
    fn write(self, key: &Key, out: &mut impl Write) -> Result<()> {
        let bytes = key.as_bytes();
        let text = std::str::from_utf8(bytes).ok().filter(|_| !self.hex);
        if self.json {
            return Ok(print_json(out, &text.map_or_else(|| JsonKey::KeyHex(to_hex(bytes)), JsonKey::Key))?);
        }
        if self.hex {
            writeln!(out, "{}", to_hex(bytes))?
        } else {
            writeln!(out, "{}", bytes.escape_ascii())?
        }
        Ok(())
    }
}

fn list(
    device: &args::Device,
    from: Option<Vec<u8>>,
    prefix: &[u8],
    limit: u64,
    shown: Shown,
    out: &mut impl Write,
) -> Result<()> {
    let from = from.map(|from| Key::new(&from)).transpose()?;
    let mut kv = open_to_read(device)?;
    for key in kv.keys_with_prefix(prefix, from)?.take(usize::try_from(limit)?) {
        shown.write(&key?, out)?;
    }
    Ok(())
}

/// A file of records and the device they are for.
struct Import<'a> {
    device: &'a args::Device,
    file: &'a Path,
    format: Format,
    interrupt: &'a Interrupt,
}

impl Import<'_> {
    fn records(&self) -> Result<Records<Box<dyn BufRead>>> {
        records_of(self.file, self.format)
    }

    fn what(&self) -> String {
        format!("import {}", self.file.display())
    }

    fn store(&self, json: bool, out: &mut impl Write) -> Result<()> {
        let records: Result<Vec<_>, _> = self.records()?.collect();
        let records = records.with_context(|| self.what())?;
        let mut subject = Subject::open(&self.device.uri)?;
        let progress = Progress::new("import", records.len() as u64);
        let run =
            Run { count: records.len() as u64, seed: 0, interrupt: self.interrupt, progress: &progress };
        let stored = experiment::store(&mut subject, &records, &run).with_context(|| self.what())?;
        drop(progress);
        if json { Ok(print_json(out, &stored)?) } else { write_stored(&stored, out) }
    }

    fn compare(&self, json: bool, out: &mut impl Write) -> Result<()> {
        let mut kv = open_to_read(self.device)?;
        let (mut count, mut different) = (0u64, Vec::new());
        let mut records = self.records()?;
        loop {
            let some: Result<Vec<_>, _> = records.by_ref().take(COMPARED_AT_ONCE).collect();
            let some = some.with_context(|| self.what())?;
            if some.is_empty() {
                break;
            }
            let keys: Result<Vec<Key>, _> = some.iter().map(|record| Key::new(&record.key)).collect();
            let mut how = vec![None; some.len()];
            kv.get_many(&keys?, COMPARED_BYTES, |index, stored| {
                let wanted = some.get(index).map(|record| record.value.as_slice());
                if let Some(how) = how.get_mut(index).filter(|_| stored != wanted) {
                    *how = Some(if stored.is_some() { "differs" } else { "is missing" });
                }
            })
            .with_context(|| self.what())?;
            let named = some.iter().zip(how).filter_map(|(record, how)| Some((record, how?)));
            different.extend(named.map(|(record, how)| format!("{} {how}", record.key.escape_ascii())));
            count += some.len() as u64;
            self.interrupt.check()?;
        }
        if different.is_empty() {
            if json {
                print_json(out, &serde_json::json!({"count": count, "same": count}))?;
            } else {
                writeln!(out, "{count} records, all the same")?;
            }
            return Ok(());
        }
        let named =
            different.iter().take(NAMED_DIFFERENCES).map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(No(format!("{} of {count} records are not the same: {named}", different.len())).into())
    }
}

/// The records of a file, or of standard input.
fn records_of(file: &Path, format: Format) -> Result<Records<Box<dyn BufRead>>> {
    let from: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let opened = File::open(file).with_context(|| format!("open {}", file.display()))?;
        Box::new(BufReader::new(opened))
    };
    Ok(Records::new(from, format))
}

/// Stores records by bulk stores, as they are read.
fn load(
    device: &args::Device,
    mut records: Records<impl BufRead>,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut kv = open(device)?;
    let mut loader = kv.loader()?;
    let start = Instant::now();
    while let Some(record) = records.next() {
        let record = record?;
        let key = Key::new(&record.key).with_context(|| format!("line {}", records.line()))?;
        loader.add(&key, &record.value)?;
        interrupt.check()?;
    }
    let count = loader.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(writeln!(out, "{count} records in {seconds:.3} s, {:.0} a second", count as f64 / seconds)?)
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
        write!(out, " in {} of modelled time", table::time(row.model_ns_mean))?;
    }
    writeln!(out, ", {nand_pages} flash pages, {}", table::rate(1e9 / row.wall_ns_mean.max(1.0)))?;
    Ok(())
}

fn export(
    device: &args::Device,
    file: Option<&Path>,
    format: Format,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut file = match file {
        Some(path) => {
            let file = File::create_new(path).with_context(|| format!("make {}", path.display()))?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    let mut kv = open_to_read(device)?;
    let mut stretches = 0;
    // The keys first: taking them and reading values use one queue.
    let keys = kv.listable_keys(|unlisted| {
        stretches += 1;
        eprintln!("byway: {unlisted}");
    })?;
    let mut unread = 0;
    for key in keys {
        interrupt.check()?;
        let key = key.as_bytes();
        let value = match kv.get(key) {
            Err(error) if error.kind() == ErrorKind::Media => {
                unread += 1;
                eprintln!("byway: {error}");
                continue;
            }
            got => got?.with_context(|| format!("key {} vanished", key.escape_ascii()))?,
        };
        match &mut file {
            Some(file) => records::write(file, format, key, &value)?,
            None => records::write(&mut *out, format, key, &value)?,
        }
    }
    if let Some(mut file) = file {
        file.flush()?;
    }
    ensure_all(unread, stretches)
}

/// An error where an export lacks something.
fn ensure_all(unread: u64, stretches: u64) -> Result<()> {
    let some = |count: u64, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    let lacking = [
        some(unread, "key that cannot be read", "keys that cannot be read"),
        some(stretches, "stretch of keys that cannot be listed", "stretches of keys that cannot be listed"),
    ];
    let lacking: Vec<String> = lacking.into_iter().flatten().collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let lacking = lacking.join(" and ");
    bail!("the export lacks {lacking}; all else is in it")
}
