//! What operations compute (RFC 9669, section 4). Division by zero gives 0, a remainder by zero the dividend.

use super::instruction::{Arithmetic, Bytes, Comparison, Width};

/// The result of an operation.
#[inline]
pub(super) fn compute(operation: Arithmetic, width: Width, left: u64, right: u64) -> u64 {
    match width {
        Width::Full => full(operation, left, right),
        Width::Half => half(operation, left as u32, right as u32).into(),
    }
}

#[inline]
fn full(operation: Arithmetic, left: u64, right: u64) -> u64 {
    match operation {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::Subtract => left.wrapping_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::Divide => left.checked_div(right).unwrap_or(0),
        Arithmetic::DivideSigned if right == 0 => 0,
        Arithmetic::DivideSigned => (left as i64).wrapping_div(right as i64) as u64,
        Arithmetic::Remainder => left.checked_rem(right).unwrap_or(left),
        Arithmetic::RemainderSigned if right == 0 => left,
        Arithmetic::RemainderSigned => (left as i64).wrapping_rem(right as i64) as u64,
        Arithmetic::Or => left | right,
        Arithmetic::And => left & right,
        Arithmetic::Xor => left ^ right,
        Arithmetic::ShiftLeft => left.wrapping_shl(right as u32),
        Arithmetic::ShiftRight => left.wrapping_shr(right as u32),
        Arithmetic::ShiftRightSigned => (left as i64).wrapping_shr(right as u32) as u64,
        Arithmetic::Move => right,
        Arithmetic::MoveSigned8 => i64::from(right as i8) as u64,
        Arithmetic::MoveSigned16 => i64::from(right as i16) as u64,
        Arithmetic::MoveSigned32 => i64::from(right as i32) as u64,
    }
}

#[inline]
fn half(operation: Arithmetic, left: u32, right: u32) -> u32 {
    match operation {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::Subtract => left.wrapping_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::Divide => left.checked_div(right).unwrap_or(0),
        Arithmetic::DivideSigned if right == 0 => 0,
        Arithmetic::DivideSigned => (left as i32).wrapping_div(right as i32) as u32,
        Arithmetic::Remainder => left.checked_rem(right).unwrap_or(left),
        Arithmetic::RemainderSigned if right == 0 => left,
        Arithmetic::RemainderSigned => (left as i32).wrapping_rem(right as i32) as u32,
        Arithmetic::Or => left | right,
        Arithmetic::And => left & right,
        Arithmetic::Xor => left ^ right,
        Arithmetic::ShiftLeft => left.wrapping_shl(right),
        Arithmetic::ShiftRight => left.wrapping_shr(right),
        Arithmetic::ShiftRightSigned => (left as i32).wrapping_shr(right) as u32,
        Arithmetic::Move | Arithmetic::MoveSigned32 => right,
        Arithmetic::MoveSigned8 => i32::from(right as i8) as u32,
        Arithmetic::MoveSigned16 => i32::from(right as i16) as u32,
    }
}

/// The negative of a number.
#[inline]
pub(super) const fn negate(width: Width, value: u64) -> u64 {
    match width {
        Width::Full => value.wrapping_neg(),
        Width::Half => (value as u32).wrapping_neg() as u64,
    }
}

/// A number with its bytes in another order.
#[inline]
pub(super) const fn order(bytes: Bytes, value: u64) -> u64 {
    match bytes {
        Bytes::Keep16 => value as u16 as u64,
        Bytes::Keep32 => value as u32 as u64,
        Bytes::Keep64 => value,
        Bytes::Swap16 => (value as u16).swap_bytes() as u64,
        Bytes::Swap32 => (value as u32).swap_bytes() as u64,
        Bytes::Swap64 => value.swap_bytes(),
    }
}

/// Whether a comparison holds.
#[inline]
pub(super) fn holds(comparison: Comparison, width: Width, left: u64, right: u64) -> bool {
    match width {
        Width::Full => compares(comparison, left, right, left as i64, right as i64),
        Width::Half => {
            let (left, right) = (left as u32, right as u32);
            compares(comparison, left.into(), right.into(), i64::from(left as i32), i64::from(right as i32))
        }
    }
}

#[inline]
fn compares(comparison: Comparison, left: u64, right: u64, left_signed: i64, right_signed: i64) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::BitsSet => left & right != 0,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::GreaterSigned => left_signed > right_signed,
        Comparison::GreaterOrEqualSigned => left_signed >= right_signed,
        Comparison::LessSigned => left_signed < right_signed,
        Comparison::LessOrEqualSigned => left_signed <= right_signed,
    }
}
