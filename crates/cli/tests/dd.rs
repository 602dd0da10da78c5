//! Copies between places of every kind, from outside.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Image, byway, json_lines, refused, said};

/// Bytes that differ everywhere, with zeroes in between.
fn bytes(len: usize) -> Vec<u8> {
    let byte = |index: usize| if index / 65_536 % 3 == 1 { 0 } else { (index * 31 / 7) as u8 };
    (0..len).map(byte).collect()
}

/// What blocks begin with.
fn read(uri: &str, len: usize) -> Vec<u8> {
    let whole = len.next_multiple_of(512).to_string();
    let mut read = byway().args(["nvm", "read", uri, "--length", &whole]).output().unwrap().stdout;
    read.truncate(len);
    read
}

#[test]
fn a_file_of_any_size_arrives_to_the_byte_whatever_the_backend() {
    let image = Image::new(&[]);
    for (index, len) in [0, 1, 511, 512, 4096, 65_535, 65_536, 1_000_003, 3 << 20].into_iter().enumerate() {
        let from = image.file("from", &bytes(len));
        for (other, backend) in ["io_uring", "libaio", "threads", "psync", "posix_aio"].iter().enumerate() {
            if len < 65_536 && other > 0 {
                continue;
            }
            let to = image.dir.path().join(format!("to-{index}-{other}"));
            let [from, to_uri] = [from.clone(), to.display().to_string()]
                .map(|path| if len < 65_536 { path } else { format!("{path}?backend={backend}") });
            said(&["dd", &from, &to_uri, "--bs", "64K", "--depth", "3", "--verify"]);
            assert_eq!(std::fs::read(&to).unwrap(), bytes(len), "{len} bytes by {backend}");
        }
    }
}

#[test]
fn blocks_go_from_a_file_to_a_device_and_back_by_several_threads() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let (data, uri) = (bytes(5_000_001), image.uri("ns=2"));
    let from = image.file("from", &data);
    let text = said(&["dd", &from, &uri, "--jobs", "3", "--verify"]);
    assert!(text.starts_with("5000001 bytes (4.8 MiB)") && text.contains("read back and the same"), "{text}");
    let to = image.dir.path().join("to");
    let to = to.to_str().unwrap();
    let row = json_lines(&said(&["dd", &uri, to, "--count", "5000001", "--jobs", "2", "--json"]))[0].clone();
    assert_eq!((row["bytes"].as_u64(), row["interrupted"].as_bool()), (Some(5_000_001), Some(false)));
    assert_eq!(std::fs::read(to).unwrap(), data);
}

#[test]
fn copy_of_a_partial_block_keeps_the_bytes_around_it() {
    let image = Image::new(&["nvm:16M"]);
    let before = image.file("before", &[7; 8192]);
    let (short, uri) = (image.file("short", &[1; 700]), image.uri(""));
    said(&["dd", &before, &uri]);
    said(&["dd", &short, &uri, "--seek", "512"]);
    let read = read(&uri, 2048);
    assert!(read[..512].iter().all(|byte| *byte == 7) && read[512..1212].iter().all(|byte| *byte == 1));
    assert!(read[1212..].iter().all(|byte| *byte == 7));
    said(&["dd", &short, &before, "--seek", "100"]);
    let file = std::fs::read(&before).unwrap();
    assert!(file.len() == 8192 && file[99..101] == [7, 1] && file[799..801] == [1, 7]);
}

#[test]
fn a_part_is_copied_from_a_byte_to_a_byte() {
    let image = Image::new(&[]);
    let data = bytes(2 << 20);
    let (from, to) = (image.file("from", &data), image.file("to", &[9; 4 << 20]));
    let args = ["--skip", "64K", "--seek", "1M", "--count", "300001", "--bs", "4K", "--depth", "40"];
    said(&[&["dd", &from, &to], args.as_slice()].concat());
    let copied = std::fs::read(&to).unwrap();
    assert_eq!(copied.len(), 4 << 20);
    assert_eq!(copied[1 << 20..(1 << 20) + 300_001], data[65_536..365_537]);
    assert!(copied[..1 << 20].iter().chain(&copied[(1 << 20) + 300_001..]).all(|byte| *byte == 9));
}

#[test]
fn zeroes_are_not_sent_to_a_target_that_reads_as_zeroes() {
    let image = Image::new(&["nvm:16M"]);
    let (data, uri) = (bytes(3 << 20), image.uri(""));
    let from = image.file("from", &data);
    let full = image.file("full", &[0xff; 3 << 20]);
    for to in [uri.as_str(), &full] {
        let args = ["dd", &from, to, "--sparse", "--bs", "64K", "--verify", "--json"];
        let row = json_lines(&said(&args))[0].clone();
        assert_eq!(row["zero_bytes"].as_u64(), Some(1 << 20), "{row}");
    }
    assert_eq!(read(&uri, 3 << 20), data);
    assert_eq!(std::fs::read(full).unwrap(), data);
}

#[test]
fn dd_copies_from_and_to_streams() {
    let image = Image::new(&["nvm:16M"]);
    let (data, uri) = (bytes(1_000_001), image.uri(""));
    let copy = byway().args(["dd", "-", &uri, "--verify"]).write_stdin(data.clone()).assert().success();
    assert!(String::from_utf8_lossy(&copy.get_output().stdout).contains("1000001 bytes"));
    let out = byway().args(["dd", &uri, "-", "--count", "1000001"]).assert().success().get_output().clone();
    assert_eq!(out.stdout, data);
    assert!(String::from_utf8_lossy(&out.stderr).contains("1000001 bytes"));
    let file = image.dir.path().join("new");
    byway().args(["dd", "-", file.to_str().unwrap()]).write_stdin(data.clone()).assert().success();
    assert_eq!(std::fs::read(&file).unwrap(), data);
    let fits_not = byway().args(["dd", "-", &uri]).write_stdin(vec![1; 17 << 20]).assert().code(2);
    let said = String::from_utf8_lossy(&fits_not.get_output().stderr).into_owned();
    assert!(said.contains("16777216"), "{said}");
}

#[test]
fn dd_reads_and_writes_the_nil_device() {
    let image = Image::new(&["nvm:16M"]);
    said(&["dd", "nil:1G", "nil:1G", "--bs", "1M"]);
    said(&["dd", "nil:1G", &image.uri(""), "--count", "8M"]);
    said(&["dd", "ram:64M?ns=2", "nil:1G"]);
}

#[test]
fn impossible_copy_is_refused_in_a_sentence() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let (uri, from) = (image.uri("ns=2"), image.file("from", &bytes(1 << 20)));
    let path = image.path();
    let image_path = path.to_str().unwrap();
    for (args, word) in [
        (vec![from.as_str(), &uri, "--depth", "0"], "depth of 0"),
        (vec![&from, &uri, "--depth", "1000000"], "--depth of 1000000"),
        (vec![&from, &uri, "--jobs", "0"], "0 jobs"),
        (vec![&from, &uri, "--bs", "1000"], "blocks of 512 bytes"),
        (vec![&from, &uri, "--bs", "0"], "blocks of 512 bytes"),
        (vec![&from, &uri, "--bs", "1G"], "one command"),
        (vec![&from, &uri, "--skip", "7"], "--skip"),
        (vec![&from, &uri, "--skip", "2M"], "--skip"),
        (vec![&from, &uri, "--count", "2M"], "--count"),
        (vec![&from, &uri, "--seek", "15.5X"], "15.5X"),
        (vec![&from, &uri, "--seek", "15.5M"], "no room"),
        (vec![&from, &uri, "--seek", "16000K"], "no room"),
        (vec![&from, &uri, "--seek", "1T"], "no room"),
        (vec![&from, &from], "one place"),
        (vec![&from, "-", "--verify"], "read back"),
        (vec![&from, "-", "--seek", "512"], "--seek"),
        (vec![&from, "-", "--jobs", "2"], "--jobs"),
        (vec![&from, image_path], "holds a Byway device"),
        (vec![&image.uri("ns=1"), "nil:1G"], "namespace"),
        (vec!["/no/such/file", &uri], "/no/such/file"),
        (vec![&from, "/no/such/folder/file"], "/no/such/folder/file"),
    ] {
        let error = refused(2, &[&["dd"], args.as_slice()].concat());
        assert!(error.contains(word) && !error.contains("panicked"), "{args:?}: {error}");
    }
}

#[test]
fn a_difference_found_by_reading_back_is_exit_code_1() {
    let image = Image::new(&[]);
    let from = image.file("from", &bytes(1 << 20));
    // Nothing is kept there, so what is read back is whatever the buffers held.
    let null = "null:64M?ns=2";
    let error = refused(1, &["dd", &from, null, "--verify"]);
    assert!(error.contains("differs between byte 0"), "{error}");
}

#[test]
fn an_interrupted_copy_says_how_much_is_there_and_leaves_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let child = Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(["dd", "nil:1T", to.to_str().unwrap(), "--bs", "4K", "--depth", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !std::fs::metadata(&to).is_ok_and(|about| about.len() > 1 << 30) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{error}");
    let there = std::fs::metadata(&to).unwrap().len();
    assert!(error.contains(&format!("--skip {there} --seek {there}")), "{there}: {error}");
    assert!(there < 1 << 40);
    assert!(Path::new(&to).exists());
}

#[test]
fn copy_of_an_idle_stream_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(["dd", "-", to.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"the beginning").unwrap();
    // Until it has taken what there is.
    while !to.exists() || rustix::io::ioctl_fionread(child.stdin.as_ref().unwrap()).unwrap() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(input.take());
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("13 bytes were copied"));
    assert_eq!(std::fs::read(to).unwrap(), b"the beginning");
}

#[test]
fn namespace_of_the_one_device_is_named_by_an_option() {
    let image = Image::new(&["kv:16M", "nvm:16M", "nvm:16M"]);
    let (data, uri) = (image.file("data", &[7; 4096]), image.uri(""));
    said(&["dd", &data, &uri, "--ns", "3"]);
    let out = image.dir.path().join("out").to_str().unwrap().to_owned();
    said(&["dd", &uri, &out, "--ns", "3", "--count", "4K"]);
    assert_eq!(std::fs::read(&out).unwrap(), [7; 4096]);
    let error = refused(2, &["dd", &uri, &uri, "--ns", "2"]);
    assert!(error.contains("here are 2: write ns=2 into the URI of each"), "{error}");
}
