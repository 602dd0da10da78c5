//! AND, OR and NOT of three values: true, false and NULL.

use std::sync::Arc;

use arrow_arith::boolean::{and, and_kleene, or, or_kleene};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;

use super::Value;
use crate::plan::Bound;
use crate::sql::LogicOp;

/// A chain of one operator over at least one operand.
pub(super) fn chain(op: LogicOp, operands: &[Bound], batch: &RecordBatch) -> Result<Value, ArrowError> {
    let mut result: Option<Value> = None;
    for operand in operands {
        let next = super::value(operand, batch)?;
        result = Some(match result {
            None => next,
            Some(so_far) => combined(op, so_far, next, batch.num_rows())?,
        });
    }
    result.ok_or_else(|| ArrowError::ComputeError("a chain of conditions without conditions".to_owned()))
}

fn combined(op: LogicOp, left: Value, right: Value, rows: usize) -> Result<Value, ArrowError> {
    let (left, right, of) = match (left, right) {
        (Value::One(left), Value::One(right)) => (left, right, Value::One as fn(ArrayRef) -> Value),
        (left, right) => {
            (left.into_rows(rows)?, right.into_rows(rows)?, Value::Rows as fn(ArrayRef) -> Value)
        }
    };
    let result = of_arrays(op, left.as_boolean(), right.as_boolean())?;
    Ok(of(Arc::new(result)))
}

/// Without NULLs the plain operators are the same, and quicker.
fn of_arrays(op: LogicOp, left: &BooleanArray, right: &BooleanArray) -> Result<BooleanArray, ArrowError> {
    let has_nulls = left.nulls().is_some() || right.nulls().is_some();
    match (op, has_nulls) {
        (LogicOp::And, true) => and_kleene(left, right),
        (LogicOp::And, false) => and(left, right),
        (LogicOp::Or, true) => or_kleene(left, right),
        (LogicOp::Or, false) => or(left, right),
    }
}

pub(super) fn not(operand: &Value) -> Result<Value, ArrowError> {
    let result = arrow_arith::boolean::not(operand.array().as_boolean())?;
    Ok(operand.with(Arc::new(result)))
}
