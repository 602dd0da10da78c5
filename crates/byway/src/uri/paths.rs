//! From paths to URIs and back: of images, files, device nodes and sockets.

use std::path::{Path, PathBuf};

use byway_core::Result;

use crate::uri::address::Address;
use crate::uri::block::{BlockPlace, BlockUri};
#[cfg(feature = "embedded")]
use crate::uri::embedded::{Place, Uri};
use crate::uri::escape::{decode, encode, of_image};
use crate::uri::grammar::invalid;
#[cfg(feature = "vfio")]
use crate::uri::pcie::PciePlace;
use crate::uri::split::{scheme_of, split_options, with_options};

/// The URI of an image that is given as a plain path, perhaps with options: `disk.img?ns=2`. The path is taken as it is, so a
/// `%` in it is a percent sign.
#[must_use]
pub fn of_image_text(text: &str) -> String {
    let (path, options) = split_options(text);
    with_options(&of_image(path), options.unwrap_or_default())
}

/// The URI of a file or block device that is given as a plain path, perhaps with options: `sda.bin?direct=1`. The path is taken as it
/// is.
#[must_use]
pub fn of_file_text(text: &str) -> String {
    let (path, options) = split_options(text);
    with_options(&of_file(path), options.unwrap_or_default())
}

/// The URI of a file or block device: its path, which begins with `/` or `.` then, or `file:PATH` where that could be misread.
#[must_use]
pub fn of_file(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    match path.to_str().filter(|text| split_options(text).1.is_none()) {
        None => format!("file:{}", encode(path)),
        Some(text) if text.starts_with(['/', '.']) => text.to_owned(),
        Some(text) => format!("./{text}"),
    }
}

/// The path that a URI leads to: of an image, a file, a device node or a socket.
#[must_use]
pub fn path_of(uri: &str) -> Option<PathBuf> {
    match uri.parse().ok()? {
        Address::Blocks(uri) => file_in(uri),
        #[cfg(feature = "embedded")]
        Address::Embedded(uri) => match uri.place {
            Place::Image(path) => Some(path),
            _ => None,
        },
        #[cfg(feature = "vfio")]
        Address::Pcie(uri) => match uri.place {
            PciePlace::VfioUser(path) => Some(path),
            PciePlace::Pci(_) => None,
        },
        _ => None,
    }
}

/// The path of the file or block device whose bytes are the blocks of a URI; `None` where it is an image's device, or no file.
#[must_use]
pub fn file_of(uri: &str) -> Option<PathBuf> {
    match uri.parse().ok()? {
        Address::Blocks(uri) => file_in(uri),
        _ => None,
    }
}

fn file_in(uri: BlockUri) -> Option<PathBuf> {
    match uri.place {
        BlockPlace::Path(path) | BlockPlace::File(path) => Some(path),
        _ => None,
    }
}

#[cfg(feature = "embedded")]
/// The path of an image: `path` as it is, or what it says as `embedded:PATH`.
///
/// # Errors
/// URIs of what is no image, and options.
pub(crate) fn of_existing_image(path: &Path) -> Result<PathBuf> {
    let Some((scheme, rest)) = path.to_str().and_then(scheme_of) else { return Ok(path.to_owned()) };
    let text = path.display();
    if scheme != "embedded" {
        let said =
            format!("{text} is no image: expected a path or embedded:PATH (a file of that name is ./{text})");
        return Err(invalid(said));
    }
    match split_options(rest) {
        ("", _) => Err(invalid(format!("{text}: an image's path follows embedded:"))),
        (place, None) => Ok(decode(place)),
        (_, Some(_)) => Err(invalid(format!(
            "{text}: options mean nothing here; a ? that belongs to the path is written %3F"
        ))),
    }
}

#[cfg(feature = "embedded")]
/// The path of an image that is to be made: one that `embedded:PATH` leads back to.
///
/// # Errors
/// As [`of_existing_image`], and a path that would mean something else in a URI, with the URI that is right.
pub(crate) fn of_new_image(path: &Path) -> Result<PathBuf> {
    let image = of_existing_image(path)?;
    let text = path.to_str();
    if text.and_then(scheme_of).is_some() {
        return Ok(image);
    }
    let reopened = text.map(|text| format!("embedded:{text}").parse::<Uri>());
    match reopened {
        Some(Ok(uri)) if uri.place == Place::Image(image.clone()) => Ok(image),
        // A path that is not UTF-8 can only be written with escapes, so no URI misreads it.
        None => Ok(image),
        _ if image.as_os_str().is_empty() => Err(invalid("expected the path of an image, this one is empty")),
        _ => Err(invalid(format!(
            "in a URI the path {} would be read as something else: write it as {}",
            image.display(),
            of_image(&image)
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::*;

    use super::*;
    use crate::uri::split::OTHER_SCHEMES;

    fn place(uri: &str) -> Place {
        uri.parse::<Uri>().unwrap().place
    }

    fn refusal(path: &str) -> String {
        of_new_image(Path::new(path)).unwrap_err().to_string()
    }

    #[test]
    fn question_mark_that_no_option_follows_is_part_of_the_path() {
        assert_eq!(split_options("x?y.img"), ("x?y.img", None));
        assert_eq!(split_options("x?y.img?readonly=1"), ("x?y.img", Some("readonly=1")));
        assert_eq!(split_options("a?trasnfer=prp"), ("a", Some("trasnfer=prp")));
        assert_eq!(split_options("a?readonly"), ("a", Some("readonly")));
        assert_eq!(split_options("a?"), ("a", Some("")));
    }

    #[test]
    fn escape_in_a_uri_is_the_byte_that_it_stands_for() {
        assert_eq!(place("embedded:x%3Fy=1.img"), Place::Image("x?y=1.img".into()));
        assert_eq!(place("embedded:my%20disk.img?depth=7"), Place::Image("my disk.img".into()));
        assert_eq!(place("embedded:100%.img"), Place::Image("100%.img".into()));
        let bytes = PathBuf::from(OsString::from_vec(b"\xff.img".to_vec()));
        assert_eq!(of_image(&bytes), "embedded:%FF.img");
        assert_eq!(place("embedded:%FF.img"), Place::Image(bytes));
    }

    #[test]
    fn image_path_with_a_scheme_is_understood_or_refused() {
        assert_eq!(of_new_image(Path::new("embedded:z.img")).unwrap(), Path::new("z.img"));
        assert_eq!(of_new_image(Path::new("embedded:x%3Fy=1.img")).unwrap(), Path::new("x?y=1.img"));
        assert!(refusal("embedded:z.img?depth=4").contains("options mean nothing"));
        assert!(refusal("embedded:").contains("path follows"));
        assert!(refusal("").contains("is empty"));
        for other in OTHER_SCHEMES.into_iter().chain(["file", "vfio-user"]) {
            let said = refusal(&format!("{other}:64M"));
            assert!(said.contains(&format!("a file of that name is ./{other}:64M")), "{said}");
        }
        assert_eq!(of_new_image(Path::new("./ram:64M")).unwrap(), Path::new("./ram:64M"));
    }

    #[test]
    fn path_that_a_uri_would_misread_is_refused_with_the_uri_that_is_right() {
        for path in ["x?y=1.img", "a%41.img", "z.img?readonly", "a?"] {
            let said = refusal(path);
            let uri = of_image(path);
            assert!(said.ends_with(&uri), "{said}");
            assert_eq!(place(&uri), Place::Image(path.into()));
        }
    }

    #[test]
    fn plain_path_of_an_image_is_taken_as_it_is_and_keeps_its_options() {
        for (text, wanted) in [
            ("a%41.img", "embedded:a%2541.img"),
            ("a%41.img?ns=2", "embedded:a%2541.img?ns=2"),
            ("x?y.img?ns=2", "embedded:x%3Fy.img?ns=2"),
            ("disk.img", "embedded:disk.img"),
        ] {
            assert_eq!(of_image_text(text), wanted);
            let path = text.trim_end_matches("?ns=2");
            assert_eq!(place(wanted), Place::Image(path.into()));
        }
    }

    #[test]
    fn file_of_a_uri_is_one_whose_bytes_are_its_blocks() {
        assert_eq!(file_of("./a?direct=1"), Some("./a".into()));
        assert_eq!(file_of("file:a%41"), Some("aA".into()));
        for other in ["embedded:a", "ram:64M", "blocks:1M", "vfio-user:a"] {
            assert_eq!(file_of(other), None, "{other}");
        }
        assert_eq!(path_of("embedded:a"), Some("a".into()));
    }

    #[test]
    fn options_are_added_behind_those_that_a_uri_has() {
        assert_eq!(with_options("./x?y", "depth=1"), "./x?y?depth=1");
        assert_eq!(with_options("./x?lba=4K", "depth=1"), "./x?lba=4K&depth=1");
        assert_eq!(with_options("./x?", "depth=1"), "./x?depth=1");
        assert_eq!(with_options("./x", ""), "./x");
    }

    /// Paths of bytes that matter, without a scheme in front.
    fn paths() -> impl Strategy<Value = PathBuf> {
        let letters = prop::sample::select(b"a./?%&=-34fF \xc3\xa9\xff\n".to_vec());
        let bytes = prop::collection::vec(letters, 1..12);
        bytes.prop_map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
    }

    proptest! {
        #[test]
        fn uri_of_any_path_leads_back_to_it(path in paths()) {
            prop_assert_eq!(place(&of_image(&path)), Place::Image(path.clone()));
            let with_options = with_options(&of_image(&path), "depth=7");
            prop_assert_eq!(place(&with_options), Place::Image(path.clone()));
            let file: Address = of_file(&path).parse().unwrap();
            let Address::Blocks(BlockUri { place: BlockPlace::Path(found) | BlockPlace::File(found), .. }) = file
            else { panic!("{file:?}") };
            let wanted = if found.starts_with(".") && !path.starts_with(".") { Path::new(".").join(&path) } else { path };
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn path_accepted_by_create_is_the_image_of_its_uri(path in paths()) {
            if let (Ok(made), Some(text)) = (of_new_image(&path), path.to_str()) {
                prop_assert_eq!(place(&format!("embedded:{text}")), Place::Image(made));
            }
        }
    }
}
