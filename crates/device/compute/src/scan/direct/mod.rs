//! Scans of columns of numbers, dates, times and strings of a dictionary without the Parquet library: conditions are evaluated once for each value of a
//! dictionary, columns are decoded for the rows that are left, and buffers are used again.

mod column;
mod hybrid;
mod page;
mod plan;
mod selection;
mod totals;
mod values;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, NullArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use self::column::Column;
pub(super) use self::plan::DirectPlan;
use self::plan::{Comparison, FilterStage, schema_of};
use self::selection::Selection;
pub(crate) use self::totals::Totals;
use super::{Part, Table, all_hold};
use crate::error::QueryError;
use crate::evaluate::compare_to_number;
use crate::sql::CompareOp;

/// Most rows of a batch. Its columns and what is computed of them fit in the second-level cache.
const DIRECT_BATCH_ROWS: usize = 4096;

/// Columns of scans that have ended, for their memory. Memory that is new to the process costs as much as what it is used for.
#[derive(Default)]
pub(super) struct ColumnPool(Mutex<Vec<Vec<Column>>>);

impl ColumnPool {
    fn take(&self) -> Option<Vec<Column>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give(&self, columns: Vec<Column>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(columns);
    }

    /// Drops columns until the others have at most `bytes` of memory. For pools that stay between queries: the columns of a scan that goes on
    /// are needed again, one set for each thread.
    pub fn shrink_to(&mut self, bytes: usize) {
        let mut left = bytes;
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).retain(|columns| {
            let held = columns.iter().map(Column::held_bytes).fold(0, usize::saturating_add);
            let is_kept = held <= left;
            left -= if is_kept { held } else { 0 };
            is_kept
        });
    }
}

impl fmt::Debug for ColumnPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnPool").finish_non_exhaustive()
    }
}

/// A scan of a part of one row group.
pub(super) struct Direct<'t> {
    plan: &'t DirectPlan,
    columns: Vec<Column>,
    /// For each stage of the plan.
    outcomes: Vec<DictionaryOutcomes>,
    selection: Selection,
    table: &'t Table,
}

/// Whether the conditions of a stage hold for each value of a dictionary.
enum DictionaryOutcomes {
    /// They read several columns, or could fail for a value that no row has.
    Unusable,
    Pending,
    Known(Vec<bool>),
}

type ScanFlow = Result<ControlFlow<()>, QueryError>;

impl<'t> Direct<'t> {
    /// The scan of a part; `None` where a column falls back to the `parquet` crate.
    pub fn new(table: &'t Table, plan: &'t DirectPlan, part: Part) -> Option<Self> {
        let row_group = table.metadata().row_group(part.row_group);
        let columns = plan.columns_of(row_group, &table.reader, table.column_pool.take())?;
        let pending = |stage: &FilterStage| match stage.is_by_value {
            true => DictionaryOutcomes::Pending,
            false => DictionaryOutcomes::Unusable,
        };
        let outcomes = plan.stages.iter().map(pending).collect();
        Some(Self { plan, columns, outcomes, selection: Selection::default(), table })
    }

    /// Gives each batch of rows of `part` that fulfil the conditions to `take`.
    pub fn scan(self, part: Part, mut take: impl FnMut(RecordBatch) -> ScanFlow) -> ScanFlow {
        self.each_batch(part, |direct, rows| take(direct.batch(rows)?))
    }

    /// Selects the rows of each batch of `part` that fulfil the conditions, and gives those that have any to `take`, with the number of all
    /// rows of the batch.
    fn each_batch(mut self, part: Part, mut take: impl FnMut(&mut Self, usize) -> ScanFlow) -> ScanFlow {
        for column in &mut self.columns {
            skip(column, part.skip)?;
        }
        let mut left = part.rows;
        while left > 0 {
            self.table.watch.check()?;
            let rows = self.next_rows(left.min(DIRECT_BATCH_ROWS))?;
            self.select(rows)?;
            if self.selection.len() > 0 && take(&mut self, rows)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.columns.iter_mut().for_each(|column| column.skip(rows));
            left -= rows;
        }
        self.table.column_pool.give(self.columns);
        Ok(ControlFlow::Continue(()))
    }

    /// At most `rows`, as many as every column's page has left.
    fn next_rows(&mut self, rows: usize) -> Result<usize, QueryError> {
        self.columns.iter_mut().try_fold(rows, |rows, column| Ok(rows.min(column.page_rows_left()?)))
    }

    fn select(&mut self, rows: usize) -> Result<(), QueryError> {
        self.selection.reset(rows);
        for (stage, outcomes) in self.plan.stages.iter().zip(&mut self.outcomes) {
            if self.selection.len() == 0 {
                break;
            }
            stage.select(&mut self.columns, rows, outcomes, &mut self.selection)?;
        }
        Ok(())
    }

    fn batch(&mut self, rows: usize) -> Result<RecordBatch, QueryError> {
        let selection = &self.selection;
        let array = |(column, is_output): (&mut Column, &bool)| {
            if *is_output {
                column.read(rows)?;
                return column.array(selection);
            }
            Ok(Arc::new(NullArray::new(selection.len())) as ArrayRef)
        };
        let arrays =
            self.columns.iter_mut().zip(&self.plan.is_output).map(array).collect::<Result<_, _>>()?;
        batch_of(&self.plan.schema, arrays, selection.len())
    }
}

fn skip(column: &mut Column, mut rows: usize) -> Result<(), QueryError> {
    while rows > 0 {
        let skipped = column.page_rows_left()?.min(rows);
        column.skip(skipped);
        rows -= skipped;
    }
    Ok(())
}

fn batch_of(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, QueryError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

impl FilterStage {
    /// Keeps the selected rows that the conditions are true of.
    fn select(
        &self,
        columns: &mut [Column],
        rows: usize,
        outcomes: &mut DictionaryOutcomes,
        selection: &mut Selection,
    ) -> Result<(), QueryError> {
        for index in &self.columns_read {
            columns[*index].read(rows)?;
        }
        if self.select_by_value(columns, outcomes, selection)? || self.select_by_number(columns, selection) {
            return Ok(());
        }
        let arrays = self.columns_read.iter().map(|index| columns[*index].array(selection));
        let arrays = arrays.collect::<Result<_, _>>()?;
        let batch = batch_of(&self.schema, arrays, selection.len())?;
        selection.keep_where(&all_hold(&self.filters, &batch)?);
        Ok(())
    }

    /// Selects by what holds for the values of a dictionary, if the rows have dictionary indices. False if they have none.
    fn select_by_value(
        &self,
        columns: &[Column],
        outcomes: &mut DictionaryOutcomes,
        selection: &mut Selection,
    ) -> Result<bool, QueryError> {
        let [index] = self.columns_read.as_slice() else { return Ok(false) };
        if matches!(outcomes, DictionaryOutcomes::Unusable) {
            return Ok(false);
        }
        let Some((values, indices)) = columns[*index].dictionary_indices() else { return Ok(false) };
        if let DictionaryOutcomes::Pending = outcomes {
            *outcomes = DictionaryOutcomes::Known(self.holds_for(values())?);
        }
        if let DictionaryOutcomes::Known(holds) = outcomes {
            selection.keep_by_index(indices, holds);
        }
        Ok(true)
    }

    /// Selects by comparisons of contiguous numbers. False if they are not contiguous, or the selection is sparse.
    fn select_by_number(&self, columns: &[Column], selection: &mut Selection) -> bool {
        let [index] = self.columns_read.as_slice() else { return false };
        if self.comparisons.is_empty() || selection.is_sparse() {
            return false;
        }
        self.comparisons.iter().all(|comparison| match *comparison {
            Comparison::Real(op, one) => select_by_comparison(&columns[*index], op, one, selection),
            Comparison::Integer(op, one) => select_by_comparison::<i64>(&columns[*index], op, one, selection),
        })
    }

    fn holds_for(&self, values: ArrayRef) -> Result<Vec<bool>, QueryError> {
        let rows = values.len();
        let schema = schema_of(std::iter::once(values.data_type().clone()));
        let holds = all_hold(&self.filters, &batch_of(&schema, vec![values], rows)?)?;
        Ok((0..rows).map(|row| holds.is_valid(row) && holds.value(row)).collect())
    }
}

/// Selects rows for which `column op one` is true. False where the numbers are not contiguous.
fn select_by_comparison<N: PartialOrd + Copy + 'static>(
    column: &Column,
    op: CompareOp,
    one: N,
    selection: &mut Selection,
) -> bool {
    let Some(values) = column.contiguous_numbers::<N>() else { return false };
    selection.keep_by_bits(|words| compare_to_number(op, values, one, words));
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow_array::{Float64Array, Int64Array};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::limits::{Cancellation, Limits, Watch};
    use crate::plan::Plan;
    use crate::sql::Query;

    /// A file of one column of `rows` different numbers.
    fn numbers(rows: i64) -> Bytes {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file.into()
    }

    #[test]
    fn pool_drops_columns_beyond_its_bound_and_keeps_others() {
        for (rows, is_kept) in [(1000, true), (500_000, false)] {
            let watch = Arc::new(Watch::new(Limits::default(), Cancellation::default()));
            let query = Query::parse("SELECT a FROM t", &Limits::default()).unwrap();
            let table = Table::open(Arc::new(numbers(rows)), watch).unwrap();
            let plan = Plan::bind(&query, table.columns()).unwrap();
            let mut table = table.prepared(&plan).unwrap();
            let part = table.parts(usize::MAX).unwrap()[0];
            let direct = Direct::new(&table, table.chosen.direct.as_ref().unwrap(), part).unwrap();
            let _ = direct.scan(part, |_| Ok(ControlFlow::Continue(()))).unwrap();
            table.column_pool.shrink_to(1 << 20);
            assert_eq!(table.column_pool.take().is_some(), is_kept, "{rows} rows");
        }
    }

    #[test]
    fn columns_of_numbers_are_decoded_here_wherever_they_stand() {
        let whole: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let real: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
        let columns = [("a", &whole), ("b", &real), ("c", &whole), ("d", &real)];
        let batch = RecordBatch::try_from_iter(columns.map(|(name, of)| (name, Arc::clone(of)))).unwrap();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let file = Bytes::from(file);
        for names in ["a, b, c, d", "b, c", "c, d", "d, a", "d"] {
            let watch = Arc::new(Watch::new(Limits::default(), Cancellation::default()));
            let query = Query::parse(&format!("SELECT {names} FROM t"), &Limits::default()).unwrap();
            let table = Table::open(Arc::new(file.clone()), watch).unwrap();
            let plan = Plan::bind(&query, table.columns()).unwrap();
            let table = table.prepared(&plan).unwrap();
            let part = table.parts(usize::MAX).unwrap()[0];
            let direct = table.chosen.direct.as_ref().unwrap();
            assert!(Direct::new(&table, direct, part).is_some(), "{names}");
        }
    }
}
