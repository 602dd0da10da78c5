//! `byway kv shell`: scripts, and the prompt on a pseudo-terminal.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{Image, byway, json_lines, refused, said};

/// What a script prints and says, with its exit code.
fn script(uri: &str, text: &str, options: &[&str]) -> (String, String, i32) {
    let args = [&["kv", "shell", uri], options].concat();
    let output = byway().args(args).write_stdin(text).assert().get_output().clone();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn script_does_its_commands_and_prints_their_results() {
    let image = Image::new(&[]);
    let lines = "# readings\nput sensor-1 21.5\nSET 'a key' \"tab\\t\\xff\"\nget sensor-1\nexists none\n\n\
                 keys sensor-*\nlist\ncount\nscan a b\nput sensor-1 9 nx\n";
    let (out, error, code) = script(&image.uri(""), lines, &[]);
    assert_eq!(out, "OK\nOK\n21.5\nno\nsensor-1\na key\nsensor-1\n2\na key\ttab\\t\\xff\n");
    assert!(error.starts_with("byway: line 11: ") && code == 1, "{code}: {error}");
}

#[test]
fn script_ends_at_the_first_error_or_keeps_going() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let lines = "put a 1\nget b\nnonsense\nput 'b 2\nput c 3\n";
    let (out, error, code) = script(&uri, lines, &[]);
    assert_eq!((out.as_str(), code), ("OK\n", 1));
    assert!(error.contains("line 2: there is no key \"b\""), "{error}");
    let (out, error, code) = script(&uri, lines, &["--keep-going"]);
    assert_eq!((out.as_str(), code), ("OK\nOK\n", 2));
    for said in [
        "line 2: there is no key",
        "line 3: there is no command nonsense",
        "line 4: ",
        "3 of 5 commands failed",
    ] {
        assert!(error.contains(said), "{error}");
    }
    let (_, error, code) = script(&uri, "get b\nget b\n", &["--keep-going"]);
    assert!(code == 1 && error.contains("2 of 2 commands failed"), "{code}: {error}");
}

#[test]
fn commands_come_from_arguments_or_a_file() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    assert_eq!(said(&["kv", "shell", &uri, "-c", "put a 1", "-c", "get a"]), "OK\n1\n");
    let file = image.file("commands", b"get a\nquit\nget none\n");
    assert_eq!(said(&["kv", "shell", &uri, "--file", &file]), "1\n");
    let help = said(&["kv", "shell", &uri, "-c", "help put"]);
    assert!(
        help.contains("put KEY VALUE") && help.contains("Also: set") && help.contains("set greeting"),
        "{help}"
    );
}

#[test]
fn ranges_are_named_by_patterns_and_by_the_options_of_the_command_line() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let lines: String = ["a", "b-1", "b-2", "b-3", "c"].map(|key| format!("put {key} {key}\n")).concat();
    script(&uri, &lines, &[]);
    for (command, wanted) in [
        ("scan b-*", "b-1\tb-1\nb-2\tb-2\nb-3\tb-3\n"),
        ("scan b-* 1", "b-1\tb-1\n"),
        ("scan --prefix b- --limit 2 --keys", "b-1\nb-2\n"),
        ("scan --from b-3 --to=c", "b-3\tb-3\n"),
        ("scan --reverse --limit 1", "c\tc\n"),
        ("scan a b-2 1", "a\ta\n"),
        ("list --prefix b- --from b-2", "b-2\nb-3\n"),
        ("count --from b-2", "3\n"),
        ("put -- --to 1\nget -- --to\ndel -- --to", "OK\n1\nOK\n"),
        ("delete-range --from b-2 --to c\nlist", "2\na\nb-1\nc\n"),
    ] {
        let (out, error, _) = script(&uri, &format!("{command}\n"), &[]);
        assert_eq!(out, wanted, "{command}: {error}");
    }
}

#[test]
fn option_that_a_command_has_not_is_refused() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    for command in ["get", "put a", "del", "exists", "list", "scan", "count", "info", "begin", "commit"] {
        let (_, error, code) = script(&uri, &format!("{command} --none\n"), &[]);
        let name = command.split(' ').next().unwrap();
        assert!(code == 2 && error.contains(&format!("{name} has no option --none")), "{command}: {error}");
    }
    for command in [
        "scan --limit",
        "scan b* --prefix b",
        "scan --from a a",
        "delete-range --prefix \"\"",
        "delete-range",
    ] {
        let (_, error, code) = script(&uri, &format!("{command}\n"), &[]);
        assert!(code == 2 && !error.is_empty(), "{command}: {error}");
    }
}

#[test]
fn text_is_shown_as_it_is_and_control_characters_with_escapes() {
    let image = Image::new(&[]);
    said(&["kv", "put", &image.uri(""), "Zürich", "it's \"8001\" \\"]);
    said(&["kv", "put", &image.uri(""), "b", "\u{1b}[0m\u{9b}"]);
    let (out, ..) = script(&image.uri(""), "scan\nlist\n", &[]);
    assert_eq!(out, "Zürich\tit's \"8001\" \\\nb\t\\x1b[0m\\xc2\\x9b\nZürich\nb\n");
}

#[test]
fn key_that_is_too_long_is_refused_with_what_can_be_done() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let (_, error, _) = script(&uri, "put a-key-of-17-bytes 1\n", &[]);
    assert!(error.contains("limit of 16") && error.contains("a hash of it"), "{error}");
    let error = refused(2, &["kv", "put", &uri, "a-key-of-17-bytes", "1"]);
    assert!(error.contains("limit of 16") && error.contains("a hash of it"), "{error}");
}

#[test]
fn writer_of_an_image_in_use_is_sent_to_the_server_and_not_to_followers() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let _open = byway::open(&uri).unwrap();
    let error = refused(2, &["kv", "put", &uri, "a", "1"]);
    assert!(error.contains("in use") && error.contains("tcp://") && !error.contains("follow=1"), "{error}");
}

#[test]
fn batch_is_committed_as_a_whole_or_not_at_all() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    let (out, ..) = script(&uri, "put order 1\nbegin\nput to 110\ndel order\nexists to\ncommit\nlist\n", &[]);
    assert_eq!(out, "OK\nOK\nQUEUED\nQUEUED\nno\nOK, 2 changes committed\nto\n");
    let (_, error, code) = script(&uri, "batch begin\nput from 90\n", &[]);
    assert!(code == 2 && error.contains("nothing of its 1 change is stored"), "{error}");
    let (out, ..) = script(&uri, "multi\nput from 90\nbatch discard\nlist\ndelete-range --all\ncount\n", &[]);
    assert_eq!(out, "OK\nQUEUED\nOK, 1 change discarded\nto\n1\n0\n");
}

#[test]
fn results_are_json_or_hexadecimal_where_that_is_set() {
    let image = Image::new(&[]);
    let (out, ..) = script(&image.uri(""), "format json\nput a 1\nget a\nlist\ncount\nexists a\ninfo\n", &[]);
    let lines = json_lines(&out);
    assert_eq!((&lines[0]["key"], &lines[0]["value_bytes"]), (&"a".into(), &1.into()));
    assert_eq!(
        (&lines[1]["value"], &lines[3]["count"], &lines[4]["exists"]),
        (&"1".into(), &1.into(), &true.into())
    );
    assert_eq!(lines[5]["nsid"], 1);
    let (out, error, _) = script(&image.uri(""), "format hex\nput 00ff 0a\nscan\ntiming on\nget 61\n", &[]);
    assert_eq!(out, "OK\n00ff\t0a\n61\t31\n31\n");
    assert!(error.contains(" ms)"), "{error}");
}

#[test]
fn quit_ends_a_script_whose_input_stays_open() {
    let image = Image::new(&[]);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("byway"))
        .args(["kv", "shell", &image.uri("")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"put a 1\nquit\n").unwrap();
    assert!(child.wait().unwrap().success());
    drop(input);
}

#[test]
fn script_with_a_closed_output_fails_where_commands_remain() {
    let image = Image::new(&[]);
    let uri = image.uri("");
    for (text, code) in [("put a 1\nput b 1\n", 2), ("put a 1\n", 0)] {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("byway"))
            .args(["kv", "shell", &uri])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.is_empty()), (Some(code), code == 0), "{error}");
    }
}

/// A shell on a pseudo-terminal, which script(1) makes.
struct Terminal {
    child: Child,
    shown: Receiver<u8>,
    text: String,
}

impl Terminal {
    fn new(uri: &str, state: &Path) -> Self {
        let program = assert_cmd::cargo::cargo_bin("byway");
        // In the place of the shell that script(1) starts: that one, where it is dash, ends by the Ctrl-C that is typed.
        let line = format!("exec {} kv shell {uri}", program.display());
        let mut child = Command::new("script")
            .args(["-qfec", &line, "/dev/null"])
            .env("XDG_STATE_HOME", state)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while out.read(&mut byte).is_ok_and(|read| read == 1) && sender.send(byte[0]).is_ok() {}
        });
        let mut terminal = Self { child, shown, text: String::new() };
        terminal.awaits("byway> ");
        terminal
    }

    fn types(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until something is shown, and forgets what was shown before it.
    fn awaits(&mut self, wanted: &str) {
        let end = Instant::now() + Duration::from_secs(120);
        while !self.text.contains(wanted) {
            let left = end.saturating_duration_since(Instant::now());
            let byte = self.shown.recv_timeout(left);
            let byte = byte.unwrap_or_else(|_| panic!("no {wanted:?} in {:?}", self.text));
            self.text.push(char::from(byte));
        }
        self.text.clear();
    }

    fn ends(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

#[test]
fn prompt_recalls_lines_completes_keys_and_survives_ctrl_c() {
    if !byway_conformance::skips::has("script", "prompt_recalls_lines_completes_keys_and_survives_ctrl_c") {
        return;
    }
    let image = Image::new(&[]);
    let (uri, state) = (image.uri(""), image.dir.path().join("state"));
    let lines: String = (0..200).map(|n| format!("put unlike-{n} {n}\n")).collect();
    script(&uri, &format!("{lines}put sensor-7 21.5\n"), &[]);
    let mut terminal = Terminal::new(&uri, &state);
    terminal.types("get sen\t");
    terminal.awaits("sensor-7");
    terminal.types("\r");
    terminal.awaits("21.5");
    terminal.awaits("byway> ");
    // The line before, once more.
    terminal.types("\x1b[A");
    terminal.awaits("get sensor-7");
    terminal.types("\r");
    terminal.awaits("21.5");
    terminal.awaits("byway> ");
    terminal.types("put half a li\x03");
    terminal.awaits("byway> ");
    terminal.types("get none\r");
    terminal.awaits("there is no key");
    terminal.awaits("byway> ");
    terminal.types("exis\t");
    terminal.awaits("exists");
    terminal.types(" sensor-7\r");
    terminal.awaits("yes");
    terminal.awaits("byway> ");
    terminal.types("\x04");
    assert!(terminal.ends());
    let history = state.join("byway/kv-history");
    assert_eq!(history.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&history).unwrap(), "get sensor-7\nget none\nexists sensor-7\n");
    let mut terminal = Terminal::new(&uri, &state);
    terminal.types("\x1b[A");
    terminal.awaits("exists sensor-7");
    terminal.types("\x03");
    terminal.awaits("byway> ");
    terminal.types("quit\r");
    assert!(terminal.ends());
}

#[test]
fn ctrl_c_ends_a_command_that_runs_and_the_shell_goes_on() {
    if !byway_conformance::skips::has("script", "ctrl_c_ends_a_command_that_runs_and_the_shell_goes_on") {
        return;
    }
    let image = Image::sized("256M", &["kv"]);
    let uri = image.uri("clock=off");
    let lines: String = (0..200_000).map(|n| format!("key{n:07}\tvalue {n}\n")).collect();
    said(&["kv", "import", &uri, &image.file("many.tsv", lines.as_bytes())]);
    let mut terminal = Terminal::new(&format!("'{uri}'"), &image.dir.path().join("state"));
    terminal.types("scan\r");
    terminal.awaits("key0000099");
    terminal.awaits("there are more than these 100: --limit");
    terminal.awaits("byway> ");
    terminal.types("list key*\r");
    terminal.awaits("key0000099");
    terminal.awaits("there are more than these 100: --limit");
    terminal.awaits("byway> ");
    terminal.types("scan --limit 200000\r");
    terminal.awaits("key0000100");
    terminal.types("\x03");
    terminal.awaits("interrupted; the scan has not reached its end");
    terminal.awaits("byway> ");
    terminal.types("get key0199999\r");
    terminal.awaits("value 199999");
    // An end of file that comes before the prompt reads keys again is not seen as one.
    terminal.awaits("byway> ");
    terminal.types("\x04");
    assert!(terminal.ends());
}

#[test]
fn lines_that_are_pasted_are_commands_of_their_own() {
    if !byway_conformance::skips::has("script", "lines_that_are_pasted_are_commands_of_their_own") {
        return;
    }
    let image = Image::new(&[]);
    let mut terminal = Terminal::new(&image.uri(""), &image.dir.path().join("state"));
    terminal.types("\x1b[200~put a 1\nput b 2\x1b[201~\r");
    terminal.awaits("OK\r\nOK\r\n");
    terminal.awaits("byway> ");
    terminal.types("quit\r");
    assert!(terminal.ends());
    assert_eq!(said(&["kv", "get", &image.uri(""), "b"]), "2");
}

#[test]
fn device_without_keys_and_values_has_no_shell() {
    assert!(!refused(2, &["kv", "shell", "ramdisk:1M", "-c", "info"]).is_empty());
}
