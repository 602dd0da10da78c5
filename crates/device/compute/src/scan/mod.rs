//! Reading a Parquet object: which row groups, columns and rows of it a plan needs.

mod direct;
mod filters;
mod page_header;
mod pruning;
mod reader;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast_with_options;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::filter::filter_record_batch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowFilter, RowSelection, RowSelector,
};

pub(crate) use self::direct::Totals;
use self::direct::{ColumnPool, Direct, DirectPlan};
use self::filters::Stages;
use self::reader::ObjectReader;
use crate::error::QueryError;
use crate::evaluate;
use crate::limits::Watch;
use crate::object::Object;
use crate::plan::{Bound, Columns, Plan, STRICT, as_f64s};

/// Rows that are evaluated at a time: a column of them fits in the first-level cache.
const BATCH_ROWS: usize = 8192;

/// Most memory for columns that a table keeps between queries.
const POOL_MAX_BYTES: usize = 1 << 20;

/// Most parts of an object.
const PARTS_MAX: usize = 1 << 20;

/// A Parquet object whose footer was read.
#[derive(Debug)]
pub(crate) struct Table {
    reader: ObjectReader,
    metadata: ArrowReaderMetadata,
    columns: Columns,
    watch: Arc<Watch>,
    column_pool: ColumnPool,
    chosen: Chosen,
}

/// What a plan chooses by the footer alone.
#[derive(Debug, Default)]
struct Chosen {
    /// Row groups that may hold rows of the result.
    row_groups: Vec<usize>,
    /// How columns are read without the `parquet` crate; `None` where one falls back to it.
    direct: Option<DirectPlan>,
}

/// Consecutive rows of one row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub row_group: usize,
    /// Rows of the group before the first.
    pub skip: usize,
    pub rows: usize,
}

impl Table {
    /// Reads the footer of `object`.
    pub fn open(object: Arc<dyn Object>, watch: Arc<Watch>) -> Result<Self, QueryError> {
        let reader = ObjectReader::new(object, Arc::clone(&watch));
        let metadata =
            ArrowReaderMetadata::load(&reader, options()).map_err(|error| watch.cause_of(error))?;
        let columns = Columns::new(metadata.schema());
        let (column_pool, chosen) = (ColumnPool::default(), Chosen::default());
        Ok(Self { reader, metadata, columns, watch, column_pool, chosen })
    }

    /// Has it read `object`, whose footer is the same.
    pub fn set_object(&mut self, object: Arc<dyn Object>, watch: Arc<Watch>) {
        self.reader = ObjectReader::new(object, Arc::clone(&watch));
        self.watch = watch;
    }

    /// Frees memory that a longer object needed, before the table waits for the next.
    pub fn shrink(&mut self) {
        self.column_pool.shrink_to(POOL_MAX_BYTES);
    }

    /// The table for `plan`: with the columns that it reads as dictionaries, and what it chooses.
    pub fn prepared(mut self, plan: &Plan) -> Result<Self, QueryError> {
        let mut fields = self.metadata.schema().fields().to_vec();
        for (column, read_as) in plan.columns.iter().zip(&plan.column_types) {
            let field = fields[*column].as_ref();
            if let Some(hint) = decoded_as(field.data_type(), read_as) {
                fields[*column] = Arc::new(field.clone().with_data_type(hint));
            }
        }
        let options = options().with_schema(Arc::new(Schema::new(fields)));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(self.metadata.metadata()), options);
        self.metadata = metadata.map_err(|error| self.watch.cause_of(error))?;
        let filters = filters::ordered(plan, |index| self.min_max_of(plan, index));
        let direct = DirectPlan::new(&self.metadata, plan, filters);
        self.chosen = Chosen { row_groups: self.row_groups(plan), direct };
        Ok(self)
    }

    /// Its columns.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// What its footer says.
    pub fn metadata(&self) -> &parquet::file::metadata::ParquetMetaData {
        self.metadata.metadata()
    }

    /// Row groups that may hold rows of the result.
    pub fn row_groups(&self, plan: &Plan) -> Vec<usize> {
        pruning::row_groups(plan, &self.metadata)
    }

    /// Least and greatest value that the file states of column `index` of the plan, to estimate by.
    pub fn min_max_of(&self, plan: &Plan, index: usize) -> Option<(f64, f64)> {
        let (min, max) = pruning::min_max(plan, index, &self.metadata)?;
        let fold = |values: &ArrayRef, pick: fn(f64, f64) -> f64| {
            as_f64s(values)?.into_iter().flatten().reduce(pick)
        };
        Some((fold(&min, f64::min)?, fold(&max, f64::max)?))
    }

    /// The row groups that its plan chose, in parts of at most `rows` rows.
    ///
    /// # Errors
    /// A file that says that it has more rows than one could have.
    pub fn parts(&self, rows: usize) -> Result<Vec<Part>, QueryError> {
        let groups = &self.chosen.row_groups;
        let parts: usize =
            groups.iter().map(|group| self.rows_of(*group).div_ceil(rows)).fold(0, usize::saturating_add);
        if parts > PARTS_MAX {
            return Err(QueryError::Damaged(format!("it names more rows than {PARTS_MAX} parts of {rows}")));
        }
        let all_of = |row_group: usize| {
            let total = self.rows_of(row_group);
            (0..total).step_by(rows).map(move |skip| Part { row_group, skip, rows: rows.min(total - skip) })
        };
        Ok(groups.iter().copied().flat_map(all_of).collect())
    }

    /// Compressed bytes of column `column` in row group `row_group`.
    pub fn column_bytes(&self, row_group: usize, column: usize) -> u64 {
        let schema = self.metadata.parquet_schema();
        let chunks = self.metadata().row_group(row_group).columns().iter().enumerate();
        let of_column = chunks.filter(|(leaf, _)| schema.get_column_root_idx(*leaf) == column);
        of_column.map(|(_, chunk)| u64::try_from(chunk.compressed_size()).unwrap_or(0)).sum()
    }

    /// Gives each batch of rows of `part` that fulfil the plan's filters to `take`, with the plan's columns.
    pub fn scan(
        &self,
        plan: &Plan,
        part: Part,
        mut take: impl FnMut(RecordBatch) -> Result<ControlFlow<()>, QueryError>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let direct = self.chosen.direct.as_ref();
        if let Some(direct) = direct.and_then(|direct| Direct::new(self, direct, part)) {
            return direct.scan(part, take);
        }
        let stages = Stages::new(plan, |index| self.min_max_of(plan, index));
        for batch in self.batches(plan, part, stages.before)? {
            self.watch.check()?;
            let batch = batch.map_err(|error| self.watch.cause_of(error))?;
            let batch = filtered(&stages.after, as_read(&batch, &plan.column_types, &self.watch)?)?;
            if take(batch)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn batches(
        &self,
        plan: &Plan,
        part: Part,
        before: Vec<(BTreeSet<usize>, Vec<Bound>)>,
    ) -> Result<ParquetRecordBatchReader, QueryError> {
        let schema = self.metadata.parquet_schema();
        let predicates =
            before.into_iter().map(|(columns, filters)| self.predicate(plan, &columns, filters)).collect();
        let columns = ProjectionMask::roots(schema, plan.columns.iter().copied());
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.reader.of_pages(), self.metadata.clone())
                .with_batch_size(BATCH_ROWS)
                .with_row_groups(vec![part.row_group])
                .with_projection(columns)
                .with_row_filter(RowFilter::new(predicates));
        let builder = match part.is_all_of(self.rows_of(part.row_group)) {
            true => builder,
            false => builder.with_row_selection(RowSelection::from(vec![
                RowSelector::skip(part.skip),
                RowSelector::select(part.rows),
            ])),
        };
        builder.build().map_err(|error| self.watch.cause_of(error))
    }

    fn rows_of(&self, row_group: usize) -> usize {
        usize::try_from(self.metadata().row_group(row_group).num_rows()).unwrap_or(0)
    }

    /// The part of its rows that a plan's filters hold for, estimated.
    pub fn selectivity(&self, plan: &Plan) -> f64 {
        filters::selectivity(plan, |index| self.min_max_of(plan, index))
    }

    fn predicate(
        &self,
        plan: &Plan,
        columns: &BTreeSet<usize>,
        mut filters: Vec<Bound>,
    ) -> Box<dyn ArrowPredicate> {
        let columns: Vec<_> = columns.iter().copied().collect();
        filters.iter_mut().for_each(|filter| filter.renumber(&columns));
        let types: Vec<_> = columns.iter().map(|index| plan.column_types[*index].clone()).collect();
        let roots = columns.iter().map(|index| plan.columns[*index]);
        let watch = Arc::clone(&self.watch);
        let evaluate = move |batch: RecordBatch| {
            let selected = watch.check().and_then(|()| all_hold(&filters, &as_read(&batch, &types, &watch)?));
            selected.map_err(|error| ArrowError::from(watch.note_failure(error)))
        };
        Box::new(ArrowPredicateFn::new(
            ProjectionMask::roots(self.metadata.parquet_schema(), roots),
            evaluate,
        ))
    }
}

/// The type that the library decodes a column as, if that is not what the file says. Strings are views into pages at first: a
/// batch may repeat a long one more often than memory allows.
fn decoded_as(stored: &DataType, read_as: &DataType) -> Option<DataType> {
    match (stored, read_as) {
        (_, DataType::Dictionary(..)) => Some(read_as.clone()),
        (DataType::Utf8, _) => Some(DataType::Utf8View),
        (DataType::Binary, _) => Some(DataType::BinaryView),
        _ => None,
    }
}

/// The schema that Arrow leaves in a file is not needed, and one more thing to be wrong.
fn options() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

impl Part {
    fn is_all_of(&self, rows: usize) -> bool {
        self.skip == 0 && self.rows == rows
    }
}

/// The rows of `batch` for which all of `filters` are true.
fn filtered(filters: &[Bound], batch: RecordBatch) -> Result<RecordBatch, QueryError> {
    if filters.is_empty() {
        return Ok(batch);
    }
    let holds = all_hold(filters, &batch)?;
    if holds.true_count() == batch.num_rows() {
        return Ok(batch);
    }
    Ok(filter_record_batch(&batch, &holds)?)
}

/// Rows for which all of `filters` are true.
fn all_hold(filters: &[Bound], batch: &RecordBatch) -> Result<arrow_array::BooleanArray, QueryError> {
    let mut result = None;
    for filter in filters {
        let next = evaluate::condition(filter, batch)?;
        result = Some(match result {
            None => next,
            Some(so_far) => arrow_arith::boolean::and_kleene(&so_far, &next)?,
        });
    }
    Ok(result.unwrap_or_else(|| {
        arrow_array::BooleanArray::new(arrow_buffer::BooleanBuffer::new_set(batch.num_rows()), None)
    }))
}

/// A column as the type that it is read as.
fn readable_as(column: &ArrayRef, read_as: &DataType) -> Result<ArrayRef, ArrowError> {
    if column.data_type() == read_as {
        return Ok(Arc::clone(column));
    }
    cast_with_options(column, read_as, &STRICT)
}

fn as_read(batch: &RecordBatch, types: &[DataType], watch: &Watch) -> Result<RecordBatch, QueryError> {
    watch.check_memory(batch.columns().iter().map(viewed_bytes).sum())?;
    if batch.columns().iter().zip(types).all(|(column, read_as)| column.data_type() == read_as) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(types).map(|(column, read_as)| readable_as(column, read_as));
    let columns: Vec<_> = columns.collect::<Result<_, _>>()?;
    let fields = batch.schema_ref().fields().iter().zip(&columns);
    let fields: Vec<_> =
        fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

/// Bytes of strings that a column only views.
fn viewed_bytes(column: &ArrayRef) -> usize {
    let len_bytes = |view: &u128| *view as u32 as usize;
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().views().iter().map(len_bytes).sum(),
        DataType::BinaryView => column.as_binary_view().views().iter().map(len_bytes).sum(),
        _ => 0,
    }
}
