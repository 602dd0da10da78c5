//! The commands, from outside: what they print and what they keep.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, byway, json_lines, refused, said};

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
    assert!(text.contains("a scan sends Scan, a get of many keys Retrieve Many"), "{text}");
    assert_eq!(json["pair_operations"]["scan"], "Scan");
    assert_eq!(json["pair_operations"]["atomic_batch"], "Store Many");
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
fn completions_offer_commands_in_bash_and_fish() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, asks) in [
        (
            "bash",
            r#"source "$0"; COMP_WORDS=(byway kv ""); COMP_CWORD=2; _byway byway "" kv; printf '%s\n' "${COMPREPLY[@]}""#,
        ),
        ("fish", r#"source $argv[1]; complete -C "byway kv ""#),
    ] {
        if !byway_conformance::skips::has(shell, "completions_offer_commands_in_bash_and_fish") {
            continue;
        }
        let file = dir.path().join(shell);
        std::fs::write(&file, said(&["gen", "completions", shell])).unwrap();
        let output = std::process::Command::new(shell).arg("-c").arg(asks).arg(&file).output().unwrap();
        let offered = String::from_utf8(output.stdout).unwrap();
        for command in ["put", "delete-range", "import"] {
            assert!(
                offered.lines().any(|line| line.split('\t').next() == Some(command)),
                "{shell}: {offered}"
            );
        }
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
