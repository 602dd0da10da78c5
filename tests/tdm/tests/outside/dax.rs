//! Files whose home is device memory: what programs see of them, and whoever else there is.

use std::fs::File;
use std::time::Duration;

use byway_forgetful::Random;
use byway_tdm_daemon::Daemon;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::resident::Home;
use byway_tdm_engine::table::{Level, Why};
use byway_tdm_tests::{Actor, Place, ask_again};

use crate::{place, rounds};

/// A place with a daemon, and a program with `log` open as `a` and at home.
pub(crate) struct House {
    pub(crate) actor: Actor,
    pub(crate) session: Session,
    // Before the place, which has its socket.
    daemon: Daemon,
    pub(crate) place: Place,
}

impl House {
    pub(crate) fn with(flags: &str) -> Self {
        Self::of(place(), flags)
    }

    fn of(place: Place, flags: &str) -> Self {
        let daemon = place.daemon();
        let session = place.session();
        let mut actor = Actor::unwitnessed(&place);
        actor.does(&format!("open a log {flags}; write a 100 1"));
        place.house(&session, &mut actor, 'a', "log");
        Self { actor, session, daemon, place }
    }

    pub(crate) fn level(&self) -> Level {
        self.place.standing(&self.session, "log").unwrap().level
    }

    pub(crate) fn why(&self) -> Why {
        self.place.standing(&self.session, "log").unwrap().why
    }

    /// As whoever has no library finds it.
    pub(crate) fn found(&self) -> Vec<u8> {
        std::fs::read(self.place.file("log")).unwrap()
    }
}

/// What an actor writes by such a call.
pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = (seed.wrapping_mul(2_654_435_761)).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + ((state >> 33) % 26) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn a_file_at_home_is_written_read_and_synced_there_and_the_file_below_stays_as_it_was() {
    let mut house = House::with("+ca");
    house.actor.does("write a 50 2; fdatasync a; writev a 300 3; fsync a");
    assert_eq!(house.actor.does("size a"), 450);
    assert_eq!(house.actor.does("size_of log"), 450);
    assert_eq!(house.actor.does("lseek a 0 1"), 450);
    assert_eq!(house.actor.does("lseek a 100 0"), 100);
    let first = house.actor.does("sum a 50");
    assert_eq!(house.actor.does("sum_at a 50 100"), first);
    assert_eq!(house.actor.does("sys_sum_at a 50 100"), first);
    assert_eq!(house.level(), Level::Dax);
    assert_eq!(std::fs::metadata(house.place.file("log")).unwrap().len(), 100);
}

#[test]
fn whoever_opens_a_file_that_is_at_home_finds_every_byte_and_the_file_comes_home_again() {
    let mut house = House::with("wca");
    let mut all = bytes(100, 1);
    for round in 0..10 {
        house.actor.does(&format!("write a 70 {round}"));
        all.extend(bytes(70, round));
        assert_eq!(house.found(), all);
        assert_eq!(house.why(), Why::OpenElsewhere);
        house.place.house(&house.session, &mut house.actor, 'a', "log");
    }
}

#[test]
fn a_file_that_was_evicted_and_is_pinned_home_is_kept_out_no_more() {
    let mut house = House::with("+ce");
    assert!(house.place.order(Order::Evict, "log"));
    assert_eq!(house.level(), Level::Pass);
    house.place.house(&house.session, &mut house.actor, 'a', "log");
    let clock = &house.place.options.clock;
    let seen = clock.rounds() + 2;
    while clock.rounds() < seen {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = house.daemon.report();
    let file = &report.users[0].files[0];
    assert!(!format!("{file:?}").contains("kept out"), "{file:?}");
}

#[test]
fn a_file_that_is_open_once_more_does_not_come_home() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log wca; write a 10 1");
    let reader = std::fs::File::open(place.file("log")).unwrap();
    assert!(place.order(Order::House, "log"));
    ask_again(session.board().find(place.key("log")).unwrap());
    actor.does("fdatasync a");
    let standing = place.standing(&session, "log").unwrap();
    assert_eq!((standing.level, standing.why), (Level::Pass, Why::OpenElsewhere));
    drop(reader);
    place.house(&session, &mut actor, 'a', "log");
}

#[test]
fn a_file_that_a_program_was_started_with_does_not_come_home_as_its_starter_may_have_it_still() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::inheriting(&place);
    actor.does("inherit a 3; write a 10 1");
    assert!(!place.order(Order::House, "log"));
    ask_again(session.board().find(place.key("log")).unwrap());
    actor.does("fdatasync a");
    assert_eq!(place.standing(&session, "log").unwrap().level, Level::Pass);
}

#[test]
fn a_file_does_not_come_home_inside_of_a_write_and_does_behind_it() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::interruptible(&place);
    actor.does("open a log +c; write a 100 1");
    assert!(place.order(Order::House, "log"));
    // The handler's sync is one that brings it home.
    actor.does("inside written sync a 80 2 0");
    let standing = place.standing(&session, "log").unwrap();
    assert_eq!((standing.level, standing.why), (Level::Pass, Why::Busy));
    place.house(&session, &mut actor, 'a', "log");
}

#[test]
fn a_write_behind_one_of_a_vfork_child_keeps_a_file_from_home_though_that_child_has_ended() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::interruptible(&place);
    actor.does("open a log +c; vfork_writes a 100 1");
    assert!(place.order(Order::House, "log"));
    actor.does("inside written sync a 80 2 0");
    let standing = place.standing(&session, "log").unwrap();
    assert_eq!((standing.level, standing.why), (Level::Pass, Why::Busy));
}

#[test]
fn a_file_comes_home_though_another_of_its_writers_was_killed_inside_of_a_write() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut killed = Actor::interruptible(&place);
    killed.does("open a log +c; write a 100 1");
    killed.tell("inside written stop a 80 2 0");
    killed.stands_still();
    let entry = session.board().find(place.key("log")).unwrap();
    assert!(session.board().is_under_way(entry));
    killed.kill();
    assert!(!session.board().is_under_way(entry));
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log w");
    place.house(&session, &mut actor, 'a', "log");
}

#[test]
fn a_file_whose_writer_is_inside_of_a_write_stays_below_and_comes_home_to_the_next_one_if_he_was_killed() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log wca; write a 100 1");
    // As it is left by who is killed inside of a call of the kernel.
    session.board().find(place.key("log")).unwrap().housed().begin();
    assert!(place.order(Order::House, "log"));
    actor.does("fdatasync a");
    assert_eq!(place.standing(&session, "log").unwrap().why, Why::Busy);
    actor.kill();
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log wca");
    place.house(&session, &mut actor, 'a', "log");
}

/// A file at home, what its program does, and whether it is below then, with these bytes.
fn goes_below(flags: &str, lines: &str, left: impl FnOnce(&mut Vec<u8>)) {
    let mut house = House::with(flags);
    house.actor.does("write a 60 2");
    house.actor.does(lines);
    assert_eq!(house.level(), Level::Pass, "{lines}");
    let mut wanted = [bytes(100, 1), bytes(60, 2)].concat();
    left(&mut wanted);
    assert!(house.found() == wanted, "{lines}");
}

#[test]
fn a_sync_that_ends_later_finds_all_of_the_file_below() {
    goes_below("+ce", "pwrite a 40 9 30; aio_fsync a", |all| all[30..70].copy_from_slice(&bytes(40, 9)));
}

#[test]
fn what_only_the_kernel_can_do_is_done_by_it_with_all_of_the_file_below() {
    goes_below("+c", "mapped a 10 5 0", |all| all[..10].copy_from_slice(&bytes(10, 5)));
    goes_below("+c", "splice a 30 5", |all| all.extend(bytes(30, 5)));
    goes_below("+c", "fallocate a 0 100 100", |all| all.resize(200, 0));
    goes_below("+c", "pwritev2 a 30 5 10 2", |all| all[10..40].copy_from_slice(&bytes(30, 5)));
    goes_below("+c", "dprintf a 40 5", |all| all.extend(bytes(40, 5)));
    goes_below("+c", "open b copy +c; sendfile b a 10 0", |_| {});
    goes_below("+c", "open b log r", |_| {});
    goes_below("+c", "truncate log 7", |all| all.truncate(7));
    goes_below("wca", "close a", |_| {});
    goes_below("wca", "rename log other; rename other log", |_| {});
    goes_below("+c", "setfl a +a; write a 5 3", |all| all.extend(bytes(5, 3)));
}

#[test]
fn a_child_and_its_parent_share_the_position_of_a_file_at_home() {
    let mut house = House::with("+c");
    house.actor.does("child write a 20 2; write a 20 3; child lseek a 0 0; write a 5 4");
    assert_eq!(house.level(), Level::Dax);
    let all = [bytes(5, 4), bytes(100, 1)[5..].to_vec(), bytes(20, 2), bytes(20, 3)].concat();
    assert!(house.found() == all);
}

#[test]
fn writes_of_many_threads_are_all_there_while_their_file_comes_and_goes() {
    for flags in ["wca", "+c"] {
        let mut house = House::with(flags);
        let mut comes = 0;
        house.actor.tell("threads a 6000 0");
        for round in 0..rounds(60) {
            house.session.board().entries().for_each(ask_again);
            let _ = house.place.order(Order::House, "log");
            std::thread::sleep(Duration::from_millis(1));
            comes += u64::from(house.level() == Level::Dax);
            match round % 2 {
                0 => drop(house.place.order(Order::Drain, "log")),
                _ => drop(house.found()),
            }
        }
        assert_eq!(house.actor.answer(), "0");
        assert!(comes > 0, "it was never at home");
        assert_eq!(house.found().len(), 100 + 8 * 4 * 6000, "{flags}");
    }
}

#[test]
fn programs_that_append_by_open_files_of_their_own_lose_nothing() {
    let mut house = House::with("wca");
    let mut other = Actor::unwitnessed(&house.place);
    house.actor.does("write a 10 2; fdatasync a");
    other.does("open a log wca; write a 10 3; fdatasync a");
    house.actor.does("write a 10 4; fdatasync a");
    let all = [bytes(100, 1), bytes(10, 2), bytes(10, 3), bytes(10, 4)].concat();
    assert!(house.found() == all);
}

#[test]
fn a_file_that_outgrows_its_home_goes_below_and_then_into_a_larger_one() {
    let mut house = House::with("wca");
    let mut all = bytes(100, 1);
    // A part of the region has eight places of 458,752 bytes: the second home has three of them.
    for seed in 0..24 {
        house.actor.does(&format!("write a 80000 {seed}; fdatasync a"));
        all.extend(bytes(80_000, seed));
        if seed < 12 {
            house.place.await_home(&house.session, &mut house.actor, 'a', "log");
        }
    }
    assert!(house.found() == all);
}

#[test]
fn a_file_that_comes_to_a_larger_home_at_once_is_not_opened_to_others_by_leaving_the_old_one() {
    let mut place = Place::with_rings(env!("CARGO_TARGET_TMPDIR"), 64 << 10);
    place.options.region = place.options.region.replace("size=32M", "size=256M");
    let mut house = House::of(place, "wca");
    for _ in 0..4 {
        let room_bytes = house.session.board().find(house.place.key("log")).unwrap().ring().len_bytes;
        house.actor.does(&format!("write a {room_bytes} 1; fdatasync a; write a 1 2; fdatasync a"));
        house.place.await_home(&house.session, &mut house.actor, 'a', "log");
        // Several looks of the daemon at all homes.
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(house.level(), Level::Dax, "{:?}", house.why());
    }
}

#[test]
fn a_program_that_ends_leaves_all_of_its_file_below() {
    let mut house = House::with("wca");
    house.actor.does("write a 10 2");
    house.actor.kill();
    let all = [bytes(100, 1), bytes(10, 2)].concat();
    assert!(house.found() == all);
}

#[test]
fn a_handler_that_writes_inside_of_a_write_to_a_file_at_home_loses_neither() {
    let mut house = House::with("wca");
    let handled = house.actor.does("handler a 50000");
    assert!(handled > 0);
    assert_eq!(house.level(), Level::Dax);
    assert_eq!(house.found().len() as i64, 100 + 8 * (50_000 + handled));
}

/// The bytes that a loss of power would leave of `log`.
fn kept(place: &Place, session: &Session) -> Vec<u8> {
    let entry = session.board().find(place.key("log")).unwrap();
    let home = Home::new(session.memory(), entry.ring()).unwrap();
    assert!(home.is_live().unwrap());
    let mut all = vec![0; home.kept_size().unwrap() as usize];
    home.read(0, &mut all).unwrap();
    all
}

#[test]
fn what_a_sync_acknowledged_is_kept_at_home_and_what_it_did_not_is_not_in_the_size() {
    let mut house = House::with("wca");
    house.actor.does("write a 10 2; fdatasync a; write a 10 3");
    let synced = [bytes(100, 1), bytes(10, 2)].concat();
    assert!(kept(&house.place, &house.session) == synced);
    house.actor.does("fsync a");
    assert!(kept(&house.place, &house.session) == [synced, bytes(10, 3)].concat());
}

#[test]
fn a_sync_of_everything_by_whichever_program_keeps_what_is_at_home() {
    let mut house = House::with("wca");
    let mut all = bytes(100, 1);
    let mut other = Actor::unwitnessed(&house.place);
    for (round, sync) in ["sync", "syncfs b", "sys_syncfs b"].into_iter().enumerate() {
        house.actor.does(&format!("write a 10 {round}"));
        other.does(&format!("open b other wc; {sync}; close b"));
        all.extend(bytes(10, round as u64));
        assert!(kept(&house.place, &house.session) == all, "{sync} by another program");
        house.actor.does(&format!("write a 10 {round}; open b other wc; {sync}; close b"));
        all.extend(bytes(10, round as u64));
        assert!(kept(&house.place, &house.session) == all, "{sync} by its own program");
    }
    assert_eq!(house.level(), Level::Dax);
}

#[test]
fn programs_without_the_library_that_write_and_cut_a_file_at_home_find_and_leave_every_byte() {
    use std::io::Write;
    let mut house = House::with("wca");
    house.actor.does("write a 20 2");
    File::options().append(true).open(house.place.file("log")).unwrap().write_all(b"foreign").unwrap();
    let all = [bytes(100, 1), bytes(20, 2), b"foreign".to_vec()].concat();
    assert!(house.found() == all);
    house.place.house(&house.session, &mut house.actor, 'a', "log");
    house.actor.does("write a 20 3");
    File::options().write(true).truncate(true).open(house.place.file("log")).unwrap();
    assert!(house.found().is_empty());
    house.actor.does("write a 20 4; fdatasync a");
    assert!(house.found() == bytes(20, 4));
}

/// Two actors of which one has its file at home now and then.
struct Pair {
    house: House,
    plain: Actor,
    random: Random,
    told: Vec<String>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let house = House::with("+c");
        let mut plain = house.place.plain_actor();
        plain.does("open a log +c; write a 100 1");
        Self { house, plain, random: Random::new(seed), told: Vec::new() }
    }

    fn step(&mut self, line: &str) {
        self.told.push(line.to_owned());
        let (served, plain) = (self.house.actor.asked(line), self.plain.asked(line));
        assert_eq!(served, plain, "at home and without the library, after {:#?}", self.told);
    }

    fn line(&mut self) -> String {
        let random = &mut self.random;
        let len = if random.one_in(8) { random.below(70_000) } else { random.below(900) };
        let (at, seed) = (random.below(20_000), random.below(1000));
        match random.below(32) {
            0..4 => format!("write a {len} {seed}"),
            4..7 => format!("pwrite a {len} {seed} {at}"),
            7 => format!("writev a {len} {seed}"),
            8 => format!("pwritev a {len} {seed} {at}"),
            9..12 => format!("sum a {len}"),
            12..14 => format!("sum_at a {len} {at}"),
            14 => format!("sum_parts a {len}"),
            15 => format!("sum_parts_at a {len} {at}"),
            // Where data and holes are is the file system's business.
            16..18 => format!("lseek a {at} {}", seed % 3),
            18 => format!("lseek a -{at} {}", seed % 3),
            19 => format!("ftruncate a {at}"),
            20 => "size a".to_owned(),
            21 => "size_of log".to_owned(),
            22 => format!("child write a {len} {seed}"),
            23 => format!("child lseek a {at} 0"),
            24 => format!("thread write a {len} {seed}"),
            25 => format!("sys_sum_at a {len} {at}"),
            26 if seed < 100 => format!("fallocate a 0 {at} {}", len + 1),
            27 if seed < 100 => format!("splice a {len} {seed}"),
            28 if seed < 100 => format!("pwritev2 a {len} {seed} {at} 2"),
            29 if seed < 200 => "dup a b".to_owned(),
            _ => "fdatasync a".to_owned(),
        }
    }

    fn flip(&mut self) {
        let session = &self.house.session;
        match self.random.below(8) {
            0 => drop(self.house.place.order(Order::Evict, "log")),
            1 => drop(self.house.place.order(Order::Drain, "log")),
            2 => drop(self.house.place.order(Order::Unpin, "log")),
            3 => drop(self.house.found()),
            _ => {
                session.board().entries().for_each(ask_again);
                let _ = self.house.place.order(Order::Unpin, "log");
                let _ = self.house.place.order(Order::House, "log");
                self.step("fdatasync a");
            }
        }
    }

    fn compare(&self) {
        let plain = std::fs::read(self.house.place.path().join("plain/log")).unwrap();
        assert!(self.house.found() == plain, "another file after {:#?}", self.told);
    }
}

#[test]
fn random_calls_are_answered_at_home_as_without_the_library_while_the_file_comes_and_goes() {
    let mut homes = 0;
    for seed in 0..rounds(6) {
        let mut pair = Pair::new(seed);
        for _ in 0..300 {
            let line = pair.line();
            pair.step(&line);
            if pair.random.one_in(12) {
                pair.flip();
            }
            homes += u64::from(pair.house.level() == Level::Dax);
            if pair.house.level() == Level::Dax && line == "fdatasync a" {
                let kept = kept(&pair.house.place, &pair.house.session);
                let plain = std::fs::read(pair.house.place.path().join("plain/log")).unwrap();
                assert!(kept == plain, "seed {seed}: not kept after {:#?}", pair.told);
            }
        }
        pair.compare();
    }
    assert!(homes > 100, "{homes} calls at home");
}
