//! Valkey and Redis, driven by their own benchmark.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::calls::request_promotion;
use crate::program::{Place, Program, Role, Setting, version_of};

/// A server and its benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    name: &'static str,
    pub server: &'static str,
    pub benchmark: &'static str,
}

/// Of Debian's backports.
pub const VALKEY: Server = Server { name: "valkey", server: "valkey-server", benchmark: "valkey-benchmark" };

/// Of the stable suite.
pub const REDIS: Server = Server { name: "redis", server: "redis-server", benchmark: "redis-benchmark" };

/// One load of a server.
#[derive(Debug)]
pub struct Load {
    server: Server,
    len: usize,
    clients: u32,
}

impl Load {
    pub const fn new(server: Server, len: usize, clients: u32) -> Self {
        Self { server, len, clients }
    }

    fn requests(&self, setting: Setting) -> u32 {
        match (setting, self.clients) {
            (Setting::Always, 1) => 2_000,
            (Setting::Always, _) => 30_000,
            (_, 1) => 60_000,
            // The log of both passes fits the DAX-resident file.
            _ if self.len > 256 => 100_000,
            _ => 200_000,
        }
    }

    fn start(&self, setting: Setting, place: &Place, folder: &Path) -> Result<Running> {
        let command = place.command(self.server.server, Role::Program, setting)?;
        Running::start(
            command,
            folder,
            match setting {
                Setting::NoLog => None,
                Setting::Always | Setting::AlwaysAbsorbed | Setting::AlwaysResident => Some("always"),
                _ => Some("everysec"),
            },
        )
    }

    fn load(&self, place: &Place, port: u16, requests: u32) -> Result<f64> {
        let numbers = [port.into(), requests, self.clients].map(|number| number.to_string());
        let mut command = place.command(self.server.benchmark, Role::Driver, Setting::NoLog)?;
        command.args(["-p", &numbers[0], "-n", &numbers[1], "-c", &numbers[2], "-d", &self.len.to_string()]);
        let rates = rates(command.args(["-t", "set", "-r", "100000"]))?;
        let set = rates.into_iter().find(|(name, _)| name == "SET");
        set.map(|(_, rate)| rate).context("the benchmark's line of SET")
    }
}

/// The log that a server appends to, which may be made after it listens.
fn log_in(folder: &Path) -> Result<PathBuf> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        let files = std::fs::read_dir(folder.join("appendonlydir")).into_iter().flatten().flatten();
        let mut logs = files.map(|file| file.path());
        if let Some(log) = logs.find(|path| path.to_string_lossy().ends_with(".incr.aof")) {
            return Ok(log);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("the server has no log")
}

/// What a benchmark says: commands, and how many of each a second.
pub fn rates(command: &mut Command) -> Result<Vec<(String, f64)>> {
    let said = command.arg("--csv").stderr(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let fields = |line: &str| {
        let mut fields = line.split("\",\"").map(|field| field.trim_matches('"').to_owned());
        Some((fields.next()?, fields.next()?.parse().ok()?))
    };
    Ok(said.lines().filter_map(fields).collect())
}

impl Program for Load {
    fn name(&self) -> String {
        format!("{}-{}-c{}", self.server.name, self.len, self.clients)
    }

    fn version(&self) -> Option<String> {
        version_of(self.server.benchmark, "--version").and(version_of(self.server.server, "--version"))
    }

    fn settings(&self) -> Vec<Setting> {
        let everysec = [Setting::EverySecond, Setting::EverySecondAbsorbed, Setting::EverySecondResident];
        let always = [Setting::NoLog, Setting::Always, Setting::AlwaysAbsorbed, Setting::AlwaysResident];
        let is_whole = self.server.name == VALKEY.name;
        always.into_iter().chain(everysec.into_iter().filter(|_| is_whole)).collect()
    }

    fn run(&mut self, setting: Setting, place: &Place) -> Result<f64> {
        let folder = place.fresh()?;
        let running = self.start(setting, place, folder.path())?;
        if setting.is_resident() {
            request_promotion(&log_in(folder.path())?, &place.socket())?;
        }
        let requests = self.requests(setting);
        self.load(place, running.port, requests / 5)?;
        self.load(place, running.port, requests)
    }
}

/// A server until it is dropped.
pub struct Running {
    child: Child,
    pub port: u16,
}

impl Running {
    /// Starts one with its files in a folder; `fsync` is when it syncs its log, if it has one.
    pub fn start(mut command: Command, folder: &Path, fsync: Option<&str>) -> Result<Self> {
        // The system gives a port that is free.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        command.args(["--port", &port.to_string(), "--save", "", "--dir"]).arg(folder);
        command.args(["--appendonly", if fsync.is_some() { "yes" } else { "no" }]);
        command.args(["--appendfsync", fsync.unwrap_or("no")]);
        // Begun once a log is 64 MiB long, on the server's own processor: in some of these runs, at some moment of theirs.
        command.args(["--auto-aof-rewrite-percentage", "0"]);
        let running = Self { child: command.stdout(Stdio::null()).spawn()?, port };
        running.wait_until_it_listens()?;
        Ok(running)
    }

    fn wait_until_it_listens(&self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the server does not listen")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
