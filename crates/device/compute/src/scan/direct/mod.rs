//! Scans of columns of numbers, dates, times and names without the Parquet library: conditions are evaluated once for each value of a
//! dictionary, columns are decoded for the rows that are left, and buffers are used again.

mod column;
mod hybrid;
mod page;
mod selection;
mod table;

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
use self::table::Stored;
use super::{Part, Table, all_hold, filters};
use crate::error::QueryError;
use crate::plan::{Bound, Plan};

/// Most rows of a batch. Its columns and what is computed of them fit in the second-level cache.
const BATCH_ROWS: usize = 4096;

/// Columns of scans that have ended, for their memory. Memory that is new to the process costs as much as what it is used for.
#[derive(Default)]
pub(super) struct Spares(Mutex<Vec<Vec<Column>>>);

impl Spares {
    fn take(&self) -> Option<Vec<Column>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give(&self, columns: Vec<Column>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(columns);
    }
}

impl fmt::Debug for Spares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spares").finish_non_exhaustive()
    }
}

/// A scan of one row group.
pub(super) struct Direct<'t> {
    columns: Vec<Column>,
    stages: Vec<Stage>,
    /// Whether a column is read by more than conditions.
    is_given: Vec<bool>,
    schema: SchemaRef,
    selection: Selection,
    table: &'t Table,
}

/// Conditions on the same columns.
struct Stage {
    /// Places of the columns.
    places: Vec<usize>,
    filters: Vec<Bound>,
    schema: SchemaRef,
    by_value: ByValue,
}

/// Whether conditions hold for each value of a dictionary.
enum ByValue {
    /// They read several columns, or could fail for a value that no row has.
    Never,
    Unknown,
    Known(Vec<bool>),
}

type Taken = Result<ControlFlow<()>, QueryError>;

impl<'t> Direct<'t> {
    /// The scan of a part; `None` where a column is written in a way that the library alone reads.
    pub fn new(table: &'t Table, plan: &Plan, part: Part) -> Option<Self> {
        let places = 0..plan.columns.len();
        let mut columns: Vec<_> =
            places.map(|place| column(table, plan, place, part)).collect::<Option<_>>()?;
        if columns.is_empty() {
            return None;
        }
        let old = table.spares.take().into_iter().flatten();
        columns.iter_mut().zip(old).for_each(|(column, old)| column.take_memory(old));
        let types: Vec<_> = columns.iter().map(Column::data_type).collect();
        let groups = filters::ordered(plan, |place| table.extremes_of(plan, place));
        let stages =
            groups.into_iter().map(|(places, filters)| Stage::new(&places, filters, &types)).collect();
        let read = plan.read_behind_filters();
        let is_given: Vec<_> = (0..columns.len()).map(|place| read.contains(&place)).collect();
        let types = types.iter().zip(&is_given);
        let given =
            |(data_type, given): (&DataType, &bool)| if *given { data_type.clone() } else { DataType::Null };
        let schema = schema_of(types.map(given));
        Some(Self { columns, stages, is_given, schema, selection: Selection::default(), table })
    }

    /// Gives each batch of rows of `part` that fulfil the conditions to `take`.
    pub fn scan(mut self, part: Part, mut take: impl FnMut(RecordBatch) -> Taken) -> Taken {
        for column in &mut self.columns {
            skip(column, part.skip)?;
        }
        let mut left = part.rows;
        while left > 0 {
            self.table.watch.check()?;
            let rows = self.next_rows(left.min(BATCH_ROWS))?;
            self.select(rows)?;
            if self.selection.len() > 0 && take(self.batch(rows)?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.columns.iter_mut().for_each(|column| column.pass(rows));
            left -= rows;
        }
        self.table.spares.give(self.columns);
        Ok(ControlFlow::Continue(()))
    }

    /// At most `rows`, as many as every column's page has left.
    fn next_rows(&mut self, rows: usize) -> Result<usize, QueryError> {
        self.columns.iter_mut().try_fold(rows, |rows, column| Ok(rows.min(column.left()?)))
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
        let array = |(column, is_given): (&mut Column, &bool)| {
            if *is_given {
                column.read(rows)?;
                return column.array(selection);
            }
            Ok(Arc::new(NullArray::new(selection.len())) as ArrayRef)
        };
        let arrays = self.columns.iter_mut().zip(&self.is_given).map(array).collect::<Result<_, _>>()?;
        batch_of(&self.schema, arrays, selection.len())
    }
}

/// The column at a place of the plan; `None` where the library alone reads it.
fn column(table: &Table, plan: &Plan, place: usize, part: Part) -> Option<Column> {
    let index = *plan.columns.get(place)?;
    let stored_as = table.metadata.schema().fields().get(index)?.data_type();
    let data_type = decoded_as(stored_as, plan.column_types.get(place)?)?;
    let schema = table.metadata.parquet_schema();
    let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == index)?;
    let descriptor = schema.column(leaf);
    let is_flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
    if !is_flat || descriptor.path().parts().len() != 1 {
        return None;
    }
    let chunk = table.metadata().row_group(part.row_group).column(leaf);
    let codec = Codec::of(chunk.compression()).filter(|_| has_plain_or_codes(chunk))?;
    let stored = Stored::of(chunk.column_type(), &data_type)?;
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

fn has_plain_or_codes(chunk: &ColumnChunkMetaData) -> bool {
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
        let passed = column.left()?.min(rows);
        column.pass(passed);
        rows -= passed;
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

impl Stage {
    fn new(places: &BTreeSet<usize>, mut filters: Vec<Bound>, types: &[DataType]) -> Self {
        let places: Vec<_> = places.iter().copied().collect();
        filters.iter_mut().for_each(|filter| filter.renumber(&places));
        let is_by_value = places.len() == 1 && filters.iter().all(never_fails);
        let by_value = if is_by_value { ByValue::Unknown } else { ByValue::Never };
        let schema = schema_of(places.iter().map(|place| types[*place].clone()));
        Self { places, filters, schema, by_value }
    }

    /// Keeps the selected rows that the conditions are true of.
    fn select(
        &mut self,
        columns: &mut [Column],
        rows: usize,
        selection: &mut Selection,
    ) -> Result<(), QueryError> {
        for place in &self.places {
            columns[*place].read(rows)?;
        }
        if self.select_by_value(columns, selection)? {
            return Ok(());
        }
        let arrays = self.places.iter().map(|place| columns[*place].array(selection));
        let arrays = arrays.collect::<Result<_, _>>()?;
        let batch = batch_of(&self.schema, arrays, selection.len())?;
        selection.keep_where(&all_hold(&self.filters, &batch)?);
        Ok(())
    }

    /// Selects by what holds for the values of a dictionary, if the rows have codes of one.
    fn select_by_value(&mut self, columns: &[Column], selection: &mut Selection) -> Result<bool, QueryError> {
        let [place] = self.places.as_slice() else { return Ok(false) };
        if matches!(self.by_value, ByValue::Never) {
            return Ok(false);
        }
        let Some((values, codes)) = columns[*place].coded() else { return Ok(false) };
        if let ByValue::Unknown = self.by_value {
            self.by_value = ByValue::Known(self.holds_for(values())?);
        }
        if let ByValue::Known(holds) = &self.by_value {
            selection.keep_coded(codes, holds);
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
