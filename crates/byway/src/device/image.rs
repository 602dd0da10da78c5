//! Which files are images, and what a path on a command line is taken for. A program that was built without `embedded` cannot open them, and must not write over them either.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::uri::{of_file_text, of_image_text, scheme_of, split_options};

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

/// The URI of a device that a user names by a URI or by a plain path: a URI as it is, the path of an image as `embedded:PATH`, any other
/// path as that of a file or device node. A name without `/` or `.` in front that is no file of this folder stays as it is, for [`open`](crate::open) to refuse.
#[must_use]
pub fn uri_of(text: &str) -> String {
    let path = Path::new(split_options(text).0);
    match scheme_of(text) {
        Some(_) => text.to_owned(),
        None if is_image(path) => of_image_text(text),
        None if path.exists() => of_file_text(text),
        None => text.to_owned(),
    }
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

    #[test]
    fn name_is_taken_for_an_image_a_file_or_a_uri_by_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        crate::create(Path::new(&path("a.img")), &crate::CreateOptions::new(64 << 20)).unwrap();
        std::fs::write(path("a.bin"), [0; 512]).unwrap();
        assert_eq!(uri_of(&path("a.img?ns=1")), format!("embedded:{}?ns=1", path("a.img")));
        assert_eq!(uri_of(&path("a.bin?direct=1")), path("a.bin?direct=1"));
        assert_eq!(uri_of("Cargo.toml?lba=512"), "./Cargo.toml?lba=512");
        for same in ["ram:64M", "tcp://host/nqn", "/nowhere/disk.img", "nowhere.img", "embed:a.img"] {
            assert_eq!(uri_of(same), same);
        }
    }
}
