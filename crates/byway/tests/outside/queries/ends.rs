//! What ends a query: refusals, changes of its object, its host, and other limits. The device serves on.

use byway::{ErrorKind, SqlOptions};

use super::{all, csv, laghos};

fn refusal(sql: &str) -> String {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"mesh", &laghos(1)).unwrap();
    let refused = kv.query(b"mesh", sql, SqlOptions::default()).map(|_| ()).unwrap_err();
    assert!(kv.exists(b"mesh").unwrap());
    format!("{refused:#}")
}

#[test]
fn refusal_names_the_token_that_it_stumbled_on() {
    let said = refusal("SELECT x FROM a JOIN b");
    assert!(said.contains("JOIN"), "{said}");
    let said = refusal("SELECT nothing FROM t");
    assert!(said.contains("nothing"), "{said}");
    let said = refusal("SELECT element_id % 0 FROM t");
    assert!(said.contains("zero"), "{said}");
}

#[test]
fn text_of_a_megabyte_is_refused() {
    let said = refusal(&format!("SELECT x FROM t WHERE {} x > 0", "x > 0 AND ".repeat(100_000)));
    assert!(said.contains("more than a query may have"), "{said}");
}

#[test]
fn key_that_does_not_exist_is_reported_as_by_get() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    let error = kv.query(b"none", "SELECT x FROM t", SqlOptions::default()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyNotFound, "{error}");
}

#[test]
fn value_that_is_no_parquet_file_is_named_so() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"text", &[b'x'; 100_000]).unwrap();
    let error = kv.query(b"text", "SELECT x FROM t", SqlOptions::default()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no sound Parquet file"), "{error}");
}

#[test]
fn device_without_queries_says_so() {
    let device = byway::open("embedded-ram:64M?compute=0").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"mesh", &laghos(1)).unwrap();
    let error = kv.query(b"mesh", "SELECT x FROM t", SqlOptions::default()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn value_that_is_overwritten_meanwhile_is_read_as_it_was() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let (mut kv, mut other) = (device.kv(None).unwrap(), device.kv(None).unwrap());
    kv.put(b"mesh", &laghos(4)).unwrap();
    let mut result = kv.query(b"mesh", "SELECT * FROM t", SqlOptions::default()).unwrap();
    assert!(result.next_part().unwrap().is_some());
    other.put(b"mesh", b"another value").unwrap();
    other.delete(b"mesh").unwrap();
    let mut lines = 0;
    while let Some(part) = result.next_part().unwrap() {
        lines += part.iter().filter(|byte| **byte == b'\n').count();
    }
    assert!(lines > 50_000, "{lines}");
}

#[test]
fn query_ends_with_its_result_dropped_and_as_many_as_there_is_room_for_may_go_on() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"mesh", &laghos(4)).unwrap();
    for _ in 0..100 {
        let mut result = kv.query(b"mesh", "SELECT * FROM t", SqlOptions::default()).unwrap();
        assert!(result.next_part().unwrap().is_some());
    }
    assert_eq!(csv(&mut kv, b"mesh", "SELECT count(*) FROM t"), "100000\n");
}

#[test]
fn blocks_that_are_written_while_a_query_reads_them_end_it() {
    let device = byway::open("embedded-ram:256M").unwrap();
    let file = many_row_groups();
    let (mut nvm, mut other) = (device.nvm(None).unwrap(), device.nvm(None).unwrap());
    let mut blocks = file.clone();
    blocks.resize(file.len().next_multiple_of(nvm.lba_bytes() as usize), 0);
    for (at, part) in blocks.chunks(1 << 20).enumerate() {
        nvm.write((at << 20) as u64 / u64::from(nvm.lba_bytes()), part).unwrap();
    }
    let lba_bytes = nvm.lba_bytes() as usize;
    let query = |nvm: &mut byway::Nvm, write: &mut dyn FnMut()| {
        let mut result = nvm.query(0, file.len() as u64, "SELECT * FROM t", SqlOptions::default()).unwrap();
        result.next_part().unwrap();
        write();
        all(result)
    };
    // Behind the object: no harm.
    let behind = (blocks.len() / lba_bytes) as u64;
    assert!(query(&mut nvm, &mut || other.write(behind, &vec![1; lba_bytes]).unwrap()).is_ok());
    let changed = query(&mut nvm, &mut || other.write(1, &vec![1; lba_bytes]).unwrap()).unwrap_err();
    assert!(changed.to_string().contains("changed"), "{changed}");
}

/// A Parquet file of 8 MB in row groups of 10,000 rows.
fn many_row_groups() -> Vec<u8> {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10_000)).build();
    let rows =
        |salt: i64| Arc::new(Int64Array::from_iter_values((0..500_000).map(|row| row * salt))) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("a", rows(0x1234_5677)), ("b", rows(0x0fed_cba7))]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}
