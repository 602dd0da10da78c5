//! Aggregates over all rows, where there are no groups: of columns as they are decoded, without arrays.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::DataType;

use super::column::Column;
use super::plan::schema_of;
use super::selection::Selection;
use super::{Direct, batch_of};
use crate::error::QueryError;
use crate::group::MinMax;
use crate::plan::{AggregateCall, Bound, Grouping};
use crate::scan::{Part, Table};
use crate::sql::AggregateFunction;

/// Aggregates of all rows so far, one for each call.
#[derive(Debug)]
pub(crate) struct Totals(Vec<Total>);

/// What is kept for one call. Columns are named by their place in the plan.
#[derive(Debug)]
enum Total {
    Rows(i64),
    Values { column: usize, count: i64 },
    MinMaxOfReals { column: usize, function: MinMax, kept: Option<f64> },
    MinMaxOfIntegers { column: usize, function: MinMax, kept: Option<i64> },
    SumOfReals { column: usize, is_average: bool, sum: f64, count: u64 },
}

impl Totals {
    /// Of no rows yet; `None` where there are groups, or a call needs more than a column of numbers.
    pub fn new(grouping: &Grouping) -> Option<Self> {
        if !grouping.keys.is_empty() {
            return None;
        }
        grouping.calls.iter().map(Total::new).collect::<Option<_>>().map(Self)
    }

    /// Adds the rows of `part` that fulfil the plan's conditions. False, and nothing is added, where a column of it falls back to the
    /// `parquet` crate.
    pub fn add(&mut self, table: &Table, part: Part) -> Result<bool, QueryError> {
        let plan = table.chosen.direct.as_ref();
        let Some(direct) = plan.and_then(|plan| Direct::new(table, plan, part)) else { return Ok(false) };
        let _ = direct.each_batch(part, |direct, rows| {
            let Direct { plan, columns, selection, .. } = direct;
            for (column, is_output) in columns.iter_mut().zip(&plan.is_output) {
                if *is_output {
                    column.read(rows)?;
                }
            }
            self.0.iter_mut().for_each(|total| total.add(columns, selection));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(true)
    }

    /// One row of all aggregates.
    pub fn into_batch(self) -> Result<RecordBatch, QueryError> {
        let arrays: Vec<_> = self.0.iter().map(Total::array).collect();
        let schema = schema_of(arrays.iter().map(|array| array.data_type().clone()));
        batch_of(&schema, arrays, 1)
    }
}

impl Total {
    fn new(call: &AggregateCall) -> Option<Self> {
        let Some(argument) = &call.argument else { return Some(Self::Rows(0)) };
        let Bound::Column { index, data_type } = argument else { return None };
        let column = *index;
        let min_max = |function| match data_type {
            DataType::Float64 => Some(Self::MinMaxOfReals { column, function, kept: None }),
            DataType::Int64 => Some(Self::MinMaxOfIntegers { column, function, kept: None }),
            _ => None,
        };
        let sum = |is_average| {
            let is_real = *data_type == DataType::Float64;
            is_real.then_some(Self::SumOfReals { column, is_average, sum: 0.0, count: 0 })
        };
        match call.function {
            AggregateFunction::Count => Some(Self::Values { column, count: 0 }),
            AggregateFunction::Min => min_max(MinMax::Min),
            AggregateFunction::Max => min_max(MinMax::Max),
            AggregateFunction::Sum => sum(false),
            AggregateFunction::Avg => sum(true),
        }
    }

    /// Adds the selected rows, whose columns were read.
    fn add(&mut self, columns: &[Column], selection: &Selection) {
        match self {
            Self::Rows(count) => *count += selection.len() as i64,
            Self::Values { column, count } => *count += columns[*column].values_in(selection) as i64,
            Self::MinMaxOfReals { column, function, kept } => {
                columns[*column].each_number(selection, |value| function.offer(kept, value));
            }
            Self::MinMaxOfIntegers { column, function, kept } => {
                columns[*column].each_number(selection, |value| function.offer(kept, value));
            }
            Self::SumOfReals { column, sum, count, .. } => {
                columns[*column]
                    .each_number(selection, |value: f64| (*sum, *count) = (*sum + value, *count + 1));
            }
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Self::Rows(count) | Self::Values { count, .. } => Arc::new(Int64Array::from(vec![*count])),
            Self::MinMaxOfReals { kept, .. } => Arc::new(Float64Array::from(vec![*kept])),
            Self::MinMaxOfIntegers { kept, .. } => Arc::new(Int64Array::from(vec![*kept])),
            Self::SumOfReals { is_average, sum, count, .. } => {
                let value = if *is_average { sum / *count as f64 } else { *sum };
                Arc::new(Float64Array::from(vec![(*count > 0).then_some(value)]))
            }
        }
    }
}
