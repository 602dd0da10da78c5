//! Answers of a controller: decoded, as JSON, or as bytes; and a message for what it does not have.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use byway::spec::Status;
use byway::{Backend, Device, Nsid};
use byway_console::files;
use byway_console::records::to_hex;
use byway_console::terminal::print_json;
use serde::Serialize;

use crate::args::Form;
use crate::decode::Decoded;
use crate::hexdump;

/// Bytes of a structure that is not known here.
#[derive(Serialize)]
struct Unknown {
    bytes_hex: String,
}

/// Writes an answer as it was asked for.
///
/// # Errors
/// Those of the file or of `out`.
pub fn write(form: &Form, bytes: &[u8], decoded: Option<&Decoded>, out: &mut impl Write) -> Result<()> {
    match (&form.file, decoded) {
        (Some(path), _) => write_file(path, bytes)?,
        (None, _) if form.raw && !io::stdout().is_terminal() => out.write_all(bytes)?,
        (None, Some(decoded)) if form.json => print_json(out, decoded)?,
        (None, None) if form.json => print_json(out, &Unknown { bytes_hex: to_hex(bytes) })?,
        (None, Some(decoded)) if !form.raw => decoded.write(out)?,
        (None, _) => hexdump::write(bytes, out)?,
    }
    Ok(())
}

/// Writes bytes to a new file.
///
/// # Errors
/// When there is such a file, or it cannot be made.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = files::create_new(path)?;
    file.write_all(bytes).with_context(|| format!("write {}", path.display()))
}

/// A thing by its number, and by its name where it has one.
pub fn named(what: &str, number: u8, name: impl fmt::Display) -> String {
    let (number, name) = (format!("{number:02x}h"), name.to_string());
    if name == number { format!("{what} {number}") } else { format!("{what} {number} ({name})") }
}

/// A plain message where the controller lacks what was requested; any other error unchanged.
pub fn unless_missing(what: impl fmt::Display, error: byway::Error) -> anyhow::Error {
    let is_missing = error.nvme_status().is_some_and(|status| {
        matches!(status.code(), Status::INVALID_FIELD | Status::INVALID_OPCODE | Status::INVALID_LOG_PAGE)
    });
    match is_missing {
        true => anyhow::anyhow!("{what} is not supported by this controller: {error}"),
        false => error.doing(what.to_string()).into(),
    }
}

/// The namespace that is asked for, or the URI's, or the device's first.
///
/// # Errors
/// A number that is none, a device without namespaces.
pub fn namespace_of(device: &Device, asked: Option<u32>) -> Result<Nsid> {
    if let Some(nsid) = asked {
        return Ok(Nsid::new(nsid)?);
    }
    match device.default_namespace() {
        Some(nsid) => Ok(nsid),
        None => Ok(device.namespaces()?.first().context("the device has no namespace")?.nsid),
    }
}
