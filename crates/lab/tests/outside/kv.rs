//! `byway-lab kv`, small, from outside.
use std::collections::HashSet;
use std::path::Path;

use crate::common::{json_lines, lab, refused, said};
use serde_json::Value;

const OPS: [&str; 11] = [
    "put",
    "put_qd32",
    "put_batch32",
    "get",
    "get_qd32",
    "list",
    "list_get",
    "scan",
    "mixgraph",
    "put_flush",
    "put_flush_qd32",
];
const LETTERS: [&str; 6] = ["ycsb_a", "ycsb_b", "ycsb_c", "ycsb_d", "ycsb_e", "ycsb_f"];

/// Rows of a small run in a folder of its own, which must be empty afterwards.
fn rows(more: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let mut args = vec!["kv", "--json", "--passes", "1", "--dir", dir.path().to_str().unwrap()];
    args.extend(more);
    let rows = json_lines(&said(&args));
    assert_empty(dir.path());
    rows
}

fn assert_empty(dir: &Path) {
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn named<'a>(rows: &'a [Value], engine: &str, op: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["engine"] == engine && row["op"] == op).collect()
}

#[test]
fn every_engine_has_a_whole_row_for_every_kind_of_work() {
    let rows = rows(&["--count", "300", "--values", "32,1K", "--vs", "fjall,lmdb"]);
    for op in OPS {
        for engine in ["byway", "fjall", "lmdb"] {
            let sizes: Vec<_> =
                named(&rows, engine, op).iter().map(|row| row["value_size"].as_u64().unwrap()).collect();
            assert_eq!(sizes, [32, 1024], "{op} of {engine}");
        }
        assert_eq!(named(&rows, "fjall-blob", op).len(), 1, "a row with separated values from 1 KiB on");
    }
    assert_eq!(named(&rows, "lmdb-1000", "put").len(), 2);
    for row in &rows {
        for field in ["ops_per_s", "cpu_us_per_op", "p50_us", "p99_us", "p999_us"] {
            assert!(row[field].as_f64().unwrap() > 0.0, "{field} of {row}");
        }
        let wanted = if row["op"].as_str().unwrap().contains("flush") { "media" } else { "process" };
        assert_eq!(row["guarantee"], wanted);
    }
}

#[test]
fn a_row_counts_what_was_done() {
    let rows = rows(&["--count", "2000", "--values", "128", "--vs", "lmdb", "--ops", "put,list,scan"]);
    let counts = |op: &str| {
        let rows = named(&rows, "byway", op);
        rows.iter().map(|row| row["count"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((counts("put"), counts("list"), counts("scan")), (vec![2000], vec![2000], vec![20]));
    let ops: HashSet<&str> = rows.iter().map(|row| row["op"].as_str().unwrap()).collect();
    assert_eq!(ops.len(), 3);
}

#[test]
fn every_workload_of_ycsb_runs_on_every_engine_with_records_of_a_kibibyte() {
    let rows = rows(&["--count", "400", "--vs", "fjall,lmdb", "--ycsb", "A,B,C,D,E,F"]);
    for op in LETTERS {
        for engine in ["byway", "fjall", "fjall-blob", "lmdb"] {
            assert_eq!(named(&rows, engine, op).len(), 1, "{op} of {engine}");
        }
    }
    assert!(rows.iter().all(|row| row["value_size"] == 1024));
}

/// Rows of RocksDB beside Byway, whose values it must read, if its library is there; what is said otherwise.
fn rows_of_rocksdb(more: &[&str]) -> Result<Vec<Value>, String> {
    let dir = tempfile::tempdir().unwrap();
    let args = ["kv", "--json", "--passes", "1", "--count", "400", "--vs", "rocksdb"];
    let output =
        lab().args(args).args(more).arg("--dir").arg(dir.path()).assert().success().get_output().clone();
    assert_empty(dir.path());
    let rows = json_lines(&String::from_utf8(output.stdout).unwrap());
    assert!(rows.iter().any(|row| row["engine"] == "byway"));
    let is_there = rows.iter().any(|row| row["engine"] == "rocksdb");
    if is_there { Ok(rows) } else { Err(String::from_utf8(output.stderr).unwrap()) }
}

#[test]
fn rocksdb_is_compared_where_its_library_is_and_left_out_in_a_sentence_where_not() {
    let ycsb = ["--values", "1K", "--ycsb", "A,B,C,D,E,F"];
    for (ops, more) in [(&OPS[..], &["--values", "32"][..]), (&LETTERS[..], &ycsb[..])] {
        match rows_of_rocksdb(more) {
            Err(said) => {
                assert!(said.contains("rocksdb is not there"), "{said}");
                assert!(said.contains("install Debian's package librocksdb-dev"), "{said}");
            }
            Ok(rows) => {
                for op in ops {
                    let [of_byway, of_rocksdb] = ["byway", "rocksdb"].map(|engine| named(&rows, engine, op));
                    assert_eq!((of_byway.len(), of_rocksdb.len()), (1, 1), "{op}");
                    assert_eq!(of_byway[0]["count"], of_rocksdb[0]["count"], "{op}");
                }
            }
        }
    }
}

#[test]
fn two_clients_put_and_get_together() {
    let rows = rows(&["--count", "1000", "--values", "32", "--threads", "2", "--vs", "fjall,lmdb,rocksdb"]);
    for engine in ["byway", "fjall", "lmdb"] {
        assert_eq!(named(&rows, engine, "get")[0]["count"], 1000, "{engine}");
    }
    let ops: HashSet<&str> = rows.iter().map(|row| row["op"].as_str().unwrap()).collect();
    assert_eq!(ops, HashSet::from(["put", "get"]));
    assert!(rows.iter().all(|row| row["threads"] == 2));
    let said = refused(2, &["kv", "--threads", "2", "--ops", "list"]);
    assert!(said.contains("list is done by one client"), "{said}");
}

#[test]
fn the_table_says_how_many_times_faster_byway_is() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["kv", "--count", "500", "--values", "32", "--vs", "lmdb", "--ops", "put", "--passes", "1"];
    let text = said(&[&args[..], &["--dir", dir.path().to_str().unwrap()]].concat());
    assert!(text.lines().next().unwrap().contains("byway is"), "{text}");
    let lmdb = text.lines().find(|line| line.contains("lmdb ")).unwrap();
    assert!(lmdb.split_whitespace().any(|cell| cell.ends_with('x')), "{text}");
}

#[test]
fn impossible_comparison_is_refused_in_a_sentence() {
    assert!(refused(2, &["kv", "--count", "0"]).contains("0 operations"));
    assert!(refused(2, &["kv", "--vs", "leveldb"]).contains("fjall"));
    assert!(refused(2, &["kv", "--values", "2M"]).contains("over the limit"));
    let said = refused(2, &["kv", "--count", "10", "--vs", "byway", "--dir", "/nonexistent"]);
    assert!(said.contains("/nonexistent"), "{said}");
}
