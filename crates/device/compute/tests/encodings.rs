//! The same rows however they are written: by every codec, version of pages, with dictionaries and without, with NULLs and without,
//! in pages that end at other rows in each column.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use bytes::Bytes;
use byway_compute::Object;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::ColumnPath;
use proptest::prelude::*;

use common::run;

const ROWS: i64 = 9000;

/// A number of each row, without a pattern that the rows have.
fn noise(row: i64, salt: i64) -> i64 {
    (row * 2_654_435_761 + salt * 40_503).wrapping_mul(0x9e37_79b9) >> 16 & 0xffff
}

/// Values of a row, NULL for one in `null_in` of them where that is not zero.
fn column<V>(null_in: i64, salt: i64, value: impl Fn(i64) -> V) -> impl Iterator<Item = Option<V>> {
    (0..ROWS).map(move |row| {
        let is_null = null_in != 0 && noise(row, salt + 100) % null_in == 0;
        (!is_null).then(|| value(noise(row, salt)))
    })
}

fn decimals(null_in: i64, salt: i64, digits: u8, value: impl Fn(i64) -> i128) -> ArrayRef {
    let array: Decimal128Array = column(null_in, salt, value).collect();
    Arc::new(array.with_precision_and_scale(digits, 2).unwrap())
}

/// A few numbers, both zeroes and NaN.
fn real(n: i64) -> f64 {
    match n % 40 {
        0 => f64::NAN,
        1 => -0.0,
        few => (few - 2) as f64 / 8.0,
    }
}

fn table(null_in: i64) -> RecordBatch {
    let columns: [(&str, ArrayRef); 11] = [
        ("i", Arc::new(column(null_in, 1, |n| (n % 50) as i32).collect::<Int32Array>())),
        ("b", Arc::new(column(null_in, 2, |n| n << 40).collect::<Int64Array>())),
        ("f", Arc::new(column(null_in, 3, |n| n as f64 / 7.0).collect::<Float64Array>())),
        ("g", Arc::new(column(null_in, 4, |n| (n % 9) as f32 / 4.0).collect::<Float32Array>())),
        ("d", decimals(null_in, 5, 15, |n| (n % 1000 - 500).into())),
        ("e", decimals(null_in, 6, 7, |n| (n % 11).into())),
        ("h", decimals(null_in, 7, 18, |n| i128::from(n) * 10_000_000_000_000 - 300_000_000_000_000_000)),
        ("t", Arc::new(column(null_in, 8, |n| format!("name {}", n % 5)).collect::<StringArray>())),
        ("y", Arc::new(column(null_in, 9, |n| (n % 2000) as i32).collect::<Date32Array>())),
        ("m", Arc::new(column(null_in, 10, |n| n * 1_000_000).collect::<TimestampMicrosecondArray>())),
        ("r", Arc::new(column(null_in, 11, real).collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn written(table: &RecordBatch, properties: WriterPropertiesBuilder) -> Arc<dyn Object> {
    let mut bytes = Vec::new();
    let properties = properties.set_max_row_group_row_count(Some(6000)).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).unwrap();
    writer.write(table).unwrap();
    writer.close().unwrap();
    Arc::new(Bytes::from(bytes))
}

const QUERIES: [&str; 13] = [
    "SELECT t, count(*), sum(d), sum(d * (1 - e)), sum(d * (1 - e) * (1 + e)), avg(d), min(h), max(b) FROM o WHERE y <= DATE '1974-01-01' GROUP BY t ORDER BY t",
    "SELECT sum(d * e) FROM o WHERE y >= DATE '1971-01-01' AND y < DATE '1972-01-01' AND e BETWEEN 0.02 AND 0.09 AND i < 24",
    "SELECT i, b, f, g, d, e, h, y, m FROM o WHERE i = 7 AND f < 3000",
    "SELECT count(b), count(f), sum(f), sum(g), min(m), max(y) FROM o",
    "SELECT h * h, h - d, d + e, -d, d < e, CAST(d AS DOUBLE) FROM o WHERE d > 4.5 LIMIT 40",
    "SELECT count(*) FROM o WHERE b > d OR f < g",
    "SELECT t, i, count(*) FROM o WHERE f IS NOT NULL GROUP BY t, i ORDER BY 1, 2",
    "SELECT count(*) FROM o WHERE d IS NULL OR e <> 0.05",
    "SELECT d, max(h), sum(h) FROM o WHERE NOT (g = 0.25) AND m > TIMESTAMP '1970-01-01 01:00:00' GROUP BY d ORDER BY d LIMIT 20",
    "SELECT count(*), sum(h) FROM o WHERE i > 60",
    "SELECT count(*), count(b), count(r), min(b), max(b), min(r), max(r), sum(f), avg(f) FROM o WHERE r > 2 AND b <= 40000000000000000",
    "SELECT count(*), max(r), min(b) FROM o WHERE 3 >= r AND r <> 0 AND b > 1000000000000 AND b < 5000000000000000 AND b <> 2000000000000000",
    "SELECT min(r), count(r), avg(r), max(f) FROM o WHERE r >= 0 AND b = b AND f > 9000.5 AND 100000000000 < b",
];

fn results(object: &Arc<dyn Object>) -> Vec<String> {
    let result = |sql: &&str| match run(object, sql) {
        Ok(result) => String::from_utf8(result.bytes).unwrap(),
        Err(error) => error.to_string(),
    };
    QUERIES.iter().map(result).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // GZIP is read by the Parquet library alone.
    #[test]
    fn rows_are_the_same_however_they_are_written(
        null_in in prop_oneof![Just(0_i64), Just(2), Just(1000), Just(1)],
        codec in prop_oneof![
            Just(Compression::UNCOMPRESSED),
            Just(Compression::SNAPPY),
            Just(Compression::ZSTD(ZstdLevel::default())),
        ],
        version in prop_oneof![Just(WriterVersion::PARQUET_1_0), Just(WriterVersion::PARQUET_2_0)],
        has_dictionaries: bool,
        page_rows in prop_oneof![Just(20_000_usize), 1_usize..3000],
        dictionary_bytes in prop_oneof![Just(1_usize << 20), 16_usize..4000],
    ) {
        let table = table(null_in);
        let by_library = WriterProperties::builder().set_compression(Compression::GZIP(Default::default()));
        let otherwise = WriterProperties::builder()
            .set_compression(codec)
            .set_writer_version(version)
            .set_dictionary_enabled(has_dictionaries)
            .set_dictionary_page_size_limit(dictionary_bytes)
            .set_data_page_row_count_limit(page_rows)
            .set_write_batch_size(64)
            .set_column_data_page_size_limit(ColumnPath::from("f"), 3000)
            .set_column_dictionary_enabled(ColumnPath::from("b"), false);
        prop_assert_eq!(results(&written(&table, otherwise)), results(&written(&table, by_library)));
    }
}
