//! Programs and daemons that are killed in the middle of writes.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use byway_forgetful::Random;
use byway_tdm_engine::client::{Extent, Listed};
use byway_tdm_engine::table::Level;
use byway_tdm_tests::{Actor, Place, assert_survives};

use crate::{DAEMON, place, rounds};

/// Writes of 8 bytes that four threads make.
const WRITES: u64 = 200;

fn lines_of(path: &Path) -> usize {
    let log = std::fs::read(path).unwrap();
    let is_whole = |line: &[u8]| line.len() == 8 && line[1..] == *b"......\n" && line[0].is_ascii_uppercase();
    assert!(log.chunks(8).all(is_whole), "bytes that were never written");
    log.len() / 8
}

/// A program with `log` open as `a`, and absorbed.
fn writer(place: &Place) -> Actor {
    let mut actor = place.actor();
    actor.does("open a log wcae; threads a 6 0");
    place.absorb(&place.session(), &mut actor, 'a', "log");
    actor
}

fn a_while(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(15_000)));
}

#[test]
fn restarted_daemon_loses_nothing_of_a_writing_program() {
    let place = place();
    let mut random = Random::new(7);
    let mut daemon = place.start_daemon(DAEMON);
    let mut actor = writer(&place);
    let session = place.session();
    let mut adopted = 0;
    for round in 1..=rounds(20) {
        actor.send(&format!("threads a {WRITES} 0"));
        a_while(&mut random);
        daemon.kill();
        a_while(&mut random);
        daemon = place.start_daemon(DAEMON);
        adopted += u64::from(daemon.recovered.iter().any(|outcome| outcome == "Adopted"));
        assert_eq!(actor.answer(), "0");
        actor.does("fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
        assert_eq!(lines_of(&place.file("log")) as u64, 4 * (6 + round * WRITES));
        place.absorb(&session, &mut actor, 'a', "log");
    }
    assert!(adopted > 0);
    drop(actor);
    daemon.end();
}

#[test]
fn program_killed_in_writes_leaves_no_lock_and_no_hole() {
    let place = place();
    let mut random = Random::new(8);
    let _daemon = place.start_daemon(DAEMON);
    let mut actor = writer(&place);
    let session = place.session();
    for _ in 0..rounds(20) {
        let mut victim = place.actor();
        victim.does("open a log wae");
        victim.send("threads a 1000000 0");
        a_while(&mut random);
        victim.kill();
        actor.does("threads a 10 0; fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
        lines_of(&place.file("log"));
    }
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Absorb);
}

#[test]
fn daemon_and_program_killed_together_lose_nothing() {
    let place = place();
    let mut random = Random::new(9);
    for _ in 0..rounds(10) {
        let mut daemon = place.start_daemon(DAEMON);
        let mut actor = writer(&place);
        actor.send("threads a 1000000 0");
        a_while(&mut random);
        let mut both = [daemon.id(), actor.id()];
        if random.one_in(2) {
            both.reverse();
        }
        both.into_iter().for_each(byway_tdm_tests::kill);
        daemon.kill();
        actor.kill();
        let _daemon = place.start_daemon(DAEMON);
        let mut actor = place.actor();
        actor.does("open a log wae; threads a 3 0; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
        lines_of(&place.file("log"));
    }
}

#[test]
fn file_unlinked_without_a_daemon_is_left_at_pass() {
    for lines in ["mkdir other; rename log other/log", "mkdir other; link log other/log; unlink log"] {
        let place = place();
        let mut daemon = place.start_daemon(DAEMON);
        let mut actor = writer(&place);
        let session = place.session();
        daemon.kill();
        actor.does(lines);
        actor.does("write a 100 1; fdatasync a");
        let _daemon = place.start_daemon(DAEMON);
        assert_eq!(place.level_state(&session, "other/log").unwrap().level, Level::Pass, "{lines}");
        for _ in 0..3 {
            actor.does("write a 100 2; fdatasync a");
            assert_survives(&place, &session, &place.file("other/log"));
        }
    }
}

#[test]
fn adopted_log_is_not_reused() {
    let place = place();
    let mut daemon = place.start_daemon(DAEMON);
    let mut actor = writer(&place);
    let session = place.session();
    daemon.kill();
    let _daemon = place.start_daemon(DAEMON);
    actor.does("open b other wcae; write b 100 1; fdatasync b");
    place.absorb(&session, &mut actor, 'b', "other");
    for seed in 0..10 {
        actor.does(&format!("write a 100 {seed}; fdatasync a; write b 100 {seed}; fdatasync b"));
        assert_survives(&place, &session, &place.file("log"));
        assert_survives(&place, &session, &place.file("other"));
    }
}

#[test]
fn real_sync_overtaken_by_the_next_daemon_spoils_no_log() {
    let place = place();
    let daemon = Mutex::new(place.start_daemon(DAEMON));
    let mut actor = writer(&place);
    let session = place.session();
    let file = File::options().append(true).open(place.file("log")).unwrap();
    let entry = session.file_table().find(place.key("log")).unwrap().index();
    let listed = Listed { entry, appends: true, writes_only: true };
    let opened = session.file(file.as_fd(), listed).unwrap();
    actor.does("write a 100 1; fdatasync a; write a 100 2");
    opened.entry().cursor().suspend();
    let meanwhile = || {
        let mut daemon = daemon.lock().unwrap();
        daemon.kill();
        actor.does("mkdir other");
        std::fs::rename(place.file("log"), place.file("other/log")).unwrap();
        *daemon = place.start_daemon(DAEMON);
        let mut other = place.actor();
        other.does("open a new wce");
        place.absorb(&session, &mut other, 'a', "new");
        other.does("write a 100 1; fdatasync a");
    };
    let meanwhile = Mutex::new(Some(meanwhile));
    let below = || {
        let meanwhile = meanwhile.lock().unwrap().take().unwrap();
        std::thread::scope(|threads| threads.spawn(meanwhile).join().unwrap());
        Ok(())
    };
    opened.sync(Extent::Data, below).unwrap();
    assert_survives(&place, &session, &place.file("new"));
}

#[test]
fn file_renamed_under_a_daemon_of_another_region_is_synced() {
    let mut place = place();
    let mut daemon = place.start_daemon(DAEMON);
    let mut actor = writer(&place);
    daemon.kill();
    place.options.region = format!("emu:{}?size=32M", place.path().join("another").display());
    let _daemon = place.start_daemon(DAEMON);
    actor.does("write a 100 1; fdatasync a; mkdir other; rename log other/log; write a 100 2; fdatasync a");
    let path = place.file("other/log");
    assert_eq!(std::fs::read(place.kept(&path)).unwrap(), std::fs::read(&path).unwrap());
}
