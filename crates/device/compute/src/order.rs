//! Rows in the order that a query asks for.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::SortOptions;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;

use crate::error::QueryError;
use crate::group::with_equal_bits;
use crate::plan::SortKey;

/// Rows that are sorted once all have come. With a limit, rows that cannot be among the first are dropped meanwhile.
pub(crate) struct Sorter {
    keys: Vec<SortKey>,
    /// Most rows that are needed.
    needed: Option<usize>,
    batches: Vec<RecordBatch>,
    rows: usize,
}

/// Rows that are kept beyond those needed before they are sorted out.
const SLACK_ROWS: usize = 64 << 10;

impl Sorter {
    pub fn new(keys: Vec<SortKey>, needed: Option<usize>) -> Self {
        Self { keys, needed, batches: Vec::new(), rows: 0 }
    }

    /// Adds rows.
    pub fn add(&mut self, batch: RecordBatch) -> Result<(), QueryError> {
        self.rows += batch.num_rows();
        self.batches.push(batch);
        if self.needed.is_some_and(|needed| self.rows > needed.saturating_mul(2).saturating_add(SLACK_ROWS)) {
            let first = self.sorted()?;
            self.rows = first.as_ref().map_or(0, RecordBatch::num_rows);
            self.batches = first.into_iter().collect();
        }
        Ok(())
    }

    /// Bytes of memory that its rows take.
    pub fn held_bytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The rows in order, as many as are needed.
    pub fn finish(mut self) -> Result<Option<RecordBatch>, QueryError> {
        self.sorted()
    }

    /// Takes the rows out, in order. Equal rows keep the order in which they came.
    fn sorted(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let batches = std::mem::take(&mut self.batches);
        let Some(first) = batches.first() else { return Ok(None) };
        let rows = concat_batches(&first.schema(), &batches)?;
        drop(batches);
        let mut columns: Vec<_> = self.keys.iter().map(|key| sort_column(&rows, key)).collect();
        let arrival = arrow_array::UInt64Array::from_iter_values(0..rows.num_rows() as u64);
        columns.push(SortColumn { values: Arc::new(arrival), options: None });
        let order = lexsort_to_indices(&columns, self.needed)?;
        Ok(Some(take_record_batch(&rows, &order as &dyn Array)?))
    }
}

fn sort_column(rows: &RecordBatch, key: &SortKey) -> SortColumn {
    let options = SortOptions { descending: key.is_descending, nulls_first: key.nulls_first };
    SortColumn { values: with_equal_bits(Arc::clone(rows.column(key.item))), options: Some(options) }
}
