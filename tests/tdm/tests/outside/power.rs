//! Power that goes, and recoveries that are killed before they are done.

use std::io::Write;
use std::time::Duration;

use byway_tdm_engine::table::{Level, Reason};
use byway_tdm_tests::{DaemonProcess, Place, assert_survives};

use crate::{DAEMON, place, rounds};

const NAMES: [&str; 3] = ["first", "second", "third"];

/// Three files with records of syncs that were acknowledged, of which the disk has nothing yet; what they have.
fn absorbed_files(place: &Place) -> Vec<Vec<u8>> {
    let mut daemon = place.start_daemon(DAEMON);
    let mut actor = place.actor();
    let session = place.session();
    let slots = ['a', 'b', 'c'];
    for (slot, name) in slots.into_iter().zip(NAMES) {
        actor.does(&format!("open {slot} {name} wce"));
        place.absorb(&session, &mut actor, slot, name);
    }
    // Nothing demotes them meanwhile.
    daemon.stop();
    for slot in slots {
        for round in 1..12 {
            actor.does(&format!("write {slot} {} {round}; fdatasync {slot}", 100 * round));
        }
        actor.does(&format!("ftruncate {slot} 5000; write {slot} 77 200; fdatasync {slot}"));
    }
    actor.kill();
    daemon.kill();
    all_of(place)
}

fn all_of(place: &Place) -> Vec<Vec<u8>> {
    NAMES.map(|name| std::fs::read(place.file(name)).unwrap()).to_vec()
}

#[test]
fn acknowledged_bytes_survive_power_loss() {
    let place = place();
    let had = absorbed_files(&place);
    place.lose_power();
    assert!(all_of(&place).iter().zip(&had).all(|(left, had)| left.len() < had.len()), "nothing was lost");
    let daemon = place.start_daemon(DAEMON);
    assert!(daemon.recovered.iter().all(|outcome| outcome.starts_with("Replayed")), "{:?}", daemon.recovered);
    assert!(all_of(&place) == had);
    daemon.end();
}

/// A file `folder/log` with acknowledged records of which the disk has nothing, whose daemon and program are dead; what it has.
fn absorbed_in_folder(place: &Place) -> Vec<u8> {
    let mut daemon = place.start_daemon(DAEMON);
    let mut actor = place.actor();
    actor.does("mkdir folder; open a folder/log wce; write a 100 1");
    place.absorb(&place.session(), &mut actor, 'a', "folder/log");
    // Nothing demotes it meanwhile.
    daemon.stop();
    actor.does("write a 300 2; fdatasync a; write a 70 3; fdatasync a");
    actor.kill();
    daemon.kill();
    std::fs::read(place.file("folder/log")).unwrap()
}

#[test]
fn file_in_a_folder_renamed_without_a_daemon_is_found() {
    for is_lost in [false, true] {
        let place = place();
        let had = absorbed_in_folder(&place);
        std::fs::rename(place.file("folder"), place.file("moved")).unwrap();
        if is_lost {
            place.lose_power();
        }
        let daemon = place.start_daemon(DAEMON);
        let outcome = if is_lost { "Replayed" } else { "Adopted" };
        assert!(daemon.recovered[0].starts_with(outcome), "{:?}", daemon.recovered);
        assert!(std::fs::read(place.file("moved/log")).unwrap() == had);
        daemon.end();
    }
}

#[test]
fn log_of_a_file_in_a_moved_folder_is_kept_and_reported() {
    let place = place();
    let had = absorbed_in_folder(&place);
    std::fs::create_dir_all(place.file("far/away")).unwrap();
    std::fs::rename(place.file("folder"), place.file("far/away/moved")).unwrap();
    place.lose_power();
    let daemon = place.start_daemon(DAEMON);
    assert_eq!(daemon.recovered, ["Missing"]);
    // Its place is no other's, however many want one.
    let mut actor = place.actor();
    for name in ["b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        actor.does(&format!("open {name} {name} wce; write {name} 900 1"));
        actor.does(&format!(
            "fdatasync {name}; fdatasync {name}; fdatasync {name}; write {name} 900 2; fdatasync {name}"
        ));
    }
    actor.kill();
    daemon.end();
    std::fs::rename(place.file("far/away/moved"), place.file("folder")).unwrap();
    let daemon = place.start_daemon(DAEMON);
    assert!(daemon.recovered[0].starts_with("Replayed"), "{:?}", daemon.recovered);
    assert!(std::fs::read(place.file("folder/log")).unwrap() == had);
    daemon.end();
}

#[test]
fn file_in_a_folder_renamed_while_served_is_demoted() {
    let place = place();
    let daemon = place.start_daemon(DAEMON);
    let (mut actor, session) = (place.actor(), place.session());
    actor.does("mkdir folder; open a folder/log wce; write a 100 1");
    place.absorb(&session, &mut actor, 'a', "folder/log");
    actor.does("write a 300 2; fdatasync a");
    std::fs::rename(place.file("folder"), place.file("moved")).unwrap();
    let level_state = || place.level_state(&session, "moved/log").unwrap();
    while level_state().level != Level::Pass {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(level_state().why, Reason::Renamed);
    actor.does("write a 70 3; fdatasync a");
    assert_survives(&place, &session, &place.file("moved/log"));
    daemon.end();
}

#[test]
fn killed_recovery_is_finished_by_the_next() {
    for _ in 0..rounds(1) {
        let place = place();
        let had = absorbed_files(&place);
        place.lose_power();
        let calls = (1..).find(|call| DaemonProcess::mortal(DAEMON, &place, *call).is_some());
        // Each of a file's records, and its sync, had one that died before it.
        assert!(calls > Some(14), "{calls:?}");
        assert!(all_of(&place) == had);
    }
}

#[test]
fn file_written_after_a_killed_recovery_is_not_overwritten() {
    let place = place();
    absorbed_files(&place);
    place.lose_power();
    assert!(DaemonProcess::mortal(DAEMON, &place, 5).is_none());
    std::thread::sleep(Duration::from_millis(1100));
    let mut first = std::fs::File::options().append(true).open(place.file("first")).unwrap();
    first.write_all(b"newer").unwrap();
    let daemon = place.start_daemon(DAEMON);
    let left: Vec<bool> = daemon.recovered.iter().map(|outcome| outcome == "WrittenSince").collect();
    assert_eq!(left, [true, false, false], "{:?}", daemon.recovered);
    assert!(std::fs::read(place.file("first")).unwrap().ends_with(b"newer"));
}
