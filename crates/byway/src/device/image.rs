//! Which files are images. A program that was built without `embedded` cannot open them, and must not write over them either.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// First bytes of an image's superblock.
const MAGIC: [u8; 8] = *b"BYWAYIMG";

/// Whether `path` is a file that begins as an image does, whole or not; false for what cannot be read.
#[must_use]
pub fn is_image(path: &Path) -> bool {
    let mut begins = [0; MAGIC.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut begins)).is_ok()
        && begins == MAGIC
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn created_image_is_one_and_a_file_of_zeroes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (image, zeroes) = (folder.path().join("a.img"), folder.path().join("zeroes"));
        crate::create(&image, &crate::CreateOptions::new(64 << 20)).unwrap();
        std::fs::write(&zeroes, [0; 4096]).unwrap();
        assert_eq!([&image, &zeroes, folder.path()].map(is_image), [true, false, false]);
    }
}
