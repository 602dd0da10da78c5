//! Tests that cannot run on this machine. `make test` fails for one that `tests/skips` does not allow.

use std::io::Write;
use std::process::Command;

/// Whether a tool is installed; if not, the test is named among those that were skipped.
pub fn has(tool: &str, test: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok();
    if !there {
        skip(test, &format!("there is no {tool}"));
    }
    there
}

/// The browser that pages are opened in; none where there is none, with the test named among those that were skipped.
pub fn chromium(test: &str) -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let found = names.into_iter().find(is_there);
    if found.is_none() {
        skip(test, "chromium is not installed");
    }
    found
}

/// Names a test as skipped.
pub fn skip(test: &str, why: &str) {
    eprintln!("skipped {test}: {why}");
    if let Some(path) = std::env::var_os("BYWAY_SKIPS") {
        let mut skips = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        // At once: others write theirs beside it.
        skips.write_all(format!("{test}: {why}\n").as_bytes()).unwrap();
    }
}
