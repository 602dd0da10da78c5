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

/// A text that says no number of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size: expected a number with an optional K, M, G or T")]
pub struct NoSize(pub String);

/// Bytes, with a binary unit: `8G`, `512M`, `4096`; fewer than 2^63.
impl FromStr for Bytes {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let wrong = || NoSize(text.to_owned());
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KIB" => 10,
            "M" | "MIB" => 20,
            "G" | "GIB" => 30,
            "T" | "TIB" => 40,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes < 1 << 63);
        bytes.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_said_exactly_in_the_largest_unit_that_can() {
        let said = [96 << 20, 1 << 30, 1536, 4096, 5000, 0].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(said, ["96 MiB", "1 GiB", "1536 bytes", "4 KiB", "5000 bytes", "0 bytes"]);
    }
}
