//! `byway serve` tested by a host that shares no code with it: `tests/foreign_host`, in Python's standard library.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::server::Server;
use common::{Image, json_lines};

/// Checks of the suite, so that none is lost.
const CHECKS_MIN: usize = 78;

fn suite() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign_host/suite.py")
}

/// Whether the suite passed of a target that serves `device`, what it said, and what the target reported.
fn check(device: &str) -> (bool, String, String) {
    let local = "127.0.0.1:0";
    let args = ["serve", device, "--tcp", local, "--discovery", local, "--json"];
    let server = Server::spawn(&args);
    let listening = &json_lines(&server.line())[0];
    let word = |name: &str| listening[name].as_str().unwrap().to_owned();
    let (tcp, discovery) = (word("tcp"), word("discovery"));
    let (address, port) = tcp.rsplit_once(':').unwrap();
    let (_, discovery) = discovery.rsplit_once(':').unwrap();
    let checked = Command::new("python3")
        .arg("-B")
        .arg(suite())
        .args([address, port, &word("nqn"), discovery])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
    (checked.status.success(), said.into_owned(), server.end("-TERM"))
}

#[test]
fn independent_python_host_finds_no_fault() {
    if !byway_conformance::skips::has("python3", "independent_python_host_finds_no_fault") {
        return;
    }
    let image = Image::new(&["kv:24M", "nvm:24M"]);
    for device in [image.uri(""), image.uri("flush=command")] {
        let (passed, said, reported) = check(&device);
        let failed: Vec<&str> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
        assert!(passed, "{failed:#?}");
        assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= CHECKS_MIN, "{said}");
        let events = json_lines(&reported);
        let has = |event: &str, host: &str| {
            events.iter().any(|line| line["event"] == event && (host == "*" || line["host"] == host))
        };
        assert!(has("host_id_differs", "*"), "two HOSTIDs are reported");
        assert!(has("host_refused", ""), "a host without a name is reported");
    }
}

/// `BYWAY_TEST_ROUNDS=500 cargo test -p byway-cli --test foreign_host` for a long run.
#[test]
fn smart_goes_on_over_kills_of_the_server() {
    if !byway_conformance::skips::has("python3", "smart_goes_on_over_kills_of_the_server") {
        return;
    }
    let image = Image::new(&["kv:24M", "nvm:24M"]);
    let rounds = std::env::var("BYWAY_TEST_ROUNDS").unwrap_or_else(|_| "9".to_owned());
    let played = Command::new("python3")
        .arg("-B")
        .arg(suite().with_file_name("kills.py"))
        .arg(assert_cmd::cargo::cargo_bin("byway"))
        .arg(image.path())
        .arg(rounds)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&played.stdout) + String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{said}");
}
