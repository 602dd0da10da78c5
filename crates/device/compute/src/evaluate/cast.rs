//! CAST. Numbers are rounded to integers: decimals away from zero at a half, floating point to the even neighbour, as in DuckDB.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast_with_options;
use arrow_schema::{ArrowError, DataType};

use crate::plan::STRICT;

/// The values as `to`; a value that does not fit is an error.
pub(super) fn cast(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let is_integer = matches!(to, DataType::Int32 | DataType::Int64);
    let whole = if is_integer { rounded(values)? } else { Arc::clone(values) };
    cast_with_options(&whole, to, &STRICT)
}

fn rounded(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match values.data_type() {
        DataType::Float64 => {
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Float32 => {
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Decimal128(digits, scale) if *scale > 0 => {
            cast_with_options(values, &DataType::Decimal128(*digits, 0), &STRICT)?
        }
        _ => Arc::clone(values),
    })
}
