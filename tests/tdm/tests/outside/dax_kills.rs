//! Files whose home is device memory when programs, daemons and both are killed, and when power goes.

use std::time::Duration;

use byway_forgetful::Random;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_tests::{Actor, Keeper, Place, ask_again};

use crate::homes::bytes;
use crate::{KEEPER, place, rounds};

/// A program with `log` at home and a daemon that is killed.
fn orphan(place: &Place) -> (Actor, Keeper) {
    let keeper = place.unwitnessed_keeper(KEEPER);
    let mut actor = Actor::unwitnessed(place);
    actor.does("open a log wca; write a 100 1");
    place.house(&place.session(), &mut actor, 'a', "log");
    actor.does("write a 10 2; fdatasync a");
    (actor, keeper)
}

#[test]
fn a_program_whose_daemon_is_killed_goes_on_and_brings_its_file_below_for_the_next_one() {
    let place = place();
    let (mut actor, mut keeper) = orphan(&place);
    keeper.kill();
    actor.does("write a 10 3; fdatasync a");
    let _keeper = place.unwitnessed_keeper(KEEPER);
    actor.does("write a 10 4; fdatasync a; write a 10 5; fdatasync a");
    let all = [bytes(100, 1), bytes(10, 2), bytes(10, 3), bytes(10, 4), bytes(10, 5)].concat();
    assert!(std::fs::read(place.file("log")).unwrap() == all);
    place.house(&place.session(), &mut actor, 'a', "log");
}

#[test]
fn a_daemon_and_a_program_that_are_killed_together_leave_a_home_that_the_next_daemon_brings_below() {
    let place = place();
    for _ in 0..rounds(3) {
        let (mut actor, mut keeper) = orphan(&place);
        actor.does("write a 10 3");
        keeper.kill();
        actor.kill();
        let _keeper = place.unwitnessed_keeper(KEEPER);
        let all = [bytes(100, 1), bytes(10, 2), bytes(10, 3)].concat();
        assert!(std::fs::read(place.file("log")).unwrap() == all);
        std::fs::remove_file(place.file("log")).unwrap();
    }
}

/// Numbers that a program has told of one by one, each of them synced before the next.
fn told(place: &Place) -> u64 {
    let told = std::fs::read(place.file("told")).unwrap_or_default();
    told.try_into().map_or(0, u64::from_le_bytes)
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

/// Has the file brought home by the next sync, whatever was before.
fn wish(place: &Place, session: &Session) {
    session.board().find(place.key("log")).into_iter().for_each(ask_again);
    let _ = place.order(Order::House, "log");
}

#[test]
fn a_daemon_that_is_killed_while_a_file_comes_and_goes_loses_nothing_and_its_program_goes_on() {
    let place = place();
    let mut random = Random::new(11);
    let mut keeper = place.unwitnessed_keeper(KEEPER);
    let (mut actor, before) = heavy(&place);
    let session = place.session();
    let mut first = 1;
    for _ in 0..rounds(20) {
        wish(&place, &session);
        actor.tell(&format!("commits a told {first} 40"));
        a_while(&mut random);
        if random.one_in(2) {
            let _ = place.order(Order::Drain, "log");
        }
        keeper.kill();
        a_while(&mut random);
        keeper = place.unwitnessed_keeper(KEEPER);
        assert_eq!(actor.answer(), "0");
        first += 40;
        assert_eq!(told(&place), first - 1);
        actor.does("fdatasync a");
        assert_eq!(numbers_in(&std::fs::read(place.file("log")).unwrap(), &before), first - 1);
    }
}

#[test]
fn a_program_that_is_killed_while_its_file_comes_and_goes_leaves_all_that_it_wrote() {
    let place = place();
    let mut random = Random::new(12);
    let _keeper = place.unwitnessed_keeper(KEEPER);
    let (mut actor, before) = heavy(&place);
    let session = place.session();
    let mut first = 1;
    for _ in 0..rounds(20) {
        wish(&place, &session);
        actor.tell(&format!("commits a told {first} 1000000"));
        a_while(&mut random);
        if random.one_in(2) {
            actor.tell("close a");
        }
        actor.kill();
        let there = numbers_in(&std::fs::read(place.file("log")).unwrap(), &before);
        assert!(there >= told(&place), "{there} of {}", told(&place));
        first = there + 1;
        actor = Actor::unwitnessed(&place);
        actor.does("open a log wca");
    }
}

#[test]
fn what_was_synced_is_there_after_a_loss_of_power_with_daemons_that_are_killed_inside_of_their_recovery() {
    let place = place();
    let mut random = Random::new(13);
    let mut first = 1;
    let (actor, before) = heavy(&place);
    drop(actor);
    for _ in 0..rounds(10) {
        let mut keeper = place.unwitnessed_keeper(KEEPER);
        let mut actor = Actor::unwitnessed(&place);
        actor.does("open a log wca; fdatasync a");
        wish(&place, &place.session());
        actor.tell(&format!("commits a told {first} 1000000"));
        a_while(&mut random);
        keeper.kill();
        actor.kill();
        place.start_again("log");
        for _ in 0..3 {
            place.killed_keeper(KEEPER, Duration::from_micros(random.below(8_000)));
        }
        let _keeper = place.unwitnessed_keeper(KEEPER);
        let there = numbers_in(&std::fs::read(place.file("log")).unwrap(), &before);
        assert!(there >= told(&place), "{there} of {}", told(&place));
        first = there + 1;
    }
}

#[test]
fn after_another_boot_what_a_home_kept_is_written_back_and_nothing_else() {
    let place = place();
    let (mut actor, mut keeper) = orphan(&place);
    actor.does("write a 10 3");
    keeper.kill();
    actor.kill();
    assert_eq!(std::fs::metadata(place.file("log")).unwrap().len(), 100);
    place.start_again("log");
    let keeper = place.unwitnessed_keeper(KEEPER);
    assert_eq!(keeper.recovered, ["Returned { data_bytes: 110 }"]);
    assert!(std::fs::read(place.file("log")).unwrap() == [bytes(100, 1), bytes(10, 2)].concat());
}

#[test]
fn a_recovery_of_a_home_that_is_killed_before_any_of_its_writes_and_syncs_is_finished_by_the_next() {
    let place = place();
    let mut keeper = place.unwitnessed_keeper(KEEPER);
    let (mut actor, before) = heavy(&place);
    place.house(&place.session(), &mut actor, 'a', "log");
    actor.does("commits a told 1 50");
    keeper.kill();
    actor.kill();
    place.start_again("log");
    let calls = (1..).find(|call| Keeper::mortal(KEEPER, &place, *call).is_some());
    assert!(calls > Some(7), "{calls:?}");
    assert_eq!(numbers_in(&std::fs::read(place.file("log")).unwrap(), &before), 50);
}
