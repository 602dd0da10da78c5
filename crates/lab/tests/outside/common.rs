//! The command under test.

use assert_cmd::Command;

/// The command, with a place for calibrations that does not exist.
pub fn lab() -> Command {
    let mut command = Command::cargo_bin("byway-lab").unwrap();
    command.env("XDG_CONFIG_HOME", "/nonexistent/byway-tests");
    command
}

/// What a command that must succeed printed.
pub fn said(args: &[&str]) -> String {
    let output = lab().args(args).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

/// What a command that must fail with a code said on standard error.
pub fn refused(code: i32, args: &[&str]) -> String {
    let output = lab().args(args).assert().code(code).get_output().clone();
    assert!(output.stdout.is_empty(), "{args:?} printed data: {:?}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Each line of a text as JSON.
pub fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}
