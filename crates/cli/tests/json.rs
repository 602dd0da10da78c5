//! Output of commands as JSON: one object for what was done, and bytes that are no text as digits.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, byway, json_lines, said};
use serde_json::{Value, json};

/// The one object that a command printed.
fn printed(args: &[&str]) -> Value {
    let mut lines = json_lines(&said(args));
    assert_eq!(lines.len(), 1, "{args:?}");
    lines.remove(0)
}

/// The one object of a command whose answer is no.
fn printed_no(args: &[&str]) -> Value {
    let output = byway().args(args).assert().code(1).get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

/// The one object that a command printed on standard error, and the bytes on standard output.
fn printed_beside(args: &[&str]) -> (Value, Vec<u8>) {
    let output = byway().args(args).assert().success().get_output().clone();
    (serde_json::from_slice(&output.stderr).unwrap(), output.stdout)
}

#[test]
fn key_commands_report_as_json() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let kv = |verb: &str, more: &[&str]| printed(&[&["kv", verb, &uri, "k"], more, &["--json"]].concat());
    assert_eq!(kv("put", &["text"]), json!({"key": "k", "value_bytes": 4}));
    assert_eq!(kv("get", &[]), json!({"key": "k", "value": "text"}));
    assert_eq!(kv("exists", &[]), json!({"key": "k", "exists": true}));
    let file = image.dir.path().join("value");
    let into = ["--file", file.to_str().unwrap()];
    assert_eq!(kv("get", &into), json!({"key": "k", "value_bytes": 4}));
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
    assert_eq!(kv("delete", &[]), json!({"key": "k", "deleted": true}));
}

#[test]
fn an_answer_of_no_is_json_and_exit_code_1() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    assert_eq!(printed_no(&["kv", "exists", &uri, "k", "--json"]), json!({"key": "k", "exists": false}));
    assert_eq!(printed_no(&["kv", "delete", &uri, "k", "--json"]), json!({"key": "k", "deleted": false}));
    byway().args(["kv", "get", &uri, "k", "--json"]).assert().code(1).stdout("");
    let records = image.file("records.tsv", b"a\t1\nb\t2\nc\t3\n");
    said(&["kv", "load", &uri, &records]);
    said(&["kv", "put", &uri, "a", "other"]);
    said(&["kv", "delete", &uri, "c"]);
    let different = json!([{"key": "a", "how": "differs"}, {"key": "c", "how": "is_missing"}]);
    assert_eq!(
        printed_no(&["kv", "import", &uri, &records, "--compare", "--json"]),
        json!({"count": 3, "same": 1, "different": different})
    );
}

#[test]
fn bytes_that_are_no_text_are_digits_and_come_back_by_an_import() {
    let (image, other) = (Image::new(&[]), Image::new(&[]));
    let uri = image.uri("");
    let value = image.file("value", &[0xff, 0, b'\n', 0x80]);
    let put = printed(&["kv", "put", &uri, "--hex", "00ff", "--file", &value, "--json"]);
    assert_eq!(put, json!({"key_hex": "00ff", "value_bytes": 4}));
    let line = said(&["kv", "get", &uri, "--hex", "00ff", "--json"]);
    assert_eq!(line, "{\"key_hex\":\"00ff\",\"value_hex\":\"ff000a80\"}\n");
    assert_eq!(line, said(&["kv", "export", &uri]));
    let import = ["kv", "import", &other.uri(""), "-", "--format", "jsonl"];
    byway().args(import).write_stdin(line.clone()).assert().success();
    assert_eq!(said(&["kv", "export", &other.uri("")]), line);
    said(&["kv", "put", &uri, "text", "é"]);
    let asked_for = printed(&["kv", "get", &uri, "--hex", "74657874", "--json"]);
    assert_eq!(asked_for, json!({"key_hex": "74657874", "value": "é"}));
}

#[test]
fn files_of_records_are_counted() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let records = image.file("records.tsv", b"a\t1\nb\t2\nc\t3\n");
    let loaded = printed(&["kv", "load", &uri, &records, "--json"]);
    assert_eq!(loaded["records"], 3);
    assert!(loaded["seconds"].is_f64() && loaded["records_per_second"].is_f64(), "{loaded}");
    let exported = json!({"records": 3, "unread_keys": 0, "unlisted_stretches": 0});
    let file = image.dir.path().join("out.jsonl");
    assert_eq!(printed(&["kv", "export", &uri, "--file", file.to_str().unwrap(), "--json"]), exported);
    let (beside, out) = printed_beside(&["kv", "export", &uri, "--json"]);
    assert_eq!(beside, exported);
    assert_eq!(out, std::fs::read(file).unwrap());
}

#[test]
fn block_commands_report_as_json() {
    let image = Image::new(&["kv", "nvm:16M"]);
    let data = image.file("data", &[7; 5000]);
    let file = image.file("blocks", &vec![0; 1 << 20]);
    for (uri, nsid) in [(image.uri("ns=2"), 2), (file, 1)] {
        let nvm = |verb: &str, more: &[&str]| printed(&[&["nvm", verb, &uri], more, &["--json"]].concat());
        let at = |slba: u64, blocks: u64| json!({"nsid": nsid, "slba": slba, "blocks": blocks, "bytes": 512 * blocks});
        let also = |mut touched: Value, more: &[(&str, Value)]| {
            more.iter().for_each(|(name, value)| touched[*name] = value.clone());
            touched
        };
        assert_eq!(nvm("write", &["--offset", "4K", "--file", &data]), at(8, 10));
        let same = [("same", json!(true)), ("differs_at_block", Value::Null)];
        assert_eq!(nvm("compare", &["--offset", "4K", "--file", &data]), also(at(8, 10), &same));
        let copied = nvm("copy", &["--offset", "4K", "--length", "1K", "--to", "64K"]);
        assert_eq!(copied, also(at(8, 2), &[("to_slba", json!(128))]));
        assert_eq!(nvm("zero", &["--offset", "5K", "--length", "512"]), at(10, 1));
        let differs = [("same", json!(false)), ("differs_at_block", json!(10))];
        let compare = ["nvm", "compare", &uri, "--offset", "4K", "--file", &data, "--json"];
        assert_eq!(printed_no(&compare), also(at(8, 3), &differs));
        assert_eq!(nvm("verify", &["--length", "1M"]), at(0, 2048));
        assert_eq!(nvm("trim", &["--length", "8K"]), at(0, 16));
        assert_eq!(nvm("flush", &[]), json!({"flushed_nsid": nsid}));
        let (beside, out) =
            printed_beside(&["nvm", "read", &uri, "--offset", "64K", "--length", "1K", "--json"]);
        assert_eq!((beside, out), (at(128, 2), vec![7; 1024]));
    }
}

#[test]
fn device_commands_report_as_json() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let (path, uri) = (image.path().display().to_string(), image.uri(""));
    assert_eq!(printed(&["resize", &path, "128M", "--json"]), json!({"image": path, "bytes": 128 << 20}));
    let formatted = printed(&["format", &path, "--ns", "1", "--yes", "--json"]);
    assert_eq!(formatted, json!({"device": path, "nsid": 1, "format_index": 0, "erased": true}));
    let quick = printed(&["format", &uri, "--ns", "2", "--quick", "--yes", "--json"]);
    assert_eq!((&quick["device"], &quick["erased"]), (&json!(uri), &json!(false)));
    let sanitized = printed(&["sanitize", &path, "--yes", "--json"]);
    assert_eq!(sanitized, json!({"device": path, "by": "block_erase"}));
    let overwritten = printed(&["sanitize", &uri, "--overwrite", "2", "--yes", "--json"]);
    assert_eq!(overwritten, json!({"device": uri, "by": "overwrite", "passes": 2}));
}
