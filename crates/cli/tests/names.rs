//! Devices as the command line names them: by a path or a URI, first, with the namespace by `--ns`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, byway, json_lines, refused, said};

/// What a command that must succeed said on standard error.
fn talk(args: &[&str]) -> String {
    let output = byway().args(args).assert().success().get_output().stderr.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn path_of_an_image_is_the_device_in_it_for_every_command() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    said(&["kv", "put", &path, "key", "value"]);
    assert_eq!(said(&["kv", "get", &path, "key"]), "value");
    assert_eq!(said(&["kv", "get", &image.uri(""), "key"]), "value");
    let block = image.file("block", &[7; 512]);
    said(&["nvm", "write", &path, "--file", &block]);
    assert_eq!(said(&["nvm", "read", &format!("{path}?ns=2"), "--length", "512"]).len(), 512);
    for args in [
        ["info", &path].as_slice(),
        &["list", &path],
        &["identify", &path],
        &["log", &path, "smart"],
        &["feature", "get", &path, "number-of-queues"],
        &["pass", "admin", &path, "--opcode", "0x06", "--cdw10", "1", "--data-len", "4096"],
        &["perf", &path, "--rw", "get", "--fill", "--keys", "10", "--count", "10"],
        &["bench", "traffic", &path, "--sizes", "32", "--count", "1"],
        &["top", &path, "--once", "--interval", "0.1"],
        &["kv", "count", &path],
        &["nvm", "flush", &path],
        &["format", &path, "--ns", "1", "--quick", "--yes"],
        &["sanitize", &path, "--yes"],
    ] {
        said(args);
    }
}

#[test]
fn path_of_a_file_is_its_bytes_as_blocks_with_or_without_a_folder() {
    let image = Image::new(&[]);
    image.file("blocks.bin", &[1; 4096]);
    let run = |args: &[&str]| {
        let output = byway().current_dir(image.dir.path()).args(args).assert().success().get_output().clone();
        output.stdout
    };
    assert_eq!(run(&["nvm", "read", "blocks.bin", "--length", "1K"]), vec![1; 1024]);
    assert_eq!(run(&["nvm", "read", "./blocks.bin?lba=4K", "--length", "4K"]), vec![1; 4096]);
    run(&["dd", "blocks.bin", "copy.bin"]);
    assert_eq!(std::fs::read(image.dir.path().join("copy.bin")).unwrap(), vec![1; 4096]);
}

#[test]
fn copy_of_an_image_asks_whether_its_device_or_its_bytes_are_meant() {
    let image = Image::new(&["nvm:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    let error = refused(2, &["dd", &path, "-"]);
    assert!(
        error.contains(&format!("embedded:{path}")) && error.contains(&format!("file:{path}")),
        "{error}"
    );
}

#[test]
fn namespace_is_named_by_ns_in_every_command_in_every_spelling() {
    let image = Image::new(&["kv:16M", "nvm:16M", "nvm:16M"]);
    let path = image.path().to_str().unwrap().to_owned();
    let block = image.file("block", &[7; 512]);
    said(&["nvm", "write", &path, "--ns", "3", "--file", &block]);
    for spelling in [["--ns", "3"], ["-n", "3"], ["--namespace-id", "3"], ["-n", "0x3"]] {
        let read = [&["nvm", "read", &path, "--length", "512"], &spelling[..]].concat();
        assert_eq!(said(&read), "\u{7}".repeat(512), "{spelling:?}");
        said(&[&["identify", &path, "namespace"], &spelling[..]].concat());
        let sent = ["pass", "io", &path, "--opcode", "2", "--data-len", "512"];
        assert!(said(&[&sent, &spelling[..]].concat()).contains("07 07"), "{spelling:?}");
    }
    let error = refused(2, &["kv", "list", &path, "--ns", "2"]);
    assert!(error.contains("namespace 2"), "{error}");
    let error = refused(2, &["nvm", "flush", &format!("{path}?ns=2"), "--ns", "3"]);
    assert!(error.contains("given twice"), "{error}");
}

#[test]
fn what_a_name_is_taken_for_is_said_by_info_uri_and_verbose() {
    let image = Image::new(&[]);
    let (path, file) = (image.path().to_str().unwrap().to_owned(), image.file("blocks.bin", &[0; 4096]));
    let uri = format!("embedded:{path}");
    assert!(said(&["info", &path]).starts_with(&format!("{uri}: a Byway device in an image file\n")));
    let info = &json_lines(&said(&["info", &file, "--json"]))[0];
    assert_eq!(
        (&info["uri"], &info["taken_as"]),
        (&file.as_str().into(), &"a file, whose bytes are the blocks".into())
    );
    let taken = talk(&["-v", "kv", "put", &path, "key", "value"]);
    assert_eq!(taken, format!("byway: {path} is taken as {uri}, a Byway device in an image file\n"));
    assert_eq!(
        talk(&["nvm", "flush", &file, "-v"]),
        format!("byway: {file} is a file, whose bytes are the blocks\n")
    );
    let names =
        &json_lines(&said(&["uri", &path, "ramdisk:1M", "tcp://10.0.0.1/nqn.2026-11.example:a", "--json"]))
            [0];
    assert_eq!((&names[0]["name"], &names[0]["uri"]), (&path.as_str().into(), &uri.as_str().into()));
    assert_eq!(names[1]["taken_as"], "blocks in memory");
    assert_eq!(names[2]["taken_as"], "an NVMe/TCP controller");
    assert!(refused(2, &["uri", "no-such-image"]).contains("no file of that name is here"));
}

#[test]
fn help_groups_commands_and_explains_uris_in_one_place() {
    let (help, long) = (said(&["-h"]), said(&["--help"]));
    for heading in [
        "\nDevices:\n",
        "\nKeys and values:\n",
        "\nBlocks:\n",
        "\nServing:\n",
        "\nImages, each the file of one SSD in software:\n",
        "\nTools:\n",
    ] {
        assert!(help.contains(heading) && long.contains(heading), "{heading}");
    }
    let uris = said(&["help", "uri"]);
    for text in ["embedded:PATH", "tcp://HOST[:PORT]/NQN", "readonly=1|0", "dhchap-secret=SECRET", "%3F"] {
        assert!(uris.contains(text), "{text}");
        assert!(!long.contains(&format!("  {text}")), "{text}");
    }
    assert!(said(&["uri"]).contains("dhchap-secret=SECRET"));
    assert!(said(&["kv", "put", "--help"]).contains("byway help uri"));
}
