//! Made-up counters and times, and a clock that nobody waits for.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use byway_sys::Mapping;
use byway_tdm_engine::table::{BOARD_BYTES, FileKey};

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const LOG_BYTES: u64 = 1 << 20;

/// Logs that have room.
const ROOMS: u64 = 8;

/// What a program does with a file in a tenth of a second, and what that takes.
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

/// A board, a judge, and a clock of our own.
struct Court {
    board: Board,
    judge: Judge,
    now_ns: u64,
    /// Of each file.
    size_bytes: u64,
    left: Vec<Leave>,
}

impl Court {
    fn new(rules: &str) -> Self {
        Self::with_homes(0, rules)
    }

    /// With room for homes by merit.
    fn with_homes(homes_bytes: u64, rules: &str) -> Self {
        let board = Board::make(Mapping::anonymous(BOARD_BYTES).unwrap()).unwrap();
        let rooms = Rooms { logs_bytes: ROOMS * LOG_BYTES, log_bytes: LOG_BYTES, homes_bytes };
        let judge = Judge::new(rooms, Rules::parse(rules).unwrap(), true);
        Self { board, judge, now_ns: 100 * SECOND, size_bytes: 1000, left: Vec::new() }
    }

    fn file(&self, inode: u64) -> Entry<'_> {
        self.board.find_or_make(FileKey { device: 1, inode, born_ns: 1 }).unwrap().unwrap()
    }

    fn level(&self, inode: u64) -> Level {
        self.file(inode).standing().level
    }

    fn is_wanted(&self, inode: u64) -> bool {
        self.file(inode).counters().get(Counted::Wanted) != 0
    }

    /// A tenth of a second of a load, which its program hands over where the board asks for it; then a look.
    fn work(&mut self, inode: u64, load: Load, seconds: u64) {
        for _ in 0..10 * seconds {
            self.now_ns += 100 * MS;
            self.count(inode, load);
            if self.is_wanted(inode) {
                let _ = self.ask(inode);
            }
            if self.file(inode).housed().is_wished() && self.level(inode) != Level::Dax {
                self.come_home(inode, Ok(()));
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

    /// A program asks, and the daemon does what is said.
    fn ask(&mut self, inode: u64) -> Result<(), Why> {
        let mut result = self.asked(inode);
        if result == Err(Why::NoRoom) {
            let leaving = self.judge.begin_decided(self.now_ns, &self.board);
            self.all_leave(leaving);
            result = self.asked(inode);
        }
        let entry = self.board.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        self.judge.answered(self.now_ns, &entry, Level::Absorb, result);
        if result.is_ok() {
            entry.move_to(Level::Absorb, Why::Earned);
        }
        result
    }

    fn asked(&mut self, inode: u64) -> Result<(), Why> {
        let path = PathBuf::from(format!("/files/{inode}"));
        let entry = self.board.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        self.judge.asked(self.now_ns, &self.board, &entry, &path)
    }

    /// A program asks for its file to come home, which comes to that.
    fn come_home(&mut self, inode: u64, came: Result<(), Why>) {
        let entry = self.board.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        let room_bytes = (2 * self.size_bytes).next_multiple_of(LOG_BYTES);
        let may_return = self.judge.may_return(entry.index(), room_bytes);
        let came = if may_return { came } else { Err(Why::NoRoom) };
        if came.is_ok() {
            entry.move_to(Level::Dax, Why::LevelIsHome);
            entry.home_words().begin(self.size_bytes);
        }
        self.judge.answered(self.now_ns, &entry, Level::Dax, came);
    }

    /// A file is at home no more.
    fn goes_below(&mut self, inode: u64, why: Why) {
        let entry = self.board.find(FileKey { device: 1, inode, born_ns: 1 }).unwrap();
        entry.move_to(Level::Pass, why);
        self.judge.left(self.now_ns, &entry, why);
    }

    fn look(&mut self) {
        let size_bytes = self.size_bytes;
        let leaving = self.judge.look(self.now_ns, &self.board, |_| Some(size_bytes));
        self.all_leave(leaving);
    }

    fn all_leave(&mut self, leaving: Vec<Leave>) {
        for leave in leaving {
            let entry = self.board.entry(leave.entry).unwrap();
            entry.move_to(Level::Pass, leave.why);
            self.judge.left(self.now_ns, &entry, leave.why);
            self.left.push(leave);
        }
    }

    fn whys(&self) -> Vec<Why> {
        self.left.iter().map(|leave| leave.why).collect()
    }
}

#[test]
fn a_file_that_asks_in_a_burst_of_syncs_is_absorbed_there_and_then() {
    let mut court = Court::new("");
    court.look();
    court.now_ns += 20 * MS;
    court.count(1, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(court.ask(1), Ok(()));
    let told = court.judge.explain(court.now_ns, court.file(1).index()).unwrap();
    assert!(told.to_string().contains("a log that begins: 3 syncs in 2 ms"), "{told}");
}

#[test]
fn a_file_that_is_synced_steadily_and_never_asks_is_wanted_and_absorbed_once_it_is_handed_over() {
    let mut court = Court::new("");
    court.work(1, Load { syncs: 1, ..LOG }, 20);
    assert_eq!(court.level(1), Level::Absorb);
    assert!(!court.is_wanted(1));
}

#[test]
fn a_file_that_nobody_hands_over_is_not_wanted_for_ever_and_wanted_again_later() {
    let mut court = Court::new("");
    let (mut wanted, mut times) = (false, 0);
    for _ in 0..600 {
        court.now_ns += 100 * MS;
        court.count(1, LOG);
        court.look();
        times += u64::from(court.is_wanted(1) && !wanted);
        wanted = court.is_wanted(1);
    }
    assert!((2..6).contains(&times), "{times}");
    assert_eq!(court.level(1), Level::Pass);
}

#[test]
fn a_log_that_begins_has_the_room_that_is_kept_for_files_which_nobody_hands_over() {
    let mut court = Court::new("");
    let awaited = 1..=ROOMS;
    for _ in 0..30 {
        court.now_ns += 100 * MS;
        awaited.clone().for_each(|inode| court.count(inode, LOG));
        court.look();
    }
    assert!(awaited.clone().all(|inode| court.is_wanted(inode)));
    let first = ROOMS + 1;
    court.now_ns += 20 * MS;
    court.count(first, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(court.ask(first), Ok(()));
    // Those that are handed over all the same have what is left.
    court.now_ns += 20 * MS;
    let came = awaited.filter(|inode| court.ask(*inode).is_ok()).count() as u64;
    assert_eq!(came, ROOMS - 1);
}

#[test]
fn room_that_is_kept_for_a_file_by_order_or_that_is_being_absorbed_is_no_other_s() {
    let mut court = Court::new("absorb /files/1");
    for _ in 0..30 {
        court.now_ns += 100 * MS;
        (1..=ROOMS).for_each(|inode| court.count(inode, LOG));
        court.look();
    }
    assert!((1..=ROOMS).all(|inode| court.asked(inode).is_ok()));
    court.now_ns += 20 * MS;
    court.count(ROOMS + 1, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(court.ask(ROOMS + 1), Err(Why::NoRoom));
}

#[test]
fn a_log_that_begins_has_the_room_of_one_that_has_stopped_at_once_however_busy_that_was() {
    let mut court = Court::new("");
    (1..=ROOMS).for_each(|inode| court.work(inode, Load { syncs: 6000, writes: 6000, ..LOG }, 3));
    assert!((1..=ROOMS).all(|inode| court.level(inode) == Level::Absorb));
    let late = ROOMS + 1;
    court.now_ns += 20 * MS;
    court.count(late, Load { syncs: 3, writes: 3, ..LOG });
    assert_eq!(court.ask(late), Ok(()));
    assert_eq!(court.whys(), [Why::Displaced]);
    let told = court.judge.explain(court.now_ns, court.left[0].entry).unwrap().to_string();
    assert!(told.contains("nobody had used it for"), "{told}");
}

#[test]
fn logs_that_are_written_keep_their_room_from_one_that_begins_as_busy() {
    let mut court = Court::new("");
    let all_work = |court: &mut Court, seconds: u64| {
        for _ in 0..10 * seconds {
            court.now_ns += 100 * MS;
            for inode in 1..=ROOMS {
                court.count(inode, LOG);
                let _ = court.is_wanted(inode).then(|| court.ask(inode));
            }
            court.look();
        }
    };
    all_work(&mut court, 10);
    for _ in 0..100 {
        all_work(&mut court, 1);
        court.now_ns += 20 * MS;
        court.count(ROOMS + 1, LOG);
        assert_eq!(court.ask(ROOMS + 1), Err(Why::NoRoom));
    }
    assert_eq!(court.whys(), []);
}

#[test]
fn a_log_that_was_closed_is_wanted_no_more_however_busy_it_was() {
    let mut court = Court::new("");
    court.work(1, Load { syncs: 100, ..LOG }, 5);
    assert_eq!(court.level(1), Level::Absorb);
    court.goes_below(1, Why::Unlinked);
    for _ in 0..600 {
        court.now_ns += 100 * MS;
        court.look();
        assert!(!court.is_wanted(1));
    }
}

#[test]
fn a_file_that_is_synced_no_more_is_let_go_in_some_minutes_and_absorbed_again_when_it_is() {
    let mut court = Court::new("");
    court.work(1, LOG, 30);
    assert_eq!(court.level(1), Level::Absorb);
    court.work(1, Load { syncs: 0, writes: 0, ..LOG }, 5);
    assert_eq!(court.level(1), Level::Absorb);
    court.work(1, Load { syncs: 0, writes: 0, ..LOG }, 3600);
    assert_eq!((court.level(1), court.whys()), (Level::Pass, vec![Why::TooFewSyncs]));
    court.work(1, LOG, 5);
    assert_eq!(court.level(1), Level::Absorb);
}

#[test]
fn a_file_of_which_a_sync_costs_nothing_below_is_never_absorbed() {
    let mut court = Court::new("");
    court.work(1, Load { lower_sync_ns: 90, ..LOG }, 60);
    assert_eq!((court.level(1), court.is_wanted(1)), (Level::Pass, false));
}

#[test]
fn a_file_that_is_slower_absorbed_than_below_is_let_go_and_not_tried_again_soon() {
    let mut court = Court::new("");
    court.work(1, LOG, 5);
    assert_eq!(court.level(1), Level::Absorb);
    let slow = Load { level_sync_ns: 900_000, ..LOG };
    court.work(1, slow, 4);
    assert_eq!((court.level(1), court.whys()), (Level::Pass, vec![Why::Slower]));
    court.count(1, slow);
    assert_eq!(court.ask(1), Err(Why::Slower));
    court.work(1, slow, 60);
    assert!(court.left.len() < 5, "{:?}", court.left);
}

#[test]
fn long_writes_between_few_syncs_are_never_absorbed() {
    let mut court = Court::new("");
    let mixed = Load { syncs: 1, writes: 64, write_bytes: 1 << 20, lower_sync_ns: 4 * MS, ..LOG };
    court.work(1, mixed, 60);
    assert_eq!((court.level(1), court.is_wanted(1)), (Level::Pass, false));
    (0..3).for_each(|_| court.count(1, mixed));
    assert_eq!(court.ask(1), Err(Why::LongWrites));
}

#[test]
fn a_pinned_file_stays_however_seldom_it_is_synced_and_one_that_is_kept_out_stays_out() {
    let mut court = Court::new("");
    court.count(1, LOG);
    let index = court.file(1).index();
    let order = |court: &mut Court, order| {
        court.judge.order(court.now_ns, &court.board.entry(index).unwrap(), order);
    };
    order(&mut court, Some(Order::Pin(Level::Absorb)));
    assert_eq!(court.ask(1), Ok(()));
    court.work(1, Load { syncs: 0, writes: 0, ..LOG }, 3600);
    assert_eq!(court.level(1), Level::Absorb);
    order(&mut court, Some(Order::Never));
    court.work(1, LOG, 20);
    assert_eq!((court.level(1), court.whys()), (Level::Pass, vec![Why::ByHand]));
    assert_eq!(court.ask(1), Err(Why::ByHand));
}

#[test]
fn rules_hold_for_files_as_soon_as_their_names_are_told() {
    let mut court = Court::new("never /files/1\nabsorb /files/2");
    court.work(1, LOG, 30);
    assert_eq!(court.level(1), Level::Pass);
    court.count(1, LOG);
    assert_eq!(court.ask(1), Err(Why::Excluded));
    court.work(2, Load { syncs: 1, ..LOG }, 1);
    court.work(2, Load { syncs: 0, writes: 0, ..LOG }, 3600);
    assert_eq!(court.level(2), Level::Absorb);
}

/// A log that is worth a home: absorbed, a write and a sync take 1.2 µs together.
const BUSY: Load = Load { syncs: 100, writes: 100, ..LOG };

/// The same at home.
const AT_HOME: Load = Load { level_sync_ns: 300, level_write_ns: 150, ..BUSY };

#[test]
fn a_busy_log_comes_home_by_merit_alone_once_it_was_absorbed_and_stays() {
    let mut court = Court::with_homes(4 * LOG_BYTES, "");
    court.work(1, BUSY, 4);
    assert_eq!(court.level(1), Level::Absorb);
    court.work(1, BUSY, 20);
    assert_eq!(court.level(1), Level::Dax);
    court.work(1, AT_HOME, 600);
    assert_eq!((court.level(1), court.whys()), (Level::Dax, vec![]));
    let told = court.judge.explain(court.now_ns, court.file(1).index()).unwrap().to_string();
    assert!(told.contains("measured"), "{told}");
}

#[test]
fn where_homes_are_by_order_alone_no_log_comes_however_busy_it_is() {
    let mut court = Court::new("");
    court.work(1, BUSY, 60);
    assert_eq!((court.level(1), court.file(1).housed().is_wished()), (Level::Absorb, false));
}

#[test]
fn a_file_that_is_slower_at_home_than_absorbed_goes_below_and_is_absorbed_again() {
    let mut court = Court::with_homes(4 * LOG_BYTES, "");
    court.work(1, BUSY, 20);
    assert_eq!(court.level(1), Level::Dax);
    court.work(1, Load { level_write_ns: 5_000, ..BUSY }, 6);
    court.work(1, BUSY, 3);
    assert_eq!((court.level(1), court.whys()), (Level::Absorb, vec![Why::Slower]));
}

#[test]
fn a_file_that_others_keep_opening_comes_home_again_later_each_time() {
    let mut court = Court::with_homes(4 * LOG_BYTES, "");
    let mut opened = 0;
    for _ in 0..600 {
        court.work(1, if court.level(1) == Level::Dax { AT_HOME } else { BUSY }, 1);
        if court.level(1) == Level::Dax {
            court.goes_below(1, Why::OpenElsewhere);
            assert!(!court.file(1).housed().is_wished());
            opened += 1;
        }
    }
    assert!((2..12).contains(&opened), "{opened}");
}

#[test]
fn a_file_that_outgrew_its_home_has_a_larger_one_at_once_while_there_is_room_and_is_absorbed_then() {
    let mut court = Court::with_homes(4 * LOG_BYTES, "");
    court.work(1, BUSY, 20);
    assert_eq!(court.level(1), Level::Dax);
    court.size_bytes = LOG_BYTES;
    court.goes_below(1, Why::Outgrown);
    assert!(court.file(1).housed().is_wished());
    court.work(1, AT_HOME, 1);
    assert_eq!(court.level(1), Level::Dax);
    court.size_bytes = 5 * LOG_BYTES;
    court.goes_below(1, Why::Outgrown);
    court.work(1, BUSY, 10);
    assert_eq!(court.level(1), Level::Absorb);
}

#[test]
fn a_file_that_could_not_come_home_is_wished_there_again_later_and_absorbed_meanwhile() {
    let mut court = Court::with_homes(4 * LOG_BYTES, "");
    court.work(1, BUSY, 4);
    for _ in 0..200 {
        court.now_ns += 100 * MS;
        court.count(1, BUSY);
        court.look();
        if court.file(1).housed().is_wished() {
            break;
        }
    }
    assert_eq!((court.level(1), court.file(1).housed().is_wished()), (Level::Absorb, true));
    court.come_home(1, Err(Why::OpenElsewhere));
    assert!(!court.file(1).housed().is_wished());
    court.work(1, BUSY, 2);
    assert_eq!(court.level(1), Level::Absorb);
    court.work(1, BUSY, 10);
    assert_eq!(court.level(1), Level::Dax);
}

#[test]
fn logs_whose_names_are_gone_hold_no_room_against_those_that_begin() {
    let mut court = Court::new("");
    court.look();
    for inode in 1..=40 {
        court.now_ns += 100 * MS;
        court.count(inode, Load { syncs: 50, writes: 50, ..LOG });
        assert_eq!(court.ask(inode), Ok(()), "log {inode}");
        court.now_ns += 100 * MS;
        court.count(inode, Load { syncs: 50, writes: 50, ..LOG });
        court.look();
        court.goes_below(inode, Why::Unlinked);
        assert!((1..=inode).all(|gone| !court.is_wanted(gone)), "by log {inode}");
    }
}
