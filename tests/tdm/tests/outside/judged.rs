//! Which files of unmodified programs are absorbed, by what these do: minutes pass on a clock that is put on.

use std::time::{Duration, Instant};

use byway_tdm_daemon::{Daemon, FileReport, Homing, Rules};
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::{Counted, Level, Standing, Why};
use byway_tdm_tests::{Actor, Place};

use crate::place;

/// A device whose fence takes longer than any sync.
const SLOW_DEVICE: &str = "&profile=cmm-h&cache=8M&clock=paced&hit=10000000";

/// A sync below that is dearer than a fence is taken to be, and far cheaper than that device's.
const QUICK_NS: u64 = 100_000;

/// Ends of waits that nothing should reach.
const LONG: Duration = Duration::from_secs(30);

/// Rounds in which a daemon does what time has brought: the first may have begun before.
const ROUNDS: u64 = 2;

/// A program that has a file `log` open as `a`, and a daemon whose clock can be put on.
struct Court {
    daemon: Daemon,
    actor: Actor,
    session: Session,
    place: Place,
}

impl Court {
    fn new(rules: &str) -> Self {
        let mut place = place();
        place.options.rules = Rules::parse(rules).unwrap();
        Self::of(place, Place::actor)
    }

    /// Above a file system of which a sync takes so long.
    fn above(below_ns: u64, device: &str) -> Self {
        let mut place = place();
        place.options.region.push_str(device);
        Self::of(place, |place| Actor::above(place, below_ns))
    }

    /// Where device memory is a file's home by merit: what moves cost, two syncs among it, is not this machine's disk's to say.
    fn with_homes() -> Self {
        let mut place = place();
        place.options.homing = Homing::ByMerit;
        place.options.region = place.options.region.replace("size=32M", "size=256M");
        Self::of(place, |place| Actor::above(place, QUICK_NS))
    }

    fn of(place: Place, actor: impl FnOnce(&Place) -> Actor) -> Self {
        let daemon = place.daemon();
        let session = place.session();
        let mut actor = actor(&place);
        actor.does("open a log +ce");
        Self { place, session, actor, daemon }
    }

    fn standing(&self) -> Standing {
        self.standing_of("log")
    }

    fn standing_of(&self, name: &str) -> Standing {
        self.place.standing(&self.session, name).unwrap()
    }

    /// Some time on the daemon's clock, and several rounds of it that see that; three syncs with this between them are no burst.
    fn pass(&self, seconds: u64) {
        let clock = &self.place.options.clock;
        clock.advance(Duration::from_secs(seconds));
        std::thread::sleep(Duration::from_millis(60));
        let (seen, end) = (clock.rounds() + ROUNDS, Instant::now() + LONG);
        while clock.rounds() < seen {
            assert!(Instant::now() < end, "the daemon judges no more");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A sync each second, until the file is at a level; not for ever.
    fn synced_each_second_until(&mut self, level: Level) {
        for _ in 0..100 {
            if self.standing().level == level {
                return;
            }
            self.actor.does("write a 100 1; fdatasync a");
            self.pass(1);
        }
        panic!("{:?}, {:?}", self.standing(), self.daemon.report());
    }

    fn burst(&mut self) {
        self.commits(4);
    }

    /// A burst that has the file absorbed. Where the disk is slow, commits are none, and syncs with nothing to keep are.
    fn absorbed(&mut self) {
        self.burst();
        self.place.absorb(&self.session, &mut self.actor, 'a', "log");
    }

    fn await_home(&mut self) {
        self.place.await_home(&self.session, &mut self.actor, 'a', "log");
    }

    fn commits(&mut self, times: u32) {
        self.commits_to('a', times);
    }

    fn commits_to(&mut self, slot: char, times: u32) {
        for _ in 0..times {
            self.actor.does(&format!("write {slot} 100 1; fdatasync {slot}"));
        }
    }

    /// Commits each second that tell what they cost.
    fn measured_until(&mut self, level: Level) {
        for _ in 0..40 {
            if self.standing().level == level {
                return;
            }
            self.commits(20);
            self.pass(1);
        }
        panic!("{:?}, {:?}", self.standing(), self.daemon.report());
    }

    /// So many commits a second that what each of them costs counts, however little of a processor the program is given.
    fn busy_until(&mut self, level: Level) {
        for _ in 0..60 {
            if self.standing().level == level {
                return;
            }
            self.actor.does("commits a told 1 1000");
            self.pass(1);
        }
        panic!("{:?}, {:?}", self.standing(), self.daemon.report());
    }

    fn idle_until(&self, level: Level) {
        for _ in 0..100 {
            if self.standing().level == level {
                return;
            }
            self.pass(20);
        }
        panic!("{:?}, {:?}", self.standing(), self.daemon.report());
    }

    /// What is told of the file.
    fn told(&self) -> FileReport {
        let inode = self.place.key("log").inode;
        let mut users = self.daemon.report().users;
        users[0].files.drain(..).find(|file| file.key[1] == inode).unwrap()
    }

    /// Among what is told is why it is where it is, whatever has kept it there since.
    fn is_told_of(&self, why: &str) {
        let told = self.told().judged;
        assert!(told.iter().any(|line| line.contains(why)), "{told:#?}");
    }

    fn reason(&self) -> String {
        let file = self.told();
        file.reason.unwrap_or(file.why)
    }
}

#[test]
fn a_log_is_absorbed_at_its_third_sync_and_let_go_when_it_has_not_been_synced_for_some_time() {
    let mut court = Court::new("");
    court.absorbed();
    assert!(court.reason().starts_with("a log that begins: 3 syncs in "), "{}", court.reason());
    court.pass(1);
    court.pass(1);
    assert_eq!(court.standing().level, Level::Absorb);
    court.idle_until(Level::Pass);
    assert_eq!(court.standing().why, Why::TooFewSyncs);
    court.is_told_of("would have kept it");
}

#[test]
fn a_file_that_is_synced_once_a_second_is_handed_over_by_the_sync_behind_the_decision() {
    let mut court = Court::new("");
    court.synced_each_second_until(Level::Absorb);
    assert!(court.reason().contains("more than its moves cost"), "{}", court.reason());
    court.actor.does("fdatasync a; write a 10 2; fdatasync a");
    let entry = court.session.board().find(court.place.key("log")).unwrap();
    assert!(entry.counters().get(Counted::SavedSyncs) > 0);
    assert_eq!(entry.counters().get(Counted::Wanted), 0);
}

#[test]
fn a_pinned_file_stays_where_it_is_and_is_the_policy_s_again_when_that_is_taken_back() {
    let mut court = Court::new("");
    court.absorbed();
    assert!(court.place.order(Order::Pin, "log"));
    (0..20).for_each(|_| court.pass(60));
    assert_eq!(court.standing().level, Level::Absorb);
    assert!(court.place.order(Order::Unpin, "log"));
    court.idle_until(Level::Pass);
}

#[test]
fn a_rule_keeps_files_of_its_path_out_however_often_they_are_synced() {
    let mut court = Court::new("never **/log");
    for _ in 0..5 {
        court.burst();
        court.pass(1);
    }
    assert_eq!(court.standing().level, Level::Pass);
    assert_eq!(court.reason(), "files of its path are kept out");
}

#[test]
fn a_rule_has_files_of_its_path_absorbed_at_the_sync_behind_their_first() {
    let mut court = Court::new("absorb **/log");
    court.actor.does("write a 100 1; fdatasync a");
    court.pass(1);
    court.actor.does("fdatasync a");
    assert_eq!(court.standing().level, Level::Absorb);
}

#[test]
fn a_file_whose_syncs_cost_nothing_below_is_left_to_the_kernel_however_often_it_is_synced() {
    let mut court = Court::above(0, "");
    for _ in 0..15 {
        court.commits(20);
        court.pass(1);
    }
    assert_eq!(court.standing().level, Level::Pass, "{}", court.reason());
}

#[test]
fn a_file_that_is_dearer_absorbed_than_below_is_let_go_and_not_tried_again_before_its_time() {
    let mut court = Court::above(QUICK_NS, SLOW_DEVICE);
    court.absorbed();
    court.measured_until(Level::Pass);
    assert_eq!(court.standing().why, Why::Slower);
    court.is_told_of("more than it would have below");
    court.burst();
    assert_eq!(court.standing().level, Level::Pass, "{}", court.reason());
}

#[test]
fn a_pin_stands_above_what_a_file_costs_and_the_policy_lets_it_go_when_that_is_taken_back() {
    let mut court = Court::above(QUICK_NS, SLOW_DEVICE);
    court.absorbed();
    assert!(court.place.order(Order::Pin, "log"));
    for _ in 0..12 {
        court.commits(20);
        court.pass(1);
    }
    assert_eq!(court.standing().level, Level::Absorb);
    assert!(court.place.order(Order::Unpin, "log"));
    court.measured_until(Level::Pass);
    assert_eq!(court.standing().why, Why::Slower);
}

#[test]
fn files_of_one_program_are_judged_each_by_what_is_done_with_it() {
    let mut court = Court::new("");
    court.actor.does("open b data +ce; open c once +ce; open d read +ce; write d 100 1");
    court.actor.does("write c 100 1; fdatasync c");
    for round in 0..20 {
        court.actor.does("write a 100 1; fdatasync a; write b 4096 2; lseek d 0 0; read d 100");
        if round % 4 == 0 {
            court.burst();
        }
        court.pass(1);
    }
    let level = |name| court.standing_of(name).level;
    assert_eq!(level("log"), Level::Absorb);
    assert_eq!(["data", "once", "read"].map(level), [Level::Pass; 3]);
}

#[test]
fn no_room_is_kept_for_busy_logs_that_were_closed_and_taken_away_and_one_that_begins_has_it() {
    let mut court = Court::above(QUICK_NS, "");
    court.commits(1);
    for _ in 0..court.daemon.report().users[0].rings {
        court.actor.does("open b gone +ce");
        court.commits_to('b', 50);
        court.actor.does("close b; unlink gone");
    }
    (0..4).for_each(|_| court.pass(1));
    let files = court.daemon.report().users.swap_remove(0).files;
    let awaited = files.iter().filter(|file| file.judged.iter().any(|line| line.contains("on its way")));
    assert_eq!(awaited.count(), 0, "{files:#?}");
    court.absorbed();
}

#[test]
fn a_pin_outlives_the_daemon_that_was_told_of_it() {
    let court = Court::new("");
    let Court { place, daemon, mut actor, session } = court;
    actor.does("write a 100 1; fdatasync a");
    assert!(!place.order(Order::Pin, "log"));
    drop((daemon, session));
    let mut court = Court { daemon: place.daemon(), session: place.session(), place, actor };
    // No burst: only an order has it absorbed so soon.
    court.pass(1);
    court.pass(1);
    court.actor.does("fdatasync a");
    assert_eq!(court.standing().level, Level::Absorb, "{}", court.reason());
    (0..20).for_each(|_| court.pass(60));
    assert_eq!(court.standing().level, Level::Absorb);
}

#[test]
fn an_absorbed_log_that_is_written_in_bulk_and_synced_no_more_is_let_go_and_its_past_is_told() {
    let mut court = Court::new("");
    court.absorbed();
    for _ in 0..60 {
        if court.standing().level == Level::Pass {
            break;
        }
        for _ in 0..40 {
            court.actor.does("pwrite a 16384 3 0");
        }
        court.pass(1);
    }
    assert_eq!(court.standing().level, Level::Pass, "{:?}", court.told());
    let told = court.told().judged;
    assert!(told.iter().any(|line| line.starts_with("before that ABSORB for ")), "{told:#?}");
    assert!(told.iter().any(|line| line.starts_with("before that PASS for ")), "{told:#?}");
}

#[test]
fn a_rule_brings_files_of_its_path_home_to_device_memory_by_the_syncs_behind_their_first() {
    let mut place = place();
    place.options.rules = Rules::parse("dax **/log").unwrap();
    let mut court = Court::of(place, Actor::unwitnessed);
    court.actor.does("write a 100 1; fdatasync a");
    court.pass(1);
    court.actor.does("fdatasync a; fdatasync a");
    court.await_home();
    assert!(court.told().is_pinned);
    assert!(court.place.order(Order::Prefetch, "log"));
}

#[test]
fn a_busy_log_comes_home_by_merit_and_whoever_opens_it_finds_all_of_it_and_it_comes_again() {
    let mut court = Court::with_homes();
    court.absorbed();
    court.busy_until(Level::Dax);
    assert!(court.reason().contains("more than its moves cost"), "{}", court.reason());
    let written = court.session.board().find(court.place.key("log")).unwrap().counters();
    let written_bytes = written.get(Counted::WrittenBytes);
    assert_eq!(std::fs::read(court.place.file("log")).unwrap().len() as u64, written_bytes);
    assert_eq!(court.standing().level, Level::Pass);
    court.busy_until(Level::Absorb);
    court.busy_until(Level::Dax);
}

#[test]
fn a_file_that_outgrows_the_home_it_has_by_merit_comes_to_a_larger_one() {
    let mut court = Court::with_homes();
    court.absorbed();
    court.busy_until(Level::Dax);
    let place = |court: &Court| court.session.board().find(court.place.key("log")).unwrap().ring();
    let first = place(&court);
    court.actor.does(&format!("write a {} 1", first.len_bytes));
    court.commits(2);
    court.await_home();
    assert!(place(&court).len_bytes > first.len_bytes);
}

#[test]
fn a_file_that_is_at_home_by_merit_is_let_go_when_it_has_not_been_written_for_some_time() {
    let mut court = Court::with_homes();
    court.absorbed();
    court.busy_until(Level::Dax);
    court.idle_until(Level::Pass);
    let written = court.session.board().find(court.place.key("log")).unwrap().counters();
    assert_eq!(std::fs::metadata(court.place.file("log")).unwrap().len(), written.get(Counted::WrittenBytes));
}
