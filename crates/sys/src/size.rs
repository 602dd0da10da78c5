//! Sizes as people say them.

use std::fmt;
use std::str::FromStr;

/// Bytes, shown exactly: in the largest binary unit of which they are a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        match units.into_iter().find(|(_, shift)| self.0 >> shift > 0 && self.0.is_multiple_of(1 << shift)) {
            Some((unit, shift)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// A text that is no size, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSize {
    /// It is not a number with a unit.
    #[error(
        "{0:?} is no size: expected a number of bytes, or a number with K, M, G or T (powers of 1024), such as 8G or 1.5M"
    )]
    Form(String),
    /// Its fraction is not a whole number of bytes.
    #[error("{0:?} is no whole number of bytes")]
    Fraction(String),
    /// It has 2⁶³ bytes or more.
    #[error("{0:?} is too large: a size is less than 2^63 bytes")]
    TooLarge(String),
}

/// The one grammar of sizes: a decimal number, then nothing, `B`, or one of `K`, `M`, `G`, `T` with `B` or `iB` or
/// neither behind it, in upper or lower case. Every unit is a power of 1024: `64M`, `64MB` and `64MiB` are the same size.
/// Behind `0x`, hexadecimal digits are a number of bytes.
impl FromStr for Bytes {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let form = || NoSize::Form(text.to_owned());
        let too_large = || NoSize::TooLarge(text.to_owned());
        let limited = |bytes: Option<u64>| bytes.filter(|bytes| *bytes < 1 << 63).map(Self);
        if let Some(digits) = text.strip_prefix("0x") {
            let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let bytes = u64::from_str_radix(digits, 16).ok();
            return if is_digits { limited(bytes).ok_or_else(too_large) } else { Err(form()) };
        }
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = shift_of(&text[number.len()..]).ok_or_else(form)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(form());
        }
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let part = part_bytes(fraction, shift).ok_or_else(|| NoSize::Fraction(text.to_owned()))?;
        let bytes = whole.checked_mul(1 << shift).and_then(|bytes| bytes.checked_add(part));
        limited(bytes).ok_or_else(too_large)
    }
}

/// Power of two of a unit.
fn shift_of(unit: &str) -> Option<u32> {
    let unit = unit.to_ascii_uppercase();
    if unit == "B" {
        return Some(0);
    }
    match unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit) {
        "" if unit.is_empty() => Some(0),
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        "T" => Some(40),
        _ => None,
    }
}

/// Decimals that are read of a fraction: 10^26 times the largest unit fits 128 bits.
const DECIMALS_MAX: usize = 26;

/// Bytes of a decimal fraction of a unit, if they are a whole number.
fn part_bytes(fraction: &str, shift: u32) -> Option<u64> {
    let decimals = fraction.trim_end_matches('0');
    if decimals.len() > DECIMALS_MAX {
        return None;
    }
    let denominator = 10u128.pow(u32::try_from(decimals.len()).ok()?);
    let numerator = if decimals.is_empty() { 0 } else { decimals.parse::<u128>().ok()? << shift };
    let is_whole = numerator.is_multiple_of(denominator);
    if is_whole { u64::try_from(numerator / denominator).ok() } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn size_with_a_unit_in_any_spelling_is_a_power_of_1024() {
        for text in [
            "64M",
            "64m",
            "64MB",
            "64mb",
            "64MiB",
            "64mib",
            "65536K",
            "0.0625G",
            "67108864",
            "67108864B",
            "0x4000000",
        ] {
            assert_eq!(text.parse(), Ok(Bytes(64 << 20)), "{text}");
        }
        assert_eq!("1.5G".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("0".parse(), Ok(Bytes(0)));
    }

    #[test]
    fn size_of_another_form_is_refused_with_the_form_that_is_expected() {
        for text in [
            "", "G", "B", "-1", "+1", "1.", ".5G", "1.5.5G", "8X", "8iB", "8KBB", "8KiBiB", "8 G", "1e3",
            "é", "0x", "0x8G", "0x+8",
        ] {
            assert!(matches!(text.parse::<Bytes>(), Err(NoSize::Form(_))), "{text}");
        }
        let said = "8X".parse::<Bytes>().unwrap_err().to_string();
        assert!(said.contains("powers of 1024") && said.contains("1.5M"), "{said}");
    }

    #[test]
    fn size_with_a_fraction_of_a_byte_or_over_the_limit_is_refused_as_such() {
        for text in ["1.5", "0.1K", "1.0000000000000000000000000001K"] {
            assert_eq!(text.parse::<Bytes>(), Err(NoSize::Fraction(text.to_owned())));
        }
        for text in ["8388608T", "99999999999999999999", "9223372036854775808", "0x8000000000000000"] {
            assert_eq!(text.parse::<Bytes>(), Err(NoSize::TooLarge(text.to_owned())));
        }
        assert_eq!("9223372036854775807".parse(), Ok(Bytes(i64::MAX as u64)));
    }

    proptest! {
        #[test]
        fn size_that_is_shown_is_read_as_it_was(bytes in 0u64..1 << 63) {
            let shown = Bytes(bytes).to_string().replace(" bytes", "").replace(' ', "");
            prop_assert_eq!(shown.parse(), Ok(Bytes(bytes)));
        }
    }

    #[test]
    fn a_size_is_said_exactly_in_the_largest_unit_that_can() {
        let said = [96 << 20, 1 << 30, 1536, 4096, 5000, 0].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(said, ["96 MiB", "1 GiB", "1536 bytes", "4 KiB", "5000 bytes", "0 bytes"]);
    }
}
