//! Arguments that the command accepts, and its errors for those that it refuses.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Image, byway, refused, said};

fn at(folder: &std::path::Path, args: &[&str]) -> (i32, String) {
    let output = byway().current_dir(folder).args(args).assert().get_output().clone();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn every_command_whose_answer_is_no_exits_with_1() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let (uri, blocks) = (image.uri(""), image.uri("ns=2"));
    let (ones, twos) = (image.file("ones", &[1; 512]), image.file("twos", &[2; 512]));
    let records = image.file("records.tsv", b"key\tvalue\n");
    said(&["nvm", "write", &blocks, "--file", &ones]);
    for args in [
        ["kv", "get", &uri, "missing"].as_slice(),
        &["kv", "exists", &uri, "missing"],
        &["kv", "delete", &uri, "missing"],
        &["nvm", "compare", &blocks, "--file", &twos],
        &["nvm", "compare-and-write", &blocks, "--expected", &twos, "--file", &ones],
        &["kv", "import", &uri, &records, "--compare"],
        // Compare, of blocks that hold something else.
        &["pass", "io", &blocks, "--opcode", "0x05", "--ns", "2", "--input", &twos],
    ] {
        byway().args(args).assert().code(1);
    }
}

#[test]
fn create_with_a_uri_makes_the_image_that_the_uri_names() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let (code, text) = at(folder, &["create", "embedded:z.img", "--size", "64M"]);
    assert!(code == 0 && text.starts_with("embedded:z.img:"), "{text}");
    assert!(folder.join("z.img").exists() && !folder.join("embedded:z.img").exists());
    for uri in ["ram:64M", "file:z2.img", "tcp://host/nqn", "nil:1M", "embedded:z2.img?depth=4"] {
        let (code, text) = at(folder, &["create", uri, "--size", "64M"]);
        assert!(code == 2 && text.contains(uri) && text.lines().count() == 1, "{text}");
    }
    assert_eq!(at(folder, &["check", "embedded:z.img"]).0, 0);
    assert_eq!(at(folder, &["snapshot", "embedded:z.img", "embedded:copy.img"]).0, 0);
    assert_eq!(at(folder, &["resize", "embedded:copy.img", "96M"]).0, 0);
    assert!(folder.join("copy.img").exists());
}

#[test]
fn error_of_arguments_that_nothing_can_read_ends_with_its_exit_code() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let program = assert_cmd::cargo::cargo_bin("byway");
    let ended = std::process::Command::new(program).arg("no\u{1b}[2Jcommand").stderr(full).status().unwrap();
    assert_eq!(ended.code(), Some(2));
}

#[test]
fn copy_into_a_file_whose_name_looks_like_an_option_makes_the_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bytes"), vec![7; 1 << 20]).unwrap();
    let (code, text) = at(dir.path(), &["dd", "./bytes", "./create=1.img"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(std::fs::read(dir.path().join("create=1.img")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn image_whose_name_has_a_question_mark_is_made_and_opened_alike() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    assert_eq!(at(folder, &["create", "x?y.img", "--size", "64M"]).0, 0);
    assert!(folder.join("x?y.img").exists());
    assert_eq!(at(folder, &["kv", "put", "embedded:x?y.img", "key", "value"]), (0, String::new()));
    assert_eq!(at(folder, &["kv", "get", "embedded:x%3Fy.img?depth=7", "key"]), (0, "value".to_owned()));
    assert_eq!(at(folder, &["check", "x?y.img"]).0, 0);
    let (code, text) = at(folder, &["create", "x?y=1.img", "--size", "64M"]);
    assert!(code == 2 && text.contains("embedded:x%3Fy=1.img"), "{text}");
    assert_eq!(at(folder, &["create", "embedded:x%3Fy=1.img", "--size", "64M"]).0, 0);
    assert!(folder.join("x?y=1.img").exists());
    assert_eq!(at(folder, &["kv", "list", "embedded:x%3Fy=1.img"]), (0, String::new()));
}

#[test]
fn size_is_read_alike_wherever_one_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for (index, size) in ["64M", "64m", "64MB", "64mib", "64MiB", "65536K", "0.0625G"].into_iter().enumerate()
    {
        let image = format!("{index}.img");
        let (code, text) = at(folder, &["create", &image, "--size", size, "--ns", &format!("kv:{size}")]);
        assert!(code == 0 && text.contains(" 64 MiB of profile"), "{text}");
        for uri in [format!("ram:{size}"), format!("embedded:{image}?cache={size}&memtable={size}")] {
            let (code, text) = at(folder, &["info", &uri]);
            assert!(code == 0, "{text}");
        }
    }
    for size in ["64X", "1.5", "64 M", "-64M", "64MM", ""] {
        let mut refusals = vec![
            at(folder, &["create", "never.img", &format!("--size={size}")]),
            at(folder, &["create", "never.img", "--size", "64M", "--ns", &format!("kv:{size}")]),
            at(folder, &["resize", "0.img", "--ns", &format!("2:{size}"), "64M"]),
            at(folder, &["info", &format!("ram:{size}")]),
            at(folder, &["info", &format!("embedded:0.img?cache={size}")]),
            at(folder, &["tdm", "recover", "--region", &format!("emu:x?size={size}")]),
            at(folder, &["dd", "0.img", "copy", &format!("--count={size}")]),
            at(folder, &["tdm", "serve", &format!("--log-size={size}")]),
        ];
        let why = if size == "1.5" {
            "is no whole number of bytes"
        } else {
            "is no size: expected a number of bytes"
        };
        refusals.retain(|(code, text)| *code != 2 || !text.contains(&format!("{size:?} {why}")));
        assert!(refusals.is_empty(), "{size}: {refusals:?}");
    }
}

#[test]
fn depth_over_the_limit_is_refused_with_the_same_limit_everywhere() {
    let image = Image::new(&["nvm:16M"]);
    let file = image.file("blocks", &[0; 4096]);
    for device in [image.uri(""), "nil:1M".to_owned(), file.clone()] {
        let deepest = ["perf", &device, "--rw", "read", "--bs", "512", "--depth", "65535", "--count", "1"];
        let deepest = byway().args(deepest).output().unwrap();
        assert!(deepest.status.success(), "{device}: {}", String::from_utf8_lossy(&deepest.stderr));
        for depth in ["65536", "99999"] {
            let error = refused(2, &["perf", &device, "--rw", "read", "--depth", depth, "--count", "1"]);
            assert!(error.contains(depth) && error.contains(" 65535 "), "{device}: {error}");
            let error = refused(2, &["dd", &device, "-", "--depth", depth]);
            assert!(error.contains(depth) && error.contains(" 65535 "), "{device}: {error}");
            let mark = if device.contains('?') { '&' } else { '?' };
            let error = refused(2, &["info", &format!("{device}{mark}depth={depth}")]);
            assert!(error.contains(depth) && error.contains(" 65535 "), "{device}: {error}");
        }
    }
}

#[test]
fn negative_numbers_are_refused_as_such() {
    let negative: [&[&str]; 7] = [
        &["perf", "nil:1G", "--rw", "randread", "--depth", "-5"],
        &["perf", "nil:1G", "--rw", "randread", "--count", "-5"],
        &["perf", "nil:1G", "--rw", "randread", "--bs", "-5"],
        &["create", "a.img", "--size", "-5"],
        &["kv", "list", "ram:64M", "--limit", "-5"],
        &["kv", "list", "ram:64M", "--limit=-5"],
        &["feature", "set", "ram:64M", "arbitration", "--value", "-5"],
    ];
    for args in negative {
        let error = refused(2, args);
        assert!(error.contains("invalid value '-5' for '--"), "{args:?}: {error}");
        assert!(error.contains("tip: numbers and sizes are positive"), "{args:?}: {error}");
    }
    let error = refused(2, &["create", "a.img", "--size", "-5M"]);
    assert!(error.contains("tip: numbers and sizes are positive"), "{error}");
}

#[test]
fn feature_with_data_is_not_set_without_input() {
    let error = refused(2, &["feature", "set", "ram:64M", "timestamp", "--value", "7"]);
    assert!(error.contains("takes data of 8 bytes: give it by --input"), "{error}");
    said(&["feature", "set", "ram:64M", "arbitration", "--value", "7"]);
}

#[test]
fn namespace_whose_unit_is_missing_is_refused_with_what_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img").to_str().unwrap().to_owned();
    for (ns, said) in [
        ("kv:64", "is kv:64M meant?"),
        ("nvm:64", "is nvm:64M meant?"),
        ("kv:1M", "is too small; the least is 2112 KiB"),
    ] {
        let error = refused(2, &["create", &path, "--size", "64M", "--ns", ns]);
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn file_of_a_server_that_is_wrong_is_named_with_the_line_in_plain_words() {
    let image = Image::new(&[]);
    for (text, why) in [
        ("{\n\"subsystems\": 5}", "line 2, byte 15: a list is expected, not the integer 5"),
        ("{}", "the name \"subsystems\" is missing"),
        ("{\"subsystems\": [], \"allow\": 1}", "the name \"allow\" is not known here"),
        ("{", "ends before it is complete"),
    ] {
        let file = image.file("config.json", text.as_bytes());
        let error = refused(2, &["serve", "--config", &file, "--tcp", "127.0.0.1:0"]);
        assert!(error.contains(&file) && error.contains(why), "{error}");
    }
}

/// The command as `make install` lays it out, with a library that the loader passes over.
fn installed(library: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let prefix = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (program, library) = (prefix.path().join("bin/byway"), prefix.path().join(library));
    for file in [&program, &library] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    }
    std::fs::hard_link(byway().get_program(), &program).unwrap();
    std::fs::write(library, "").unwrap();
    (prefix, program)
}

#[test]
fn tdm_run_finds_the_library_where_make_install_puts_it() {
    for library in ["lib/byway/libbyway_tdm.so", "lib/libbyway_tdm.so", "bin/libbyway_tdm.so"] {
        let (prefix, program) = installed(library);
        let mut run = std::process::Command::new(&program);
        let socket = prefix.path().join("socket");
        run.args(["tdm", "run", "--socket"]).arg(socket).args(["--", "sh", "-c", "echo $LD_PRELOAD"]);
        let output = run.env_remove("BYWAY_TDM_LIBRARY").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let preloaded = String::from_utf8(output.stdout).unwrap();
        let found = std::fs::canonicalize(preloaded.trim_end()).unwrap();
        assert_eq!(found, std::fs::canonicalize(prefix.path().join(library)).unwrap());
    }
}

#[test]
fn make_installs_and_uninstalls_what_the_products_need() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let asked = |target: &str| {
        let mut make = std::process::Command::new("make");
        let output =
            make.current_dir(&root).args(["-n", target, "PREFIX=/opt/x", "DESTDIR=/stage"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let (install, uninstall) = (asked("install"), asked("uninstall"));
    for built in ["-p byway-cli", "-p byway-c", "-p byway-tdm-interpose", "-p byway-lab"] {
        assert!(install.contains(built), "{built} is not built:\n{install}");
    }
    for package in install.split("-p ").skip(1).filter_map(|rest| rest.split_whitespace().next()) {
        let known = std::process::Command::new("cargo")
            .current_dir(&root)
            .args(["pkgid", "-q", package])
            .output()
            .unwrap();
        assert!(known.status.success(), "{package}: {known:?}");
    }
    for file in [
        "bin/byway",
        "bin/byway-lab",
        "lib/byway/libbyway_tdm.so",
        "lib/libbyway.a",
        "lib/pkgconfig/byway.pc",
        "include/byway.h",
        "share/bash-completion/completions/byway",
        "share/zsh/site-functions/_byway",
        "share/fish/vendor_completions.d/byway.fish",
        "share/bash-completion/completions/byway-lab",
        "share/zsh/site-functions/_byway-lab",
        "share/fish/vendor_completions.d/byway-lab.fish",
    ] {
        let file = format!("/stage/opt/x/{file}");
        assert!(install.contains(&file), "{file} is not installed:\n{install}");
        assert!(uninstall.contains(&file), "{file} is not uninstalled:\n{uninstall}");
    }
}

#[test]
fn feature_with_a_value_that_is_refused_says_which_values_there_are() {
    let image = Image::new(&["kv:16M"]);
    let uri = image.uri("");
    for (feature, value, words) in [
        ("number-of-queues", "0xffffffff", "each 0 to 65534"),
        ("power-management", "5", "a power state that the controller has"),
        ("temperature-threshold", "0x000f0000", "bits 19:16 a sensor"),
        ("temperature-threshold", "0x00020160", "bits 19:16 a sensor"),
        ("volatile-write-cache", "0", "a cache that can be disabled"),
        ("interrupt-vector", "0xffff", "an interrupt vector that the controller has"),
        ("command-sets", "3", "a combination of command sets"),
        ("methods", "0xffffffff", "of those that the controller announces"),
        ("window", "0xffff", "a submission queue that exists"),
        ("error-recovery", "0x10000", "bit 16 is 1 only where"),
    ] {
        let args = ["feature", "set", &uri, feature, "--value", value];
        let output = byway().args(args).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        if feature == "temperature-threshold" && value == "0x000f0000" {
            assert!(output.status.success(), "all sensors may be meant: {error}");
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{feature}: {error}");
        assert!(error.contains("does not take") && error.contains(words), "{feature}: {error}");
        assert!(!error.contains("not supported by this controller"), "{feature}: {error}");
    }
}
