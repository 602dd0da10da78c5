//! Arithmetic of decimals whose digits fit 64 bits: no result of theirs overflows 128, so none is checked.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, Decimal128Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};

use super::Value;
use super::arithmetic::checked;
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
