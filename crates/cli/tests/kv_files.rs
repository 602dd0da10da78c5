//! `byway kv import` and `export`: CSV, JSON lines and Parquet, and where they go on after an end that came too early.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Image, byway, json_lines, refused, said};

/// Long enough for several points to be written down on the way.
const MANY: usize = 300_000;

/// A CSV file of many records, each value follows from its key. Some have an end of a line in them.
fn many(image: &Image, name: &str) -> String {
    let value =
        |n: usize| if n.is_multiple_of(100) { format!("\"value\n{n}\"") } else { format!("value {n}") };
    let lines: String = (0..MANY).map(|n| format!("key{n:07},{}\n", value(n))).collect();
    image.file(name, format!("key,value\n{lines}").as_bytes())
}

fn started(args: &[&str]) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a state of a process at work.
fn until(child: &mut Child, what: &str, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before {what}");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Records that are stored, by the state of an import.
fn stored(state: &Path) -> u64 {
    let text = std::fs::read(state).unwrap_or_default();
    let state: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    state["counts"]["stored"].as_u64().unwrap_or(0)
}

fn state_of(file: &str) -> PathBuf {
    PathBuf::from(format!("{file}.import-state"))
}

#[test]
fn csv_is_stored_by_named_columns_or_as_whole_rows() {
    let image = Image::new(&["kv:16M", "kv:16M"]);
    let file =
        image.file("cities.csv", "zip,name,canton\n8001,Zürich,ZH\n4051,\"Basel, Altstadt\",BS\n".as_bytes());
    let (names, rows) = (image.uri("ns=1"), image.uri("ns=2"));
    said(&["kv", "import", &names, &file, "--key", "zip", "--value", "name"]);
    assert_eq!(said(&["kv", "get", &names, "4051"]), "Basel, Altstadt");
    let done = &json_lines(&said(&["kv", "import", &rows, &file, "--key", "zip", "--json"]))[0];
    assert_eq!((&done["records"], &done["skipped"]), (&2.into(), &0.into()));
    assert_eq!(said(&["kv", "get", &rows, "8001"]), r#"{"zip":"8001","name":"Zürich","canton":"ZH"}"#);
    assert_eq!(
        said(&["kv", "import", &rows, &file, "--key", "zip", "--compare"]),
        "2 records, all the same\n"
    );
    let error = refused(2, &["kv", "import", &names, &file]);
    assert!(error.contains("--key") && error.contains("zip, name, canton"), "{error}");
}

#[test]
fn csv_without_a_header_and_with_another_delimiter_comes_by_a_pipe() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let columns = ["--columns", "value,key", "--delimiter", "tab", "--value-encoding", "base64"];
    let args = [&["kv", "import", &uri, "-", "--format", "csv"], &columns[..]].concat();
    byway().args(args).write_stdin("/wAB\ta\nAA==\tb\n").assert().success();
    assert_eq!(said(&["kv", "scan", &uri]), "a\t\\xff\\x00\\x01\nb\t\\x00\n");
}

#[test]
fn exports_of_every_format_bring_back_binary_records() {
    let (from, to) = (Image::new(&[]), Image::new(&["kv:8M"; 4]));
    said(&["kv", "put", &from.uri(""), "--hex", "00ff0a", "a \"value\", of two\nlines"]);
    let bytes: Vec<u8> = (0..=255).collect();
    said(&["kv", "put", &from.uri(""), "bytes", "--file", &from.file("bytes", &bytes)]);
    let wanted = said(&["kv", "export", &from.uri("")]);
    for (nsid, name, encoding) in [
        (1, "a.csv", Some("hex")),
        (2, "b.csv", Some("base64")),
        (3, "c.parquet", None),
        (4, "d.parquet", Some("base64")),
    ] {
        let file = from.dir.path().join(name).to_str().unwrap().to_owned();
        let encoding = encoding.map(|encoding| format!("--encoding={encoding}"));
        let uri = from.uri("");
        let args = ["kv", "export", &uri, "--file", &file].into_iter().chain(encoding.as_deref());
        said(&args.collect::<Vec<_>>());
        let uri = to.uri(&format!("ns={nsid}"));
        said(&["kv", "import", &uri, &file]);
        assert_eq!(said(&["kv", "export", &uri]), wanted, "{name}");
    }
    let error = refused(2, &["kv", "export", &from.uri(""), "--file", &from.file("no", b"")]);
    assert!(error.contains("exists already"), "{error}");
    let file = from.dir.path().join("text.csv").to_str().unwrap().to_owned();
    assert!(refused(2, &["kv", "export", &from.uri(""), "--file", &file]).contains("--encoding"));
}

#[test]
fn parquet_is_read_as_pyarrow_writes_it_and_read_by_pyarrow() {
    if !Command::new("python3")
        .args(["-c", "import pyarrow.parquet"])
        .output()
        .is_ok_and(|ran| ran.status.success())
    {
        return byway_conformance::skips::skip(
            "parquet_is_read_as_pyarrow_writes_it_and_read_by_pyarrow",
            "python3 has no pyarrow",
        );
    }
    let image = Image::new(&["kv:16M", "kv:16M"]);
    let folder = image.dir.path().display().to_string();
    let python = |script: &str| {
        let ran = Command::new("python3").args(["-c", script]).current_dir(&folder).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    for codec in ["snappy", "zstd", "gzip", "lz4", "none"] {
        python(&format!(
            "import pyarrow as a, pyarrow.parquet as p\n\
             t = a.table({{'id': list(range(1000)), 'city': ['city %d' % n for n in range(1000)]}})\n\
             p.write_table(t, '{codec}.parquet', compression='{codec}', row_group_size=300)"
        ));
        let (file, uri) = (format!("{folder}/{codec}.parquet"), image.uri("ns=1"));
        said(&["kv", "import", &uri, &file, "--key", "id", "--value", "city"]);
        assert_eq!(said(&["kv", "count", &uri]), "1000\n");
        assert_eq!(said(&["kv", "get", &uri, "999"]), "city 999");
        said(&["kv", "import", &image.uri("ns=2"), &file, "--key", "id"]);
        assert_eq!(said(&["kv", "get", &image.uri("ns=2"), "7"]), r#"{"id":7,"city":"city 7"}"#);
        said(&["kv", "delete-range", &uri, "--all"]);
    }
    said(&["kv", "export", &image.uri("ns=2"), "--file", &format!("{folder}/out.parquet")]);
    let rows = python(
        "import pyarrow.parquet as p; t = p.read_table('out.parquet'); print(t.num_rows, t['value'][0].as_py())",
    );
    assert_eq!(rows, "1000 b'{\"id\":0,\"city\":\"city 0\"}'\n");
}

#[test]
fn bad_records_stop_an_import_or_are_written_to_a_file() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    let text = format!("key,value\na,1\na key of 17 bytes,2\nb\nlong,{}\nc,3\n", "x".repeat(2 << 20));
    let (file, bad) = (image.file("a.csv", text.as_bytes()), image.dir.path().join("bad.jsonl"));
    let error = refused(2, &["kv", "import", &uri, &file]);
    assert!(error.contains("1 record is stored: line 3: ") && error.contains("limit of 16"), "{error}");
    let skip = ["kv", "import", &uri, &file, "--skip-bad", bad.to_str().unwrap()];
    let done = said(&skip);
    assert!(done.starts_with("2 records ") && done.ends_with("; 3 skipped\n"), "{done}");
    assert_eq!(said(&["kv", "list", &uri]), "a\nc\n");
    let bad = json_lines(&std::fs::read_to_string(&bad).unwrap());
    assert_eq!(bad.iter().map(|bad| bad["line"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(bad[1]["record"], "b");
    assert!(refused(2, &skip).contains("exists already"));
}

#[test]
fn lines_of_bad_records_are_the_same_with_either_end_of_a_line() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    for (name, ends) in [("lf", "\n"), ("crlf", "\r\n")] {
        let text = "key,value\na,1\n\nb\nc,3\n".replace('\n', ends);
        let (file, bad) = (image.file(&format!("{name}.csv"), text.as_bytes()), image.dir.path().join(name));
        assert!(refused(2, &["kv", "import", &uri, &file]).contains("line 4: "), "{name}");
        said(&["kv", "import", &uri, &file, "--skip-bad", bad.to_str().unwrap()]);
        assert_eq!(json_lines(&std::fs::read_to_string(&bad).unwrap())[0]["line"], 4, "{name}");
    }
}

#[test]
fn import_that_skips_every_record_is_no_success() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let file = image.file("a.csv", b"key,value\na\nb,\"2\n");
    let bad = image.dir.path().join("bad");
    let error = refused(1, &["kv", "import", &uri, &file, "--skip-bad", bad.to_str().unwrap()]);
    assert!(error.contains("nothing is stored") && error.contains("bad says why"), "{error}");
    let bad = json_lines(&std::fs::read_to_string(&bad).unwrap());
    assert_eq!((bad.len(), &bad[0]["record"], &bad[1]["record"]), (2, &"a".into(), &"b,2\n".into()));
}

#[test]
fn export_of_a_range_has_its_keys_alone_and_resumes_within_it() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let file = image.file("all.csv", b"key,value\na,1\nb-1,2\nb-2,3\nb-3,4\nc,5\n");
    said(&["kv", "import", &uri, &file]);
    let csv = |options: &[&str]| said(&[&["kv", "export", &uri, "--format", "csv"], options].concat());
    assert_eq!(csv(&["--prefix", "b-"]), "key,value\nb-1,2\nb-2,3\nb-3,4\n");
    assert_eq!(csv(&["--from", "b-3"]), "key,value\nb-3,4\nc,5\n");
    assert_eq!(csv(&["--from", "622d33", "--to", "63", "--hex"]), "key,value\nb-3,4\n");
    let part = image.file("part.csv", b"key,value\nb-1,2\nb-2,3");
    let resume = ["kv", "export", &uri, "--file", &part, "--resume"];
    assert!(refused(2, &[&resume[..], &["--from", "c"]].concat()).contains("not of the range"));
    said(&[&resume[..], &["--prefix", "b-"]].concat());
    assert_eq!(std::fs::read_to_string(&part).unwrap(), csv(&["--prefix", "b-"]));
}

#[test]
fn if_absent_keeps_values_that_are_there() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    said(&["kv", "put", &uri, "a", "old"]);
    let file = image.file("a.csv", b"key,value\na,new\nb,1\nb,2\n");
    let done = said(&["kv", "import", &uri, &file, "--if-absent"]);
    assert!(done.starts_with("1 record ") && done.ends_with("; 2 kept as they were\n"), "{done}");
    assert_eq!(said(&["kv", "scan", &uri]), ["a\t", "old\n", "b\t1\n"].concat());
    said(&["kv", "import", &uri, &file]);
    assert_eq!(said(&["kv", "scan", &uri]), "a\tnew\nb\t2\n");
}

#[test]
fn import_that_is_killed_again_and_again_goes_on_and_stores_every_record_once() {
    let image = Image::sized("256M", &["kv"]);
    let (uri, file) = (image.uri("clock=off"), many(&image, "many.csv"));
    let (state, args) = (state_of(&file), ["kv", "import", uri.as_str(), &file, "--resume"]);
    let mut before = 0;
    for part in 1..=3 {
        let mut child = started(&args);
        let enough = before + 1 + (MANY / 12) as u64 * part;
        until(&mut child, "it was killed", || stored(&state) >= enough);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stored(&state) >= enough, "a point was lost");
        before = stored(&state);
    }
    let done = &json_lines(&said(&[&args[..], &["--json"]].concat()))[0];
    assert_eq!(done["records"], MANY);
    assert_eq!(done["earlier"], before);
    assert!(!state.exists());
    assert_eq!(said(&["kv", "count", &uri]), format!("{MANY}\n"));
    assert_eq!(said(&["kv", "import", &uri, &file, "--compare"]), format!("{MANY} records, all the same\n"));
}

#[test]
fn import_of_keys_that_repeat_keeps_points_on_the_way() {
    let image = Image::sized("256M", &["kv"]);
    let rows: String = (0..300_000).map(|row| format!("k{},{row}\n", row % 500)).collect();
    let file = image.file("repeated.csv", format!("key,value\n{rows}").as_bytes());
    let mut child = started(&["kv", "import", &image.uri("clock=off"), &file, "--resume"]);
    until(&mut child, "a point was written", || stored(&state_of(&file)) > 0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn interrupted_import_goes_on_where_it_ended() {
    let image = Image::sized("256M", &["kv"]);
    let (uri, file) = (image.uri("clock=off"), many(&image, "many.csv"));
    let state = image.dir.path().join("state");
    let args = ["kv", "import", uri.as_str(), &file, "--state", state.to_str().unwrap()];
    let mut child = started(&args);
    until(&mut child, "it was interrupted", || stored(&state) > 0);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.contains("the same command goes on"), "{error}");
    // What was interrupted is what was written down: nothing is stored twice.
    let earlier = stored(&state);
    assert_eq!(said(&["kv", "count", &uri]), format!("{earlier}\n"));
    said(&args);
    assert_eq!(said(&["kv", "import", &uri, &file, "--compare"]), format!("{MANY} records, all the same\n"));
}

#[test]
fn import_is_not_resumed_of_another_file_device_or_command() {
    let (image, other) = (Image::new(&[]), Image::new(&[]));
    let uri = image.uri("");
    let file = image.file("a.csv", b"key,value\na,1\nno value\n");
    refused(2, &["kv", "import", &uri, &file, "--resume"]);
    assert_eq!(stored(&state_of(&file)), 1);
    let error = refused(2, &["kv", "import", &other.uri(""), &file, "--resume"]);
    assert!(error.contains("another device or namespace"), "{error}");
    let error = refused(2, &["kv", "import", &uri, &file, "--resume", "--key", "value"]);
    assert!(error.contains("another format, columns or condition"), "{error}");
    image.file("a.csv", b"key,value\na,1\nb,2\n");
    let error = refused(2, &["kv", "import", &uri, &file, "--resume"]);
    assert!(error.contains("has changed since its import began: remove "), "{error}");
    std::fs::write(state_of(&file), "{\"byway_import\": 1}").unwrap();
    let error = refused(2, &["kv", "import", &uri, &file, "--resume"]);
    assert!(error.contains("is of another version of byway"), "{error}");
    std::fs::write(state_of(&file), "{}").unwrap();
    let error = refused(2, &["kv", "import", &uri, &file, "--resume"]);
    assert!(error.contains("is no state of an import"), "{error}");
    std::fs::remove_file(state_of(&file)).unwrap();
    said(&["kv", "import", &uri, &file, "--resume"]);
    assert_eq!(said(&["kv", "count", &uri]), "2\n");
}

#[test]
fn import_is_not_resumed_on_a_device_that_lost_what_it_stored() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    let file = image.file("a.csv", b"key,value\na,1\nno value\n");
    let resume = ["kv", "import", &uri, &file, "--resume"];
    refused(2, &resume);
    for lost in [&["kv", "delete", &uri, "a"][..], &["kv", "put", &uri, "a", "2"]] {
        said(lost);
        let error = refused(2, &resume);
        assert!(error.contains("has not the value of key 61 ") && error.contains("to begin anew"), "{error}");
    }
    said(&["kv", "put", &uri, "a", "1"]);
    assert!(refused(2, &resume).contains("line 3"));
}

#[test]
fn import_goes_on_though_a_killed_run_stored_another_value_of_its_last_key() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    let file = image.file("a.csv", b"key,value\na,1\nno value\na,2\n");
    refused(2, &["kv", "import", &uri, &file, "--resume"]);
    // As a kill leaves it behind the point.
    said(&["kv", "put", &uri, "a", "2"]);
    let bad = image.dir.path().join("bad");
    said(&["kv", "import", &uri, &file, "--resume", "--skip-bad", bad.to_str().unwrap()]);
    assert_eq!(said(&["kv", "get", &uri, "a"]), "2");
}

#[test]
fn options_of_columns_are_refused_for_lines() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    let file = image.file("a.tsv", b"a\t1\n");
    for options in [["--key", "a"], ["--value-encoding", "hex"], ["--delimiter", "tab"]] {
        let error = refused(2, &[&["kv", "import", &uri, &file], &options[..]].concat());
        assert!(error.contains("does not apply to a file that is read as tsv"), "{error}");
    }
    assert!(
        refused(2, &["kv", "export", &uri, "--encoding", "hex"])
            .contains("--encoding does not apply to a file that is written as jsonl")
    );
}

#[test]
fn skipped_records_are_written_once_by_an_import_that_goes_on() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let file = image.file("a.tsv", b"a\t1\nno tab\nb\t2\n");
    let bad = image.dir.path().join("bad");
    let args = ["kv", "import", &uri, &file, "--resume", "--skip-bad", bad.to_str().unwrap()];
    refused(2, &args[..5]);
    // As a kill leaves it between a record and the next point.
    std::fs::write(&bad, "{\"line\":2,").unwrap();
    let mut state: serde_json::Value =
        serde_json::from_slice(&std::fs::read(state_of(&file)).unwrap()).unwrap();
    state["skip_bad"] = serde_json::json!({"path": bad, "bytes": 0});
    std::fs::write(state_of(&file), state.to_string()).unwrap();
    said(&args);
    let bad = json_lines(&std::fs::read_to_string(&bad).unwrap());
    assert_eq!((bad.len(), &bad[0]["line"]), (1, &2.into()));
    assert_eq!(said(&["kv", "count", &uri]), "2\n");
}

#[test]
fn export_that_is_killed_goes_on_and_writes_every_record_once() {
    let image = Image::sized("256M", &["kv"]);
    let (uri, file) = (image.uri("clock=off"), many(&image, "many.csv"));
    said(&["kv", "import", &uri, &file]);
    for name in ["out.csv", "out.jsonl"] {
        let out = image.dir.path().join(name);
        let args = ["kv", "export", &uri, "--file", out.to_str().unwrap(), "--resume"];
        let length = || out.metadata().map_or(0, |about| about.len());
        for part in 1..=2 {
            let enough = part * 500_000;
            let mut child = started(&args);
            until(&mut child, "it was killed", || length() > enough);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        said(&args);
        let count = said(&["kv", "import", &uri, out.to_str().unwrap(), "--compare"]);
        assert_eq!(count, format!("{MANY} records, all the same\n"), "{name}");
        let text = std::fs::read(&out).unwrap();
        assert_eq!(
            text.iter().filter(|byte| **byte == b'k').count(),
            if name == "out.csv" { MANY + 1 } else { 2 * MANY }
        );
    }
    let out = image.file("out.parquet", b"PAR1");
    let error = refused(2, &["kv", "export", &uri, "--file", &out, "--resume"]);
    assert!(error.contains("export as jsonl or csv"), "{error}");
}

#[test]
fn export_is_not_resumed_into_a_file_that_it_has_not_begun() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    said(&["kv", "put", &uri, "a", "1"]);
    for (name, text, more) in [
        ("note.jsonl", "my one-line note\n", &[][..]),
        ("cities.csv", "id,city\n1,Basel\n", &[]),
        ("todo.tsv", "todo: buy milk\n", &[]),
        ("text.csv", "key,value\na,1\nb,2\n", &["--encoding", "hex"]),
    ] {
        let file = image.file(name, text.as_bytes());
        let error = refused(2, &[&["kv", "export", &uri, "--file", &file, "--resume"], more].concat());
        assert!(error.contains("to go on"), "{name}: {error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "{name}");
    }
}
