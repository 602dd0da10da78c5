//! A daemon in a process of its own, which can be killed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use byway_tdm_daemon::Options;
use rustix::process::{Pid, Signal};

use crate::built;
use crate::place::{Place, come_to};

/// A running daemon.
#[derive(Debug)]
pub struct DaemonProcess {
    child: Child,
    /// Results for the files absorbed before, a line each.
    pub recovered: Vec<String>,
}

impl DaemonProcess {
    /// Starts `program` with the options of a place; returns once it serves.
    #[must_use]
    pub fn start(program: &str, place: &Place) -> Self {
        come_to(|| {
            let mut command = command(program, place);
            command.env("LD_PRELOAD", built::witness()).env("BYWAY_WITNESS", place.path().join("witness"));
            Self::of(command)
        })
    }

    /// The same, killed before its n-th call that writes, truncates or syncs a file; `None` if it was killed.
    #[must_use]
    pub fn mortal(program: &str, place: &Place, call: u64) -> Option<Self> {
        come_to(|| {
            let mut command = command(program, place);
            command.env("LD_PRELOAD", built::mortal()).env("BYWAY_MORTAL", call.to_string());
            match Self::of(command) {
                Err(ended) if ended.signal().is_some() => Ok(None),
                begun => begun.map(Some),
            }
        })
    }

    /// The same, whose files fail when the place says so.
    #[must_use]
    pub fn breakable(program: &str, place: &Place) -> Self {
        come_to(|| {
            let mut command = command(program, place);
            command.env("LD_PRELOAD", built::broken()).env("BYWAY_BROKEN", place.broken());
            Self::of(command)
        })
    }

    /// The same without libraries behind ours.
    #[must_use]
    pub fn unwitnessed(program: &str, place: &Place) -> Self {
        come_to(|| Self::of(command(program, place)))
    }

    /// Starts one and kills it soon, possibly before it serves.
    pub fn killed(program: &str, place: &Place, after: Duration) {
        let mut child = command(program, place).spawn().unwrap();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn of(mut command: Command) -> Result<Self, ExitStatus> {
        let mut child = command.spawn().unwrap();
        let mut recovered = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            match line.unwrap().as_str() {
                "serves" => return Ok(Self { child, recovered }),
                line => recovered.push(line.to_owned()),
            }
        }
        Err(child.wait().unwrap())
    }

    /// The options that a program was given by [`DaemonProcess::start`].
    #[must_use]
    pub fn options(arguments: &[String]) -> Options {
        let [region, ring_bytes, socket, file_tables] = arguments else {
            panic!("four arguments: {arguments:?}")
        };
        let mut options = Options::new(region, socket.into())
            .ring_bytes(ring_bytes.parse().unwrap())
            .file_tables(file_tables);
        options.opening.emulate_persistence = true;
        options
    }

    /// Its process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues it.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it regularly: no log keeps anything.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn command(program: &str, place: &Place) -> Command {
    let options = &place.options;
    let mut command = Command::new(program);
    command.args([&options.region, &options.ring_bytes.to_string()]);
    command.args([&options.socket, &options.file_tables]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
