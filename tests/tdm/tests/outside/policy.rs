//! Which files of unmodified programs are absorbed, by what these do: minutes pass on a clock that is put on.

use std::time::{Duration, Instant};

use byway_tdm_daemon::{Daemon, FileReport, Promotion, Rules};
use byway_tdm_engine::client::Session;
use byway_tdm_engine::control::Order;
use byway_tdm_engine::table::{Counted, Level, LevelState, Reason};
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
struct Fixture {
    daemon: Daemon,
    actor: Actor,
    session: Session,
    place: Place,
}

impl Fixture {
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

    /// With promotion by measured benefit. The cost of moves must not depend on this machine's disk.
    fn with_resident_files() -> Self {
        let mut place = place();
        place.options.promotion = Promotion::ByBenefit;
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

    fn level_state(&self) -> LevelState {
        self.standing_of("log")
    }

    fn standing_of(&self, name: &str) -> LevelState {
        self.place.level_state(&self.session, name).unwrap()
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
            if self.level_state().level == level {
                return;
            }
            self.actor.does("write a 100 1; fdatasync a");
            self.pass(1);
        }
        panic!("{:?}, {:?}", self.level_state(), self.daemon.report());
    }

    fn burst(&mut self) {
        self.commits(4);
    }

    /// A burst that has the file absorbed. Where the disk is slow, commits are none, and syncs with nothing to keep are.
    fn absorbed(&mut self) {
        self.burst();
        self.place.absorb(&self.session, &mut self.actor, 'a', "log");
    }

    fn await_dax(&mut self) {
        self.place.await_dax(&self.session, &mut self.actor, 'a', "log");
    }

    fn commits(&mut self, times: u32) {
        self.commits_to('a', times);
    }

    fn commits_to(&mut self, slot: char, times: u32) {
        for _ in 0..times {
            self.actor.does(&format!("write {slot} 100 1; fdatasync {slot}"));
        }
    }

    /// Commits each second, which report their cost.
    fn measured_until(&mut self, level: Level) {
        for _ in 0..40 {
            if self.level_state().level == level {
                return;
            }
            self.commits(20);
            self.pass(1);
        }
        panic!("{:?}, {:?}", self.level_state(), self.daemon.report());
    }

    /// So many commits a second that what each of them costs counts, however little of a processor the program is given.
    fn busy_until(&mut self, level: Level) {
        for _ in 0..60 {
            if self.level_state().level == level {
                return;
            }
            self.actor.does("commits a reported 1 1000");
            self.pass(1);
        }
        panic!("{:?}, {:?}", self.level_state(), self.daemon.report());
    }

    fn idle_until(&self, level: Level) {
        for _ in 0..100 {
            if self.level_state().level == level {
                return;
            }
            self.pass(20);
        }
        panic!("{:?}, {:?}", self.level_state(), self.daemon.report());
    }

    /// The report on the file.
    fn reported(&self) -> FileReport {
        let inode = self.place.key("log").inode;
        let mut users = self.daemon.report().users;
        users[0].files.drain(..).find(|file| file.key[1] == inode).unwrap()
    }

    /// The report has the reason of the level.
    fn reports(&self, why: &str) {
        let reported = self.reported().judged;
        assert!(reported.iter().any(|line| line.contains(why)), "{reported:#?}");
    }

    fn reason(&self) -> String {
        let file = self.reported();
        file.reason.unwrap_or(file.why)
    }
}

#[test]
fn log_is_absorbed_at_its_third_sync_and_demoted_when_idle() {
    let mut fixture = Fixture::new("");
    fixture.absorbed();
    assert!(fixture.reason().starts_with("a log that begins: 3 syncs in "), "{}", fixture.reason());
    fixture.pass(1);
    fixture.pass(1);
    assert_eq!(fixture.level_state().level, Level::Absorb);
    fixture.idle_until(Level::Pass);
    assert_eq!(fixture.level_state().why, Reason::TooFewSyncs);
    fixture.reports("would have kept it");
}

#[test]
fn wanted_file_is_handed_over_by_its_next_sync() {
    let mut fixture = Fixture::new("");
    fixture.synced_each_second_until(Level::Absorb);
    assert!(fixture.reason().contains("more than its moves cost"), "{}", fixture.reason());
    fixture.actor.does("fdatasync a; write a 10 2; fdatasync a");
    let entry = fixture.session.file_table().find(fixture.place.key("log")).unwrap();
    assert!(entry.counters().get(Counted::SavedSyncs) > 0);
    assert_eq!(entry.counters().get(Counted::Wanted), 0);
}

#[test]
fn pinned_file_stays_until_unpinned() {
    let mut fixture = Fixture::new("");
    fixture.absorbed();
    assert!(fixture.place.order(Order::Pin, "log"));
    (0..20).for_each(|_| fixture.pass(60));
    assert_eq!(fixture.level_state().level, Level::Absorb);
    assert!(fixture.place.order(Order::Unpin, "log"));
    fixture.idle_until(Level::Pass);
}

#[test]
fn rule_never_keeps_matching_files_at_pass() {
    let mut fixture = Fixture::new("never **/log");
    for _ in 0..5 {
        fixture.burst();
        fixture.pass(1);
    }
    assert_eq!(fixture.level_state().level, Level::Pass);
    assert_eq!(fixture.reason(), "files of its path are kept out");
}

#[test]
fn rule_absorb_applies_at_the_second_sync() {
    let mut fixture = Fixture::new("absorb **/log");
    fixture.actor.does("write a 100 1; fdatasync a");
    fixture.pass(1);
    fixture.actor.does("fdatasync a");
    assert_eq!(fixture.level_state().level, Level::Absorb);
}

#[test]
fn file_with_free_syncs_stays_at_pass() {
    let mut fixture = Fixture::above(0, "");
    for _ in 0..15 {
        fixture.commits(20);
        fixture.pass(1);
    }
    assert_eq!(fixture.level_state().level, Level::Pass, "{}", fixture.reason());
}

#[test]
fn file_dearer_at_absorb_is_demoted_and_backs_off() {
    let mut fixture = Fixture::above(QUICK_NS, SLOW_DEVICE);
    fixture.absorbed();
    fixture.measured_until(Level::Pass);
    assert_eq!(fixture.level_state().why, Reason::Slower);
    fixture.reports("more than it would have below");
    fixture.burst();
    assert_eq!(fixture.level_state().level, Level::Pass, "{}", fixture.reason());
}

#[test]
fn pin_precedes_costs_until_unpinned() {
    let mut fixture = Fixture::above(QUICK_NS, SLOW_DEVICE);
    fixture.absorbed();
    assert!(fixture.place.order(Order::Pin, "log"));
    for _ in 0..12 {
        fixture.commits(20);
        fixture.pass(1);
    }
    assert_eq!(fixture.level_state().level, Level::Absorb);
    assert!(fixture.place.order(Order::Unpin, "log"));
    fixture.measured_until(Level::Pass);
    assert_eq!(fixture.level_state().why, Reason::Slower);
}

#[test]
fn files_of_one_program_are_evaluated_separately() {
    let mut fixture = Fixture::new("");
    fixture.actor.does("open b data +ce; open c once +ce; open d read +ce; write d 100 1");
    fixture.actor.does("write c 100 1; fdatasync c");
    for round in 0..20 {
        fixture.actor.does("write a 100 1; fdatasync a; write b 4096 2; lseek d 0 0; read d 100");
        if round % 4 == 0 {
            fixture.burst();
        }
        fixture.pass(1);
    }
    let level = |name| fixture.standing_of(name).level;
    assert_eq!(level("log"), Level::Absorb);
    assert_eq!(["data", "once", "read"].map(level), [Level::Pass; 3]);
}

#[test]
fn new_log_gets_the_room_of_removed_logs() {
    let mut fixture = Fixture::above(QUICK_NS, "");
    fixture.commits(1);
    for _ in 0..fixture.daemon.report().users[0].rings {
        fixture.actor.does("open b gone +ce");
        fixture.commits_to('b', 50);
        fixture.actor.does("close b; unlink gone");
    }
    (0..4).for_each(|_| fixture.pass(1));
    let files = fixture.daemon.report().users.swap_remove(0).files;
    let awaited = files.iter().filter(|file| file.judged.iter().any(|line| line.contains("on its way")));
    assert_eq!(awaited.count(), 0, "{files:#?}");
    fixture.absorbed();
}

#[test]
fn pin_outlives_its_daemon() {
    let fixture = Fixture::new("");
    let Fixture { place, daemon, mut actor, session } = fixture;
    actor.does("write a 100 1; fdatasync a");
    assert!(!place.order(Order::Pin, "log"));
    drop((daemon, session));
    let mut fixture = Fixture { daemon: place.daemon(), session: place.session(), place, actor };
    // No burst: only an order has it absorbed so soon.
    fixture.pass(1);
    fixture.pass(1);
    fixture.actor.does("fdatasync a");
    assert_eq!(fixture.level_state().level, Level::Absorb, "{}", fixture.reason());
    (0..20).for_each(|_| fixture.pass(60));
    assert_eq!(fixture.level_state().level, Level::Absorb);
}

#[test]
fn bulk_written_log_is_demoted_and_its_history_reported() {
    let mut fixture = Fixture::new("");
    fixture.absorbed();
    for _ in 0..60 {
        if fixture.level_state().level == Level::Pass {
            break;
        }
        for _ in 0..40 {
            fixture.actor.does("pwrite a 16384 3 0");
        }
        fixture.pass(1);
    }
    assert_eq!(fixture.level_state().level, Level::Pass, "{:?}", fixture.reported());
    let reported = fixture.reported().judged;
    assert!(reported.iter().any(|line| line.starts_with("before that ABSORB for ")), "{reported:#?}");
    assert!(reported.iter().any(|line| line.starts_with("before that PASS for ")), "{reported:#?}");
}

#[test]
fn rule_dax_promotes_matching_files() {
    let mut place = place();
    place.options.rules = Rules::parse("dax **/log").unwrap();
    let mut fixture = Fixture::of(place, Actor::unwitnessed);
    fixture.actor.does("write a 100 1; fdatasync a");
    fixture.pass(1);
    fixture.actor.does("fdatasync a; fdatasync a");
    fixture.await_dax();
    assert!(fixture.reported().is_pinned);
    assert!(fixture.place.order(Order::Prefetch, "log"));
}

#[test]
fn log_promoted_by_benefit_is_demoted_by_opens_and_returns() {
    let mut fixture = Fixture::with_resident_files();
    fixture.absorbed();
    fixture.busy_until(Level::Dax);
    assert!(fixture.reason().contains("more than its moves cost"), "{}", fixture.reason());
    let written = fixture.session.file_table().find(fixture.place.key("log")).unwrap().counters();
    let written_bytes = written.get(Counted::WrittenBytes);
    assert_eq!(std::fs::read(fixture.place.file("log")).unwrap().len() as u64, written_bytes);
    assert_eq!(fixture.level_state().level, Level::Pass);
    fixture.busy_until(Level::Absorb);
    fixture.busy_until(Level::Dax);
}

#[test]
fn file_promoted_by_benefit_moves_to_a_larger_place() {
    let mut fixture = Fixture::with_resident_files();
    fixture.absorbed();
    fixture.busy_until(Level::Dax);
    let place =
        |fixture: &Fixture| fixture.session.file_table().find(fixture.place.key("log")).unwrap().ring();
    let first = place(&fixture);
    fixture.actor.does(&format!("write a {} 1", first.len_bytes));
    fixture.commits(2);
    fixture.await_dax();
    assert!(place(&fixture).len_bytes > first.len_bytes);
}

#[test]
fn file_promoted_by_benefit_is_demoted_when_idle() {
    let mut fixture = Fixture::with_resident_files();
    fixture.absorbed();
    fixture.busy_until(Level::Dax);
    fixture.idle_until(Level::Pass);
    let written = fixture.session.file_table().find(fixture.place.key("log")).unwrap().counters();
    assert_eq!(
        std::fs::metadata(fixture.place.file("log")).unwrap().len(),
        written.get(Counted::WrittenBytes)
    );
}
