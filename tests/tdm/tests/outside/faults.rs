//! File systems that fail or are full, and programs and daemons of different versions.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::{Actor, Keeper, Place, assert_survives};

use crate::{KEEPER, place};

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
fn a_sync_that_fails_below_in_the_daemon_fails_every_later_one_of_the_program() {
    let place = place();
    let _keeper = Keeper::breakable(KEEPER, &place);
    let mut actor = writer(&place, place.actor());
    actor.does("write a 100 2; fdatasync a");
    place.break_by(EIO);
    assert!(!place.order(Order::Drain, "log"));
    place.mend();
    for _ in 0..3 {
        assert_eq!(actor.asked("fdatasync a"), "-1 errno 5");
        assert_eq!(actor.asked("syncfs a"), "-1 errno 5");
    }
}

#[test]
fn a_sync_that_one_program_could_not_make_is_no_other_one_s_error_nor_its_own_later() {
    for error in [EBADF, EINTR, EINVAL] {
        let place = place();
        let _keeper = place.keeper(KEEPER);
        let mut actor = writer(&place, Actor::breakable(&place));
        let mut other = place.actor();
        other.does("open a log wae");
        // More than a record holds: only a real sync will do.
        actor.does("write a 2000000 2");
        place.break_by(error);
        assert_eq!(actor.asked("fdatasync a"), format!("-1 errno {error}"));
        other.does("write a 10 3; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
        place.mend();
        actor.does("write a 10 4; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
    }
}

#[test]
fn a_write_for_which_there_is_no_room_below_fails_and_is_in_no_log() {
    let place = place();
    let _keeper = place.keeper(KEEPER);
    let mut actor = writer(&place, Actor::breakable(&place));
    for _ in 0..3 {
        place.break_by(ENOSPC);
        assert_eq!(actor.asked("write a 100 3"), "-1 errno 28");
        place.mend();
        actor.does("write a 50 4; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
    }
    assert_eq!(std::fs::metadata(place.file("log")).unwrap().len(), 350);
}

#[test]
fn a_write_of_which_only_a_part_has_room_below_is_logged_in_that_part() {
    let place = place();
    let _keeper = place.keeper(KEEPER);
    let mut actor = writer(&place, place.actor());
    actor.does("longest_file 500; write a 200 2");
    assert_eq!(actor.asked("write a 200 3"), "100");
    assert_eq!(actor.asked("write a 200 4"), "-1 errno 27");
    actor.does("fdatasync a");
    assert_survives(&place, &place.session(), &place.file("log"));
    assert_eq!(place.standing(&place.session(), "log").unwrap().level, Level::Absorb);
}

#[test]
fn a_recovery_for_which_there_is_no_room_below_is_done_when_there_is() {
    let place = place();
    let mut keeper = place.keeper(KEEPER);
    let mut actor = writer(&place, place.actor());
    // However long it takes, nobody brings it below.
    keeper.stop();
    for seed in 0..5 {
        actor.does(&format!("write a 300 {seed}; fdatasync a"));
    }
    actor.kill();
    keeper.kill();
    let had = std::fs::read(place.file("log")).unwrap();
    place.lose_power();
    place.break_by(ENOSPC);
    let keeper = Keeper::breakable(KEEPER, &place);
    assert!(keeper.recovered[0].starts_with("Failed"), "{:?}", keeper.recovered);
    drop(keeper);
    place.mend();
    let keeper = Keeper::breakable(KEEPER, &place);
    assert!(keeper.recovered[0].starts_with("Replayed"), "{:?}", keeper.recovered);
    assert!(std::fs::read(place.file("log")).unwrap() == had);
}

/// The file that the board of this user is in.
fn board_of(place: &Place) -> PathBuf {
    let files = std::fs::read_dir(&place.options.boards).unwrap().map(|file| file.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|name| name == "board")).unwrap()
}

/// Has a board be of a version that there never was.
fn of_another_version(place: &Place) {
    File::options().write(true).open(board_of(place)).unwrap().write_all_at(&[99], 7).unwrap();
}

#[test]
fn a_program_that_meets_a_daemon_of_another_version_is_the_kernel_s() {
    let place = place();
    let _keeper = place.keeper(KEEPER);
    drop(place.session());
    of_another_version(&place);
    let mut actor = place.actor();
    for _ in 0..6 {
        actor.does("open a log wce; write a 100 2; fdatasync a; close a");
    }
    File::options().write(true).open(board_of(&place)).unwrap().set_len(4096).unwrap();
    actor.does("open a log wce; write a 100 2; fdatasync a; close a");
    place.actor().does("open a log wce; write a 100 3; fdatasync a; close a");
}

#[test]
fn programs_of_another_version_keep_their_logs_until_they_end() {
    let place = place();
    let mut keeper = place.keeper(KEEPER);
    let old = writer(&place, place.actor());
    let session = place.session();
    keeper.kill();
    of_another_version(&place);
    are_not_served_until_they_end(&place, session, old);
}

#[test]
fn programs_whose_board_is_gone_keep_their_logs_until_they_end() {
    let place = place();
    let mut keeper = place.keeper(KEEPER);
    let old = writer(&place, place.actor());
    let session = place.session();
    keeper.kill();
    std::fs::remove_file(board_of(&place)).unwrap();
    are_not_served_until_they_end(&place, session, old);
}

fn are_not_served_until_they_end(place: &Place, session: Session, mut old: Actor) {
    for _ in 0..2 {
        let mut keeper = place.keeper(KEEPER);
        assert!(keeper.recovered[0].starts_with("Failed"), "{:?}", keeper.recovered);
        place.actor().does("open a other wce; write a 100 1; fdatasync a");
        old.does("write a 100 2; fdatasync a");
        assert_survives(place, &session, &place.file("log"));
        keeper.kill();
    }
    drop(session);
    drop(old);
    let keeper = place.keeper(KEEPER);
    assert_eq!(keeper.recovered, ["Synced"]);
    writer(place, place.actor()).does("write a 100 2; fdatasync a");
}
