//! Errors below and of the daemon reach programs in a mount as without one.

use std::fs::{File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use byway_conformance::skips::skip;
use byway_tdm_engine::control::{Channel, Order, Reply, Request};
use byway_tdm_engine::table::Reason;
use byway_tdm_tests::{DaemonProcess, Place, assert_survives};

use crate::{DAEMON, await_listed, cannot, mount, place};

const ENOSPC: &str = "-1 errno 28";
const EIO: &str = "-1 errno 5";

/// A file system of 16 MiB on the files of a place, from a file.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn under(place: &Place) -> Option<Self> {
        let (image, at) = (place.path().join("image"), place.path().join("files"));
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-I", "256"]).arg(&image).status();
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at).status();
        let is_there = [made, mounted].into_iter().all(|status| status.is_ok_and(|status| status.success()));
        is_there.then_some(Self(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-lq").arg(&self.0).status();
    }
}

#[test]
fn full_disk_is_reported_and_acknowledged_bytes_are_kept() {
    const NAME: &str = "full_disk_is_reported_and_acknowledged_bytes_are_kept";
    let Some(place) = place(NAME) else { return };
    let Some(_disk) = SmallDisk::under(&place) else {
        return skip(NAME, "no file can be mounted, or there is no mkfs.ext4");
    };
    let daemon = place.start_daemon(DAEMON);
    let session = place.session();
    let mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 100 1; fdatasync a");
    place.absorb(&session, &mut actor, 'a', "log");
    let full = (0..400).map(|seed| actor.asked(&format!("write a 60000 {seed}"))).find(|said| said == ENOSPC);
    assert!(full.is_some());
    actor.does("fdatasync a");
    assert_survives(&place, &session, &place.file("log"));
    actor.does("ftruncate a 5000; write a 300 2; fdatasync a");
    assert_survives(&place, &session, &place.file("log"));
    actor.ended();
    mount.end();
    daemon.end();
}

#[test]
fn failed_real_sync_in_a_mount_fails_all_later_ones() {
    let Some(place) = place("failed_real_sync_in_a_mount_fails_all_later_ones") else {
        return;
    };
    let _daemon = DaemonProcess::breakable(DAEMON, &place);
    let session = place.session();
    let mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log +cae; write a 100 1; fdatasync a; open b other wce; write b 100 1");
    place.absorb(&session, &mut actor, 'a', "log");
    actor.does("write a 100 2; fdatasync a; write a 100 3");
    place.break_by(5);
    assert_eq!(actor.asked("fdatasync b"), EIO);
    assert!(!place.order(Order::Drain, "log"));
    assert_eq!(actor.asked("fdatasync a"), EIO);
    place.repair();
    // Whether the pages of then are on the disk is not known any more, and nothing that is done makes it known.
    actor.does("write a 100 4");
    assert_eq!([actor.asked("fdatasync a"), actor.asked("fsync a")], [EIO, EIO]);
    actor.does("fdatasync b; sum_at a 100 0");
}

#[test]
fn mount_without_a_daemon_continues_with_a_full_log() {
    if cannot("mount_without_a_daemon_continues_with_a_full_log") {
        return;
    }
    let place = Place::with_rings(env!("CARGO_TARGET_TMPDIR"), 64 << 10);
    let mut daemon = place.start_daemon(DAEMON);
    let session = place.session();
    let mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 100 1; fdatasync a");
    place.absorb(&session, &mut actor, 'a', "log");
    daemon.kill();
    for seed in 0..20 {
        actor.does(&format!("write a 9000 {seed}; write a 9000 {seed}; fdatasync a"));
        assert_survives(&place, &session, &place.file("log"));
    }
    actor.does("write a 300000 1; fdatasync a; write a 10 2; fdatasync a");
    assert_survives(&place, &session, &place.file("log"));
    actor.does("open b new wce; write b 100 1; fdatasync b");
    let _daemon = place.start_daemon(DAEMON);
    actor.does("write a 100 3; fdatasync a");
    assert_survives(&place, &session, &place.file("log"));
}

#[test]
fn mount_programs_do_not_wait_for_a_stopped_daemon() {
    let Some(place) = place("mount_programs_do_not_wait_for_a_stopped_daemon") else {
        return;
    };
    let daemon = place.start_daemon(DAEMON);
    daemon.stop();
    let mount = mount(&place);
    let mut actor = mount.actor();
    let script = place.file("script");
    std::fs::write(&script, "#!/bin/sh\nfor name in $(seq 200); do echo $name > $name; done\n").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    // The actor has a minute for it.
    actor.does("system ./script; open a log wcae; write a 100 1; fdatasync a");
    assert_eq!(std::fs::read(place.file("200")).unwrap(), b"200\n");
    daemon.go_on();
    let session = place.session();
    await_listed(&place, &session, &mut actor);
    place.absorb(&session, &mut actor, 'a', "log");
    actor.does("write a 100 2; fdatasync a");
    assert_survives(&place, &session, &place.file("log"));
}

#[test]
fn mounted_file_is_not_absorbed_twice() {
    let Some(place) = place("mounted_file_is_not_absorbed_twice") else { return };
    let _daemon = place.start_daemon(DAEMON);
    let session = place.session();
    let mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 100 1; fdatasync a");
    let entry = session.file_table().find(place.key("log")).unwrap().index();
    let above = File::options().append(true).open(mount.file("log")).unwrap();
    let channel = Channel::connect(&place.options.socket, Duration::from_secs(20)).unwrap();
    let (reply, _) = channel.ask(Request::Absorb(entry), &[above.as_fd()]).unwrap();
    assert_eq!(reply, Reply::Refused(Reason::Mounted));
}
