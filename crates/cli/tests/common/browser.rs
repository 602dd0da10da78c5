//! Headless Chromium, spoken to by the DevTools protocol over a pipe: messages are JSON, each with a zero byte behind it.
#![allow(clippy::unwrap_used, dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer or a state may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Its pipe has the descriptors 3 (to it) and 4 (from it).
const SHELL: &str = r#"exec "$@" 3<&0 4>&1 </dev/null 1>&2"#;
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
];

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Events so far.
    events: Vec<Value>,
    session: Option<String>,
    calls: u64,
    _profile: TempDir,
}

impl Browser {
    /// Starts one; `None`, with the test named as skipped, where there is none.
    pub fn start(test: &str) -> Option<Self> {
        let name = byway_conformance::skips::chromium(test)?;
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", SHELL, "sh", name])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (send, messages) = channel();
        // It ends with the browser, or once the receiver is dropped.
        std::thread::spawn(move || {
            let parsed =
                output.split(0).map_while(Result::ok).map(|text| serde_json::from_slice(&text).unwrap());
            parsed.into_iter().try_for_each(|message: Value| send.send(message))
        });
        let mut browser =
            Self { child, input, messages, events: Vec::new(), session: None, calls: 0, _profile: profile };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let targets = self.call("Target.getTargets", json!({}));
        let mut pages = targets["targetInfos"].as_array().unwrap().iter().filter(|one| one["type"] == "page");
        let target = pages.next().unwrap()["targetId"].clone();
        let attached = self.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// The result of a method of the protocol.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer =
                self.messages.recv_timeout(TIMEOUT).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] != self.calls {
                self.events.push(answer);
                continue;
            }
            assert!(answer.get("error").is_none(), "{method}: {answer}");
            return answer["result"].clone();
        }
    }

    /// Opens an address.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// The value of an expression in the page, by which promises are awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The value of an expression, once it is as `wanted`.
    pub fn await_value(&mut self, expression: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let value = self.evaluate(expression);
            if wanted(&value) {
                return value;
            }
            assert!(start.elapsed() < TIMEOUT, "{expression} is {value}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Makes the window so wide, and its scheme of colours `light` or `dark`.
    pub fn set_view(&mut self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    fn events_of<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["method"] == method).map(|event| &event["params"])
    }

    /// Addresses of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        let requests = self.events_of("Network.requestWillBeSent");
        requests.map(|event| event["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// What the console holds: messages of the page, exceptions, and what the browser itself says, as of a broken policy.
    pub fn console(&self) -> Vec<String> {
        let methods = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        methods.iter().flat_map(|method| self.events_of(method)).map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
