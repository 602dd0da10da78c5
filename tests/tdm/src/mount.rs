//! A mount in a process of its own, which can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::actor::Actor;
use crate::built;
use crate::place::Place;

/// A running mount: `files` of its place appears in `mounted`.
#[derive(Debug)]
pub struct Mount {
    child: Child,
    said: BufReader<ChildStdout>,
    at: PathBuf,
}

/// Why folders cannot be mounted here, if so.
#[must_use]
pub fn cannot_mount() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse");
    }
    (!rustix::process::geteuid().is_root()).then_some("mounting takes root")
}

impl Mount {
    /// Starts `program` on the files of a place, which fail when the place says so; returns once mounted.
    #[must_use]
    pub fn start(program: &str, place: &Place) -> Self {
        let at = place.path().join("mounted");
        let _ = std::fs::create_dir(&at);
        Self::over(program, place, at)
    }

    /// The same, mounted at `at`.
    #[must_use]
    pub fn over(program: &str, place: &Place, at: PathBuf) -> Self {
        let mut command = Command::new(program);
        command.arg(place.path().join("files")).arg(&at).arg(&place.options.socket);
        let libraries = [built::broken(), built::witness()].map(|it| it.display().to_string());
        command.env("LD_PRELOAD", libraries.join(":")).env("BYWAY_BROKEN", place.broken());
        command.env("BYWAY_WITNESS", place.path().join("witness"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut mount = Self { child, said, at };
        assert_eq!(mount.said(), "mounted");
        mount
    }

    /// Its next line of output.
    pub fn said(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The mount point.
    #[must_use]
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// A static program that works there.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::fixed(&self.at)
    }

    /// Its process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Unmounts.
    pub fn leave(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Unmounts and ends it, with nothing open.
    pub fn end(mut self) {
        self.leave();
        assert_eq!(self.said(), "Ok(Clean)");
        assert_eq!(self.said(), "Ok(Ok(()))");
        self.said();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A failed test must leave no mount.
        let _ = Command::new("umount").arg("-lq").arg(&self.at).stderr(Stdio::null()).status();
    }
}
