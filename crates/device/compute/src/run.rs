//! Running a query on an object.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema};

use crate::error::QueryError;
use crate::evaluate;
use crate::group::Groups;
use crate::limits::{Cancellation, Limits, Watch};
use crate::object::Object;
use crate::order::Sorter;
use crate::output::{Format, Output};
use crate::parallel::{in_order, parts_held};
use crate::plan::{AggregateCall, Grouping, Plan};
use crate::scan::{Part, Table, Totals};
use crate::sql::Query;

/// What a query gave.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryResult {
    /// The result in the format asked for.
    pub bytes: Vec<u8>,
    /// Its rows.
    pub rows: u64,
    /// Bytes that the query read of the object.
    pub read_bytes: u64,
}

/// Takes the next bytes of a result. False ends the query as a cancellation does.
pub(crate) type Give<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

impl Query {
    /// Runs the query on `object`, on this thread.
    ///
    /// # Errors
    /// [`QueryError`]: a query that does not fit the object, a damaged object, a limit, a cancellation.
    pub fn run(
        &self,
        object: &Arc<dyn Object>,
        format: Format,
        limits: &Limits,
        cancellation: &Cancellation,
    ) -> Result<QueryResult, QueryError> {
        let mut bytes = Vec::new();
        let mut keep = |more: &[u8]| {
            bytes.extend_from_slice(more);
            true
        };
        let (rows, read_bytes) = self.run_into(object, format, limits, cancellation, &mut keep)?;
        Ok(QueryResult { bytes, rows, read_bytes })
    }

    /// The same, with the result given to `give` as it is made: in order, in pieces of any length. `give` returns whether it wants more.
    /// Returns the rows of the result and the bytes read of the object.
    ///
    /// # Errors
    /// As [`run`](Self::run). A part of the result may have been given.
    pub fn run_into(
        &self,
        object: &Arc<dyn Object>,
        format: Format,
        limits: &Limits,
        cancellation: &Cancellation,
        give: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(u64, u64), QueryError> {
        let watch = Arc::new(Watch::new(*limits, cancellation.clone()));
        let rows = without_panic(|| self.run_watched(object, format, &watch, give))?;
        Ok((rows, watch.read_bytes()))
    }

    /// Rows of the result.
    fn run_watched(
        &self,
        object: &Arc<dyn Object>,
        format: Format,
        watch: &Arc<Watch>,
        give: Give<'_>,
    ) -> Result<u64, QueryError> {
        let table = Table::open(Arc::clone(object), Arc::clone(watch))?;
        let plan = Plan::bind(self, table.columns())?;
        let table = table.prepared(&plan)?;
        run_plan(&table, &plan, watch, format, give)
    }
}

/// Runs a plan on its object. Rows of the result.
pub(crate) fn run_plan(
    table: &Table,
    plan: &Plan,
    watch: &Watch,
    format: Format,
    give: Give<'_>,
) -> Result<u64, QueryError> {
    let mut rows = RowsOut::new(plan, watch, format, give)?;
    let scan = Scan { table, plan, watch };
    match &plan.grouping {
        None => scan.rows(&mut rows)?,
        Some(grouping) => {
            let batch = match scan.totals(grouping)? {
                Some(totals) => totals.into_batch()?,
                None => scan.groups(grouping)?.into_batch()?,
            };
            let _ = rows.add(&batch, watch)?;
        }
    }
    rows.finish()
}

/// The result of `work`, a failure where it panics: the Parquet library asserts what a damaged file may not fulfil.
pub(crate) fn without_panic<T>(work: impl FnOnce() -> Result<T, QueryError>) -> Result<T, QueryError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(QueryError::Damaged("its pages contradict each other".to_owned())))
}

/// Rows of a part that a thread scans on its own.
const PART_ROWS: usize = 1 << 19;

/// Row groups for each thread that are enough to keep all threads at work nearly to the end.
const GROUPS_A_THREAD: usize = 3;

/// A plan on its object.
struct Scan<'a> {
    table: &'a Table,
    plan: &'a Plan,
    watch: &'a Watch,
}

impl Scan<'_> {
    fn is_alone(&self) -> bool {
        self.watch.limits.threads.get() == 1
    }

    fn parts(&self) -> Result<Vec<Part>, QueryError> {
        self.table.parts(if self.is_alone() { usize::MAX } else { PART_ROWS })
    }

    /// Parts whose rows nothing holds: whole row groups, if there are enough of them for all threads. A part that begins inside of a row
    /// group costs the pages before it, and reads the dictionaries again.
    fn parts_not_held(&self) -> Result<Vec<Part>, QueryError> {
        let groups = self.table.parts(usize::MAX)?;
        let enough = self.watch.limits.threads.get().saturating_mul(GROUPS_A_THREAD);
        if groups.len() >= enough { Ok(groups) } else { self.parts() }
    }

    /// Gives the rows of all parts to `rows`.
    fn rows(&self, rows: &mut RowsOut<'_, '_>) -> Result<(), QueryError> {
        let parts = self.parts()?;
        if self.is_alone() || parts.len() < 2 {
            for part in parts {
                if self.table.scan(self.plan, part, |batch| rows.add(&batch, self.watch))?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        self.batches(&parts, |batch| rows.add(&batch, self.watch))
    }

    /// The aggregates of all rows; `None` where there are groups, or they need what only [`groups`](Self::groups) does.
    fn totals(&self, grouping: &Grouping) -> Result<Option<Totals>, QueryError> {
        let parts = self.parts()?;
        let Some(mut totals) = Totals::new(grouping).filter(|_| self.is_alone() || parts.len() < 2) else {
            return Ok(None);
        };
        for part in parts {
            if !totals.add(self.table, part)? {
                return Ok(None);
            }
        }
        Ok(Some(totals))
    }

    /// The groups of all parts.
    fn groups(&self, grouping: &Arc<Grouping>) -> Result<Groups, QueryError> {
        let is_ordered = grouping.calls.iter().any(AggregateCall::depends_on_order);
        let parts = if is_ordered { self.parts()? } else { self.parts_not_held()? };
        let mut groups = Groups::new(Arc::clone(grouping))?;
        if self.is_alone() || parts.len() < 2 {
            for part in parts {
                let _ = self.table.scan(self.plan, part, |batch| self.add_to(&mut groups, &batch))?;
            }
            return Ok(groups);
        }
        if is_ordered {
            self.batches(&parts, |batch| self.add_to(&mut groups, &batch))?;
            return Ok(groups);
        }
        let scan = |part: usize| {
            let mut groups = Groups::new(Arc::clone(grouping))?;
            let _ = self.table.scan(self.plan, parts[part], |batch| self.add_to(&mut groups, &batch))?;
            Ok(groups)
        };
        in_order(parts.len(), self.watch.limits.threads, scan, |part| {
            groups.merge(part)?;
            self.watch.check_memory(groups.held_bytes())?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(groups)
    }

    fn add_to(&self, groups: &mut Groups, batch: &RecordBatch) -> Result<ControlFlow<()>, QueryError> {
        groups.add(batch)?;
        self.watch.check_memory(groups.held_bytes())?;
        Ok(ControlFlow::Continue(()))
    }

    /// Gives the rows of `parts` that fulfil the filters to `take`, in order. Threads hold those of a few parts.
    fn batches(
        &self,
        parts: &[Part],
        mut take: impl FnMut(RecordBatch) -> Result<ControlFlow<()>, QueryError>,
    ) -> Result<(), QueryError> {
        let scan = |part: usize| {
            let (mut batches, mut held_bytes) = (Vec::new(), 0);
            let _ = self.table.scan(self.plan, parts[part], |batch| {
                held_bytes += batch.get_array_memory_size();
                self.watch.check_memory(held_bytes.saturating_mul(parts_held(self.watch.limits.threads)))?;
                batches.push(batch);
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(batches)
        };
        in_order(parts.len(), self.watch.limits.threads, scan, |batches| {
            for batch in batches {
                if take(batch)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}

/// Rows on their way to the result: items, order, limit, format.
struct RowsOut<'p, 'g> {
    plan: &'p Plan,
    watch: &'p Watch,
    give: Give<'g>,
    sorter: Option<Sorter>,
    output: Output,
    skip: usize,
    left: usize,
    written: u64,
}

impl<'p, 'g> RowsOut<'p, 'g> {
    fn new(plan: &'p Plan, watch: &'p Watch, format: Format, give: Give<'g>) -> Result<Self, QueryError> {
        let sorter = (!plan.order.is_empty()).then(|| Sorter::new(plan.order.clone(), plan.rows_needed()));
        let output = Output::new(format, &plan.schema, watch.limits.result_bytes)?;
        let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let (skip, left) = (rows(plan.offset), plan.limit.map_or(usize::MAX, rows));
        Ok(Self { plan, watch, give, sorter, output, skip, left, written: 0 })
    }

    /// Adds rows that the items are made of. Breaks once no more are needed.
    fn add(&mut self, batch: &RecordBatch, watch: &Watch) -> Result<ControlFlow<()>, QueryError> {
        let items = items(self.plan, batch)?;
        match &mut self.sorter {
            Some(sorter) => {
                sorter.add(batch_of(items, batch.num_rows())?)?;
                watch.check_memory(sorter.held_bytes())?;
                Ok(ControlFlow::Continue(()))
            }
            None => self.write(items, batch.num_rows()),
        }
    }

    /// Writes rows in their order, without those that are skipped or over the limit.
    fn write(&mut self, mut items: Vec<ArrayRef>, rows: usize) -> Result<ControlFlow<()>, QueryError> {
        let skipped = self.skip.min(rows);
        self.skip -= skipped;
        let given = (rows - skipped).min(self.left);
        self.left -= given;
        if given > 0 {
            items.truncate(self.plan.width());
            let items = RecordBatch::try_new(Arc::clone(&self.plan.schema), items)?;
            self.write_pieces(&slice(&items, skipped, given))?;
            self.written += given as u64;
        }
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Writes rows a few at a time, and hands each piece over before the next is made.
    fn write_pieces(&mut self, rows: &RecordBatch) -> Result<(), QueryError> {
        let mut at = 0;
        while at < rows.num_rows() {
            let piece = slice(rows, at, self.output.rows_at_once().min(rows.num_rows() - at));
            self.output.write(&piece)?;
            at += piece.num_rows();
            let bytes = self.output.take_bytes();
            self.hand_over(&bytes)?;
        }
        Ok(())
    }

    fn hand_over(&mut self, bytes: &[u8]) -> Result<(), QueryError> {
        let wants_more = bytes.is_empty() || self.watch.while_given(|| (self.give)(bytes));
        if wants_more { Ok(()) } else { Err(QueryError::Cancelled) }
    }

    fn finish(mut self) -> Result<u64, QueryError> {
        if let Some(rows) = self.sorter.take().map(Sorter::finish).transpose()?.flatten() {
            let _ = self.write(rows.columns().to_vec(), rows.num_rows())?;
        }
        let bytes = self.output.end()?;
        self.hand_over(&bytes)?;
        Ok(self.written)
    }
}

/// The items of each row of `batch`, hidden ones behind the others.
fn items(plan: &Plan, batch: &RecordBatch) -> Result<Vec<ArrayRef>, QueryError> {
    let rows = batch.num_rows();
    plan.items.iter().map(|item| Ok(evaluate::value(item, batch)?.into_rows(rows)?)).collect()
}

/// Columns without names, as a batch.
fn batch_of(columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, QueryError> {
    let field =
        |(at, column): (usize, &ArrayRef)| Field::new(at.to_string(), column.data_type().clone(), true);
    let fields: Vec<_> = columns.iter().enumerate().map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

/// Rows of a batch; all of them without work.
fn slice(batch: &RecordBatch, at: usize, rows: usize) -> RecordBatch {
    if rows == batch.num_rows() { batch.clone() } else { batch.slice(at, rows) }
}
