//! Reclaimed entries. A shared file table may be full: a file without an entry stays at PASS while it is open, and all
//! others go on being absorbed. One that was written unseen is the kernel's for as long.
//!
//! Needs root, who starts a daemon for all users and programs as another one.

use std::time::{Duration, Instant};

use byway_tdm_daemon::Daemon;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::table::{ENTRIES, FileKey, FileTable, Level, LevelState, Reason};
use byway_tdm_tests::{Actor, Place, absorb, ask_again};

use crate::users::{OTHER_UID, as_other_user, place_of_two};

/// Limit of waits that should end sooner: sweeps are rare on a busy machine.
const LONG: Duration = Duration::from_secs(300);

fn comes_to(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes entries of closed files until there are so many, which are kept as if pinned.
fn crowd(file_table: &FileTable, count: usize) {
    let files = (1..).map(|file| FileKey { device: 1 << 40, inode: file << 32, born_ns: 1 });
    for file in files {
        match file_table.find_or_make(file).unwrap() {
            Some(entry) => entry.explain(Reason::ByHand),
            None if file_table.entries().count() == count => return,
            None => {}
        }
        if file_table.made() >= count && file_table.entries().count() >= count {
            return;
        }
    }
}

/// The daemon gives back what is not ordered any more.
fn await_sweep(file_table: &FileTable) {
    file_table
        .entries()
        .filter(|entry| entry.level_state().why == Reason::ByHand)
        .for_each(|entry| entry.explain(Reason::Unknown));
    comes_to("entries of closed files are kept", || file_table.entries().count() < ENTRIES / 4);
}

/// Another user's programs, whose open files can all be read, which may not hold for root's.
struct Crowded {
    first: Actor,
    other: Actor,
    session: Session,
    _daemon: Daemon,
    place: Place,
}

impl Crowded {
    fn new(test: &str) -> Option<Self> {
        let place = place_of_two(test)?;
        let daemon = place.daemon();
        let session = as_other_user(|| place.session());
        let [first, other] = [(); 2].map(|()| Actor::of_user(&place, "plain", OTHER_UID));
        Some(Self { first, other, session, _daemon: daemon, place })
    }

    fn file_table(&self) -> &FileTable {
        self.session.file_table()
    }

    fn key(&self, name: &str) -> FileKey {
        self.place.key(self.place.path().join("plain").join(name).to_str().unwrap())
    }

    fn level_state(&self, name: &str) -> Option<LevelState> {
        self.file_table().find(self.key(name)).map(|entry| entry.level_state())
    }

    /// A file `late` that the first program has open as `a`, and that found no place.
    fn open_late(&mut self) {
        // The library registers its program with the first file that it opens.
        self.first.does("open b early wce");
        crowd(self.file_table(), ENTRIES);
        self.first.does("open a late wce; write a 100 1; fdatasync a");
        assert!(self.file_table().is_left_out(self.key("late")));
        await_sweep(self.file_table());
        assert_eq!(self.level_state("late"), None);
    }

    /// The other program has a file absorbed that it has open.
    fn absorb(&mut self, slot: char, name: &str) {
        let key = self.key(name);
        absorb(&self.session, &mut self.other, slot, key);
    }

    /// Sweeps of barred files are 60 s from each other on the daemon's clock: runs one, and detects its end by a closed, barred file.
    fn look_at_barred(&mut self, closed: &str) {
        self.other.does(&format!("open h {closed} +ce; write h 600 1; mapped h 10 4 0; close h"));
        assert!(self.level_state(closed).is_none_or(|level_state| level_state.is_barred));
        self.place.options.clock.advance(Duration::from_secs(61));
        comes_to("a closed, barred file stays barred", || self.level_state(closed).is_none());
    }

    fn await_forgotten(&self) {
        comes_to("it is left out for ever", || self.file_table().unlisted() == 0);
    }
}

#[test]
fn file_without_an_entry_stays_at_pass_while_open() {
    let test = "file_without_an_entry_stays_at_pass_while_open";
    let Some(mut crowded) = Crowded::new(test) else { return };
    crowded.open_late();
    crowded.other.does("open b next wce; write b 100 1");
    crowded.absorb('b', "next");
    crowded.other.does("open a late w; write a 100 2");
    let late = crowded.key("late");
    comes_to("it is not refused", || {
        crowded.session.file_table().find(late).into_iter().for_each(ask_again);
        crowded.other.does("fdatasync a");
        crowded.level_state("late").unwrap().why == Reason::TableFull
    });
    assert_eq!(crowded.level_state("late").unwrap().level, Level::Pass);
    crowded.first.does("close a");
    crowded.other.does("close a");
    crowded.await_forgotten();
    crowded.other.does("open a late w; write a 100 3");
    crowded.absorb('a', "late");
}

#[test]
fn filter_keeps_files_while_a_hidden_writer_may_exist() {
    let test = "filter_keeps_files_while_a_hidden_writer_may_exist";
    let Some(mut crowded) = Crowded::new(test) else { return };
    crowded.first.does("open c rung wce; write c 10 1; ring c");
    crowded.open_late();
    crowded.first.does("close a");
    for _ in 0..2 {
        // As often as it is swept it is looked.
        crowd(crowded.file_table(), ENTRIES / 2);
        await_sweep(crowded.file_table());
    }
    assert!(crowded.file_table().is_left_out(crowded.key("late")));
    [&mut crowded.first, &mut crowded.other].into_iter().for_each(Actor::kill);
    crowded.await_forgotten();
}

#[test]
fn barred_file_is_absorbed_again_once_closed() {
    let test = "barred_file_is_absorbed_again_once_closed";
    let Some(mut crowded) = Crowded::new(test) else { return };
    // Mapped, and closed: it is open for as long as it is mapped.
    crowded.first.does("open a log +ce; write a 600 1; map a 600; close a");
    crowded.look_at_barred("once");
    assert_eq!(crowded.level_state("log").unwrap().why, Reason::Mapped);
    crowded.first.kill();
    crowded.look_at_barred("twice");
    assert_eq!(crowded.level_state("log"), None);
    crowded.other.does("open a log w; write a 100 3");
    crowded.absorb('a', "log");
}

#[test]
fn io_uring_file_is_not_absorbed_before_its_program_ends() {
    let test = "io_uring_file_is_not_absorbed_before_its_program_ends";
    let Some(mut crowded) = Crowded::new(test) else { return };
    crowded.first.does("open c rung wce; write c 10 1; ring c; close c");
    crowded.look_at_barred("once");
    assert_eq!(crowded.level_state("rung").unwrap().why, Reason::Ring);
}
