//! How a plan reads the columns of an object: what is the same for each of its parts.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::super::reader::ObjectReader;
use super::column::Column;
use super::page::{Codec, PageReader};
use super::values::StoredType;
use crate::plan::{Bound, Plan};
use crate::sql::CompareOp;

/// How the columns of an object are read, and in which order its conditions are evaluated.
#[derive(Debug)]
pub(in super::super) struct DirectPlan {
    columns: Vec<ColumnPlan>,
    pub(super) stages: Vec<FilterStage>,
    /// Whether a column is part of the batches, and not only of conditions.
    pub(super) is_output: Vec<bool>,
    /// Schema of the output batches.
    pub(super) schema: SchemaRef,
}

/// How a column is read.
#[derive(Debug)]
struct ColumnPlan {
    /// Its index in a row group.
    leaf: usize,
    is_optional: bool,
    stored: StoredType,
    data_type: DataType,
}

/// Conditions on the same columns.
#[derive(Debug)]
pub(super) struct FilterStage {
    /// Indices of the columns, in the plan.
    pub columns_read: Vec<usize>,
    pub filters: Vec<Bound>,
    pub schema: SchemaRef,
    /// Whether the conditions may be evaluated once for each value of a dictionary.
    pub is_by_value: bool,
    /// The conditions, if all are comparisons of the one column with numbers.
    pub comparisons: Vec<Comparison>,
}

/// A comparison with a number that is no NaN.
#[derive(Debug, Clone, Copy)]
pub(super) enum Comparison {
    Real(CompareOp, f64),
    Integer(CompareOp, i64),
}

impl DirectPlan {
    /// How `plan` reads an object, with its conditions by the columns that they read, in the order of their evaluation. `None` where a
    /// column falls back to the `parquet` crate (unsupported type or encoding), or none is read.
    pub fn new(
        metadata: &ArrowReaderMetadata,
        plan: &Plan,
        filters: Vec<(BTreeSet<usize>, Vec<Bound>)>,
    ) -> Option<Self> {
        let columns = plan.columns.iter().zip(&plan.column_types);
        let columns: Vec<_> = columns
            .map(|(index, read_as)| ColumnPlan::new(metadata, *index, read_as))
            .collect::<Option<_>>()?;
        if columns.is_empty() {
            return None;
        }
        let stages = filters.into_iter().map(|(read, filters)| FilterStage::new(&read, filters, &columns));
        let read = plan.read_behind_filters();
        let is_output: Vec<_> = (0..columns.len()).map(|index| read.contains(&index)).collect();
        let output_type = |(column, is_output): (&ColumnPlan, &bool)| match is_output {
            true => column.data_type.clone(),
            false => DataType::Null,
        };
        let schema = schema_of(columns.iter().zip(&is_output).map(output_type));
        Some(Self { stages: stages.collect(), columns, is_output, schema })
    }

    /// The columns of a row group, from its first row on; `None` where one falls back to the `parquet` crate (unsupported type or encoding).
    /// `old` are columns of this plan that are not needed any more.
    pub(super) fn columns_of(
        &self,
        row_group: &RowGroupMetaData,
        reader: &ObjectReader,
        old: Option<Vec<Column>>,
    ) -> Option<Vec<Column>> {
        let chunk_of = |column: &ColumnPlan| row_group.column(column.leaf);
        let Some(mut columns) = old else {
            return self.columns.iter().map(|column| column.begin(chunk_of(column), reader)).collect();
        };
        for (column, plan) in columns.iter_mut().zip(&self.columns) {
            plan.restart(column, chunk_of(plan), reader)?;
        }
        Some(columns)
    }
}

impl ColumnPlan {
    /// Column `index` of the object, read as `read_as`; `None` where it falls back to the `parquet` crate (unsupported type or encoding).
    fn new(metadata: &ArrowReaderMetadata, index: usize, read_as: &DataType) -> Option<Self> {
        let data_type = decoded_as(metadata.schema().fields().get(index)?.data_type(), read_as)?;
        let schema = metadata.parquet_schema();
        let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == index)?;
        let descriptor = schema.column(leaf);
        let is_flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
        if !is_flat || descriptor.path().parts().len() != 1 {
            return None;
        }
        let stored = StoredType::of(descriptor.physical_type(), &data_type)?;
        Some(Self { leaf, is_optional: descriptor.max_def_level() == 1, stored, data_type })
    }

    fn begin(&self, chunk: &ColumnChunkMetaData, reader: &ObjectReader) -> Option<Column> {
        let (codec, bytes) = codec_and_range(chunk)?;
        let pages = PageReader::new(reader.clone(), codec, self.is_optional);
        Some(Column::new(pages, self.stored, self.data_type.clone(), bytes))
    }

    fn restart(&self, column: &mut Column, chunk: &ColumnChunkMetaData, reader: &ObjectReader) -> Option<()> {
        let (codec, bytes) = codec_and_range(chunk)?;
        column.restart(reader.clone(), codec, bytes);
        Some(())
    }
}

/// Codec and byte range of a column's pages; `None` where they fall back to the `parquet` crate (unsupported type or encoding).
fn codec_and_range(chunk: &ColumnChunkMetaData) -> Option<(Codec, Range<u64>)> {
    let codec = Codec::of(chunk.compression()).filter(|_| has_readable_encodings(chunk))?;
    let (start, bytes) = chunk.byte_range();
    Some((codec, start..start.checked_add(bytes)?))
}

impl FilterStage {
    fn new(columns_read: &BTreeSet<usize>, mut filters: Vec<Bound>, columns: &[ColumnPlan]) -> Self {
        let columns_read: Vec<_> = columns_read.iter().copied().collect();
        filters.iter_mut().for_each(|filter| filter.renumber(&columns_read));
        let is_by_value = columns_read.len() == 1 && filters.iter().all(never_fails);
        let schema = schema_of(columns_read.iter().map(|index| columns[*index].data_type.clone()));
        let comparisons = filters.iter().map(Comparison::of).collect::<Option<_>>().unwrap_or_default();
        let comparisons = if columns_read.len() == 1 { comparisons } else { Vec::new() };
        Self { columns_read, filters, schema, is_by_value, comparisons }
    }
}

impl Comparison {
    /// The condition as a comparison of a column with a number, if it is one.
    fn of(condition: &Bound) -> Option<Self> {
        let Bound::Compare { op, operands } = condition else { return None };
        let (op, constant) = match operands.as_ref() {
            [Bound::Column { .. }, Bound::Constant(constant)] => (*op, constant),
            [Bound::Constant(constant), Bound::Column { .. }] => (op.mirrored(), constant),
            _ => return None,
        };
        let value = Some(&constant.value).filter(|value| value.is_valid(0))?;
        match value.data_type() {
            DataType::Float64 => {
                let number = value.as_primitive::<Float64Type>().value(0);
                (!number.is_nan()).then_some(Self::Real(op, number))
            }
            DataType::Int64 => Some(Self::Integer(op, value.as_primitive::<Int64Type>().value(0))),
            _ => None,
        }
    }
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

/// A schema of columns of these types.
pub(super) fn schema_of(types: impl Iterator<Item = DataType>) -> SchemaRef {
    let fields = types.enumerate().map(|(at, data_type)| Field::new(at.to_string(), data_type, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
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
