//! A field of a record, as the bits of the first parameter describe it.

use std::cmp::Ordering;

use crate::fault::Fault;

/// Bytes that one step copies, or reads in a row.
pub(super) const LINE_BYTES: usize = 64;

/// Steps in the time that the processor waits for memory which it did not expect to read: about 0.1 µs.
const MISS_STEPS: u64 = 32;

/// How the bits of a field are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Unsigned,
    Signed,
    Float,
}

/// Where a field is, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub record_bytes: usize,
    position: usize,
    width: usize,
    pub field_type: Type,
}

impl Field {
    /// The field and what to do with it.
    pub fn parse(parameter: u64) -> Result<(Self, u8), Fault> {
        let field_type = match parameter >> 52 & 0xf {
            0 => Type::Unsigned,
            1 => Type::Signed,
            2 => Type::Float,
            _ => return Err(Fault::Parameter("the type of the field is unknown")),
        };
        let field = Self {
            record_bytes: parameter as u32 as usize,
            position: (parameter >> 32) as u16 as usize,
            width: (parameter >> 48 & 0xf) as usize,
            field_type,
        };
        let widths: &[usize] = if field_type == Type::Float { &[4, 8] } else { &[1, 2, 4, 8] };
        if !widths.contains(&field.width) {
            return Err(Fault::Parameter("the width of the field does not go with its type"));
        }
        if field.position + field.width > field.record_bytes {
            return Err(Fault::Parameter("the field is outside the record"));
        }
        Ok((field, (parameter >> 56) as u8))
    }

    /// Its width in bytes.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// What reading it of a record takes, in steps: the processor waits for memory where records are far from each other.
    pub const fn steps(&self) -> u64 {
        let lines = self.record_bytes.div_ceil(LINE_BYTES) as u64;
        if lines < MISS_STEPS { lines } else { MISS_STEPS }
    }

    /// Its bits in a record, zeroes above.
    #[inline]
    pub fn of(&self, record: &[u8]) -> u64 {
        let mut bits = [0; 8];
        let field = record.get(self.position..self.position + self.width).unwrap_or_default();
        bits[..field.len()].copy_from_slice(field);
        u64::from_le_bytes(bits)
    }

    /// The order of two values. `None` if one is not a number.
    #[inline]
    pub fn compare(&self, left: u64, right: u64) -> Option<Ordering> {
        match self.field_type {
            Type::Unsigned => Some(left.cmp(&right)),
            Type::Signed => Some(self.signed(left).cmp(&self.signed(right))),
            Type::Float => self.float(left).partial_cmp(&self.float(right)),
        }
    }

    const fn signed(&self, bits: u64) -> i64 {
        let unused = 64 - 8 * self.width as u32;
        (bits << unused) as i64 >> unused
    }

    const fn float(&self, bits: u64) -> f64 {
        if self.width == 4 { f32::from_bits(bits as u32) as f64 } else { f64::from_bits(bits) }
    }
}
