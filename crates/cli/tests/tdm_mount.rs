//! `byway tdm mount`: a folder in a process of its own, in which this one writes as any program does.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use byway_conformance::skips::skip;
use common::server::Server;
use common::tdm::Place;
use common::{json_lines, refused};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

/// The overflow user of every Linux.
const OVERFLOW_UID: u32 = 65534;

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

    /// Has it end in order; what it said of that.
    fn end(&mut self, signal: &str) -> String {
        self.server.signal(signal);
        let said = self.server.line();
        assert!(self.server.child.wait().unwrap().success());
        said
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
    let reported = place.tdm(&["explain", &place.text("files/log")]);
    assert!(
        reported.contains("is at ABSORB") && !reported.contains("runs without the library"),
        "{reported}"
    );
    let report = &json_lines(&place.tdm(&["status", "--once", "--json"]))[0];
    let file = &report["users"][0]["files"][0];
    assert_eq!(file["path"], place.text("files/log"));
    assert!(file["saved_syncs"].as_u64() >= Some(10), "{report}");
    place.tdm(&["drain", &place.text("files/log")]);
    drop(log);
    assert_eq!(mount.end("-INT"), "closed: 1 file taken down to the kernel, synced");
    assert_eq!(fs::read_to_string(place.path("files/log")).unwrap(), "line\n".repeat(20));
    let reported = place.tdm(&["explain", &place.text("files/log")]);
    assert!(reported.contains("is at PASS"), "{reported}");
}

#[test]
fn a_folder_that_the_kernel_makes_up_or_that_the_daemon_needs_is_refused_before_anything_is_mounted() {
    let test =
        "a_folder_that_the_kernel_makes_up_or_that_the_daemon_needs_is_refused_before_anything_is_mounted";
    let Some(place) = place(test) else { return };
    let (_server, _) = place.serve(&[]);
    let socket = place.text("socket");
    let mount = |folder: &str| refused(2, &["tdm", "mount", folder, "--socket", &socket]);
    // The error is of the folder below the mount as well as of where it is seen.
    let error = mount("/sys/kernel/mm");
    assert!(error.contains("/sys/kernel/mm is of sysfs, which the kernel makes up"), "{error}");
    let at = place.text("files");
    let error = refused(2, &["tdm", "mount", "/sys/kernel/mm", "--at", &at, "--socket", &socket]);
    assert!(error.contains("is of sysfs"), "{error}");
    let error = mount(&place.text(""));
    assert!(error.contains("socket is in ") && error.contains("would wait for itself"), "{error}");
}

#[test]
fn mount_point_left_by_a_killed_mount_is_replaced() {
    let Some(place) = place("mount_point_left_by_a_killed_mount_is_replaced") else { return };
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
    assert_eq!(json_lines(&next.end("-TERM"))[0]["event"], "closed");
    assert_eq!(fs::read_to_string(place.path("files/log")).unwrap(), "kept");
}

#[test]
fn mount_in_use_serves_its_programs_until_a_second_signal() {
    let Some(place) = place("mount_in_use_serves_its_programs_until_a_second_signal") else {
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

#[test]
fn other_users_have_access_only_with_the_option_and_their_own_rights() {
    let Some(place) = place("other_users_have_access_only_with_the_option_and_their_own_rights") else {
        return;
    };
    let (_server, _) = place.serve(&[]);
    fs::set_permissions(place.path("files"), Permissions::from_mode(0o777)).unwrap();
    let mut closed = Mount::over(&place, &[]);
    closed.server.line();
    assert_eq!(unprivileged_opens(&place, "mine").unwrap_err(), Errno::ACCESS);
    closed.end("-INT");
    let mut open = Mount::over(&place, &["--allow-other"]);
    open.server.line();
    fs::write(place.path("files/root"), "root's").unwrap();
    fs::set_permissions(place.path("files/root"), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(unprivileged_opens(&place, "root").unwrap_err(), Errno::ACCESS);
    let mut mine = unprivileged_opens(&place, "mine").unwrap();
    (0..10).for_each(|_| write_and_sync(&mut mine, "line\n"));
    assert_eq!(place.path("files/mine").metadata().unwrap().uid(), OVERFLOW_UID);
    let reported = place.tdm(&["explain", &place.text("files/mine")]);
    assert!(reported.contains(&format!("belongs to user {OVERFLOW_UID}")), "{reported}");
    drop(mine);
    open.end("-INT");
}

/// Opens a file of the mount as another user, made if it is not there: a thread has an identity of its own.
fn unprivileged_opens(place: &Place, name: &str) -> Result<File, Errno> {
    let folder = File::open(place.path("files")).unwrap();
    let opened = std::thread::spawn({
        let name = name.to_owned();
        move || {
            let unprivileged = Some(Uid::from_raw(OVERFLOW_UID));
            set_thread_res_uid(unprivileged, unprivileged, unprivileged).unwrap();
            openat(folder, name, OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o644))
        }
    });
    opened.join().unwrap().map(File::from)
}

fn is_mounted(place: &Place) -> bool {
    fs::read_to_string("/proc/mounts").unwrap().contains(&place.text("files"))
}

#[test]
fn folder_that_cannot_be_mounted_is_refused_with_the_reason() {
    let Some(place) = place("folder_that_cannot_be_mounted_is_refused_with_the_reason") else { return };
    fs::write(place.path("plain"), "").unwrap();
    let error = refused(2, &["tdm", "mount", &place.text("plain")]);
    assert!(error.contains("is no folder"), "{error}");
    let error = refused(2, &["tdm", "mount", &place.text("none")]);
    assert!(error.contains("cannot"), "{error}");
    let mut mount = Mount::over(&place, &[]);
    mount.server.line();
    let error = refused(2, &["tdm", "mount", &place.text("files")]);
    assert!(error.contains("in a FUSE mount already"), "{error}");
    mount.end("-INT");
}
