//! Transparent DAX mappings by their commands: a daemon in a process of its own, and files that this process writes as a program
//! under the library does.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use byway_tdm_daemon::{Assignment, Kind, SlotNumber, Table};
use byway_tdm_engine::client::Session;
use byway_tdm_engine::table::{FileKey, Level, RingWords};
use common::server::Server;
use common::tdm::{Place, absorbed, open_file, write_and_sync};
use common::{byway, json_lines, refused};
use rustix::process::{Pid, Signal, kill_process_group};

#[test]
fn daemon_reports_its_persistence_domain_and_ends_in_order() {
    let place = Place::new();
    let (server, begun) = place.serve(&[]);
    assert!(
        begun[0].contains("32 MiB of emulated memory") && begun[0].contains("memory_controller"),
        "{begun:?}"
    );
    assert!(begun[0].contains("survives processes, not a loss of power"), "{begun:?}");
    assert!(begun[1].ends_with(&place.text("socket")), "{begun:?}");
    let (session, file) = (place.session(), place.file("log"));
    absorbed(&open_file(&session, &file), &file);
    assert!(server.end("-INT").contains("closed: 1 file taken down"));
    assert!(!place.path("socket").exists());
    assert_eq!(std::fs::read(place.path("log")).unwrap(), b"0123456789".repeat(10));
}

#[test]
fn memory_that_was_not_asked_to_count_as_persistent_is_volatile() {
    let place = Place::new();
    let region = place.region();
    let socket = place.text("socket");
    let args =
        ["tdm", "serve", "--socket", &socket, "--json", &region[0], &region[1], &region[2], &region[3]];
    let (server, begun) = Server::begin_with(&args);
    let begun = &json_lines(&begun[0])[0];
    assert_eq!(
        (&begun["region"]["domain"], &begun["region"]["is_emulated"]),
        (&"volatile".into(), &true.into())
    );
    assert!(place.tdm(&["status", "--once"]).contains("no sync is spared"));
    assert_eq!(json_lines(&server.end("-TERM"))[0]["event"], "closed");
}

#[test]
fn status_says_since_when_it_counts() {
    let place = Place::new();
    let (region, socket) = (place.region(), place.text("socket"));
    let unix_s = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let before = unix_s();
    let _server = Server::begin_with(&[
        "tdm", "serve", "--socket", &socket, &region[0], &region[1], &region[2], &region[3],
    ]);
    let report = &json_lines(&place.tdm(&["status", "--once", "--json"]))[0];
    let since = report["since_unix_s"].as_u64().unwrap();
    assert!((before..=unix_s()).contains(&since), "{report}");
    // Part of a second counts as one; both clock readings are rounded down.
    let counting = report["counting_s"].as_u64().unwrap();
    assert!((1..=unix_s() - before + 2).contains(&counting), "{report}");
    let day = report["since"].as_str().unwrap();
    assert!(day.starts_with("20") && day.ends_with('Z') && day.len() == 20, "{report}");
    let text = place.tdm(&["status", "--once"]);
    assert!(text.contains(&format!("since   {day}, for ")), "{text}");
}

#[test]
fn user_that_cannot_be_served_is_reported_with_the_reason() {
    let place = Place::new();
    let (region, socket, file_tables) = (place.region(), place.text("socket"), place.text("tables"));
    let args = [
        "tdm",
        "serve",
        "--socket",
        &socket,
        &region[0],
        &region[1],
        "--file-tables",
        &file_tables,
        &region[4],
    ];
    let error = refused(2, &args);
    assert!(
        error.contains("tables: could not look for users' shared file tables there: No such file"),
        "{error}"
    );
    std::fs::create_dir(&file_tables).unwrap();
    let (_server, _) = Server::begin_with(&args);
    std::fs::remove_dir(&file_tables).unwrap();
    assert!(Session::begin(&place.path("socket")).is_err());
    let reported = place.tdm(&["status", "--once"]);
    assert!(
        reported.contains("WARNING 1 program not served") && reported.contains("No such file"),
        "{reported}"
    );
    let _file = place.file("log");
    let reported = place.tdm(&["explain", &place.text("log")]);
    assert!(
        reported.contains("no program of whom can be served") && reported.contains("No such file"),
        "{reported}"
    );
    std::fs::create_dir(&file_tables).unwrap();
    let _session = place.session();
    assert!(!place.tdm(&["status", "--once"]).contains("WARNING"));
}

#[test]
fn invalid_daemon_arguments_are_refused_in_a_sentence() {
    let place = Place::new();
    let (long, short, region) = (place.text(&"s".repeat(108)), place.text("socket"), place.region());
    let serve = |socket: &str, more: &[&str]| {
        let region: Vec<&str> = region.iter().map(String::as_str).collect();
        refused(2, &[&["tdm", "serve", "--socket", socket], &region[..], more].concat())
    };
    let error = serve(&long, &[]);
    assert!(error.contains("a socket's path has 107 bytes at most"), "{error}");
    let error = refused(2, &["tdm", "status", "--once", "--socket", &long]);
    assert!(error.contains("a socket's path has 107 bytes at most"), "{error}");
    let error = serve(&short, &["--log-size", "63K"]);
    assert!(error.contains("a log has 64 KiB at least"), "{error}");
    let error = serve(&place.text("no/socket"), &[]);
    assert!(error.contains("could not listen there: No such file"), "{error}");
    // Nothing of a daemon that did not begin is left.
    assert!(!place.path("region").exists());
    let (server, _) = place.serve(&[]);
    let another = format!("emu:{}?size=32M", place.text("another"));
    let error = refused(2, &["tdm", "serve", "--socket", &short, "--region", &another]);
    assert!(error.contains("socket") && !place.path("another").exists(), "{error}");
    let error = serve(&place.text("other"), &[]);
    assert!(error.contains(&format!("process {} owns it", server.child.id())), "{error}");
}

#[test]
fn a_killed_daemon_s_files_are_adopted_and_once_everything_was_killed_nothing_is_left() {
    let place = Place::new();
    let (mut server, _) = place.serve(&[]);
    let (session, file) = (place.session(), place.file("log"));
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    write_and_sync(&opened, &file, 100, b"meanwhile");
    let (mut server, begun) = place.serve(&[]);
    assert!(
        begun[1].contains(&place.text("log")) && begun[1].contains("goes on being absorbed"),
        "{begun:?}"
    );
    write_and_sync(&opened, &file, 109, b" and after");
    assert_eq!(opened.entry().level(), Level::Absorb);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    drop(session);
    drop(file);
    let (server, begun) = place.serve(&["--json"]);
    assert_eq!(json_lines(&begun[0])[0]["recovered"][0]["outcome"], "adopted");
    server.end("-TERM");
    let (server, begun) = place.serve(&["--json"]);
    assert_eq!(json_lines(&begun[0])[0]["recovered"], serde_json::json!([]));
    server.end("-TERM");
    let wanted = [b"0123456789".repeat(10), b"meanwhile and after".to_vec()].concat();
    assert_eq!(std::fs::read(place.path("log")).unwrap(), wanted);
}

#[test]
fn a_program_runs_under_the_library_with_its_own_exit_status() {
    let place = Place::new();
    let _server = place.serve(&[]);
    // Any library that can be loaded: what is asked here is what the program is given.
    let library = place.text("libbyway_tdm.so");
    std::fs::write(&library, "").unwrap();
    let run = |preload: &str, program: &[&str]| {
        let mut command = byway();
        command.args(["tdm", "run", "--socket", &place.text("socket"), "--library", &library, "--"]);
        command.args(program).env("LD_PRELOAD", preload).assert().get_output().clone()
    };
    let script = "echo $LD_PRELOAD $BYWAY_TDM_SOCKET; exit 7";
    let output = run("", &["sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7));
    let wanted = format!("{library} {}\n", place.text("socket"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
    let output = run("/other.so", &["sh", "-c", script]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with(&format!("{library}:/other.so ")));
    assert_eq!(run("", &["/nonexistent/program"]).status.code(), Some(127));
    assert_eq!(run("", &[place.0.path().to_str().unwrap()]).status.code(), Some(126));
}

#[test]
fn tdm_run_warns_why_a_program_is_not_served() {
    let place = Place::new();
    let (socket, library) = (place.text("socket"), place.text("libbyway_tdm.so"));
    let run = ["tdm", "run", "--socket", &socket, "--library", &library, "--", "sh", "-c", "echo ran"];
    let error = refused(2, &run);
    assert!(error.contains("there is no library at") && error.contains("--library"), "{error}");
    std::fs::write(&library, "").unwrap();
    let output = byway().args(run).assert().success().get_output().clone();
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(warning.contains("no daemon listens") && warning.contains("unserved"), "{warning}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("ran"));
    let error = refused(2, &["tdm", "status", "--once", "--socket", &socket]);
    assert!(error.contains("no daemon listens at") && error.contains("byway tdm serve"), "{error}");
    let blank = place.text("a b.so");
    std::fs::write(&blank, "").unwrap();
    let error = refused(2, &["tdm", "run", "--library", &blank, "--", "true"]);
    assert!(error.contains("blank"), "{error}");
}

/// Its exit code, and all that it said.
fn ended(args: &[&str]) -> (Option<i32>, String) {
    let output = byway().args(args).assert().get_output().clone();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn a_region_is_recovered_without_a_daemon_and_not_while_one_has_it() {
    let place = Place::new();
    let region = place.region();
    let mut recover = vec!["tdm", "recover"];
    recover.extend(region.iter().map(String::as_str));
    assert!(ended(&recover).1.contains("nothing to recover"));
    let (mut server, _) = place.serve(&[]);
    let (session, file) = (place.session(), place.file("log"));
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    assert_eq!(ended(&recover).0, Some(2), "a daemon has it");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let (code, reported) = ended(&recover);
    assert!(code == Some(0) && reported.contains("synced below"), "{reported}");
    write_and_sync(&opened, &file, 100, b"and after");
    assert_eq!(opened.entry().level(), Level::Pass);
    assert_eq!(ended(&recover), (Some(0), "nothing is left in the region\n".to_owned()));
    assert_eq!(
        std::fs::read(place.path("log")).unwrap(),
        [b"0123456789".repeat(10), b"and after".to_vec()].concat()
    );
}

#[test]
fn an_emulated_region_is_removed_once_no_program_is_served_from_it() {
    let place = Place::new();
    let region = place.region();
    let mut remove = vec!["tdm", "recover", "--remove"];
    remove.extend(region.iter().map(String::as_str));
    let (mut server, _) = place.serve(&[]);
    let (session, file) = (place.session(), place.file("log"));
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let (code, said) = ended(&remove);
    assert!(code == Some(2) && said.contains("has running programs that map"), "{said}");
    drop((session, file));
    let (code, said) = ended(&remove);
    assert!(code == Some(0) && said.contains("the region is removed"), "{said}");
    assert!(ended(&remove).1.contains("nothing to recover"));
    let left = |name: &std::ffi::OsStr| !matches!(name.to_str(), Some("log" | "socket"));
    let files = std::fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(files.filter(|name| left(name)).count(), 0);
}

#[test]
fn recovery_reports_logs_it_must_leave_and_exits_with_1() {
    let place = Place::new();
    let region = place.region();
    let mut recover = vec!["tdm", "recover", "--json"];
    recover.extend(region.iter().map(String::as_str));
    // Another boot's, of a file that is not there.
    let memory = byway_tdm_region::open(&region[1], &byway_tdm_region::Opening::default()).unwrap();
    let ring = RingWords { at: 0, len_bytes: 1 << 20, identity: 5 };
    let key = FileKey { device: 1, inode: 2, born_ns: 3 };
    let uid = rustix::process::geteuid().as_raw();
    let was = Assignment { key, ring, uid, path: place.path("gone"), boot: [1; 16], kind: Kind::Ring };
    Table::new(memory.window()).put(SlotNumber(3), &was).unwrap();
    drop(memory);
    let (code, reported) = ended(&recover);
    assert_eq!(
        (code, &json_lines(reported.lines().next().unwrap())[0]["left"]),
        (Some(1), &1.into()),
        "{reported}"
    );
    assert!(reported.contains("missing") && reported.contains("the log of 1 file is left"), "{reported}");
}

#[test]
fn the_bench_reports_how_each_way_was_served() {
    let place = Place::new();
    let _server = place.serve(&[]);
    // One that the loader passes over: without the library the two ways are one.
    let library = place.text("libbyway_tdm.so");
    std::fs::write(&library, "").unwrap();
    let folder = place.0.path().to_str().unwrap();
    let bench = ["bench", folder, "--library", &library, "--sizes", "64,1K", "--count", "3", "--rounds", "2"];
    let reported = place.tdm(&bench);
    assert!(reported.contains("did not serve") && reported.contains("emulated memory"), "{reported}");
    let rows = json_lines(&place.tdm(&[&bench[..], &["--json"]].concat()));
    let named: Vec<_> = rows.iter().map(|row| (row["path"].as_str(), row["size"].as_u64())).collect();
    let wanted = [(Some("plain"), 64), (Some("library"), 64), (Some("plain"), 1024), (Some("library"), 1024)];
    assert_eq!(named, wanted.map(|(path, size)| (path, Some(size))));
    assert!(rows.iter().all(|row| row["count"] == 6 && row["level"] == "PASS"), "{rows:?}");
    let left = std::fs::read_dir(folder).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains("bench")));
}

#[test]
fn an_interrupted_bench_ends_with_130_and_leaves_no_file() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let (library, folder, socket) =
        (place.text("libbyway_tdm.so"), place.path("folder"), place.text("socket"));
    std::fs::write(&library, "").unwrap();
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
    command.args(["tdm", "bench", "--count", "10000000", "--socket", &socket, "--library", &library]);
    // As a terminal has them: the rounds are of its group.
    let child =
        command.arg(&folder).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    let files = || std::fs::read_dir(&folder).unwrap().count();
    while files() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), files()), (Some(130), 0), "{said}");
    assert!(
        said.contains("interrupted; measurements so far are not printed") && !said.contains("put"),
        "{said}"
    );
}

/// Standard error of a daemon to which one program connects.
fn daemon_log(byway_log: Option<&str>) -> String {
    let place = Place::new();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("byway"));
    command.args(["tdm", "serve", "--socket", &place.text("socket")]).args(place.region());
    command.stderr(place.file("stderr")).env_remove("BYWAY_LOG");
    byway_log.map(|levels| command.env("BYWAY_LOG", levels));
    let server = Server::spawn_command(command);
    while !server.line().contains("listening") {}
    drop(place.session());
    server.end("-TERM");
    std::fs::read_to_string(place.path("stderr")).unwrap()
}

#[test]
fn byway_log_shows_programs_that_connect_and_nothing_where_it_is_not_set() {
    let log = daemon_log(Some("debug"));
    for event in ["daemon started", "program connected", "program left", "daemon ended"] {
        let line = log.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {log}"));
        assert!(line.contains("Z ") && line.contains(" byway_tdm_daemon::serve: "), "{line}");
    }
    assert!(!daemon_log(Some("info,byway_tdm_daemon=info")).contains("program connected"));
    assert_eq!(daemon_log(Some("byway_flash=debug")), "");
    assert_eq!(daemon_log(None), "");
}

#[test]
fn byway_log_that_is_no_level_is_refused_in_a_sentence() {
    let ended = byway().args(["enum"]).env("BYWAY_LOG", "loud").output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(said.contains("BYWAY_LOG=loud") && said.contains("TARGET=LEVEL"), "{said}");
}
