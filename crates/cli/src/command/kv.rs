//! `byway kv`: keys and values, one by one.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Result;
use byway::{Key, ScanOptions, StoreOptions};
use byway_console::failure::Silent;
use byway_console::files;
use byway_console::records::JsonRecord;
use byway_console::terminal::{Interrupt, print_if_json, print_json};
use serde::Serialize;

use super::kv_device::{Shown, checked_key, flush, key_of, no_key, open, open_to_read};
use super::{kv_exec, kv_export, kv_import, kv_ranges, kv_records, shell};
use crate::args::{self, KvCommand};

/// Does one of the commands.
///
/// # Errors
/// When the device refuses, a file cannot be read or written, or the work is interrupted; [`byway::ErrorKind::KeyNotFound`] when a key is not there.
pub fn run(command: &KvCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        KvCommand::Put { device, key, value, file, if_present, if_absent, json } => {
            let value = read_value(value.as_deref(), file.as_deref(), interrupt)?;
            let options = StoreOptions::NONE.must_exist(*if_present).must_not_exist(*if_absent);
            put(device, key, &value, options, *json, out)
        }
        KvCommand::Get { device, key, file, json } => get(device, key, file.as_deref(), *json, out),
        KvCommand::Delete { device, key, json } => delete(device, key, *json, out),
        KvCommand::Exists { device, key, json } => exists(device, key, *json, out),
        KvCommand::List { device, from, prefix, limit, hex, json } => {
            let bytes = |text: &Option<String>| text.as_deref().map(|text| key_of(text, *hex)).transpose();
            let (from, prefix) = (bytes(from)?, bytes(prefix)?.unwrap_or_default());
            let shown = Shown { hex: *hex, json: *json };
            list(device, from, &prefix, limit.unwrap_or(u64::MAX), shown, out)
        }
        KvCommand::Scan { device, range, reverse, limit, keys, value_bytes, json } => {
            let options = ScanOptions::default().backward(*reverse).limit(*limit).keys_only(*keys);
            let shown =
                kv_ranges::Shown { options: options.value_bytes(*value_bytes), json: *json, page: None };
            kv_ranges::scan(device, range, &shown, out, interrupt)
        }
        KvCommand::Count { device, range, json } => kv_ranges::count(device, range, *json, out, interrupt),
        KvCommand::DeleteRange { device, range, all, dry_run, json } => {
            kv_ranges::delete_range(device, range, (*all, *dry_run, *json), out, interrupt)
        }
        KvCommand::Batch { device, file, hex, json } => {
            kv_ranges::batch(device, file, (*hex, *json), out, interrupt)
        }
        KvCommand::Exec(exec) => kv_exec::run(exec, out, interrupt),
        KvCommand::Flush { device } => flush(&mut open(device)?),
        KvCommand::Import(import) if import.compare => kv_records::compare(import, out, interrupt),
        KvCommand::Import(import) if import.cost => kv_records::store(import, out, interrupt),
        KvCommand::Import(import) => kv_import::run(import, out, interrupt),
        KvCommand::Export(export) => kv_export::run(export, out, interrupt),
        KvCommand::Shell(shell) => shell::run(shell, out, interrupt),
    }
}

/// Parses a key argument.
///
/// # Errors
/// Not 1 to 16 bytes, or malformed hexadecimal.
pub(super) fn parse_key(key: &args::Key) -> Result<Vec<u8>> {
    let bytes = key_of(&key.key, key.hex)?;
    checked_key(&bytes)?;
    Ok(bytes)
}

fn read_value(value: Option<&str>, file: Option<&Path>, interrupt: &Interrupt) -> Result<Vec<u8>> {
    if let Some(value) = value {
        return Ok(value.as_bytes().to_vec());
    }
    files::read(file.unwrap_or(Path::new("-")), interrupt)
}

/// A record that was stored, or written to a file.
#[derive(Serialize)]
struct Moved<'a> {
    #[serde(flatten)]
    key: JsonRecord<'a>,
    value_bytes: usize,
}

fn put(
    device: &args::Device,
    key: &args::Key,
    value: &[u8],
    options: StoreOptions,
    json: bool,
    out: &mut impl Write,
) -> Result<()> {
    let bytes = parse_key(key)?;
    open(device)?.put_if(&bytes, value, options)?;
    let stored = Moved { key: JsonRecord::of_key(&bytes, key.hex), value_bytes: value.len() };
    Ok(print_if_json(out, json, &stored)?)
}

fn get(
    device: &args::Device,
    key: &args::Key,
    file: Option<&Path>,
    json: bool,
    out: &mut impl Write,
) -> Result<()> {
    let bytes = parse_key(key)?;
    let value = open_to_read(device)?.get(&bytes)?.ok_or_else(|| no_key(&key.key))?;
    let record = JsonRecord::of_key(&bytes, key.hex);
    match file {
        Some(path) => {
            let written = files::create_new(path)?.write_all(&value);
            written.map_err(|cause| files::refused("write", path, cause))?;
            Ok(print_if_json(out, json, &Moved { key: record, value_bytes: value.len() })?)
        }
        None if json => Ok(print_json(out, &record.with_value(&value))?),
        None => show(&value, out),
    }
}

/// Writes the bytes of a value and no more, but for the end of a line where a person reads them.
pub(super) fn show(value: &[u8], out: &mut impl Write) -> Result<()> {
    out.write_all(value)?;
    if io::stdout().is_terminal() && !value.ends_with(b"\n") {
        writeln!(out)?;
    }
    Ok(())
}

/// What became of a key, or is known of it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Deleted(bool),
    Exists(bool),
}

/// A key, and an answer about it.
#[derive(Serialize)]
struct Answered<'a> {
    #[serde(flatten)]
    key: JsonRecord<'a>,
    #[serde(flatten)]
    answer: Answer,
}

impl Answer {
    fn print(self, key: &[u8], hex: bool, json: bool, out: &mut impl Write) -> Result<()> {
        let answered = Answered { key: JsonRecord::of_key(key, hex), answer: self };
        Ok(print_if_json(out, json, &answered)?)
    }
}

fn delete(device: &args::Device, key: &args::Key, json: bool, out: &mut impl Write) -> Result<()> {
    let bytes = parse_key(key)?;
    let mut kv = open(device)?;
    let was_there = kv.exists(&bytes)?;
    if was_there {
        kv.delete(&bytes)?;
    }
    Answer::Deleted(was_there).print(&bytes, key.hex, json, out)?;
    if was_there { Ok(()) } else { Err(no_key(&key.key).into()) }
}

fn exists(device: &args::Device, key: &args::Key, json: bool, out: &mut impl Write) -> Result<()> {
    let bytes = parse_key(key)?;
    let is_there = open_to_read(device)?.exists(&bytes)?;
    Answer::Exists(is_there).print(&bytes, key.hex, json, out)?;
    if is_there { Ok(()) } else { Err(Silent.into()) }
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
