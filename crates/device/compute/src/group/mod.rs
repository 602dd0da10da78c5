//! Groups of rows: their keys, and what is aggregated of each.

mod accumulator;
mod keys;
mod min_max;
mod row_keys;
mod rows;
mod states;
mod sums;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use self::keys::Keys;
pub(crate) use self::min_max::MinMax;
use self::rows::GroupedRows;
use self::states::States;
use crate::error::QueryError;
use crate::evaluate;
use crate::plan::{Bound, Grouping};

/// The groups of a query, in the order in which their first rows came.
pub(crate) struct Groups {
    plan: Arc<Grouping>,
    keys: Keys,
    states: States,
    /// The group of each row of the batch at hand.
    of_row: Vec<u32>,
}

impl Groups {
    /// No groups yet; without keys, one that has no rows yet.
    pub fn new(plan: Arc<Grouping>) -> Result<Self, QueryError> {
        let keys = Keys::new(&plan.keys.iter().map(Bound::data_type).collect::<Vec<_>>())?;
        let states = States::new(&plan.calls);
        Ok(Self { plan, keys, states, of_row: Vec::new() })
    }

    /// Adds the rows of `batch`.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        let rows = batch.num_rows();
        let values = |bound: &Bound| -> Result<ArrayRef, QueryError> {
            Ok(evaluate::value(bound, batch)?.into_rows(rows)?)
        };
        let keys: Vec<_> = self.plan.keys.iter().map(values).collect::<Result<_, _>>()?;
        self.keys.assign(&keys, rows, &mut self.of_row)?;
        self.states.add(&GroupedRows::new(&self.of_row, self.keys.len()), batch)
    }

    /// Adds the groups of `other`, whose rows come behind those of this.
    pub fn merge(&mut self, other: Self) -> Result<(), QueryError> {
        let others = other.keys.len();
        self.keys.assign(&other.keys.into_arrays()?, others, &mut self.of_row)?;
        self.states.merge(&self.of_row, self.keys.len(), other.states)
    }

    /// Bytes of memory that they take.
    pub fn held_bytes(&self) -> usize {
        self.keys.held_bytes() + self.states.held_bytes()
    }

    /// A row for each group: its keys, and behind them its aggregates.
    pub fn into_batch(self) -> Result<RecordBatch, QueryError> {
        let groups = self.keys.len();
        let mut columns = self.keys.into_arrays()?;
        columns.extend(self.states.finish(groups)?);
        let options = RecordBatchOptions::new().with_row_count(Some(groups));
        Ok(RecordBatch::try_new_with_options(schema_of(&columns), columns, &options)?)
    }
}

fn schema_of(columns: &[ArrayRef]) -> SchemaRef {
    let field =
        |(at, column): (usize, &ArrayRef)| Field::new(at.to_string(), column.data_type().clone(), true);
    Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()))
}

/// Floating-point values with both zeroes as one, and all NaNs as one: values that are equal have equal bits.
pub(crate) fn with_equal_bits(array: ArrayRef) -> ArrayRef {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Float64Type};
    match array.data_type() {
        DataType::Float64 => {
            let equal = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(equal))
        }
        DataType::Float32 => {
            let equal = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(equal))
        }
        _ => array,
    }
}
