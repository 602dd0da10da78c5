//! A server under test.
#![allow(clippy::unwrap_used, dead_code)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a server that owes a line may say nothing. It is a failure of the server's, not of a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A server that listens.
pub struct Server {
    pub child: Child,
    /// Its lines, until it says no more.
    lines: Receiver<String>,
}

impl Server {
    /// One that has said where.
    pub fn start(args: &[&str]) -> Self {
        Self::begin(args).0
    }

    /// With what it said first: where it listens.
    pub fn begin(args: &[&str]) -> (Self, String) {
        let server = Self::spawn(&[&["serve"], args].concat());
        let line = server.line();
        assert!(line.contains("listening"), "{line}");
        (server, line)
    }

    /// A command that serves, with all that it said until it listens.
    pub fn begin_with(args: &[&str]) -> (Self, Vec<String>) {
        let server = Self::spawn(args);
        let mut said = vec![server.line()];
        while said.last().is_some_and(|line| !line.contains("listening")) {
            said.push(server.line());
        }
        (server, said)
    }

    /// One that has said nothing yet.
    pub fn spawn(args: &[&str]) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
        command.args(args).stderr(Stdio::null());
        Self::spawn_command(command)
    }

    /// As [`Server::spawn`], with arguments, environment and standard error of the test's choice.
    pub fn spawn_command(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (say, lines) = channel();
        // It ends with the server, or once the receiver is dropped.
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { child, lines }
    }

    /// The next line that it says.
    pub fn line(&self) -> String {
        self.next_line().expect("the server says no more")
    }

    fn next_line(&self) -> Option<String> {
        match self.lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the server has said nothing for {SILENCE_MAX:?}"),
        }
    }

    /// All lines that it says until it ends.
    pub fn rest(&self) -> Vec<String> {
        std::iter::from_fn(|| self.next_line()).collect()
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Ends in order: what it said.
    pub fn end(mut self, signal: &str) -> String {
        self.signal(signal);
        let rest = self.rest();
        assert!(self.child.wait().unwrap().success());
        rest.join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
