//! Results of queries. Those with values that could be disputed are what DuckDB 2.0 gives.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, RecordBatch};
use byway_compute::{Cancellation, Format, Limits, Object, Query};

use common::{csv, object, parts, run};

fn stock() -> Arc<dyn Object> {
    object(&parts(), 2)
}

fn check(sql: &str, expected: &str) {
    assert_eq!(csv(&stock(), sql), expected, "{sql}");
}

#[test]
fn select_without_conditions_gives_all_rows_in_order() {
    check("SELECT id, sold FROM s3object", "1,true\n2,false\n3,\n4,true\n5,false\n6,true");
    check("SELECT * FROM t LIMIT 1", "1,bolt,1.5,1.05,1998-12-01,true");
}

#[test]
fn names_are_found_with_and_without_case_qualifier_and_quotes() {
    check("SELECT ID FROM t WHERE T.iD = 2", "2");
    check("SELECT \"id\" FROM t AS u WHERE u.id = 2 AND t.id = 2", "2");
}

#[test]
fn comparisons_of_floats_take_zeroes_as_equal_and_nan_as_greatest() {
    check("SELECT id FROM t WHERE weight = 0", "2\n3");
    check("SELECT id FROM t WHERE weight < 0", "");
    check("SELECT id FROM t WHERE weight > 1.5", "5\n6");
    check("SELECT id FROM t WHERE weight >= 'nan'", "5");
    check("SELECT id FROM t WHERE weight = 'nan'", "5");
    check("SELECT id FROM t WHERE NOT weight <= 2.25", "5");
}

#[test]
fn average_of_decimals_is_rounded_once() {
    // 522 / 2300; 5.22 / 23 would end in 42.
    let prices: Decimal128Array = (0..23).map(|row| Some(i128::from(row == 0) * 522)).collect();
    let prices: ArrayRef = Arc::new(prices.with_precision_and_scale(15, 2).unwrap());
    let object = object(&RecordBatch::try_from_iter([("price", prices)]).unwrap(), 30);
    assert_eq!(csv(&object, "SELECT avg(price) FROM t"), "0.22695652173913045");
}

#[test]
fn conditions_with_null_select_only_what_is_true() {
    check("SELECT id FROM t WHERE sold OR weight > 2", "1\n4\n5\n6");
    check("SELECT id FROM t WHERE NOT sold", "2\n5");
    check("SELECT id FROM t WHERE sold IS NULL", "3");
    check("SELECT id FROM t WHERE name IS NOT NULL AND price IS NULL", "4");
    check("SELECT id FROM t WHERE NULL", "");
    check("SELECT id FROM t WHERE id IN (1, NULL)", "1");
    check("SELECT id FROM t WHERE id NOT IN (1, NULL)", "");
}

#[test]
fn between_and_in_take_numbers_strings_and_dates() {
    check("SELECT id FROM t WHERE price BETWEEN 1.05 AND 2.50", "1\n2\n3");
    check("SELECT id FROM t WHERE price NOT BETWEEN 1.05 AND 2.50", "5\n6");
    check("SELECT id FROM t WHERE id IN (6, 2.0, 3.5)", "2\n6");
    check("SELECT id FROM t WHERE name IN ('nut', 'screw')", "2\n6");
    check("SELECT id FROM t WHERE since IN ('1998-12-01', DATE '1970-01-01')", "1\n5");
}

#[test]
fn like_matches_patterns_with_escapes_and_without_case() {
    check("SELECT id FROM t WHERE name LIKE 'bolt%'", "1\n4");
    check("SELECT id FROM t WHERE name LIKE '_ut'", "2\n6");
    check("SELECT id FROM t WHERE name LIKE '%!%%' ESCAPE '!'", "5");
    check("SELECT id FROM t WHERE name NOT LIKE '%u%'", "1\n4\n5");
    check("SELECT id FROM t WHERE name ILIKE '% m6'", "4");
}

#[test]
fn backslashes_of_patterns_are_characters() {
    check("SELECT 'C:\\x' LIKE 'C:\\%', 'C:x' LIKE 'C:\\%' FROM t LIMIT 1", "true,false");
}

#[test]
fn repeated_keys_of_groups_and_orders_count_once() {
    check(
        "SELECT sold, count(*) FROM t GROUP BY sold, 1, sold ORDER BY 2 DESC, 2, sold, sold",
        "true,3\nfalse,2\n,1",
    );
}

#[test]
fn constants_keep_the_type_that_they_are_cast_to() {
    check("SELECT CAST(CAST(0.1 AS REAL) AS DOUBLE) FROM t LIMIT 1", "0.10000000149011612");
}

#[test]
fn threads_do_not_change_results() {
    use arrow_array::{Float64Array, Int32Array, RecordBatch};
    let rows = 1_200_000;
    let ids = Int32Array::from_iter_values(0..rows);
    let values = Float64Array::from_iter_values((0..rows).map(|row| 1.0 / f64::from(row + 1)));
    let batch =
        RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("value", Arc::new(values) as _)]).unwrap();
    let object = object(&batch, 1 << 20);
    for sql in [
        "SELECT id % 3 AS k, sum(value), avg(value), count(*), max(id) FROM t WHERE id > 1000 GROUP BY k",
        "SELECT sum(id), min(value) FROM t",
        "SELECT id FROM t WHERE id % 100000 = 7 ORDER BY id DESC LIMIT 5",
        "SELECT id FROM t WHERE id > 700000 LIMIT 3 OFFSET 2",
    ] {
        let with = |threads: usize| {
            let mut limits = Limits::default();
            limits.threads = threads.try_into().unwrap();
            common::run_within(&object, sql, &limits).unwrap().bytes
        };
        assert_eq!(with(1), with(2), "{sql}");
        assert_eq!(with(1), with(5), "{sql}");
    }
}

#[test]
fn instants_of_any_zone_are_read_in_utc() {
    use arrow_array::{RecordBatch, TimestampMicrosecondArray};
    let instants =
        TimestampMicrosecondArray::from(vec![Some(0), Some(1_000_000), None]).with_timezone("Europe/Berlin");
    let batch = RecordBatch::try_from_iter([("at", Arc::new(instants) as _)]).unwrap();
    let object = object(&batch, 10);
    assert_eq!(csv(&object, "SELECT count(*) FROM t WHERE at > '1970-01-01 00:00:00'"), "1");
    assert_eq!(csv(&object, "SELECT max(at) FROM t"), "1970-01-01T00:00:01Z");
}

#[test]
fn dates_move_by_intervals() {
    check("SELECT id FROM t WHERE since <= DATE '1998-12-01' - INTERVAL '90' DAY", "2\n5\n6");
    check("SELECT id FROM t WHERE since >= DATE '1998-09-02' + INTERVAL 1 DAY", "1\n3");
    check("SELECT id FROM t WHERE since < DATE '1970-02-01' - INTERVAL '1' MONTH", "6");
}

#[test]
fn arithmetic_is_exact_on_decimals_and_ieee_where_it_divides() {
    check("SELECT price * (1 - 0.5) FROM t WHERE id = 1", "0.525");
    check("SELECT id + 1, id - 10, id * 3, id % 4, -id FROM t WHERE id = 6", "7,-4,18,2,-6");
    check("SELECT 7 / 2, id / 4, 1.0 / 8 FROM t WHERE id = 6", "3.5,1.5,0.125");
    check("SELECT weight / 0 FROM t WHERE id IN (1, 3)", "inf\nNaN");
}

#[test]
fn casts_change_the_type_or_fail_the_query() {
    check("SELECT CAST(id AS DOUBLE), price::INTEGER FROM t WHERE id = 2", "2.0,3");
    check(
        "SELECT 2.50::INTEGER, -2.5::BIGINT, CAST(1.5 AS DOUBLE)::INTEGER, CAST(2.5 AS REAL)::BIGINT FROM t LIMIT 1",
        "3,-3,2,2",
    );
    check("SELECT CAST('12' AS BIGINT) + id FROM t WHERE id = 1", "13");
    let error = run(&stock(), "SELECT CAST(name AS INTEGER) FROM t").unwrap_err();
    assert!(error.to_string().contains("bolt"), "{error}");
}

#[test]
fn aggregates_without_groups_give_one_row() {
    check(
        "SELECT count(*), count(weight), min(name), max(since), sum(price), avg(id) FROM t",
        "6,5,100% cotton,1998-12-01,16.04,3.5",
    );
    check("SELECT count(*), sum(id), avg(weight), min(id) FROM t WHERE id > 100", "0,,,");
    check("SELECT max(weight), min(weight) FROM t WHERE weight >= 0", "NaN,-0.0");
    check("SELECT 2 * count(*) + 1 AS odd FROM t", "13");
}

#[test]
fn groups_come_in_the_order_of_their_first_rows() {
    check("SELECT name, count(*) FROM t GROUP BY name", "bolt,1\nnut,2\n,1\nbolt M6,1\n100% cotton,1");
    check("SELECT weight, count(*) FROM t GROUP BY 1", "1.5,1\n0.0,2\n,1\nNaN,1\n2.25,1");
    check("SELECT id % 2 AS odd, sum(id) FROM t GROUP BY odd", "1,9\n0,12");
    check(
        "SELECT sold, id > 3 AS late, count(*) FROM t GROUP BY sold, id > 3 LIMIT 2",
        "true,false,1\nfalse,false,1",
    );
}

#[test]
fn rows_are_ordered_by_names_ordinals_and_expressions() {
    check("SELECT id FROM t ORDER BY weight DESC, id DESC", "5\n6\n1\n3\n2\n4");
    check("SELECT id, name AS n FROM t ORDER BY n, 1 DESC LIMIT 3", "5,100% cotton\n1,bolt\n4,bolt M6");
    check("SELECT id FROM t ORDER BY price NULLS FIRST LIMIT 2 OFFSET 1", "6\n1");
    check("SELECT name FROM t GROUP BY name ORDER BY count(*) DESC, min(id) LIMIT 2", "nut\nbolt");
}

#[test]
fn limit_of_zero_and_offset_behind_the_end_give_nothing() {
    check("SELECT id FROM t LIMIT 0", "");
    check("SELECT id FROM t OFFSET 10", "");
    check("SELECT id FROM t ORDER BY id LIMIT 10 OFFSET 4", "5\n6");
}

#[test]
fn formats_carry_the_same_rows() {
    let query = Query::parse("SELECT id, name FROM t WHERE id IN (2, 3)", &Limits::default()).unwrap();
    let with =
        |format| query.run(&stock(), format, &Limits::default(), &Cancellation::default()).unwrap().bytes;
    assert_eq!(with(Format::Csv { header: true }), b"id,name\n2,nut\n3,\n");
    assert_eq!(with(Format::JsonLines), b"{\"id\":2,\"name\":\"nut\"}\n{\"id\":3,\"name\":null}\n");
    let stream = with(Format::ArrowStream);
    let batches: Vec<_> = arrow_ipc::reader::StreamReader::try_new(stream.as_slice(), None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(batches.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>(), 2);
    assert_eq!(batches[0].schema().field(1).name(), "name");
}

#[test]
fn empty_results_have_their_header() {
    let query = Query::parse("SELECT id FROM t WHERE id > 9", &Limits::default()).unwrap();
    let result = query
        .run(&stock(), Format::Csv { header: true }, &Limits::default(), &Cancellation::default())
        .unwrap();
    assert_eq!((result.bytes.as_slice(), result.rows), (b"id\n".as_slice(), 0));
}

#[test]
fn laghos_sample_gives_what_duckdb_gives() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/data/laghos/test4.parquet");
    let object: Arc<dyn Object> = Arc::new(bytes::Bytes::from(std::fs::read(path).unwrap()));
    let sql = "SELECT min(vertex_id) AS VID, min(x) as X, min(y) as Y, min(z) as Z, avg(e) AS E FROM s3object \
               WHERE x > 2.5 AND x < 2.6 AND y > 0.5 AND y < 0.6 AND z > 0.5 AND z < 0.6 \
               GROUP BY vertex_id ORDER BY E";
    let expected = "17000,2.5625,0.515625,0.515625,2.000000025\n\
                    10780,2.5625,0.515625,0.5625,2.0000000374999996\n\
                    3538,2.5625,0.5625,0.5625,2.0000000749999995\n\
                    10778,2.5625,0.5625,0.515625,2.000000075";
    assert_eq!(csv(&object, sql), expected);
}
