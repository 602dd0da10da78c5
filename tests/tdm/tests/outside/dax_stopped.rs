//! Threads stopped inside a call on a DAX-resident file, or jumping out of one, beside other users of the file.

use byway_tdm_engine::table::{Level, Reason};
use byway_tdm_tests::Actor;

use crate::dax::{DaxProgram, bytes};
use crate::{DAEMON, place};

/// A DAX-resident file with bytes only in device memory, and a thread stopped in a call on it.
fn with_stopped(flags: &str, call: &str) -> DaxProgram {
    let mut dax = with_unsynced(flags);
    dax.actor.does(&format!("still {call}"));
    dax
}

/// The same without a stopped thread.
fn with_unsynced(flags: &str) -> DaxProgram {
    let mut dax = DaxProgram::with(flags);
    dax.actor.does("write a 60 2; fdatasync a; write a 40 3");
    dax
}

/// What [`with_stopped`] leaves of its file besides.
fn before() -> Vec<u8> {
    [bytes(100, 1), bytes(60, 2), bytes(40, 3)].concat()
}

/// Of what is at some place of a file afterwards.
fn put(file: &mut Vec<u8>, at: usize, data: &[u8]) {
    file.resize(file.len().max(at + data.len()), 0);
    file[at..at + data.len()].copy_from_slice(data);
}

/// Demoted past a stopped thread. Two seconds later its program requests the promotion, which is refused as the lock is held.
fn assert_below(dax: &DaxProgram) {
    assert_eq!(dax.level(), Level::Pass);
    assert!(matches!(dax.why(), Reason::HolderStopped | Reason::Busy), "{:?}", dax.why());
}

#[test]
fn dax_calls_continue_while_a_thread_is_stopped_in_a_write() {
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
        let mut dax = with_stopped("+c", "store pwrite a 300 5 50");
        dax.actor.does(call);
        assert_eq!(dax.actor.does("goes_on"), 300, "{call}");
        let mut all = before();
        match call {
            "pwrite a 5 4 0" => put(&mut all, 0, &bytes(5, 4)),
            "write a 5 4" | "thread write a 5 4" | "child write a 5 4" => all.extend(bytes(5, 4)),
            _ => {}
        }
        put(&mut all, 50, &bytes(300, 5));
        assert!(dax.found() == all, "{call}");
    }
}

#[test]
fn file_is_demoted_past_a_stopped_thread_and_promoted_later() {
    let mut dax = with_stopped("+c", "store pwrite a 300 5 50");
    dax.actor.does("fdatasync a");
    assert_below(&dax);
    dax.actor.does("write a 7 6; fdatasync a");
    assert_eq!(dax.level(), Level::Pass);
    dax.actor.does("goes_on");
    dax.place.promote(&dax.session, &mut dax.actor, 'a', "log");
    let mut all = before();
    put(&mut all, 200, &bytes(7, 6));
    put(&mut all, 50, &bytes(300, 5));
    assert!(dax.found() == all);
}

#[test]
fn append_of_a_stopped_thread_is_made_once_after_others() {
    for call in ["write a 300 5", "writev a 300 5"] {
        let mut dax = with_stopped("+ca", &format!("store {call}"));
        dax.actor.does("write a 7 6; fdatasync a");
        assert!(dax.found() == [before(), bytes(7, 6)].concat());
        assert_eq!(dax.actor.does("goes_on"), 300);
        dax.actor.does("write a 9 7");
        assert!(dax.found() == [before(), bytes(7, 6), bytes(300, 5), bytes(9, 7)].concat(), "{call}");
    }
}

#[test]
fn write_of_a_stopped_thread_keeps_its_position() {
    let mut dax = with_stopped("+c", "store write a 300 5");
    dax.actor.does("write a 7 6; fdatasync a");
    assert_eq!(dax.actor.does("goes_on"), 300);
    assert_eq!(dax.actor.does("lseek a 0 1"), 507);
    assert!(dax.found() == [before(), bytes(300, 5), bytes(7, 6)].concat());
}

#[test]
fn read_of_a_stopped_thread_moves_the_position_once() {
    let mut dax = with_stopped("+c", "touch sum_parts_at a 50 0");
    dax.actor.does("pwrite a 7 6 150; fdatasync a");
    assert!(dax.actor.does("goes_on") > 0);
    dax.actor.does("lseek a 10 0");
    dax.place.promote(&dax.session, &mut dax.actor, 'a', "log");
    dax.actor.does("still touch sum a 50");
    assert_eq!(dax.actor.does("lseek a 0 1"), 10);
    assert!(dax.actor.does("goes_on") > 0);
    assert_eq!(dax.actor.does("lseek a 0 1"), 60);
}

#[test]
fn sync_and_truncation_of_a_stopped_thread_undo_nothing() {
    for (call, cut) in [("fdatasync a", None), ("fsync a", None), ("ftruncate a 130", Some(130))] {
        let mut dax = with_stopped("+c", &format!("store {call}"));
        dax.actor.does("write a 70 6; fdatasync a; pwrite a 5 7 120; fdatasync a");
        let mut all = [before(), bytes(70, 6)].concat();
        put(&mut all, 120, &bytes(5, 7));
        assert!(dax.found() == all, "{call}");
        assert_eq!(dax.actor.does("goes_on"), 0);
        all.truncate(cut.unwrap_or(all.len()));
        assert!(dax.found() == all, "{call}");
    }
}

#[test]
fn open_past_a_stopped_thread_finds_every_byte_without_delay() {
    let mut dax = with_stopped("+c", "store pwrite a 300 5 50");
    assert!(dax.found() == before());
    assert_eq!((dax.level(), dax.why()), (Level::Pass, Reason::OpenElsewhere));
    let mut other = Actor::unwitnessed(&dax.place);
    other.does("open a log w; pwrite a 9 6 60; fdatasync a");
    assert_eq!(dax.actor.does("goes_on"), 300);
    let mut all = before();
    put(&mut all, 50, &bytes(300, 5));
    assert!(dax.found() == all);
}

#[test]
fn program_that_jumped_out_of_a_dax_call_continues_at_pass() {
    for call in [
        "store pwrite a 300 5 50",
        "store write a 300 5",
        "store fdatasync a",
        "touch sum_at a 50 0",
        "store ftruncate a 20",
    ] {
        let mut dax = with_unsynced("+c");
        dax.actor.does(&format!(
            "jump {call}; pwrite a 7 6 10; fdatasync a; thread pwrite a 8 7 20; thread fdatasync a"
        ));
        dax.actor.does("child pwrite a 9 8 30; ftruncate a 180; lseek a 0 2; write a 5 9; fdatasync a");
        assert_below(&dax);
        let mut all = before();
        put(&mut all, 10, &bytes(7, 6));
        put(&mut all, 20, &bytes(8, 7));
        put(&mut all, 30, &bytes(9, 8));
        all.truncate(180);
        all.extend(bytes(5, 9));
        assert!(dax.found() == all, "{call}");
    }
}

#[test]
fn abandoned_append_leaves_no_gap() {
    let mut dax = with_unsynced("+ca");
    dax.actor.does("jump store write a 300 5; write a 7 6; fdatasync a; write a 8 7");
    assert!(dax.found() == [before(), bytes(7, 6), bytes(8, 7)].concat());
}

#[test]
fn kernel_only_call_has_the_daemon_demote_the_file() {
    for call in ["fallocate a 0 200 100", "close a", "write a 600000 5"] {
        let mut dax = with_unsynced("+c");
        // It would be abandoned at its first touch of device memory.
        let done = dax.actor.asked(&format!("jump touch {call}"));
        assert!(done.starts_with("-1"), "{call}: {done}");
        assert_eq!(dax.level(), Level::Pass, "{call}");
    }
}

/// Another file is promoted meanwhile, and stays as it is.
fn is_promoted_beside(dax: &mut DaxProgram, flags: &str) -> Vec<u8> {
    dax.actor.does(&format!("open b other {flags}; write b 900 8; fdatasync b"));
    dax.place.promote(&dax.session, &mut dax.actor, 'b', "other");
    dax.actor.does("write b 50 9; fdatasync b");
    [bytes(900, 8), bytes(50, 9)].concat()
}

#[test]
fn place_is_not_reused_while_a_stopped_thread_may_store() {
    let mut dax = with_stopped("+c", "store pwrite a 300 5 50");
    dax.actor.does("fdatasync a");
    let other = is_promoted_beside(&mut dax, "+c");
    dax.actor.does("goes_on");
    assert!(std::fs::read(dax.place.file("other")).unwrap() == other);
}

#[test]
fn place_is_not_reused_by_another_daemon_either() {
    let place = place();
    let mut daemon = place.unwitnessed_daemon(DAEMON);
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log +c; write a 100 1");
    place.promote(&place.session(), &mut actor, 'a', "log");
    actor.does("still store pwrite a 300 5 50; fdatasync a");
    daemon.kill();
    let _next = place.unwitnessed_daemon(DAEMON);
    let mut other = Actor::unwitnessed(&place);
    other.does("open b other +c; write b 900 8; fdatasync b");
    place.promote(&place.session(), &mut other, 'b', "other");
    other.does("write b 50 9; fdatasync b");
    actor.does("goes_on");
    assert!(std::fs::read(place.file("other")).unwrap() == [bytes(900, 8), bytes(50, 9)].concat());
    let mut all = bytes(100, 1);
    put(&mut all, 50, &bytes(300, 5));
    assert!(std::fs::read(place.file("log")).unwrap() == all);
}

#[test]
fn no_thread_waits_for_a_stopped_one_without_a_daemon() {
    for has_next in [false, true] {
        let place = place();
        let mut daemon = place.unwitnessed_daemon(DAEMON);
        let mut actor = Actor::unwitnessed(&place);
        actor.does("open a log +c; write a 100 1");
        place.promote(&place.session(), &mut actor, 'a', "log");
        actor.does("write a 50 2; fdatasync a; still store pwrite a 300 5 50");
        daemon.kill();
        let _next = has_next.then(|| place.unwitnessed_daemon(DAEMON));
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
fn handler_outgrowing_the_place_inside_a_write_demotes_the_file() {
    let mut dax = DaxProgram::with("+ca");
    dax.actor.does("write a 60 2; fdatasync a");
    assert_eq!(dax.actor.does("handle store write a 600000 7 write a 300 5"), 300);
    assert_eq!(dax.level(), Level::Pass);
    assert!(dax.found() == [bytes(100, 1), bytes(60, 2), bytes(600_000, 7), bytes(300, 5)].concat());
}
