//! Real programs in a mount, where they are installed: whoever is killed, they have all that they said was kept.

use std::path::Path;
use std::process::Command;

use byway_conformance::skips::has;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::server::{Server, is_sound, log_in};
use byway_tdm_tests::{assert_survives, kill, sqlite};

use crate::{KEEPER, mount, place, rounds};

/// Kills the server, the mount, or the mount and the daemon by a loss of power, in turn: every acknowledged key is there each time.
fn keeps_every_key(test: &str, program: &str, checker: &str) {
    let Some(place) = place(test).filter(|_| has(program, test)) else { return };
    let mut keeper = place.keeper(KEEPER);
    let below = place.path().join("files");
    let mut next = 0;
    for round in 0..rounds(6) {
        let session = place.session();
        let mut mount = mount(&place);
        let mut server = Server::start(Command::new(program), mount.at());
        server.set_many(&mut next, 150);
        let log = log_in(&below);
        if round == 0 {
            let name = log.strip_prefix(&below).unwrap().to_str().unwrap();
            place.await_absorbed(&session, name, || server.set_many(&mut next, 50));
        }
        assert_survives(&place, &session, &log);
        match round % 3 {
            0 => server.kill(),
            _ => mount.kill(),
        }
        server.kill();
        drop(mount);
        if round % 3 == 2 {
            keeper.kill();
            place.lose_power();
            keeper = place.keeper(KEEPER);
        }
        assert!(is_sound(checker, &log), "round {round}");
        let mut plain = Server::start(Command::new(program), &below);
        assert!((0..next).all(|key| plain.has(key)), "round {round}");
        plain.kill();
    }
}

#[test]
fn valkey_in_a_mount_has_every_key_that_it_said_was_kept() {
    keeps_every_key(
        "valkey_in_a_mount_has_every_key_that_it_said_was_kept",
        "valkey-server",
        "valkey-check-aof",
    );
}

#[test]
fn redis_in_a_mount_has_every_key_that_it_said_was_kept() {
    keeps_every_key(
        "redis_in_a_mount_has_every_key_that_it_said_was_kept",
        "redis-server",
        "redis-check-aof",
    );
}

#[test]
fn a_base_of_sqlite_is_sound_and_has_every_row_though_its_program_and_the_mount_are_killed() {
    const NAME: &str =
        "a_base_of_sqlite_is_sound_and_has_every_row_though_its_program_and_the_mount_are_killed";
    let Some(place) = place(NAME).filter(|_| has("sqlite3", NAME)) else { return };
    let _keeper = place.keeper(KEEPER);
    let mut rows = 0;
    for round in 0..rounds(6) {
        let mut mount = mount(&place);
        let journal = if round % 2 == 0 { "WAL" } else { "DELETE" };
        let (mut program, said) = sqlite::insert(sqlite::command(mount.at()), journal);
        rows += said;
        match round % 3 {
            0 => kill(mount.id()),
            _ => program.kill().unwrap(),
        }
        program.kill().unwrap();
        program.wait().unwrap();
        let below = place.path().join("files");
        let count = sqlite::count(sqlite::command(if round % 3 == 0 { &below } else { mount.at() }));
        assert!(count >= rows, "{count} of {rows} in round {round}");
        rows = count;
        mount.kill();
    }
}

#[test]
fn a_program_of_go_is_served_and_what_it_said_was_kept_is_there_when_power_goes() {
    const NAME: &str = "a_program_of_go_is_served_and_what_it_said_was_kept_is_there_when_power_goes";
    let Some(place) = place(NAME).filter(|_| has("go", NAME)) else { return };
    let program = place.path().join("keeps");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("actor/keeps.go");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(source).env("CGO_ENABLED", "0").env("GO111MODULE", "off");
    assert!(go.status().unwrap().success());
    let mut keeper = place.keeper(KEEPER);
    let session = place.session();
    let mut mount = mount(&place);
    let said = Command::new(program).arg(mount.file("log")).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(place.standing(&session, "log").unwrap().level, Level::Absorb);
    assert_survives(&place, &session, &place.file("log"));
    mount.kill();
    keeper.kill();
    drop(mount);
    place.lose_power();
    let _keeper = place.keeper(KEEPER);
    assert_eq!(std::fs::read(place.file("log")).unwrap(), said.stdout);
}
