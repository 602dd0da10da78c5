//! A part of a test that changes its process: it is run in a process of its own.

use std::process::{Command, Stdio};

/// Says to a test that it has a process of its own.
const ALONE: &str = "BYWAY_CONFORMANCE_ALONE";

/// Runs `act` in a process that runs the present test and no other. There a write beyond the limit of file sizes fails
/// rather than ending the process.
pub fn alone(act: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return act();
    }
    let test = std::thread::current().name().map(str::to_owned).filter(|name| name != "main");
    let test = test.or_else(|| std::env::args().find(|word| word.contains("::"))).unwrap();
    let ran = Command::new("/bin/sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(ALONE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{test} alone:\n{said}");
}
