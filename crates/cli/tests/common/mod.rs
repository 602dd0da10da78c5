//! What the tests of the command share.
#![allow(clippy::unwrap_used, dead_code)]

pub mod browser;
pub mod exposition;
pub mod pages;
pub mod promql;
pub mod server;
pub mod tdm;

use std::path::PathBuf;

use assert_cmd::Command;
use tempfile::TempDir;

/// The command under test, with its own place for calibrations.
pub fn byway() -> Command {
    let mut command = Command::cargo_bin("byway").unwrap();
    command.env("XDG_CONFIG_HOME", "/nonexistent/byway-tests");
    command
}

/// What a command that must succeed printed.
pub fn said(args: &[&str]) -> String {
    let output = byway().args(args).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

/// What a command that must fail with a code said on standard error.
pub fn refused(code: i32, args: &[&str]) -> String {
    let output = byway().args(args).assert().code(code).get_output().clone();
    assert!(output.stdout.is_empty(), "{args:?} printed data: {:?}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Waits until a child that never rests has had a processor for so many hundredths of a second: it has begun, however little a
/// busy machine gave it so far.
pub fn await_work(pid: u32, hundredths: u64) {
    let worked = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // Behind the name, which may hold anything: the 12th and 13th are user and system time (proc(5)).
        let (_, fields) = stat.rsplit_once(')').unwrap();
        assert!(!fields.trim_start().starts_with('Z'), "it has ended");
        let times = fields.split_whitespace().skip(11).take(2);
        times.map(|time| time.parse::<u64>().unwrap()).sum::<u64>()
    };
    while worked() < hundredths {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A folder with an image in it.
pub struct Image {
    pub dir: TempDir,
}

impl Image {
    /// A new image with these namespaces.
    pub fn new(namespaces: &[&str]) -> Self {
        Self::sized("64M", namespaces)
    }

    /// The same of another size.
    pub fn sized(size: &str, namespaces: &[&str]) -> Self {
        let image = Self { dir: tempfile::tempdir().unwrap() };
        let path = image.path();
        let mut args = vec!["create", path.to_str().unwrap(), "--size", size];
        args.extend(namespaces.iter().flat_map(|namespace| ["--ns", *namespace]));
        said(&args);
        image
    }

    /// The image's file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    /// The image's URI with options.
    pub fn uri(&self, options: &str) -> String {
        let query = if options.is_empty() { String::new() } else { format!("?{options}") };
        format!("embedded:{}{query}", self.path().display())
    }

    /// A file beside the image.
    pub fn file(&self, name: &str, text: &[u8]) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Each line of a text as JSON.
pub fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}
