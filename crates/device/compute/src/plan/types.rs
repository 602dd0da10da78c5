//! Types: which columns can be read, as what, and which type two operands meet in.

use arrow_schema::{DataType, TimeUnit};

/// Most digits of a decimal.
pub(super) const DECIMAL_DIGITS_MAX: u8 = 38;

/// Longest value of a column of one length in bytes: the library makes room for a batch of them.
const FIXED_MAX_BYTES: i32 = 4096;

/// Digits of the largest 64-bit integer.
const INTEGER_DIGITS: u8 = 19;

/// The type that a column of type `stored` is read as; `None` if the device does not read such columns.
pub(crate) fn readable(stored: &DataType) -> Option<DataType> {
    Some(match stored {
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::FixedSizeBinary(bytes) if *bytes > FIXED_MAX_BYTES => return None,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        // Instants are kept in UTC, whatever zone they are shown in.
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("+00:00".into())),
        DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) => {
            DataType::Decimal128(*digits, *scale)
        }
        DataType::Date64 => DataType::Date32,
        DataType::Boolean
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Timestamp(..)
        | DataType::Decimal128(..) => stored.clone(),
        DataType::Dictionary(_, values) => readable(values)?,
        _ => return None,
    })
}

/// Whether it is a number.
pub(super) fn is_numeric(data_type: &DataType) -> bool {
    is_integer(data_type) || is_float(data_type) || matches!(data_type, DataType::Decimal128(..))
}

/// Whether it is an integer.
pub(super) fn is_integer(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int32 | DataType::Int64)
}

/// Whether it is a floating-point number.
pub(super) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Whether it is a date or a time.
fn is_temporal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(..))
}

/// The type that two operands of a comparison meet in; `None` if they cannot be compared.
pub(super) fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    if left == right {
        return Some(left.clone());
    }
    match (left, right) {
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        _ if is_numeric(left) && is_numeric(right) => Some(common_number(left, right)),
        _ if is_temporal(left) && is_temporal(right) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        _ => None,
    }
}

/// The type that two numbers meet in: DOUBLE if one is, else REAL if one is, else a decimal that holds both, else 64 bits.
pub(super) fn common_number(left: &DataType, right: &DataType) -> DataType {
    if [left, right].contains(&&DataType::Float64) {
        return DataType::Float64;
    }
    if is_float(left) || is_float(right) {
        return DataType::Float32;
    }
    match (as_decimal(left), as_decimal(right)) {
        ((_, 0), (_, 0)) if is_integer(left) && is_integer(right) => DataType::Int64,
        ((left_digits, left_scale), (right_digits, right_scale)) => {
            let scale = left_scale.max(right_scale);
            let whole = (left_digits as i8 - left_scale).max(right_digits as i8 - right_scale);
            DataType::Decimal128((whole + scale).clamp(1, DECIMAL_DIGITS_MAX as i8) as u8, scale)
        }
    }
}

/// Digits and scale of a decimal that holds every value of an integer or a decimal.
pub(super) fn as_decimal(data_type: &DataType) -> (u8, i8) {
    match data_type {
        DataType::Decimal128(digits, scale) => (*digits, *scale),
        DataType::Int32 => (10, 0),
        _ => (INTEGER_DIGITS, 0),
    }
}

/// The name of a type in SQL, for messages.
pub(crate) fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "REAL".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(digits, scale) => format!("DECIMAL({digits}, {scale})"),
        DataType::Utf8 => "VARCHAR".to_owned(),
        DataType::Binary => "BLOB".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Timestamp(..) => "TIMESTAMP".to_owned(),
        DataType::Interval(_) => "INTERVAL".to_owned(),
        other => other.to_string(),
    }
}
