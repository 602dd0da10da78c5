//! Queries: SQL that a device executes over an object of its own.

use byway::spec::vendor::QueryFormat;
use byway::{SqlOptions, SqlResult};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::invalid;

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
