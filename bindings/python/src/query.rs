//! Queries: SQL that a device executes over an object of its own.

use std::sync::Arc;

use byway::spec::vendor::QueryFormat;
use byway::{Nsid, SqlOptions, SqlResult};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Fault, invalid};
use crate::held::{Held, Part, without_gil};
use crate::turnstile::Turnstile;

/// Queries of a namespace of blocks. They have a queue of their own, as a query waits for the device's threads.
pub struct BlockQueries {
    queue: Turnstile<BlockQueue>,
    nsid: Nsid,
    held: Arc<Held>,
}

/// The queue of [`BlockQueries`].
enum BlockQueue {
    /// The first query opens it.
    NotOpened,
    Open(byway::Nvm),
    Closed,
}

impl BlockQueries {
    /// Queries of namespace `nsid`.
    pub fn new(held: &Arc<Held>, nsid: Nsid) -> Arc<Self> {
        let queue = Turnstile::new(BlockQueue::NotOpened);
        let queries = Arc::new(Self { queue, nsid, held: Arc::clone(held) });
        held.adopt(&queries);
        queries
    }

    /// Whether its namespace is of the device that `held` holds.
    pub fn is_of(&self, held: &Arc<Held>) -> bool {
        Arc::ptr_eq(&self.held, held)
    }

    /// The whole result of a query over the `bytes` bytes from block `slba` on.
    pub fn execute(
        &self,
        py: Python<'_>,
        (slba, bytes): (u64, u64),
        sql: &str,
        options: SqlOptions,
    ) -> PyResult<Vec<u8>> {
        self.held.check_owner()?;
        let done = py.detach(|| -> Result<Vec<u8>, Fault> {
            let mut queue = self.queue.enter();
            if matches!(*queue, BlockQueue::NotOpened) {
                *queue = BlockQueue::Open(self.held.look(|device| device.nvm(Some(self.nsid)))?);
            }
            match &mut *queue {
                BlockQueue::Open(nvm) => Ok(whole(nvm.query(slba, bytes, sql, options)?)?),
                BlockQueue::NotOpened | BlockQueue::Closed => Err(Fault::Closed("device")),
            }
        });
        Ok(done?)
    }
}

impl Part for BlockQueries {
    fn close(&self) {
        *self.queue.enter() = BlockQueue::Closed;
    }
}

impl Drop for BlockQueries {
    fn drop(&mut self) {
        if self.held.is_here() {
            without_gil(|| self.close());
        }
    }
}

/// How a result is written.
pub fn options_of(format: &str, header: bool, explain: bool) -> PyResult<SqlOptions> {
    let format = match format {
        "csv" => QueryFormat::CSV,
        "jsonl" => QueryFormat::JSON_LINES,
        "arrow" => QueryFormat::ARROW_STREAM,
        other => return Err(invalid(format!("a result is csv, jsonl or arrow, not {other}"))),
    };
    Ok(SqlOptions::default().format(format).header(header).explain(explain))
}

/// The options of a result that becomes a table.
pub fn arrow() -> SqlOptions {
    SqlOptions::default().format(QueryFormat::ARROW_STREAM)
}

/// All of a result.
pub fn whole(mut result: SqlResult<'_>) -> byway::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(part) = result.next_part()? {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

/// A stream of Arrow IPC as a `pyarrow.Table`, whose columns lie in the stream's bytes.
pub fn table<'py>(py: Python<'py>, stream: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let buffer = py.import("pyarrow")?.call_method1("py_buffer", (PyBytes::new(py, stream),))?;
    py.import("pyarrow.ipc")?.call_method1("open_stream", (buffer,))?.call_method0("read_all")
}
