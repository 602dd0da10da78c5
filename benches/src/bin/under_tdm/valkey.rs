//! Valkey and Redis, driven by their own benchmark.

use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::program::{Place, Program, Role, Setting, version_of};

/// A server and its benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    name: &'static str,
    server: &'static str,
    benchmark: &'static str,
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
            _ => 200_000,
        }
    }

    fn start(&self, setting: Setting, place: &Place, folder: &std::path::Path) -> Result<Running> {
        // The system gives a port that is free.
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = place.command(self.server.server, Role::Program, setting)?;
        command.args(["--port", &port.to_string(), "--save", "", "--dir"]).arg(folder);
        command.args(match setting {
            Setting::NoLog => ["--appendonly", "no", "--appendfsync", "no"],
            Setting::Always | Setting::AlwaysAbsorbed => ["--appendonly", "yes", "--appendfsync", "always"],
            _ => ["--appendonly", "yes", "--appendfsync", "everysec"],
        });
        let child = command.stdout(Stdio::null()).spawn()?;
        let running = Running { child, port };
        running.wait_until_it_listens()?;
        Ok(running)
    }

    fn load(&self, place: &Place, port: u16, requests: u32) -> Result<f64> {
        let mut command = place.command(self.server.benchmark, Role::Driver, Setting::NoLog)?;
        let numbers = [port.into(), requests, self.clients].map(|number| number.to_string());
        command.args(["-p", &numbers[0], "-n", &numbers[1], "-c", &numbers[2], "-d", &self.len.to_string()]);
        command.args(["-t", "set", "-r", "100000", "--csv"]);
        let said = command.stderr(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let line =
            said.lines().find(|line| line.starts_with("\"SET\"")).context("the benchmark's line of SET")?;
        let rate = line.split(',').nth(1).map(|field| field.trim_matches('"'));
        rate.and_then(|rate| rate.parse().ok()).with_context(|| format!("a rate in {line}"))
    }
}

impl Program for Load {
    fn name(&self) -> String {
        format!("{}-{}-c{}", self.server.name, self.len, self.clients)
    }

    fn version(&self) -> Option<String> {
        version_of(self.server.benchmark, "--version").and(version_of(self.server.server, "--version"))
    }

    fn settings(&self) -> Vec<Setting> {
        let everysec = [Setting::EverySecond, Setting::EverySecondAbsorbed];
        let always = [Setting::NoLog, Setting::Always, Setting::AlwaysAbsorbed];
        let is_whole = self.server.name == VALKEY.name;
        always.into_iter().chain(everysec.into_iter().filter(|_| is_whole)).collect()
    }

    fn run(&mut self, setting: Setting, place: &Place) -> Result<f64> {
        let folder = place.fresh()?;
        let running = self.start(setting, place, folder.path())?;
        let requests = self.requests(setting);
        self.load(place, running.port, requests / 5)?;
        self.load(place, running.port, requests)
    }
}

/// A server until it is dropped.
struct Running {
    child: Child,
    port: u16,
}

impl Running {
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
