//! Real programs, where they are installed: killed while they are told to keep something, they have all that they said was kept.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use byway_conformance::skips::has;
use byway_tdm_board::Level;
use byway_tdm_tests::{Place, assert_survives, library, witness};

use crate::{KEEPER, place, rounds};

/// A server of keys and values with its log on, always synced.
struct Server {
    child: Child,
    client: BufReader<UnixStream>,
}

impl Server {
    fn start(program: &str, place: &Place, is_served: bool) -> Self {
        let folder = place.path().join("files");
        let socket = folder.join("server");
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new(program);
        command.current_dir(&folder).args(["--port", "0", "--unixsocket", "server", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]).stdout(Stdio::null());
        put(&mut command, place, is_served);
        let child = command.spawn().unwrap();
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut server = Self { child, client: BufReader::new(stream) };
        // It answers once it has loaded what is there.
        while !server.asked("PING").unwrap().starts_with("+PONG") {
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Its answer's first line; none where it is gone.
    fn asked(&mut self, line: &str) -> Option<String> {
        write!(self.client.get_mut(), "{line}\r\n").ok()?;
        let mut answer = String::new();
        let read = self.client.read_line(&mut answer).ok()?;
        (read > 0).then_some(answer)
    }

    fn set(&mut self, key: u64) -> bool {
        self.asked(&format!("SET key-{key} value-{key}")).is_some_and(|answer| answer == "+OK\r\n")
    }

    fn has(&mut self, key: u64) -> bool {
        self.asked(&format!("EXISTS key-{key}")).unwrap() == ":1\r\n"
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has a program be served, or not; what the disk has of its files is known in either case.
fn put(command: &mut Command, place: &Place, is_served: bool) {
    let libraries = match is_served {
        true => format!("{}:{}", library().display(), witness().display()),
        false => witness().display().to_string(),
    };
    command.env("LD_PRELOAD", libraries).env("BYWAY_TDM_SOCKET", &place.options.socket);
    command.env("BYWAY_WITNESS", place.path().join("witness"));
}

/// The log that a server appends to.
fn log_of(place: &Place) -> PathBuf {
    let folder = place.file("appendonlydir");
    let names = std::fs::read_dir(folder).unwrap().map(|name| name.unwrap().path());
    names.into_iter().find(|path| path.to_string_lossy().ends_with(".incr.aof")).unwrap()
}

fn is_sound(checker: &str, log: &Path) -> bool {
    Command::new(checker).arg(log).stdout(Stdio::null()).status().unwrap().success()
}

/// Kills the server, the server and its daemon, or all by a loss of power, in turn: every acknowledged key is there each time.
fn keeps_every_key(program: &str, checker: &str) {
    let place = place();
    let mut keeper = place.keeper(KEEPER);
    let mut next = 0;
    for round in 0..rounds(6) {
        let session = place.session();
        let mut server = Server::start(program, &place, true);
        set_many(&mut server, &mut next, 150);
        if round == 0 {
            let log = log_of(&place);
            let name = log.strip_prefix(place.path().join("files")).unwrap().to_str().unwrap().to_owned();
            assert_eq!(place.standing(&session, &name).unwrap().level, Level::Absorb);
        }
        if round % 3 != 0 {
            keeper.kill();
            set_many(&mut server, &mut next, 50);
        }
        assert_survives(&place, &session, &log_of(&place));
        server.kill();
        if round % 3 == 2 {
            place.lose_power();
        }
        if round % 3 != 0 {
            keeper = place.keeper(KEEPER);
        }
        assert!(is_sound(checker, &log_of(&place)), "round {round}");
        let mut plain = Server::start(program, &place, false);
        assert!((0..next).all(|key| plain.has(key)), "round {round}");
        plain.kill();
    }
}

fn set_many(server: &mut Server, next: &mut u64, count: u64) {
    for key in *next..*next + count {
        assert!(server.set(key));
    }
    *next += count;
}

#[test]
fn valkey_has_every_key_that_it_said_was_kept() {
    if has("valkey-server", "valkey_has_every_key_that_it_said_was_kept") {
        keeps_every_key("valkey-server", "valkey-check-aof");
    }
}

#[test]
fn redis_has_every_key_that_it_said_was_kept() {
    if has("redis-server", "redis_has_every_key_that_it_said_was_kept") {
        keeps_every_key("redis-server", "redis-check-aof");
    }
}

#[test]
fn sqlite_has_every_row_that_it_said_was_kept() {
    if !has("sqlite3", "sqlite_has_every_row_that_it_said_was_kept") {
        return;
    }
    let place = place();
    let mut keeper = place.keeper(KEEPER);
    let mut rows = 0;
    for round in 0..rounds(6) {
        rows += insert_until_killed(&place);
        if round % 2 == 1 {
            keeper.kill();
            place.lose_power();
            keeper = place.keeper(KEEPER);
        }
        let mut plain = sqlite(&place, false);
        plain.arg("PRAGMA integrity_check; SELECT count(*) FROM t;");
        let said = String::from_utf8(plain.output().unwrap().stdout).unwrap();
        let (verdict, count) = said.trim().split_once('\n').unwrap();
        assert_eq!(verdict, "ok");
        assert!(count.parse::<usize>().unwrap() >= rows, "{count} of {rows} in round {round}");
        rows = count.parse().unwrap();
    }
}

fn sqlite(place: &Place, is_served: bool) -> Command {
    let mut command = Command::new("sqlite3");
    command.current_dir(place.path().join("files")).arg("base");
    put(&mut command, place, is_served);
    command
}

/// Rows that it said it has before it was killed.
fn insert_until_killed(place: &Place) -> usize {
    let mut command = sqlite(place, true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    writeln!(lines, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS t(a);")
        .unwrap();
    for _ in 0..60 {
        writeln!(lines, "INSERT INTO t VALUES(randomblob(300)); SELECT 'row';").unwrap();
    }
    lines.flush().unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let rows = told.filter(|line| line == "row").take(50).count();
    child.kill().unwrap();
    child.wait().unwrap();
    rows
}

#[test]
fn rocksdb_has_every_key_that_it_said_was_kept_when_power_goes() {
    if !has("db_bench", "rocksdb_has_every_key_that_it_said_was_kept_when_power_goes") {
        return;
    }
    let place = place();
    let mut keeper = place.keeper(KEEPER);
    for round in 1..=rounds(3) {
        let written =
            db_bench(&place, true, &["--benchmarks=fillseq", "--sync=1", "--num=500", "--threads=1"]);
        assert!(written.contains("fillseq"), "{written}");
        keeper.kill();
        place.lose_power();
        keeper = place.keeper(KEEPER);
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
