//! Parquet objects in memory, and queries on them.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringArray,
};
use bytes::Bytes;
use byway_compute::{Cancellation, Format, Limits, Object, Query, QueryError, QueryResult, RecentQueries};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

/// CSV without a header.
pub const CSV: Format = Format::Csv { header: false };

/// A Parquet file of `batch` with row groups of `group_rows` rows.
pub fn object(batch: &RecordBatch, group_rows: usize) -> Arc<dyn Object> {
    Arc::new(Bytes::from(file(batch, group_rows)))
}

/// Bytes of such a file.
pub fn file(batch: &RecordBatch, group_rows: usize) -> Vec<u8> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Six parts of a stock, with a NULL or a special value in most columns.
pub fn parts() -> RecordBatch {
    let date = |day: i32| Some(day);
    let columns: [(&str, ArrayRef); 6] = [
        ("id", Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]))),
        (
            "name",
            Arc::new(StringArray::from(vec![
                Some("bolt"),
                Some("nut"),
                None,
                Some("bolt M6"),
                Some("100% cotton"),
                Some("nut"),
            ])),
        ),
        (
            "weight",
            Arc::new(Float64Array::from(vec![
                Some(1.5),
                Some(-0.0),
                Some(0.0),
                None,
                Some(f64::NAN),
                Some(2.25),
            ])),
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from(vec![Some(1_05), Some(2_50), Some(2_50), None, Some(10_00), Some(-1)])
                    .with_precision_and_scale(15, 2)
                    .unwrap(),
            ),
        ),
        // 1998-12-01 is day 10561.
        (
            "since",
            Arc::new(Date32Array::from(vec![
                date(10_561),
                date(10_471),
                date(10_472),
                None,
                date(0),
                date(-1),
            ])),
        ),
        (
            "sold",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                Some(false),
                None,
                Some(true),
                Some(false),
                Some(true),
            ])),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Runs `sql` on `object` with the limits that a device has by default.
pub fn run(object: &Arc<dyn Object>, sql: &str) -> Result<QueryResult, QueryError> {
    run_within(object, sql, &Limits::default())
}

/// The same within other limits.
pub fn run_within(object: &Arc<dyn Object>, sql: &str, limits: &Limits) -> Result<QueryResult, QueryError> {
    let query = Query::parse(sql, limits)?;
    let result = query.run(object, CSV, limits, &Cancellation::default())?;
    check_again(object, sql, &query, &result.bytes);
    Ok(result)
}

/// Results are the same where a query is kept ready.
fn check_again(object: &Arc<dyn Object>, sql: &str, query: &Query, expected: &[u8]) {
    let Ok(object) = object.read(0, object.len_bytes() as usize) else { return };
    let recent = RecentQueries::default();
    recent.keep(sql, query, &object);
    for _ in 0..3 {
        if let Ok(result) = recent.run(sql, &object, CSV) {
            assert_eq!(result, expected, "{sql}");
        }
    }
}

/// The result as CSV without its last line's end.
pub fn csv(object: &Arc<dyn Object>, sql: &str) -> String {
    let result = run(object, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    String::from_utf8(result.bytes).unwrap().trim_end().to_owned()
}
