//! `byway bench`, from outside: the ledger is exact.
#![allow(clippy::unwrap_used)]

mod common;

use common::{json_lines, refused, said};
use serde_json::Value;

/// One transaction or more: payload bytes and wire bytes.
#[derive(Clone, Copy, Default)]
struct Bytes {
    payload: u64,
    wire: u64,
}

impl Bytes {
    fn add(&mut self, payload: u64, wire: u64) {
        self.payload += payload;
        self.wire += wire;
    }
}

/// docs/reference/link-model.md, "What the ledger counts", computed a second time.
struct Table {
    mps: u64,
    mrrs: u64,
}

impl Table {
    fn read(&self, bytes: &mut Bytes, n: u64) {
        let mut wire = 24 * n.div_ceil(self.mrrs);
        let mut left = n;
        while left > 0 {
            let request = left.min(self.mrrs);
            left -= request;
            wire += 20 * request.div_ceil(self.mps.min(self.mrrs)) + request.next_multiple_of(4);
        }
        bytes.add(n, wire);
    }

    /// Doorbells, completion and interrupt of one command, and its fetch.
    fn command(&self, bytes: &mut Bytes) {
        bytes.add(8, 56);
        self.read(bytes, 64);
        bytes.add(16, 40);
        bytes.add(0, 24);
    }

    /// A put on the Cosmos+ platform.
    fn put(&self, method: &str, n: u64) -> Bytes {
        let mut bytes = Bytes::default();
        match method {
            "prp" => {
                self.command(&mut bytes);
                (0..n.div_ceil(4096)).for_each(|_| self.read(&mut bytes, 4096));
            }
            "sgl" => {
                self.command(&mut bytes);
                self.read(&mut bytes, n);
            }
            "piggyback" => {
                let commands = 1 + n.saturating_sub(35).div_ceil(56);
                (0..commands).for_each(|_| self.command(&mut bytes));
            }
            "hybrid" if n <= 35 => self.command(&mut bytes),
            "inline" | "hybrid" => {
                self.command(&mut bytes);
                (0..n.div_ceil(64)).for_each(|_| self.read(&mut bytes, 64));
            }
            other => panic!("{other} is not in this table"),
        }
        bytes
    }
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

/// What `bench transfer --json` prints with these arguments: the object about the run, and the rows behind it.
fn transferred(args: &[&str]) -> (Value, Vec<Value>) {
    let mut lines = json_lines(&said(&[&["bench", "transfer", "--json"], args].concat()));
    let run = lines.remove(0);
    (run, lines)
}

#[test]
fn json_rows_begin_behind_a_line_about_the_run() {
    let (run, rows) = transferred(&["--count", "3", "--sizes", "32", "--methods", "prp,inline"]);
    assert_eq!(run["command"], "byway bench transfer --json --count 3 --sizes 32 --methods prp,inline");
    for fact in ["machine", "commit", "date"] {
        assert!(run[fact].as_str().is_some_and(|fact| !fact.is_empty()), "{fact}: {run}");
    }
    assert_eq!((run.as_object().unwrap().len(), rows.len()), (4, 2), "{run}");
    assert!(rows.iter().all(|row| row["method"].is_string()), "{rows:?}");
}

#[test]
fn the_ledger_is_exact_to_the_byte_for_any_size_and_packet_sizes() {
    for (mps, mrrs) in [(256, 512), (128, 128), (512, 4096), (4096, 256)] {
        let (_, rows) = transferred(&[
            "--profile",
            "cosmos",
            "--count",
            "7",
            "--sizes",
            "1,4,32,35,36,64,65,91,92,128,1000,4095,4096,8192",
            "--methods",
            "prp,sgl,piggyback,inline,hybrid",
            "--mps",
            &mps.to_string(),
            "--mrrs",
            &mrrs.to_string(),
        ]);
        assert_eq!(rows.len(), 14 * 5);
        for row in rows {
            let (method, size) = (row["method"].as_str().unwrap(), number(&row, "size") as u64);
            let expected = Table { mps, mrrs }.put(method, size);
            assert_eq!(number(&row, "payload_bytes"), expected.payload as f64, "{row}");
            assert_eq!(number(&row, "wire_bytes"), expected.wire as f64, "{row}");
            assert_eq!(number(&row, "mps") as u64, mps);
        }
    }
}

#[test]
fn a_32_byte_put_costs_what_the_design_says() {
    let (_, rows) = transferred(&["--profile", "cosmos", "--count", "5", "--sizes", "32"]);
    for row in rows {
        let expected = match row["method"].as_str().unwrap() {
            "prp" => (4184.0, 4836.0),
            "piggyback" | "hybrid" => (88.0, 228.0),
            "inline" => (152.0, 336.0),
            "sgl" => (120.0, 304.0),
            _ => continue,
        };
        assert_eq!((number(&row, "payload_bytes"), number(&row, "wire_bytes")), expected, "{row}");
        assert_eq!(number(&row, "interrupt_bytes"), 4.0);
    }
}

#[test]
fn a_row_has_every_field_under_every_profile() {
    for profile in ["cosmos", "cosmos-fitted", "gen4x4", "gen5x4", "gen5x8-cxl"] {
        let (_, rows) = transferred(&["--profile", profile, "--count", "3", "--sizes", "8,8K"]);
        assert_eq!(rows.len(), 20);
        for row in rows {
            for field in [
                "size",
                "count",
                "mps",
                "mrrs",
                "payload_bytes",
                "wire_bytes",
                "interrupt_bytes",
                "commands",
                "slots",
                "model_ns_mean",
                "model_ns_p50",
                "model_ns_p99",
                "wall_ns_mean",
            ] {
                assert!(number(&row, field) >= 0.0);
            }
            assert_eq!(row["profile"], profile);
            assert_eq!(row.as_object().unwrap().len(), 15, "{row}");
        }
    }
}

#[test]
fn the_clock_off_models_no_time_and_another_link_changes_it() {
    let with = |more: &[&str]| {
        let args = ["--count", "3", "--sizes", "4K", "--methods", "prp"];
        transferred(&[&args, more].concat()).1.remove(0)
    };
    assert!(with(&["--clock", "off"])["model_ns_mean"].is_null());
    let (slow, fast) = (with(&["--link", "gen2x8"]), with(&["--link", "gen5x8"]));
    assert!(number(&slow, "model_ns_mean") > number(&fast, "model_ns_mean"));
    assert_eq!(slow["wire_bytes"], fast["wire_bytes"]);
}

#[test]
fn comparators_are_measured_beside_methods() {
    let (_, rows) = transferred(&["--count", "64", "--sizes", "32", "--methods", "bulk,byte-store,prp"]);
    let payload: Vec<f64> = rows.iter().map(|row| number(row, "payload_bytes")).collect();
    assert_eq!(rows[0]["method"], "bulk");
    assert!(payload[0] < payload[2] && payload[1] < payload[2], "{payload:?}");
}

#[test]
fn a_table_is_printed_for_people() {
    let text = said(&["bench", "transfer", "--count", "3", "--sizes", "32", "--methods", "prp,inline"]);
    assert!(text.contains("payload") && text.contains("4184") && text.contains("336"), "{text}");
    assert!(refused(2, &["bench", "transfer", "--sizes", "32M"]).contains("16777216"));
}

#[test]
fn bench_traffic_reports_link_bytes_and_descriptors_of_puts() {
    let table = Table { mps: 256, mrrs: 512 };
    for (sgl, adaptive) in [("on", "sgl"), ("off", "prp")] {
        let uri = format!("ram:64M?profile=cosmos&sgl={sgl}");
        let rows = said(&[
            "bench",
            "traffic",
            &uri,
            "--json",
            "--count",
            "50",
            "--sizes",
            "32,100",
            "--methods",
            "prp,piggyback,inline,piggyback-pt,adaptive",
        ]);
        for row in json_lines(&rows) {
            let (method, size) = (row["method"].as_str().unwrap(), row["size"].as_u64().unwrap());
            let wanted = match method {
                "piggyback-pt" => "piggyback_pt",
                "adaptive" if size <= 35 => "piggyback",
                "adaptive" if sgl == "on" => adaptive,
                "adaptive" => "inline",
                other => other,
            };
            assert_eq!(row["descriptors"], wanted, "{row}");
            if ["prp", "piggyback", "inline"].contains(&method) {
                // A device does not see how often its doorbells are written.
                let (put, commands) = (table.put(method, size), number(&row, "commands"));
                let wanted = (put.payload as f64 - 8.0 * commands, put.wire as f64 - 56.0 * commands);
                assert_eq!((number(&row, "payload_bytes"), number(&row, "wire_bytes")), wanted, "{row}");
            }
        }
    }
    let refused = refused(2, &["bench", "traffic", "blocks:1M"]);
    assert!(refused.contains("no key-value namespace"), "{refused}");
}
