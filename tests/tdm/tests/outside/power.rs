//! Power that goes, and recoveries that are killed before they are done.

use std::io::Write;
use std::time::Duration;

use byway_tdm_engine::table::{Level, Why};
use byway_tdm_tests::{Keeper, Place, assert_survives};

use crate::{KEEPER, place, rounds};

const NAMES: [&str; 3] = ["first", "second", "third"];

/// Three files with records of syncs that were acknowledged, of which the disk has nothing yet; what they have.
fn absorbed_files(place: &Place) -> Vec<Vec<u8>> {
    let mut keeper = place.keeper(KEEPER);
    let mut actor = place.actor();
    let session = place.session();
    let slots = ['a', 'b', 'c'];
    for (slot, name) in slots.into_iter().zip(NAMES) {
        actor.does(&format!("open {slot} {name} wce"));
        place.absorb(&session, &mut actor, slot, name);
    }
    // However long it takes, nobody brings them below.
    keeper.stop();
    for slot in slots {
        for round in 1..12 {
            actor.does(&format!("write {slot} {} {round}; fdatasync {slot}", 100 * round));
        }
        actor.does(&format!("ftruncate {slot} 5000; write {slot} 77 200; fdatasync {slot}"));
    }
    actor.kill();
    keeper.kill();
    all_of(place)
}

fn all_of(place: &Place) -> Vec<Vec<u8>> {
    NAMES.map(|name| std::fs::read(place.file(name)).unwrap()).to_vec()
}

#[test]
fn what_was_acknowledged_is_there_after_power_went() {
    let place = place();
    let had = absorbed_files(&place);
    place.lose_power();
    assert!(all_of(&place).iter().zip(&had).all(|(left, had)| left.len() < had.len()), "nothing was lost");
    let keeper = place.keeper(KEEPER);
    assert!(keeper.recovered.iter().all(|outcome| outcome.starts_with("Replayed")), "{:?}", keeper.recovered);
    assert!(all_of(&place) == had);
    keeper.end();
}

/// A file `folder/log` with acknowledged records of which the disk has nothing, whose daemon and program are dead; what it has.
fn absorbed_in_folder(place: &Place) -> Vec<u8> {
    let mut keeper = place.keeper(KEEPER);
    let mut actor = place.actor();
    actor.does("mkdir folder; open a folder/log wce; write a 100 1");
    place.absorb(&place.session(), &mut actor, 'a', "folder/log");
    // However long it takes, nobody brings it below.
    keeper.stop();
    actor.does("write a 300 2; fdatasync a; write a 70 3; fdatasync a");
    actor.kill();
    keeper.kill();
    std::fs::read(place.file("folder/log")).unwrap()
}

#[test]
fn a_file_whose_folder_got_another_name_while_nobody_served_is_found() {
    for is_lost in [false, true] {
        let place = place();
        let had = absorbed_in_folder(&place);
        std::fs::rename(place.file("folder"), place.file("moved")).unwrap();
        if is_lost {
            place.lose_power();
        }
        let keeper = place.keeper(KEEPER);
        let outcome = if is_lost { "Replayed" } else { "Adopted" };
        assert!(keeper.recovered[0].starts_with(outcome), "{:?}", keeper.recovered);
        assert!(std::fs::read(place.file("moved/log")).unwrap() == had);
        keeper.end();
    }
}

#[test]
fn a_file_whose_folder_went_elsewhere_is_told_of_and_its_log_is_kept_until_it_is_back() {
    let place = place();
    let had = absorbed_in_folder(&place);
    std::fs::create_dir_all(place.file("far/away")).unwrap();
    std::fs::rename(place.file("folder"), place.file("far/away/moved")).unwrap();
    place.lose_power();
    let keeper = place.keeper(KEEPER);
    assert_eq!(keeper.recovered, ["Missing"]);
    // Its place is nobody else's, however many want one.
    let mut actor = place.actor();
    for name in ["b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        actor.does(&format!("open {name} {name} wce; write {name} 900 1"));
        actor.does(&format!(
            "fdatasync {name}; fdatasync {name}; fdatasync {name}; write {name} 900 2; fdatasync {name}"
        ));
    }
    actor.kill();
    keeper.end();
    std::fs::rename(place.file("far/away/moved"), place.file("folder")).unwrap();
    let keeper = place.keeper(KEEPER);
    assert!(keeper.recovered[0].starts_with("Replayed"), "{:?}", keeper.recovered);
    assert!(std::fs::read(place.file("folder/log")).unwrap() == had);
    keeper.end();
}

#[test]
fn a_file_whose_folder_gets_another_name_while_it_is_served_is_the_kernel_s_and_kept() {
    let place = place();
    let keeper = place.keeper(KEEPER);
    let (mut actor, session) = (place.actor(), place.session());
    actor.does("mkdir folder; open a folder/log wce; write a 100 1");
    place.absorb(&session, &mut actor, 'a', "folder/log");
    actor.does("write a 300 2; fdatasync a");
    std::fs::rename(place.file("folder"), place.file("moved")).unwrap();
    let standing = || place.standing(&session, "moved/log").unwrap();
    while standing().level != Level::Pass {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(standing().why, Why::Renamed);
    actor.does("write a 70 3; fdatasync a");
    assert_survives(&place, &session, &place.file("moved/log"));
    keeper.end();
}

#[test]
fn a_recovery_that_is_killed_before_any_of_its_writes_and_syncs_is_finished_by_the_next() {
    for _ in 0..rounds(1) {
        let place = place();
        let had = absorbed_files(&place);
        place.lose_power();
        let calls = (1..).find(|call| Keeper::mortal(KEEPER, &place, *call).is_some());
        // Each of a file's records, and its sync, had one that died before it.
        assert!(calls > Some(14), "{calls:?}");
        assert!(all_of(&place) == had);
    }
}

#[test]
fn a_file_that_somebody_wrote_after_a_recovery_was_killed_is_not_written_over() {
    let place = place();
    absorbed_files(&place);
    place.lose_power();
    assert!(Keeper::mortal(KEEPER, &place, 5).is_none());
    std::thread::sleep(Duration::from_millis(1100));
    let mut first = std::fs::File::options().append(true).open(place.file("first")).unwrap();
    first.write_all(b"newer").unwrap();
    let keeper = place.keeper(KEEPER);
    let left: Vec<bool> = keeper.recovered.iter().map(|outcome| outcome == "WrittenSince").collect();
    assert_eq!(left, [true, false, false], "{:?}", keeper.recovered);
    assert!(std::fs::read(place.file("first")).unwrap().ends_with(b"newer"));
}
