//! DAX-resident files: what programs see, and who else may open them.

use std::fs::File;
use std::time::Duration;

use byway_forgetful::Random;
use byway_tdm_daemon::Daemon;
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::resident::ResidentFile;
use byway_tdm_engine::table::{Level, Reason};
use byway_tdm_tests::{Actor, Place, ask_again};

use crate::{place, rounds};

/// A place with a daemon, and a program with `log` open as `a` and DAX-resident.
pub(crate) struct DaxProgram {
    pub(crate) actor: Actor,
    pub(crate) session: Session,
    // Before the place, which has its socket.
    daemon: Daemon,
    pub(crate) place: Place,
}

impl DaxProgram {
    pub(crate) fn with(flags: &str) -> Self {
        Self::of(place(), flags)
    }

    fn of(place: Place, flags: &str) -> Self {
        let daemon = place.daemon();
        let session = place.session();
        let mut actor = Actor::unwitnessed(&place);
        actor.does(&format!("open a log {flags}; write a 100 1"));
        place.promote(&session, &mut actor, 'a', "log");
        Self { actor, session, daemon, place }
    }

    pub(crate) fn level(&self) -> Level {
        self.place.level_state(&self.session, "log").unwrap().level
    }

    pub(crate) fn why(&self) -> Reason {
        self.place.level_state(&self.session, "log").unwrap().why
    }

    /// The file as a program without the library reads it.
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
fn dax_file_is_served_without_touching_the_file_below() {
    let mut dax = DaxProgram::with("+ca");
    dax.actor.does("write a 50 2; fdatasync a; writev a 300 3; fsync a");
    assert_eq!(dax.actor.does("size a"), 450);
    assert_eq!(dax.actor.does("size_of log"), 450);
    assert_eq!(dax.actor.does("lseek a 0 1"), 450);
    assert_eq!(dax.actor.does("lseek a 100 0"), 100);
    let first = dax.actor.does("sum a 50");
    assert_eq!(dax.actor.does("sum_at a 50 100"), first);
    assert_eq!(dax.actor.does("sys_sum_at a 50 100"), first);
    assert_eq!(dax.level(), Level::Dax);
    assert_eq!(std::fs::metadata(dax.place.file("log")).unwrap().len(), 100);
}

#[test]
fn open_of_a_dax_file_finds_every_byte_and_it_is_promoted_again() {
    let mut dax = DaxProgram::with("wca");
    let mut all = bytes(100, 1);
    for round in 0..10 {
        dax.actor.does(&format!("write a 70 {round}"));
        all.extend(bytes(70, round));
        assert_eq!(dax.found(), all);
        assert_eq!(dax.why(), Reason::OpenElsewhere);
        dax.place.promote(&dax.session, &mut dax.actor, 'a', "log");
    }
}

#[test]
fn evicted_file_pinned_to_dax_is_served_again() {
    let mut dax = DaxProgram::with("+ce");
    assert!(dax.place.order(Order::Evict, "log"));
    assert_eq!(dax.level(), Level::Pass);
    dax.place.promote(&dax.session, &mut dax.actor, 'a', "log");
    let clock = &dax.place.options.clock;
    let seen = clock.rounds() + 2;
    while clock.rounds() < seen {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = dax.daemon.report();
    let file = &report.users[0].files[0];
    assert!(!format!("{file:?}").contains("kept out"), "{file:?}");
}

#[test]
fn file_open_twice_is_not_promoted() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log wca; write a 10 1");
    let reader = std::fs::File::open(place.file("log")).unwrap();
    assert!(place.order(Order::Promote, "log"));
    ask_again(session.file_table().find(place.key("log")).unwrap());
    actor.does("fdatasync a");
    let level_state = place.level_state(&session, "log").unwrap();
    assert_eq!((level_state.level, level_state.why), (Level::Pass, Reason::OpenElsewhere));
    drop(reader);
    place.promote(&session, &mut actor, 'a', "log");
}

#[test]
fn inherited_file_is_not_promoted() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::inheriting(&place);
    actor.does("inherit a 3; write a 10 1");
    assert!(!place.order(Order::Promote, "log"));
    ask_again(session.file_table().find(place.key("log")).unwrap());
    actor.does("fdatasync a");
    assert_eq!(place.level_state(&session, "log").unwrap().level, Level::Pass);
}

#[test]
fn file_is_promoted_after_a_write_in_flight() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::interruptible(&place);
    actor.does("open a log +c; write a 100 1");
    assert!(place.order(Order::Promote, "log"));
    // The handler's sync requests the promotion.
    actor.does("inside written sync a 80 2 0");
    let level_state = place.level_state(&session, "log").unwrap();
    assert_eq!((level_state.level, level_state.why), (Level::Pass, Reason::Busy));
    place.promote(&session, &mut actor, 'a', "log");
}

#[test]
fn write_beside_an_ended_vfork_child_prevents_promotion() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::interruptible(&place);
    actor.does("open a log +c; vfork_writes a 100 1");
    assert!(place.order(Order::Promote, "log"));
    actor.does("inside written sync a 80 2 0");
    let level_state = place.level_state(&session, "log").unwrap();
    assert_eq!((level_state.level, level_state.why), (Level::Pass, Reason::Busy));
}

#[test]
fn file_is_promoted_after_another_writer_was_killed_in_a_write() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut killed = Actor::interruptible(&place);
    killed.does("open a log +c; write a 100 1");
    killed.send("inside written stop a 80 2 0");
    killed.await_stopped();
    let entry = session.file_table().find(place.key("log")).unwrap();
    assert!(session.file_table().is_under_way(entry));
    killed.kill();
    assert!(!session.file_table().is_under_way(entry));
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log w");
    place.promote(&session, &mut actor, 'a', "log");
}

#[test]
fn file_of_a_writer_killed_in_a_write_is_promoted_to_the_next() {
    let place = place();
    let _daemon = place.daemon();
    let session = place.session();
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log wca; write a 100 1");
    // As left by a program killed inside a system call.
    session.file_table().find(place.key("log")).unwrap().resident_state().begin();
    assert!(place.order(Order::Promote, "log"));
    actor.does("fdatasync a");
    assert_eq!(place.level_state(&session, "log").unwrap().why, Reason::Busy);
    actor.kill();
    let mut actor = Actor::unwitnessed(&place);
    actor.does("open a log wca");
    place.promote(&session, &mut actor, 'a', "log");
}

/// Runs a call on a DAX-resident file and checks whether it is demoted then, with these bytes.
fn goes_below(flags: &str, lines: &str, left: impl FnOnce(&mut Vec<u8>)) {
    let mut dax = DaxProgram::with(flags);
    dax.actor.does("write a 60 2");
    dax.actor.does(lines);
    assert_eq!(dax.level(), Level::Pass, "{lines}");
    let mut wanted = [bytes(100, 1), bytes(60, 2)].concat();
    left(&mut wanted);
    assert!(dax.found() == wanted, "{lines}");
}

#[test]
fn asynchronous_sync_finds_the_demoted_file() {
    goes_below("+ce", "pwrite a 40 9 30; aio_fsync a", |all| all[30..70].copy_from_slice(&bytes(40, 9)));
}

#[test]
fn kernel_only_calls_find_the_demoted_file() {
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
fn parent_and_child_share_the_position_of_a_dax_file() {
    let mut dax = DaxProgram::with("+c");
    dax.actor.does("child write a 20 2; write a 20 3; child lseek a 0 0; write a 5 4");
    assert_eq!(dax.level(), Level::Dax);
    let all = [bytes(5, 4), bytes(100, 1)[5..].to_vec(), bytes(20, 2), bytes(20, 3)].concat();
    assert!(dax.found() == all);
}

#[test]
fn concurrent_writes_survive_promotions_and_demotions() {
    for flags in ["wca", "+c"] {
        let mut dax = DaxProgram::with(flags);
        let mut comes = 0;
        dax.actor.send("threads a 6000 0");
        for round in 0..rounds(60) {
            dax.session.file_table().entries().for_each(ask_again);
            let _ = dax.place.order(Order::Promote, "log");
            std::thread::sleep(Duration::from_millis(1));
            comes += u64::from(dax.level() == Level::Dax);
            match round % 2 {
                0 => drop(dax.place.order(Order::Drain, "log")),
                _ => drop(dax.found()),
            }
        }
        assert_eq!(dax.actor.answer(), "0");
        assert!(comes > 0, "it was never DAX-resident");
        assert_eq!(dax.found().len(), 100 + 8 * 4 * 6000, "{flags}");
    }
}

#[test]
fn appends_of_several_open_files_are_not_lost() {
    let mut dax = DaxProgram::with("wca");
    let mut other = Actor::unwitnessed(&dax.place);
    dax.actor.does("write a 10 2; fdatasync a");
    other.does("open a log wca; write a 10 3; fdatasync a");
    dax.actor.does("write a 10 4; fdatasync a");
    let all = [bytes(100, 1), bytes(10, 2), bytes(10, 3), bytes(10, 4)].concat();
    assert!(dax.found() == all);
}

#[test]
fn outgrown_dax_file_is_demoted_and_promoted_larger() {
    let mut dax = DaxProgram::with("wca");
    let mut all = bytes(100, 1);
    // A part of the region has eight places of 458,752 bytes: the second home has three of them.
    for seed in 0..24 {
        dax.actor.does(&format!("write a 80000 {seed}; fdatasync a"));
        all.extend(bytes(80_000, seed));
        if seed < 12 {
            dax.place.await_dax(&dax.session, &mut dax.actor, 'a', "log");
        }
    }
    assert!(dax.found() == all);
}

#[test]
fn move_to_a_larger_place_keeps_the_lease() {
    let mut place = Place::with_rings(env!("CARGO_TARGET_TMPDIR"), 64 << 10);
    place.options.region = place.options.region.replace("size=32M", "size=256M");
    let mut dax = DaxProgram::of(place, "wca");
    for _ in 0..4 {
        let room_bytes = dax.session.file_table().find(dax.place.key("log")).unwrap().ring().len_bytes;
        dax.actor.does(&format!("write a {room_bytes} 1; fdatasync a; write a 1 2; fdatasync a"));
        dax.place.await_dax(&dax.session, &mut dax.actor, 'a', "log");
        // Several of the daemon's checks of all resident files.
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(dax.level(), Level::Dax, "{:?}", dax.why());
    }
}

#[test]
fn ended_program_leaves_a_demoted_file() {
    let mut dax = DaxProgram::with("wca");
    dax.actor.does("write a 10 2");
    dax.actor.kill();
    let all = [bytes(100, 1), bytes(10, 2)].concat();
    assert!(dax.found() == all);
}

#[test]
fn handlers_write_inside_a_dax_write_loses_neither() {
    let mut dax = DaxProgram::with("wca");
    let handled = dax.actor.does("handler a 50000");
    assert!(handled > 0);
    assert_eq!(dax.level(), Level::Dax);
    assert_eq!(dax.found().len() as i64, 100 + 8 * (50_000 + handled));
}

/// The bytes that a loss of power would leave of `log`.
fn kept(place: &Place, session: &Session) -> Vec<u8> {
    let entry = session.file_table().find(place.key("log")).unwrap();
    let resident = ResidentFile::new(session.memory(), entry.ring()).unwrap();
    assert!(resident.is_live().unwrap());
    let mut all = vec![0; resident.kept_size().unwrap() as usize];
    resident.read(0, &mut all).unwrap();
    all
}

#[test]
fn dax_sync_keeps_acknowledged_bytes_and_no_more_in_the_size() {
    let mut dax = DaxProgram::with("wca");
    dax.actor.does("write a 10 2; fdatasync a; write a 10 3");
    let synced = [bytes(100, 1), bytes(10, 2)].concat();
    assert!(kept(&dax.place, &dax.session) == synced);
    dax.actor.does("fsync a");
    assert!(kept(&dax.place, &dax.session) == [synced, bytes(10, 3)].concat());
}

#[test]
fn sync_of_everything_keeps_dax_files() {
    let mut dax = DaxProgram::with("wca");
    let mut all = bytes(100, 1);
    let mut other = Actor::unwitnessed(&dax.place);
    for (round, sync) in ["sync", "syncfs b", "sys_syncfs b"].into_iter().enumerate() {
        dax.actor.does(&format!("write a 10 {round}"));
        other.does(&format!("open b other wc; {sync}; close b"));
        all.extend(bytes(10, round as u64));
        assert!(kept(&dax.place, &dax.session) == all, "{sync} by another program");
        dax.actor.does(&format!("write a 10 {round}; open b other wc; {sync}; close b"));
        all.extend(bytes(10, round as u64));
        assert!(kept(&dax.place, &dax.session) == all, "{sync} by its own program");
    }
    assert_eq!(dax.level(), Level::Dax);
}

#[test]
fn programs_without_the_library_find_and_leave_every_byte() {
    use std::io::Write;
    let mut dax = DaxProgram::with("wca");
    dax.actor.does("write a 20 2");
    File::options().append(true).open(dax.place.file("log")).unwrap().write_all(b"foreign").unwrap();
    let all = [bytes(100, 1), bytes(20, 2), b"foreign".to_vec()].concat();
    assert!(dax.found() == all);
    dax.place.promote(&dax.session, &mut dax.actor, 'a', "log");
    dax.actor.does("write a 20 3");
    File::options().write(true).truncate(true).open(dax.place.file("log")).unwrap();
    assert!(dax.found().is_empty());
    dax.actor.does("write a 20 4; fdatasync a");
    assert!(dax.found() == bytes(20, 4));
}

/// Two actors; one has its file at DAX at times.
struct Pair {
    dax: DaxProgram,
    plain: Actor,
    random: Random,
    reported: Vec<String>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let dax = DaxProgram::with("+c");
        let mut plain = dax.place.plain_actor();
        plain.does("open a log +c; write a 100 1");
        Self { dax, plain, random: Random::new(seed), reported: Vec::new() }
    }

    fn step(&mut self, line: &str) {
        self.reported.push(line.to_owned());
        let (served, plain) = (self.dax.actor.asked(line), self.plain.asked(line));
        assert_eq!(served, plain, "at DAX and without the library, after {:#?}", self.reported);
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
        let session = &self.dax.session;
        match self.random.below(8) {
            0 => drop(self.dax.place.order(Order::Evict, "log")),
            1 => drop(self.dax.place.order(Order::Drain, "log")),
            2 => drop(self.dax.place.order(Order::Unpin, "log")),
            3 => drop(self.dax.found()),
            _ => {
                session.file_table().entries().for_each(ask_again);
                let _ = self.dax.place.order(Order::Unpin, "log");
                let _ = self.dax.place.order(Order::Promote, "log");
                self.step("fdatasync a");
            }
        }
    }

    fn compare(&self) {
        let plain = std::fs::read(self.dax.place.path().join("plain/log")).unwrap();
        assert!(self.dax.found() == plain, "another file after {:#?}", self.reported);
    }
}

#[test]
fn random_calls_at_dax_match_those_without_the_library() {
    let mut promoted_files = 0;
    for seed in 0..rounds(6) {
        let mut pair = Pair::new(seed);
        for _ in 0..300 {
            let line = pair.line();
            pair.step(&line);
            if pair.random.one_in(12) {
                pair.flip();
            }
            promoted_files += u64::from(pair.dax.level() == Level::Dax);
            if pair.dax.level() == Level::Dax && line == "fdatasync a" {
                let kept = kept(&pair.dax.place, &pair.dax.session);
                let plain = std::fs::read(pair.dax.place.path().join("plain/log")).unwrap();
                assert!(kept == plain, "seed {seed}: not kept after {:#?}", pair.reported);
            }
        }
        pair.compare();
    }
    assert!(promoted_files > 100, "{promoted_files} calls at DAX");
}
