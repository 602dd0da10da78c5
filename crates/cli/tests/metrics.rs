//! Metrics of a served device over HTTP.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::exposition::Exposition;
use common::server::Server;
use common::{Image, json_lines, refused, said};

/// How long a condition may take to come true on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const NQN: &str = "nqn.2026-11.example:disk";

/// A server with figures, and where it is.
struct Watched {
    server: Server,
    metrics: String,
    /// The subsystem over NVMe/TCP, if it is served there.
    uri: String,
}

impl Watched {
    fn start(args: &[&str]) -> Self {
        let (server, line) = Server::begin(&[args, &["--metrics", "127.0.0.1:0", "--json"]].concat());
        let listening = json_lines(&line).remove(0);
        let said = |place: &str| listening[place].as_str().unwrap_or_default().to_owned();
        let uri = format!("tcp://{}/{}", said("tcp"), said("nqn"));
        Self { server, metrics: said("metrics"), uri }
    }

    fn over_tcp(args: &[&str]) -> Self {
        Self::start(&[args, &["--tcp", "127.0.0.1:0", "--nqn", NQN]].concat())
    }

    fn scrape(&self) -> Exposition {
        let (head, body) = ask(&self.metrics, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        Exposition::parse(&body)
    }

    /// Figures, once they are as `wanted`.
    fn await_figures(&self, wanted: impl Fn(&Exposition) -> bool) -> Exposition {
        let start = Instant::now();
        loop {
            let figures = self.scrape();
            if wanted(&figures) {
                return figures;
            }
            assert!(start.elapsed() < TIMEOUT, "the figures are not as they should be");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What is answered to a request: its head and its body.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (format!("{head}\r\n"), body.to_owned())
}

fn perf(uri: &str, args: &[&str]) {
    said(&[&["perf", uri][..], args].concat());
}

const IO: (&str, &str) = ("queue", "io");

#[test]
fn commands_of_hosts_are_counted_by_type_with_their_bytes_and_times() {
    let image = Image::new(&["nvm", "kv"]);
    let watched = Watched::over_tcp(&[image.path().to_str().unwrap(), "--threads", "2"]);
    let blocks = format!("{}?ns=1", watched.uri);
    perf(&blocks, &["--rw", "write", "--bs", "4K", "--count", "700", "--depth", "16"]);
    perf(&blocks, &["--rw", "read", "--bs", "64K", "--count", "40", "--depth", "4"]);
    for at in 0..5 {
        said(&["kv", "put", &watched.uri, &format!("key{at}"), &"v".repeat(100)]);
    }
    assert_eq!(said(&["kv", "get", &watched.uri, "key3"]).trim_end(), "v".repeat(100));
    refused(1, &["kv", "get", &watched.uri, "none"]);
    let of = |command| [IO, ("command", command)];
    let figures = watched.await_figures(|figures| {
        figures.sum("byway_commands_total", &of("retrieve")) >= 2.0
            && figures.sum("byway_connections", &[("state", "io")]) == 0.0
    });
    let counted = |command, nsid, status| {
        let labels = [IO, ("command", command), ("nsid", nsid), ("status", status)];
        figures.sum("byway_commands_total", &labels)
    };
    assert_eq!(counted("write", "1", "success"), 700.0);
    assert!(counted("read", "1", "success") >= 40.0);
    assert_eq!(counted("store", "2", "success"), 5.0);
    assert_eq!((counted("retrieve", "2", "success"), counted("retrieve", "2", "generic")), (1.0, 1.0));
    let bytes = |command, direction| {
        figures.sum("byway_command_bytes_total", &[("command", command), ("direction", direction)])
    };
    assert_eq!(bytes("write", "in"), 700.0 * 4096.0);
    assert!(bytes("read", "out") >= 40.0 * 65536.0);
    assert_eq!((bytes("store", "in"), bytes("retrieve", "out")), (500.0, 100.0));
    assert!(figures.sum("byway_command_errors_total", &[("status", "kv_key_does_not_exist")]) >= 1.0);
    for command in ["write", "read", "store", "retrieve"] {
        let took =
            |suffix: &str| figures.sum(&format!("byway_command_duration_seconds{suffix}"), &of(command));
        assert_eq!(took("_count"), figures.sum("byway_commands_total", &of(command)), "{command}");
        assert!(took("_sum") > 0.0, "{command}");
    }
    assert!(figures.sum("byway_commands_total", &[("queue", "admin"), ("command", "identify")]) >= 1.0);
    assert!(figures.sum("byway_network_receive_bytes_total", &[]) > 700.0 * 4096.0);
    assert!(figures.sum("byway_network_transmit_bytes_total", &[]) > 40.0 * 65536.0);
    assert!(figures.sum("byway_flash_programs_total", &[("cause", "host")]) > 0.0);
    assert!(figures.sum("process_resident_memory_bytes", &[]) > 1e6);
    watched.server.end("-TERM");
}

#[test]
fn connections_are_counted_by_kind_and_by_reason_of_end() {
    let watched = Watched::over_tcp(&["ram:64M", "--allow-host", "nqn.2026-11.example:friend"]);
    let connections = |figures: &Exposition, state| figures.sum("byway_connections", &[("state", state)]);
    let silent = TcpStream::connect(watched.uri["tcp://".len()..].split('/').next().unwrap()).unwrap();
    watched.await_figures(|figures| connections(figures, "connecting") == 1.0);
    drop(silent);
    let ended =
        |figures: &Exposition, reason| figures.sum("byway_connections_ended_total", &[("reason", reason)]);
    watched
        .await_figures(|figures| ended(figures, "left") == 1.0 && connections(figures, "connecting") == 0.0);
    let stranger = format!("{}?hostnqn=nqn.2026-11.example:stranger", watched.uri);
    refused(2, &["info", &stranger]);
    let refusals = [("reason", "invalid_host")];
    let figures =
        watched.await_figures(|figures| figures.sum("byway_connections_refused_total", &refusals) >= 1.0);
    assert_eq!(figures.sum("byway_hosts", &[]), 0.0);
    let friend = format!("{}?hostnqn=nqn.2026-11.example:friend", watched.uri);
    let mut load = common::byway();
    load.args(["perf", &friend, "--rw", "read", "--bs", "4K", "--time", "60"]);
    let program = load.get_program().to_owned();
    let args: Vec<_> = load.get_args().map(std::ffi::OsStr::to_owned).collect();
    let mut child =
        std::process::Command::new(program).args(args).stdout(std::process::Stdio::null()).spawn().unwrap();
    let host = [("host", "nqn.2026-11.example:friend")];
    let figures = watched.await_figures(|figures| {
        connections(figures, "io") >= 1.0 && figures.get("byway_host_controllers", &host) == Some(1.0)
    });
    assert!(connections(&figures, "admin") == 1.0 && figures.sum("byway_io_queues", &[]) >= 1.0);
    child.kill().unwrap();
    child.wait().unwrap();
    watched.await_figures(|figures| {
        connections(figures, "io") + connections(figures, "admin") == 0.0
            && figures.get("byway_host_controllers", &host).is_none()
    });
    watched.server.end("-TERM");
}

#[test]
fn commands_of_vfio_user_clients_are_counted_wherever_they_are_served_and_the_link_with_them() {
    let image = Image::new(&["nvm", "kv"]);
    let socket = image.dir.path().join("socket").display().to_string();
    for (threads, idle) in [("1", "sleep"), ("3", "poll")] {
        let args = ["--vfio-user", &socket, "--threads", threads, "--idle", idle];
        let watched = Watched::start(&[&[image.path().to_str().unwrap()], &args[..]].concat());
        let client = format!("vfio-user:{socket}?ns=1");
        let load = ["--rw", "write", "--bs", "4K", "--count", "3000", "--depth", "8", "--threads", "2"];
        perf(&client, &load);
        said(&["kv", "put", &format!("vfio-user:{socket}"), "key", "value"]);
        let of = [IO, ("command", "write"), ("nsid", "1"), ("status", "success")];
        let figures = watched.await_figures(|figures| {
            figures.sum("byway_vfio_user_clients_total", &[("event", "left")]) >= 2.0
        });
        let written = figures.sum("byway_commands_total", &of);
        assert!(written >= 3000.0, "{written}");
        assert_eq!(figures.sum("byway_command_bytes_total", &of[..3]), written * 4096.0);
        let took = [IO, ("command", "write")];
        assert_eq!(figures.sum("byway_command_duration_seconds_count", &took), written);
        // By whichever transfer method.
        let puts = ["store", "kv_write_piggyback"]
            .map(|command| figures.sum("byway_commands_total", &[IO, ("command", command)]));
        assert_eq!(puts.iter().sum::<f64>(), 1.0);
        let data = figures.sum("byway_link_payload_bytes_total", &[]);
        assert!(data >= written * 4096.0, "{data}");
        assert_eq!(figures.sum("byway_vfio_user_clients", &[]), 0.0);
        watched.server.end("-TERM");
    }
}

#[test]
fn commands_of_exported_namespaces_and_those_that_wait_for_a_sync_are_counted_when_they_are_done() {
    let exported = Watched::over_tcp(&["--ns", "blocks:1M"]);
    perf(&exported.uri, &["--rw", "randrw", "--bs", "512", "--count", "500", "--depth", "16"]);
    let image = Image::new(&["kv"]);
    let synced = Watched::over_tcp(&[&image.uri("flush=media")]);
    for at in 0..3 {
        said(&["kv", "put", &synced.uri, &format!("key{at}"), "value"]);
    }
    for (watched, commands, wanted) in
        [(&exported, &["read", "write"][..], 500.0), (&synced, &["store"][..], 3.0)]
    {
        let sum = |figures: &Exposition, name: &str| -> f64 {
            commands.iter().map(|command| figures.sum(name, &[IO, ("command", command)])).sum()
        };
        let figures = watched.await_figures(|figures| sum(figures, "byway_commands_total") >= wanted);
        let took = sum(&figures, "byway_command_duration_seconds_count");
        assert_eq!(took, sum(&figures, "byway_commands_total"));
        assert!(sum(&figures, "byway_command_duration_seconds_sum") > 0.0);
        assert_eq!(figures.sum("byway_commands_waiting", &[]), 0.0);
    }
}

#[test]
fn requests_for_other_paths_or_by_other_methods_are_refused() {
    let watched = Watched::over_tcp(&["ram:64M"]);
    let ask = |request: &str| ask(&watched.metrics, request);
    let (head, body) = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(), "{head}{body}");
    let (head, body) = ask("GET / HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.contains("/metrics"), "{head}{body}");
    assert!(
        head.contains("\r\nContent-Type: text/html; charset=utf-8\r\n") && !head.contains("unsafe"),
        "{head}"
    );
    for header in
        ["Content-Security-Policy: default-src 'none'; script-src 'sha256-", "Cache-Control: no-cache\r\n"]
    {
        assert!(head.contains(header), "{head}");
    }
    let (same, nothing) = ask("HEAD / HTTP/1.1\r\n\r\n");
    assert!(same == head && nothing.is_empty(), "{same}");
    for (request, status) in [
        ("GET /other HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        ("GET /metrics HTTP/9\r\n\r\n", "400 Bad Request"),
        ("\u{1}\u{2}\u{3}", "400 Bad Request"),
        (&"A".repeat(9000), "431 Request Header Fields Too Large"),
    ] {
        assert!(ask(request).0.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{status}");
    }
    watched.scrape();
    watched.server.end("-TERM");
}

#[test]
fn silent_slow_and_many_clients_block_neither_metrics_nor_hosts() {
    let watched = Watched::over_tcp(&["ram:64M"]);
    let mut silent: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&watched.metrics).unwrap()).collect();
    for stream in &mut silent {
        // One that was shown the door already does not take it.
        let _ = stream.write_all(b"GET /met");
    }
    watched.scrape();
    // A client that requests the metrics repeatedly and reads no answer.
    let greedy: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(&watched.metrics).unwrap();
            let _ = stream.write_all("GET /metrics HTTP/1.1\r\n\r\n".repeat(100).as_bytes());
            stream
        })
        .collect();
    said(&["kv", "list", &Image::new(&["kv"]).uri("")]);
    perf(&watched.uri, &["--rw", "read", "--bs", "4K", "--count", "200"]);
    watched.scrape();
    drop((silent, greedy));
    let half = TcpStream::connect(&watched.metrics).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut nothing = Vec::new();
    (&half).read_to_end(&mut nothing).unwrap();
    assert!(nothing.is_empty(), "a silent connection is closed");
    watched.server.end("-TERM");
}

#[test]
fn taken_metrics_address_is_refused_before_anything_is_served() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = refused(2, &["serve", "ram:64M", "--tcp", "127.0.0.1:0", "--metrics", &address]);
    assert!(error.contains(&address) && error.contains("in use"), "{error}");
}
