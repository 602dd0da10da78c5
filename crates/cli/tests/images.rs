//! Images and files that commands replace: beside other commands that use them, and beside files of others.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::Permissions;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byway_conformance::skips::skip;
use byway_conformance::users::{UNPRIVILEGED, as_user};
use common::server::Server;
use common::{Image, byway, refused, said};

/// Rounds of a loop; `BYWAY_TEST_ROUNDS` sets more.
fn rounds() -> u64 {
    std::env::var("BYWAY_TEST_ROUNDS").map_or(10, |rounds| rounds.parse().unwrap())
}

/// Whether a command was done; otherwise it has to say that the image is in use.
fn is_done(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("in use"), "{said}");
    output.status.success()
}

/// Puts of one writer, each by a process of its own, until `is_over`; the keys of those that were acknowledged.
fn put_until(uri: &str, writer: u32, is_over: &AtomicBool, acknowledged: &AtomicU64) -> Vec<String> {
    let mut keys = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let key = format!("key-{writer}-{:06}", keys.len());
        if is_done(&byway().args(["kv", "put", uri, &key, "value"]).output().unwrap()) {
            keys.push(key);
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
    keys
}

/// Resizes as often as there are rounds, with a put between each two.
fn resize_beside_puts(path: &str, acknowledged: &AtomicU64) {
    for round in 0..rounds() {
        let before = acknowledged.load(Ordering::Relaxed);
        let size = if round % 2 == 0 { "9M" } else { "8M" };
        while !is_done(&byway().args(["resize", path, size]).output().unwrap()) {}
        while acknowledged.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
    }
}

#[test]
fn puts_of_commands_beside_resizes_are_kept() {
    let image = Image::sized("8M", &[]);
    let (path, uri) = (image.path(), image.uri(""));
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let keys: Vec<String> = std::thread::scope(|scope| {
        let (uri, is_over, acknowledged) = (&uri, &is_over, &acknowledged);
        let writer = |writer| scope.spawn(move || put_until(uri, writer, is_over, acknowledged));
        let writers: Vec<_> = (0..3).map(writer).collect();
        resize_beside_puts(path.to_str().unwrap(), acknowledged);
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    println!("{} resizes, {} puts", rounds(), keys.len());
    let kept = said(&["kv", "list", &uri]);
    let lost: Vec<&String> = keys.iter().filter(|key| !kept.lines().any(|line| line == **key)).collect();
    assert!(lost.is_empty(), "{} of {} lost: {lost:?}", lost.len(), keys.len());
}

/// An image of 32 MiB in a folder where everyone makes files, of user 4711 and group 4712; `None` where there is no other user
/// to be.
fn image_of_another(test: &str) -> Option<Image> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "it is not root");
        return None;
    }
    let image = Image::sized("32M", &[]);
    set_mode(image.dir.path(), 0o777);
    chown(image.path(), Some(4711), Some(4712)).unwrap();
    Some(image)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_resize_that_cannot_keep_the_owner_is_refused_before_any_work() {
    let Some(image) = image_of_another("a_resize_that_cannot_keep_the_owner_is_refused_before_any_work")
    else {
        return;
    };
    let path = image.path();
    set_mode(&path, 0o666);
    let before = path.metadata().unwrap();
    let resize = || byway::resize(&path, 64 << 20, &[], &mut |_, _| ControlFlow::Continue(())).unwrap_err();
    let refused = as_user(UNPRIVILEGED, resize);
    assert_eq!(refused.kind(), byway::ErrorKind::Denied, "{refused}");
    assert!(refused.to_string().contains("belongs to user 4711 and group 4712"), "{refused}");
    let after = path.metadata().unwrap();
    assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()));
    assert_eq!(std::fs::read_dir(image.dir.path()).unwrap().count(), 1);
}

#[test]
fn a_copy_by_another_user_is_open_to_no_other_group() {
    let Some(image) = image_of_another("a_copy_by_another_user_is_open_to_no_other_group") else { return };
    for (mode, left) in [(0o644, 0o644), (0o664, 0o644), (0o606, 0o606)] {
        set_mode(&image.path(), mode);
        let copy = image.dir.path().join(format!("{mode:o}"));
        as_user(UNPRIVILEGED, || byway::snapshot(image.path(), &copy).unwrap());
        let found = copy.metadata().unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid()), (left, UNPRIVILEGED), "{mode:o}");
    }
}

#[test]
fn snapshot_during_a_resize_is_refused_with_the_reason() {
    let image = Image::new(&["nvm:32M"]);
    let data = image.file("data", &vec![7; 4 << 20]);
    let _ = self::said(&["nvm", "write", &image.uri(""), "--file", &data]);
    let (path, copy) = (image.path().to_str().unwrap().to_owned(), image.dir.path().join("copy"));
    let mut said = Vec::new();
    byway::resize(image.path(), 128 << 20, &[], &mut |_, _| {
        if said.is_empty() {
            said.push(refused(2, &["snapshot", &path, copy.to_str().unwrap()]));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(said[0].contains(&format!("{path} is in use by a resize; try again")), "{said:?}");
    assert!(!copy.exists());
    byway::snapshot(image.path(), &copy).unwrap();
}

/// Standard error of a put, with events of this level.
fn put_log(image: &Image, level: &str) -> String {
    let output = byway().args(["kv", "put", &image.uri(""), "key", "value"]).env("BYWAY_LOG", level).output();
    let output = output.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn byway_log_shows_the_recovery_of_an_image_whose_server_was_killed() {
    let image = Image::new(&["kv"]);
    let socket = image.dir.path().join("socket");
    let mut server = Server::start(&[&image.uri(""), "--vfio-user", socket.to_str().unwrap()]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let log = put_log(&image, "debug");
    let events = [
        "INFO  byway::embedded::open: image recovered: it was not closed",
        "DEBUG byway_kv::engine::recovery: log replayed nsid=1",
        "DEBUG byway_controller::controller: CC.EN set",
        "DEBUG byway_driver::attach: device attached",
        "DEBUG byway_controller::subsystem: image closed",
    ];
    let places: Vec<_> =
        events.map(|event| log.find(event).unwrap_or_else(|| panic!("{event}: {log}"))).into();
    assert!(places.is_sorted(), "{log}");
    assert_eq!(put_log(&image, "info"), "");
}
