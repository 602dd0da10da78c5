//! Short queries on small values, which the device executes as they come once it knows them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use byway::serve::{ServeOptions, TcpOptions, serve};
use byway::spec::Status;
use byway::{Kv, SqlOptions};
use parquet::arrow::ArrowWriter;

use super::csv;

const SQL: &str = "SELECT count(*), max(x) FROM t WHERE x > 1";

fn file(of: ArrayRef) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter([("x", of)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn numbers(values: &[f64]) -> Vec<u8> {
    file(Arc::new(Float64Array::from(values.to_vec())))
}

/// Results follow the value, whatever it was when the query was executed before.
fn check_follows_the_value(kv: &mut Kv) {
    let whole: ArrayRef = Arc::new(Int64Array::from(vec![1, 9]));
    let values =
        [(numbers(&[1.0, 2.0]), "1,2.0\n"), (numbers(&[3.0, 4.0]), "2,4.0\n"), (file(whole), "1,9\n")];
    for _ in 0..3 {
        for (value, expected) in &values {
            kv.put(b"small", value).unwrap();
            (0..3).for_each(|_| assert_eq!(csv(kv, b"small", SQL), *expected));
        }
    }
    kv.put(b"small", b"no file").unwrap();
    let failed = kv.query(b"small", SQL, SqlOptions::default()).map(drop).unwrap_err();
    assert!(failed.nvme_status().unwrap().is(Status::QUERY_FAILED), "{failed}");
    kv.delete(b"small").unwrap();
    assert!(kv.query(b"small", SQL, SqlOptions::default()).is_err());
}

#[test]
fn result_follows_the_value_in_process() {
    for options in ["", "?inline-read=on", "?transfer=inline", "?transfer=piggyback&inline-read=on"] {
        let device = byway::open(&format!("embedded-ram:64M{options}")).unwrap();
        check_follows_the_value(&mut device.kv(None).unwrap());
    }
}

#[test]
fn result_follows_the_value_over_tcp() {
    let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
    let served = serve("embedded-ram:64M", &options).unwrap();
    let (stop, address) = (served.stopper(), served.tcp_address().unwrap());
    let uri = format!("tcp://{address}/{}", served.nqn());
    let server = std::thread::spawn(move || served.run(|_| {}).unwrap());
    check_follows_the_value(&mut byway::open(&uri).unwrap().kv(None).unwrap());
    stop.stop();
    server.join().unwrap();
}

#[test]
fn failure_is_the_same_each_time() {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"small", &file(Arc::new(Int64Array::from(vec![1, i64::MAX])))).unwrap();
    let sql = "SELECT x + 1 FROM t";
    let said =
        |kv: &mut Kv| kv.query(b"small", sql, SqlOptions::default()).map(drop).unwrap_err().to_string();
    let first = said(&mut kv);
    assert!((0..3).all(|_| said(&mut kv) == first), "{first}");
}
