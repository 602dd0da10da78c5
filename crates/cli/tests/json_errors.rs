//! Failures under `--json`: one object on a line of standard error.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, byway, refused};
use serde_json::{Value, json};

/// The object that a command which must fail with a code reported.
fn reported(code: i32, args: &[&str]) -> Value {
    let error = refused(code, args);
    let last = error.lines().last().unwrap_or_else(|| panic!("{args:?} said nothing"));
    let report: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{args:?}: no JSON: {error}"));
    assert_eq!(report["exit_code"], code, "{args:?}: {report}");
    assert!(report["error"].as_str().is_some_and(|said| !said.is_empty()), "{args:?}: {report}");
    report
}

#[test]
fn failure_says_its_kind_its_origin_and_the_status_of_the_device() {
    let image = Image::new(&["kv:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    let missing = reported(1, &["kv", "get", &path, "key", "--json"]);
    assert_eq!(missing["kind"], "key_not_found");
    let refused = reported(2, &["pass", "admin", &path, "--opcode", "0x55", "--json"]);
    assert_eq!((&refused["kind"], &refused["origin"]), (&json!("unsupported"), &json!("device")));
    assert_eq!((&refused["status"]["sct"], &refused["status"]["sc"]), (&json!(0), &json!(1)));
    assert_eq!(refused["status"]["name"], "Invalid Command Opcode");
    let no_file = reported(2, &["kv", "get", "/nonexistent/disk.img", "key", "-o", "json"]);
    assert_eq!((&no_file["kind"], &no_file["errno"]), (&json!("not_found"), &json!(2)));
    let usage = reported(2, &["kv", "get", &path, "--json"]);
    assert_eq!(usage["kind"], "usage");
    assert!(!usage["error"].as_str().unwrap().contains("Usage:"), "{usage}");
    assert_eq!(reported(2, &["no-such-command", "--json"])["kind"], "usage");
}

#[test]
fn failure_of_every_command_is_json_where_json_is_asked_for() {
    let none = "/nonexistent/disk.img";
    let commands: &[&[&str]] = &[
        &["create", none, "--size", "64M"],
        &["discover", "tcp://127.0.0.1:1"],
        &["list", none],
        &["info", none],
        &["identify", none],
        &["log", none, "smart"],
        &["feature", "list", none],
        &["feature", "get", none, "7"],
        &["feature", "set", none, "arbitration", "--value", "1"],
        &["pass", "admin", none, "--opcode", "6"],
        &["pass", "io", none, "--opcode", "0"],
        &["check", none],
        &["resize", none, "64M"],
        &["snapshot", none, "copy.img"],
        &["format", none, "--ns", "1", "--yes"],
        &["sanitize", none, "--yes"],
        &["serve", none, "--tcp", "127.0.0.1:0"],
        &["subsystem", "list", none],
        &["ns", "list", none],
        &["ana", "list", none],
        &["port", "list", none],
        &["host", "list", none],
        &["tdm", "status", "--socket", none],
        &["top", none],
        &["kv", "put", none, "key", "value"],
        &["kv", "list", none],
        &["kv", "export", none],
        &["nvm", "read", none, "--length", "512"],
        &["nvm", "flush", none],
        &["dd", none, "-"],
        &["perf", none, "--rw", "get", "--count", "1"],
        &["bench", "traffic", none],
        &["uri", "no-such-image"],
        &["id-ctrl", none],
        &["smart-log", none],
        &["create-ns", none, "--size", "16M"],
        &["resv-report", none],
        &["show-regs", none],
        &["reset", none],
        &["admin-passthru", none, "-o", "6"],
    ];
    for command in commands {
        let folder = tempfile::tempdir().unwrap();
        let output = byway()
            .current_dir(folder.path())
            .args(*command)
            .arg("--json")
            .assert()
            .code(2)
            .get_output()
            .clone();
        let error = String::from_utf8(output.stderr).unwrap();
        let report: Value = serde_json::from_str(error.lines().last().unwrap_or_default())
            .unwrap_or_else(|_| panic!("{command:?}: {error}"));
        assert!(report["error"].is_string() && report["kind"].is_string(), "{command:?}: {report}");
        assert_eq!(report["exit_code"], 2, "{command:?}");
    }
}
