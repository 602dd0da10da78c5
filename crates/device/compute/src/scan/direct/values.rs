//! Values of a dictionary, or of a page that is written without one.

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal64Array, Float32Array, Float64Array, Int32Array, Int64Array,
    StringArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use parquet::basic::Type as Physical;

use crate::error::QueryError;

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredType {
    Int32,
    Int64,
    /// 32 bits of a decimal, which is read as 64.
    Int32OfDecimal,
    Float,
    Double,
    Strings,
}

impl StoredType {
    /// How values of `read_as` are stored in a column of type `physical`; `None` for other types, which the `parquet` crate reads.
    pub fn of(physical: Physical, read_as: &DataType) -> Option<Self> {
        Some(match (physical, read_as) {
            (Physical::INT32, DataType::Int32 | DataType::Date32) => Self::Int32,
            (Physical::INT32, DataType::Decimal64(..)) => Self::Int32OfDecimal,
            (
                Physical::INT64,
                DataType::Int64
                | DataType::Decimal64(..)
                | DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _),
            ) => Self::Int64,
            (Physical::FLOAT, DataType::Float32) => Self::Float,
            (Physical::DOUBLE, DataType::Float64) => Self::Double,
            (Physical::BYTE_ARRAY, DataType::Dictionary(..)) => Self::Strings,
            _ => return None,
        })
    }
}

/// Decoded values, by index.
#[derive(Debug)]
pub(super) enum PageValues {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Decimal(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Strings(Arc<StringArray>),
}

fn damaged(why: &str) -> QueryError {
    QueryError::Damaged(why.to_owned())
}

impl PageValues {
    /// No values yet, of a column that is stored so.
    pub fn empty(stored: StoredType) -> Self {
        match stored {
            StoredType::Int32 => Self::Int32(Vec::new()),
            StoredType::Int64 => Self::Int64(Vec::new()),
            StoredType::Int32OfDecimal => Self::Decimal(Vec::new()),
            StoredType::Float => Self::Float(Vec::new()),
            StoredType::Double => Self::Double(Vec::new()),
            StoredType::Strings => Self::Strings(Arc::new(StringArray::new_null(0))),
        }
    }

    /// Takes the values of `bytes`, which are plain.
    ///
    /// # Errors
    /// Their number is not in `counts`.
    pub fn read(&mut self, bytes: &[u8], counts: RangeInclusive<usize>) -> Result<(), QueryError> {
        match self {
            Self::Int32(values) => numbers(values, bytes, counts, i32::from_le_bytes),
            Self::Int64(values) => numbers(values, bytes, counts, i64::from_le_bytes),
            Self::Decimal(values) => numbers(values, bytes, counts, |n| i64::from(i32::from_le_bytes(n))),
            Self::Float(values) => numbers(values, bytes, counts, f32::from_le_bytes),
            Self::Double(values) => numbers(values, bytes, counts, f64::from_le_bytes),
            Self::Strings(values) => {
                *values = Arc::new(strings(bytes, counts)?);
                Ok(())
            }
        }
    }

    /// Bytes of memory.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Int32(values) => values.capacity() * size_of::<i32>(),
            Self::Int64(values) | Self::Decimal(values) => values.capacity() * size_of::<i64>(),
            Self::Float(values) => values.capacity() * size_of::<f32>(),
            Self::Double(values) => values.capacity() * size_of::<f64>(),
            Self::Strings(values) => values.get_array_memory_size(),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Int32(values) => values.len(),
            Self::Int64(values) | Self::Decimal(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Strings(values) => values.len(),
        }
    }

    /// The values, if they are numbers of this type.
    pub fn numbers<N: 'static>(&self) -> Option<&[N]> {
        let values: &dyn Any = match self {
            Self::Int32(values) => values,
            Self::Int64(values) | Self::Decimal(values) => values,
            Self::Float(values) => values,
            Self::Double(values) => values,
            Self::Strings(_) => return None,
        };
        values.downcast_ref::<Vec<N>>().map(Vec::as_slice)
    }

    /// The values as an array of `data_type`.
    pub fn array(&self, data_type: &DataType) -> ArrayRef {
        match self {
            Self::Strings(values) => Arc::clone(values) as ArrayRef,
            Self::Float(values) => Arc::new(Float32Array::from(values.clone())),
            Self::Double(values) => Arc::new(Float64Array::from(values.clone())),
            Self::Int32(values) if *data_type == DataType::Date32 => {
                Arc::new(Date32Array::from(values.clone()))
            }
            Self::Int32(values) => Arc::new(Int32Array::from(values.clone())),
            Self::Int64(values) | Self::Decimal(values) => wide(values.clone(), data_type),
        }
    }
}

fn wide(values: Vec<i64>, data_type: &DataType) -> ArrayRef {
    let of = data_type.clone();
    match data_type {
        DataType::Decimal64(..) => Arc::new(Decimal64Array::from(values).with_data_type(of)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Arc::new(TimestampMillisecondArray::from(values).with_data_type(of))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Arc::new(TimestampMicrosecondArray::from(values).with_data_type(of))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Arc::new(TimestampNanosecondArray::from(values).with_data_type(of))
        }
        _ => Arc::new(Int64Array::from(values)),
    }
}

fn wrong_count() -> QueryError {
    damaged("a page has not the values that it states")
}

/// Reads numbers of `BYTES` bytes.
fn numbers<N, const BYTES: usize>(
    values: &mut Vec<N>,
    bytes: &[u8],
    counts: RangeInclusive<usize>,
    of: impl Fn([u8; BYTES]) -> N,
) -> Result<(), QueryError> {
    let (chunks, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() || !counts.contains(&chunks.len()) {
        return Err(wrong_count());
    }
    values.clear();
    values.extend(chunks.iter().map(|chunk| of(*chunk)));
    Ok(())
}

/// Strings that each follow their length.
fn strings(mut bytes: &[u8], counts: RangeInclusive<usize>) -> Result<StringArray, QueryError> {
    let (mut ends, mut text) = (vec![0], Vec::with_capacity(bytes.len()));
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        if ends.len() > *counts.end() {
            return Err(wrong_count());
        }
        let length = u32::from_le_bytes(*length) as usize;
        let (string, rest) =
            rest.split_at_checked(length).ok_or_else(|| damaged("a string ends behind its page"))?;
        text.extend_from_slice(string);
        ends.push(i32::try_from(text.len()).map_err(|_| damaged("a page has more than 2 GiB of strings"))?);
        bytes = rest;
    }
    if !bytes.is_empty() || !counts.contains(&(ends.len() - 1)) {
        return Err(wrong_count());
    }
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    StringArray::try_new(ends, Buffer::from_vec(text), None)
        .map_err(|error| QueryError::Damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_with_another_number_of_values_than_stated_is_refused() {
        for (stored, value) in [
            (StoredType::Int32, &[1; 4][..]),
            (StoredType::Int32OfDecimal, &[1; 4]),
            (StoredType::Double, &[1; 8]),
            (StoredType::Strings, &[1, 0, 0, 0, b'a']),
        ] {
            let (mut values, page) = (PageValues::empty(stored), value.repeat(3));
            for (counts, is_read) in [(0..=3, true), (3..=3, true), (0..=2, false), (4..=4, false)] {
                assert_eq!(values.read(&page, counts).is_ok(), is_read, "{stored:?}");
            }
            assert!(values.read(&page[1..], 0..=3).is_err(), "{stored:?}");
            assert!(values.held_bytes() >= 3, "{stored:?}");
        }
    }
}
