//! What operations compute (RFC 9669, section 4). Division by zero gives 0, a remainder by zero the dividend.

use super::instruction::{Arithmetic, ByteOrder, Comparison, Width};

/// Two operands, with and without their signs. Those of 32 bits are extended to 64.
struct Operands {
    left: u64,
    right: u64,
    left_signed: i64,
    right_signed: i64,
    /// By how much to shift: the right one modulo the width.
    shift: u32,
}

impl Operands {
    #[inline]
    const fn full(left: u64, right: u64) -> Self {
        let shift = right as u32 % u64::BITS;
        Self { left, right, left_signed: left as i64, right_signed: right as i64, shift }
    }

    #[inline]
    const fn half(left: u64, right: u64) -> Self {
        let (left, right) = (left as u32, right as u32);
        Self {
            left: left as u64,
            right: right as u64,
            left_signed: left as i32 as i64,
            right_signed: right as i32 as i64,
            shift: right % u32::BITS,
        }
    }
}

/// The result of an operation.
#[inline]
pub(super) fn compute(operation: Arithmetic, width: Width, left: u64, right: u64) -> u64 {
    match width {
        Width::Full => result_of(operation, &Operands::full(left, right)),
        // The low half of what extended operands give.
        Width::Half => (result_of(operation, &Operands::half(left, right)) as u32).into(),
    }
}

#[inline]
fn result_of(operation: Arithmetic, operands: &Operands) -> u64 {
    let Operands { left, right, left_signed, right_signed, shift } = *operands;
    match operation {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::Subtract => left.wrapping_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::Divide => left.checked_div(right).unwrap_or(0),
        Arithmetic::DivideSigned if right == 0 => 0,
        Arithmetic::DivideSigned => left_signed.wrapping_div(right_signed) as u64,
        Arithmetic::Remainder => left.checked_rem(right).unwrap_or(left),
        Arithmetic::RemainderSigned if right == 0 => left,
        Arithmetic::RemainderSigned => left_signed.wrapping_rem(right_signed) as u64,
        Arithmetic::Or => left | right,
        Arithmetic::And => left & right,
        Arithmetic::Xor => left ^ right,
        Arithmetic::ShiftLeft => left << shift,
        Arithmetic::ShiftRight => left >> shift,
        Arithmetic::ShiftRightSigned => (left_signed >> shift) as u64,
        Arithmetic::Move => right,
        Arithmetic::MoveSigned8 => i64::from(right as i8) as u64,
        Arithmetic::MoveSigned16 => i64::from(right as i16) as u64,
        Arithmetic::MoveSigned32 => i64::from(right as i32) as u64,
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
pub(super) const fn byte_swap(order: ByteOrder, value: u64) -> u64 {
    match order {
        ByteOrder::Keep16 => value as u16 as u64,
        ByteOrder::Keep32 => value as u32 as u64,
        ByteOrder::Keep64 => value,
        ByteOrder::Swap16 => (value as u16).swap_bytes() as u64,
        ByteOrder::Swap32 => (value as u32).swap_bytes() as u64,
        ByteOrder::Swap64 => value.swap_bytes(),
    }
}

/// Whether a comparison holds.
#[inline]
pub(super) fn holds(comparison: Comparison, width: Width, left: u64, right: u64) -> bool {
    match width {
        Width::Full => compares(comparison, &Operands::full(left, right)),
        Width::Half => compares(comparison, &Operands::half(left, right)),
    }
}

#[inline]
const fn compares(comparison: Comparison, operands: &Operands) -> bool {
    let Operands { left, right, left_signed, right_signed, .. } = *operands;
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
