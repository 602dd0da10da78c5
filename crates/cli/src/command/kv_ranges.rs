//! `byway kv`: scans, counts and deletions of ranges, and batches.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use byway::{Batch, Error, ErrorKind, KeyRange, Kv, ScanOptions};
use byway_console::files;
use byway_console::records::JsonRecord;
use byway_console::terminal::{Interrupt, Progress, print_json};
use serde::Serialize;

use super::kv_device::{key_of, open, open_to_read, text};
use crate::args;

/// Keys between two looks at Ctrl-C and two lines of progress.
const KEYS_AT_ONCE: u64 = 16 * 1024;

/// What is shown of a scan.
pub struct Shown {
    /// What is asked for.
    pub options: ScanOptions,
    /// One JSON object a line.
    pub json: bool,
    /// Most pairs of a listing that a person reads and has set no limit to; a note says how to see more.
    pub page: Option<u64>,
}

/// Prints the pairs of a range.
///
/// # Errors
/// What the device refuses, an interruption.
pub fn scan(
    device: &args::Device,
    range: &args::KeyRange,
    shown: &Shown,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    print_pairs(&mut open_to_read(device)?, range.parsed()?, range.hex, shown, out, interrupt)
}

/// The same of a namespace that is open.
///
/// # Errors
/// As [`scan`].
pub fn print_pairs(
    kv: &mut Kv,
    range: KeyRange,
    hex: bool,
    shown: &Shown,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let options = shown.page.map_or(shown.options, |page| shown.options.limit(Some(page + 1)));
    let mut scan = kv.scan_with(range, options);
    let mut printed = 0;
    while let Some((key, value)) = scan.next_pair()? {
        if shown.page == Some(printed) {
            note_more(printed, out)?;
            break;
        }
        printed += 1;
        let value = (!shown.options.keys_only).then_some(value);
        interrupt.checked("the scan has not reached its end")?;
        match (shown.json, value) {
            (true, Some(value)) => print_json(out, &JsonRecord::of_key(key, hex).with_value(value))?,
            (true, None) => print_json(out, &JsonRecord::of_key(key, hex))?,
            (false, Some(value)) => writeln!(out, "{}\t{}", text(key, hex), text(value, hex))?,
            (false, None) => writeln!(out, "{}", text(key, hex))?,
        }
    }
    Ok(())
}

/// Says, behind the listing that a person reads, that there is more.
pub(super) fn note_more(printed: u64, out: &mut impl Write) -> Result<()> {
    out.flush()?;
    note!(
        "there are more than these {printed}: --limit COUNT shows so many, --from KEY begins at another key"
    );
    Ok(())
}

/// How many keys there are, or were.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counted {
    Count(u64),
    Deleted(u64),
    WouldDelete(u64),
}

impl Counted {
    pub fn print(&self, json: bool, out: &mut impl Write) -> Result<()> {
        let (Self::Count(keys) | Self::Deleted(keys) | Self::WouldDelete(keys)) = self;
        if json {
            print_json(out, self)?
        } else {
            writeln!(out, "{keys}")?
        }
        Ok(())
    }
}

/// Prints how many keys a range has.
///
/// # Errors
/// As [`scan`].
pub fn count(
    device: &args::Device,
    range: &args::KeyRange,
    json: bool,
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    Counted::Count(counted(device, range, interrupt)?).print(json, out)
}

fn counted(device: &args::Device, range: &args::KeyRange, interrupt: &Interrupt) -> Result<u64> {
    count_keys(&mut open_to_read(device)?, range.parsed()?, interrupt)
}

/// Keys of a range of a namespace.
///
/// # Errors
/// As [`scan`].
pub fn count_keys(kv: &mut Kv, range: KeyRange, interrupt: &Interrupt) -> Result<u64> {
    let progress = Progress::line("count keys");
    let mut scan = kv.scan_with(range, ScanOptions::default().keys_only(true));
    let mut keys = 0;
    while scan.next_pair()?.is_some() {
        keys += 1;
        if keys % KEYS_AT_ONCE == 0 {
            interrupt.checked("not all keys were counted")?;
            progress.say(&format!("{keys} keys"));
        }
    }
    Ok(keys)
}

/// Deletes the keys of a range, and prints how many; with `dry_run` only that.
///
/// # Errors
/// As [`scan`]; a range of all keys that was not asked for.
pub fn delete_range(
    device: &args::Device,
    range: &args::KeyRange,
    (all, dry_run, json): (bool, bool, bool),
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    if !all && range.is_all() {
        bail!("name the keys by --prefix, --from or --to, or say --all");
    }
    if dry_run {
        return Counted::WouldDelete(counted(device, range, interrupt)?).print(json, out);
    }
    let deleted = delete_keys(&mut open(device)?, range.parsed()?, interrupt)?;
    Counted::Deleted(deleted).print(json, out)
}

/// Deletes the keys of a range of a namespace; how many there were.
///
/// # Errors
/// As [`scan`].
pub fn delete_keys(kv: &mut Kv, range: KeyRange, interrupt: &Interrupt) -> Result<u64> {
    let progress = Progress::line("delete keys");
    let deleted = kv.delete_range_watched(range, |deleted| {
        progress.say(&format!("{deleted} keys deleted"));
        match interrupt.check() {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::host(ErrorKind::Cancelled, "interrupted")),
        }
    });
    interrupt.ended(deleted, "not all keys of the range were deleted")
}

/// Commits the puts and deletions of a file atomically.
///
/// # Errors
/// A line that is none of them, and what the device refuses.
pub fn batch(
    device: &args::Device,
    file: &Path,
    (hex, json): (bool, bool),
    out: &mut impl Write,
    interrupt: &Interrupt,
) -> Result<()> {
    let batch = parse(&files::read(file, interrupt)?, hex)?;
    open(device)?.commit(&batch)?;
    if json {
        print_json(out, &serde_json::json!({ "committed": batch.len() }))?;
    }
    Ok(())
}

fn parse(text: &[u8], hex: bool) -> Result<Batch> {
    let mut batch = Batch::new();
    for (line, nth) in text.split(|byte| *byte == b'\n').zip(1..) {
        add_line(&mut batch, line, hex).with_context(|| format!("line {nth}"))?;
    }
    Ok(batch)
}

fn add_line(batch: &mut Batch, line: &[u8], hex: bool) -> Result<()> {
    let bytes = |field: &[u8]| match hex {
        true => key_of(std::str::from_utf8(field)?, true),
        false => Ok(field.to_vec()),
    };
    let mut fields = line.splitn(3, |byte| *byte == b'\t');
    match (fields.next(), fields.next(), fields.next()) {
        (None | Some(b""), None, None) => Ok(()),
        (Some(b"put"), Some(key), Some(value)) => Ok(batch.put(&bytes(key)?, &bytes(value)?)?),
        (Some(b"delete"), Some(key), None) => Ok(batch.delete(&bytes(key)?)?),
        _ => bail!("neither put TAB KEY TAB VALUE nor delete TAB KEY"),
    }
}

impl args::KeyRange {
    fn is_all(&self) -> bool {
        self.prefix.as_ref().is_none_or(String::is_empty) && self.from.is_none() && self.to.is_none()
    }

    /// The range that the options name.
    ///
    /// # Errors
    /// What is no key.
    pub fn parsed(&self) -> Result<KeyRange> {
        let bytes = |text: &Option<String>| text.as_deref().map(|text| key_of(text, self.hex)).transpose();
        range_of(bytes(&self.prefix)?, bytes(&self.from)?, bytes(&self.to)?)
    }
}

/// The keys of a prefix, or those from one up to another.
///
/// # Errors
/// What is no key, and a prefix beside bounds.
pub fn range_of(prefix: Option<Vec<u8>>, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Result<KeyRange> {
    Ok(match (prefix, from, to) {
        (Some(prefix), None, None) => KeyRange::prefix(&prefix)?,
        (Some(_), ..) => bail!("a prefix names a range of its own: leave it or the bounds out"),
        (None, None, None) => KeyRange::ALL,
        (None, Some(from), None) => KeyRange::new(from..)?,
        (None, None, Some(to)) => KeyRange::new(..to)?,
        (None, Some(from), Some(to)) => KeyRange::new(from..to)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_of_a_batch_are_puts_and_deletions() {
        assert_eq!(parse(b"put\tkey\ta value\twith a tab\n\ndelete\tother\n", false).unwrap().len(), 2);
        assert_eq!(parse(b"put\t6b\t\ndelete\t6b6b\n", true).unwrap().len(), 2);
    }

    #[test]
    fn line_that_is_none_is_named() {
        for wrong in [&b"put\tkey"[..], b"delete\tkey\tvalue", b"put key value", b"put\t\tvalue"] {
            let text = [b"delete\tkey\n", wrong].concat();
            let said = format!("{:#}", parse(&text, false).unwrap_err());
            assert!(said.starts_with("line 2"), "{said}");
        }
    }
}
