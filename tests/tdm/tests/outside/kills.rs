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

use crate::{KEEPER, place, rounds};

/// Writes of 8 bytes that four threads make.
const WRITES: u64 = 200;

fn lines_of(path: &Path) -> usize {
    let log = std::fs::read(path).unwrap();
    let is_whole = |line: &[u8]| line.len() == 8 && line[1..] == *b"......\n" && line[0].is_ascii_uppercase();
    assert!(log.chunks(8).all(is_whole), "bytes that nobody wrote");
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
fn a_daemon_that_is_killed_and_started_again_while_a_program_writes_loses_nothing_and_goes_on() {
    let place = place();
    let mut random = Random::new(7);
    let mut keeper = place.keeper(KEEPER);
    let mut actor = writer(&place);
    let session = place.session();
    let mut adopted = 0;
    for round in 1..=rounds(20) {
        actor.tell(&format!("threads a {WRITES} 0"));
        a_while(&mut random);
        keeper.kill();
        a_while(&mut random);
        keeper = place.keeper(KEEPER);
        adopted += u64::from(keeper.recovered.iter().any(|outcome| outcome == "Adopted"));
        assert_eq!(actor.answer(), "0");
        actor.does("fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
        assert_eq!(lines_of(&place.file("log")) as u64, 4 * (6 + round * WRITES));
        place.absorb(&session, &mut actor, 'a', "log");
    }
    assert!(adopted > 0);
    drop(actor);
    keeper.end();
}

#[test]
fn a_program_that_is_killed_inside_of_its_writes_leaves_no_lock_and_no_hole() {
    let place = place();
    let mut random = Random::new(8);
    let _keeper = place.keeper(KEEPER);
    let mut actor = writer(&place);
    let session = place.session();
    for _ in 0..rounds(20) {
        let mut victim = place.actor();
        victim.does("open a log wae");
        victim.tell("threads a 1000000 0");
        a_while(&mut random);
        victim.kill();
        actor.does("threads a 10 0; fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
        lines_of(&place.file("log"));
    }
    assert_eq!(place.standing(&session, "log").unwrap().level, Level::Absorb);
}

#[test]
fn a_daemon_and_a_program_that_are_killed_together_lose_nothing() {
    let place = place();
    let mut random = Random::new(9);
    for _ in 0..rounds(10) {
        let mut keeper = place.keeper(KEEPER);
        let mut actor = writer(&place);
        actor.tell("threads a 1000000 0");
        a_while(&mut random);
        let mut both = [keeper.id(), actor.id()];
        if random.one_in(2) {
            both.reverse();
        }
        both.into_iter().for_each(byway_tdm_tests::kill);
        keeper.kill();
        actor.kill();
        let _keeper = place.keeper(KEEPER);
        let mut actor = place.actor();
        actor.does("open a log wae; threads a 3 0; fdatasync a");
        assert_survives(&place, &place.session(), &place.file("log"));
        lines_of(&place.file("log"));
    }
}

#[test]
fn a_file_that_lost_its_name_while_nobody_served_is_the_kernel_s_for_the_next_daemon() {
    for lines in ["mkdir other; rename log other/log", "mkdir other; link log other/log; unlink log"] {
        let place = place();
        let mut keeper = place.keeper(KEEPER);
        let mut actor = writer(&place);
        let session = place.session();
        keeper.kill();
        actor.does(lines);
        actor.does("write a 100 1; fdatasync a");
        let _keeper = place.keeper(KEEPER);
        assert_eq!(place.standing(&session, "other/log").unwrap().level, Level::Pass, "{lines}");
        for _ in 0..3 {
            actor.does("write a 100 2; fdatasync a");
            assert_survives(&place, &session, &place.file("other/log"));
        }
    }
}

#[test]
fn a_log_that_a_daemon_took_over_is_given_to_no_other_file() {
    let place = place();
    let mut keeper = place.keeper(KEEPER);
    let mut actor = writer(&place);
    let session = place.session();
    keeper.kill();
    let _keeper = place.keeper(KEEPER);
    actor.does("open b other wcae; write b 100 1; fdatasync b");
    place.absorb(&session, &mut actor, 'b', "other");
    for seed in 0..10 {
        actor.does(&format!("write a 100 {seed}; fdatasync a; write b 100 {seed}; fdatasync b"));
        assert_survives(&place, &session, &place.file("log"));
        assert_survives(&place, &session, &place.file("other"));
    }
}

#[test]
fn a_sync_below_that_the_next_daemon_has_overtaken_spoils_no_other_file_s_log() {
    let place = place();
    let keeper = Mutex::new(place.keeper(KEEPER));
    let mut actor = writer(&place);
    let session = place.session();
    let file = File::options().append(true).open(place.file("log")).unwrap();
    let entry = session.board().find(place.key("log")).unwrap().index();
    let listed = Listed { entry, appends: true, writes_only: true };
    let opened = session.file(file.as_fd(), listed).unwrap();
    actor.does("write a 100 1; fdatasync a; write a 100 2");
    opened.entry().cursor().suspend();
    let meanwhile = || {
        let mut keeper = keeper.lock().unwrap();
        keeper.kill();
        actor.does("mkdir other");
        std::fs::rename(place.file("log"), place.file("other/log")).unwrap();
        *keeper = place.keeper(KEEPER);
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
fn a_file_that_gets_another_name_under_a_daemon_of_another_region_is_kept_below() {
    let mut place = place();
    let mut keeper = place.keeper(KEEPER);
    let mut actor = writer(&place);
    keeper.kill();
    place.options.region = format!("emu:{}?size=32M", place.path().join("another").display());
    let _keeper = place.keeper(KEEPER);
    actor.does("write a 100 1; fdatasync a; mkdir other; rename log other/log; write a 100 2; fdatasync a");
    let path = place.file("other/log");
    assert_eq!(std::fs::read(place.kept(&path)).unwrap(), std::fs::read(&path).unwrap());
}
