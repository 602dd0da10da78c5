//! Queries that are kept ready for small objects: one text on objects with one footer is parsed and bound once.

use std::sync::Arc;

use bytes::Bytes;
use parquet::file::metadata::RowGroupMetaData;

use crate::error::QueryError;
use crate::limits::{Cancellation, Limits, Watch};
use crate::output::Format;
use crate::plan::Plan;
use crate::run::{run_plan, without_panic};
use crate::scan::Table;
use crate::sql::Query;

/// A query, bound to objects that have one footer: the same columns of the same types in the same places.
///
/// ```
/// use bytes::Bytes;
/// use byway_compute::{Cancellation, Format, Limits, Query};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/data/laghos/test1.parquet");
/// let object = Bytes::from(std::fs::read(path)?);
/// let limits = Limits::default();
/// let query = Query::parse("SELECT max(x) FROM s3object", &limits)?;
/// let mut prepared = query.prepare(&object, &limits)?;
/// assert!(prepared.fits(&object));
/// let (mut result, cancellation) = (Vec::new(), Cancellation::default());
/// let format = Format::Csv { header: false };
/// prepared.run_into(&object, format, &limits, &cancellation, &mut |bytes| {
///     result.extend_from_slice(bytes);
///     true
/// })?;
/// assert_eq!(result, b"2.5625\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Prepared {
    footer: Bytes,
    table: Table,
    plan: Plan,
}

/// Most rows of an object that a query is kept ready for.
const ROWS_MAX: i64 = 4 << 10;

/// Most bytes of such an object's columns, without compression.
const COLUMNS_MAX_BYTES: i64 = 64 << 10;

/// Bytes behind a footer: its length, and the mark of the format (Parquet format, "File Format").
const TAIL_BYTES: usize = 8;

impl Query {
    /// Binds the query to objects with the footer of `object`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn prepare(&self, object: &Bytes, limits: &Limits) -> Result<Prepared, QueryError> {
        let watch = Arc::new(Watch::new(*limits, Cancellation::default()));
        without_panic(|| {
            let table = Table::open(Arc::new(object.clone()), watch)?;
            let plan = Plan::bind(self, table.columns())?;
            let table = table.prepared(&plan)?;
            let footer = footer(object).ok_or_else(|| QueryError::Damaged("it has no footer".to_owned()))?;
            Ok(Prepared { footer: Bytes::copy_from_slice(footer), table, plan })
        })
    }
}

impl Prepared {
    /// Whether it is for objects with the footer of `object`.
    #[must_use]
    pub fn fits(&self, object: &[u8]) -> bool {
        footer(object) == Some(&self.footer[..])
    }

    /// Whether its objects are small, as their footer says.
    #[must_use]
    pub fn is_of_small_objects(&self) -> bool {
        let groups = self.table.metadata().row_groups();
        let sum = |of: fn(&RowGroupMetaData) -> i64| groups.iter().map(of).fold(0, i64::saturating_add);
        sum(RowGroupMetaData::num_rows) <= ROWS_MAX
            && sum(RowGroupMetaData::total_byte_size) <= COLUMNS_MAX_BYTES
    }

    /// Runs the query on `object`, which it [fits](Self::fits), as [`Query::run_into`] does.
    ///
    /// # Errors
    /// As [`Query::run`]. A part of the result may have been given.
    pub fn run_into(
        &mut self,
        object: &Bytes,
        format: Format,
        limits: &Limits,
        cancellation: &Cancellation,
        give: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(u64, u64), QueryError> {
        let watch = Arc::new(Watch::new(*limits, cancellation.clone()));
        self.table.set_object(Arc::new(object.clone()), Arc::clone(&watch));
        let rows = without_panic(|| run_plan(&self.table, &self.plan, &watch, format, give));
        self.table.shrink();
        let rows = rows?;
        Ok((rows, watch.read_bytes()))
    }
}

/// The footer that an object ends with, with what stands behind it.
fn footer(object: &[u8]) -> Option<&[u8]> {
    let at = object.len().checked_sub(TAIL_BYTES)?;
    let length = u32::from_le_bytes(*object[at..].first_chunk()?);
    object.get(at.checked_sub(length as usize)?..)
}
