//! Queries that are kept ready for small objects.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use bytes::Bytes;
use byway_compute::{Limits, NoResult, Query, RecentQueries};

use common::{CSV, file};

const SQL: &str = "SELECT count(*), max(x) FROM t WHERE x > 1";

/// A file of one column of numbers, whose footer does not depend on them.
fn numbers(name: &str, values: &[f64]) -> Bytes {
    let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    Bytes::from(plain(&RecordBatch::try_from_iter([(name, column)]).unwrap()))
}

/// A file without dictionaries and statistics.
fn plain(batch: &RecordBatch) -> Vec<u8> {
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn kept(sql: &str, object: &Bytes) -> RecentQueries {
    // Longer than a test may have no processor.
    let recent = RecentQueries::with_time_max(Duration::from_secs(60));
    keep(&recent, sql, object);
    recent
}

fn keep(recent: &RecentQueries, sql: &str, object: &Bytes) {
    recent.keep(sql, &Query::parse(sql, &Limits::default()).unwrap(), object);
}

/// A file whose footer is sound, and whose one page is not.
fn damaged() -> Bytes {
    let mut file = numbers("x", &[1.0, 2.0]).to_vec();
    file[4..40].fill(0xff);
    file.into()
}

/// How many of `runs` over a damaged value were attempts, with a full run over another value after each.
fn attempts(recent: &RecentQueries, runs: usize) -> usize {
    let run = |_: &usize| {
        let result = recent.run(SQL, &damaged(), CSV);
        keep(recent, SQL, &numbers("x", &[1.0, 2.0]));
        result == Err(NoResult::Aborted)
    };
    (0..runs).filter(run).count()
}

fn result(recent: &RecentQueries, sql: &str, object: &Bytes) -> Option<String> {
    recent.run(sql, object, CSV).ok().map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn query_is_ready_for_other_objects_of_the_same_form() {
    let recent = kept(SQL, &numbers("x", &[1.0, 2.0, 3.0]));
    for (values, expected) in [([5.0, 1.5, 0.0], "2,5.0\n"), ([0.0; 3], "0,\n"), ([7.0; 3], "3,7.0\n")] {
        assert_eq!(result(&recent, SQL, &numbers("x", &values)).as_deref(), Some(expected));
    }
}

#[test]
fn query_is_not_ready_for_objects_of_another_form() {
    let recent = kept(SQL, &numbers("x", &[1.0, 2.0]));
    assert_eq!(result(&recent, SQL, &numbers("x", &[1.0, 2.0, 3.0])), None);
    assert_eq!(result(&recent, SQL, &numbers("y", &[1.0, 2.0])), None);
    for object in [&b""[..], b"PAR1", b"\xff\xff\xff\xffPAR1", &[0; 4096]] {
        assert_eq!(result(&recent, SQL, &Bytes::from_static(object)), None);
    }
    assert_eq!(result(&recent, "SELECT count(*) FROM t", &numbers("x", &[1.0, 2.0])), None);
}

#[test]
fn query_on_an_object_of_many_rows_is_not_kept() {
    let many: ArrayRef = Arc::new(Int64Array::from(vec![1; 5000]));
    let object = Bytes::from(file(&RecordBatch::try_from_iter([("x", many)]).unwrap(), 5000));
    assert!(object.len() < 4096, "{}", object.len());
    assert_eq!(result(&kept(SQL, &object), SQL, &object), None);
}

#[test]
fn query_that_fails_each_time_is_not_tried_again_and_does_no_harm_to_others() {
    let other = "SELECT min(x) FROM t";
    let (sound, damaged) = (numbers("x", &[1.0, 2.0]), damaged());
    let recent = kept(SQL, &sound);
    keep(&recent, other, &sound);
    for _ in 0..3 {
        assert_eq!(result(&recent, SQL, &damaged), None);
        assert_eq!(result(&recent, SQL, &sound).as_deref(), Some("1,2.0\n"));
    }
    (0..4).for_each(|_| assert_eq!(result(&recent, SQL, &damaged), None));
    assert_eq!(result(&recent, SQL, &sound), None);
    assert_eq!(result(&recent, other, &sound).as_deref(), Some("1.0\n"));
}

#[test]
fn query_that_failed_is_tried_again_after_a_full_run() {
    let sound = numbers("x", &[1.0, 2.0]);
    let recent = kept(SQL, &sound);
    for _ in 0..3 {
        (0..4).for_each(|_| assert_eq!(recent.run(SQL, &damaged(), CSV), Err(NoResult::Aborted)));
        assert_eq!(recent.run(SQL, &sound, CSV), Err(NoResult::NotCached));
        keep(&recent, SQL, &sound);
        assert_eq!(result(&recent, SQL, &sound).as_deref(), Some("1,2.0\n"));
    }
}

#[test]
fn query_that_fails_each_time_is_tried_ever_more_rarely() {
    let recent = kept(SQL, &numbers("x", &[1.0, 2.0]));
    let first = attempts(&recent, 4);
    let (next, later) = (attempts(&recent, 2048), attempts(&recent, 4096));
    assert!(first == 4 && next <= 12 && (3..=4).contains(&later), "{first} {next} {later}");
}

#[test]
fn query_that_failed_does_not_keep_its_place() {
    let sound = numbers("x", &[1.0, 2.0]);
    let recent = kept(SQL, &sound);
    (0..4).for_each(|_| assert_eq!(recent.run(SQL, &damaged(), CSV), Err(NoResult::Aborted)));
    for number in 0..32 {
        assert_eq!(recent.run(SQL, &sound, CSV), Err(NoResult::NotCached));
        keep(&recent, &format!("SELECT max(x) + {number} FROM t"), &sound);
    }
    keep(&recent, SQL, &sound);
    assert_eq!(result(&recent, SQL, &sound).as_deref(), Some("1,2.0\n"));
    // Its failures are forgotten with it.
    assert_eq!(attempts(&recent, 4), 4);
}

#[test]
fn queries_used_last_are_kept() {
    let object = numbers("x", &[1.0, 2.0]);
    let sql = |number: usize| format!("SELECT max(x) + {number} FROM t");
    let recent = kept(&sql(0), &object);
    for number in 1..60 {
        keep(&recent, &sql(number), &object);
        assert_eq!(result(&recent, &sql(0), &object).as_deref(), Some("2.0\n"));
    }
    assert_eq!(result(&recent, &sql(1), &object), None);
    assert_eq!(result(&recent, &sql(59), &object).as_deref(), Some("61.0\n"));
}
