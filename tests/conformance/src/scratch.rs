//! A file to work on, gone when the test is over.

use std::path::PathBuf;

/// A file of [`Scratch::BYTES`] zeroes.
pub struct Scratch {
    _folder: tempfile::TempDir,
    pub path: PathBuf,
}

impl Scratch {
    /// Its size.
    pub const BYTES: u64 = 8 << 20;

    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks");
        std::fs::File::create(&path).unwrap().set_len(Self::BYTES).unwrap();
        Self { _folder: folder, path }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
