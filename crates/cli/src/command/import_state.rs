//! The point from which an import goes on, and the records that it left out.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail, ensure};
use byway::{Identity, Kv, Namespace};
use byway_console::files;
use byway_console::records::to_hex;
use byway_console::terminal::Interrupt;
use byway_records::{Place, Position, Source};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::import_last::LastStored;
use super::kv_import::format_of;
use crate::args;

/// Version of the state file.
const VERSION: u32 = 2;
/// Bytes at either end of a file, and before a point, that identify it.
const PART_BYTES: u64 = 64 * 1024;

/// What an import has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Records that were stored.
    pub stored: u64,
    /// Records whose keys existed, and kept their values.
    pub kept: u64,
    /// Records that were left out.
    pub skipped: u64,
}

/// The file that has the records that were left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BadFile {
    /// Absolute, in hexadecimal digits where it is no text.
    path: String,
    /// Bytes of it that the counts know of.
    bytes: u64,
}

/// The file that is imported: it must not change.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SourceFile {
    bytes: u64,
    modified_ns: u128,
    /// SHA-256 of its first and its last 64 KiB.
    ends_sha256: String,
}

/// Where records go.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TargetNamespace {
    subsystem: String,
    serial: String,
    nsid: u32,
    nguid: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    byway_import: u32,
    source: SourceFile,
    target: TargetNamespace,
    /// Format, columns and condition.
    options: String,
    /// Everything before is stored and durable.
    position: Position,
    /// SHA-256 of the 64 KiB of the file before the position; of nothing in Parquet.
    before_sha256: String,
    counts: Counts,
    /// The record that was stored last; none before the first.
    last: Option<LastStored>,
    /// Made by this import; none where no run of it has left records out.
    #[serde(default)]
    skip_bad: Option<BadFile>,
}

/// What a state of any version has.
#[derive(Deserialize)]
struct Versioned {
    byway_import: u32,
}

/// The state of an import in its file.
pub struct StateFile {
    path: PathBuf,
    state: State,
    /// Whether an earlier run has written it.
    goes_on: bool,
    /// The file that is imported.
    source: PathBuf,
}

impl SourceFile {
    fn of(path: &Path) -> Result<Self> {
        let about = path.metadata().map_err(|cause| files::refused("open", path, cause))?;
        ensure!(about.is_file(), "{} is a stream: an import can be resumed of a file alone", path.display());
        let modified = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ends = sha256_of(path, &[PART_BYTES.min(about.len()), about.len()])?;
        Ok(Self { bytes: about.len(), modified_ns: modified.as_nanos(), ends_sha256: ends })
    }
}

/// SHA-256 of up to 64 KiB of a file that end at each of some bytes.
fn sha256_of(path: &Path, ends: &[u64]) -> Result<String> {
    let mut file = File::open(path).map_err(|cause| files::refused("open", path, cause))?;
    let mut sum = Sha256::new();
    for end in ends {
        let bytes = PART_BYTES.min(*end);
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(end - bytes))
            .and_then(|_| Read::by_ref(&mut file).take(bytes).read_to_end(&mut part))
            .map_err(|cause| files::refused("read", path, cause))?;
        sum.update(&part);
    }
    Ok(to_hex(sum.finalize().as_slice()))
}

impl StateFile {
    /// The state of an import that keeps one: as its file has it, or that of the beginning.
    ///
    /// # Errors
    /// A state of another file, device or command; a file that is no state.
    pub fn of(import: &args::Import, device: &Identity, namespace: &Namespace) -> Result<Option<Self>> {
        let Some(path) = path_of(import) else { return Ok(None) };
        let state = State {
            byway_import: VERSION,
            source: SourceFile::of(&import.file)?,
            target: TargetNamespace {
                subsystem: device.subsystem.clone(),
                serial: device.serial.clone(),
                nsid: namespace.nsid.get(),
                nguid: to_hex(&namespace.nguid),
            },
            options: format!("{:?} {:?} {}", format_of(import), import.columns.of_file(), import.if_absent),
            position: Position::default(),
            before_sha256: sha256_of(&import.file, &[0])?,
            counts: Counts::default(),
            last: None,
            skip_bad: None,
        };
        let (state, goes_on) = match std::fs::read(&path) {
            Ok(text) => (state.at_point_of(&text, &path, &import.file)?, true),
            Err(error) if error.kind() == ErrorKind::NotFound => (state, false),
            Err(cause) => return Err(files::refused("read", &path, cause)),
        };
        Ok(Some(Self { path, state, goes_on, source: import.file.clone() }))
    }

    /// Refuses a device that has not the record that was stored last: others may be gone too.
    ///
    /// # Errors
    /// That, and as [`LastStored::is_on`].
    pub fn ensure_on(
        &self,
        kv: &mut Kv,
        open: impl FnOnce() -> Result<Box<dyn Source>>,
        later_max: u64,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let Some(last) = &self.state.last else { return Ok(()) };
        ensure!(
            last.is_on(kv, open, later_max, interrupt)?,
            "the device has not the value of key {} (hexadecimal) that this import stored last: it was formatted, restored or \
             written to since; remove {} to begin anew",
            last.key_hex(),
            self.path.display()
        );
        Ok(())
    }

    /// Bytes of the file of records left out that the point knows of; none where no run of this import made such a file.
    pub fn bad_bytes(&self, path: &Path) -> Result<Option<u64>> {
        let path = absolute(path)?;
        Ok(self.state.skip_bad.as_ref().filter(|bad| bad.path == path).map(|bad| bad.bytes))
    }

    /// The state in its file, before the first record is stored or left out, with the file of records that are left out.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn begin(mut self, bad: Option<&BadRecords>) -> Result<Self> {
        let before = self.state.skip_bad.clone();
        if let Some(bad) = bad {
            self.state.skip_bad = Some(BadFile { path: absolute(&bad.path)?, bytes: bad.bytes });
        }
        if !self.goes_on || self.state.skip_bad != before {
            let (position, counts) = self.point();
            let last = self.state.last.clone();
            self.write(position, &counts, last, None)?;
        }
        Ok(self)
    }

    /// Where the import goes on, and what it has done by then.
    pub fn point(&self) -> (Position, Counts) {
        (self.state.position, self.state.counts.clone())
    }

    /// Writes down that everything before a position is stored and durable, the record that was stored last by this run, and the length
    /// of the file of records left out. A kill leaves the old state or the new one.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(
        &mut self,
        position: Position,
        counts: &Counts,
        last: Option<LastStored>,
        bad_bytes: Option<u64>,
    ) -> Result<()> {
        if let (Some(bad), Some(bytes)) = (&mut self.state.skip_bad, bad_bytes) {
            bad.bytes = bytes;
        }
        (self.state.position, self.state.counts) = (position, counts.clone());
        self.state.before_sha256 = sha256_of(&self.source, &[position.bytes])?;
        self.state.last = last.or(self.state.last.take());
        files::replace(&self.path, &serde_json::to_vec(&self.state)?)
    }

    /// Ends the import.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn remove(self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(files::refused("remove", &self.path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Where the state of an import is kept; none where none is.
fn path_of(import: &args::Import) -> Option<PathBuf> {
    import.state.clone().or_else(|| import.resume.then(|| beside(&import.file)))
}

/// Refuses files that would overwrite one another.
///
/// # Errors
/// A state that is the imported file; records left out that go to either of them.
pub fn ensure_distinct_files(import: &args::Import) -> Result<()> {
    let state = path_of(import);
    if let Some(state) = state.as_deref().filter(|state| is_same_file(state, &import.file)) {
        bail!("{} is the file that is imported: name another by --state", state.display());
    }
    let Some(bad) = &import.skip_bad else { return Ok(()) };
    let shown = bad.display();
    ensure!(
        !is_same_file(bad, &import.file),
        "{shown} is the file that is imported: name another by --skip-bad"
    );
    let is_state = state.is_some_and(|state| is_same_file(bad, &state));
    ensure!(!is_state, "{shown} is the state of the import: name another by --skip-bad");
    Ok(())
}

/// Whether two paths are of one file, be it there or not.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => placed(one) == placed(other),
    }
}

/// The path with its folder as it is on the disk.
fn placed(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    path.file_name().map_or(folder.clone(), |name| folder.join(name))
}

/// The absolute path as text.
fn absolute(path: &Path) -> Result<String> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    Ok(path.to_str().map_or_else(|| to_hex(path.as_os_str().as_bytes()), str::to_owned))
}

/// Where the state is kept if no place is named.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".import-state");
    name.into()
}

impl State {
    /// The same at the point of a state that was written down.
    fn at_point_of(self, text: &[u8], path: &Path, source: &Path) -> Result<Self> {
        let (shown, file) = (path.display(), source.display());
        let anew = format!("remove {shown} to begin anew");
        let version =
            serde_json::from_slice::<Versioned>(text).map_or(VERSION, |written| written.byway_import);
        ensure!(version == VERSION, "{shown} is of another version of byway: {anew}");
        let Ok(written) = serde_json::from_slice::<Self>(text) else {
            bail!("{shown} is no state of an import: remove it to begin anew, or name another by --state");
        };
        let is_same = written.source == self.source
            && written.before_sha256 == sha256_of(source, &[written.position.bytes])?;
        ensure!(is_same, "{file} has changed since its import began: {anew}");
        ensure!(
            written.target == self.target,
            "the import of {file} began on another device or namespace: {anew}"
        );
        ensure!(
            written.options == self.options,
            "the import of {file} began with another format, columns or condition: {anew}"
        );
        let State { position, before_sha256, counts, last, skip_bad, .. } = written;
        Ok(Self { position, before_sha256, counts, last, skip_bad, ..self })
    }
}

/// The file of records that were left out: a JSON object a line.
pub struct BadRecords {
    path: PathBuf,
    file: BufWriter<File>,
    /// When it was opened.
    bytes: u64,
}

#[derive(Serialize)]
struct BadRecord<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<u64>,
    why: &'a str,
    record: &'a str,
}

impl BadRecords {
    /// A new file, or that of an import that goes on, which an earlier run of it made: what it has beyond the bytes that the point
    /// knows is cut off.
    ///
    /// # Errors
    /// A file that exists already and is not of the import, or is shorter; one that cannot be written.
    pub fn open(path: &Path, kept_bytes: Option<u64>) -> Result<Self> {
        let (file, bytes) = match kept_bytes {
            Some(bytes) if path.exists() => (cut(path, bytes)?, bytes),
            _ => (files::create_new(path)?, 0),
        };
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), bytes })
    }

    /// Adds a record, and why it is left out.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn add(&mut self, place: Place, why: &str, record: &str) -> Result<()> {
        let (line, row) = match place {
            Place::Line(line) => (Some(line), None),
            Place::Row(row) => (None, Some(row)),
        };
        let mut text = serde_json::to_vec(&BadRecord { line, row, why, record })?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|cause| files::refused("write", &self.path, cause))
    }

    /// Writes out what was added; the length of the file.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn flush(&mut self) -> Result<u64> {
        let length = self.file.flush().and_then(|()| self.file.get_mut().stream_position());
        length.map_err(|cause| files::refused("write", &self.path, cause))
    }
}

/// A file cut to its first bytes, to write behind them.
fn cut(path: &Path, bytes: u64) -> Result<File> {
    let opened = File::options().write(true).open(path);
    let mut file = opened.map_err(|cause| files::refused("open", path, cause))?;
    let shown = path.display();
    ensure!(
        file.metadata()?.len() >= bytes,
        "{shown} has changed since the import: name another by --skip-bad"
    );
    let cut = file.set_len(bytes).and_then(|()| file.seek(SeekFrom::End(0)));
    cut.map_err(|cause| files::refused("write", path, cause))?;
    Ok(file)
}
