//! Mounts and daemons that are killed in the middle of writes, and mounts that are in use when they are to go.

use std::fs;
use std::time::Duration;

use byway_forgetful::Random;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::{Mount, absorb, assert_survives, kill};

use crate::{KEEPER, MOUNTER, mount, place, rounds};

fn a_while(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(15_000)));
}

#[test]
fn a_mount_that_is_killed_inside_of_writes_is_an_error_for_its_programs_and_loses_nothing() {
    let Some(place) =
        place("a_mount_that_is_killed_inside_of_writes_is_an_error_for_its_programs_and_loses_nothing")
    else {
        return;
    };
    let mut random = Random::new(3);
    let _keeper = place.keeper(KEEPER);
    let session = place.session();
    for _ in 0..rounds(10) {
        let mut mount = mount(&place);
        let mut actor = mount.actor();
        actor.does("open a log wcae; write a 8 1");
        place.absorb(&session, &mut actor, 'a', "log");
        actor.tell("threads a 1000000 0");
        a_while(&mut random);
        mount.kill();
        assert_ne!(actor.answer(), "0");
        // ECONNABORTED or ENOTCONN: the connection is gone, as programs are told.
        let answer = actor.asked("write a 8 1");
        assert!(["-1 errno 103", "-1 errno 107"].contains(&answer.as_str()), "{answer}");
        assert!(fs::read(mount.file("log")).is_err());
        drop(actor);
        // Whoever mounts next takes away what is left.
        let again = Mount::start(MOUNTER, &place);
        let mut actor = again.actor();
        actor.does("open a log wae; write a 8 1; fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
        drop(actor);
        again.end();
    }
}

#[test]
fn a_daemon_that_is_killed_under_a_mount_over_the_folder_is_taken_over_from_by_the_next() {
    let Some(place) =
        place("a_daemon_that_is_killed_under_a_mount_over_the_folder_is_taken_over_from_by_the_next")
    else {
        return;
    };
    let mut random = Random::new(4);
    let mut keeper = place.keeper(KEEPER);
    let session = place.session();
    fs::write(place.file("log"), b"").unwrap();
    let key = place.key("log");
    let mount = Mount::over(MOUNTER, &place, place.path().join("files"));
    let mut actor = mount.actor();
    actor.does("open a log wae");
    let lower = byway_tdm_engine::table::lower_of(&mount.file("log")).unwrap();
    let mut adopted = 0;
    for _ in 0..rounds(10) {
        actor.does("write a 8 1; fdatasync a; write a 8 2; fdatasync a; write a 8 3; fdatasync a");
        actor.tell("threads a 200 0");
        a_while(&mut random);
        keeper.kill();
        a_while(&mut random);
        keeper = place.keeper(KEEPER);
        adopted += u64::from(keeper.recovered.iter().any(|outcome| outcome == "Adopted"));
        assert!(keeper.recovered.iter().all(|outcome| outcome != "Missing"), "{:?}", keeper.recovered);
        assert_eq!(actor.answer(), "0");
        actor.does("fdatasync a");
        assert_survives(&place, &session, &lower);
        absorb(&session, &mut actor, 'a', key);
    }
    assert!(adopted > 0);
    drop(actor);
    mount.end();
    keeper.end();
}

#[test]
fn a_mount_in_use_loses_its_name_and_goes_when_the_last_program_is_done() {
    let Some(place) = place("a_mount_in_use_loses_its_name_and_goes_when_the_last_program_is_done") else {
        return;
    };
    let _keeper = place.keeper(KEEPER);
    let session = place.session();
    let mut mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 8 1");
    place.absorb(&session, &mut actor, 'a', "log");
    mount.leave();
    assert_eq!(mount.said(), "Ok(Busy)");
    assert!(!mount.file("log").exists());
    actor.does("write a 8 2; fdatasync a");
    assert_survives(&place, &session, &place.file("log"));
    actor.ended();
    assert_eq!(mount.said(), "Ok(Ok(()))");
}

#[test]
fn a_program_that_is_killed_inside_of_its_writes_leaves_no_lock_and_loses_nothing() {
    let Some(place) = place("a_program_that_is_killed_inside_of_its_writes_leaves_no_lock_and_loses_nothing")
    else {
        return;
    };
    let mut random = Random::new(5);
    let _keeper = place.keeper(KEEPER);
    let session = place.session();
    let mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 8 1");
    place.absorb(&session, &mut actor, 'a', "log");
    for _ in 0..rounds(10) {
        let mut victim = mount.actor();
        victim.does("open a log wae");
        victim.tell("threads a 1000000 0");
        a_while(&mut random);
        victim.kill();
        actor.does("threads a 10 0; fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
    }
    assert_eq!(place.standing(&session, "log").unwrap().level, Level::Absorb);
    drop(actor);
    mount.end();
}

#[test]
fn a_mount_and_a_daemon_that_are_killed_together_lose_nothing_and_neither_does_power_that_goes() {
    let Some(place) =
        place("a_mount_and_a_daemon_that_are_killed_together_lose_nothing_and_neither_does_power_that_goes")
    else {
        return;
    };
    let mut random = Random::new(6);
    for round in 0..rounds(8) {
        let mut keeper = place.keeper(KEEPER);
        let mut mount = mount(&place);
        let mut actor = mount.actor();
        actor.does("open a log wcae; write a 8 1");
        place.absorb(&place.session(), &mut actor, 'a', "log");
        actor.does("write a 300 7; fdatasync a");
        let kept = fs::read(place.file("log")).unwrap();
        actor.tell("threads a 1000000 0");
        a_while(&mut random);
        let mut both = [keeper.id(), mount.id()];
        if random.one_in(2) {
            both.reverse();
        }
        both.into_iter().for_each(kill);
        keeper.kill();
        mount.kill();
        actor.kill();
        drop(mount);
        if round % 2 == 1 {
            place.lose_power();
        }
        let keeper = place.keeper(KEEPER);
        assert!(fs::read(place.file("log")).unwrap().starts_with(&kept), "{:?}", keeper.recovered);
        keeper.end();
    }
}
