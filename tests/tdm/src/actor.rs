//! The actor: a program that makes the calls it is given.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use crate::built;
use crate::place::Place;

/// A running actor.
#[derive(Debug)]
pub struct Actor {
    child: Child,
    lines: Option<ChildStdin>,
    answers: Option<BufReader<ChildStdout>>,
}

/// Everything that changes an attribute of a file `log` that is open as `a`.
pub const ATTRIBUTE_CHANGES: [&str; 14] = [
    "fchmod a 384",
    "sys_fchmod a 420",
    "chmod log 384",
    "fchmodat log 420",
    "fchown a",
    "chown log",
    "futimens a 1",
    "sys_futimens a 2",
    "utimensat log 3",
    "fsetxattr a",
    "fremovexattr a",
    "setxattr log",
    "link log other",
    "fallocate a 1 0 100000",
];

/// Answer to a call: its result, and errno if that is negative.
pub type Answer = String;

impl Actor {
    /// An actor in a folder, under the library of a place or without it.
    #[must_use]
    pub fn start(folder: &Path, under: Option<&Place>) -> Self {
        let mut command = Command::new(built::actor());
        command.current_dir(folder);
        if let Some(place) = under {
            command
                .env("LD_PRELOAD", format!("{}:{}", built::library().display(), built::witness().display()));
            command.env("BYWAY_TDM_SOCKET", &place.options.socket);
            command.env("BYWAY_WITNESS", place.path().join("witness"));
        }
        Self::of(command)
    }

    /// A static actor in a folder, which cannot load the library.
    #[must_use]
    pub fn fixed(folder: &Path) -> Self {
        let mut command = Command::new(built::static_actor());
        command.current_dir(folder);
        Self::of(command)
    }

    /// An actor under the library without the witness, which may not be interrupted.
    #[must_use]
    pub fn unwitnessed(place: &Place) -> Self {
        Self::unwitnessed_in(place, &place.path().join("files"))
    }

    /// The same in another folder: in a mount, whose process has the witness.
    #[must_use]
    pub fn unwitnessed_in(place: &Place, folder: &Path) -> Self {
        let mut command = Command::new(built::actor());
        command.current_dir(folder).env("LD_PRELOAD", built::library());
        command.env("BYWAY_TDM_SOCKET", &place.options.socket);
        Self::of(command)
    }

    /// An actor under the library whose real syncs are delayed and keep nothing.
    #[must_use]
    pub fn above(place: &Place, below_ns: u64) -> Self {
        let mut command = Command::new(built::actor());
        let libraries = format!("{}:{}", built::library().display(), built::below().display());
        command.current_dir(place.path().join("files")).env("LD_PRELOAD", libraries);
        command.env("BYWAY_TDM_SOCKET", &place.options.socket).env("BYWAY_BELOW_NS", below_ns.to_string());
        Self::of(command)
    }

    /// An actor under the library whose files fail when the place says so.
    #[must_use]
    pub fn breakable(place: &Place) -> Self {
        let mut command = Command::new(built::actor());
        let libraries =
            [built::library(), built::broken(), built::witness()].map(|it| it.display().to_string());
        command.current_dir(place.path().join("files")).env("LD_PRELOAD", libraries.join(":"));
        command.env("BYWAY_TDM_SOCKET", &place.options.socket).env("BYWAY_BROKEN", place.broken());
        command.env("BYWAY_WITNESS", place.path().join("witness"));
        Self::of(command)
    }

    /// An actor under the library that can be interrupted inside a write.
    #[must_use]
    pub fn interruptible(place: &Place) -> Self {
        let mut command = Command::new(built::actor());
        let libraries =
            [built::library(), built::inside(), built::witness()].map(|it| it.display().to_string());
        command.current_dir(place.path().join("files")).env("LD_PRELOAD", libraries.join(":"));
        command.env("BYWAY_TDM_SOCKET", &place.options.socket);
        command.env("BYWAY_WITNESS", place.path().join("witness"));
        Self::of(command)
    }

    /// An actor of another user, in a folder of a place, with copies of its files.
    #[must_use]
    pub fn of_user(place: &Place, folder: &str, uid: u32) -> Self {
        let [actor, library] = [built::actor(), built::library()].map(|made| {
            let copy = place.path().join(made.file_name().unwrap());
            // A running program cannot be overwritten.
            if !copy.exists() {
                std::fs::copy(made, &copy).unwrap();
                std::fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
            }
            copy
        });
        let mut command = Command::new(actor);
        command.current_dir(place.path().join(folder)).env("LD_PRELOAD", library);
        command.env("BYWAY_TDM_SOCKET", &place.options.socket).uid(uid).gid(uid);
        Self::of(command)
    }

    /// One in namespaces of its own (unshare(1)), in a folder that is the place's files there.
    #[must_use]
    pub fn separately(place: &Place, namespaces: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        let begin = "case $1 in --mount) mount --bind files plain; cd plain;; *) cd files;; esac && LD_PRELOAD=$2 exec \"$0\"";
        command.args(namespaces).args(["sh", "-c", begin]).arg(built::actor());
        command.args([namespaces[0].as_ref(), built::library().as_os_str()]);
        command.current_dir(place.path()).env("BYWAY_TDM_SOCKET", &place.options.socket);
        Self::of(command)
    }

    /// An actor whose standard output is a file, which also gets its answers.
    #[must_use]
    pub fn with_output(place: &Place, file: &Path) -> Self {
        let mut command = Command::new(built::actor());
        command.current_dir(place.path().join("files")).env("LD_PRELOAD", built::library());
        command.env("BYWAY_TDM_SOCKET", &place.options.socket);
        let output = std::fs::File::options().append(true).open(file).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(output).spawn().unwrap();
        let lines = child.stdin.take();
        Self { child, lines, answers: None }
    }

    /// An actor started with `log` open as 3, by a shell without the library.
    #[must_use]
    pub fn inheriting(place: &Place) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "LD_PRELOAD=\"$1\" exec \"$0\" 3>>log"]);
        command.args([built::actor(), built::library()]);
        command.current_dir(place.path().join("files")).env("BYWAY_TDM_SOCKET", &place.options.socket);
        Self::of(command)
    }

    /// Starts a command.
    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = child.stdin.take();
        let answers = child.stdout.take().map(BufReader::new);
        Self { child, lines, answers }
    }

    /// Makes a call; returns the answer.
    #[must_use]
    pub fn asked(&mut self, line: &str) -> Answer {
        self.send(line);
        self.answer_to(line)
    }

    /// Result of the call.
    #[must_use]
    pub fn answer(&mut self) -> Answer {
        self.answer_to("the last call")
    }

    fn answer_to(&mut self, line: &str) -> Answer {
        self.wait(line);
        let mut answer = String::new();
        let read = self.answers.as_mut().unwrap().read_line(&mut answer).unwrap();
        assert!(read > 0, "the actor ended at {line:?}: {:?}", self.child.try_wait());
        answer.trim_end().to_owned()
    }

    /// Waits for the answer, with a limit.
    fn wait(&self, line: &str) {
        let mut ready = [PollFd::new(self.answers.as_ref().unwrap().get_ref(), PollFlags::IN)];
        let longest = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert!(poll(&mut ready, Some(&longest)).unwrap() > 0, "the actor hangs at {line:?}");
    }

    /// Makes successful calls, divided by semicolons; returns the last result.
    pub fn does(&mut self, lines: &str) -> i64 {
        let mut last = 0;
        for line in lines.split(';').map(str::trim) {
            let answer = self.asked(line);
            last = answer.parse().unwrap_or_else(|_| panic!("{line:?}: {answer}"));
            assert!(last >= 0, "{line:?}: {answer}");
        }
        last
    }

    /// Sends a call without waiting for its answer.
    pub fn send(&mut self, line: &str) {
        writeln!(self.lines.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits until it has stopped itself.
    pub fn await_stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Continues it (SIGCONT).
    pub fn goes_on(&self) {
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
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

    /// Ends it.
    pub fn ended(mut self) {
        drop(self.lines.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
