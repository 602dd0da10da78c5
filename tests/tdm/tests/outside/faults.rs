//! File systems that fail or are full, and programs and daemons of different versions.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::{Actor, DaemonProcess, Place, assert_survives};

use crate::{DAEMON, place};

const EINTR: i32 = 4;
const EIO: i32 = 5;
const EBADF: i32 = 9;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;

/// A program with `log` open as `a`, and absorbed.
fn writer(place: &Place, mut actor: Actor) -> Actor {
    actor.does("open a log wce; write a 200 1");
    place.absorb(&place.session(), &mut actor, 'a', "log");
    actor
}

#[test]
fn failed_real_sync_in_the_daemon_fails_the_programs_syncs() {
    let place = place();
    let _daemon = DaemonProcess::breakable(DAEMON, &place);
    let mut actor = writer(&place, place.actor());
    actor.does("write a 100 2; fdatasync a");
    place.break_by(EIO);
    assert!(!place.order(Order::Drain, "log"));
    place.repair();
    for _ in 0..3 {
        assert_eq!(actor.asked("fdatasync a"), "-1 errno 5");
        assert_eq!(actor.asked("syncfs a"), "-1 errno 5");
    }
}

#[test]
fn callers_own_sync_error_does_not_persist() {
    for error in [EBADF, EINTR, EINVAL] {
        let place = place();
        let _daemon = place.start_daemon(DAEMON);
        let mut actor = writer(&place, Actor::breakable(&place));
        let mut other = place.actor();
        other.does("open a log wae");
        // More than a record holds: only a real sync will do.
        actor.does("write a 2000000 2");
        place.break_by(error);
        assert_eq!(actor.asked("fdatasync a"), format!("-1 errno {error}"));
        other.does("write a 10 3; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
        place.repair();
        actor.does("write a 10 4; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
    }
}

#[test]
fn a_write_for_which_there_is_no_room_below_fails_and_is_in_no_log() {
    let place = place();
    let _daemon = place.start_daemon(DAEMON);
    let mut actor = writer(&place, Actor::breakable(&place));
    for _ in 0..3 {
        place.break_by(ENOSPC);
        assert_eq!(actor.asked("write a 100 3"), "-1 errno 28");
        place.repair();
        actor.does("write a 50 4; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
    }
    assert_eq!(std::fs::metadata(place.file("log")).unwrap().len(), 350);
}

#[test]
fn a_write_of_which_only_a_part_has_room_below_is_logged_in_that_part() {
    let place = place();
    let _daemon = place.start_daemon(DAEMON);
    let mut actor = writer(&place, place.actor());
    actor.does("longest_file 500; write a 200 2");
    assert_eq!(actor.asked("write a 200 3"), "100");
    assert_eq!(actor.asked("write a 200 4"), "-1 errno 27");
    actor.does("fdatasync a");
    assert_survives(&place, &place.session(), &place.file("log"));
    assert_eq!(place.level_state(&place.session(), "log").unwrap().level, Level::Absorb);
}

#[test]
fn a_recovery_for_which_there_is_no_room_below_is_done_when_there_is() {
    let place = place();
    let mut daemon = place.start_daemon(DAEMON);
    let mut actor = writer(&place, place.actor());
    // Nothing demotes it meanwhile.
    daemon.stop();
    for seed in 0..5 {
        actor.does(&format!("write a 300 {seed}; fdatasync a"));
    }
    actor.kill();
    daemon.kill();
    let had = std::fs::read(place.file("log")).unwrap();
    place.lose_power();
    place.break_by(ENOSPC);
    let daemon = DaemonProcess::breakable(DAEMON, &place);
    assert!(daemon.recovered[0].starts_with("Failed"), "{:?}", daemon.recovered);
    drop(daemon);
    place.repair();
    let daemon = DaemonProcess::breakable(DAEMON, &place);
    assert!(daemon.recovered[0].starts_with("Replayed"), "{:?}", daemon.recovered);
    assert!(std::fs::read(place.file("log")).unwrap() == had);
}

/// File of this user's shared file table.
fn file_table_of(place: &Place) -> PathBuf {
    let files = std::fs::read_dir(&place.options.file_tables).unwrap().map(|file| file.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|name| name == "board")).unwrap()
}

/// Gives a shared file table an unknown version.
fn of_another_version(place: &Place) {
    File::options().write(true).open(file_table_of(place)).unwrap().write_all_at(&[99], 7).unwrap();
}

#[test]
fn program_with_a_daemon_of_another_version_stays_at_pass() {
    let place = place();
    let _daemon = place.start_daemon(DAEMON);
    drop(place.session());
    of_another_version(&place);
    let mut actor = place.actor();
    for _ in 0..6 {
        actor.does("open a log wce; write a 100 2; fdatasync a; close a");
    }
    File::options().write(true).open(file_table_of(&place)).unwrap().set_len(4096).unwrap();
    actor.does("open a log wce; write a 100 2; fdatasync a; close a");
    place.actor().does("open a log wce; write a 100 3; fdatasync a; close a");
}

#[test]
fn programs_of_another_version_keep_their_logs() {
    let place = place();
    let mut daemon = place.start_daemon(DAEMON);
    let old = writer(&place, place.actor());
    let session = place.session();
    daemon.kill();
    of_another_version(&place);
    are_not_served_until_they_end(&place, session, old);
}

#[test]
fn programs_with_a_removed_table_keep_their_logs() {
    let place = place();
    let mut daemon = place.start_daemon(DAEMON);
    let old = writer(&place, place.actor());
    let session = place.session();
    daemon.kill();
    std::fs::remove_file(file_table_of(&place)).unwrap();
    are_not_served_until_they_end(&place, session, old);
}

fn are_not_served_until_they_end(place: &Place, session: Session, mut old: Actor) {
    for _ in 0..2 {
        let mut daemon = place.start_daemon(DAEMON);
        assert!(daemon.recovered[0].starts_with("Failed"), "{:?}", daemon.recovered);
        place.actor().does("open a other wce; write a 100 1; fdatasync a");
        old.does("write a 100 2; fdatasync a");
        assert_survives(place, &session, &place.file("log"));
        daemon.kill();
    }
    drop(session);
    drop(old);
    let daemon = place.start_daemon(DAEMON);
    assert_eq!(daemon.recovered, ["Synced"]);
    writer(place, place.actor()).does("write a 100 2; fdatasync a");
}
