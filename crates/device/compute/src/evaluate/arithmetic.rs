//! Arithmetic. Integers and decimals fail where they overflow; floating point follows IEEE 754.

use arrow_arith::numeric::{add, div, mul, rem, sub};
use arrow_array::{ArrayRef, Datum};
use arrow_schema::ArrowError;

use super::{Value, decimal};
use crate::sql::ArithmeticOp;

pub(super) fn value(op: ArithmeticOp, [left, right]: &[Value; 2]) -> Result<Value, ArrowError> {
    let result = match decimal::narrow(op, left, right) {
        Some(result) => result?,
        None => checked(op, left, right)?,
    };
    Ok(match (left, right) {
        (Value::One(_), Value::One(_)) => Value::One(result),
        _ => Value::Rows(result),
    })
}

/// The operation with every result checked.
pub(super) fn checked(op: ArithmeticOp, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    match op {
        ArithmeticOp::Add => add(left, right),
        ArithmeticOp::Subtract => sub(left, right),
        ArithmeticOp::Multiply => mul(left, right),
        ArithmeticOp::Divide => div(left, right),
        ArithmeticOp::Remainder => rem(left, right),
    }
}
