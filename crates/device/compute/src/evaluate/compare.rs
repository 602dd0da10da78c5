//! Comparisons. NaN is equal to itself and greater than every number, and both zeroes are equal, as in DuckDB and PostgreSQL.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};

use super::Value;
use crate::sql::CompareOp;

pub(super) fn value(op: CompareOp, operands: &[Value; 2]) -> Result<Value, ArrowError> {
    let [left, right] = operands;
    let result = match left.array().data_type() {
        DataType::Float64 => floats::<Float64Type>(op, left, right),
        DataType::Float32 => floats::<Float32Type>(op, left, right),
        _ => others(op, left, right)?,
    };
    Ok(match (left, right) {
        (Value::One(_), Value::One(_)) => Value::One(Arc::new(result)),
        _ => Value::Rows(Arc::new(result)),
    })
}

fn others(op: CompareOp, left: &Value, right: &Value) -> Result<BooleanArray, ArrowError> {
    match op {
        CompareOp::Equal => cmp::eq(left, right),
        CompareOp::NotEqual => cmp::neq(left, right),
        CompareOp::Less => cmp::lt(left, right),
        CompareOp::LessOrEqual => cmp::lt_eq(left, right),
        CompareOp::Greater => cmp::gt(left, right),
        CompareOp::GreaterOrEqual => cmp::gt_eq(left, right),
    }
}

/// A floating-point type.
trait Float: ArrowPrimitiveType<Native: PartialOrd + Copy> {}
impl Float for Float32Type {}
impl Float for Float64Type {}

fn floats<T: Float>(op: CompareOp, left: &Value, right: &Value) -> BooleanArray {
    match (left, right) {
        (Value::Rows(rows), Value::One(one)) => with_one::<T>(op, rows.as_primitive(), one.as_primitive()),
        (Value::One(one), Value::Rows(rows)) => {
            with_one::<T>(op.mirrored(), rows.as_primitive(), one.as_primitive())
        }
        (Value::Rows(left), Value::Rows(right)) | (Value::One(left), Value::One(right)) => {
            pairwise::<T>(op, left.as_primitive(), right.as_primitive())
        }
    }
}

fn with_one<T: Float>(op: CompareOp, rows: &PrimitiveArray<T>, one: &PrimitiveArray<T>) -> BooleanArray {
    if one.is_null(0) {
        return BooleanArray::new_null(rows.len());
    }
    let (one, values) = (one.value(0), rows.values());
    let bits = if is_nan(one) {
        beside_nan::<T>(op, values)
    } else {
        let mut words = Vec::new();
        compare_to_number(op, values, one, &mut words);
        BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
    };
    BooleanArray::new(bits, rows.nulls().cloned())
}

/// Sets bit *i* of `words` to `values[i] op one`. `one` is not NaN. NaN sorts above all numbers: `>` and `>=` are computed as the negation of
/// `<=` and `<`, which are false for NaN.
pub(crate) fn compare_to_number<N: PartialOrd + Copy>(
    op: CompareOp,
    values: &[N],
    one: N,
    words: &mut Vec<u64>,
) {
    match op {
        CompareOp::Equal => collect_words(values, |value| value == one, words),
        CompareOp::NotEqual => collect_words(values, |value| value != one, words),
        CompareOp::Less => collect_words(values, |value| value < one, words),
        CompareOp::LessOrEqual => collect_words(values, |value| value <= one, words),
        CompareOp::Greater => collect_negated_words(values, |value| value <= one, words),
        CompareOp::GreaterOrEqual => collect_negated_words(values, |value| value < one, words),
    }
}

fn beside_nan<T: Float>(op: CompareOp, values: &[T::Native]) -> BooleanBuffer {
    match op {
        CompareOp::Equal | CompareOp::GreaterOrEqual => collect(values, is_nan),
        CompareOp::NotEqual | CompareOp::Less => collect_not(values, is_nan),
        CompareOp::LessOrEqual => BooleanBuffer::new_set(values.len()),
        CompareOp::Greater => BooleanBuffer::new_unset(values.len()),
    }
}

/// A bit for each value, made a word of 64 at a time.
fn collect_words<N: Copy>(values: &[N], is: impl Fn(N) -> bool, words: &mut Vec<u64>) {
    let word = |chunk: &[N]| chunk.iter().rev().fold(0_u64, |word, value| word << 1 | u64::from(is(*value)));
    words.clear();
    words.extend(values.chunks(64).map(word));
}

/// A bit for each value that `is` not.
fn collect_negated_words<N: Copy>(values: &[N], is: impl Fn(N) -> bool, words: &mut Vec<u64>) {
    collect_words(values, |value| !is(value), words);
}

fn collect<N: Copy>(values: &[N], is: impl Fn(N) -> bool) -> BooleanBuffer {
    let mut words = Vec::new();
    collect_words(values, is, &mut words);
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

fn collect_not<N: Copy>(values: &[N], is: impl Fn(N) -> bool) -> BooleanBuffer {
    collect(values, |value| !is(value))
}

fn pairwise<T: Float>(op: CompareOp, left: &PrimitiveArray<T>, right: &PrimitiveArray<T>) -> BooleanArray {
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    let (left, right) = (left.values(), right.values());
    let bits =
        BooleanBuffer::collect_bool(left.len().min(right.len()), |row| holds(op, left[row], right[row]));
    BooleanArray::new(bits, nulls)
}

fn holds<N: PartialOrd + Copy>(op: CompareOp, left: N, right: N) -> bool {
    let equal = left == right || (is_nan(left) && is_nan(right));
    let less = left < right || (is_nan(right) && !is_nan(left));
    match op {
        CompareOp::Equal => equal,
        CompareOp::NotEqual => !equal,
        CompareOp::Less => less,
        CompareOp::LessOrEqual => less || equal,
        CompareOp::Greater => !less && !equal,
        CompareOp::GreaterOrEqual => !less,
    }
}

/// The only values that are not equal to themselves.
#[expect(clippy::eq_op, reason = "this is what a NaN is")]
fn is_nan<N: PartialEq + Copy>(value: N) -> bool {
    value != value
}
