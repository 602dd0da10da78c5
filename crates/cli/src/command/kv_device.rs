//! What commands on keys and values share: opening a namespace, keys as they are typed and shown.

use std::io::Write;

use anyhow::Result;
use byway::{BackendQueue, Error, ErrorKind, Key, Kv, NvmCommand};
use byway_console::records::{JsonRecord, key_error, parse_hex, to_hex};
use byway_console::terminal::print_json;

use crate::args;
use crate::opened;

/// A device that is written to.
///
/// # Errors
/// What cannot be opened, or has no namespace of keys and values.
pub fn open(device: &args::Device) -> Result<Kv> {
    Ok(opened::open(&device.uri())?.kv(None)?)
}

/// The same for a command that only reads.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(device: &args::Device) -> Result<Kv> {
    Ok(opened::open_to_read(&device.uri())?.kv(None)?)
}

/// The bytes of a key: text, or hexadecimal digits.
///
/// # Errors
/// What is no hexadecimal number.
pub fn key_of(text: &str, hex: bool) -> Result<Vec<u8>> {
    if hex { parse_hex(text).map_err(anyhow::Error::msg) } else { Ok(text.as_bytes().to_vec()) }
}

/// The answer that there is no such key.
pub fn no_key(key: &str) -> byway::Error {
    byway::Error::host(ErrorKind::KeyNotFound, format!("there is no key {key:?}"))
}

/// Bytes as a line shows them: text as it is, and with escapes where it has control characters or is none (UTF-8).
pub fn text(bytes: &[u8], hex: bool) -> String {
    if hex {
        return to_hex(bytes);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// A key of a command.
///
/// # Errors
/// Bytes that are none, with what can be done.
pub fn checked_key(bytes: &[u8]) -> Result<Key> {
    let explained = |error| Error::host(Error::from(error).kind(), key_error(bytes, error));
    Ok(Key::new(bytes).map_err(explained)?)
}

/// How keys are shown.
#[derive(Clone, Copy)]
pub struct Shown {
    /// As hexadecimal digits.
    pub hex: bool,
    /// As JSON objects.
    pub json: bool,
}

impl Shown {
    /// Writes a line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(self, key: &Key, out: &mut impl Write) -> Result<()> {
        let bytes = key.as_bytes();
        if self.json {
            return Ok(print_json(out, &JsonRecord::of_key(bytes, self.hex))?);
        }
        Ok(writeln!(out, "{}", text(bytes, self.hex))?)
    }
}

/// Makes the acknowledged records durable.
///
/// # Errors
/// What the device says. One without Flush has nothing to write back.
pub fn flush(kv: &mut Kv) -> Result<()> {
    let nsid = kv.nsid();
    match kv.queue().execute(NvmCommand::Flush { nsid }.into()) {
        Err(error) if error.kind() != ErrorKind::Unsupported => Err(error.doing("flush").into()),
        _ => Ok(()),
    }
}
