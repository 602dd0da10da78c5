//! Valkey and Redis, as they are: servers of keys and values with their log on, always synced.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running one.
#[derive(Debug)]
pub struct Server {
    child: Child,
    client: BufReader<UnixStream>,
}

impl Server {
    /// The program of a command, in a folder. It has loaded its data when this returns.
    #[must_use]
    pub fn start(mut command: Command, folder: &Path) -> Self {
        let socket = folder.join("server");
        let _ = std::fs::remove_file(&socket);
        command.current_dir(folder).args(["--port", "0", "--unixsocket", "server", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut server = Self { child, client: BufReader::new(stream) };
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

    /// Has it keep a key; whether it says that it does.
    pub fn set(&mut self, key: u64) -> bool {
        self.asked(&format!("SET key-{key} value-{key}")).is_some_and(|answer| answer == "+OK\r\n")
    }

    /// Stores `count` keys from `next` on, and advances `next`.
    pub fn set_many(&mut self, next: &mut u64, count: u64) {
        for key in *next..*next + count {
            assert!(self.set(key));
        }
        *next += count;
    }

    /// Whether it has a key.
    pub fn has(&mut self, key: u64) -> bool {
        self.asked(&format!("EXISTS key-{key}")).unwrap() == ":1\r\n"
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
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

/// The log that a server in a folder appends to.
#[must_use]
pub fn log_in(folder: &Path) -> PathBuf {
    let names = std::fs::read_dir(folder.join("appendonlydir")).unwrap().map(|name| name.unwrap().path());
    names.into_iter().find(|path| path.to_string_lossy().ends_with(".incr.aof")).unwrap()
}

/// Whether the server's own program finds nothing wrong with a log.
#[must_use]
pub fn is_sound(checker: &str, log: &Path) -> bool {
    Command::new(checker).arg(log).stdout(Stdio::null()).status().unwrap().success()
}
