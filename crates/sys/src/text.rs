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
    let mut text = Vec::new();
    File::open(path)?.take(SETTINGS_MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > SETTINGS_MAX_BYTES {
        let why = format!("it is longer than {SETTINGS_MAX_BYTES} bytes, which is the most");
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    String::from_utf8(text).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8 text"))
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
        assert!(refused.to_string().contains("longer than 1048576 bytes"), "{refused}");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_settings(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
