//! `byway kv`: keys, values and records.
#![allow(clippy::unwrap_used)]

mod common;

use byway::spec::programs::ProgramType;
use byway_link::Method;
use common::server::Server;
use common::{Image, await_work, byway, json_lines, refused, said};
use sha2::{Digest, Sha256};

const RECORDS: &str = "0041;LATIN CAPITAL LETTER A;Lu;0;L;;;;;N;;;;0061;\n\
                       00E9;LATIN SMALL LETTER E WITH ACUTE;Ll;0;L;0065 0301;;;;N;LATIN SMALL LETTER E ACUTE;;00C9;;00C9\n\
                       1F600;GRINNING FACE;So;0;ON;;;;;N;;;;;\n";

#[test]
fn flush_of_a_device_of_keys_alone_succeeds() {
    let image = Image::new(&["kv:16M"]);
    assert_eq!(said(&["kv", "flush", &image.uri("")]), "");
}

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
fn scan_prints_pairs_of_a_range_in_either_order() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    for key in ["pear", "apple", "plum", "fig"] {
        said(&["kv", "put", &uri, key, &format!("a {key}")]);
    }
    assert_eq!(said(&["kv", "scan", &uri, "--from", "b", "--to", "pf"]), "fig\ta fig\npear\ta pear\n");
    assert_eq!(said(&["kv", "scan", &uri, "--reverse", "--keys", "--limit", "2"]), "plum\npear\n");
    assert_eq!(said(&["kv", "scan", &uri, "--prefix", "pl", "--value-bytes", "3"]), "plum\ta p\n");
    let json = json_lines(&said(&["kv", "scan", &uri, "--prefix", "a", "--json"]));
    assert_eq!((&json[0]["key"], &json[0]["value"]), (&"apple".into(), &"a apple".into()));
    assert_eq!(said(&["kv", "count", &uri, "--prefix", "p"]), "2\n");
}

#[test]
fn delete_range_wants_a_range_and_counts_what_it_deletes() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    for key in ["a1", "a2", "b1"] {
        said(&["kv", "put", &uri, key, "value"]);
    }
    assert!(refused(2, &["kv", "delete-range", &uri]).contains("--all"));
    assert_eq!(said(&["kv", "delete-range", &uri, "--prefix", "a", "--dry-run"]), "2\n");
    assert_eq!(said(&["kv", "delete-range", &uri, "--prefix", "a"]), "2\n");
    assert_eq!(said(&["kv", "list", &uri]), "b1\n");
    assert_eq!(said(&["kv", "delete-range", &uri, "--all"]), "1\n");
    assert_eq!(said(&["kv", "count", &uri]), "0\n");
}

#[test]
fn batch_does_all_of_its_lines_or_none() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    said(&["kv", "put", &uri, "order", "open"]);
    let good = image.file("good", b"put\tto\t110\nput\tfrom\t90\ndelete\torder\n");
    said(&["kv", "batch", &uri, &good]);
    assert_eq!(said(&["kv", "scan", &uri]), "from\t90\nto\t110\n");
    let long = [b"delete\tto\nput\tlong\t", &vec![b'x'; 1 << 20][..]].concat();
    let long = image.file("long", &long);
    assert!(refused(2, &["kv", "batch", &uri, &long]).contains("longer than"));
    assert_eq!(said(&["kv", "count", &uri]), "2\n");
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
fn an_import_reports_its_cost_as_json() {
    let image = Image::new(&[]);
    let records = image.file("UnicodeData.txt", RECORDS.as_bytes());
    let uri = image.uri("transfer=inline&clock=virtual");
    let row = &json_lines(&said(&["kv", "import", &uri, &records, "--cost", "--json"]))[0];
    assert_eq!((row["method"].as_str(), row["count"].as_u64()), (Some("inline"), Some(3)));
    assert!(row["payload_bytes"].as_f64().unwrap() > 100.0);
    assert!(row["model_ns_mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn no_progress_bar_is_drawn_without_a_terminal() {
    let image = Image::new(&[]);
    let records = image.file("UnicodeData.txt", RECORDS.as_bytes());
    let output =
        byway().args(["kv", "import", &image.uri(""), &records]).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
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
fn put_whose_condition_fails_exits_with_1_and_stores_nothing() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let error = refused(1, &["kv", "put", &uri, "key", "value", "--if-present"]);
    assert!(error.contains("Does Not Exist"), "{error}");
    refused(1, &["kv", "get", &uri, "key"]);
    said(&["kv", "put", &uri, "key", "first", "--if-absent"]);
    said(&["kv", "put", &uri, "key", "value", "--if-present"]);
    let error = refused(1, &["kv", "put", &uri, "key", "other", "--if-absent"]);
    assert!(error.contains("Exists"), "{error}");
    assert_eq!(said(&["kv", "get", &uri, "key"]), "value");
}

#[test]
fn value_to_an_existing_file_is_refused_and_changes_nothing() {
    let image = Image::new(&[]);
    let (uri, path) = (image.uri(""), image.path());
    said(&["kv", "put", &uri, "key", "value"]);
    let mine = image.file("mine", b"mine");
    let link = image.dir.path().join("link");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    for existing in [&*mine, link.to_str().unwrap(), path.to_str().unwrap()] {
        let error = refused(2, &["kv", "get", &uri, "key", "--file", existing]);
        assert!(error.contains("exists already and is left as it is"), "{error}");
    }
    assert_eq!(std::fs::read(&mine).unwrap(), b"mine");
    assert_eq!(std::fs::read_link(&link).unwrap(), std::path::Path::new(&mine));
    assert_eq!(said(&["kv", "get", &uri, "key"]), "value");
    said(&["check", path.to_str().unwrap()]);
}

#[test]
fn data_that_begins_with_a_hyphen_is_stored_listed_and_deleted() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    said(&["kv", "put", &uri, "-5", "-7"]);
    said(&["kv", "put", &uri, "degrees", "-12.5", "--json"]);
    assert_eq!(said(&["kv", "get", &uri, "-5"]), "-7");
    assert_eq!(said(&["kv", "get", &uri, "degrees"]), "-12.5");
    assert_eq!(said(&["kv", "list", &uri, "--prefix", "-"]), "-5\n");
    assert_eq!(said(&["kv", "list", &uri, "--from", "-5"]), "-5\ndegrees\n");
    said(&["kv", "put", &uri, "--", "--key", "--value"]);
    assert_eq!(said(&["kv", "get", &uri, "--", "--key"]), "--value");
    said(&["kv", "delete", &uri, "-5"]);
    for args in [&["key", "--if-absnt"][..], &["--if-absnt", "--", "v"]] {
        let error = refused(2, &[&["kv", "put", &uri][..], args].concat());
        assert!(error.contains("no option --if-absnt"), "{error}");
    }
    refused(1, &["kv", "get", &uri, "key"]);
}

#[test]
fn line_that_is_no_record_is_named_with_how_many_records_are_stored() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    for (name, text, why) in [
        (
            "a.jsonl",
            "{\"key\":\"a\",\"value\":\"1\"}\n{\"kee\":\"b\"}\n",
            "the name \"kee\" is not known here",
        ),
        (
            "b.jsonl",
            "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\": 5}\n",
            "a string is expected, not the integer 5",
        ),
        ("c.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\nkey=5\n", "this is not JSON"),
        (
            "f.jsonl",
            "{\"key\":\"a\",\"value\":\"1\"}\n[\"b\",null,\"2\",null]\n",
            "a record is an object such as {\"key\": \"a\", \"value\": \"b\"}; this is a list",
        ),
        ("d.tsv", "a\t1\nno tab here\n", "no tab"),
        ("e.tsv", "a\t1\na key of 17 bytes\t1\n", "key of 17 bytes is over the limit of 16"),
    ] {
        let file = image.file(name, text.as_bytes());
        let error = refused(2, &["kv", "import", &uri, &file, "--cost"]);
        assert!(
            error.contains("nothing is stored") && error.contains("line 2: ") && error.contains(why),
            "{error}"
        );
        refused(1, &["kv", "get", &uri, "a"]);
        let error = refused(2, &["kv", "import", &uri, &file]);
        assert!(
            error.contains("1 record is stored") && error.contains("line 2: ") && error.contains(why),
            "{error}"
        );
        said(&["kv", "delete", &uri, "a"]);
        for word in ["field", "column", "expected value", "EOF", "invalid type"] {
            assert!(!error.contains(word), "{error}");
        }
    }
}

#[test]
fn record_that_the_device_refuses_is_named_with_how_many_records_are_stored() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    let text = format!("a\t1\nb\t2\nc\t{}\nd\t4\n", "x".repeat(2 << 20));
    let file = image.file("records.tsv", text.as_bytes());
    for (options, place) in [(&["--cost"][..], "record 3: "), (&[], "line 3: ")] {
        let error = refused(2, &[&["kv", "import", &uri, &file], options].concat());
        assert!(error.contains("2 records are stored") && error.contains(place), "{error}");
        assert_eq!(said(&["kv", "list", &uri]), "a\nb\n");
        said(&["kv", "delete", &uri, "a"]);
        said(&["kv", "delete", &uri, "b"]);
    }
}

#[test]
fn imports_that_store_nothing_say_so_in_the_same_words() {
    let image = Image::new(&["kv:16M"]);
    let file = image.file("records.tsv", b"no tab here\n");
    let uri = image.uri("");
    for args in [
        &["kv", "import", &uri, &file][..],
        &["kv", "load", &uri, &file],
        &["kv", "import", &uri, &file, "--cost"],
    ] {
        let error = refused(2, args);
        assert!(error.contains(", of which nothing is stored: line 1: "), "{error}");
    }
}

/// CRC-32C of "123456789", of the catalogue of parametrised CRC algorithms.
const CRC: [u8; 8] = [0x83, 0x92, 0x06, 0xe3, 0, 0, 0, 0];

#[test]
fn program_of_the_device_runs_over_a_value_and_its_output_is_printed() {
    let image = Image::new(&[]);
    let uri = image.uri("exec=1:crc32c");
    said(&["kv", "put", &uri, "key", "123456789"]);
    let printed = |more: &[&str]| {
        let args = [&["kv", "exec", &uri, "key"], more].concat();
        byway().args(args).assert().success().get_output().clone()
    };
    for program in ["crc32c", "3", "0x3"] {
        assert_eq!(printed(&[program]).stdout, CRC, "{program}");
    }
    let cut = printed(&["crc32c", "--max-output-bytes", "2"]);
    assert_eq!(cut.stdout, CRC[..2]);
    assert_eq!(cut.stderr, b"byway: the output has 8 bytes, of which 2 were taken\n");
    let line = "{\"key\":\"key\",\"program\":3,\"output_bytes\":8,\"output_hex\":\"839206e300000000\"}\n";
    assert_eq!(said(&["kv", "exec", &uri, "key", "crc32c", "--json"]), line);
    assert_eq!(
        said(&["kv", "exec", &uri, "--hex", "6b6579", "crc32c", "--json"]),
        line.replace("\"key\":\"key\"", "\"key_hex\":\"6b6579\"")
    );
    let file = image.dir.path().join("crc");
    let into = ["kv", "exec", &uri, "key", "crc32c", "--output", file.to_str().unwrap()];
    assert_eq!(said(&into), "");
    assert_eq!(std::fs::read(&file).unwrap(), CRC);
    assert!(refused(2, &into).contains("exists already"));
}

/// `output[0] = value[1]; output[1] = input[0]; return 2`.
const MIX: [u8; 72] = [
    0x79, 0x16, 0, 0, 0, 0, 0, 0, 0x71, 0x67, 1, 0, 0, 0, 0, 0, 0x79, 0x18, 32, 0, 0, 0, 0, 0, 0x73, 0x78, 0,
    0, 0, 0, 0, 0, 0x79, 0x16, 16, 0, 0, 0, 0, 0, 0x71, 0x67, 0, 0, 0, 0, 0, 0, 0x73, 0x78, 1, 0, 0, 0, 0, 0,
    0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn loaded_program_runs_over_a_value_by_its_number_with_an_input() {
    let image = Image::new(&[]);
    let socket = image.dir.path().join("socket").display().to_string();
    let digest: String = Sha256::digest(MIX).iter().map(|byte| format!("{byte:02x}")).collect();
    let served = format!("{}?exec=1:{digest}", image.path().display());
    let _server = Server::start(&[&served, "--vfio-user", &socket]);
    let uri = format!("vfio-user:{socket}?inline-read=on");
    {
        let device = byway::open(&uri).unwrap();
        let mut programs = device.programs(device.create_programs().unwrap()).unwrap();
        programs.load(5, ProgramType::EBPF, Some(77), &MIX).unwrap();
        programs.activate(5).unwrap();
    }
    said(&["kv", "put", &uri, "key", "value"]);
    assert_eq!(said(&["kv", "exec", &uri, "key", "77", "--input-hex", "2121"]), "a!");
    let input = image.file("input", b"?");
    assert_eq!(said(&["kv", "exec", &uri, "key", "77", "--input", &input]), "a?");
    let by_stdin =
        byway().args(["kv", "exec", &uri, "key", "0x4d", "--input", "-"]).write_stdin("+").assert();
    by_stdin.success().stdout("a+");
    let json = &json_lines(&said(&["kv", "exec", &uri, "key", "77", "--input", &input, "--json"]))[0];
    assert_eq!((&json["program"], &json["output"]), (&77.into(), &"a?".into()));
    let error = refused(2, &["kv", "exec", &uri, "key", &digest]);
    assert!(error.contains("the number that it was loaded with"), "{error}");
    let error = refused(2, &["kv", "exec", &uri, "key", "crc32c"]);
    assert!(error.contains("not in the namespace's list of allowed programs"), "{error}");
    let error = refused(2, &["kv", "exec", &uri, "key", "78"]);
    assert!(error.contains("no activated program has the operation"), "{error}");
}

#[test]
fn exec_that_cannot_be_done_says_why() {
    let image = Image::new(&[]);
    let (uri, allowing) = (image.uri(""), image.uri("exec=1:crc32c"));
    said(&["kv", "put", &uri, "key", "value"]);
    assert!(refused(1, &["kv", "exec", &allowing, "other", "crc32c"]).contains("there is no key \"other\""));
    for (args, words) in [
        ([&uri, "key", "crc32c"].as_slice(), ["exec=", "run program 3"].as_slice()),
        (&[&allowing, "key", "crc32c", "--input-hex", "01"], &["a parameter or range"]),
        (&[&allowing, "key", "crc16"], &["crc16", "decompress"]),
        (&[&allowing, "key", "crc32c", "--input-hex", "1"], &["hexadecimal"]),
        (&[&allowing, "key", "crc32c", "--input", "/nonexistent"], &["/nonexistent"]),
        (&[&allowing, "key", "crc32c", "--max-output-bytes", "2M"], &["more bytes of output"]),
        (&[&allowing, "key", "crc32c", "--max-output-bytes", "17M"], &["at most 16M"]),
    ] {
        let error = refused(2, &[&["kv", "exec"], args].concat());
        words.iter().for_each(|word| assert!(error.contains(word), "{args:?} said: {error}"));
    }
}
