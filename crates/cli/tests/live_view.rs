//! The live view of `byway serve --metrics`, in a browser.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::browser::Browser;
use common::exposition::Exposition;
use common::server::Server;
use common::{Image, json_lines, said};
use serde_json::{Value, json};

/// How long a condition may take to come true on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

const NQN: &str = "nqn.2026-11.example:disk";

/// A number in a cell of a table, as the page has it before it is shown.
fn cell(table: &str, row: &str, of: &str) -> String {
    format!(
        "Number(document.querySelector('#table-{table} tr[data-key=\"{row}\"] [data-of={of}]')?.dataset.value)"
    )
}

fn status(browser: &mut Browser, word: &str) -> String {
    let value = browser.await_value("document.getElementById('status')?.textContent ?? ''", |value| {
        value.as_str().unwrap().contains(word)
    });
    value.as_str().unwrap().to_owned()
}

/// A server of a device, and the addresses of its metrics and its subsystem.
fn serve(device: &str, metrics: &str) -> (Server, String, String) {
    let args = [device, "--tcp", "127.0.0.1:0", "--nqn", NQN, "--metrics", metrics, "--json"];
    let (server, line) = Server::begin(&args);
    let listening = json_lines(&line).remove(0);
    let [tcp, metrics] = ["tcp", "metrics"].map(|place| listening[place].as_str().unwrap().to_owned());
    (server, metrics, format!("tcp://{tcp}/{NQN}"))
}

/// A load that goes on until it is dropped.
struct Load(Child);

impl Load {
    fn start(uri: &str) -> Self {
        let args = ["perf", uri, "--rw", "randrw", "--bs", "4K", "--depth", "4", "--time", "600"];
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
        Self(command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn scrape(address: &str) -> Exposition {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Exposition::parse(answer.split_once("\r\n\r\n").unwrap().1)
}

fn reads(address: &str) -> f64 {
    scrape(address).sum("byway_commands_total", &[("queue", "io"), ("command", "read")])
}

/// The mean rate of reads over the page's history.
const MEAN_RATE: &str = "(() => { const points = view.history.get('') ?? [];
    return points.reduce((sum, point) => sum + (point.rate.read ?? 0), 0) / points.length; })()";

#[test]
fn live_view_shows_rates_of_the_counters_and_survives_a_restart_of_the_server() {
    let Some(mut browser) =
        Browser::start("live_view_shows_rates_of_the_counters_and_survives_a_restart_of_the_server")
    else {
        return;
    };
    let image = Image::new(&["nvm", "kv"]);
    let (server, metrics, uri) = serve(image.path().to_str().unwrap(), "127.0.0.1:0");
    let load = Load::start(&format!("{uri}?ns=1"));
    for at in 0..3 {
        said(&["kv", "put", &uri, &format!("key{at}"), "value"]);
    }
    let origin = format!("http://{metrics}/");
    let (start, begun) = (Instant::now(), reads(&metrics));
    browser.open(&origin);
    browser.await_value(&cell("operations", "io read", "rate"), |rate| {
        rate.as_f64().is_some_and(|rate| rate > 0.0)
    });
    assert_eq!(status(&mut browser, "Live"), "Live.");
    await_agreement(&mut browser, &metrics, start, begun);
    // Sizes agree with counts: each read has 4 KiB.
    let ratio = browser.evaluate(
        "(() => { const {rate, bytes} = view.history.get('').at(-1); return bytes.read / rate.read; })()",
    );
    assert!((ratio.as_f64().unwrap() - 4096.0).abs() < 1.0, "{ratio}");
    let before = reads(&metrics);
    let total =
        browser.await_value(&cell("operations", "io read", "total"), |total| total.as_f64() > Some(before));
    assert!(total.as_f64().unwrap() <= reads(&metrics));
    browser
        .await_value(&cell("namespaces", " 2", "pairs"), |pairs| *pairs == json!(3.0) || *pairs == json!(3));
    assert!(browser.evaluate(&cell("health", "spare", "value")).is_null(), "a ratio is shown in words");
    for chart in ["iops", "bytes", "latency", "flash"] {
        let lines =
            browser.evaluate(&format!("document.querySelectorAll('#chart-{chart} > svg path.line').length"));
        assert!(lines.as_u64().unwrap() >= 1, "{chart}");
    }
    assert_eq!(browser.console(), Vec::<String>::new());
    assert_widths(&mut browser);
    drop(load);
    server.end("-TERM");
    assert!(status(&mut browser, "No metrics").contains("cannot be reached"));
    let (server, _, uri) = serve(image.path().to_str().unwrap(), &metrics);
    status(&mut browser, "restarted at");
    let _load = Load::start(&format!("{uri}?ns=1"));
    let breaks = "view.history.get('').filter((point) => point.breaks).length";
    browser.await_value(breaks, |breaks| *breaks == json!(1));
    browser.await_value("view.history.get('').at(-1).rate.read > 0", |reads| *reads == json!(true));
    assert_eq!(browser.evaluate(breaks), 1, "lines break once");
    let requests = browser.requests();
    assert!(
        requests.len() > 3 && requests.iter().all(|url| url.starts_with(&origin) || url.starts_with("data:")),
        "{requests:?}"
    );
    // Only what the browser itself says of requests that found no server, or one that was ending.
    let is_of_the_network = |line: &String| line.contains("Failed to load resource");
    assert!(browser.console().iter().all(is_of_the_network), "{:?}", browser.console());
    server.end("-TERM");
}

/// Waits until the page's mean rate is that of the counters since it was opened.
fn await_agreement(browser: &mut Browser, metrics: &str, start: Instant, begun: f64) {
    loop {
        let shown = browser.evaluate(MEAN_RATE).as_f64().unwrap_or(0.0);
        let counted = (reads(metrics) - begun) / start.elapsed().as_secs_f64();
        if (shown / counted - 1.0).abs() < 0.15 {
            return;
        }
        assert!(start.elapsed() < TIMEOUT, "{shown} reads a second are shown, {counted} were counted");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// No page is wider than its window.
fn assert_widths(browser: &mut Browser) {
    for (width, scheme) in [(400, "light"), (400, "dark"), (1400, "light"), (1400, "dark")] {
        browser.set_view(width, scheme);
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        browser.await_value(&format!("innerWidth === {width} && {fits}"), |fits| *fits == json!(true));
        let dark = browser.evaluate("getComputedStyle(document.body).backgroundColor");
        assert_eq!(dark == json!("rgb(16, 20, 24)"), scheme == "dark", "{dark}");
    }
}

#[test]
fn live_view_of_many_subsystems_shows_all_of_them_and_each_by_itself() {
    let Some(mut browser) =
        Browser::start("live_view_of_many_subsystems_shows_all_of_them_and_each_by_itself")
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let nqn = |at: usize| format!("nqn.2026-11.example:disk{at:02}");
    let subsystems: Vec<Value> = (0..24)
        .map(|at| json!({"nqn": nqn(at), "namespaces": [{"device": {"path": "ramdisk:1M"}}]}))
        .collect();
    let config =
        json!({"ports": [{"addr": {"traddr": "127.0.0.1", "trsvcid": "0"}}], "subsystems": subsystems});
    let file = dir.path().join("serve.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let (server, line) =
        Server::begin(&["--config", file.to_str().unwrap(), "--metrics", "127.0.0.1:0", "--json"]);
    let listening = json_lines(&line).remove(0);
    let (tcp, metrics) = (listening["tcp"].as_str().unwrap(), listening["metrics"].as_str().unwrap());
    let _load = Load::start(&format!("tcp://{tcp}/{}", nqn(3)));
    browser.open(&format!("http://{metrics}/"));
    let is_busy = |rate: &Value| rate.as_f64().is_some_and(|rate| rate > 0.0);
    browser.await_value(&cell("subsystems", &nqn(3), "rate"), is_busy);
    assert_eq!(browser.evaluate("document.querySelectorAll('#table-subsystems tbody tr').length"), 24);
    assert_eq!(browser.evaluate(&cell("subsystems", &nqn(4), "rate")), 0);
    assert_eq!(browser.evaluate("document.getElementById('scope').options.length"), 25);
    let choose = |nqn: &str| {
        format!(
            "(() => {{ const scope = document.getElementById('scope'); scope.value = '{nqn}'; scope.dispatchEvent(new Event('change')); }})()"
        )
    };
    browser.evaluate(&choose(&nqn(4)));
    assert_eq!(browser.evaluate("document.querySelectorAll('#table-namespaces tbody tr').length"), 1);
    assert!(!is_busy(&browser.evaluate(&cell("operations", "io read", "rate"))));
    browser.evaluate(&choose(&nqn(3)));
    browser.await_value(&cell("operations", "io read", "rate"), is_busy);
    assert_widths(&mut browser);
    assert_eq!(browser.console(), Vec::<String>::new());
    server.end("-TERM");
}

/// Two moments of a server. A host may have any character in its name that is no control character.
const EARLIER: &str = "byway_host_controllers{host=\"nqn.2026-01.x:a\u{2028}b\"} 1
byway_commands_total{queue=\"io\",command=\"read\",nsid=\"1\",status=\"success\"} 100
byway_command_duration_seconds_bucket{queue=\"io\",command=\"read\",le=\"0.001\"} 50
byway_command_duration_seconds_bucket{queue=\"io\",command=\"read\",le=\"0.004\"} 90
byway_command_duration_seconds_bucket{queue=\"io\",command=\"read\",le=\"+Inf\"} 100
byway_flash_programs_total{cause=\"gc\"} 7
byway_link_transactions_total{class=\"doorbell\"} 5
byway_link_wire_bytes_total{class=\"doorbell\",direction=\"up\"} 100
byway_link_wire_bytes_total{class=\"doorbell\",direction=\"down\"} 300
";
const LATER: &str = "byway_commands_total{queue=\"io\",command=\"read\",nsid=\"1\",status=\"success\"} 300
byway_commands_total{queue=\"io\",command=\"read\",nsid=\"1\",status=\"media\"} 4
byway_command_bytes_total{queue=\"io\",command=\"read\",nsid=\"1\",direction=\"out\"} 819200
byway_command_duration_seconds_bucket{queue=\"io\",command=\"read\",le=\"0.001\"} 180
byway_command_duration_seconds_bucket{queue=\"io\",command=\"read\",le=\"0.004\"} 285
byway_command_duration_seconds_bucket{queue=\"io\",command=\"read\",le=\"+Inf\"} 304
byway_flash_programs_total{cause=\"gc\"} 4
byway_link_transactions_total{class=\"doorbell\"} 25
byway_link_wire_bytes_total{class=\"doorbell\",direction=\"up\"} 700
byway_link_wire_bytes_total{class=\"doorbell\",direction=\"down\"} 900
";

/// What `byway top` says of the two moments.
fn by_top() -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        for text in [EARLIER, LATER] {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{text}").as_bytes()).unwrap();
        }
    });
    let said = said(&["top", &format!("http://{address}"), "--once", "--json", "--interval", "0.1"]);
    answers.join().unwrap();
    json_lines(&said).remove(0)
}

#[test]
fn live_view_and_top_derive_the_same_rates_and_quantiles() {
    let Some(mut browser) = Browser::start("live_view_and_top_derive_the_same_rates_and_quantiles") else {
        return;
    };
    let (server, metrics, _) = serve("embedded-ram:64M", "127.0.0.1:0");
    browser.open(&format!("http://{metrics}/"));
    status(&mut browser, "Live");
    let top = by_top();
    let interval_ms = top["interval_s"].as_f64().unwrap() * 1000.0;
    let page = browser.evaluate(&format!(
        "(() => {{ const growth = new Growth(new Reading({EARLIER:?}, 0), new Reading({LATER:?}, {interval_ms}), '');
           return {{operation: operations(growth)[0], link: linkClasses(growth)[0], cause: flashCauses(growth)[0]}}; }})()"
    ));
    let pairs = [
        (&page["operation"]["rate"], &top["commands"][0]["per_s"]),
        (&page["operation"]["total"], &top["commands"][0]["total"]),
        (&page["operation"]["out"], &top["commands"][0]["bytes_per_s"]),
        (&page["operation"]["errors"], &top["commands"][0]["errors_per_s"]),
        (&page["operation"]["p50"], &top["commands"][0]["p50_s"]),
        (&page["operation"]["p99"], &top["commands"][0]["p99_s"]),
        (&page["operation"]["p999"], &top["commands"][0]["p999_s"]),
        (&page["link"]["rate"], &top["link"][0]["per_s"]),
        (&page["cause"]["programs"], &top["flash"][0]["programs_per_s"]),
    ];
    for (page, top) in pairs {
        let (page, top) = (page.as_f64().unwrap(), top.as_f64().unwrap());
        assert!(top > 0.0 && (page / top - 1.0).abs() < 1e-9, "{page} on the page, {top} by top");
    }
    let wire = ["down", "up"].map(|way| page["link"][way].as_f64().unwrap()).iter().sum::<f64>();
    assert!((wire / top["link"][0]["wire_bytes_per_s"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    server.end("-TERM");
}
