//! Real programs, where they are installed: killed while they write, they have everything acknowledged.

use std::process::{Command, Stdio};

use byway_conformance::skips::has;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::server::{Server, is_sound, log_in};
use byway_tdm_tests::{Place, assert_survives, library, sqlite, witness};

use crate::{DAEMON, place, rounds};

/// Has a program be served, or not; what the disk has of its files is known in either case.
fn put(command: &mut Command, place: &Place, is_served: bool) {
    let libraries = match is_served {
        true => format!("{}:{}", library().display(), witness().display()),
        false => witness().display().to_string(),
    };
    command.env("LD_PRELOAD", libraries).env("BYWAY_TDM_SOCKET", &place.options.socket);
    command.env("BYWAY_WITNESS", place.path().join("witness"));
}

/// A server on the files of a place.
fn start(program: &str, place: &Place, is_served: bool) -> Server {
    let mut command = Command::new(program);
    put(&mut command, place, is_served);
    Server::start(command, &place.path().join("files"))
}

/// Kills the server, the server and its daemon, or all by a loss of power, in turn: every acknowledged key is found each time.
fn keeps_every_key(program: &str, checker: &str) {
    let place = place();
    let mut daemon = place.start_daemon(DAEMON);
    let mut next = 0;
    for round in 0..rounds(6) {
        let session = place.session();
        let mut server = start(program, &place, true);
        let log = || log_in(&place.path().join("files"));
        server.set_many(&mut next, 150);
        if round == 0 {
            let log = log();
            let name = log.strip_prefix(place.path().join("files")).unwrap().to_str().unwrap().to_owned();
            place.await_absorbed(&session, &name, || server.set_many(&mut next, 50));
        }
        if round % 3 != 0 {
            daemon.kill();
            server.set_many(&mut next, 50);
        }
        assert_survives(&place, &session, &log());
        server.kill();
        if round % 3 == 2 {
            place.lose_power();
        }
        if round % 3 != 0 {
            daemon = place.start_daemon(DAEMON);
        }
        assert!(is_sound(checker, &log()), "round {round}");
        let mut plain = start(program, &place, false);
        assert!((0..next).all(|key| plain.has(key)), "round {round}");
        plain.kill();
    }
}

#[test]
fn valkey_has_every_acknowledged_key() {
    if has("valkey-server", "valkey_has_every_acknowledged_key") {
        keeps_every_key("valkey-server", "valkey-check-aof");
    }
}

#[test]
fn redis_has_every_acknowledged_key() {
    if has("redis-server", "redis_has_every_acknowledged_key") {
        keeps_every_key("redis-server", "redis-check-aof");
    }
}

#[test]
fn sqlite_has_every_acknowledged_row() {
    if !has("sqlite3", "sqlite_has_every_acknowledged_row") {
        return;
    }
    let place = place();
    let mut daemon = place.start_daemon(DAEMON);
    let mut rows = 0;
    for round in 0..rounds(6) {
        let (mut program, said) = sqlite::insert(sqlite(&place, true), "WAL");
        rows += said;
        program.kill().unwrap();
        program.wait().unwrap();
        if round % 2 == 1 {
            daemon.kill();
            place.lose_power();
            daemon = place.start_daemon(DAEMON);
        }
        let count = sqlite::count(sqlite(&place, false));
        assert!(count >= rows, "{count} of {rows} in round {round}");
        rows = count;
    }
}

#[test]
fn sqlite_log_stays_at_dax_through_checkpoints() {
    if !has("sqlite3", "sqlite_log_stays_at_dax_through_checkpoints") {
        return;
    }
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut command = sqlite::command(&place.path().join("files"));
    command.env("LD_PRELOAD", library()).env("BYWAY_TDM_SOCKET", &place.options.socket);
    let mut shell = sqlite::Shell::start(command);
    shell.insert(20);
    assert!(place.order(Order::Promote, "base-wal"));
    for round in 0..5 {
        shell.insert(40);
        let level_state = place.level_state(&session, "base-wal").unwrap();
        assert_eq!(level_state.level, Level::Dax, "{} in round {round}", level_state.why);
    }
    shell.kill();
    assert_eq!(sqlite::count(sqlite::command(&place.path().join("files"))), 220);
}

fn sqlite(place: &Place, is_served: bool) -> Command {
    let mut command = sqlite::command(&place.path().join("files"));
    put(&mut command, place, is_served);
    command
}

#[test]
fn rocksdb_has_every_acknowledged_key_after_power_loss() {
    if !has("db_bench", "rocksdb_has_every_acknowledged_key_after_power_loss") {
        return;
    }
    let place = place();
    let mut daemon = place.start_daemon(DAEMON);
    for round in 1..=rounds(3) {
        let written =
            db_bench(&place, true, &["--benchmarks=fillseq", "--sync=1", "--num=500", "--threads=1"]);
        assert!(written.contains("fillseq"), "{written}");
        daemon.kill();
        place.lose_power();
        daemon = place.start_daemon(DAEMON);
        let read = db_bench(&place, false, &["--benchmarks=readseq", "--use_existing_db=1", "--num=1000"]);
        assert!(read.contains("500 of") || read.contains("500 operations"), "round {round}: {read}");
    }
}

/// What it says.
fn db_bench(place: &Place, is_served: bool, options: &[&str]) -> String {
    let mut command = Command::new("db_bench");
    command
        .current_dir(place.path().join("files"))
        .args(["--db=base", "--compression_type=none"])
        .args(options);
    put(&mut command, place, is_served);
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}
