//! What controllers answer, from outside: identify structures, log pages, features, commands passed through.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{Image, byway, json_lines, refused, said};

/// The path of a new file of a mebibyte.
fn blocks(folder: &Path) -> String {
    let path = folder.join("blocks");
    std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn identify_controller_is_printed_as_text_and_json() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let text = said(&["identify", &image.uri(""), "controller"]);
    for words in ["model", "longest transfer", "compare, dataset management", "Byway", "2.1.0"] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
    let json = &json_lines(&said(&["identify", &image.uri(""), "0x01", "--json"]))[0];
    assert!(json["mdts_bytes"].as_u64().unwrap() >= 4096);
    assert_eq!(json["sqes_bytes"], 64);
    assert!(json["byway_methods"].as_array().unwrap().contains(&"inline".into()));
}

#[test]
fn a_namespace_is_described_by_its_command_set() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let json = |args: &[&str]| json_lines(&said(args))[0].clone();
    let kv = json(&["identify", &image.uri(""), "namespace", "--json"]);
    assert_eq!((kv["nsze_bytes"].as_u64(), kv["kvf0_key_max_bytes"].as_u64()), (Some(16 << 20), Some(16)));
    let nvm = json(&["identify", &image.uri("ns=2"), "namespace", "--json"]);
    assert_eq!((nvm["nsze_bytes"].as_u64(), nvm["lbaf0_bytes"].as_u64()), (Some(16 << 20), Some(512)));
    let list = json(&["identify", &image.uri(""), "namespaces", "--json"]);
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert!(said(&["identify", &image.uri(""), "descriptors", "--ns", "1"]).contains("Key Value"));
    assert!(said(&["identify", &image.uri(""), "command-sets"]).contains("NVM, Key Value"));
}

#[test]
fn a_structure_is_written_as_its_bytes_are() {
    let image = Image::new(&[]);
    let raw = byway().args(["identify", &image.uri(""), "controller", "--raw"]).assert().success();
    assert_eq!(raw.get_output().stdout.len(), 4096);
    let file = image.dir.path().join("controller.bin");
    let path = file.to_str().unwrap();
    said(&["identify", &image.uri(""), "controller", "--file", path]);
    assert_eq!(std::fs::read(&file).unwrap(), raw.get_output().stdout);
    let error = refused(2, &["identify", &image.uri(""), "controller", "--file", path]);
    assert!(error.contains("controller.bin") && error.contains("exists"), "{error}");
}

#[test]
fn unsupported_pages_and_features_are_reported() {
    let image = Image::new(&[]);
    let uri = &image.uri("");
    for args in [
        ["identify", uri, "0x04"].as_slice(),
        &["log", uri, "self-test"],
        &["log", uri, "0x09"],
        &["feature", "get", uri, "0x0c"],
        &["feature", "set", uri, "0x1d", "--value", "1"],
    ] {
        let error = refused(2, args);
        assert!(error.contains("is not supported by this controller"), "{args:?}: {error}");
    }
}

#[test]
fn admin_command_without_a_controller_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = blocks(dir.path());
    for uri in [file.as_str(), "nil:1M"] {
        for args in [
            ["identify", uri, "controller"].as_slice(),
            &["log", uri, "smart"],
            &["feature", "get", uri, "arbitration"],
            &["pass", "admin", uri, "--opcode", "0x06", "--data-len", "4096"],
            &["format", uri, "--ns", "1", "--yes"],
            &["sanitize", uri, "--yes"],
        ] {
            let error = refused(2, args);
            assert!(error.contains("no controller that takes admin commands"), "{args:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn option_create_is_refused_by_commands_that_read() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(2, &["info", &format!("{}?create=1M", dir.path().join("blocks").display())]);
    assert!(error.contains("option create") && error.contains("reads"), "{error}");
}

#[test]
fn health_counts_what_was_done_to_the_device() {
    let image = Image::new(&["nvm:16M"]);
    byway().args(["nvm", "write", &image.uri("")]).write_stdin(vec![7; 1 << 20]).assert().success();
    let smart = &json_lines(&said(&["log", &image.uri(""), "smart", "--json"]))[0];
    assert!(smart["power_cycles"].as_u64().unwrap() >= 2, "{smart}");
    assert_eq!(smart["critical_warning"].as_array().unwrap().len(), 0);
    assert!(smart["written_bytes"].as_u64().unwrap() >= 1 << 20, "{smart}");
    assert!(said(&["log", &image.uri(""), "smart"]).contains("°C"));
}

#[test]
fn every_log_page_that_a_controller_lists_is_printed() {
    let image = Image::new(&[]);
    let pages = &json_lines(&said(&["log", &image.uri(""), "pages", "--json"]))[0];
    let pages = pages.as_array().unwrap();
    assert!(pages.len() > 8);
    for page in pages {
        let lid = page["lid"].as_u64().unwrap().to_string();
        said(&["log", &image.uri(""), &lid]);
        json_lines(&said(&["log", &image.uri(""), &lid, "--json"]));
    }
    let effects = said(&["log", &image.uri(""), "effects", "--csi", "kv"]);
    assert!(effects.contains("Store") && effects.contains("content"), "{effects}");
    assert_eq!(said(&["log", &image.uri(""), "smart", "--length", "16"]).lines().count(), 2);
    assert!(refused(2, &["log", &image.uri(""), "smart", "--length", "6"]).contains("multiple of 4"));
}

#[test]
fn features_are_listed_read_and_set() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let uri = &image.uri("");
    let features = json_lines(&said(&["feature", "list", uri, "--json"]))[0].clone();
    let named = |name: &str| features.as_array().unwrap().iter().find(|row| row["name"] == name).cloned();
    assert!(named("Arbitration").is_some() && named("Write Atomicity Normal").is_some());
    assert!(named("Flexible Data Placement").is_none());
    let said_of = named("Key Value Configuration").unwrap();
    assert_eq!(said_of["current"], 0, "{said_of}");
    let queues = &json_lines(&said(&["feature", "get", uri, "number-of-queues", "--json"]))[0];
    assert!(queues["nsq"].as_u64().unwrap() > 1);
    let can = said(&["feature", "get", uri, "volatile-write-cache", "--select", "supported"]);
    assert!(can.contains("changeable") && can.contains("no"), "{can}");
    let set = said(&["feature", "set", uri, "temperature-threshold", "--value", "0x160"]);
    assert!(set.contains("79 °C"), "{set}");
    let error = refused(2, &["feature", "set", uri, "arbitration", "--value", "1", "--save"]);
    assert!(error.contains("Not Saveable"), "{error}");
    assert!(refused(2, &["feature", "get", uri, "colour"]).contains("arbitration"));
}

#[test]
fn any_admin_command_passes_through() {
    let image = Image::new(&[]);
    let (uri, out) = (image.uri(""), image.dir.path().join("identify.bin"));
    let identify = ["pass", "admin", &uri, "--opcode", "0x06", "--cdw10", "1", "--data-len", "4096"];
    let text = said(&identify);
    assert!(text.starts_with("success, dw0 0x00000000") && text.contains("Byway"), "{text}");
    let mut to_file = identify.to_vec();
    to_file.extend(["--output", out.to_str().unwrap()]);
    assert_eq!(said(&to_file).lines().count(), 1);
    let wanted = byway().args(["identify", &uri, "controller", "--raw"]).output().unwrap().stdout;
    assert_eq!(std::fs::read(out).unwrap(), wanted);
    let queues = ["pass", "admin", &uri, "--opcode", "0ah", "--cdw10", "7", "--json", "--timeout", "60000"];
    let queues = json_lines(&said(&queues));
    assert!(queues[0]["dw0"].as_u64().unwrap() > 0);
    let error = refused(2, &["pass", "admin", &uri, "--opcode", "0xff", "--data-len", "8", "--read"]);
    assert!(error.contains("Invalid Command Opcode"), "{error}");
}

#[test]
fn any_io_command_passes_through_a_device_and_a_file() {
    let image = Image::new(&["nvm:16M"]);
    let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let input = image.file("input", &bytes);
    let file = blocks(image.dir.path());
    for (index, uri) in [image.uri(""), file].into_iter().enumerate() {
        said(&["pass", "io", &uri, "--opcode", "1", "--cdw10", "8", "--cdw12", "7", "--input", &input]);
        let read = ["pass", "io", &uri, "--opcode", "2", "--cdw10", "8", "--cdw12", "7", "--data-len", "4K"];
        for parts in ["1", "3"] {
            let out = image.dir.path().join(format!("out-{index}-{parts}"));
            let mut args = read.to_vec();
            args.extend(["--parts", parts, "--timeout", "60000", "--output", out.to_str().unwrap()]);
            said(&args);
            assert_eq!(std::fs::read(out).unwrap(), bytes, "{uri} in {parts} parts");
        }
        said(&["pass", "io", &uri, "--opcode", "0"]);
        let error = refused(2, &["pass", "io", &uri, "--opcode", "2", "--cdw12", "7", "--data-len", "512"]);
        assert!(error.contains("512"), "{error}");
    }
}

#[test]
fn a_command_whose_data_makes_no_sense_is_refused_before_it_is_sent() {
    let image = Image::new(&["nvm:16M"]);
    let input = image.file("input", &[1; 512]);
    let uri = &image.uri("");
    for (args, word) in [
        (["--opcode", "1"].as_slice(), ""),
        (&["--opcode", "1", "--data-len", "512"], "--input"),
        (&["--opcode", "2", "--read"], "--data-len"),
        (&["--opcode", "1", "--input", &input, "--data-len", "1024"], "1024"),
        (&["--opcode", "2", "--data-len", "512", "--input", &input, "--read"], "--read"),
        (&["--opcode", "3", "--data-len", "512"], "--read or --write"),
        (&["--opcode", "0x100"], "8 bits"),
        (&["--opcode", "2", "--data-len", "512", "--parts", "1000"], "256"),
    ] {
        let mut all = vec!["pass", "io", uri];
        all.extend(args);
        let error = refused(2, &all);
        assert!(error.contains(word), "{args:?}: {error}");
    }
}

#[test]
fn a_list_has_namespaces_and_why_a_device_was_not_opened() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let uri = image.uri("");
    let (text, _) = partly(&["list", &uri, "nil:1G", "/no/such/device"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[1].contains("kv") && lines[2].contains("nvm") && lines[3].contains("1 GiB"), "{text}");
    assert!(
        lines[4].contains("/no/such/device") && lines[4].ends_with("/no/such/device does not exist"),
        "{text}"
    );
    let (json, _) = partly(&["list", &uri, "/no/such/device", "--json"]);
    let json = json_lines(&json)[0].clone();
    assert_eq!(json[0]["namespaces"][1]["block_bytes"], 512);
    assert_eq!(json[1]["error"], "open /no/such/device: /no/such/device does not exist");
    said(&["list"]);
}

#[test]
fn a_list_of_what_does_not_exist_is_an_error() {
    let image = Image::new(&["kv"]);
    let uri = image.uri("");
    assert_eq!(partly(&["list", "/nope"]).1, "byway: 1 of 1 devices could not be opened\n");
    let report = json_lines(&partly(&["list", "/nope", &uri, "--json"]).1).remove(0);
    assert_eq!(report["error"], "1 of 2 devices could not be opened");
    said(&["list", &uri, "nil:1G"]);
}

/// What a command that did a part of what was asked printed, and what it said of the rest.
fn partly(args: &[&str]) -> (String, String) {
    let output = byway().args(args).assert().code(2).get_output().clone();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_format_keeps_the_blocks_or_gives_them_a_size_that_the_namespace_can_have() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let (uri, path) = (image.uri(""), image.path());
    let block_bytes = || {
        let info = json_lines(&said(&["info", &uri, "--json"]))[0].clone();
        info["namespaces"][1]["block_bytes"].as_u64().unwrap()
    };
    said(&["format", &uri, "--ns", "2", "--block-bytes", "4096", "--yes"]);
    assert_eq!(block_bytes(), 4096);
    said(&["format", path.to_str().unwrap(), "--ns", "2", "--quick", "--yes"]);
    assert_eq!(block_bytes(), 4096);
    let error = refused(2, &["format", &uri, "--ns", "2", "--block-bytes", "1K", "--yes"]);
    assert!(error.contains("512, 4096"), "{error}");
    said(&["kv", "put", &uri, "k", "v"]);
    said(&["sanitize", &uri, "--yes"]);
    assert_eq!(said(&["kv", "list", &uri]), "");
    assert!(refused(2, &["sanitize", &uri, "--crypto", "--yes"]).contains("bit 0 of its SANICAP"));
}
