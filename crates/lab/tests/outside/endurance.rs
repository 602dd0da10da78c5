//! `byway-lab endurance` from outside; its bar on a terminal shows real counts that go forward, under the name of the phase.
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::common::{lab, refused};

/// What a command that must succeed wrote on standard error, which is a terminal.
fn on_terminal(args: &[&str]) -> String {
    let (master, slave) = terminal();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("byway-lab"))
        .args(args)
        // Bars are for terminals that can move their cursor.
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(Stdio::from(slave))
        .spawn()
        .unwrap();
    let (mut master, mut written) = (File::from(master), Vec::new());
    let mut part = [0; 4096];
    // Reading the terminal fails once its last writer has closed it.
    while let Ok(bytes @ 1..) = master.read(&mut part) {
        written.extend_from_slice(&part[..bytes]);
    }
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&written));
    String::from_utf8_lossy(&written).into_owned()
}

fn terminal() -> (OwnedFd, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (master, slave.into())
}

/// The counts of each frame: done, and in all.
fn counts(written: &str) -> Vec<(u64, u64)> {
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let pair = |word: &str| {
        let (done, total) = word.split_once('/')?;
        Some((number(done)?, number(total)?))
    };
    written.split_whitespace().filter_map(pair).collect()
}

fn endurance(dir: &str) -> [&str; 8] {
    ["endurance", "--size", "48M", "--overwrites", "2", "--dir", dir, "--json"]
}

#[test]
fn the_bar_of_endurance_counts_every_pass_and_never_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let written = on_terminal(&endurance(dir.path().to_str().unwrap()));
    let counts = counts(&written);
    let (_, total) = counts[0];
    assert!(counts.iter().all(|(done, all)| *all == total && done <= all), "{written:?}");
    assert!(counts.is_sorted(), "{counts:?}");
    assert!(counts.iter().any(|(done, _)| *done > 0 && *done < total), "{counts:?}");
    for phase in ["endurance: fill", "endurance: model of fill", "endurance: 2"] {
        assert!(written.contains(phase), "{phase}: {written:?}");
    }
}

#[test]
fn without_a_terminal_no_bar_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let output = lab().args(endurance(dir.path().to_str().unwrap())).assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn endurance_makes_its_image_in_a_folder_whose_name_has_a_percent_sign() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a%41")).unwrap();
    let args = ["endurance", "--size", "48M", "--overwrites", "1", "--dir", "a%41", "--json"];
    lab().current_dir(dir.path()).args(args).assert().success();
    assert!(!dir.path().join("aA").exists());
}

#[test]
fn endurance_refuses_an_option_that_would_do_nothing() {
    assert!(refused(2, &["endurance", "--value", "64"]).contains("--kv"));
}
