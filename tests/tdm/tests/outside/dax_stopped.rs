//! Threads that stand still inside of a call of a file at home, or jump out of it, and whoever else has that file.

use byway_tdm_engine::table::{Level, Why};
use byway_tdm_tests::Actor;

use crate::homes::{House, bytes};
use crate::{KEEPER, place};

/// A file at home, with bytes in it that only its home has, in which a thread stands still.
fn standing(flags: &str, call: &str) -> House {
    let mut house = with_unsynced(flags);
    house.actor.does(&format!("still {call}"));
    house
}

/// The same without anybody who does.
fn with_unsynced(flags: &str) -> House {
    let mut house = House::with(flags);
    house.actor.does("write a 60 2; fdatasync a; write a 40 3");
    house
}

/// What `standing` leaves of its file beside that.
fn before() -> Vec<u8> {
    [bytes(100, 1), bytes(60, 2), bytes(40, 3)].concat()
}

/// Of what is at some place of a file afterwards.
fn put(file: &mut Vec<u8>, at: usize, data: &[u8]) {
    file.resize(file.len().max(at + data.len()), 0);
    file[at..at + data.len()].copy_from_slice(data);
}

/// It is below as somebody stands still in it. Two seconds later its program asks for its home again, and is told that somebody has its lock.
fn assert_below(house: &House) {
    assert_eq!(house.level(), Level::Pass);
    assert!(matches!(house.why(), Why::StandsStill | Why::Busy), "{:?}", house.why());
}

#[test]
fn calls_of_a_file_at_home_are_made_while_a_thread_stands_still_inside_of_a_write_of_it() {
    for call in [
        "write a 5 4",
        "pwrite a 5 4 0",
        "sum a 10",
        "sum_at a 10 0",
        "fdatasync a",
        "fsync a",
        "lseek a 0 0",
        "size a",
        "ftruncate a 200",
        "sync",
        "thread write a 5 4",
        "child write a 5 4",
    ] {
        let mut house = standing("+c", "store pwrite a 300 5 50");
        house.actor.does(call);
        assert_eq!(house.actor.does("goes_on"), 300, "{call}");
        let mut all = before();
        match call {
            "pwrite a 5 4 0" => put(&mut all, 0, &bytes(5, 4)),
            "write a 5 4" | "thread write a 5 4" | "child write a 5 4" => all.extend(bytes(5, 4)),
            _ => {}
        }
        put(&mut all, 50, &bytes(300, 5));
        assert!(house.found() == all, "{call}");
    }
}

#[test]
fn a_file_goes_below_for_whoever_waits_in_vain_and_comes_home_once_nobody_stands_still_in_it() {
    let mut house = standing("+c", "store pwrite a 300 5 50");
    house.actor.does("fdatasync a");
    assert_below(&house);
    house.actor.does("write a 7 6; fdatasync a");
    assert_eq!(house.level(), Level::Pass);
    house.actor.does("goes_on");
    house.place.house(&house.session, &mut house.actor, 'a', "log");
    let mut all = before();
    put(&mut all, 200, &bytes(7, 6));
    put(&mut all, 50, &bytes(300, 5));
    assert!(house.found() == all);
}

#[test]
fn what_is_appended_by_who_stood_still_is_there_once_and_behind_what_others_appended_meanwhile() {
    for call in ["write a 300 5", "writev a 300 5"] {
        let mut house = standing("+ca", &format!("store {call}"));
        house.actor.does("write a 7 6; fdatasync a");
        assert!(house.found() == [before(), bytes(7, 6)].concat());
        assert_eq!(house.actor.does("goes_on"), 300);
        house.actor.does("write a 9 7");
        assert!(house.found() == [before(), bytes(7, 6), bytes(300, 5), bytes(9, 7)].concat(), "{call}");
    }
}

#[test]
fn what_is_written_at_the_position_by_who_stood_still_lies_before_what_others_wrote_there_meanwhile() {
    let mut house = standing("+c", "store write a 300 5");
    house.actor.does("write a 7 6; fdatasync a");
    assert_eq!(house.actor.does("goes_on"), 300);
    assert_eq!(house.actor.does("lseek a 0 1"), 507);
    assert!(house.found() == [before(), bytes(300, 5), bytes(7, 6)].concat());
}

#[test]
fn a_read_in_which_a_thread_stood_still_moves_the_position_once() {
    let mut house = standing("+c", "touch sum_parts_at a 50 0");
    house.actor.does("pwrite a 7 6 150; fdatasync a");
    assert!(house.actor.does("goes_on") > 0);
    house.actor.does("lseek a 10 0");
    house.place.house(&house.session, &mut house.actor, 'a', "log");
    house.actor.does("still touch sum a 50");
    assert_eq!(house.actor.does("lseek a 0 1"), 10);
    assert!(house.actor.does("goes_on") > 0);
    assert_eq!(house.actor.does("lseek a 0 1"), 60);
}

#[test]
fn a_sync_and_a_cut_in_which_a_thread_stood_still_undo_nothing() {
    for (call, cut) in [("fdatasync a", None), ("fsync a", None), ("ftruncate a 130", Some(130))] {
        let mut house = standing("+c", &format!("store {call}"));
        house.actor.does("write a 70 6; fdatasync a; pwrite a 5 7 120; fdatasync a");
        let mut all = [before(), bytes(70, 6)].concat();
        put(&mut all, 120, &bytes(5, 7));
        assert!(house.found() == all, "{call}");
        assert_eq!(house.actor.does("goes_on"), 0);
        all.truncate(cut.unwrap_or(all.len()));
        assert!(house.found() == all, "{call}");
    }
}

#[test]
fn whoever_opens_a_file_in_which_a_thread_stands_still_finds_every_byte_and_waits_for_no_lease() {
    let mut house = standing("+c", "store pwrite a 300 5 50");
    assert!(house.found() == before());
    assert_eq!((house.level(), house.why()), (Level::Pass, Why::OpenElsewhere));
    let mut other = Actor::unwitnessed(&house.place);
    other.does("open a log w; pwrite a 9 6 60; fdatasync a");
    assert_eq!(house.actor.does("goes_on"), 300);
    let mut all = before();
    put(&mut all, 50, &bytes(300, 5));
    assert!(house.found() == all);
}

#[test]
fn a_program_that_jumped_out_of_a_call_at_home_goes_on_with_its_file_below() {
    for call in [
        "store pwrite a 300 5 50",
        "store write a 300 5",
        "store fdatasync a",
        "touch sum_at a 50 0",
        "store ftruncate a 20",
    ] {
        let mut house = with_unsynced("+c");
        house.actor.does(&format!(
            "jump {call}; pwrite a 7 6 10; fdatasync a; thread pwrite a 8 7 20; thread fdatasync a"
        ));
        house.actor.does("child pwrite a 9 8 30; ftruncate a 180; lseek a 0 2; write a 5 9; fdatasync a");
        assert_below(&house);
        let mut all = before();
        put(&mut all, 10, &bytes(7, 6));
        put(&mut all, 20, &bytes(8, 7));
        put(&mut all, 30, &bytes(9, 8));
        all.truncate(180);
        all.extend(bytes(5, 9));
        assert!(house.found() == all, "{call}");
    }
}

#[test]
fn an_append_that_a_program_jumped_out_of_leaves_nothing_before_the_next_one() {
    let mut house = with_unsynced("+ca");
    house.actor.does("jump store write a 300 5; write a 7 6; fdatasync a; write a 8 7");
    assert!(house.found() == [before(), bytes(7, 6), bytes(8, 7)].concat());
}

#[test]
fn a_program_that_does_what_only_the_kernel_can_has_its_file_brought_below_and_does_not_do_it_itself() {
    for call in ["fallocate a 0 200 100", "close a", "write a 600000 5"] {
        let mut house = with_unsynced("+c");
        // It would be jumped out of where it touched its home.
        let done = house.actor.asked(&format!("jump touch {call}"));
        assert!(done.starts_with("-1"), "{call}: {done}");
        assert_eq!(house.level(), Level::Pass, "{call}");
    }
}

/// Another file comes home meanwhile, and stays as it is.
fn comes_home_beside(house: &mut House, flags: &str) -> Vec<u8> {
    house.actor.does(&format!("open b other {flags}; write b 900 8; fdatasync b"));
    house.place.house(&house.session, &mut house.actor, 'b', "other");
    house.actor.does("write b 50 9; fdatasync b");
    [bytes(900, 8), bytes(50, 9)].concat()
}

#[test]
fn the_place_of_a_home_is_no_other_file_s_while_somebody_may_still_store_there() {
    let mut house = standing("+c", "store pwrite a 300 5 50");
    house.actor.does("fdatasync a");
    let other = comes_home_beside(&mut house, "+c");
    house.actor.does("goes_on");
    assert!(std::fs::read(house.place.file("other")).unwrap() == other);
}

#[test]
fn nor_is_it_under_another_daemon() {
    let place = place();
    let mut keeper = place.unwitnessed_keeper(KEEPER);
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log +c; write a 100 1");
    place.house(&place.session(), &mut actor, 'a', "log");
    actor.does("still store pwrite a 300 5 50; fdatasync a");
    keeper.kill();
    let _next = place.unwitnessed_keeper(KEEPER);
    let mut other = Actor::unwitnessed(&place);
    other.does("open b other +c; write b 900 8; fdatasync b");
    place.house(&place.session(), &mut other, 'b', "other");
    other.does("write b 50 9; fdatasync b");
    actor.does("goes_on");
    assert!(std::fs::read(place.file("other")).unwrap() == [bytes(900, 8), bytes(50, 9)].concat());
    let mut all = bytes(100, 1);
    put(&mut all, 50, &bytes(300, 5));
    assert!(std::fs::read(place.file("log")).unwrap() == all);
}

#[test]
fn nobody_waits_for_who_stands_still_in_a_file_of_a_daemon_that_is_gone() {
    for has_next in [false, true] {
        let place = place();
        let mut keeper = place.unwitnessed_keeper(KEEPER);
        let mut actor = Actor::unwitnessed(&place);
        actor.does("open a log +c; write a 100 1");
        place.house(&place.session(), &mut actor, 'a', "log");
        actor.does("write a 50 2; fdatasync a; still store pwrite a 300 5 50");
        keeper.kill();
        let _next = has_next.then(|| place.unwitnessed_keeper(KEEPER));
        actor.does("write a 7 6; fdatasync a; pwrite a 9 8 10");
        let mut all = [bytes(100, 1), bytes(50, 2), bytes(7, 6)].concat();
        put(&mut all, 10, &bytes(9, 8));
        assert!(std::fs::read(place.file("log")).unwrap() == all);
        assert_eq!(actor.does("goes_on"), 300);
        put(&mut all, 50, &bytes(300, 5));
        assert!(std::fs::read(place.file("log")).unwrap() == all);
    }
}

#[test]
fn a_handler_that_outgrows_the_home_inside_of_a_write_there_has_the_file_brought_below() {
    let mut house = House::with("+ca");
    house.actor.does("write a 60 2; fdatasync a");
    assert_eq!(house.actor.does("handle store write a 600000 7 write a 300 5"), 300);
    assert_eq!(house.level(), Level::Pass);
    assert!(house.found() == [bytes(100, 1), bytes(60, 2), bytes(600_000, 7), bytes(300, 5)].concat());
}
