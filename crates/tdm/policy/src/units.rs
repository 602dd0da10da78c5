//! Numbers with units, for people.

use std::fmt;

/// A time with its unit.
pub(crate) struct Ns(pub(crate) f64);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0.abs() {
            ns if ns < 1e3 => (self.0, "ns"),
            ns if ns < 1e6 => (self.0 / 1e3, "µs"),
            ns if ns < 1e9 => (self.0 / 1e6, "ms"),
            _ => (self.0 / 1e9, "s"),
        };
        write!(f, "{} {unit}", Short(value))
    }
}

/// A size with its unit.
pub(crate) struct Bytes(pub(crate) f64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            bytes if bytes < 1024.0 => (self.0, "B"),
            bytes if bytes < 1048576.0 => (self.0 / 1024.0, "KiB"),
            bytes if bytes < 1073741824.0 => (self.0 / 1048576.0, "MiB"),
            _ => (self.0 / 1073741824.0, "GiB"),
        };
        write!(f, "{} {unit}", Short(value))
    }
}

/// Three digits are enough.
pub(crate) struct Short(pub(crate) f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.abs() {
            value if value < 10.0 && self.0.fract() != 0.0 => write!(f, "{:.2}", self.0),
            value if value < 100.0 && self.0.fract() != 0.0 => write!(f, "{:.1}", self.0),
            _ => write!(f, "{:.0}", self.0),
        }
    }
}
