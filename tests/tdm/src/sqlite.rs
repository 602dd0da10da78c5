//! SQLite's own program, as it is.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The program on `base` in a folder.
#[must_use]
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new("sqlite3");
    command.current_dir(folder).arg("base");
    command
}

/// Has it insert rows, each kept before it says so, until it has said so 50 times; the program, and how often it said so.
#[must_use]
pub fn insert(mut command: Command, journal: &str) -> (Child, usize) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    let begin = "PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS t(a);";
    writeln!(lines, "PRAGMA journal_mode={journal}; {begin}").unwrap();
    for _ in 0..60 {
        writeln!(lines, "INSERT INTO t VALUES(randomblob(300)); SELECT 'row';").unwrap();
    }
    lines.flush().unwrap();
    // Its input stays open: it waits for more when all is said.
    std::mem::forget(lines);
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let rows = told.filter(|line| line == "row").take(50).count();
    (child, rows)
}

/// Rows of a base that is sound.
#[must_use]
pub fn count(mut command: Command) -> usize {
    command.arg("PRAGMA integrity_check; SELECT count(*) FROM t;");
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let (verdict, count) = said.trim().split_once('\n').unwrap();
    assert_eq!(verdict, "ok");
    count.parse().unwrap()
}
