//! What the commands of `byway tdm` say of single files, and what they do to them.
#![allow(clippy::unwrap_used)]

mod common;

use byway_tdm_engine::table::Level;
use common::server::Server;
use common::tdm::{Place, absorbed, open_file, write_and_sync};
use common::{json_lines, refused};

#[test]
fn status_shows_each_file_with_its_level_the_reason_and_what_was_spared() {
    let place = Place::new();
    let _server = place.serve(&[]);
    assert!(place.tdm(&["status", "--once"]).contains("no program has come yet"));
    let (session, file, other) = (place.session(), place.file("log"), place.file("other"));
    absorbed(&open_file(&session, &file), &file);
    let _listed = open_file(&session, &other);
    let reported = place.tdm(&["status", "--once"]);
    let line = |name: &str| {
        reported.lines().find(|line| line.contains(&place.text(name))).unwrap_or_else(|| panic!("{reported}"))
    };
    // The second is the reason once the daemon took long to look, on a busy machine.
    let whys = ["a log that begins: 3 syncs in", "it saves "];
    let log = line("log");
    assert!(log.contains("ABSORB") && whys.iter().any(|why| log.contains(why)), "{reported}");
    assert!(
        line("other").contains("PASS") && line("other").contains("no program has synced it"),
        "{reported}"
    );
    assert!(reported.contains("saved") && reported.contains("emulated"), "{reported}");
    let report = &json_lines(&place.tdm(&["status", "--once", "--json"]))[0];
    let files = report["users"][0]["files"].as_array().unwrap();
    let saved = files.iter().find(|one| one["level"] == "ABSORB").unwrap()["saved_syncs"].as_u64();
    assert!(saved >= Some(9), "{report}");
}

#[test]
fn explain_says_by_which_numbers_a_file_is_where_it_is() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let (session, file) = (place.session(), place.file("log"));
    absorbed(&open_file(&session, &file), &file);
    let reported = place.tdm(&["explain", &place.text("log")]);
    for wanted in ["each second, over 1 s: ", "a sync by PASS: ", "ABSORB would save "] {
        assert!(reported.contains(wanted), "{reported}");
    }
    let reported = &json_lines(&place.tdm(&["status", "--once", "--json"]))[0]["users"][0]["files"][0];
    assert!(reported["reason"].as_str().unwrap().contains("3 syncs in"), "{reported}");
}

#[test]
fn rules_by_path_hold_and_a_line_that_is_none_is_named() {
    let place = Place::new();
    let rules = place.text("rules");
    std::fs::write(&rules, "# none of ours\nnever **/log\n").unwrap();
    let _server = place.serve(&["--rules", &rules]);
    let (session, file) = (place.session(), place.file("log"));
    let opened = open_file(&session, &file);
    // Once the daemon has looked at it.
    while !place.tdm(&["explain", &place.text("log")]).contains("files of its path are kept out") {
        (0..5).for_each(|at| write_and_sync(&opened, &file, at, b"x"));
    }
    assert_eq!(opened.entry().level(), Level::Pass);
    std::fs::write(&rules, "never **/log\nseldom /x\n").unwrap();
    let reported = refused(2, &["tdm", "serve", "--socket", &place.text("other"), "--rules", &rules]);
    assert!(reported.contains("line 2") && reported.contains("seldom /x"), "{reported}");
}

#[test]
fn prefetch_command_loads_a_log_if_the_device_has_a_cache() {
    let place = Place::new();
    let region = format!("emu:{}?size=32M&profile=cmm-h&cache=8M&clock=virtual", place.text("modelled"));
    let usual = place.region()[1].clone();
    for (region, said) in [(&usual, "as there is no cache"), (&region, "in the device's cache")] {
        let [socket, file_tables] = [place.text("socket"), place.0.path().to_str().unwrap().to_owned()];
        let args = [
            "tdm",
            "serve",
            "--socket",
            &socket,
            "--file-tables",
            &file_tables,
            "--emulate-persistence",
            "--region",
            region,
        ];
        let (server, _) = Server::begin_with(&args);
        let (session, file) = (place.session(), place.file("log"));
        assert!(
            refused(1, &["tdm", "prefetch", &place.text("log"), "--socket", &place.text("socket")])
                .contains("not absorbed")
        );
        absorbed(&open_file(&session, &file), &file);
        assert!(place.tdm(&["prefetch", &place.text("log")]).contains(said));
        let waited = place.tdm(&["status", "--once"]).contains("0 waited for flash");
        assert_eq!(waited, *region != usual);
        server.end("-INT");
    }
}

#[test]
fn a_file_is_explained_whether_the_daemon_has_seen_it_or_not() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let (session, file, _other) = (place.session(), place.file("log"), place.file("other"));
    absorbed(&open_file(&session, &file), &file);
    let reported = place.tdm(&["explain", &place.text("log")]);
    assert!(reported.contains("is at ABSORB: a log that begins: 3 syncs in"), "{reported}");
    assert!(reported.contains("went below") && reported.contains("not a loss of power"), "{reported}");
    let reported = place.tdm(&["explain", &place.text("other")]);
    assert!(
        reported.contains("has not been seen by the daemon") && reported.contains("runs without the library"),
        "{reported}"
    );
    let json = &json_lines(&place.tdm(&["explain", &place.text("log"), "--json"]))[0];
    assert_eq!(
        (&json["file"]["level"], json["opened_by"][0]["writes"].as_bool()),
        (&"ABSORB".into(), Some(true))
    );
    let reported = place.tdm(&["explain", place.0.path().to_str().unwrap()]);
    assert!(reported.contains("no regular file"), "{reported}");
    let error = refused(2, &["tdm", "explain", &place.text("none"), "--socket", &place.text("socket")]);
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn a_file_is_pinned_drained_and_evicted_by_hand() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let (session, file, seldom) = (place.session(), place.file("log"), place.file("seldom"));
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    assert!(opened.entry().cursor().kept_bytes() > 0);
    assert!(place.tdm(&["drain", &place.text("log")]).contains("absorbed as before"));
    assert_eq!(opened.entry().cursor().kept_bytes(), 0);
    place.tdm(&["evict", &place.text("log")]);
    for at in 0..5 {
        write_and_sync(&opened, &file, at, b"y");
    }
    assert_eq!(opened.entry().level(), Level::Pass);
    assert!(place.tdm(&["explain", &place.text("log")]).contains("byway tdm unpin"));
    place.tdm(&["unpin", &place.text("log")]);
    assert!(!opened.entry().level_state().is_barred);
    let seldom_opened = open_file(&session, &seldom);
    place.tdm(&["pin", &place.text("seldom")]);
    assert_eq!(seldom_opened.entry().level(), Level::Absorb);
    assert!(place.tdm(&["status", "--once"]).contains("ABSORB, pinned"));
}

#[test]
fn an_order_that_cannot_be_done_says_why_and_ends_with_1() {
    let place = Place::new();
    let _server = place.serve(&[]);
    let (session, file, _unseen) = (place.session(), place.file("log"), place.file("unseen"));
    let socket = place.text("socket");
    let order = |order: &str, name: &str| refused(1, &["tdm", order, &place.text(name), "--socket", &socket]);
    let error = order("pin", "unseen");
    assert!(
        error.contains("no program that is served has opened it") && error.contains("--rules"),
        "{error}"
    );
    let error = order("pin", "");
    assert!(error.contains("it is a folder; for the files in it there are rules"), "{error}");
    let opened = open_file(&session, &file);
    opened.bar(byway_tdm_engine::table::Reason::Mapped, || Ok(()));
    let error = order("pin", "log");
    assert!(error.contains("is not absorbed: a program has mapped it"), "{error}");
    assert!(order("drain", "log").contains("is not absorbed"));
    assert_eq!(opened.entry().level(), Level::Pass);
}
