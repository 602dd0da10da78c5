//! Entries that are given back. A board may have no place left: a file that finds none there is the kernel's while anybody has it open, and all
//! others go on being absorbed. One that was written unseen is the kernel's for as long.
//!
//! Needs root, who starts a daemon for all users and programs as another one.

use std::time::{Duration, Instant};

use byway_tdm_daemon::Daemon;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::table::{Board, ENTRIES, FileKey, Level, Standing, Why};
use byway_tdm_tests::{Actor, Place, absorb, ask_again};

use crate::users::{NOBODY, as_nobody, place_of_two};

/// Ends of waits that nothing should reach: looks at all that every process has open are far apart on a busy machine.
const LONG: Duration = Duration::from_secs(300);

fn comes_to(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes places for files that nobody has open, until there are so many: they are kept, as if somebody had ordered that.
fn crowd(board: &Board, count: usize) {
    let files = (1..).map(|file| FileKey { device: 1 << 40, inode: file << 32, born_ns: 1 });
    for file in files {
        match board.find_or_make(file).unwrap() {
            Some(entry) => entry.explain(Why::ByHand),
            None if board.entries().count() == count => return,
            None => {}
        }
        if board.made() >= count && board.entries().count() >= count {
            return;
        }
    }
}

/// The daemon gives back what is not ordered any more.
fn await_sweep(board: &Board) {
    board
        .entries()
        .filter(|entry| entry.standing().why == Why::ByHand)
        .for_each(|entry| entry.explain(Why::Unknown));
    comes_to("entries of files that nobody has open are kept", || board.entries().count() < ENTRIES / 4);
}

/// Another user's programs: of all of them it is told what they have open, which may not be so of root's own.
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
        let session = as_nobody(|| place.session());
        let [first, other] = [(); 2].map(|()| Actor::of_user(&place, "plain", NOBODY));
        Some(Self { first, other, session, _daemon: daemon, place })
    }

    fn board(&self) -> &Board {
        self.session.board()
    }

    fn key(&self, name: &str) -> FileKey {
        self.place.key(self.place.path().join("plain").join(name).to_str().unwrap())
    }

    fn standing(&self, name: &str) -> Option<Standing> {
        self.board().find(self.key(name)).map(|entry| entry.standing())
    }

    /// A file `late` that the first program has open as `a`, and that found no place.
    fn open_late(&mut self) {
        // It is known who is there from the first file on.
        self.first.does("open b early wce");
        crowd(self.board(), ENTRIES);
        self.first.does("open a late wce; write a 100 1; fdatasync a");
        assert!(self.board().is_left_out(self.key("late")));
        await_sweep(self.board());
        assert_eq!(self.standing("late"), None);
    }

    /// The other program has a file absorbed that it has open.
    fn absorb(&mut self, slot: char, name: &str) {
        let key = self.key(name);
        absorb(&self.session, &mut self.other, slot, key);
    }

    /// Looks at barred files are a minute apart, on the daemon's clock: this has one made, and says by a barred file that nobody has open when it is over.
    fn look_at_barred(&mut self, closed: &str) {
        self.other.does(&format!("open h {closed} +ce; write h 600 1; mapped h 10 4 0; close h"));
        assert!(self.standing(closed).is_none_or(|standing| standing.is_barred));
        self.place.options.clock.advance(Duration::from_secs(61));
        comes_to("a barred file that nobody has open stays barred", || self.standing(closed).is_none());
    }

    fn await_forgotten(&self) {
        comes_to("it is left out for ever", || self.board().unlisted() == 0);
    }
}

#[test]
fn a_file_that_found_no_entry_is_the_kernel_s_while_it_is_open_and_others_are_absorbed_meanwhile() {
    let test =
        "a_file_that_found_no_entry_is_the_kernel_s_while_it_is_open_and_others_are_absorbed_meanwhile";
    let Some(mut crowded) = Crowded::new(test) else { return };
    crowded.open_late();
    crowded.other.does("open b next wce; write b 100 1");
    crowded.absorb('b', "next");
    crowded.other.does("open a late w; write a 100 2");
    let late = crowded.key("late");
    comes_to("it is not refused", || {
        crowded.session.board().find(late).into_iter().for_each(ask_again);
        crowded.other.does("fdatasync a");
        crowded.standing("late").unwrap().why == Why::BoardFull
    });
    assert_eq!(crowded.standing("late").unwrap().level, Level::Pass);
    crowded.first.does("close a");
    crowded.other.does("close a");
    crowded.await_forgotten();
    crowded.other.does("open a late w; write a 100 3");
    crowded.absorb('a', "late");
}

#[test]
fn a_file_without_an_entry_is_not_forgotten_while_a_program_is_there_that_may_write_it_out_of_sight() {
    let test =
        "a_file_without_an_entry_is_not_forgotten_while_a_program_is_there_that_may_write_it_out_of_sight";
    let Some(mut crowded) = Crowded::new(test) else { return };
    crowded.first.does("open c rung wce; write c 10 1; ring c");
    crowded.open_late();
    crowded.first.does("close a");
    for _ in 0..2 {
        // As often as it is swept it is looked.
        crowd(crowded.board(), ENTRIES / 2);
        await_sweep(crowded.board());
    }
    assert!(crowded.board().is_left_out(crowded.key("late")));
    [&mut crowded.first, &mut crowded.other].into_iter().for_each(Actor::kill);
    crowded.await_forgotten();
}

#[test]
fn a_file_that_was_written_unseen_is_absorbed_again_once_nobody_has_it_open() {
    let test = "a_file_that_was_written_unseen_is_absorbed_again_once_nobody_has_it_open";
    let Some(mut crowded) = Crowded::new(test) else { return };
    // Mapped, and closed: it is open for as long as it is mapped.
    crowded.first.does("open a log +ce; write a 600 1; map a 600; close a");
    crowded.look_at_barred("once");
    assert_eq!(crowded.standing("log").unwrap().why, Why::Mapped);
    crowded.first.kill();
    crowded.look_at_barred("twice");
    assert_eq!(crowded.standing("log"), None);
    crowded.other.does("open a log w; write a 100 3");
    crowded.absorb('a', "log");
}

#[test]
fn a_file_that_a_ring_may_write_is_not_absorbed_again_before_its_program_has_ended() {
    let test = "a_file_that_a_ring_may_write_is_not_absorbed_again_before_its_program_has_ended";
    let Some(mut crowded) = Crowded::new(test) else { return };
    crowded.first.does("open c rung wce; write c 10 1; ring c; close c");
    crowded.look_at_barred("once");
    assert_eq!(crowded.standing("rung").unwrap().why, Why::Ring);
}
