//! Programs that are interrupted inside of a write, and those that write the same file meanwhile.

use byway_tdm_engine::client::Session;
use byway_tdm_engine::table::Level;
use byway_tdm_tests::{Actor, DaemonProcess, Place, assert_survives};

use crate::{DAEMON, place};

/// Where in a write that is absorbed: between the system's call and the record of it, and in the midst of the record.
const WHEN: [&str; 2] = ["written", "begun"];

/// A file `log` with acknowledged records, open as `a` by a program that may be interrupted, and by another one.
struct Interrupted {
    first: Actor,
    other: Actor,
    daemon: DaemonProcess,
    session: Session,
    place: Place,
}

impl Interrupted {
    fn new() -> Self {
        let place = place();
        let daemon = place.start_daemon(DAEMON);
        let session = place.session();
        let (mut first, mut other) = (Actor::interruptible(&place), place.actor());
        first.does("open a log wce; write a 5000 1");
        place.absorb(&session, &mut first, 'a', "log");
        other.does("open a log w");
        let mut this = Self { first, other, daemon, session, place };
        this.first.does("pwrite a 4000 2 0; fdatasync a");
        assert!(this.is_logged());
        this
    }

    /// Whether syncs are spared.
    fn is_logged(&self) -> bool {
        let entry = self.session.file_table().find(self.place.key("log")).unwrap();
        entry.level_state().level == Level::Absorb && !entry.cursor().is_suspended()
    }

    /// Both programs write over what the other wrote, with every sync acknowledged.
    fn write_in_turns(&mut self) {
        for round in 0..3 {
            self.first.does(&format!("pwrite a 300 {round} 550; fdatasync a"));
            self.other.does(&format!("pwrite a 200 {round} 600; fdatasync a"));
        }
        self.first.does("fdatasync a");
        assert!(self.is_logged(), "the log does not go on");
        self.other.does("pwrite a 100 9 650; fdatasync a; pwrite a 100 8 700; fdatasync a");
        assert_survives(&self.place, &self.session, &self.place.file("log"));
    }

    /// Panics unless every byte of the file, all of them synced, survives a loss of power.
    fn survives(mut self) {
        let had = std::fs::read(self.place.file("log")).unwrap();
        self.first.kill();
        self.other.kill();
        self.daemon.kill();
        self.place.lose_power();
        let daemon = self.place.start_daemon(DAEMON);
        let left = std::fs::read(self.place.file("log")).unwrap();
        let at = left.iter().zip(&had).position(|(left, had)| left != had);
        assert_eq!((left.len(), at), (had.len(), None), "{:?}", daemon.recovered);
        daemon.end();
    }
}

#[test]
fn abandoned_write_delays_no_one_and_undoes_nothing() {
    for when in WHEN {
        let mut file = Interrupted::new();
        file.first.does(&format!("inside {when} jump a 3000 3 500"));
        file.other.does("pwrite a 700 4 600; fdatasync a");
        file.survives();
    }
}

#[test]
fn program_that_jumped_out_of_a_write_continues() {
    for when in WHEN {
        let mut file = Interrupted::new();
        file.first.does(&format!("inside {when} jump a 3000 3 500; pwrite a 200 5 550; fdatasync a"));
        file.other.does("pwrite a 100 6 600; fdatasync a");
        file.first.does("thread pwrite a 100 7 650; ftruncate a 4500; pwrite a 10 8 4600; fdatasync a");
        file.survives();
    }
}

#[test]
fn program_stopped_in_a_write_delays_no_other_and_undoes_nothing() {
    for when in WHEN {
        let mut file = Interrupted::new();
        file.first.send(&format!("inside {when} stop a 3000 3 500"));
        file.first.await_stopped();
        file.other.does("pwrite a 700 4 600; fdatasync a; ftruncate a 4500; pwrite a 10 5 4600; fdatasync a");
        file.survives();
    }
}

#[test]
fn bytes_synced_past_a_stopped_program_survive_its_resume() {
    for when in WHEN {
        let mut file = Interrupted::new();
        file.first.send(&format!("inside {when} stop a 3000 3 500"));
        file.first.await_stopped();
        file.other.does("pwrite a 700 4 600; fdatasync a");
        file.first.goes_on();
        assert_eq!(file.first.answer(), "3000");
        assert_survives(&file.place, &file.session, &file.place.file("log"));
        file.write_in_turns();
        file.survives();
    }
}

#[test]
fn sync_of_everything_ends_past_a_program_stopped_in_a_write() {
    let mut file = Interrupted::new();
    file.first.send("inside written stop a 3000 3 500");
    file.first.await_stopped();
    file.other.does("pwrite a 700 4 600; sync");
    file.place.keep_all("log");
    file.survives();
}

#[test]
fn handlers_sync_in_a_write_is_not_undone_by_older_records() {
    for when in WHEN {
        let mut file = Interrupted::new();
        file.first.does(&format!("inside {when} sync a 3000 3 500"));
        file.survives();
    }
}

#[test]
fn log_resumes_after_a_handlers_sync_in_a_write() {
    for when in WHEN {
        let mut file = Interrupted::new();
        file.first.does(&format!("inside {when} sync a 3000 3 500"));
        file.write_in_turns();
        file.survives();
    }
}
