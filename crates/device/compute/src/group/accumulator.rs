//! What one aggregate function keeps of every group.

use std::any::Any;
use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::{DataType, TimeUnit};

use super::min_max::{BinaryExtremes, BooleanExtremes, Extreme, PrimitiveExtremes, TextExtremes};
use super::rows::GroupedRows;
use super::sums::{FloatSums, WholeSums};
use crate::error::QueryError;
use crate::plan::{AggregateCall, Bound};
use crate::sql::AggregateFunction;

/// What is given of what was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Give {
    /// The value itself.
    Value,
    /// The sum by the number of its values.
    Average,
}

/// What one aggregate function keeps of every group.
pub(super) trait Accumulator: Any + Send {
    /// Adds a value a row to the groups of `rows`. Without values, rows are counted.
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError>;

    /// Adds what `other`, which is of the same type, keeps of its groups: its group `n` is group `of_row[n]` here.
    fn merge(&mut self, of_row: &[u32], groups: usize, other: Box<dyn Accumulator>)
    -> Result<(), QueryError>;

    /// Bytes of memory that it takes.
    fn held_bytes(&self) -> usize;

    /// The result of each of `groups` groups, as `data_type`.
    fn finish(&mut self, groups: usize, give: Give, data_type: &DataType) -> Result<ArrayRef, QueryError>;
}

/// What `call` keeps.
pub(super) fn accumulator(call: &AggregateCall) -> Box<dyn Accumulator> {
    let argument = call.argument.as_ref().map_or(DataType::Int64, Bound::data_type);
    match (call.function, &argument) {
        (AggregateFunction::Count, _) => Box::new(Counts::default()),
        (AggregateFunction::Sum | AggregateFunction::Avg, DataType::Float64) => {
            Box::new(FloatSums::default())
        }
        (AggregateFunction::Sum | AggregateFunction::Avg, _) => Box::new(WholeSums::new(argument)),
        (AggregateFunction::Min, _) => extremes(&argument, Extreme::Least),
        (AggregateFunction::Max, _) => extremes(&argument, Extreme::Greatest),
    }
}

fn extremes(of: &DataType, extreme: Extreme) -> Box<dyn Accumulator> {
    match of {
        DataType::Int32 => Box::new(PrimitiveExtremes::<Int32Type>::new(extreme)),
        DataType::Int64 => Box::new(PrimitiveExtremes::<Int64Type>::new(extreme)),
        DataType::Float32 => Box::new(PrimitiveExtremes::<Float32Type>::new(extreme)),
        DataType::Float64 => Box::new(PrimitiveExtremes::<Float64Type>::new(extreme)),
        DataType::Decimal128(..) => Box::new(PrimitiveExtremes::<Decimal128Type>::new(extreme)),
        DataType::Date32 => Box::new(PrimitiveExtremes::<Date32Type>::new(extreme)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            Box::new(PrimitiveExtremes::<TimestampSecondType>::new(extreme))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Box::new(PrimitiveExtremes::<TimestampMillisecondType>::new(extreme))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Box::new(PrimitiveExtremes::<TimestampMicrosecondType>::new(extreme))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Box::new(PrimitiveExtremes::<TimestampNanosecondType>::new(extreme))
        }
        DataType::Boolean => Box::new(BooleanExtremes::new(extreme)),
        DataType::Binary => Box::new(BinaryExtremes::new(extreme)),
        // No column is read as any other type.
        _ => Box::new(TextExtremes::new(extreme)),
    }
}

/// `other` as the same kind of accumulator.
pub(super) fn same_kind<A: Accumulator>(other: Box<dyn Accumulator>) -> Result<Box<A>, QueryError> {
    let other: Box<dyn Any> = other;
    other.downcast().map_err(|_| QueryError::Value("groups of two queries cannot be merged".to_owned()))
}

/// Numbers of rows, or of values that are not NULL.
#[derive(Default)]
struct Counts(Vec<i64>);

impl Accumulator for Counts {
    fn add(&mut self, rows: &GroupedRows<'_>, values: Option<&ArrayRef>) -> Result<(), QueryError> {
        self.0.resize(rows.groups, 0);
        let nulls = values.and_then(|values| values.nulls()).filter(|nulls| nulls.null_count() > 0);
        match nulls {
            None if rows.groups > rows.of_row.len() => {
                rows.of_row.iter().for_each(|group| self.0[*group as usize] += 1);
            }
            None => self.0.iter_mut().zip(rows.counts()).for_each(|(count, more)| *count += i64::from(*more)),
            Some(nulls) => {
                for (group, is_valid) in rows.of_row.iter().zip(nulls.iter()) {
                    self.0[*group as usize] += i64::from(is_valid);
                }
            }
        }
        Ok(())
    }

    fn merge(
        &mut self,
        of_row: &[u32],
        groups: usize,
        other: Box<dyn Accumulator>,
    ) -> Result<(), QueryError> {
        self.0.resize(groups, 0);
        let other = same_kind::<Self>(other)?;
        of_row.iter().zip(&other.0).for_each(|(group, count)| self.0[*group as usize] += count);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.0.capacity() * size_of::<i64>()
    }

    fn finish(&mut self, groups: usize, _: Give, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.resize(groups, 0);
        Ok(Arc::new(Int64Array::from(self.0.clone())))
    }
}
