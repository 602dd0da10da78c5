//! The dashboard of Grafana, the alert rules of Prometheus and the live view name what a server really exposes.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use byway_conformance::skips::has;
use common::exposition::Exposition;
use common::promql::{Names, names};
use common::server::Server;
use common::{Image, json_lines, refused, said};
use serde_json::Value;

/// Labels that Prometheus adds to every metric.
const OF_PROMETHEUS: [&str; 2] = ["job", "instance"];

/// Metrics that neither the dashboard nor a rule nor the live view shows, each with the reason.
const NOT_SHOWN: [(&str, &str); 1] = [(
    "process_virtual_memory_bytes",
    "address space, most of it never touched: it says nothing of memory in use",
)];

/// Values that a matcher may name though no server of this test has exposed them: statuses and commands that need an event.
const RARE_VALUES: [&str; 10] = [
    "media",
    "path",
    "kv_write_piggyback",
    "retrieve_many",
    "exist",
    "store_many",
    "delete_range",
    "scan",
    "list",
    "delete",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/grafana")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

fn live_view() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../byway/src/serve/metrics/page");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|kind| kind == "js"));
    scripts.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&read("byway.json")).unwrap()
}

/// Every `expr` and `query` of a value.
fn expressions_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str() {
                    Some(text) if matches!(name.as_str(), "expr" | "definition") => {
                        found.push(text.to_owned())
                    }
                    _ => expressions_in(field, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|one| expressions_in(one, found)),
        _ => {}
    }
}

/// Expressions of the rules: behind `expr:`, or in the deeper lines below `expr: |`.
fn expressions_of_rules(text: &str) -> Vec<String> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(rest) = line.trim_start().strip_prefix("expr: ") else { continue };
        if rest != "|" {
            found.push(rest.to_owned());
            continue;
        }
        let mut block = Vec::new();
        while let Some(below) = lines.next_if(|below| depth(below) > depth(line)) {
            block.push(below.trim());
        }
        found.push(block.join(" "));
    }
    found
}

fn scrape(address: &str) -> Exposition {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Exposition::parse(answer.split_once("\r\n\r\n").unwrap().1)
}

/// The metrics of servers with every front: of one subsystem after commands of all kinds, and of several.
fn exposed() -> Vec<Exposition> {
    let image = Image::new(&["nvm", "kv"]);
    let socket = image.dir.path().join("socket").display().to_string();
    let path = image.path();
    let fronts = ["--tcp", "127.0.0.1:0", "--vfio-user", &socket, "--metrics", "127.0.0.1:0", "--json"];
    let (server, line) = Server::begin(&[&[path.to_str().unwrap()], &fronts[..]].concat());
    let listening = json_lines(&line).remove(0);
    let said_there = |place: &str| listening[place].as_str().unwrap().to_owned();
    let (metrics, uri) =
        (said_there("metrics"), format!("tcp://{}/{}", said_there("tcp"), said_there("nqn")));
    said(&["kv", "put", &uri, "key", "value"]);
    said(&["kv", "get", &format!("vfio-user:{socket}"), "key"]);
    refused(1, &["kv", "get", &uri, "none"]);
    for rw in ["read", "write"] {
        said(&["perf", &format!("{uri}?ns=1"), "--rw", rw, "--bs", "4K", "--count", "2000", "--depth", "8"]);
    }
    let mut load = Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(["perf", &format!("{uri}?ns=1"), "--rw", "read", "--bs", "4K", "--time", "600"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let one = loop {
        let figures = scrape(&metrics);
        if figures.sum("byway_hosts", &[]) > 0.0 {
            break figures;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    load.kill().unwrap();
    load.wait().unwrap();
    server.end("-TERM");
    let config = image.dir.path().join("serve.json");
    let several = r#"{"ports": [{"addr": {"traddr": "127.0.0.1", "trsvcid": "0"}}], "subsystems": [
        {"nqn": "nqn.2026-11.example:a", "device": "embedded-ram:64M"},
        {"nqn": "nqn.2026-11.example:b", "namespaces": [{"device": {"path": "ramdisk:1M"}}]}]}"#;
    std::fs::write(&config, several).unwrap();
    let args = ["--config", config.to_str().unwrap(), "--metrics", "127.0.0.1:0", "--json"];
    let (server, line) = Server::begin(&args);
    let listening = json_lines(&line).remove(0);
    let uri = format!("tcp://{}/nqn.2026-11.example:a", listening["tcp"].as_str().unwrap());
    said(&["kv", "put", &uri, "key", "value"]);
    refused(1, &["kv", "get", &uri, "none"]);
    let two = scrape(listening["metrics"].as_str().unwrap());
    server.end("-TERM");
    vec![one, two]
}

/// What is wrong with an expression, given what servers expose.
fn faults(expression: &str, exposed: &[Exposition]) -> Vec<String> {
    let Names { metrics, lists } = names(expression);
    let has_label =
        |metric: &str, label: &str| exposed.iter().any(|one| one.labels_of(metric).contains(label));
    let has_value = |metric: &str, label: &str, value: &str| {
        exposed.iter().any(|one| one.get(metric, &[(label, value)]).is_some()) || RARE_VALUES.contains(&value)
    };
    let ours = || metrics.iter().filter(|(metric, _)| *metric != "up");
    let mut faults = Vec::new();
    for (metric, matchers) in ours() {
        if !exposed.iter().any(|one| one.get(metric, &[]).is_some()) {
            faults.push(format!("no metric {metric}: {expression}"));
        }
        for (label, values) in matchers.iter().filter(|(label, _)| !OF_PROMETHEUS.contains(&label.as_str())) {
            // The server as a whole has no subsystem: the matcher takes what has none.
            if !has_label(metric, label) {
                faults.push(format!("{metric} has no label {label}: {expression}"));
            }
            let unknown = values.iter().flatten().filter(|value| !has_value(metric, label, value));
            faults.extend(unknown.map(|value| format!("{metric} has no {label}={value:?}: {expression}")));
        }
    }
    let is_known = |label: &String| {
        OF_PROMETHEUS.contains(&label.as_str()) || ours().any(|(metric, _)| has_label(metric, label))
    };
    faults.extend(
        lists.iter().filter(|label| !is_known(label)).map(|label| format!("no label {label}: {expression}")),
    );
    faults
}

/// Words of the live view's script that are metrics: whole strings in quotes.
fn metrics_of_the_live_view(families: &BTreeSet<String>) -> BTreeSet<String> {
    let script = live_view();
    let quoted = script.split('\'').map(str::to_owned).collect::<BTreeSet<_>>();
    let base = |family: &str| family.trim_start_matches("byway_").trim_start_matches("process_").to_owned();
    let is_named = |family: &&String| {
        let endings = ["", "_bucket", "_sum", "_count"];
        endings.iter().any(|ending| quoted.contains(&format!("{}{ending}", base(family))))
    };
    families.iter().filter(is_named).cloned().collect()
}

#[test]
fn dashboard_rules_and_live_view_name_what_servers_expose_and_nothing_is_left_out() {
    let exposed = exposed();
    let families: BTreeSet<String> =
        exposed.iter().flat_map(Exposition::families).map(str::to_owned).collect();
    let mut expressions = expressions_of_rules(&read("byway.rules.yml"));
    assert_eq!(expressions.len(), read("byway.rules.yml").matches("- alert:").count());
    expressions_in(&dashboard(), &mut expressions);
    assert!(expressions.len() > 60, "{}", expressions.len());
    let faults: Vec<String> =
        expressions.iter().flat_map(|expression| faults(expression, &exposed)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let mut shown = metrics_of_the_live_view(&families);
    assert!(shown.len() > 30, "{shown:?}");
    for metric in expressions.iter().flat_map(|expression| names(expression).metrics.into_keys()) {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|ending| metric.strip_suffix(ending));
        shown.extend([family.map_or(metric.clone(), str::to_owned), metric]);
    }
    let left_out: Vec<&String> = families.iter().filter(|family| !shown.contains(*family)).collect();
    assert_eq!(left_out, NOT_SHOWN.map(|(metric, _)| metric), "shown nowhere");
}

/// Names that the script asks for by `of`, `sum`, `rate` and the like.
#[test]
fn live_view_asks_for_no_metric_that_servers_do_not_expose() {
    let exposed = exposed();
    let script = live_view();
    let ends = ["_total", "_bytes", "_ratio", "_seconds", "_bucket", "_sum", "_blocks", "_left"];
    let metrics = script.split('\'').skip(1).step_by(2).filter(|word| {
        ends.iter().any(|end| word.ends_with(end))
            && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
    });
    // Keys of rows, which end alike.
    let keys = ["free_blocks", "spare_blocks", "bad_blocks"];
    let unknown: BTreeSet<&str> = metrics
        .filter(|word| !keys.contains(word))
        .filter(|word| {
            let has =
                |prefix: &str| exposed.iter().any(|one| one.get(&format!("{prefix}{word}"), &[]).is_some());
            !has("byway_") && !has("process_")
        })
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn dashboard_has_its_data_source_as_a_variable_and_no_panel_twice() {
    let dashboard = dashboard();
    let text = dashboard.to_string();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    assert!(dashboard["schemaVersion"].as_u64() >= Some(41) && dashboard["uid"] == "byway");
    let sources =
        panels.iter().filter(|panel| panel["type"] != "row").map(|panel| &panel["datasource"]["uid"]);
    assert!(sources.clone().count() > 40 && sources.into_iter().all(|uid| uid == "${datasource}"));
    assert!(!text.contains("http://") && !text.contains("https://"));
    let mut cells = BTreeSet::new();
    for panel in panels {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap());
        assert!(x + w <= 24, "{}", panel["title"]);
        let overlap =
            (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))).any(|cell| !cells.insert(cell));
        assert!(!overlap, "{} overlaps another panel", panel["title"]);
    }
}

#[test]
fn alert_rules_pass_their_tests_in_prometheus() {
    if !has("promtool", "alert_rules_pass_their_tests_in_prometheus") {
        return;
    }
    for args in [["check", "rules", "byway.rules.yml"], ["test", "rules", "byway.rules_test.yml"]] {
        let output = Command::new("promtool").args(args).current_dir(folder()).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
    }
}
