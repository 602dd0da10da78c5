//! `byway tdm mount`: a folder in a process of its own, in which this one writes as any program does.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use byway_conformance::skips::skip;
use common::server::Server;
use common::tdm::Place;
use common::{json_lines, refused};

/// A place with `files` in it; none where no folder can be mounted.
fn place(test: &str) -> Option<Place> {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root || !Path::new("/dev/fuse").exists() {
        skip(test, "mounting takes root and /dev/fuse");
        return None;
    }
    let place = Place::new();
    fs::create_dir(place.path("files")).unwrap();
    Some(place)
}

/// Its files, mounted over themselves; unmounted whatever happens.
struct Mount {
    server: Server,
    at: String,
}

impl Mount {
    fn over(place: &Place, more: &[&str]) -> Self {
        let (at, socket) = (place.text("files"), place.text("socket"));
        let server = Server::spawn(&[&["tdm", "mount", &at, "--socket", &socket], more].concat());
        Self { server, at }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-lq", &self.at]).status();
    }
}

#[expect(clippy::disallowed_methods, reason = "what a program does")]
fn write_and_sync(file: &mut File, line: &str) {
    file.write_all(line.as_bytes()).unwrap();
    file.sync_data().unwrap();
}

#[test]
fn a_program_in_a_mount_is_served_and_a_signal_leaves_the_folder_as_it_was_with_all_synced() {
    let Some(place) =
        place("a_program_in_a_mount_is_served_and_a_signal_leaves_the_folder_as_it_was_with_all_synced")
    else {
        return;
    };
    let (_server, _) = place.serve(&[]);
    let mut mount = Mount::over(&place, &[]);
    let said = mount.server.line();
    assert!(said.contains("over itself") && said.contains("files are served"), "{said}");
    let mut log = File::create(place.path("files/log")).unwrap();
    place.tdm(&["pin", &place.text("files/log")]);
    (0..20).for_each(|_| write_and_sync(&mut log, "line\n"));
    let told = place.tdm(&["explain", &place.text("files/log")]);
    assert!(told.contains("is at ABSORB") && !told.contains("runs without the library"), "{told}");
    let report = &json_lines(&place.tdm(&["status", "--once", "--json"]))[0];
    assert!(report["users"][0]["files"][0]["saved_syncs"].as_u64() >= Some(10), "{report}");
    place.tdm(&["drain", &place.text("files/log")]);
    drop(log);
    mount.server.signal("-INT");
    assert_eq!(mount.server.line(), "closed: 1 file taken down to the kernel, synced");
    assert!(mount.server.child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(place.path("files/log")).unwrap(), "line\n".repeat(20));
    let told = place.tdm(&["explain", &place.text("files/log")]);
    assert!(told.contains("is at PASS"), "{told}");
}

#[test]
fn what_a_killed_mount_leaves_is_taken_away_by_the_next() {
    let Some(place) = place("what_a_killed_mount_leaves_is_taken_away_by_the_next") else { return };
    let (_server, _) = place.serve(&[]);
    let mut killed = Mount::over(&place, &["--json"]);
    assert_eq!(json_lines(&killed.server.line())[0]["serves"], true);
    fs::write(place.path("files/log"), "kept").unwrap();
    killed.server.child.kill().unwrap();
    killed.server.child.wait().unwrap();
    assert!(fs::read(place.path("files/log")).is_err());
    let mut next = Mount::over(&place, &["--json"]);
    assert_eq!(json_lines(&next.server.line())[0]["event"], "mounted");
    assert_eq!(fs::read_to_string(place.path("files/log")).unwrap(), "kept");
    next.server.signal("-TERM");
    assert_eq!(json_lines(&next.server.line())[0]["event"], "closed");
    assert!(next.server.child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(place.path("files/log")).unwrap(), "kept");
}

#[test]
fn a_mount_in_use_goes_on_for_its_programs_until_a_second_signal_comes() {
    let Some(place) = place("a_mount_in_use_goes_on_for_its_programs_until_a_second_signal_comes") else {
        return;
    };
    let mut mount = Mount::over(&place, &[]);
    let said = mount.server.line();
    assert!(said.contains("unserved"), "{said}");
    let mut log = File::create(place.path("files/log")).unwrap();
    mount.server.signal("-INT");
    while is_mounted(&place) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    write_and_sync(&mut log, "goes on");
    assert_eq!(fs::read_to_string(place.path("files/log")).unwrap(), "goes on");
    mount.server.signal("-INT");
    assert_eq!(mount.server.child.wait().unwrap().code(), Some(130));
    assert!(log.write_all(b"gone").is_err());
}

fn is_mounted(place: &Place) -> bool {
    fs::read_to_string("/proc/mounts").unwrap().contains(&place.text("files"))
}

#[test]
fn what_cannot_be_mounted_is_refused_with_the_reason() {
    let Some(place) = place("what_cannot_be_mounted_is_refused_with_the_reason") else { return };
    fs::write(place.path("plain"), "").unwrap();
    let error = refused(2, &["tdm", "mount", &place.text("plain")]);
    assert!(error.contains("is no folder"), "{error}");
    let error = refused(2, &["tdm", "mount", &place.text("none")]);
    assert!(error.contains("cannot"), "{error}");
    let mut mount = Mount::over(&place, &[]);
    mount.server.line();
    let error = refused(2, &["tdm", "mount", &place.text("files")]);
    assert!(error.contains("in a FUSE mount already"), "{error}");
    mount.server.signal("-INT");
    mount.server.line();
    assert!(mount.server.child.wait().unwrap().success());
}
