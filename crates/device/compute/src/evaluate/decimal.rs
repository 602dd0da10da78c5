//! Arithmetic of decimals whose digits fit 64 bits: no result of theirs overflows 128, so none is checked. Columns of few digits come
//! with 64 bits a value, and stay so while the values of a batch show that no result has more.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal64Type, Decimal128Type};
use arrow_array::{Array, ArrayRef, Decimal64Array, Decimal128Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};

use super::Value;
use super::arithmetic::checked;
use crate::plan::Bound;
use crate::sql::ArithmeticOp;

/// Sum, difference or product of two decimals, one of which at least has a value for each row. `None` where a value has more than
/// 64 bits, and for what is no such operation.
pub(super) fn narrow(op: ArithmeticOp, left: &Value, right: &Value) -> Option<Result<ArrayRef, ArrowError>> {
    let (left, right) = (Operand::of(left)?, Operand::of(right)?);
    let has_same_scale = left.array.scale() == right.array.scale();
    let values = match op {
        ArithmeticOp::Multiply => combined(&left, &right, |left, right| i128::from(left) * i128::from(right)),
        ArithmeticOp::Add if has_same_scale => {
            combined(&left, &right, |left, right| i128::from(left) + i128::from(right))
        }
        ArithmeticOp::Subtract if has_same_scale => {
            combined(&left, &right, |left, right| i128::from(left) - i128::from(right))
        }
        _ => None,
    }?;
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    // The kernel says what type a result has.
    let none = checked(op, &left.array.slice(0, 0), &right.array.slice(0, 0));
    Some(none.map(|none| {
        let result = Decimal128Array::new(values.into(), nulls);
        Arc::new(result.with_data_type(none.data_type().clone())) as ArrayRef
    }))
}

/// A decimal for each row, or one for all of them.
struct Operand<'a> {
    array: &'a Decimal128Array,
    is_one: bool,
}

impl<'a> Operand<'a> {
    /// The operand, if it is a decimal and all of it fits 64 bits.
    fn of(value: &'a Value) -> Option<Self> {
        let (array, is_one) = match value {
            Value::Rows(array) => (array, false),
            Value::One(array) => (array, true),
        };
        if !matches!(array.data_type(), DataType::Decimal128(..)) || (is_one && array.is_null(0)) {
            return None;
        }
        let array: &Decimal128Array = array.as_primitive::<Decimal128Type>();
        is_narrow(array.values()).then_some(Self { array, is_one })
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        self.array.nulls()
    }
}

/// Whether all values fit 64 bits. Without an early end, so that it takes several at a time.
fn is_narrow(values: &[i128]) -> bool {
    values.iter().fold(true, |all, value| all & (*value == i128::from(*value as i64)))
}

/// The results of `op` for each row; `None` where none of the operands has rows.
fn combined(left: &Operand<'_>, right: &Operand<'_>, op: impl Fn(i64, i64) -> i128) -> Option<Vec<i128>> {
    let (lefts, rights) = (left.array.values(), right.array.values());
    match (left.is_one, right.is_one) {
        (false, false) => {
            Some(lefts.iter().zip(rights).map(|(left, right)| op(*left as i64, *right as i64)).collect())
        }
        (true, false) => {
            let left = *lefts.first()? as i64;
            Some(rights.iter().map(|right| op(left, *right as i64)).collect())
        }
        (false, true) => {
            let right = *rights.first()? as i64;
            Some(lefts.iter().map(|left| op(*left as i64, right)).collect())
        }
        (true, true) => None,
    }
}

/// Digits of every decimal of 64 bits. No array is checked against them.
const DIGITS_64: u8 = 18;

/// A value with decimals of 128 bits in place of 64, of the type that `bound` says.
pub(super) fn widened(value: Value, bound: &Bound) -> Value {
    match value.array().as_primitive_opt::<Decimal64Type>() {
        None => value,
        Some(narrow) => {
            let wide = narrow.unary::<_, Decimal128Type>(i128::from);
            value.with(Arc::new(wide.with_data_type(bound.data_type())))
        }
    }
}

/// Sum, difference or product of decimals of 64 bits, of the scale that `data_type` says; `None` where a result could have more bits,
/// and for what is no such operation.
pub(super) fn in_64_bits(
    op: ArithmeticOp,
    [left, right]: &[Value; 2],
    data_type: &DataType,
) -> Option<ArrayRef> {
    let DataType::Decimal128(_, scale) = data_type else { return None };
    let (left, right) = (Narrow::of(left)?, Narrow::of(right)?);
    let has_same_scale = left.scale == right.scale && left.scale == *scale;
    let sum_bits = left.bits().max(right.bits()) + 1;
    let values = match op {
        ArithmeticOp::Multiply if left.scale + right.scale == *scale && left.bits() + right.bits() < 63 => {
            left.combined(&right, i64::wrapping_mul)
        }
        ArithmeticOp::Add if has_same_scale && sum_bits < 63 => left.combined(&right, i64::wrapping_add),
        ArithmeticOp::Subtract if has_same_scale && sum_bits < 63 => left.combined(&right, i64::wrapping_sub),
        _ => None,
    }?;
    let nulls = NullBuffer::union(left.nulls, right.nulls);
    let result = Decimal64Array::new(values.into(), nulls);
    Some(Arc::new(result.with_data_type(DataType::Decimal64(DIGITS_64, *scale))))
}

/// Two decimals of one scale as 64 bits, to be compared; `None` unless one of them comes so and the other fits.
pub(super) fn comparable([left, right]: &[Value; 2]) -> Option<[Value; 2]> {
    let is_narrow = |value: &Value| matches!(value.array().data_type(), DataType::Decimal64(..));
    if !is_narrow(left) && !is_narrow(right) {
        return None;
    }
    let (left, right) = (Narrow::of(left)?, Narrow::of(right)?);
    (left.scale == right.scale).then(|| [left.to_compare(), right.to_compare()])
}

/// Decimals of 64 bits for each row, or one for all of them.
struct Narrow<'a> {
    values: Values<'a>,
    scale: i8,
    nulls: Option<&'a NullBuffer>,
}

enum Values<'a> {
    Rows(&'a Decimal64Array),
    One(i64),
}

impl<'a> Narrow<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::Rows(array) => {
                let array = array.as_primitive_opt::<Decimal64Type>()?;
                Some(Self { values: Values::Rows(array), scale: array.scale(), nulls: array.nulls() })
            }
            Value::One(array) => {
                let array = array.as_primitive_opt::<Decimal128Type>().filter(|array| array.is_valid(0))?;
                let one = i64::try_from(array.value(0)).ok()?;
                Some(Self { values: Values::One(one), scale: array.scale(), nulls: None })
            }
        }
    }

    /// Bits of the largest size of a value, without its sign.
    fn bits(&self) -> u32 {
        let size = |value: i64| (value ^ (value >> 63)) as u64;
        let sizes = match self.values {
            Values::Rows(array) => array.values().iter().fold(0, |sizes, value| sizes | size(*value)),
            Values::One(value) => size(value),
        };
        // One more: the size of a negative number is one more than what is counted.
        u64::BITS - sizes.leading_zeros() + 1
    }

    /// The results of `op` for each row; `None` where neither operand has rows.
    fn combined(&self, right: &Self, op: impl Fn(i64, i64) -> i64) -> Option<Vec<i64>> {
        Some(match (&self.values, &right.values) {
            (Values::Rows(left), Values::Rows(right)) => {
                left.values().iter().zip(right.values()).map(|(left, right)| op(*left, *right)).collect()
            }
            (Values::One(left), Values::Rows(right)) => {
                right.values().iter().map(|right| op(*left, *right)).collect()
            }
            (Values::Rows(left), Values::One(right)) => {
                left.values().iter().map(|left| op(*left, *right)).collect()
            }
            (Values::One(_), Values::One(_)) => return None,
        })
    }

    fn to_compare(&self) -> Value {
        let data_type = DataType::Decimal64(DIGITS_64, self.scale);
        match self.values {
            Values::Rows(array) => Value::Rows(Arc::new(array.clone().with_data_type(data_type))),
            Values::One(value) => {
                Value::One(Arc::new(Decimal64Array::from(vec![value]).with_data_type(data_type)))
            }
        }
    }
}
