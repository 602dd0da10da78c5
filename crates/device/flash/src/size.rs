//! Sizes as people say them.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_said_exactly_in_the_largest_unit_that_can() {
        let said = [96 << 20, 1 << 30, 1536, 4096, 5000, 0].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(said, ["96 MiB", "1 GiB", "1536 bytes", "4 KiB", "5000 bytes", "0 bytes"]);
    }
}
