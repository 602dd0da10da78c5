//! Mounts and daemons that are killed in the middle of writes, and mounts that are in use when they are to go.

use std::fs;
use std::time::Duration;

use byway_forgetful::Random;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::{Mount, absorb, assert_survives, kill};

use crate::{DAEMON, MOUNTER, mount, place, rounds};

fn a_while(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(15_000)));
}

#[test]
fn killed_mount_fails_its_programs_and_loses_nothing() {
    let Some(place) = place("killed_mount_fails_its_programs_and_loses_nothing") else {
        return;
    };
    let mut random = Random::new(3);
    let _daemon = place.start_daemon(DAEMON);
    let session = place.session();
    for _ in 0..rounds(10) {
        let mut mount = mount(&place);
        let mut actor = mount.actor();
        actor.does("open a log wcae; write a 8 1");
        place.absorb(&session, &mut actor, 'a', "log");
        actor.send("threads a 1000000 0");
        a_while(&mut random);
        mount.kill();
        assert_ne!(actor.answer(), "0");
        // ECONNABORTED or ENOTCONN: the connection is gone.
        let answer = actor.asked("write a 8 1");
        assert!(["-1 errno 103", "-1 errno 107"].contains(&answer.as_str()), "{answer}");
        assert!(fs::read(mount.file("log")).is_err());
        drop(actor);
        // The next mount removes the dead one.
        let again = Mount::start(MOUNTER, &place);
        let mut actor = again.actor();
        actor.does("open a log wae; write a 8 1; fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
        drop(actor);
        again.end();
    }
}

#[test]
fn daemon_killed_under_a_mount_is_replaced_by_the_next() {
    let Some(place) = place("daemon_killed_under_a_mount_is_replaced_by_the_next") else {
        return;
    };
    let mut random = Random::new(4);
    let mut daemon = place.start_daemon(DAEMON);
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
        actor.send("threads a 200 0");
        a_while(&mut random);
        daemon.kill();
        a_while(&mut random);
        daemon = place.start_daemon(DAEMON);
        adopted += u64::from(daemon.recovered.iter().any(|outcome| outcome == "Adopted"));
        assert!(daemon.recovered.iter().all(|outcome| outcome != "Missing"), "{:?}", daemon.recovered);
        assert_eq!(actor.answer(), "0");
        actor.does("fdatasync a");
        assert_survives(&place, &session, &lower);
        absorb(&session, &mut actor, 'a', key);
    }
    assert!(adopted > 0);
    drop(actor);
    mount.end();
    daemon.end();
}

#[test]
fn mount_in_use_loses_its_name_and_ends_with_the_last_program() {
    let Some(place) = place("mount_in_use_loses_its_name_and_ends_with_the_last_program") else {
        return;
    };
    let _daemon = place.start_daemon(DAEMON);
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
fn mount_program_killed_in_writes_leaves_no_lock_and_loses_nothing() {
    let Some(place) = place("mount_program_killed_in_writes_leaves_no_lock_and_loses_nothing") else {
        return;
    };
    let mut random = Random::new(5);
    let _daemon = place.start_daemon(DAEMON);
    let session = place.session();
    let mount = mount(&place);
    let mut actor = mount.actor();
    actor.does("open a log wcae; write a 8 1");
    place.absorb(&session, &mut actor, 'a', "log");
    for _ in 0..rounds(10) {
        let mut victim = mount.actor();
        victim.does("open a log wae");
        victim.send("threads a 1000000 0");
        a_while(&mut random);
        victim.kill();
        actor.does("threads a 10 0; fdatasync a");
        assert_survives(&place, &session, &place.file("log"));
    }
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Absorb);
    drop(actor);
    mount.end();
}

#[test]
fn mount_and_daemon_killed_together_lose_nothing() {
    let Some(place) = place("mount_and_daemon_killed_together_lose_nothing") else {
        return;
    };
    let mut random = Random::new(6);
    for round in 0..rounds(8) {
        let mut daemon = place.start_daemon(DAEMON);
        let mut mount = mount(&place);
        let mut actor = mount.actor();
        actor.does("open a log wcae; write a 8 1");
        place.absorb(&place.session(), &mut actor, 'a', "log");
        actor.does("write a 300 7; fdatasync a");
        let kept = fs::read(place.file("log")).unwrap();
        actor.send("threads a 1000000 0");
        a_while(&mut random);
        let mut both = [daemon.id(), mount.id()];
        if random.one_in(2) {
            both.reverse();
        }
        both.into_iter().for_each(kill);
        daemon.kill();
        mount.kill();
        actor.kill();
        drop(mount);
        if round % 2 == 1 {
            place.lose_power();
        }
        let daemon = place.start_daemon(DAEMON);
        assert!(fs::read(place.file("log")).unwrap().starts_with(&kept), "{:?}", daemon.recovered);
        daemon.end();
    }
}
