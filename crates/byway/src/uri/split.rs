//! Where the path of a URI ends and its options begin.
//!
//! Options begin at the first `?` that a `name=` follows, the name of a known option, or nothing: `x?y.img` is a path, and
//! `x?y=1.img` is written `embedded:x%3Fy=1.img`.

use std::fmt::Write;

use crate::uri::tables::{BLOCK_OPTIONS, OPTIONS, TCP_OPTIONS};

/// Schemes of URIs in which a path follows.
const PATH_SCHEMES: [&str; 3] = ["embedded", "file", "vfio-user"];
/// Schemes of URIs without a path. The last four are older names of the first four, understood for one release.
pub(crate) const OTHER_SCHEMES: [&str; 10] = [
    "embedded-ram",
    "embedded-null",
    "ramdisk",
    "null-backend",
    "tcp",
    "pci",
    "ram",
    "null",
    "blocks",
    "nil",
];

/// The path of a URI, and its options where it has any.
pub(crate) fn split_options(text: &str) -> (&str, Option<&str>) {
    let marks = text.match_indices('?').map(|(at, _)| at);
    for at in marks {
        let (path, options) = (&text[..at], &text[at + 1..]);
        if begins_options(options) {
            return (path, Some(options));
        }
    }
    (text, None)
}

/// Whether the text behind a `?` begins options.
fn begins_options(text: &str) -> bool {
    let first = text.split('&').next().unwrap_or(text);
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    match first.split_once('=') {
        Some((name, _)) => is_name(name),
        None => first.is_empty() || is_option(first),
    }
}

fn is_option(name: &str) -> bool {
    let known = OPTIONS.iter().chain(&BLOCK_OPTIONS).chain(&TCP_OPTIONS);
    known.into_iter().any(|(known, ..)| *known == name)
}

/// Whether a URI has options.
#[must_use]
pub fn has_options(uri: &str) -> bool {
    split_options(uri).1.is_some()
}

/// The text of an option of a URI, where the URI has it: of `embedded-ram:64M?depth=7`, `7` for `depth`.
#[must_use]
pub fn option_of<'a>(uri: &'a str, name: &str) -> Option<&'a str> {
    let pairs = split_options(uri).1?.split('&');
    pairs.filter_map(|pair| pair.split_once('=')).find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// A URI with more options, joined by `&`.
#[must_use]
pub fn with_options(uri: &str, more: &str) -> String {
    let mut whole = uri.to_owned();
    if more.is_empty() {
        return whole;
    }
    let mark = match split_options(uri).1 {
        Some("") => "",
        Some(_) => "&",
        None => "?",
    };
    // Writing to a String does not fail.
    let _ = write!(whole, "{mark}{more}");
    whole
}

/// The scheme of a URI, and what follows its colon; `None` for a plain path.
#[must_use]
pub fn scheme_of(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let is_known = has_path(scheme) || OTHER_SCHEMES.contains(&scheme);
    is_known.then_some((scheme, rest))
}

/// Whether a path follows a scheme.
pub(crate) fn has_path(scheme: &str) -> bool {
    PATH_SCHEMES.contains(&scheme)
}
