//! Values of expressions over batches of rows.

mod arithmetic;
mod cast;
mod compare;
mod decimal;
mod logic;
mod pattern;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Datum, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{ArrowError, DataType, Schema};
use arrow_select::take::take;

pub(crate) use self::compare::compare_to_number;
use crate::plan::Bound;
use crate::sql::ArithmeticOp;

/// A value for each row, or one for all of them.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Rows(ArrayRef),
    One(ArrayRef),
}

impl Datum for Value {
    fn get(&self) -> (&dyn Array, bool) {
        match self {
            Self::Rows(array) => (array.as_ref(), false),
            Self::One(array) => (array.as_ref(), true),
        }
    }
}

impl Value {
    /// Its array: of all rows, or of one element.
    pub fn array(&self) -> &ArrayRef {
        match self {
            Self::Rows(array) | Self::One(array) => array,
        }
    }

    /// The same kind of value, of other elements.
    fn with(&self, array: ArrayRef) -> Self {
        match self {
            Self::Rows(_) => Self::Rows(array),
            Self::One(_) => Self::One(array),
        }
    }

    /// An array with an element for each of `rows` rows.
    pub fn into_rows(self, rows: usize) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Rows(array) => Ok(array),
            Self::One(array) => take(&array, &UInt64Array::from(vec![0; rows]), None),
        }
    }
}

/// The value of `bound` over the rows of `batch`, of the type that `bound` says.
pub(crate) fn value(bound: &Bound, batch: &RecordBatch) -> Result<Value, ArrowError> {
    Ok(decimal::widened(narrow_value(bound, batch)?, bound))
}

/// The same, where decimals may have 64 bits in place of 128.
pub(crate) fn narrow_value(bound: &Bound, batch: &RecordBatch) -> Result<Value, ArrowError> {
    match bound {
        Bound::Column { index, .. } => Ok(Value::Rows(Arc::clone(batch.column(*index)))),
        Bound::Constant(constant) => Ok(Value::One(Arc::clone(&constant.value))),
        Bound::Negate(operand) => {
            let operand = value(operand, batch)?;
            Ok(operand.with(arrow_arith::numeric::neg(operand.array())?))
        }
        Bound::Arithmetic { op, operands, data_type } => {
            let values = both(operands, batch)?;
            match decimal::in_64_bits(*op, &values, data_type) {
                Some(result) => Ok(Value::Rows(result)),
                None => arithmetic::value(*op, &wide(operands, values)),
            }
        }
        Bound::Compare { op, operands } => {
            let values = both(operands, batch)?;
            match decimal::comparable(&values) {
                Some(narrow) => compare::value(*op, &narrow),
                None => compare::value(*op, &wide(operands, values)),
            }
        }
        Bound::Logic { op, operands } => logic::chain(*op, operands, batch),
        Bound::Not(operand) => logic::not(&value(operand, batch)?),
        Bound::IsNull(operand) => {
            let operand = narrow_value(operand, batch)?;
            Ok(operand.with(Arc::new(arrow_arith::boolean::is_null(operand.array())?)))
        }
        Bound::Like { value: operand, pattern } => pattern::value(&value(operand, batch)?, pattern),
        Bound::Cast { value: operand, to } => {
            let operand = value(operand, batch)?;
            Ok(operand.with(cast::cast(operand.array(), to)?))
        }
    }
}

fn both(operands: &[Bound; 2], batch: &RecordBatch) -> Result<[Value; 2], ArrowError> {
    Ok([narrow_value(&operands[0], batch)?, narrow_value(&operands[1], batch)?])
}

fn wide(operands: &[Bound; 2], [left, right]: [Value; 2]) -> [Value; 2] {
    [decimal::widened(left, &operands[0]), decimal::widened(right, &operands[1])]
}

/// The value of an expression of constants: an array of one element.
pub(crate) fn constant(bound: &Bound) -> Result<ArrayRef, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let none = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    value(bound, &none).map(|value| Arc::clone(value.array()))
}

/// The type of an operation's result.
pub(crate) fn arithmetic_type(op: ArithmeticOp, operands: &[Bound; 2]) -> Result<DataType, ArrowError> {
    let empty = |bound: &Bound| Value::Rows(arrow_array::new_empty_array(&bound.data_type()));
    let result = arithmetic::value(op, &[empty(&operands[0]), empty(&operands[1])])?;
    Ok(result.array().data_type().clone())
}

/// Which rows of `batch` a condition is true of: neither false nor NULL.
pub(crate) fn condition(bound: &Bound, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
    let value = value(bound, batch)?.into_rows(batch.num_rows())?;
    Ok(arrow_array::cast::AsArray::as_boolean(&value).clone())
}
