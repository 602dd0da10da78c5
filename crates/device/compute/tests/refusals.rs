//! What is refused, with the token that the query stumbled on, and what ends a query.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use byway_compute::{Cancellation, Format, Limit, Limits, Object, ObjectError, Query, QueryError, Refusal};

use common::{file, object, parts, run, run_within};

fn refusal(sql: &str) -> Refusal {
    match run(&object(&parts(), 2), sql) {
        Err(QueryError::Refused(refusal)) => refusal,
        other => panic!("{sql}: {other:?}"),
    }
}

fn check(sql: &str, token: &str, column: u64) {
    let refusal = refusal(sql);
    assert_eq!(
        (refusal.token.as_str(), refusal.line, refusal.column),
        (token, 1, column),
        "{sql}: {}",
        refusal.why
    );
}

#[test]
fn clauses_that_are_not_taken_are_named() {
    check("SELECT id FROM t HAVING id > 1", "HAVING", 18);
    check("SELECT DISTINCT id FROM t", "DISTINCT", 8);
    check("SELECT id FROM t JOIN u ON t.id = u.id", "JOIN", 18);
    check("SELECT id FROM t UNION SELECT id FROM u", "UNION", 18);
    check("WITH u AS (SELECT 1) SELECT id FROM u", "WITH", 1);
    check("SELECT sum(id) OVER () FROM t", "OVER", 16);
    check("SELECT id FROM t, u", "u", 19);
    check("DELETE FROM t", "DELETE", 1);
    check("SELECT 1; SELECT 2", "SELECT", 1);
}

#[test]
fn expressions_that_are_not_taken_are_named() {
    check("SELECT sqrt(id) FROM t", "sqrt", 8);
    check("SELECT id FROM t WHERE id IN (SELECT 1)", "id", 24);
    check("SELECT CASE WHEN sold THEN 1 END FROM t", "CASE", 8);
    check("SELECT id FROM t WHERE name || 'x' = 'y'", "||", 29);
    check("SELECT count(DISTINCT id) FROM t", "DISTINCT", 14);
    check("SELECT max(min(id)) FROM t", "min", 12);
    check("SELECT id FROM t WHERE count(*) > 1", "count", 24);
    check("SELECT id, count(*) FROM t", "id", 8);
    check("SELECT * FROM t GROUP BY id", "*", 8);
}

#[test]
fn names_and_types_that_do_not_fit_are_named() {
    check("SELECT wait FROM t", "wait", 8);
    check("SELECT id FROM t WHERE name > 5", "5", 31);
    check("SELECT id FROM t WHERE id", "id", 24);
    check("SELECT name + 1 FROM t", "1", 15);
    check("SELECT sum(name) FROM t", "sum", 8);
    check("SELECT id FROM t WHERE since > 'soon'", "'soon'", 32);
    check("SELECT DATE 'soon' FROM t", "'soon'", 13);
    check("SELECT id FROM t ORDER BY 2", "2", 27);
    check("SELECT id FROM t GROUP BY 0", "0", 27);
    check("SELECT CAST(sold AS DATE) FROM t", "sold", 13);
}

#[test]
fn syntax_errors_are_named_with_line_and_column() {
    let refusal = refusal("SELECT id\nFROM t\nWHERE (id > 1");
    assert_eq!((refusal.token.as_str(), refusal.line), ("end of the query", 3));
    check("SELECT FROM t", "FROM", 8);
    check("SELECT 'open FROM t", "'open", 8);
    check("", "end of the query", 1);
    check("SELECT id FROM t LIMIT many", "many", 24);
    check("SELECT id FROM t LIMIT 99999999999999999999", "99999999999999999999", 24);
}

#[test]
fn constant_that_has_no_value_is_refused() {
    check("SELECT 9223372036854775807 + 1 FROM t", "9223372036854775807", 8);
    check("SELECT 5 % 0 FROM t", "5", 8);
}

#[test]
fn long_text_is_refused_before_it_is_read() {
    let sql = format!("SELECT id FROM t WHERE name = '{}'", "x".repeat(1 << 20));
    let refusal = refusal(&sql);
    assert!(refusal.why.contains("65536"), "{}", refusal.why);
    let many = format!("SELECT {} FROM t", vec!["1"; 10_000].join("+"));
    assert!(self::refusal(&many).why.contains("2048 tokens"));
}

#[test]
fn deep_nesting_is_refused_and_long_chains_are_not() {
    let deep = format!("SELECT {}id{} FROM t", "(".repeat(500), ")".repeat(500));
    assert!(refusal(&deep).why.contains("nested deeper"));
    let deep = format!("SELECT {} id FROM t", "- ".repeat(500));
    assert!(refusal(&deep).why.contains("nested deeper"));
    let chain = format!("SELECT id FROM t WHERE {}", vec!["id = 1"; 500].join(" OR "));
    assert_eq!(common::csv(&object(&parts(), 2), &chain), "1");
    let sum = format!("SELECT {} FROM t", vec!["id"; 900].join("+"));
    assert!(refusal(&sum).why.contains("nested deeper"));
}

#[test]
fn conditions_that_would_double_with_each_level_are_refused() {
    let nested = format!("SELECT id FROM t WHERE id{}", " BETWEEN 0 AND 1".repeat(60));
    assert!(refusal(&nested).why.contains("compare no conditions"));
    let nested = format!("SELECT id FROM t WHERE id{}", " IN (true, false)".repeat(60));
    assert!(refusal(&nested).why.contains("compare no conditions"));
}

#[test]
fn names_of_other_objects_and_long_strings_are_refused() {
    check("SELECT u.id FROM t", "u", 8);
    check("SELECT id FROM t AS u(b, a)", "t", 16);
    let long = format!("SELECT '{}' FROM t", "x".repeat(5000));
    assert!(refusal(&long).why.contains("4096 bytes"));
}

#[test]
fn value_without_a_result_ends_the_query() {
    let object = object(&parts(), 2);
    let error = run(&object, "SELECT 10 % (id - 3) FROM t").unwrap_err();
    assert!(matches!(&error, QueryError::Value(_)), "{error}");
    let error = run(&object, "SELECT 9223372036854775807 + id FROM t").unwrap_err();
    assert!(matches!(&error, QueryError::Value(_)), "{error}");
}

#[test]
fn results_memory_and_time_are_bounded() {
    let object = object(&parts(), 2);
    let with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let small = run_within(&object, "SELECT * FROM t", &with(|limits| limits.result_bytes = 20));
    assert!(matches!(small, Err(QueryError::Over(Limit::Result { limit_bytes: 20 }))), "{small:?}");
    let poor = run_within(&object, "SELECT * FROM t", &with(|limits| limits.memory_bytes = 16));
    assert!(matches!(poor, Err(QueryError::Over(Limit::Memory { .. }))), "{poor:?}");
    let hasty = run_within(&object, "SELECT * FROM t", &with(|limits| limits.time = Duration::ZERO));
    assert!(matches!(hasty, Err(QueryError::Over(Limit::Time(_)))), "{hasty:?}");
}

#[test]
fn long_string_that_a_batch_repeats_is_over_the_memory_limit() {
    use arrow_array::{RecordBatch, StringArray};
    let text = StringArray::from(vec!["x".repeat(100_000); 8192]);
    let batch = RecordBatch::try_from_iter([("text", Arc::new(text) as _)]).unwrap();
    let object = object(&batch, 8192);
    assert!(object.len_bytes() < 1 << 20, "one string in a dictionary: {}", object.len_bytes());
    let ended = run(&object, "SELECT max(text) FROM t WHERE text LIKE 'x%'");
    assert!(matches!(ended, Err(QueryError::Over(Limit::Memory { .. }))), "{ended:?}");
    assert_eq!(common::csv(&object, "SELECT count(*) FROM t GROUP BY text"), "8192");
}

#[test]
fn cancelled_query_ends() {
    let limits = Limits::default();
    let cancellation = Cancellation::default();
    cancellation.cancel();
    let query = Query::parse("SELECT id FROM t", &limits).unwrap();
    let ended = query.run(&object(&parts(), 2), Format::JsonLines, &limits, &cancellation);
    assert!(matches!(ended, Err(QueryError::Cancelled)), "{ended:?}");
}

/// An object that is overwritten after some reads.
#[derive(Debug)]
struct Overwritten {
    bytes: Bytes,
    reads_left: std::sync::atomic::AtomicU32,
}

impl Object for Overwritten {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, start: u64, len_bytes: usize) -> Result<Bytes, ObjectError> {
        let left = self.reads_left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        if left == 0 { Err(ObjectError::Changed) } else { self.bytes.read(start, len_bytes) }
    }
}

#[test]
fn object_that_changes_at_any_read_ends_the_query_with_that_cause() {
    let bytes = Bytes::from(file(&parts(), 2));
    let mut changed = 0;
    for reads in 0..100 {
        let object: Arc<dyn Object> =
            Arc::new(Overwritten { bytes: bytes.clone(), reads_left: reads.into() });
        match run(&object, "SELECT name, sum(price) FROM t WHERE id > 1 GROUP BY name") {
            Err(QueryError::Object(ObjectError::Changed)) => changed += 1,
            Ok(_) => break,
            other => panic!("after {reads} reads: {other:?}"),
        }
    }
    assert!(changed > 5, "{changed}");
}

#[test]
fn what_is_no_parquet_file_is_damaged() {
    for bytes in
        [&b""[..], b"PAR1", b"PAR1PAR1", &[0; 1000], b"PAR1\xff\xff\xff\x7fPAR1", b"PAR1\xff\xff\xff\xffPAR1"]
    {
        let object: Arc<dyn Object> = Arc::new(Bytes::copy_from_slice(bytes));
        let error = run(&object, "SELECT * FROM t").unwrap_err();
        assert!(matches!(error, QueryError::Damaged(_) | QueryError::Over(_)), "{error}");
    }
}

#[test]
fn damaged_bytes_anywhere_end_in_an_error_or_a_result_and_never_in_a_panic() {
    let whole = file(&parts(), 2);
    let queries = [
        "SELECT name, weight, sum(price), count(*) FROM t WHERE sold OR since < '1999-01-01' GROUP BY 1, 2 ORDER BY 3",
        "SELECT name, sum(price * weight), min(id) FROM t WHERE since < '1999-01-01' AND id BETWEEN 1 AND 5 GROUP BY 1",
    ];
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let object: Arc<dyn Object> = Arc::new(Bytes::from(bytes));
            queries.iter().for_each(|sql| drop(run(&object, sql)));
        }
        let cut: Arc<dyn Object> = Arc::new(Bytes::copy_from_slice(&whole[..at]));
        assert!(queries.iter().all(|sql| run(&cut, sql).is_err()), "cut at {at}");
    }
}

#[test]
fn explanation_counts_what_is_read_and_moved() {
    let object = object(&parts(), 2);
    let explain = |sql: &str| {
        Query::parse(sql, &Limits::default()).unwrap().explain(&object, &Limits::default()).unwrap()
    };
    let few = explain("SELECT count(*) FROM t WHERE id < 3");
    assert_eq!((few.row_groups, few.row_groups_read, few.rows_read, few.rows_result), (3, 1, 2, 1));
    assert_eq!(few.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["id"]);
    assert_eq!(few.device_reads_bytes, few.host_reads_bytes);
    let all = explain("SELECT * FROM t");
    assert_eq!(all.row_groups_read, 3);
    assert!(all.host_reads_bytes > few.host_reads_bytes);
    assert!(all.to_string().contains("row groups       3 of 3 read, 6 rows"), "{all}");
}
