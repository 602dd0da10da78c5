//! Evaluation of made-up counters and times, on a clock of the test's own.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use byway_sys::Mapping;
use byway_tdm_engine::table::{FILE_TABLE_BYTES, FileKey, Timed};

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const LOG_BYTES: u64 = 1 << 20;

/// Logs that fit.
const ROOMS: u64 = 8;

/// Calls of a program in 100 ms, and their times.
#[derive(Debug, Clone, Copy)]
struct Load {
    syncs: u64,
    writes: u64,
    write_bytes: u64,
    lower_sync_ns: u64,
    level_sync_ns: u64,
    level_write_ns: u64,
}

/// A log on a disk.
const LOG: Load = Load {
    syncs: 10,
    writes: 10,
    write_bytes: 100,
    lower_sync_ns: 300_000,
    level_sync_ns: 600,
    level_write_ns: 200,
};

/// A shared file table, an evaluator and a clock.
struct Fixture {
    file_table: FileTable,
    evaluator: Evaluator,
    now_ns: u64,
    /// Size of each file.
    size_bytes: u64,
    left: Vec<Leave>,
}

impl Fixture {
    fn new(rules: &str) -> Self {
        Self::with_resident_files(0, rules)
    }

    /// With room for files promoted by measured benefit.
    fn with_resident_files(resident_bytes: u64, rules: &str) -> Self {
        let file_table = FileTable::make(Mapping::anonymous(FILE_TABLE_BYTES).unwrap()).unwrap();
        let rooms = Rooms { logs_bytes: ROOMS * LOG_BYTES, log_bytes: LOG_BYTES, resident_bytes };
        let evaluator = Evaluator::new(rooms, Rules::parse(rules).unwrap(), true);
        Self { file_table, evaluator, now_ns: 100 * SECOND, size_bytes: 1000, left: Vec::new() }
    }

    fn file(&self, inode: u64) -> Entry<'_> {
        self.file_table.find_or_make(FileKey { device: 1, inode, born_ns: 1 }).unwrap().unwrap()
    }

    fn level(&self, inode: u64) -> Level {
        self.file(inode).level()
    }

    fn is_wanted(&self, inode: u64) -> bool {
        self.file(inode).counters().get(Counted::Wanted) != 0
    }

    /// Runs a load in steps of 100 ms. The program hands its file over when it is wanted; then all files are evaluated.
    fn work(&mut self, inode: u64, load: Load, seconds: u64) {
        for _ in 0..10 * seconds {
            self.now_ns += 100 * MS;
            self.count(inode, load);
            if self.is_wanted(inode) {
                let _ = self.ask(inode);
            }
            if self.file(inode).resident_state().is_promotion_requested() && self.level(inode) != Level::Dax {
                self.promote_if_requested(inode, Ok(()));
            }
            self.look();
        }
    }

    fn count(&self, inode: u64, load: Load) {
        let entry = self.file(inode);
        let (counters, times) = (entry.counters(), entry.times());
        counters.add(Counted::Writes, load.writes);
        counters.add(Counted::WrittenBytes, load.writes * load.write_bytes);
        times.record(Timed::LowerWrite, 300);
        for at in 0..load.syncs {
            counters.synced_at(self.now_ns + at * MS);
            match self.level(inode) {
                Level::Pass => times.record(Timed::LowerSync, load.lower_sync_ns),
                _ => times.record(Timed::LevelSync, load.level_sync_ns),
            }
        }
        if self.level(inode) > Level::Pass {
            times.record(Timed::LevelWrite, load.level_write_ns);
            times.record(Timed::LowerSync, load.lower_sync_ns);
        }
    }

    /// A program asks, and the daemon does what the evaluator answers.
    fn ask(&mut self, inode: u64) -> Result<(), Reason> {
        let mut result = self.asked(inode);
        if result == Err(Reason::NoRoom) {
            let leaving = self.evaluator.begin_decided(self.now_ns, &self.file_table);
            self.all_leave(leaving);
            result = self.asked(inode);
        }
        let entry = self.file_table.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        self.evaluator.answered(self.now_ns, &entry, Level::Absorb, result);
        if result.is_ok() {
            entry.move_to(Level::Absorb, Reason::Earned);
        }
        result
    }

    fn asked(&mut self, inode: u64) -> Result<(), Reason> {
        let path = PathBuf::from(format!("/files/{inode}"));
        let entry = self.file_table.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        self.evaluator.asked(self.now_ns, &self.file_table, &entry, &path)
    }

    /// A program asks for the promotion of its file, with this result.
    fn promote_if_requested(&mut self, inode: u64, came: Result<(), Reason>) {
        let entry = self.file_table.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        let room_bytes = (2 * self.size_bytes).next_multiple_of(LOG_BYTES);
        let may_return = self.evaluator.may_return(entry.index(), room_bytes);
        let came = if may_return { came } else { Err(Reason::NoRoom) };
        if came.is_ok() {
            entry.move_to(Level::Dax, Reason::InDeviceMemory);
            entry.resident_words().begin(self.size_bytes);
        }
        self.evaluator.answered(self.now_ns, &entry, Level::Dax, came);
    }

    /// Demotes a DAX-resident file.
    fn goes_below(&mut self, inode: u64, why: Reason) {
        let entry = self.file_table.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        entry.move_to(Level::Pass, why);
        self.evaluator.note_demotion(self.now_ns, &entry, why);
    }

    fn look(&mut self) {
        let size_bytes = self.size_bytes;
        let leaving = self.evaluator.look(self.now_ns, &self.file_table, |_| Some(size_bytes));
        self.all_leave(leaving);
    }

    fn all_leave(&mut self, leaving: Vec<Leave>) {
        for end_residency in leaving {
            let entry = self.file_table.entry(end_residency.entry).unwrap();
            entry.move_to(Level::Pass, end_residency.why);
            self.evaluator.note_demotion(self.now_ns, &entry, end_residency.why);
            self.left.push(end_residency);
        }
    }

    fn whys(&self) -> Vec<Reason> {
        self.left.iter().map(|end_residency| end_residency.why).collect()
    }
}

#[test]
fn file_asking_in_a_burst_of_syncs_is_absorbed_at_once() {
    let mut fixture = Fixture::new("");
    fixture.look();
    fixture.now_ns += 20 * MS;
    fixture.count(1, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(fixture.ask(1), Ok(()));
    let reported = fixture.evaluator.explain(fixture.now_ns, fixture.file(1).index()).unwrap();
    assert!(reported.to_string().contains("a log that begins: 3 syncs in 2 ms"), "{reported}");
}

#[test]
fn file_evaluated_during_its_third_sync_is_absorbed_when_it_asks() {
    let mut fixture = Fixture::new("");
    fixture.look();
    fixture.now_ns += SECOND;
    fixture.count(1, Load { syncs: 3, writes: 3, ..LOG });
    fixture.now_ns += 3 * MS;
    fixture.look();
    fixture.now_ns += 3 * MS;
    assert_eq!(fixture.ask(1), Ok(()));
}

#[test]
fn steadily_synced_file_is_wanted_and_absorbed_when_handed_over() {
    let mut fixture = Fixture::new("");
    fixture.work(1, Load { syncs: 1, ..LOG }, 20);
    assert_eq!(fixture.level(1), Level::Absorb);
    assert!(!fixture.is_wanted(1));
}

#[test]
fn wanted_file_not_handed_over_is_dropped_and_wanted_again_later() {
    let mut fixture = Fixture::new("");
    let (mut wanted, mut times) = (false, 0);
    for _ in 0..600 {
        fixture.now_ns += 100 * MS;
        fixture.count(1, LOG);
        fixture.look();
        times += u64::from(fixture.is_wanted(1) && !wanted);
        wanted = fixture.is_wanted(1);
    }
    assert!((2..6).contains(&times), "{times}");
    assert_eq!(fixture.level(1), Level::Pass);
}

#[test]
fn new_log_gets_the_room_of_files_not_handed_over() {
    let mut fixture = Fixture::new("");
    let awaited = 1..=ROOMS;
    for _ in 0..30 {
        fixture.now_ns += 100 * MS;
        awaited.clone().for_each(|inode| fixture.count(inode, LOG));
        fixture.look();
    }
    assert!(awaited.clone().all(|inode| fixture.is_wanted(inode)));
    let first = ROOMS + 1;
    fixture.now_ns += 20 * MS;
    fixture.count(first, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(fixture.ask(first), Ok(()));
    // Files that are handed over late get the room left.
    fixture.now_ns += 20 * MS;
    let came = awaited.filter(|inode| fixture.ask(*inode).is_ok()).count() as u64;
    assert_eq!(came, ROOMS - 1);
}

#[test]
fn room_of_a_pinned_or_moving_file_is_not_reassigned() {
    let mut fixture = Fixture::new("absorb /files/1");
    for _ in 0..30 {
        fixture.now_ns += 100 * MS;
        (1..=ROOMS).for_each(|inode| fixture.count(inode, LOG));
        fixture.look();
    }
    assert!((1..=ROOMS).all(|inode| fixture.asked(inode).is_ok()));
    fixture.now_ns += 20 * MS;
    fixture.count(ROOMS + 1, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(fixture.ask(ROOMS + 1), Err(Reason::NoRoom));
}

#[test]
fn new_log_displaces_a_stopped_log_at_once() {
    let mut fixture = Fixture::new("");
    (1..=ROOMS).for_each(|inode| fixture.work(inode, Load { syncs: 6000, writes: 6000, ..LOG }, 3));
    assert!((1..=ROOMS).all(|inode| fixture.level(inode) == Level::Absorb));
    let late = ROOMS + 1;
    fixture.now_ns += 20 * MS;
    fixture.count(late, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(fixture.ask(late), Ok(()));
    assert_eq!(fixture.whys(), [Reason::Displaced]);
    let reported = fixture.evaluator.explain(fixture.now_ns, fixture.left[0].entry).unwrap().to_string();
    assert!(reported.contains("no program had used it for"), "{reported}");
}

#[test]
fn active_logs_are_not_displaced_by_an_equally_busy_new_log() {
    let mut fixture = Fixture::new("");
    let all_work = |fixture: &mut Fixture, seconds: u64| {
        for _ in 0..10 * seconds {
            fixture.now_ns += 100 * MS;
            for inode in 1..=ROOMS {
                fixture.count(inode, LOG);
                let _ = fixture.is_wanted(inode).then(|| fixture.ask(inode));
            }
            fixture.look();
        }
    };
    all_work(&mut fixture, 10);
    for _ in 0..100 {
        all_work(&mut fixture, 1);
        fixture.now_ns += 20 * MS;
        fixture.count(ROOMS + 1, LOG);
        assert_eq!(fixture.ask(ROOMS + 1), Err(Reason::NoRoom));
    }
    assert_eq!(fixture.whys(), []);
}

#[test]
fn closed_log_is_not_wanted() {
    let mut fixture = Fixture::new("");
    fixture.work(1, Load { syncs: 100, ..LOG }, 5);
    assert_eq!(fixture.level(1), Level::Absorb);
    fixture.goes_below(1, Reason::Unlinked);
    for _ in 0..600 {
        fixture.now_ns += 100 * MS;
        fixture.look();
        assert!(!fixture.is_wanted(1));
    }
}

#[test]
fn idle_file_is_demoted_in_minutes_and_absorbed_again_when_synced() {
    let mut fixture = Fixture::new("");
    fixture.work(1, LOG, 30);
    assert_eq!(fixture.level(1), Level::Absorb);
    fixture.work(1, Load { syncs: 0, writes: 0, ..LOG }, 5);
    assert_eq!(fixture.level(1), Level::Absorb);
    fixture.work(1, Load { syncs: 0, writes: 0, ..LOG }, 3600);
    assert_eq!((fixture.level(1), fixture.whys()), (Level::Pass, vec![Reason::TooFewSyncs]));
    fixture.work(1, LOG, 5);
    assert_eq!(fixture.level(1), Level::Absorb);
}

#[test]
fn file_with_free_syncs_is_never_absorbed() {
    let mut fixture = Fixture::new("");
    fixture.work(1, Load { lower_sync_ns: 90, ..LOG }, 60);
    assert_eq!((fixture.level(1), fixture.is_wanted(1)), (Level::Pass, false));
}

#[test]
fn file_slower_at_absorb_is_demoted_and_backs_off() {
    let mut fixture = Fixture::new("");
    fixture.work(1, LOG, 5);
    assert_eq!(fixture.level(1), Level::Absorb);
    let slow = Load { level_sync_ns: 900_000, ..LOG };
    fixture.work(1, slow, 4);
    assert_eq!((fixture.level(1), fixture.whys()), (Level::Pass, vec![Reason::Slower]));
    fixture.count(1, slow);
    assert_eq!(fixture.ask(1), Err(Reason::Slower));
    fixture.work(1, slow, 60);
    assert!(fixture.left.len() < 5, "{:?}", fixture.left);
}

#[test]
fn file_with_long_writes_between_syncs_is_never_absorbed() {
    let mut fixture = Fixture::new("");
    let mixed = Load { syncs: 1, writes: 64, write_bytes: 1 << 20, lower_sync_ns: 4 * MS, ..LOG };
    fixture.work(1, mixed, 60);
    assert_eq!((fixture.level(1), fixture.is_wanted(1)), (Level::Pass, false));
    (0..3).for_each(|_| fixture.count(1, mixed));
    assert_eq!(fixture.ask(1), Err(Reason::LongWrites));
}

#[test]
fn pinned_file_stays_and_excluded_file_stays_out() {
    let mut fixture = Fixture::new("");
    fixture.count(1, LOG);
    let index = fixture.file(1).index();
    let order = |fixture: &mut Fixture, order| {
        fixture.evaluator.order(fixture.now_ns, &fixture.file_table.entry(index).unwrap(), order);
    };
    order(&mut fixture, Some(Order::Pin(Level::Absorb)));
    assert_eq!(fixture.ask(1), Ok(()));
    fixture.work(1, Load { syncs: 0, writes: 0, ..LOG }, 3600);
    assert_eq!(fixture.level(1), Level::Absorb);
    order(&mut fixture, Some(Order::Never));
    fixture.work(1, LOG, 20);
    assert_eq!((fixture.level(1), fixture.whys()), (Level::Pass, vec![Reason::ByHand]));
    assert_eq!(fixture.ask(1), Err(Reason::ByHand));
}

#[test]
fn rule_applies_once_the_files_path_is_known() {
    let mut fixture = Fixture::new("never /files/1\nabsorb /files/2");
    fixture.work(1, LOG, 30);
    assert_eq!(fixture.level(1), Level::Pass);
    fixture.count(1, LOG);
    assert_eq!(fixture.ask(1), Err(Reason::Excluded));
    fixture.work(2, Load { syncs: 1, ..LOG }, 1);
    fixture.work(2, Load { syncs: 0, writes: 0, ..LOG }, 3600);
    assert_eq!(fixture.level(2), Level::Absorb);
}

/// A log worth promoting: a write and a sync take 1.2 µs at ABSORB.
const BUSY: Load = Load { syncs: 100, writes: 100, ..LOG };

/// The same load at DAX.
const IN_DEVICE_MEMORY: Load = Load { level_sync_ns: 300, level_write_ns: 150, ..BUSY };

#[test]
fn busy_absorbed_log_is_promoted_by_measured_benefit_and_stays() {
    let mut fixture = Fixture::with_resident_files(4 * LOG_BYTES, "");
    fixture.work(1, BUSY, 4);
    assert_eq!(fixture.level(1), Level::Absorb);
    fixture.work(1, BUSY, 20);
    assert_eq!(fixture.level(1), Level::Dax);
    fixture.work(1, IN_DEVICE_MEMORY, 600);
    assert_eq!((fixture.level(1), fixture.whys()), (Level::Dax, vec![]));
    let reported = fixture.evaluator.explain(fixture.now_ns, fixture.file(1).index()).unwrap().to_string();
    assert!(reported.contains("measured"), "{reported}");
}

#[test]
fn busy_log_is_not_promoted_when_promotion_is_by_pin() {
    let mut fixture = Fixture::new("");
    fixture.work(1, BUSY, 60);
    assert_eq!(
        (fixture.level(1), fixture.file(1).resident_state().is_promotion_requested()),
        (Level::Absorb, false)
    );
}

#[test]
fn file_slower_at_dax_is_demoted_and_absorbed_again() {
    let mut fixture = Fixture::with_resident_files(4 * LOG_BYTES, "");
    fixture.work(1, BUSY, 20);
    assert_eq!(fixture.level(1), Level::Dax);
    fixture.work(1, Load { level_write_ns: 5_000, ..BUSY }, 6);
    fixture.work(1, BUSY, 3);
    assert_eq!((fixture.level(1), fixture.whys()), (Level::Absorb, vec![Reason::Slower]));
}

#[test]
fn file_opened_elsewhere_is_promoted_again_later_each_time() {
    let mut fixture = Fixture::with_resident_files(4 * LOG_BYTES, "");
    let mut opened = 0;
    for _ in 0..600 {
        fixture.work(1, if fixture.level(1) == Level::Dax { IN_DEVICE_MEMORY } else { BUSY }, 1);
        if fixture.level(1) == Level::Dax {
            fixture.goes_below(1, Reason::OpenElsewhere);
            assert!(!fixture.file(1).resident_state().is_promotion_requested());
            opened += 1;
        }
    }
    assert!((2..12).contains(&opened), "{opened}");
}

#[test]
fn outgrown_file_gets_a_larger_place_or_is_absorbed() {
    let mut fixture = Fixture::with_resident_files(4 * LOG_BYTES, "");
    fixture.work(1, BUSY, 20);
    assert_eq!(fixture.level(1), Level::Dax);
    fixture.size_bytes = LOG_BYTES;
    fixture.goes_below(1, Reason::Outgrown);
    assert!(fixture.file(1).resident_state().is_promotion_requested());
    fixture.work(1, IN_DEVICE_MEMORY, 1);
    assert_eq!(fixture.level(1), Level::Dax);
    fixture.size_bytes = 5 * LOG_BYTES;
    fixture.goes_below(1, Reason::Outgrown);
    fixture.work(1, BUSY, 10);
    assert_eq!(fixture.level(1), Level::Absorb);
}

#[test]
fn failed_promotion_is_retried_later_and_file_absorbed_meanwhile() {
    let mut fixture = Fixture::with_resident_files(4 * LOG_BYTES, "");
    fixture.work(1, BUSY, 4);
    for _ in 0..200 {
        fixture.now_ns += 100 * MS;
        fixture.count(1, BUSY);
        fixture.look();
        if fixture.file(1).resident_state().is_promotion_requested() {
            break;
        }
    }
    assert_eq!(
        (fixture.level(1), fixture.file(1).resident_state().is_promotion_requested()),
        (Level::Absorb, true)
    );
    fixture.promote_if_requested(1, Err(Reason::OpenElsewhere));
    assert!(!fixture.file(1).resident_state().is_promotion_requested());
    fixture.work(1, BUSY, 2);
    assert_eq!(fixture.level(1), Level::Absorb);
    fixture.work(1, BUSY, 10);
    assert_eq!(fixture.level(1), Level::Dax);
}

#[test]
fn unlinked_logs_hold_no_room_against_new_ones() {
    let mut fixture = Fixture::new("");
    fixture.look();
    for inode in 1..=40 {
        fixture.now_ns += 100 * MS;
        fixture.count(inode, Load { syncs: 50, writes: 50, ..LOG });
        assert_eq!(fixture.ask(inode), Ok(()), "log {inode}");
        fixture.now_ns += 100 * MS;
        fixture.count(inode, Load { syncs: 50, writes: 50, ..LOG });
        fixture.look();
        fixture.goes_below(inode, Reason::Unlinked);
        assert!((1..=inode).all(|gone| !fixture.is_wanted(gone)), "by log {inode}");
    }
}
