//! What one aggregate function keeps of every group.

use std::any::Any;
use std::sync::Arc;

use arrow_array::types::{
    BinaryType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    Utf8Type,
};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_schema::{DataType, TimeUnit};

use super::min_max::{BooleanMinMax, BytesMinMax, MinMax, PrimitiveMinMax};
use super::rows::GroupedRows;
use super::sums::{FloatSums, WholeSums};
use crate::error::QueryError;
use crate::plan::{AggregateCall, Bound};
use crate::sql::AggregateFunction;

/// Which value of a group an aggregate function has in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
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
    fn finish(&mut self, groups: usize, finish: Finish, data_type: &DataType)
    -> Result<ArrayRef, QueryError>;
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
        (AggregateFunction::Min, _) => min_max(&argument, MinMax::Min),
        (AggregateFunction::Max, _) => min_max(&argument, MinMax::Max),
    }
}

fn min_max(of: &DataType, function: MinMax) -> Box<dyn Accumulator> {
    match of {
        DataType::Int32 => Box::new(PrimitiveMinMax::<Int32Type>::new(function)),
        DataType::Int64 => Box::new(PrimitiveMinMax::<Int64Type>::new(function)),
        DataType::Float32 => Box::new(PrimitiveMinMax::<Float32Type>::new(function)),
        DataType::Float64 => Box::new(PrimitiveMinMax::<Float64Type>::new(function)),
        DataType::Decimal128(..) => Box::new(PrimitiveMinMax::<Decimal128Type>::new(function)),
        DataType::Date32 => Box::new(PrimitiveMinMax::<Date32Type>::new(function)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            Box::new(PrimitiveMinMax::<TimestampSecondType>::new(function))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Box::new(PrimitiveMinMax::<TimestampMillisecondType>::new(function))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Box::new(PrimitiveMinMax::<TimestampMicrosecondType>::new(function))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            Box::new(PrimitiveMinMax::<TimestampNanosecondType>::new(function))
        }
        DataType::Boolean => Box::new(BooleanMinMax::new(function)),
        DataType::Binary => Box::new(BytesMinMax::<BinaryType>::new(function)),
        // No column is read as any other type.
        _ => Box::new(BytesMinMax::<Utf8Type>::new(function)),
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

    fn finish(&mut self, groups: usize, _: Finish, _: &DataType) -> Result<ArrayRef, QueryError> {
        self.0.resize(groups, 0);
        Ok(Arc::new(Int64Array::from(self.0.clone())))
    }
}
