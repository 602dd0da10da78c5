//! What programs do that has gone wrong under libraries like this one: the daemon serves meanwhile, and the programs see nothing of it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use byway_tdm_daemon::Daemon;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::table::{Level, LevelState, Reason};
use byway_tdm_tests::{Actor, Place, ask_again, assert_survives};

use crate::place;

/// A file `log` that is absorbed, open as `a`.
struct Served {
    daemon: Daemon,
    actor: Actor,
    session: Session,
    place: Place,
}

impl Served {
    fn new(flags: &str) -> Self {
        let place = place();
        let daemon = place.daemon();
        let session = place.session();
        let mut actor = place.actor();
        actor.does(&format!("open a log {flags}; write a 500 1"));
        place.absorb(&session, &mut actor, 'a', "log");
        Self { place, session, actor, daemon }
    }

    fn level_state(&self, name: &str) -> LevelState {
        self.place.level_state(&self.session, name).unwrap()
    }

    fn survives(&self, name: &str) {
        assert_survives(&self.place, &self.session, &self.place.file(name));
    }

    /// Waits until the daemon has taken a file down.
    fn taken_down(&self, name: &str) -> Reason {
        while self.level_state(name).level != Level::Pass {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.level_state(name).why
    }

    /// Why a file that is opened and synced like this is not absorbed.
    fn refused(&mut self, name: &str, lines: &str) -> Reason {
        self.actor.does(lines);
        for _ in 0..5 {
            if let Some(entry) = self.session.file_table().find(self.place.key(name)) {
                ask_again(entry);
            }
            self.actor.does("fdatasync b");
        }
        let level_state = self.level_state(name);
        assert_eq!(level_state.level, Level::Pass);
        level_state.why
    }
}

#[test]
fn a_program_that_writes_over_its_environment_is_served_as_before() {
    let mut served = Served::new("+ce");
    assert!(served.actor.does("spoil_environment") > 3);
    served.actor.does("open b second wce; write b 10 1; fdatasync b; fdatasync b; fdatasync b");
    served.place.absorb(&served.session, &mut served.actor, 'b', "second");
}

#[test]
fn a_program_whose_file_was_taken_for_closed_lists_it_anew() {
    let mut served = Served::new("+ce");
    served.actor.does("open b second wce; write b 10 1; dup b c");
    let file_table = served.session.file_table();
    let entry = file_table.find(served.place.key("second")).unwrap();
    assert!(file_table.give_back(entry, entry.opened()));
    file_table.find_or_make(served.place.key("log")).unwrap();
    served.actor.does("write b 10 2; fdatasync b");
    served.place.absorb(&served.session, &mut served.actor, 'b', "second");
    served.actor.does("write c 10 3; fdatasync b");
    served.survives("second");
    assert_eq!(served.level_state("second").level, Level::Absorb);
}

#[test]
fn locks_of_a_program_are_kept_whatever_happens_to_its_file() {
    let mut served = Served::new("+ce");
    // The witness opens and closes files, which this is about.
    served.actor = Actor::unwitnessed(&served.place);
    served.actor.does("open a log +; fdatasync a");
    served.actor.does("lock a; write a 10 2; fdatasync a");
    assert_eq!(served.actor.does("is_locked log"), 1);
    served.actor.does("write a 10 3; fdatasync a; ftruncate a 100; rename log moved");
    assert_eq!(served.actor.does("is_locked moved"), 1);
    served.actor.does("mapped a 10 4 0; fdatasync a");
    assert_eq!(served.actor.does("is_locked moved"), 1);
    drop(served.daemon);
    assert_eq!(served.actor.does("write a 10 3; fdatasync a; is_locked moved"), 1);
}

#[test]
fn descriptors_have_the_numbers_that_they_have_without_the_library() {
    let mut served = Served::new("+ce");
    let mut plain = served.place.plain_actor();
    assert_eq!(plain.does("open a log +ce"), 3);
    for lines in [
        "dup a b",
        "open c other wc",
        "close a; open a log +ce",
        "fopen S s w",
        "close_most 5; open d more wce",
    ] {
        assert_eq!(served.actor.does(lines), plain.does(lines), "{lines}");
    }
}

#[test]
fn program_closing_all_descriptors_breaks_none_of_the_librarys() {
    let mut served = Served::new("+ce");
    served.actor.does("close_range a a 0; close_most 3");
    let all = ['b', 'c', 'd', 'e', 'f'];
    for slot in all {
        served.actor.does(&format!("open {slot} file-{slot} wc; write {slot} 7 1; fdatasync {slot}"));
    }
    // The daemon is asked and asked again.
    for slot in all {
        served.place.absorb(&served.session, &mut served.actor, slot, &format!("file-{slot}"));
    }
    served.actor.does("rename file-b moved");
    for slot in all {
        assert_eq!(served.actor.does(&format!("write {slot} 7 1; lseek {slot} 0 1")), 14, "{slot}");
    }
}

#[test]
fn reasons_not_to_serve_a_file_are_reported() {
    let mut served = Served::new("+ce");
    assert_eq!(served.refused("d", "open b d +cde; fallocate b 0 0 100"), Reason::Direct);
    assert_eq!(served.refused("s", "open b s wcs; write b 10 1"), Reason::SyncOnWrite);
    assert_eq!(served.refused("y", "open b y wcy; write b 10 1"), Reason::SyncOnWrite);
    assert_eq!(served.refused("p", "fopen S p w; fputs S text; open b p wa"), Reason::Stdio);
    assert_eq!(served.refused("m", "open b m +c; write b 10 1; map b 10"), Reason::Mapped);
    assert_eq!(served.refused("l", "open b l wca; write b 10 1; setfl b w"), Reason::FlagsChanged);
    assert_eq!(served.refused("o", "open b o wca; handed_on b"), Reason::HandedOn);
    assert_eq!(served.refused("i", "open b i wca; write b 10 1; ring"), Reason::Ring);
    assert_eq!(served.taken_down("log"), Reason::Ring);
}

#[test]
fn unnamed_file_is_not_absorbed_and_unlinked_file_is_demoted() {
    let mut served = Served::new("+ce");
    served.actor.does(
        "open b gone wce; write b 10 1; unlink gone; fdatasync b; fdatasync b; fdatasync b; fdatasync b",
    );
    let report = served.daemon.report();
    assert!(report.users[0].files.iter().any(|file| file.why == Reason::Unlinked.sentence()), "{report:?}");
    served.actor.does("unlink log; write a 10 1; fdatasync a");
    while served.daemon.report().users[0].rings_taken > 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    served.actor.does("write a 10 2; fdatasync a");
}

#[test]
fn files_on_file_systems_without_disks_are_the_kernel_s() {
    let mut served = Served::new("+ce");
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("file");
    served.actor.does(&format!("open b {} wce; write b 10 1", path.display()));
    served.actor.does("fdatasync b; fdatasync b; fdatasync b; fdatasync b; write b 10 2");
    let report = served.daemon.report();
    assert!(
        report.users[0].files.iter().any(|file| file.why == Reason::SyncIsCheap.sentence()),
        "{report:?}"
    );
    assert_eq!(std::fs::metadata(path).unwrap().len(), 20);
}

#[test]
fn file_of_another_owner_has_no_entry() {
    let mut served = Served::new("+ce");
    std::fs::write(served.place.file("other"), b"").unwrap();
    if std::os::unix::fs::chown(served.place.file("other"), Some(12345), None).is_err() {
        // Only root can make such a file.
        return;
    }
    served.actor.does("open b other w; write b 10 1; fdatasync b; fdatasync b; fdatasync b; fdatasync b");
    assert_eq!(served.place.level_state(&served.session, "other"), None);
}

#[test]
fn absorbed_file_survives_renames_by_any_program() {
    let mut served = Served::new("+ce");
    served.actor.does("write a 10 2; fdatasync a; rename log one");
    assert_eq!(served.level_state("one").level, Level::Pass);
    served.place.absorb(&served.session, &mut served.actor, 'a', "one");
    let mut other = served.place.actor();
    other.does("rename one two");
    assert_eq!(served.level_state("two").level, Level::Pass);
    served.place.absorb(&served.session, &mut served.actor, 'a', "two");
    // By a program without the library.
    std::fs::rename(served.place.file("two"), served.place.file("three")).unwrap();
    assert_eq!(served.taken_down("three"), Reason::Renamed);
    served.actor.does("write a 10 3; fdatasync a");
    served.survives("three");
}

#[test]
fn two_programs_that_write_one_file_have_each_other_s_bytes_kept() {
    let mut served = Served::new("+cae");
    let mut other = served.place.actor();
    other.does("open a log wae");
    for round in 0..20 {
        served.actor.does(&format!("write a 30 {round}"));
        other.does(&format!("write a 50 {round}; fdatasync a"));
        served.survives("log");
        served.actor.does("write a 10 1; fdatasync a");
        served.survives("log");
    }
    other.kill();
    served.actor.does("write a 10 1; fdatasync a");
    served.survives("log");
    assert_eq!(served.level_state("log").level, Level::Absorb);
}

#[test]
fn a_program_that_is_started_with_a_descriptor_lists_it() {
    let served = Served::new("+cae");
    let mut actor = Actor::with_output(&served.place, &served.place.file("log"));
    actor.send("write a 10 1");
    actor.ended();
    assert_eq!(served.taken_down("log"), Reason::Stdio);
}

#[test]
fn a_signal_handler_that_writes_and_syncs_inside_of_a_write_harms_nothing() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log wcae");
    actor.does("write a 5 1; fdatasync a; fdatasync a; fdatasync a");
    place.absorb(&session, &mut actor, 'a', "log");
    // In parts, each of which has to answer in time: on a busy machine all syncs together may take minutes.
    let handled: i64 = (0..20).map(|_| actor.does("handler a 1000")).sum();
    assert!(handled > 0);
    let len = std::fs::metadata(place.file("log")).unwrap().len();
    assert_eq!(len, 5 + 8 * (20 * 1000 + handled as u64));
}

#[test]
fn confined_program_is_not_killed_by_the_librarys_calls() {
    let filtered = "fdatasync a; pwrite a 10 3 0; fsync a; dup a c; ftruncate a 100; rename log moved; \
                    open b other wc; write b 10 1; fdatasync b; fdatasync b; fdatasync b; close b; close a";
    for (how, lines) in [("filtered", filtered), ("by_number", filtered), ("strictly", "write a 10 3")] {
        let mut served = Served::new("+ce");
        served.actor = Actor::unwitnessed(&served.place);
        served.actor.does("open a log +ea; write a 10 1; fdatasync a");
        let entry = served.session.file_table().find(served.place.key("log")).unwrap();
        assert_eq!(entry.level_state().level, Level::Absorb);
        served.actor.does(&format!("confine {how}; write a 10 2; {lines}"));
        assert_eq!(entry.level_state().why, Reason::Sandboxed, "{how}");
    }
}

#[test]
fn a_program_that_only_asks_whether_it_could_be_confined_is_served_as_before() {
    const EFAULT: &str = "-1 errno 14";
    let mut served = Served::new("+ce");
    assert_eq!(served.actor.asked("confine not_at_all"), EFAULT);
    served.actor.does("write a 10 2; fdatasync a");
    assert_eq!(served.level_state("log").level, Level::Absorb);
    served.survives("log");
}

#[test]
fn a_program_that_was_written_as_an_absorbed_file_can_be_started() {
    let mut served = Served::new("wce");
    served.actor.does("close a");
    let path = served.place.file("log");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let why = Command::new(&path).spawn().unwrap_err().raw_os_error();
    assert_eq!(served.level_state("log").level, Level::Absorb);
    // What is in it is no program.
    assert_eq!(why, Some(8));
}
