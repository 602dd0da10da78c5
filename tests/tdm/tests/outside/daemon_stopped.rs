//! A stopped daemon: programs continue without it, and with it once it continues.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use byway_tdm_engine::table::Level;
use byway_tdm_tests::{ask_again, assert_survives};

use crate::{DAEMON, place};

#[test]
fn program_starting_under_a_stopped_daemon_does_not_wait() {
    let place = place();
    let daemon = place.start_daemon(DAEMON);
    let mut actor = place.actor();
    daemon.stop();
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
    daemon.go_on();
    daemon.end();
}

#[test]
fn many_programs_starting_under_a_stopped_daemon_do_not_wait() {
    let place = place();
    let daemon = place.start_daemon(DAEMON);
    let mut actor = place.actor();
    daemon.stop();
    let script = place.file("script");
    std::fs::write(&script, "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12; do /bin/true; done\n").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let mut run = || {
        let began = Instant::now();
        actor.does("system ./script");
        began.elapsed()
    };
    // A second each was waited once, in every run; a disk that is busy delays some.
    let least = (0..3).map(|_| run()).min().unwrap();
    assert!(least < Duration::from_secs(8), "{least:?}");
    daemon.go_on();
    daemon.end();
}

#[test]
fn program_continues_under_a_stopped_daemon_and_is_served_again() {
    let place = place();
    let daemon = place.start_daemon(DAEMON);
    let session = place.session();
    let mut actor = place.actor();
    for (slot, name) in [('a', "first"), ('b', "second")] {
        actor.does(&format!("open {slot} {name} wce; write {slot} 200 1"));
        place.absorb(&session, &mut actor, slot, name);
    }
    daemon.stop();
    actor.does(
        "write a 100 2; fdatasync a; rename first third; write a 100 3; fdatasync a; rename third fourth",
    );
    assert_survives(&place, &session, &place.file("fourth"));
    actor.does("write b 100 4; fdatasync b; open c new wce; write c 100 5");
    for _ in 0..5 {
        ask_again(session.file_table().find(place.key("new")).unwrap());
        actor.does("fdatasync c; fdatasync c; fdatasync c");
    }
    assert_survives(&place, &session, &place.file("second"));
    assert_eq!(place.level_state(&session, "new").unwrap().level, Level::Pass);
    daemon.go_on();
    place.absorb(&session, &mut actor, 'c', "new");
    actor.does("write c 100 6; fdatasync c");
    assert_survives(&place, &session, &place.file("new"));
    daemon.end();
}
