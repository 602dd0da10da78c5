//! Real programs in a mount, if installed: after kills they have everything acknowledged.

use std::path::Path;
use std::process::Command;

use byway_conformance::skips::has;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::server::{Server, is_sound, log_in};
use byway_tdm_tests::{assert_survives, kill, sqlite};

use crate::{DAEMON, mount, place, rounds};

/// Kills the server, the mount, or the mount and the daemon by a loss of power, in turn: every acknowledged key is found each time.
fn keeps_every_key(test: &str, program: &str, checker: &str) {
    let Some(place) = place(test).filter(|_| has(program, test)) else { return };
    let mut daemon = place.start_daemon(DAEMON);
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
            daemon.kill();
            place.lose_power();
            daemon = place.start_daemon(DAEMON);
        }
        assert!(is_sound(checker, &log), "round {round}");
        let mut plain = Server::start(Command::new(program), &below);
        assert!((0..next).all(|key| plain.has(key)), "round {round}");
        plain.kill();
    }
}

#[test]
fn valkey_in_a_mount_has_every_acknowledged_key() {
    keeps_every_key("valkey_in_a_mount_has_every_acknowledged_key", "valkey-server", "valkey-check-aof");
}

#[test]
fn redis_in_a_mount_has_every_acknowledged_key() {
    keeps_every_key("redis_in_a_mount_has_every_acknowledged_key", "redis-server", "redis-check-aof");
}

#[test]
fn sqlite_in_a_mount_has_every_row_after_kills() {
    const NAME: &str = "sqlite_in_a_mount_has_every_row_after_kills";
    let Some(place) = place(NAME).filter(|_| has("sqlite3", NAME)) else { return };
    let _daemon = place.start_daemon(DAEMON);
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
fn go_program_in_a_mount_keeps_acknowledged_bytes_over_power_loss() {
    const NAME: &str = "go_program_in_a_mount_keeps_acknowledged_bytes_over_power_loss";
    let Some(place) = place(NAME).filter(|_| has("go", NAME)) else { return };
    let program = place.path().join("keeps");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("actor/keeps.go");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(source).env("CGO_ENABLED", "0").env("GO111MODULE", "off");
    assert!(go.status().unwrap().success());
    let mut daemon = place.start_daemon(DAEMON);
    let session = place.session();
    let mut mount = mount(&place);
    let said = Command::new(program).arg(mount.file("log")).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Absorb);
    assert_survives(&place, &session, &place.file("log"));
    mount.kill();
    daemon.kill();
    drop(mount);
    place.lose_power();
    let _daemon = place.start_daemon(DAEMON);
    assert_eq!(std::fs::read(place.file("log")).unwrap(), said.stdout);
}
