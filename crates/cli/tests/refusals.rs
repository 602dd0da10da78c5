//! Commands that are refused: arguments, URIs, sizes and memory.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, byway, refused, said};

#[test]
fn failed_opening_is_reported_with_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    let error = refused(2, &["create", &format!("{folder}/none/e.img"), "--size", "64M"]);
    assert!(error.contains(&format!("{folder}/none does not exist")), "{error}");
    assert!(refused(2, &["info", &format!("embedded:{folder}")]).contains("directory"));
    assert!(refused(2, &["check", folder]).contains("directory"));
    let nope = format!("{folder}/nope");
    assert_eq!(refused(2, &["info", &nope]), format!("byway: open {nope}: {nope} does not exist\n"));
    let image = Image::new(&[]);
    let piece = image.file("piece", &std::fs::read(image.path()).unwrap()[..100]);
    let error = refused(2, &["info", &format!("embedded:{piece}")]);
    assert!(error.contains("100 bytes of at least 4096"), "{error}");
}

#[test]
fn a_namespace_of_keys_takes_no_size_of_blocks() {
    let image = Image::new(&["kv:16M"]);
    let path = image.path();
    let error =
        refused(2, &["format", path.to_str().unwrap(), "--ns", "1", "--block-bytes", "4096", "--yes"]);
    assert!(error.contains("--block-bytes"), "{error}");
}

#[test]
fn impossible_arguments_are_refused_in_one_sentence_with_the_limit() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    for (args, words) in [
        (vec!["kv", "put", &uri, "a-key-of-17-bytes", "v"], vec!["16"]),
        (vec!["kv", "put", &uri, "", "v"], vec!["key", "1"]),
        (vec!["info", "embedded:no/such.img"], vec!["no/such.img"]),
        (vec!["info", "carrier-pigeon:disk"], vec!["embedded"]),
        (
            vec!["create", "/tmp/byway-never.img", "--size", "64M", "--profile", "nope"],
            vec!["cosmos", "gen5x8-cxl"],
        ),
        (vec!["create", "/tmp/byway-never.img", "--size", "64M", "--ns", "kv:1G"], vec!["1 GiB", "64 MiB"]),
        (vec!["bench", "transfer", "--mps", "100"], vec!["128", "4096"]),
        (vec!["bench", "transfer", "--link", "gen9x9"], vec!["gen4x4"]),
        (vec!["bench", "transfer", "--methods", "warp"], vec!["piggyback-pt", "byte-store"]),
    ] {
        let error = refused(2, &args);
        for word in words {
            assert!(error.contains(word), "{args:?} said: {error}");
        }
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn usual_mistakes_are_refused_in_one_sentence_with_the_expected_form() {
    let image = Image::new(&["kv"]);
    let (uri, path) = (image.uri(""), image.path().display().to_string());
    let folder = image.dir.path().to_str().unwrap();
    let blocks = image.file("blocks", &[0; 4096]);
    let socket = format!("{folder}/none/socket");
    for (args, words) in [
        (vec!["info", "ram:12q"], vec!["ram:12q: ", "\"12q\" is no size"]),
        (vec!["info", "ram:64M?cache=12q"], vec!["option cache=12q"]),
        (vec!["info", &format!("vfio-user:{blocks}")], vec!["is a regular file", "socket of a server"]),
        (vec!["info", &format!("vfio-user:{folder}")], vec!["is a directory", "socket of a server"]),
        (vec!["info", &format!("vfio-user:{socket}")], vec!["no socket", "is the server started?"]),
        (vec!["info", "nosuch"], vec!["no file of that name", "embedded:PATH"]),
        (vec!["feature", "list", &blocks], vec!["no controller"]),
        (vec!["pass", "io", &blocks, "--opcode", "0x99"], vec!["opcode 99h"]),
        (vec!["identify", &uri, "0x99"], vec!["identify structure 99h is not supported"]),
        (vec!["kv", "get", &blocks, "k"], vec!["no key-value namespace", "1 (nvm)"]),
        (vec!["kv", "load", &uri, folder], vec!["is a directory"]),
        (vec!["kv", "export", &uri, "--file", &blocks], vec!["exists already and is left as it is"]),
        (vec!["kv", "put", &uri, "k", "--file", &socket], vec!["no folder for"]),
        (vec!["kv", "list", &uri, "--limit", "many"], vec!["\"many\" is no number"]),
        (vec!["dd", &blocks, &socket], vec!["no folder for"]),
        (vec!["dd", &blocks, &format!("{folder}/new"), "--bs", "0"], vec!["moves nothing"]),
        (vec!["format", &path, "--ns", "0", "--yes"], vec!["begin at 1"]),
        (vec!["serve", "nil:1M", "--vfio-user", &socket], vec!["nil:1M", "an image's path"]),
        (vec!["serve", &path, "--vfio-user", &socket], vec!["no folder for"]),
    ] {
        let error = refused(2, &args);
        words.iter().for_each(|word| assert!(error.contains(word), "{args:?} said: {error}"));
        let said_by_debug = ["Command {", "None", "Some(", "Opcode(", "Buffer("];
        assert!(said_by_debug.iter().all(|form| !error.contains(form)), "{args:?} said: {error}");
        assert!(
            error.lines().count() == 1 || error.starts_with("error: invalid value"),
            "{args:?} said: {error}"
        );
    }
}

#[test]
fn unknown_options_and_values_of_a_uri_list_the_known_ones() {
    let image = Image::new(&[]);
    for (option, word) in [
        ("transfer=warp", "cxl+piggyback"),
        ("colour=red", "transfer"),
        ("clock=later", "virtual"),
        ("profile=x", "gen5x4"),
        ("ns=9", "9"),
    ] {
        let error = refused(2, &["kv", "list", &image.uri(option)]);
        assert!(error.contains(word), "{option}: {error}");
    }
}

#[test]
fn a_bench_refuses_an_option_that_would_do_nothing() {
    let said = refused(2, &["bench", "transfer", "--alpha", "3", "--count", "1", "--sizes", "32"]);
    assert!(said.contains("--policy threshold"), "{said}");
}

#[test]
fn a_command_that_moved_names_the_new_one() {
    for (old, new) in [
        (["bench", "kv", "--count", "9"].as_slice(), "byway-lab kv"),
        (&["bench", "endurance"], "byway-lab endurance"),
        (&["bench", "workload", "--workloads", "M"], "byway-lab workload"),
        (&["bench", "calibrate"], "byway-lab calibrate"),
        (&["report", "out", "--full"], "byway-lab report"),
    ] {
        let error = refused(2, old);
        assert!(error.contains(new) && error.lines().count() == 1, "{old:?} said: {error}");
    }
}

#[test]
fn memory_that_the_machine_does_not_have_is_refused() {
    let image = Image::new(&["kv", "nvm"]);
    said(&["kv", "put", &image.uri(""), "key", "value"]);
    for uri in [image.uri("cache=900T"), image.uri("memtable=900T"), "ram:64M?cache=900T".to_owned()] {
        let error = refused(2, &["kv", "get", &uri, "key"]);
        assert!(error.contains("this machine has") && error.lines().count() == 1, "{error}");
    }
    assert_eq!(said(&["kv", "get", &image.uri(""), "key"]), "value");
}

#[test]
fn sizes_beyond_any_memory_are_refused_in_a_sentence() {
    let image = Image::new(&["nvm"]);
    let uri = image.uri("");
    let beyond: [&[&str]; 8] = [
        &["info", "ram:4000000T"],
        &["info", "ram:900T?prefault=on"],
        &["info", "null:4000000T"],
        &["info", "blocks:4000000T"],
        &["info", "nil:8000000T?depth=99999"],
        &["pass", "io", "--opcode", "0x02", "--read", "--data-len", "4294967295", &uri],
        &["perf", "--rw", "read", "--bs", "4000000T", "blocks:64M"],
        &["create", "beyond.img", "--size", "4000000T"],
    ];
    for args in beyond {
        let output = byway().args(args).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.starts_with("byway: ") || error.starts_with("error: "), "{args:?}: {error}");
    }
}

/// Runs a command in so little address space; its exit code, none where a signal ended it, and what it said.
fn in_address_space(kib: u32, args: &[&str]) -> (Option<i32>, String) {
    let program = assert_cmd::cargo::cargo_bin("byway");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kib}; exec \"$@\""), "sh"]).arg(program).args(args);
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn address_space_that_is_short_is_an_error_and_loses_nothing() {
    let image = Image::new(&["kv", "nvm"]);
    said(&["kv", "put", &image.uri(""), "key", "value"]);
    let (mut refusals, mut stored) = (0, 0);
    // The program itself needs the first 100 MB, symbols and all.
    for mib in (100..900).step_by(25) {
        let (code, error) = in_address_space(mib << 10, &["kv", "put", &image.uri(""), "key", "value"]);
        match code {
            Some(0) => stored += 1,
            Some(2) => refusals += u32::from(error.contains("address space") || error.contains("memory")),
            other => panic!("{mib} MiB: {other:?}: {error}"),
        }
    }
    assert!(refusals > 0 && stored > 0, "{refusals} refused, {stored} stored");
    let (path, made) = (image.path().display().to_string(), image.dir.path().join("made.img"));
    for mib in (100..400).step_by(50) {
        let (code, error) = in_address_space(mib << 10, &["check", &path]);
        assert!(matches!(code, Some(0 | 2)), "check in {mib} MiB: {code:?}: {error}");
        let (code, error) = in_address_space(mib << 10, &["create", made.to_str().unwrap(), "--size", "64M"]);
        let is_said = if code == Some(0) { "" } else { "is made, and" };
        assert!(matches!(code, Some(0 | 2)), "create in {mib} MiB: {code:?}: {error}");
        assert!(!made.exists() || error.contains(is_said), "{mib} MiB: {error}");
        let _ = std::fs::remove_file(&made);
    }
    for mib in [78, 90, 100, 150, 200, 300, 500, 700] {
        for args in [&["info", "null:900T"][..], &["kv", "import", &image.uri(""), "/dev/zero"]] {
            let (code, error) = in_address_space(mib << 10, args);
            assert_eq!((code, error.lines().count()), (Some(2), 1), "{args:?} in {mib} MiB: {error}");
        }
    }
    let (code, error) =
        in_address_space(300 << 10, &["kv", "get", &image.uri("cache=1M&memtable=1M"), "key"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(said(&["kv", "get", &image.uri(""), "key"]), "value");
}
