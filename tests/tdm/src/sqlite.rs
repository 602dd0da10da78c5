//! SQLite's own program, as it is.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

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
    let reported = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let rows = reported.filter(|line| line == "row").take(50).count();
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

/// The program, which inserts the rows it is given.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    lines: ChildStdin,
    reported: BufReader<ChildStdout>,
}

impl Shell {
    /// With a table of rows that are kept before it says so, and a checkpoint for every few pages of its log.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (lines, reported) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shell = Self { child, lines, reported: BufReader::new(reported) };
        let begin = "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=8; PRAGMA synchronous=FULL; CREATE TABLE t(a);";
        writeln!(shell.lines, "{begin}").unwrap();
        shell
    }

    /// So many more, all of which it has said were kept.
    pub fn insert(&mut self, rows: usize) {
        for _ in 0..rows {
            writeln!(self.lines, "INSERT INTO t VALUES(randomblob(300)); SELECT 'row';").unwrap();
        }
        let reported = self.reported.by_ref().lines().map_while(Result::ok);
        assert_eq!(reported.filter(|line| line == "row").take(rows).count(), rows);
    }

    /// In the midst of its work.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
