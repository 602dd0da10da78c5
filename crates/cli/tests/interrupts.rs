//! Ctrl-C in long work on images: it ends soon, with 130, and says what is left.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Image, said};
use rustix::process::{Pid, Signal, kill_process};

/// Interrupts a command once it has a file open, and gives what it said. It has to end with 130.
fn interrupted(args: &[&str], is_it: impl Fn(&Path) -> bool) -> String {
    let (code, said) = ended(args, is_it);
    assert_eq!(code, Some(130), "{args:?}: {said}");
    said
}

/// The same with whatever code.
fn ended(args: &[&str], is_it: impl Fn(&Path) -> bool) -> (Option<i32>, String) {
    let program = assert_cmd::cargo::cargo_bin("byway");
    let mut child =
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !has_open(child.id(), &is_it) {
        assert_eq!(child.try_wait().unwrap(), None, "{args:?} has ended before anybody could interrupt it");
        std::thread::sleep(Duration::from_millis(1));
    }
    // By no other process, which takes a while to begin.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn has_open(pid: u32, is_it: impl Fn(&Path) -> bool) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|name| is_it(&name)))
}

/// Whether a descriptor is of a file in this folder that has no name there, or a temporary one.
fn is_unnamed_in(folder: &Path) -> impl Fn(&Path) -> bool {
    move |name| {
        let file = name.file_name().unwrap_or_default().to_string_lossy();
        name.parent() == Some(folder) && (file.starts_with('#') || file.starts_with('.'))
    }
}

fn names_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// An image with so much data that copying, checking or emptying it takes a while.
fn filled() -> (Image, String) {
    let image = Image::sized("512M", &["nvm:400M"]);
    let data = image.file("data", &vec![0x5a; 128 << 20]);
    said(&["nvm", "write", &image.uri(""), "--file", &data]);
    std::fs::remove_file(data).unwrap();
    let path = image.path().to_str().unwrap().to_owned();
    (image, path)
}

#[test]
fn an_interrupted_resize_leaves_the_image_closed_as_it_was() {
    let (image, path) = filled();
    let error = interrupted(&["resize", &path, "2G"], is_unnamed_in(image.dir.path()));
    assert!(error.contains("as it was"), "{error}");
    assert_eq!(names_in(image.dir.path()), 1);
    assert!(said(&["info", "-v", &image.uri("")]).contains("0 unsafe shutdowns"));
}

#[test]
fn an_interrupted_snapshot_leaves_nothing_of_the_copy() {
    let (image, path) = filled();
    let copy = image.dir.path().join("copy");
    let (code, error) = ended(&["snapshot", &path, copy.to_str().unwrap()], is_unnamed_in(image.dir.path()));
    // A file system that shares blocks makes the copy too fast for an interruption.
    assert!(code == Some(130) || copy.exists(), "{error}");
    assert!(error.contains("nothing is left") != copy.exists(), "{error}");
    assert_eq!(names_in(image.dir.path()), 1 + usize::from(copy.exists()));
}

#[test]
fn an_interrupted_sanitize_is_finished_by_the_next_opening() {
    let (image, path) = filled();
    let error = interrupted(&["sanitize", &path, "--overwrite", "3", "--yes"], |name| name == image.path());
    assert!(error.contains("next opened"), "{error}");
    let read = said(&["nvm", "read", &image.uri(""), "--length", "512"]);
    assert!(read.bytes().all(|byte| byte == 0));
}

#[test]
fn an_interrupted_check_ends_at_once() {
    let (image, path) = filled();
    let error = interrupted(&["check", &path], |name| name == image.path());
    assert!(error.contains("as it was"), "{error}");
    said(&["check", &path]);
}

#[test]
fn an_interrupted_warm_up_reports_nothing() {
    let image = Image::new(&["kv:16M"]);
    let (uri, report) = (image.uri(""), image.dir.path().join("report"));
    let load = ["perf", &uri, "--rw", "put", "--warmup", "600", "--report", report.to_str().unwrap()];
    let error = interrupted(&load, |name| name == image.path());
    assert!(error.contains("nothing was measured"), "{error}");
    assert!(!report.join("report.html").exists());
}

#[test]
fn interrupted_read_of_a_pipe_without_a_writer_ends_at_once() {
    let image = Image::new(&["kv:16M", "nvm:16M"]);
    let (pipe, uri) = (image.dir.path().join("pipe"), image.uri(""));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let path = pipe.to_str().unwrap();
    for args in [
        &["kv", "put", &uri, "key", "--file", path][..],
        &["kv", "import", &uri, path],
        &["kv", "load", &uri, path],
        &["nvm", "write", &uri, "--file", path],
    ] {
        let error = interrupted(args, |name| name == pipe);
        assert!(error.contains("interrupted; "), "{args:?}: {error}");
    }
    assert!(said(&["kv", "list", &uri]).is_empty());
    assert!(said(&["info", "-v", &uri]).contains("0 unsafe shutdowns"));
}
