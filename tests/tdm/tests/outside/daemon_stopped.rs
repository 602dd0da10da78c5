//! A daemon that stands still: programs go on without it, and with it once it goes on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use byway_tdm_engine::table::Level;
use byway_tdm_tests::{ask_again, assert_survives};

use crate::{KEEPER, place};

#[test]
fn programs_that_begin_while_their_daemon_stands_still_are_not_held_up_by_it() {
    let place = place();
    let keeper = place.keeper(KEEPER);
    let mut actor = place.actor();
    keeper.stop();
    let script = place.file("script");
    std::fs::write(
        &script,
        "#!/bin/sh\nfor name in a b c d; do echo $name | dd of=$name 2>/dev/null; done\n",
    )
    .unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    // The actor has a minute for it.
    actor.does("system ./script");
    assert_eq!(std::fs::read(place.file("d")).unwrap(), b"d\n");
    keeper.go_on();
    keeper.end();
}

#[test]
fn many_programs_that_begin_while_their_daemon_is_stopped_wait_for_nothing_each() {
    let place = place();
    let keeper = place.keeper(KEEPER);
    let mut actor = place.actor();
    keeper.stop();
    let script = place.file("script");
    std::fs::write(&script, "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/true; done\n").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let began = Instant::now();
    actor.does("system ./script");
    // They waited for a second each.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    keeper.go_on();
    keeper.end();
}

#[test]
fn a_program_whose_daemon_stands_still_goes_on_and_is_served_by_it_again_afterwards() {
    let place = place();
    let keeper = place.keeper(KEEPER);
    let session = place.session();
    let mut actor = place.actor();
    for (slot, name) in [('a', "first"), ('b', "second")] {
        actor.does(&format!("open {slot} {name} wce; write {slot} 200 1"));
        place.absorb(&session, &mut actor, slot, name);
    }
    keeper.stop();
    actor.does(
        "write a 100 2; fdatasync a; rename first third; write a 100 3; fdatasync a; rename third fourth",
    );
    assert_survives(&place, &session, &place.file("fourth"));
    actor.does("write b 100 4; fdatasync b; open c new wce; write c 100 5");
    for _ in 0..5 {
        ask_again(session.board().find(place.key("new")).unwrap());
        actor.does("fdatasync c; fdatasync c; fdatasync c");
    }
    assert_survives(&place, &session, &place.file("second"));
    assert_eq!(place.standing(&session, "new").unwrap().level, Level::Pass);
    keeper.go_on();
    place.absorb(&session, &mut actor, 'c', "new");
    actor.does("write c 100 6; fdatasync c");
    assert_survives(&place, &session, &place.file("new"));
    keeper.end();
}
