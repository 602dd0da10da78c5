//! Paths in URIs: how a byte that would be misread is written.
//!
//! In `embedded:PATH`, `file:PATH` and `vfio-user:PATH`, `%XX` is the byte with these two hexadecimal digits (RFC 3986,
//! section 2.1); a `%` without two digits behind it is itself.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Decodes the path of a URI.
pub(crate) fn decode(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match escaped(&bytes[at..]) {
            Some(meant) => {
                decoded.push(meant);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    OsString::from_vec(decoded).into()
}

/// Decodes an escape at the beginning of `bytes`.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |letter: &u8| char::from(*letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Encodes a path for a URI: bytes with a meaning there are escaped.
pub(crate) fn encode(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_text = path.to_str().is_some();
    let mut text = Vec::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        let is_escape = escaped(&bytes[at..]).is_some();
        if byte == b'?' || byte.is_ascii_control() || is_escape || !is_text && !byte.is_ascii() {
            text.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            text.push(byte);
        }
    }
    // What is left beside ASCII is whole text.
    String::from_utf8_lossy(&text).into_owned()
}

/// The URI of the device in the image at `path`, whatever bytes the path has: `embedded:PATH`.
#[must_use]
pub fn of_image(path: impl AsRef<Path>) -> String {
    format!("embedded:{}", encode(path.as_ref()))
}
