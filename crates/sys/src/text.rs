//! Small files of text: keys, names, settings. None is read without a limit, as a device has no end.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Longest file of settings: keys, names and secrets.
pub const SETTINGS_MAX_BYTES: u64 = 1 << 20;

/// The text of a file of at most [`SETTINGS_MAX_BYTES`]. A pipe is read to its end.
///
/// # Errors
/// What the system says; `InvalidData` for what is longer, or no UTF-8.
pub fn read_settings(path: &Path) -> io::Result<String> {
    let text = read_at_most(File::open(path)?, SETTINGS_MAX_BYTES)?;
    String::from_utf8(text).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8 text"))
}

/// All bytes of a file or pipe, `most_bytes` at most.
///
/// # Errors
/// What the system says; `InvalidData` for what is longer.
pub fn read_at_most(from: impl Read, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        let why = format!("it is longer than {} MiB, which is the most", most_bytes >> 20);
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn settings_up_to_the_limit_are_read_and_longer_ones_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "k".repeat(SETTINGS_MAX_BYTES as usize)).unwrap();
        assert_eq!(read_settings(&path).unwrap().len() as u64, SETTINGS_MAX_BYTES);
        let refused = read_settings(Path::new("/dev/zero")).unwrap_err();
        assert!(refused.to_string().contains("longer than 1 MiB"), "{refused}");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_settings(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
