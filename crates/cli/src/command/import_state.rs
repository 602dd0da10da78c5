//! The point from which an import goes on, and the records that it left out.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail, ensure};
use byway::{Identity, Namespace};
use byway_console::files;
use byway_console::records::to_hex;
use byway_records::{Place, Position};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::kv_import::format_of;
use crate::args;

/// Version of the state file.
const VERSION: u32 = 1;
/// Bytes at the beginning of a file that identify it.
const HEAD_BYTES: u64 = 64 * 1024;

/// What an import has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Records that were stored.
    pub stored: u64,
    /// Records whose keys existed, and kept their values.
    pub kept: u64,
    /// Records that were left out, and bytes of the file that they are in.
    pub skipped: u64,
    pub skipped_bytes: u64,
}

/// The file that is imported: it must not change.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SourceFile {
    bytes: u64,
    modified_ns: u128,
    /// Of its first 64 KiB.
    head_sha256: String,
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
    counts: Counts,
}

/// The state of an import in its file.
pub struct StateFile {
    path: PathBuf,
    state: State,
    /// Whether an earlier run has written it.
    goes_on: bool,
}

impl SourceFile {
    fn of(path: &Path) -> Result<Self> {
        let about = path.metadata().map_err(|cause| files::refused("open", path, cause))?;
        ensure!(about.is_file(), "{} is a stream: an import can be resumed of a file alone", path.display());
        let file = File::open(path).map_err(|cause| files::refused("open", path, cause))?;
        let mut head = Vec::new();
        file.take(HEAD_BYTES).read_to_end(&mut head).with_context(|| format!("read {}", path.display()))?;
        let modified = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            bytes: about.len(),
            modified_ns: modified.as_nanos(),
            head_sha256: to_hex(Sha256::digest(&head).as_slice()),
        })
    }
}

impl StateFile {
    /// The state of an import that keeps one: as its file has it, or that of the beginning.
    ///
    /// # Errors
    /// A state of another file, device or command; a file that is no state.
    pub fn of(import: &args::Import, device: &Identity, namespace: &Namespace) -> Result<Option<Self>> {
        let path = match &import.state {
            Some(path) => path.clone(),
            None if import.resume => beside(&import.file),
            None => return Ok(None),
        };
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
            counts: Counts::default(),
        };
        let (state, goes_on) = match std::fs::read(&path) {
            Ok(text) => (state.at_point_of(&text, &path, &import.file)?, true),
            Err(error) if error.kind() == ErrorKind::NotFound => (state, false),
            Err(cause) => return Err(files::refused("read", &path, cause)),
        };
        Ok(Some(Self { path, state, goes_on }))
    }

    /// What an earlier run has done; none where this is the first.
    pub fn goes_on_at(&self) -> Option<Counts> {
        self.goes_on.then(|| self.state.counts.clone())
    }

    /// The state in its file, before the first record is stored or left out.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn begin(mut self) -> Result<Self> {
        if !self.goes_on {
            let (position, counts) = self.point();
            self.write(position, &counts)?;
        }
        Ok(self)
    }

    /// Where the import goes on, and what it has done by then.
    pub fn point(&self) -> (Position, Counts) {
        (self.state.position, self.state.counts.clone())
    }

    /// Writes down that everything before a position is stored and durable. A kill leaves the old state or the new one.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&mut self, position: Position, counts: &Counts) -> Result<()> {
        (self.state.position, self.state.counts) = (position, counts.clone());
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

/// Where the state is kept if no place is named.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".import-state");
    name.into()
}

impl State {
    /// The same at the point of a state that was written down.
    fn at_point_of(self, text: &[u8], path: &Path, file: &Path) -> Result<Self> {
        let (shown, file) = (path.display(), file.display());
        let Ok(written) = serde_json::from_slice::<Self>(text) else {
            bail!("{shown} is no state of an import: remove it to begin anew, or name another by --state");
        };
        let anew = format!("remove {shown} to begin anew");
        ensure!(written.byway_import == VERSION, "{shown} is of another version of byway: {anew}");
        ensure!(written.source == self.source, "{file} has changed since its import began: {anew}");
        ensure!(
            written.target == self.target,
            "the import of {file} began on another device or namespace: {anew}"
        );
        ensure!(
            written.options == self.options,
            "the import of {file} began with another format, columns or condition: {anew}"
        );
        Ok(Self { position: written.position, counts: written.counts, ..self })
    }
}

/// The file of records that were left out: a JSON object a line.
pub struct BadRecords {
    path: PathBuf,
    file: BufWriter<File>,
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
    /// A new file, or that of an import that goes on: what it has beyond the bytes that the point knows is cut off.
    ///
    /// # Errors
    /// A file that exists already, or cannot be written.
    pub fn open(path: &Path, goes_on_at_bytes: Option<u64>) -> Result<Self> {
        let file = match goes_on_at_bytes {
            Some(bytes) if bytes > 0 || path.exists() => {
                let opened = File::options().write(true).open(path);
                let mut file = opened.map_err(|cause| files::refused("open", path, cause))?;
                file.set_len(bytes).and_then(|()| file.seek(SeekFrom::End(0)))?;
                file
            }
            _ => files::create_new(path)?,
        };
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
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
