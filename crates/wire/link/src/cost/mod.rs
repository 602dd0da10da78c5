//! The cost of a transaction, or of a whole put, on the link.

mod get;
mod put;

use std::ops::{Add, AddAssign, Mul};

use serde::Serialize;

pub use get::{GetCost, RESULT_ENTRIES_MAX, ReadMethod, inline_read_max_bytes, of_get};
pub use put::{Goal, PutCost, admits, cheapest, of_put};

/// The cost of one transaction, or of a sum of them, in bytes.
///
/// *Down* is from the host to the device. `payload_bytes` is what the papers counted; the wire bytes carry
/// packet headers, framing and rounding as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Bytes of content, either way.
    pub payload_bytes: u64,
    /// Bytes on the wire from the host to the device.
    pub down_bytes: u64,
    /// Bytes on the wire from the device to the host.
    pub up_bytes: u64,
}

impl Cost {
    /// No transaction.
    pub const ZERO: Self = Self { payload_bytes: 0, down_bytes: 0, up_bytes: 0 };

    /// Bytes on the wire, both ways.
    pub const fn wire_bytes(self) -> u64 {
        self.down_bytes + self.up_bytes
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            payload_bytes: self.payload_bytes + other.payload_bytes,
            down_bytes: self.down_bytes + other.down_bytes,
            up_bytes: self.up_bytes + other.up_bytes,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Cost {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self {
            payload_bytes: self.payload_bytes * times,
            down_bytes: self.down_bytes * times,
            up_bytes: self.up_bytes * times,
        }
    }
}
