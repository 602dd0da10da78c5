//! Literals as values of the type that is needed.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, IntervalMonthDayNano};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, StringArray, new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};

use super::bound::Constant;
use super::types::DECIMAL_DIGITS_MAX;
use crate::sql::Literal;

impl Constant {
    /// A literal of the type that it has by itself; `None` if no type holds it.
    pub fn of(literal: &Literal) -> Option<Self> {
        let value: ArrayRef = match literal {
            Literal::Null => new_null_array(&DataType::Null, 1),
            Literal::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
            Literal::Number(digits) => number(digits, &default_type(digits))?,
            Literal::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
            Literal::Date(text) => parsed(text, &DataType::Date32)?,
            Literal::Timestamp(text) => parsed(text, &DataType::Timestamp(TimeUnit::Microsecond, None))?,
            Literal::Interval { months, days, nanoseconds } => {
                let value = IntervalMonthDayNano::new(*months, *days, *nanoseconds);
                Arc::new(IntervalMonthDayNanoArray::from(vec![value]))
            }
        };
        Some(Self { value, literal: Some(literal.clone()) })
    }

    /// The same value as `wanted`; `None` if that type does not have it exactly.
    pub fn exactly(&self, wanted: &DataType) -> Option<Self> {
        if self.value.data_type() == wanted {
            return Some(self.clone());
        }
        let value = match &self.literal {
            Some(Literal::Null) => Some(new_null_array(wanted, 1)),
            Some(Literal::Number(digits)) => number(digits, wanted),
            Some(Literal::Text(text)) => parsed(text, wanted),
            _ => there_and_back(&self.value, wanted),
        };
        Some(Self { value: value?, literal: self.literal.clone() })
    }
}

impl Constant {
    /// A number or a time as a floating-point number, to estimate by.
    pub fn as_f64(&self) -> Option<f64> {
        as_f64s(&self.value)?.first().copied().flatten()
    }
}

/// Numbers or times as floating-point numbers, to estimate by; `None` for values of other types.
pub(crate) fn as_f64s(values: &ArrayRef) -> Option<Vec<Option<f64>>> {
    let whole = match values.data_type() {
        DataType::Date32 => arrow_cast::cast(values, &DataType::Int32).ok()?,
        DataType::Timestamp(..) => arrow_cast::cast(values, &DataType::Int64).ok()?,
        DataType::Utf8 | DataType::Binary | DataType::Boolean => return None,
        _ => Arc::clone(values),
    };
    let floats = arrow_cast::cast(&whole, &DataType::Float64).ok()?;
    Some(floats.as_primitive::<Float64Type>().iter().collect())
}

/// A value that is the same after a cast to another type and back.
fn there_and_back(value: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    let there = cast_with_options(value, wanted, &STRICT).ok()?;
    let back = cast_with_options(&there, value.data_type(), &STRICT).ok()?;
    (&back == value).then_some(there)
}

/// Casts that fail where a value does not fit.
pub(crate) const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// BIGINT for whole numbers that fit, DECIMAL for those with up to 38 digits, else DOUBLE.
fn default_type(digits: &str) -> DataType {
    if digits.parse::<i64>().is_ok() {
        return DataType::Int64;
    }
    let Some((unscaled, scale)) = unscaled(digits) else { return DataType::Float64 };
    let length = unscaled.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1).max(scale.into());
    DataType::Decimal128((length as u8).min(DECIMAL_DIGITS_MAX), scale as i8)
}

/// The digits as one number and how many of them are behind the point; `None` with an exponent or over 38 digits.
fn unscaled(digits: &str) -> Option<(i128, u8)> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let fits = fraction.len() <= DECIMAL_DIGITS_MAX as usize && unscaled.unsigned_abs() < 10_u128.pow(38);
    fits.then_some((unscaled, fraction.len() as u8))
}

fn number(digits: &str, wanted: &DataType) -> Option<ArrayRef> {
    Some(match wanted {
        DataType::Int32 => Arc::new(Int32Array::from(vec![i32::try_from(whole(digits)?).ok()?])),
        DataType::Int64 => Arc::new(Int64Array::from(vec![whole(digits)?])),
        DataType::Float32 => Arc::new(Float32Array::from(vec![digits.parse::<f32>().ok()?])),
        DataType::Float64 => Arc::new(Float64Array::from(vec![digits.parse::<f64>().ok()?])),
        DataType::Decimal128(precision, scale) => {
            let value = rescaled(digits, *scale)?;
            let array =
                Decimal128Array::from(vec![value]).with_precision_and_scale(*precision, *scale).ok()?;
            array.validate_decimal_precision(*precision).ok()?;
            Arc::new(array)
        }
        _ => return None,
    })
}

/// A number without a fraction.
fn whole(digits: &str) -> Option<i64> {
    match digits.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole.parse().ok(),
        Some(_) => None,
        None => digits.parse().ok(),
    }
}

/// The number times ten to the power of `scale`, if that is whole.
fn rescaled(digits: &str, scale: i8) -> Option<i128> {
    let (unscaled, from) = unscaled(digits)?;
    let shift = i32::from(scale) - i32::from(from);
    let factor = 10_i128.checked_pow(shift.unsigned_abs())?;
    if shift >= 0 {
        unscaled.checked_mul(factor)
    } else {
        (unscaled % factor == 0).then(|| unscaled / factor)
    }
}

fn parsed(text: &str, wanted: &DataType) -> Option<ArrayRef> {
    let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
    if matches!(wanted, DataType::Boolean | DataType::Interval(_)) {
        return None;
    }
    let value = cast_with_options(&text, wanted, &STRICT).ok()?;
    value.is_valid(0).then_some(value)
}
