//! The commands, from outside: what they print, what they keep, and how they refuse.
#![allow(clippy::unwrap_used)]

mod common;

use byway_link::Method;
use common::{Image, await_work, byway, json_lines, refused, said};

const RECORDS: &str = "0041;LATIN CAPITAL LETTER A;Lu;0;L;;;;;N;;;;0061;\n\
                       00E9;LATIN SMALL LETTER E WITH ACUTE;Ll;0;L;0065 0301;;;;N;LATIN SMALL LETTER E ACUTE;;00C9;;00C9\n\
                       1F600;GRINNING FACE;So;0;ON;;;;;N;;;;;\n";

#[test]
fn value_is_read_by_the_next_process() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    said(&["kv", "put", &uri, "sensor-7", "21.5"]);
    assert_eq!(said(&["kv", "get", &uri, "sensor-7"]), "21.5");
    said(&["kv", "exists", &uri, "sensor-7"]);
    said(&["kv", "delete", &uri, "sensor-7"]);
    assert!(refused(1, &["kv", "get", &uri, "sensor-7"]).contains("sensor-7"));
    assert_eq!(refused(1, &["kv", "exists", &uri, "sensor-7"]), "");
}

#[test]
fn a_value_comes_from_an_argument_a_file_or_standard_input() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    said(&["kv", "put", &uri, "file", "--file", &image.file("value", &bytes)]);
    byway().args(["kv", "put", &uri, "stdin"]).write_stdin("from standard input").assert().success();
    let out = image.dir.path().join("out");
    said(&["kv", "get", &uri, "file", "--file", out.to_str().unwrap()]);
    assert_eq!(std::fs::read(out).unwrap(), bytes);
    assert_eq!(said(&["kv", "get", &uri, "stdin"]), "from standard input");
}

#[test]
fn keys_are_listed_in_order_from_a_key_on() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    for key in ["pear", "apple", "plum", "fig"] {
        said(&["kv", "put", &uri, key, "fruit"]);
    }
    assert_eq!(said(&["kv", "list", &uri]), "apple\nfig\npear\nplum\n");
    assert_eq!(said(&["kv", "list", &uri, "--from", "b", "--limit", "2"]), "fig\npear\n");
    assert_eq!(said(&["kv", "list", &uri, "--hex", "--limit", "1"]), "6170706c65\n");
    let json = json_lines(&said(&["kv", "list", &uri, "--json"]));
    assert_eq!(json[0]["key"], "apple");
    assert_eq!(said(&["kv", "list", &uri, "--prefix", "p"]), "pear\nplum\n");
    assert_eq!(said(&["kv", "list", &uri, "--prefix", "p", "--from", "pf"]), "plum\n");
    assert_eq!(said(&["kv", "list", &uri, "--hex", "--prefix", "66"]), "666967\n");
    assert!(refused(2, &["kv", "list", &uri, "--prefix", "a prefix of 18 bytes"]).contains("16"));
}

#[test]
fn records_come_back_whole_by_every_method() {
    let namespaces = ["kv"; Method::ALL.len()];
    let image = Image::new(&namespaces);
    let records = image.file("UnicodeData.txt", RECORDS.as_bytes());
    for (nsid, method) in (1..).zip(Method::ALL) {
        let uri = image.uri(&format!("transfer={method}&ns={nsid}"));
        said(&["kv", "import", &uri, &records]);
        said(&["kv", "import", &uri, &records, "--compare"]);
        assert_eq!(said(&["kv", "export", &uri, "--format", "unicode"]), RECORDS, "{method}");
    }
}

#[test]
fn a_load_names_the_line_that_is_no_record() {
    let image = Image::new(&[]);
    let records = image.file("bad.tsv", b"good\tvalue\nthis key has more than 16 bytes\tvalue\n");
    let error = refused(2, &["kv", "load", &image.uri(""), &records]);
    assert!(error.contains("line 2") && error.contains("16"), "{error}");
}

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
fn a_difference_is_named_and_is_exit_code_1() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let records = image.file("UnicodeData.txt", RECORDS.as_bytes());
    said(&["kv", "import", &uri, &records]);
    said(&["kv", "put", &uri, "00E9", "something else"]);
    said(&["kv", "delete", &uri, "1F600"]);
    let error = refused(1, &["kv", "import", &uri, &records, "--compare"]);
    assert!(error.contains("00E9") && error.contains("1F600"), "{error}");
}

#[test]
fn exported_records_can_be_imported_elsewhere() {
    let (from, to) = (Image::new(&[]), Image::new(&[]));
    said(&["kv", "import", &from.uri(""), &from.file("UnicodeData.txt", RECORDS.as_bytes())]);
    said(&["kv", "put", &from.uri(""), "--hex", "00ff", "binary key"]);
    let exported = said(&["kv", "export", &from.uri("")]);
    byway()
        .args(["kv", "import", &to.uri(""), "-", "--format", "jsonl"])
        .write_stdin(exported.clone())
        .assert()
        .success();
    assert_eq!(said(&["kv", "export", &to.uri("")]), exported);
}

#[test]
fn a_load_stores_what_an_import_does() {
    let image = Image::new(&[]);
    let records = image.file("UnicodeData.txt", RECORDS.as_bytes());
    let loaded = said(&["kv", "load", &image.uri(""), &records]);
    assert!(loaded.contains(&format!("{} records in ", RECORDS.lines().count())), "{loaded}");
    said(&["kv", "import", &image.uri(""), &records, "--compare"]);
}

#[test]
fn an_import_reports_its_figures_as_json() {
    let image = Image::new(&[]);
    let records = image.file("UnicodeData.txt", RECORDS.as_bytes());
    let uri = image.uri("transfer=inline&clock=virtual");
    let row = &json_lines(&said(&["kv", "import", &uri, &records, "--json"]))[0];
    assert_eq!((row["method"].as_str(), row["count"].as_u64()), (Some("inline"), Some(3)));
    assert!(row["payload_bytes"].as_f64().unwrap() > 100.0);
    assert!(row["model_ns_mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn blocks_are_written_read_and_trimmed() {
    let image = Image::new(&["kv", "nvm:16M"]);
    let uri = image.uri("ns=2");
    byway().args(["nvm", "write", &uri, "--offset", "4K"]).write_stdin("hello").assert().success();
    let read = said(&["nvm", "read", &uri, "--offset", "4K", "--length", "512"]);
    assert!(read.starts_with("hello\0") && read.len() == 512);
    said(&["nvm", "flush", &uri]);
    said(&["nvm", "trim", &uri, "--offset", "4K", "--length", "512"]);
    let read = said(&["nvm", "read", &uri, "--offset", "4K", "--length", "512"]);
    assert!(read.bytes().all(|byte| byte == 0));
    assert!(refused(2, &["nvm", "read", &uri, "--offset", "7", "--length", "512"]).contains("512"));
    refused(2, &["nvm", "read", &uri, "--offset", "16M", "--length", "512"]);
}

#[test]
fn a_device_zeroes_verifies_compares_and_copies_by_itself() {
    let image = Image::new(&["kv", "nvm:16M"]);
    let file = image.file("blocks", &vec![0; 4 << 20]);
    let (data, other) = (vec![7; 1 << 20], [vec![7; 70_000], vec![8], vec![7; 1000]].concat());
    let (data, other) = (image.file("data", &data), image.file("other", &other));
    for uri in [image.uri("ns=2"), file] {
        said(&["nvm", "write", &uri, "--file", &data]);
        said(&["nvm", "verify", &uri, "--length", "4M"]);
        said(&["nvm", "verify", &uri, "--length", "1M", "--timeout", "60000"]);
        said(&["nvm", "compare", &uri, "--file", &data]);
        assert!(refused(1, &["nvm", "compare", &uri, "--file", &other]).contains("block 136 differs"));
        said(&["nvm", "copy", &uri, "--length", "1M", "--to", "2M"]);
        said(&["nvm", "compare", &uri, "--offset", "2M", "--file", &data]);
        let overlap = ["nvm", "copy", &uri, "--length", "1M", "--to", "512K"];
        assert!(refused(2, &overlap).contains("runs into itself"));
        said(&["nvm", "zero", &uri, "--offset", "512K", "--length", "1M"]);
        let read = said(&["nvm", "read", &uri, "--offset", "512K", "--length", "512K"]);
        assert!(read.bytes().all(|byte| byte == 0));
        assert!(refused(2, &["nvm", "verify", &uri, "--length", "1G"]).contains("not within"));
    }
}

#[test]
fn a_block_is_written_in_place_of_the_one_that_is_expected() {
    let image = Image::new(&["kv", "nvm:16M"]);
    let uri = image.uri("ns=2");
    let [old, new, long] = [(0, 512), (7, 100), (0, 1024)].map(|(byte, len)| vec![byte; len]);
    let (old, new) = (image.file("old", &old), image.file("new", &new));
    let write = ["nvm", "compare-and-write", &uri, "--offset", "1K", "--expected", &old, "--file", &new];
    said(&write);
    assert!(refused(1, &write).contains("something else stands there"));
    let [block, ..] = said(&["nvm", "read", &uri, "--offset", "1K", "--length", "512"]).into_bytes()[..]
    else {
        panic!("a block")
    };
    assert_eq!(block, 7);
    let long = image.file("long", &long);
    let write = ["nvm", "compare-and-write", &uri, "--expected", &long, "--file", &new];
    assert!(refused(2, &write).contains("1024 bytes are expected, and 512 would be written"));
    let plain = image.file("plain", &[0; 4096]);
    let write = ["nvm", "compare-and-write", &plain, "--expected", &old, "--file", &new];
    assert!(refused(2, &write).contains("does not do the command Compare and Write"));
}

#[test]
fn info_names_profile_namespaces_methods_and_what_an_acknowledgement_means() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let text = said(&["info", &image.uri("")]);
    for word in ["gen4x4", "kv", "nvm", "inline", "cxl+piggyback", "acknowledged", "power"] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
    let json = &json_lines(&said(&["info", &image.uri("profile=cosmos"), "--json"]))[0];
    assert_eq!(json["profile"], "cosmos");
    assert_eq!(json["namespaces"].as_array().unwrap().len(), 2);
}

#[test]
fn info_with_details_reports_space_wear_amplification_and_ages() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let value = image.file("value", &[7; 400_000]);
    // Blocks that are full have an age.
    for _ in 0..6 {
        said(&["kv", "put", &image.uri(""), "key", "--file", &value]);
    }
    let json = &json_lines(&said(&["info", "-v", "--json", &image.uri("")]))[0];
    let inside = &json["inside"];
    for number in [
        &inside["space"]["live_bytes"],
        &inside["space"]["blocks_free"],
        &inside["wear"]["erases_max"],
        &inside["wear"]["available_spare_percent"],
        &inside["write_amplification"],
        &inside["ages"]["oldest_bytes"],
        &inside["power"]["cycles"],
        &inside["power"]["opened_in_ns"],
        &inside["namespaces"][0]["engine"]["replayed_records"],
    ] {
        assert!(number.is_number(), "{inside}");
    }
    assert_eq!(inside["namespaces"][0]["engine"]["keys"], 1);
    let text = said(&["info", "-v", &image.uri("")]);
    for word in ["wear", "amplification", "spare", "unsafe shutdowns"] {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
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
        (vec!["identify", "0x99", &uri], vec!["identify structure 99h is not supported"]),
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
fn an_image_is_never_overwritten() {
    let image = Image::new(&[]);
    said(&["kv", "put", &image.uri(""), "k", "v"]);
    let path = image.path();
    let error = refused(2, &["create", path.to_str().unwrap(), "--size", "64M"]);
    assert!(error.contains("disk.img"), "{error}");
    assert_eq!(said(&["kv", "get", &image.uri(""), "k"]), "v");
}

#[test]
fn an_image_of_a_device_in_memory_is_empty_at_every_opening() {
    let dir = tempfile::tempdir().unwrap();
    for media in ["ram", "null"] {
        let path = dir.path().join(media);
        let path = path.to_str().unwrap();
        said(&["create", path, "--size", "64M", "--media", media, "--ns", "nvm:16M", "--ns", "kv"]);
        let uri = format!("embedded:{path}?ns=1");
        byway().args(["nvm", "write", &uri]).write_stdin("hello").assert().success();
        let read = said(&["nvm", "read", &uri, "--length", "512"]);
        assert!(read.bytes().all(|byte| byte == 0), "{media}");
    }
}

#[test]
fn no_progress_bar_is_drawn_without_a_terminal() {
    let image = Image::new(&[]);
    let records = image.file("UnicodeData.txt", RECORDS.as_bytes());
    let output =
        byway().args(["kv", "import", &image.uri(""), &records]).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The command, started.
fn started(args: &[&str]) -> std::process::Child {
    std::process::Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn closed_output_pipe_is_no_error() {
    let image = Image::new(&[]);
    for key in 0..50 {
        said(&["kv", "put", &image.uri(""), &format!("key{key}"), "v"]);
    }
    for args in [vec!["kv", "list", &image.uri("")], vec!["gen", "completions", "bash"], vec!["gen", "man"]] {
        let mut child = started(&args);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn an_interrupted_import_ends_with_130_and_keeps_what_was_acknowledged() {
    let image = Image::new(&[]);
    let lines: String = (0..0xf_ffff).map(|code| format!("{code:05X};RECORD NUMBER {code}\n")).collect();
    let records = image.file("UnicodeData.txt", lines.as_bytes());
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(["kv", "import", &image.uri("clock=off"), &records])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Long enough to have begun, far too short to end: a million records.
    await_work(child.id(), 50);
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let keys = said(&["kv", "list", &image.uri("")]);
    let last = keys.lines().last().unwrap().to_owned();
    assert!(said(&["kv", "get", &image.uri(""), &last]).starts_with(&last));
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
fn every_command_has_help_with_an_example() {
    for command in [
        vec!["create"],
        vec!["info"],
        vec!["kv", "put"],
        vec!["kv", "import"],
        vec!["nvm", "write"],
        vec!["bench", "transfer"],
        vec!["gen", "man"],
    ] {
        let mut args = command.clone();
        args.push("--help");
        let help = said(&args);
        assert!(help.contains("Example") && help.contains(&format!("byway {}", command.join(" "))), "{help}");
    }
}

#[test]
fn a_key_of_tls_is_made_and_its_identity_is_printed() {
    let image = Image::new(&["kv"]);
    let made = said(&["key", "new", "--tls", "--hash", "sha384"]);
    assert!(made.starts_with("NVMeTLSkey-1:02:"), "{made}");
    let names = ["--host", "nqn.psk-test-host", "--subsystem", "nqn.psk-test-subsys"];
    // The key and the identities of libnvme's own tests.
    let key = b"NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:\n";
    let file = image.file("tls-key", key);
    let identity = |more: &[&str]| said(&[&["key", "identity", &file], &names[..], more].concat());
    let prefix = "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys ";
    assert_eq!(identity(&[]), format!("{prefix}iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=\n"));
    assert_eq!(
        identity(&["--identity", "1-compat"]),
        format!("{prefix}66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=\n")
    );
    let both = identity(&["--identity", "0", "--psk"]);
    let lines: Vec<_> = both.lines().collect();
    assert_eq!((lines[0], lines[1].len()), ("NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys", 64));
    assert!(refused(2, &["key", "new", "--tls", "--hash", "sha512"]).contains("sha256 or sha384"));
    let wrong = image.file("wrong", b"NVMeTLSkey-1:01:VRLbtnN9:");
    let message = refused(2, &[&["key", "identity", &wrong], &names[..]].concat());
    assert!(message.contains("32 or 48 bytes") && !message.contains("VRL"), "{message}");
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
    for mib in (100..700).step_by(25) {
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

/// Ends the terminal's title, clears its screen, and writes upwards.
const HOSTILE: &str = "a\u{1b}]0;title\u{7}\u{1b}[2J\r\u{9b}1A\u{7f}";

fn assert_shown(args: &[&str]) {
    let output = byway().args(args).output().unwrap();
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(bytes);
        let sent = text.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(sent, None, "{args:?}: {text:?}");
    }
}

#[test]
fn control_characters_of_names_are_shown_and_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (image, missing) = (path(&format!("{HOSTILE}.img")), path(&format!("{HOSTILE}.not")));
    let commands: [&[&str]; 11] = [
        &["create", &image, "--size", "64M"],
        &["info", &image],
        &["check", &image],
        &["snapshot", &image, &path(&format!("{HOSTILE}.copy"))],
        &["snapshot", &image, &image],
        &["info", &missing],
        &["kv", "get", &image, HOSTILE],
        &["kv", "put", &image, "key", "--file", &missing],
        &["kv", HOSTILE],
        &["list", &format!("ram:64M?{HOSTILE}=1")],
        &["host", "list", &missing],
    ];
    for args in commands {
        assert_shown(args);
    }
    assert_shown(&["info", &image, "--json"]);
    assert!(refused(2, &["info", &missing]).contains("\\u{1b}[2J"));
}
