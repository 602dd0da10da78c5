//! `byway top`: what it shows of servers and devices.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::server::Server;
use common::{Image, byway, json_lines, refused, said};

/// How long a condition may take to come true on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const NQN: &str = "nqn.2026-11.example:disk";

/// A server with figures: where they are, and its URI.
fn serve(device: &str) -> (Server, String, String) {
    let args = [device, "--tcp", "127.0.0.1:0", "--nqn", NQN, "--metrics", "127.0.0.1:0", "--json"];
    let (server, line) = Server::begin(&args);
    let listening = json_lines(&line).remove(0);
    let [tcp, metrics] = ["tcp", "metrics"].map(|place| listening[place].as_str().unwrap());
    (server, format!("http://{metrics}"), format!("tcp://{tcp}/{NQN}"))
}

/// A command that goes on until it is dropped.
struct Running(std::process::Child);

impl Running {
    fn load(uri: &str) -> Self {
        let args = ["perf", uri, "--rw", "read", "--bs", "4K", "--depth", "4", "--time", "600"];
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
        Self(command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A report as JSON, once it is as `wanted`.
fn await_report(uri: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let start = Instant::now();
    loop {
        let report = json_lines(&said(&["top", uri, "--once", "--json", "--interval", "0.3"])).remove(0);
        if wanted(&report) {
            return report;
        }
        assert!(start.elapsed() < TIMEOUT, "{report}");
    }
}

fn command<'a>(report: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    report["commands"].as_array().unwrap().iter().find(|one| one["command"] == name)
}

#[test]
fn commands_of_a_second_are_shown_with_their_latency() {
    let (server, metrics, uri) = serve("ram:64M");
    let load = Running::load(&uri);
    let is_at_work = |report: &serde_json::Value| {
        command(report, "read").is_some_and(|read| read["per_s"].as_f64().unwrap() > 0.0)
            && report["connections"]["io"].as_f64().unwrap_or(0.0) > 0.0
    };
    let report = await_report(&metrics, is_at_work);
    assert_eq!(
        (report["subsystem"].as_str(), report["connections"]["admin"].as_f64()),
        (Some(NQN), Some(1.0))
    );
    let read = command(&report, "read").unwrap();
    let [per_s, bytes, p50, p99] =
        ["per_s", "bytes_per_s", "p50_s", "p99_s"].map(|name| read[name].as_f64().unwrap());
    assert!((bytes / per_s - 4096.0).abs() < 1.0 && p50 > 0.0 && p50 <= p99, "{read}");
    assert!(report["total"]["at_a_time"].as_f64().unwrap() > 0.0, "{report}");
    let shown = said(&["top", &metrics, "--once", "--interval", "0.2"]);
    assert!(shown.contains("commands ") && shown.contains("p99.9") && shown.contains("hosts"), "{shown}");
    let bare = metrics.strip_prefix("http://").unwrap();
    assert!(
        said(&["top", bare, "--once", "--interval", "0.2"]).contains("p99"),
        "an address without a scheme"
    );
    // Of the same device by its own logs: what hosts have read so far.
    let report = await_report(&uri, |report| {
        command(report, "read").is_some_and(|read| read["per_s"].as_f64().unwrap() > 0.0)
    });
    assert_eq!(report["now"]["available_spare_ratio"], 1.0);
    drop(load);
    server.end("-TERM");
}

#[test]
fn an_image_shows_its_health_its_link_and_its_flash() {
    let image = Image::new(&["nvm", "kv"]);
    said(&["kv", "put", &image.uri(""), "key", "value"]);
    let shown = said(&["top", &image.uri(""), "--once", "--interval", "0.1"]);
    assert!(shown.contains("spare 100 %") && shown.contains("command fetch"), "{shown}");
    assert_eq!(shown.lines().next().map(|line| line.starts_with("byway top embedded:")), Some(true));
}

#[test]
fn reports_follow_each_other_until_a_signal_comes() {
    let (server, metrics, _) = serve("ram:64M");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(["top", &metrics, "--json", "--interval", "0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Open until it has ended: it may say more before the signal comes.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for line in lines.by_ref().take(3) {
        assert!(json_lines(&line.unwrap())[0]["interval_s"].as_f64().unwrap() > 0.0);
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    drop(lines);
    server.end("-TERM");
}

#[test]
fn a_closed_port_and_a_server_without_metrics_have_different_errors() {
    let (server, metrics, uri) = serve("ram:64M");
    let other = format!("{metrics}/other");
    assert!(refused(2, &["top", &other, "--once"]).contains("404 Not Found"));
    server.end("-TERM");
    assert!(refused(2, &["top", &metrics, "--once"]).contains("serve --metrics"));
    assert!(refused(2, &["top", &uri, "--once"]).contains("no server listens at"));
    byway().args(["top", &metrics, "--interval", "0"]).assert().code(2);
}

/// What a command shows on a terminal of its own, and how it ends when `keys` are typed once it has shown `until`.
fn on_a_terminal(args: &[&str], until: &str, keys: &[u8]) -> (String, std::process::ExitStatus) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let copy = || Stdio::from(slave.try_clone().unwrap());
    let before = rustix::termios::tcgetattr(&slave).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
    command.args(args).stdin(copy()).stdout(copy()).stderr(Stdio::inherit());
    let mut child = Running(command.spawn().unwrap());
    let (mut shown, mut is_typed, mut buffer) = (Vec::new(), false, [0; 4096]);
    let start = Instant::now();
    let status = loop {
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(master.as_fd(), rustix::event::PollFlags::IN)];
        let timeout = Duration::from_millis(20).try_into().unwrap();
        if rustix::event::poll(&mut fds, Some(&timeout)).unwrap_or(0) > 0 {
            let bytes = rustix::io::read(&master, &mut buffer).unwrap_or(0);
            shown.extend_from_slice(&buffer[..bytes]);
        } else if let Some(status) = child.0.try_wait().unwrap() {
            break status;
        }
        if !is_typed && String::from_utf8_lossy(&shown).contains(until) {
            is_typed = true;
            rustix::io::write(&master, keys).unwrap();
        }
        assert!(start.elapsed() < TIMEOUT, "{}", String::from_utf8_lossy(&shown));
    };
    let after = rustix::termios::tcgetattr(&slave).unwrap();
    assert_eq!(after.local_modes, before.local_modes, "the terminal is as it was");
    (String::from_utf8_lossy(&shown).into_owned(), status)
}

#[test]
fn a_terminal_is_left_as_it_was_when_q_is_typed() {
    let (server, metrics, uri) = serve("ram:64M");
    said(&["perf", &uri, "--rw", "read", "--bs", "4K", "--count", "50"]);
    let (shown, status) = on_a_terminal(&["top", &metrics, "--interval", "0.1"], "p99", b"q");
    assert!(status.success());
    assert!(shown.contains("\x1b[?1049h") && shown.ends_with("\x1b[?25h\x1b[?1049l"), "{shown:?}");
    server.end("-TERM");
}
