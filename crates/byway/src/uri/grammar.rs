//! Grammar of options: `name=value` pairs, numbers, sizes, and the errors that name what is known.

use std::str::FromStr;
use std::time::Duration;

use byway_core::{DEPTH_MAX, Error, ErrorKind, Result};
use byway_sys::{Bytes, NoSize};

use crate::uri::tables::RENAMED;

/// What secrets and keys begin with.
const SECRETS: [&str; 2] = ["DHHC-1:", "NVMeTLSkey-"];

/// A URI as it may be repeated: without the secrets in it.
pub(crate) fn shown(uri: &str) -> String {
    let mut shown = String::new();
    let mut rest = uri;
    while let Some(at) = SECRETS.iter().filter_map(|prefix| rest.find(prefix)).min() {
        let (before, secret) = rest.split_at(at);
        shown.push_str(before);
        shown.push('…');
        rest = secret.find('&').and_then(|end| secret.get(end..)).unwrap_or_default();
    }
    shown + rest
}

/// The options of a query, each once.
pub(crate) fn pairs_of(query: &str) -> Result<Vec<(&str, &str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) =
            pair.split_once('=').ok_or_else(|| invalid(format!("option {pair:?} has no value")))?;
        let name = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| *new);
        if pairs.iter().any(|(known, _)| *known == name) {
            return Err(invalid(format!("option {name} is given twice")));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// Parses the size of `embedded-ram:SIZE` and the like.
pub(crate) fn size_of_place(uri: &str, size: &str) -> Result<u64> {
    parse_size(size).map_err(|error| error.doing(uri.to_owned()))
}

/// Parses a size such as `8G`, `1.5G`, `512M` or `4096`: a number of bytes, or one with `K`, `M`, `G` or `T`, in upper or
/// lower case, with `B`, `iB` or nothing behind it. All are powers of 1024. Every face of Byway reads sizes so.
///
/// # Errors
/// A text that is no size, one that is no whole number of bytes, or one of 2^63 bytes and more.
pub fn parse_size(text: &str) -> Result<u64> {
    let size: Bytes = text.parse().map_err(|error: NoSize| invalid(error.to_string()))?;
    Ok(size.0)
}

/// A size of fewer than 4 GiB.
pub(crate) fn parse_size_u32(text: &str) -> Result<u32> {
    u32::try_from(parse_size(text)?).map_err(|_| invalid("expected less than 4G"))
}

pub(crate) fn parse_size_usize(text: &str) -> Result<usize> {
    usize::try_from(parse_size(text)?).map_err(|_| invalid("more than this machine can address"))
}

pub(crate) fn parse<T: FromStr<Err: std::fmt::Display>>(value: &str) -> Result<T> {
    value.parse().map_err(|e: T::Err| invalid(e.to_string()))
}

/// A whole number of the type that an option has.
pub(crate) fn number<T: TryFrom<u64>>(value: &str) -> Result<T> {
    let number: u64 = value.parse().map_err(|_| invalid("expected a whole number"))?;
    let most = u64::MAX >> (u64::BITS - 8 * size_of::<T>() as u32);
    T::try_from(number).map_err(|_| invalid(format!("the number is too large: expected at most {most}")))
}

pub(crate) fn seconds(value: &str) -> Result<Duration> {
    // u32 seconds (136 years) avoid overflow of deadlines.
    Ok(Duration::from_secs(u64::from(number::<u32>(value)?)))
}

/// How many commands a queue may have on their way.
pub(crate) fn parse_depth(value: &str) -> Result<u32> {
    let depth = number::<u64>(value)?;
    let fits = u32::try_from(depth).ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
    fits.ok_or_else(|| invalid(format!("a queue is 1 to {DEPTH_MAX} commands deep")))
}

pub(crate) fn on_or_off(value: &str) -> Result<bool> {
    one_of(value, &[("on", true), ("off", false)])
}

pub(crate) fn one_of<T: Copy>(value: &str, known: &[(&str, T)]) -> Result<T> {
    let found = known.iter().find(|(name, _)| *name == value).map(|(_, value)| *value);
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| invalid(format!("expected {}", names.join(" or "))))
}

pub(crate) fn unknown(known: &[(&str, &str, &str)]) -> Error {
    let names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
    invalid(format!("unknown; known are {}", names.join(", ")))
}

pub(crate) fn invalid(said: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::host(ErrorKind::InvalidArgument, said)
}
