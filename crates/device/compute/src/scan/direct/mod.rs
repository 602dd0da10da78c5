//! Scans of columns of numbers, dates, times and strings of a dictionary without the Parquet library: conditions are evaluated once for each value of a
//! dictionary, columns are decoded for the rows that are left, and buffers are used again.

mod column;
mod hybrid;
mod page;
mod selection;
mod values;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, NullArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;

use self::column::Column;
use self::page::{Codec, PageReader};
use self::selection::Selection;
use self::values::StoredType;
use super::{Part, Table, all_hold};
use crate::error::QueryError;
use crate::plan::{Bound, Plan};

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
}

impl fmt::Debug for ColumnPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnPool").finish_non_exhaustive()
    }
}

/// A scan of one row group.
pub(super) struct Direct<'t> {
    columns: Vec<Column>,
    stages: Vec<FilterStage>,
    /// Whether a column is part of the batches, and not only of conditions.
    is_output: Vec<bool>,
    schema: SchemaRef,
    selection: Selection,
    table: &'t Table,
}

/// Conditions on the same columns.
struct FilterStage {
    /// Indices of the columns, in the plan.
    columns_read: Vec<usize>,
    filters: Vec<Bound>,
    schema: SchemaRef,
    outcomes: DictionaryOutcomes,
}

/// Whether conditions hold for each value of a dictionary.
enum DictionaryOutcomes {
    /// They read several columns, or could fail for a value that no row has.
    Unusable,
    Pending,
    Known(Vec<bool>),
}

type ScanFlow = Result<ControlFlow<()>, QueryError>;

impl<'t> Direct<'t> {
    /// The scan of a part; `None` where a column is written in a way that the library alone reads.
    pub fn new(table: &'t Table, plan: &Plan, part: Part) -> Option<Self> {
        let columns_read = 0..plan.columns.len();
        let mut columns: Vec<_> =
            columns_read.map(|index| column(table, plan, index, part)).collect::<Option<_>>()?;
        if columns.is_empty() {
            return None;
        }
        let old = table.column_pool.take().into_iter().flatten();
        columns.iter_mut().zip(old).for_each(|(column, old)| column.take_memory(old));
        let types: Vec<_> = columns.iter().map(Column::data_type).collect();
        let stages = (table.chosen.filters.iter())
            .map(|(columns_read, filters)| FilterStage::new(columns_read, filters.clone(), &types))
            .collect();
        let read = plan.read_behind_filters();
        let is_output: Vec<_> = (0..columns.len()).map(|index| read.contains(&index)).collect();
        let types = types.iter().zip(&is_output);
        let output_type = |(data_type, output): (&DataType, &bool)| {
            if *output { data_type.clone() } else { DataType::Null }
        };
        let schema = schema_of(types.map(output_type));
        Some(Self { columns, stages, is_output, schema, selection: Selection::default(), table })
    }

    /// Gives each batch of rows of `part` that fulfil the conditions to `take`.
    pub fn scan(mut self, part: Part, mut take: impl FnMut(RecordBatch) -> ScanFlow) -> ScanFlow {
        for column in &mut self.columns {
            skip(column, part.skip)?;
        }
        let mut left = part.rows;
        while left > 0 {
            self.table.watch.check()?;
            let rows = self.next_rows(left.min(DIRECT_BATCH_ROWS))?;
            self.select(rows)?;
            if self.selection.len() > 0 && take(self.batch(rows)?)?.is_break() {
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
        for stage in &mut self.stages {
            if self.selection.len() == 0 {
                break;
            }
            stage.select(&mut self.columns, rows, &mut self.selection)?;
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
        let arrays = self.columns.iter_mut().zip(&self.is_output).map(array).collect::<Result<_, _>>()?;
        batch_of(&self.schema, arrays, selection.len())
    }
}

/// Column `plan_index` of the plan; `None` where the library alone reads it.
fn column(table: &Table, plan: &Plan, plan_index: usize, part: Part) -> Option<Column> {
    let index = *plan.columns.get(plan_index)?;
    let stored_as = table.metadata.schema().fields().get(index)?.data_type();
    let data_type = decoded_as(stored_as, plan.column_types.get(plan_index)?)?;
    let schema = table.metadata.parquet_schema();
    let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == index)?;
    let descriptor = schema.column(leaf);
    let is_flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
    if !is_flat || descriptor.path().parts().len() != 1 {
        return None;
    }
    let chunk = table.metadata().row_group(part.row_group).column(leaf);
    let codec = Codec::of(chunk.compression()).filter(|_| has_readable_encodings(chunk))?;
    let stored = StoredType::of(chunk.column_type(), &data_type)?;
    let (start, bytes) = chunk.byte_range();
    let pages = PageReader::new(table.reader.clone(), codec, descriptor.max_def_level() == 1);
    Some(Column::new(pages, stored, data_type, start..start.checked_add(bytes)?))
}

/// The type of a column's arrays. Decimals whose digits fit 64 bits are given as such.
fn decoded_as(stored: &DataType, read_as: &DataType) -> Option<DataType> {
    match (stored, read_as) {
        (DataType::Decimal128(digits, scale), same) if stored == same && *digits <= 18 => {
            Some(DataType::Decimal64(*digits, *scale))
        }
        (DataType::Timestamp(unit, _), DataType::Timestamp(same, _)) if unit == same => Some(read_as.clone()),
        (stored, same) if stored == same => Some(read_as.clone()),
        _ => None,
    }
}

fn has_readable_encodings(chunk: &ColumnChunkMetaData) -> bool {
    #[expect(deprecated, reason = "old writers name it, for levels that flat columns do not have")]
    let is_read = |encoding| {
        matches!(
            encoding,
            Encoding::PLAIN
                | Encoding::PLAIN_DICTIONARY
                | Encoding::RLE_DICTIONARY
                | Encoding::RLE
                | Encoding::BIT_PACKED
        )
    };
    chunk.encodings().all(is_read)
}

fn skip(column: &mut Column, mut rows: usize) -> Result<(), QueryError> {
    while rows > 0 {
        let skipped = column.page_rows_left()?.min(rows);
        column.skip(skipped);
        rows -= skipped;
    }
    Ok(())
}

fn schema_of(types: impl Iterator<Item = DataType>) -> SchemaRef {
    let fields = types.enumerate().map(|(at, data_type)| Field::new(at.to_string(), data_type, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn batch_of(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, QueryError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

impl FilterStage {
    fn new(columns_read: &BTreeSet<usize>, mut filters: Vec<Bound>, types: &[DataType]) -> Self {
        let columns_read: Vec<_> = columns_read.iter().copied().collect();
        filters.iter_mut().for_each(|filter| filter.renumber(&columns_read));
        let is_by_value = columns_read.len() == 1 && filters.iter().all(never_fails);
        let outcomes = if is_by_value { DictionaryOutcomes::Pending } else { DictionaryOutcomes::Unusable };
        let schema = schema_of(columns_read.iter().map(|index| types[*index].clone()));
        Self { columns_read, filters, schema, outcomes }
    }

    /// Keeps the selected rows that the conditions are true of.
    fn select(
        &mut self,
        columns: &mut [Column],
        rows: usize,
        selection: &mut Selection,
    ) -> Result<(), QueryError> {
        for index in &self.columns_read {
            columns[*index].read(rows)?;
        }
        if self.select_by_value(columns, selection)? {
            return Ok(());
        }
        let arrays = self.columns_read.iter().map(|index| columns[*index].array(selection));
        let arrays = arrays.collect::<Result<_, _>>()?;
        let batch = batch_of(&self.schema, arrays, selection.len())?;
        selection.keep_where(&all_hold(&self.filters, &batch)?);
        Ok(())
    }

    /// Selects by what holds for the values of a dictionary, if the rows have dictionary indices. False if they have none.
    fn select_by_value(&mut self, columns: &[Column], selection: &mut Selection) -> Result<bool, QueryError> {
        let [index] = self.columns_read.as_slice() else { return Ok(false) };
        if matches!(self.outcomes, DictionaryOutcomes::Unusable) {
            return Ok(false);
        }
        let Some((values, indices)) = columns[*index].dictionary_indices() else { return Ok(false) };
        if let DictionaryOutcomes::Pending = self.outcomes {
            self.outcomes = DictionaryOutcomes::Known(self.holds_for(values())?);
        }
        if let DictionaryOutcomes::Known(holds) = &self.outcomes {
            selection.keep_by_index(indices, holds);
        }
        Ok(true)
    }

    fn holds_for(&self, values: ArrayRef) -> Result<Vec<bool>, QueryError> {
        let rows = values.len();
        let schema = schema_of(std::iter::once(values.data_type().clone()));
        let holds = all_hold(&self.filters, &batch_of(&schema, vec![values], rows)?)?;
        Ok((0..rows).map(|row| holds.is_valid(row) && holds.value(row)).collect())
    }
}

/// Whether a condition has a result for every value: then it may be asked for values that no row has.
fn never_fails(bound: &Bound) -> bool {
    let is_total = matches!(
        bound,
        Bound::Column { .. }
            | Bound::Constant(_)
            | Bound::Compare { .. }
            | Bound::Logic { .. }
            | Bound::Not(_)
            | Bound::IsNull(_)
    );
    is_total && bound.operands().iter().all(never_fails)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow_array::{Float64Array, Int64Array};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::limits::{Cancellation, Limits, Watch};
    use crate::sql::Query;

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
            assert!(Direct::new(&table, &plan, part).is_some(), "{names}");
        }
    }
}
