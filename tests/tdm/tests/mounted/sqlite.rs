//! SQLite's own program, as it is.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Has it insert rows into `base` in a folder, each kept before it says `row`; what it says, and the program.
pub fn insert(folder: &Path, journal: &str, rows: usize) -> (impl Iterator<Item = String>, Child) {
    let mut command = Command::new("sqlite3");
    command.current_dir(folder).arg("base").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    let begin = "PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS t(a);";
    writeln!(lines, "PRAGMA journal_mode={journal}; {begin}").unwrap();
    for _ in 0..rows {
        writeln!(lines, "INSERT INTO t VALUES(randomblob(300)); SELECT 'row';").unwrap();
    }
    lines.flush().unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // Its input stays open: it waits for more when all is said.
    std::mem::forget(lines);
    (told, child)
}

/// Rows of a base that is sound.
pub fn count(folder: &Path) -> usize {
    let mut command = Command::new("sqlite3");
    command.current_dir(folder).args(["base", "PRAGMA integrity_check; SELECT count(*) FROM t;"]);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let (verdict, count) = said.trim().split_once('\n').unwrap();
    assert_eq!(verdict, "ok");
    count.parse().unwrap()
}
