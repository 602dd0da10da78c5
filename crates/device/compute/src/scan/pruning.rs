//! Row groups that cannot hold a row of the result, by the least and greatest values that the file states.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::RowGroupMetaData;
use std::sync::Arc;

use super::readable_as;
use crate::evaluate;
use crate::plan::{Bound, Plan};
use crate::selectivity;
use crate::sql::CompareOp;

/// Row groups that may hold rows of the result, ascending.
pub(super) fn row_groups(plan: &Plan, metadata: &ArrowReaderMetadata) -> Vec<usize> {
    let groups = metadata.metadata().num_row_groups();
    let mut may_match = vec![true; groups];
    for filter in &plan.filters {
        if let Some(possible) = possible(filter, plan, metadata) {
            may_match.iter_mut().zip(&possible).for_each(|(may, possible)| *may &= possible.unwrap_or(true));
        }
    }
    (0..groups).filter(|group| may_match[*group]).collect()
}

/// For each row group, whether a row may fulfil `filter`; nothing where the filter compares no column with a constant.
fn possible(filter: &Bound, plan: &Plan, metadata: &ArrowReaderMetadata) -> Option<BooleanArray> {
    let (op, index, constant) = selectivity::compared(filter)?;
    let (least, greatest) = min_max(plan, index, metadata)?;
    if constant.as_f64().is_some_and(f64::is_nan) {
        return None;
    }
    let holds = |op: CompareOp, of: &ArrayRef| compared(op, of, &Bound::Constant(constant.clone()));
    match op {
        CompareOp::Less | CompareOp::LessOrEqual => holds(op, &least),
        // A file does not state NaNs, which are greater than all (Parquet format, `ColumnOrder`).
        CompareOp::Greater | CompareOp::GreaterOrEqual if is_float(&greatest) => None,
        CompareOp::Greater | CompareOp::GreaterOrEqual => holds(op, &greatest),
        CompareOp::Equal => {
            let low = holds(CompareOp::LessOrEqual, &least)?;
            let high = holds(CompareOp::GreaterOrEqual, &greatest)?;
            arrow_arith::boolean::and_kleene(&low, &high).ok()
        }
        CompareOp::NotEqual => None,
    }
}

fn is_float(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Float32 | DataType::Float64)
}

/// Least and greatest value of a column in each row group; NULL where the file states none.
pub(super) fn min_max(
    plan: &Plan,
    index: usize,
    metadata: &ArrowReaderMetadata,
) -> Option<(ArrayRef, ArrayRef)> {
    let name = metadata.schema().fields().get(*plan.columns.get(index)?)?.name();
    let converter = StatisticsConverter::try_new(name, metadata.schema(), metadata.parquet_schema()).ok()?;
    let groups = metadata.metadata().row_groups();
    let leaf = converter.parquet_column_index()?;
    let is_deprecated = |group: &RowGroupMetaData| {
        group.column(leaf).statistics().is_some_and(|statistics| statistics.is_min_max_deprecated())
    };
    // Old writers compared strings by signed bytes, and stated NaNs.
    if groups.iter().any(is_deprecated) {
        return None;
    }
    let read_as = plan.column_types.get(index)?;
    let least = readable_as(&converter.row_group_mins(groups).ok()?, read_as).ok()?;
    let greatest = readable_as(&converter.row_group_maxes(groups).ok()?, read_as).ok()?;
    Some((least, greatest))
}

fn compared(op: CompareOp, of: &ArrayRef, constant: &Bound) -> Option<BooleanArray> {
    let field = Field::new("bound", of.data_type().clone(), true);
    let options = RecordBatchOptions::new().with_row_count(Some(of.len()));
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new_with_options(schema, vec![Arc::clone(of)], &options).ok()?;
    let column = Bound::Column { index: 0, data_type: of.data_type().clone() };
    evaluate::condition(&Bound::Compare { op, operands: Box::new([column, constant.clone()]) }, &batch).ok()
}
