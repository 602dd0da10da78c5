//! Files that are DAX-resident when programs, daemons and both are killed, and when power goes.

use std::time::Duration;

use byway_forgetful::Random;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_tests::{Actor, DaemonProcess, Place, ask_again};

use crate::dax::bytes;
use crate::{DAEMON, place, rounds};

/// A program with `log` DAX-resident and a daemon that is killed.
fn orphan(place: &Place) -> (Actor, DaemonProcess) {
    let daemon = place.unwitnessed_daemon(DAEMON);
    let mut actor = Actor::unwitnessed(place);
    actor.does("open a log wca; write a 100 1");
    place.promote(&place.session(), &mut actor, 'a', "log");
    actor.does("write a 10 2; fdatasync a");
    (actor, daemon)
}

#[test]
fn program_demotes_its_file_after_its_daemon_was_killed() {
    let place = place();
    let (mut actor, mut daemon) = orphan(&place);
    daemon.kill();
    actor.does("write a 10 3; fdatasync a");
    let _daemon = place.unwitnessed_daemon(DAEMON);
    actor.does("write a 10 4; fdatasync a; write a 10 5; fdatasync a");
    let all = [bytes(100, 1), bytes(10, 2), bytes(10, 3), bytes(10, 4), bytes(10, 5)].concat();
    assert!(std::fs::read(place.file("log")).unwrap() == all);
    place.promote(&place.session(), &mut actor, 'a', "log");
}

#[test]
fn next_daemon_demotes_the_file_of_a_killed_daemon_and_program() {
    let place = place();
    for _ in 0..rounds(3) {
        let (mut actor, mut daemon) = orphan(&place);
        actor.does("write a 10 3");
        daemon.kill();
        actor.kill();
        let _daemon = place.unwitnessed_daemon(DAEMON);
        let all = [bytes(100, 1), bytes(10, 2), bytes(10, 3)].concat();
        assert!(std::fs::read(place.file("log")).unwrap() == all);
        std::fs::remove_file(place.file("log")).unwrap();
    }
}

/// Numbers that a program has reported one by one, each of them synced before the next.
fn reported(place: &Place) -> u64 {
    let reported = std::fs::read(place.file("reported")).unwrap_or_default();
    reported.try_into().map_or(0, u64::from_le_bytes)
}

/// What a file must be: `before`, then numbers from 1 on with none left out; how many.
fn numbers_in(file: &[u8], before: &[u8]) -> u64 {
    assert!(file.starts_with(before), "what was there before is not");
    let lines = file[before.len()..].chunks(8);
    for (line, number) in lines.clone().zip(1_u64..) {
        assert_eq!(String::from_utf8_lossy(line), format!("{number:07}\n"));
    }
    lines.count() as u64
}

/// A program that has written and synced this much, so that its way home takes a while.
fn heavy(place: &Place) -> (Actor, Vec<u8>) {
    let mut actor = Actor::unwitnessed(place);
    actor.does("open a log wca; write a 1500000 1; fdatasync a");
    (actor, bytes(1_500_000, 1))
}

fn a_while(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(12_000)));
}

/// Requests the promotion for the next sync.
fn request_promotion(place: &Place, session: &Session) {
    session.file_table().find(place.key("log")).into_iter().for_each(ask_again);
    let _ = place.order(Order::Promote, "log");
}

#[test]
fn daemon_killed_during_promotions_loses_nothing() {
    let place = place();
    let mut random = Random::new(11);
    let mut daemon = place.unwitnessed_daemon(DAEMON);
    let (mut actor, before) = heavy(&place);
    let session = place.session();
    let mut first = 1;
    for _ in 0..rounds(20) {
        request_promotion(&place, &session);
        actor.send(&format!("commits a reported {first} 40"));
        a_while(&mut random);
        if random.one_in(2) {
            let _ = place.order(Order::Drain, "log");
        }
        daemon.kill();
        a_while(&mut random);
        daemon = place.unwitnessed_daemon(DAEMON);
        assert_eq!(actor.answer(), "0");
        first += 40;
        assert_eq!(reported(&place), first - 1);
        actor.does("fdatasync a");
        assert_eq!(numbers_in(&std::fs::read(place.file("log")).unwrap(), &before), first - 1);
    }
}

#[test]
fn program_killed_during_promotions_leaves_every_byte() {
    let place = place();
    let mut random = Random::new(12);
    let _daemon = place.unwitnessed_daemon(DAEMON);
    let (mut actor, before) = heavy(&place);
    let session = place.session();
    let mut first = 1;
    for _ in 0..rounds(20) {
        request_promotion(&place, &session);
        actor.send(&format!("commits a reported {first} 1000000"));
        a_while(&mut random);
        if random.one_in(2) {
            actor.send("close a");
        }
        actor.kill();
        let there = numbers_in(&std::fs::read(place.file("log")).unwrap(), &before);
        assert!(there >= reported(&place), "{there} of {}", reported(&place));
        first = there + 1;
        actor = Actor::unwitnessed(&place);
        actor.does("open a log wca");
    }
}

#[test]
fn synced_dax_bytes_survive_power_loss_and_killed_recoveries() {
    let place = place();
    let mut random = Random::new(13);
    let mut first = 1;
    let (actor, before) = heavy(&place);
    drop(actor);
    for _ in 0..rounds(10) {
        let mut daemon = place.unwitnessed_daemon(DAEMON);
        let mut actor = Actor::unwitnessed(&place);
        actor.does("open a log wca; fdatasync a");
        request_promotion(&place, &place.session());
        actor.send(&format!("commits a reported {first} 1000000"));
        a_while(&mut random);
        daemon.kill();
        actor.kill();
        place.start_again("log");
        for _ in 0..3 {
            place.killed_daemon(DAEMON, Duration::from_micros(random.below(8_000)));
        }
        let _daemon = place.unwitnessed_daemon(DAEMON);
        let there = numbers_in(&std::fs::read(place.file("log")).unwrap(), &before);
        assert!(there >= reported(&place), "{there} of {}", reported(&place));
        first = there + 1;
    }
}

#[test]
fn durable_dax_bytes_are_written_back_after_a_reboot() {
    let place = place();
    let (mut actor, mut daemon) = orphan(&place);
    actor.does("write a 10 3");
    daemon.kill();
    actor.kill();
    assert_eq!(std::fs::metadata(place.file("log")).unwrap().len(), 100);
    place.start_again("log");
    let daemon = place.unwitnessed_daemon(DAEMON);
    assert_eq!(daemon.recovered, ["Returned { data_bytes: 110 }"]);
    assert!(std::fs::read(place.file("log")).unwrap() == [bytes(100, 1), bytes(10, 2)].concat());
}

#[test]
fn killed_dax_recovery_is_finished_by_the_next() {
    let place = place();
    let mut daemon = place.unwitnessed_daemon(DAEMON);
    let (mut actor, before) = heavy(&place);
    place.promote(&place.session(), &mut actor, 'a', "log");
    actor.does("commits a reported 1 50");
    daemon.kill();
    actor.kill();
    place.start_again("log");
    let calls = (1..).find(|call| DaemonProcess::mortal(DAEMON, &place, *call).is_some());
    assert!(calls > Some(7), "{calls:?}");
    assert_eq!(numbers_in(&std::fs::read(place.file("log")).unwrap(), &before), 50);
}
