//! Loads, from outside: what is counted, what is refused, what is found. No test looks at a time.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};

use common::{Image, await_work, byway, json_lines, refused, said};
use serde_json::Value;

/// What a load that must succeed measured.
fn measured(uri: &str, args: &[&str]) -> Value {
    json_lines(&said(&[&["perf", uri, "--json"], args].concat()))[0].clone()
}

fn ops(row: &Value, side: &str) -> u64 {
    row[side]["ops"].as_u64().unwrap_or(0)
}

#[test]
fn every_load_does_the_given_number_of_commands_on_every_backend() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let path = image.file("blocks", &vec![0; 1 << 20]);
    let backends = ["io_uring", "libaio", "threads", "psync", "posix_aio"];
    let files = backends.map(|backend| format!("{path}?backend={backend}"));
    let others = [image.uri("ns=2"), "nil:1G".into(), "ram:64M?ns=2".into()];
    for uri in files.iter().chain(&others) {
        for (load, reads, writes) in [
            ("read", 200, 0),
            ("write", 0, 200),
            ("randread", 200, 0),
            ("randwrite", 0, 200),
            ("trim", 0, 200),
            ("zeroes", 0, 200),
        ] {
            let row = measured(uri, &["--rw", load, "--count", "100", "--threads", "2", "--depth", "4"]);
            assert_eq!((ops(&row, "read"), ops(&row, "write")), (reads, writes), "{load} on {uri}: {row}");
            assert_eq!(row["threads"].as_array().unwrap().len(), 2);
        }
        let row = measured(uri, &["--rw", "randrw", "--mix", "70", "--count", "1000", "--depth", "8"]);
        let (reads, writes) = (ops(&row, "read"), ops(&row, "write"));
        assert!(reads + writes == 1000 && (600..800).contains(&reads), "{uri}: {row}");
    }
}

#[test]
fn a_load_of_a_time_reports_percentiles_unless_they_are_off() {
    let row = measured("nil:1G", &["--rw", "randread", "--time", "0.2", "--warmup", "0.05", "--depth", "32"]);
    let latency = &row["read"]["latency_ns"];
    assert!(latency["p50"].as_u64().unwrap() <= latency["p99_9"].as_u64().unwrap(), "{row}");
    assert!(row["seconds"].as_f64().unwrap() >= 0.2 && row["cpu_us_per_op"].as_f64().unwrap() > 0.0);
    let row = measured("nil:1G", &["--rw", "randread", "--count", "1000", "--no-latency"]);
    assert_eq!((ops(&row, "read"), row["read"].get("latency_ns")), (1000, None));
    let text = said(&["perf", "nil:1G", "--rw", "write", "--count", "1000", "--threads", "2"]);
    for words in ["all write", "thread 1 write", "p99.9", "processor time a command"] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

#[test]
fn a_load_waits_submits_and_moves_data_in_every_way() {
    let image = Image::new(&["nvm:16M"]);
    let path = image.file("blocks", &vec![0; 1 << 20]);
    for uri in [path.as_str(), &image.uri("")] {
        for args in [
            ["--wait", "call", "--depth", "1"].as_slice(),
            &["--wait", "call", "--depth", "1", "--timeout", "60000"],
            &["--wait", "spin"],
            &["--wait", "event"],
            &["--batch", "8"],
            &["--timeout", "60000"],
            &["--parts", "4"],
            &["--memory", "prepared"],
            &["--memory", "brought", "--parts", "2"],
            &["--cpus", "0"],
            &["--bs", "64K", "--offset", "64K", "--length", "512K"],
        ] {
            let depth: &[&str] = if args.contains(&"--depth") { &[] } else { &["--depth", "8"] };
            let args = [&["--rw", "randrw", "--count", "100", "--verify"], depth, args].concat();
            let row = measured(uri, &args);
            assert_eq!(ops(&row, "read") + ops(&row, "write"), 100, "{args:?} on {uri}");
        }
    }
}

#[test]
fn verify_finds_written_data_and_a_difference_is_exit_code_1() {
    let image = Image::new(&["nvm:16M"]);
    let path = image.file("blocks", &vec![0; 1 << 20]);
    for uri in [path.as_str(), &image.uri("")] {
        let all = ["--length", "1M", "--count", "256", "--depth", "8", "--verify", "--seed", "7"];
        let row = measured(uri, &[&["--rw", "write"], all.as_slice()].concat());
        assert_eq!(row["verified"], 256, "{row}");
        let row = measured(uri, &[&["--rw", "randread", "--bs", "8K"], all.as_slice()].concat());
        assert_eq!(row["verified"], 256, "{row}");
        let other =
            ["perf", uri, "--rw", "read", "--length", "1M", "--count", "8", "--verify", "--seed", "8"];
        let error = refused(1, &other);
        assert!(error.contains("byte 0 does not hold"), "{error}");
    }
    let error = refused(1, &["perf", "null:64M?ns=2", "--rw", "write", "--count", "8", "--verify"]);
    assert!(error.contains("was written and does not hold it"), "{error}");
}

#[test]
fn perf_runs_key_value_loads() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("transfer=inline");
    for value_bytes in ["1", "100", "1000"] {
        let keys = ["--keys", "500", "--value-bytes", value_bytes, "--depth", "8", "--threads", "2"];
        let row = measured(&uri, &[&["--rw", "put", "--count", "300"], keys.as_slice()].concat());
        assert_eq!(ops(&row, "write"), 600, "{row}");
        let mixed = ["--rw", "putget", "--mix", "90", "--fill", "--count", "1000"];
        let row = measured(&uri, &[&mixed, keys.as_slice()].concat());
        assert_eq!(ops(&row, "read") + ops(&row, "write"), 2000, "{row}");
        assert_eq!(row.get("missing_keys"), None, "{row}");
    }
    assert_eq!(said(&["kv", "list", &uri, "--hex"]).lines().count(), 500);
}

#[test]
fn missing_keys_are_errors_that_are_counted_and_no_part_of_the_rate() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    let get = ["perf", &uri, "--rw", "get", "--keys", "100", "--count", "50", "--depth", "4", "--json"];
    let output = byway().args(get).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let row = json_lines(&String::from_utf8_lossy(&output.stdout))[0].clone();
    assert_eq!((ops(&row, "read"), row["missing_keys"].as_u64()), (0, Some(50)), "{row}");
    assert_eq!((row["iops"].as_f64(), row["mib_per_s"].as_f64()), (Some(0.0), Some(0.0)), "{row}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("50 of 50 commands met a key that is not there: --fill"), "{said}");
    // What is recommended is taken.
    let row = measured(&uri, &["--rw", "get", "--keys", "100", "--count", "50", "--depth", "4", "--fill"]);
    assert_eq!((ops(&row, "read"), row.get("missing_keys")), (50, None), "{row}");
    // Of keys that are there by half, those that are found are the rate.
    let half = ["perf", &uri, "--rw", "get", "--keys", "200", "--count", "400", "--json"];
    let output = byway().args(half).output().unwrap();
    let row = json_lines(&String::from_utf8_lossy(&output.stdout))[0].clone();
    let (found, missing) = (ops(&row, "read"), row["missing_keys"].as_u64().unwrap());
    assert!(output.status.code() == Some(1) && found + missing == 400 && found > 0 && missing > 0, "{row}");
}

#[test]
fn bytes_of_gets_are_those_of_the_values() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    measured(&uri, &["--rw", "get", "--fill", "--keys", "100", "--value-bytes", "16", "--count", "10"]);
    let row = measured(&uri, &["--rw", "get", "--keys", "100", "--value-bytes", "65536", "--count", "500"]);
    let mib = row["iops"].as_f64().unwrap() * 16.0 / f64::from(1 << 20);
    assert!((row["mib_per_s"].as_f64().unwrap() / mib - 1.0).abs() < 1e-6, "{row}");
}

#[test]
fn range_that_is_not_allocated_is_reported_before_reads() {
    let image = Image::new(&["nvm:16M"]);
    let uri = image.uri("");
    let read = ["--rw", "randread", "--count", "100"];
    assert_eq!(measured(&uri, &read)["unallocated_bytes"], 16 << 20);
    assert!(said(&[&["perf", &uri], &read[..]].concat()).contains("16 MiB of the range are not allocated"));
    let holes = image.file("holes", &[]);
    std::fs::File::options().write(true).open(&holes).unwrap().set_len(1 << 20).unwrap();
    assert_eq!(measured(&holes, &read)["unallocated_bytes"], 1 << 20);
    measured(&uri, &["--rw", "write", "--bs", "64K", "--count", "256"]);
    assert_eq!(measured(&uri, &read)["unallocated_bytes"], Value::Null);
    said(&["nvm", "trim", &uri, "--offset", "0", "--length", "4M"]);
    assert_eq!(measured(&uri, &read)["unallocated_bytes"], 4 << 20);
}

#[test]
fn the_page_cache_is_reported_bypassed_and_dropped() {
    let image = Image::new(&["nvm:16M"]);
    let path = image.file("blocks", &vec![0; 1 << 20]);
    let embedded = image.uri("");
    let load = ["--rw", "randread", "--bs", "4K", "--count", "10"];
    let cache = |uri: &str, args: &[&str]| {
        let row = measured(uri, &[load.as_slice(), args].concat());
        (row["cache"].as_str().unwrap().to_owned(), row["invalidated"].as_bool().unwrap())
    };
    assert_eq!(cache(&path, &[]), ("page-cache".into(), false));
    assert_eq!(cache(&path, &["--invalidate"]), ("page-cache".into(), true));
    assert_eq!(cache(&embedded, &["--invalidate"]), ("page-cache".into(), true));
    assert_eq!(cache("ram:64M?ns=2", &[]), ("none".into(), false));
    assert_eq!(cache("nil:1G", &[]), ("none".into(), false));
    let text = |uri: &str, args: &[&str]| said(&[&["perf", uri], load.as_slice(), args].concat());
    assert!(text(&path, &[]).contains("through the page cache: --direct goes past it"));
    assert!(
        text(&embedded, &["--invalidate"])
            .contains("through the page cache, which was synced and dropped before")
    );
    assert!(!text("nil:1G", &[]).contains("page cache"));
    // File systems without O_DIRECT refuse it by a sentence.
    let direct = byway().args(["perf", &path, "--direct", "--json"]).args(load).output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&direct.stdout), String::from_utf8_lossy(&direct.stderr));
    match direct.status.code() {
        Some(0) => assert_eq!(json_lines(&out)[0]["cache"], "direct"),
        _ => assert!(said.contains("cannot be opened past the page cache"), "{said}"),
    }
}

#[test]
fn invalidate_drops_pages_that_were_dirty() {
    const STEP: u64 = 1 << 20;
    // Not in memory: of a file there, nothing is dropped.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("blocks");
    std::fs::write(&path, vec![7; 32 * STEP as usize]).unwrap();
    let load = ["--rw", "randread", "--bs", "4K", "--count", "1", "--invalidate"];
    said(&[&["perf", path.to_str().unwrap()], load.as_slice()].concat());
    let file = std::fs::File::open(&path).unwrap();
    let is_cached = |place: &u64| {
        let mut block = [0; 512];
        let into = &mut [std::io::IoSliceMut::new(&mut block)];
        rustix::io::preadv2(&file, into, place * STEP, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
    };
    let cached = (0..32).filter(is_cached).count();
    assert!(cached < 8, "of 32 pages, {cached} are in the page cache");
}

#[test]
fn impossible_measurement_is_refused_in_a_sentence() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let (blocks, pairs) = (image.uri("ns=2"), image.uri("ns=1"));
    let file = image.file("blocks", &vec![0; 1 << 20]);
    let keys_alone = Image::new(&[]);
    let only_pairs = keys_alone.uri("");
    for (uri, args, word) in [
        (&blocks, ["--rw", "read", "--depth", "0"].as_slice(), "depth of 0"),
        (&blocks, &["--rw", "read", "--depth", "70000"], "--depth of 70000"),
        (&blocks, &["--rw", "read", "--bs", "1000"], "blocks of 512 bytes"),
        (&blocks, &["--rw", "read", "--bs", "0"], "blocks of 512 bytes"),
        (&blocks, &["--rw", "read", "--bs", "1G"], "one command"),
        (&blocks, &["--rw", "read", "--offset", "100"], "blocks of 512 bytes"),
        (&blocks, &["--rw", "read", "--offset", "32M"], "--offset"),
        (&blocks, &["--rw", "read", "--length", "32M"], "--length"),
        (&blocks, &["--rw", "read", "--length", "1K"], "no room"),
        (&blocks, &["--rw", "read", "--mix", "50"], "--mix means nothing"),
        (&blocks, &["--rw", "randrw", "--mix", "101"], "101"),
        (&blocks, &["--rw", "read", "--keys", "5"], "--keys means nothing"),
        (&blocks, &["--rw", "read", "--fill"], "--fill means nothing"),
        (&blocks, &["--rw", "trim", "--verify"], "--verify means nothing"),
        (&blocks, &["--rw", "trim", "--parts", "2"], "--parts means nothing"),
        (&blocks, &["--rw", "read", "--parts", "3"], "3 equal --parts"),
        (&blocks, &["--rw", "trim", "--memory", "prepared"], "--memory means nothing"),
        (&blocks, &["--rw", "read", "--wait", "call", "--depth", "2"], "one command at a time"),
        (&blocks, &["--rw", "read", "--batch", "2"], "--batch of 2"),
        (&blocks, &["--rw", "read", "--time", "0"], "time of 0"),
        (&blocks, &["--rw", "read", "--time", "soon"], "seconds"),
        (&blocks, &["--rw", "read", "--cpus", "1023", "--count", "1"], "processor 1023"),
        (&blocks, &["--rw", "read", "--cpus", "x"], "0,2-3"),
        (&blocks, &["--rw", "read", "--threads", "1024", "--count", "1"], "--threads"),
        (&blocks, &["--rw", "put"], "no key-value namespace"),
        (
            &pairs,
            &["--rw", "randread"],
            "--rw get, put or putget: namespace 1 is no block namespace, it is kv",
        ),
        (
            &only_pairs,
            &["--rw", "read"],
            "--rw get, put or putget: the device has no block namespace; it has 1 (kv)",
        ),
        (&blocks, &["--rw", "get"], "--rw read, write, randread, randwrite or randrw: "),
        (&pairs, &["--rw", "get", "--bs", "4K"], "--bs means nothing"),
        (&pairs, &["--rw", "get", "--direct"], "--direct is of files"),
        (&"nil:1G".to_owned(), &["--rw", "read", "--direct"], "--direct opens a file"),
        (&"ram:64M?ns=2".to_owned(), &["--rw", "read", "--invalidate"], "--invalidate drops"),
        (&pairs, &["--rw", "put", "--value-bytes", "1G"], "values of up to"),
        (&file, &["--rw", "get"], "no key-value namespace"),
    ] {
        let error = refused(2, &[&["perf", uri], args].concat());
        assert!(error.contains(word) && !error.contains("panicked"), "{args:?}: {error}");
    }
}

#[test]
fn an_interrupted_load_prints_what_was_measured() {
    let child = Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(["perf", "nil:1G", "--rw", "randread", "--depth", "8", "--time", "600", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Long enough to have begun, far too short to end.
    await_work(child.id(), 30);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let row = json_lines(&String::from_utf8_lossy(&output.stdout))[0].clone();
    assert!(row["interrupted"] == true && ops(&row, "read") > 0, "{row}");
}

#[test]
fn repeated_load_prints_the_median_and_range_of_its_runs() {
    let load = ["--rw", "randrw", "--count", "1000", "--depth", "4", "--threads", "2", "--repeat", "3"];
    let row = measured("null-backend:1G", &load);
    let runs = row["runs"].as_array().unwrap();
    assert_eq!((row["repeat"].as_u64(), runs.len(), row.get("threads")), (Some(3), 3, None));
    for run in runs {
        assert_eq!(ops(run, "read") + ops(run, "write"), 2000, "{row}");
        assert_eq!(run["threads"].as_array().unwrap().len(), 2, "{row}");
    }
    for figure in ["/iops", "/mib_per_s", "/cpu_us_per_op", "/read/iops", "/read/latency_ns/p99"] {
        let of = |row: &Value| row.pointer(figure).unwrap().as_f64().unwrap();
        let mut figures: Vec<f64> = runs.iter().map(of).collect();
        figures.sort_by(f64::total_cmp);
        assert_eq!([of(&row["min"]), of(&row), of(&row["max"])], figures[..], "{figure}: {row}");
    }
    let text = said(&[&["perf", "null-backend:1G"], &load[..]].concat());
    for words in ["3 runs of ", "median read", "min read", "max write", " to "] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

#[test]
fn repeated_load_of_keys_fills_them_once_and_counts_missing_ones_of_all_runs() {
    let image = Image::new(&["kv:16M"]);
    let get = ["--rw", "get", "--keys", "50", "--count", "100", "--repeat", "2"];
    let output = byway().args(["perf", &image.uri(""), "--json"]).args(get).output().unwrap();
    let row = json_lines(&String::from_utf8(output.stdout).unwrap())[0].clone();
    assert_eq!((output.status.code(), row["missing_keys"].as_u64()), (Some(1), Some(200)), "{row}");
    let row = measured(&image.uri(""), &[&get[..], &["--fill"]].concat());
    assert_eq!((ops(&row["min"], "read"), row.get("missing_keys")), (100, None), "{row}");
}

#[test]
fn repeated_load_is_refused_where_there_is_one_run() {
    let error = refused(2, &["perf", "nil:1G", "--rw", "read", "--repeat", "2", "--log", "run"]);
    assert!(error.contains("leave out --repeat"), "{error}");
    let error = refused(2, &["perf", "--compare", "a", "--compare", "b", "--repeat", "2"]);
    assert!(error.contains("does not exist"), "{error}");
    assert!(refused(2, &["perf", "nil:1G", "--rw", "read", "--repeat", "0"]).contains("--repeat"));
}

#[test]
fn list_of_depths_runs_the_load_once_at_each() {
    for option in ["--depth", "--iodepth"] {
        let row = measured("null-backend:1G", &["--rw", "randread", "--count", "500", option, "1,32"]);
        let depths = row["depths"].as_array().unwrap();
        let of = |row: &Value| (row["depth"].as_u64(), ops(row, "read"));
        assert_eq!(depths.iter().map(of).collect::<Vec<_>>(), [(Some(1), 500), (Some(32), 500)], "{row}");
    }
    let load = ["--rw", "randread", "--count", "500", "--depth", "1,32", "--repeat", "2"];
    let row = measured("null-backend:1G", &load);
    let repeats = row["depths"].as_array().unwrap().iter().map(|of| of["repeat"].as_u64());
    assert_eq!(repeats.collect::<Vec<_>>(), [Some(2), Some(2)], "{row}");
    let text = said(&[&["perf", "null-backend:1G"], &load[..]].concat());
    for words in ["randread 4 KiB, depth 1, 32, 1 thread on", "depth 1 median read", "depth 32 max read"] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

#[test]
fn list_of_depths_is_refused_with_a_wrong_one_and_with_a_log() {
    for (depths, words) in [("1,", "--depth"), ("1,0", "depth of 0"), ("1,many", "many")] {
        let error = refused(2, &["perf", "nil:1G", "--rw", "read", "--count", "9", "--depth", depths]);
        assert!(error.contains(words), "{depths}: {error}");
    }
    let error = refused(2, &["perf", "nil:1G", "--rw", "read", "--depth", "1,2", "--log", "run"]);
    assert!(error.contains("give one --depth"), "{error}");
}

#[test]
fn null_backend_has_the_name_of_its_scheme() {
    for uri in
        ["null-backend:1G", "nil:1G", "null-backend:1G?backend=null-backend", "null-backend:1G?backend=nil"]
    {
        let row = measured(uri, &["--rw", "read", "--count", "9"]);
        assert_eq!(row["backend"], "null-backend", "{row}");
        assert!(said(&["perf", uri, "--rw", "read", "--count", "9"]).contains(" by null-backend, "));
    }
    let error = refused(2, &["perf", "null-backend:1G?backend=psync", "--rw", "read"]);
    assert!(error.contains("is served by null-backend, not by"), "{error}");
}
