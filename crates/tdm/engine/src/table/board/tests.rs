//! What a board promises.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::table::Level;
use crate::table::level::Standing;

fn board() -> Board {
    Board::make(Mapping::anonymous(BOARD_BYTES).unwrap()).unwrap()
}

fn key(inode: u64) -> FileKey {
    FileKey { device: 7, inode, born_ns: 1 }
}

#[test]
fn a_file_has_one_entry_whoever_asks() {
    let board = board();
    assert!(board.find(key(5)).is_none());
    let made = board.find_or_make(key(5)).unwrap().unwrap().index();
    assert_eq!(board.find_or_make(key(5)).unwrap().unwrap().index(), made);
    assert_eq!(board.find(key(5)).unwrap().index(), made);
    assert_eq!(board.entries().count(), 1);
}

#[test]
fn an_inode_that_is_used_again_is_another_file() {
    let board = board();
    let old = board.find_or_make(key(5)).unwrap().unwrap().index();
    let new = board.find_or_make(FileKey { born_ns: 2, ..key(5) }).unwrap().unwrap().index();
    assert_ne!(old, new);
}

#[test]
fn a_file_that_finds_no_room_is_left_out_and_counted() {
    let board = board();
    let files = 1..=ENTRIES as u64 + 1;
    let (made, others): (Vec<_>, Vec<_>) =
        files.partition(|inode| board.find_or_make(key(*inode)).unwrap().is_some());
    assert!(made.len() <= ENTRIES && made.len() > ENTRIES / 2);
    assert_eq!(board.unlisted(), others.len() as u64);
    assert!(others.iter().all(|inode| board.is_left_out(key(*inode))));
    let taken_for_them = made.iter().filter(|inode| board.is_left_out(key(**inode))).count();
    assert!(taken_for_them < made.len() / 500, "{taken_for_them} of {}", made.len());
}

#[test]
fn a_file_that_is_left_out_while_it_is_served_is_taken_down() {
    let board = board();
    let entry = board.find_or_make(key(5)).unwrap().unwrap();
    assert!(entry.move_to(Level::Absorb, Why::Earned));
    board.leave_out(key(5));
    let standing = Standing { level: Level::Absorb, why: Why::BoardFull, is_barred: true };
    assert_eq!((entry.standing(), entry.cursor().is_suspended()), (standing, true));
}

#[test]
fn a_file_whose_entry_somebody_was_killed_in_making_is_told_of_once() {
    for survived in 0..=MAKING.len() {
        let board = board();
        let entry = board.probe(key(5)).next().unwrap();
        MAKING[..survived].iter().for_each(|step| step(&board, entry, key(5)).unwrap());
        let told = || board.entries().filter(|entry| entry.key() == Some(key(5))).count();
        assert_eq!(told(), usize::from(board.find(key(5)).is_some()), "after {survived} steps");
        board.find_or_make(key(5)).unwrap();
        assert_eq!((told(), board.entries().count()), (1, 1), "after {survived} steps");
    }
}

#[test]
fn an_entry_that_was_given_back_is_another_file_s_and_its_index_leads_nowhere() {
    let board = board();
    let old = board.find_or_make(key(5)).unwrap().unwrap();
    assert!(board.give_back(old, old.opened()));
    assert!(board.find(key(5)).is_none() && board.entry(old.index()).is_none());
    let new = board.find_or_make(FileKey { born_ns: 1 << 60, ..key(5) }).unwrap().unwrap();
    let again = board.find_or_make(key(5)).unwrap().unwrap();
    assert_eq!(board.entry(again.index()).unwrap().key(), Some(key(5)));
    assert_eq!((board.entries().count(), board.unlisted()), (2, 0));
    assert!(board.entry(new.index()).is_some() && board.entry(old.index()).is_none());
}

#[test]
fn a_daemon_that_was_killed_while_it_gave_an_entry_back_leaves_that_file_out_and_no_other() {
    let board = board();
    board.see_what_was_left();
    assert_eq!(board.unlisted(), 0);
    board.word(front::GIVING).unwrap().store(5, Ordering::SeqCst);
    board.see_what_was_left();
    assert_eq!(board.unlisted(), 1);
    assert!(board.is_left_out(key(5)) && !board.is_left_out(key(6)));
    board.see_what_was_left();
    assert_eq!(board.unlisted(), 1);
}

#[test]
fn an_index_leads_nowhere_once_its_entry_is_another_file_s_though_a_daemon_was_killed_in_between() {
    let board = board();
    let entry = board.find_or_make(key(5)).unwrap().unwrap();
    entry.lose_file();
    let is_its = |other: &FileKey| board.probe(*other).next().unwrap().index() == entry.index();
    let other = (6..).map(key).find(is_its).unwrap();
    let others = board.find_or_make(other).unwrap().unwrap();
    assert_eq!(others.index().number(), entry.index().number());
    assert!(board.entry(entry.index()).is_none());
    assert_eq!(board.entry(others.index()).unwrap().key(), Some(other));
}

#[test]
fn a_file_that_was_opened_meanwhile_or_is_served_keeps_its_entry() {
    let board = board();
    let entry = board.find_or_make(key(5)).unwrap().unwrap();
    let before = entry.opened();
    board.find_or_make(key(5)).unwrap();
    assert!(!board.give_back(entry, before));
    assert!(entry.move_to(Level::Absorb, Why::Earned));
    assert!(!board.give_back(entry, entry.opened()));
    assert_eq!(board.find(key(5)).unwrap().index(), entry.index());
}

#[test]
fn files_behind_one_that_was_given_back_are_found() {
    let board = board();
    let keys: Vec<FileKey> = (1..=ENTRIES as u64 / 2).map(key).collect();
    let made: Vec<_> = keys.iter().map(|key| board.find_or_make(*key).unwrap().unwrap()).collect();
    for entry in made.iter().step_by(2) {
        assert!(board.give_back(*entry, entry.opened()));
    }
    assert!(keys.iter().skip(1).step_by(2).all(|key| board.find(*key).is_some()));
    keys.iter().for_each(|key| assert!(board.find_or_make(*key).unwrap().is_some()));
    assert_eq!(board.entries().count(), keys.len());
}

#[test]
fn whoever_opens_a_file_while_its_entry_is_given_back_has_one_that_is_its_own() {
    let board = board();
    let has_ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !has_ended.load(Ordering::SeqCst) {
                if let Some(entry) = board.find(key(5)) {
                    board.give_back(entry, entry.opened());
                }
            }
        });
        // Given back since, it leads nowhere; whoever opens the file too has never another one beside mine. (Who only looks may find
        // none for the moment in which it is decided.)
        let open = || std::iter::repeat_with(|| board.find_or_make(key(5))).find_map(Result::ok).flatten();
        let is_own = |mine: Entry<'_>| {
            let other = open().map(|other| other.index());
            other == Some(mine.index()) || board.entry(mine.index()).is_none()
        };
        let are_own = (0..20_000).all(|_| open().is_some_and(is_own));
        has_ended.store(true, Ordering::SeqCst);
        assert!(are_own);
    });
}

#[test]
fn threads_that_open_the_same_files_share_their_entries() {
    let board = board();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                (1..500).for_each(|inode| assert!(board.find_or_make(key(inode)).unwrap().is_some()))
            });
        }
    });
    assert_eq!(board.entries().count(), 499);
}

#[test]
fn a_barred_file_is_suspended_and_keeps_its_level_until_the_daemon_takes_it() {
    let board = board();
    let entry = board.find_or_make(key(5)).unwrap().unwrap();
    assert!(entry.move_to(Level::Absorb, Why::Earned));
    entry.bar(Why::Mapped);
    assert!(entry.cursor().is_suspended());
    assert_eq!(entry.standing(), Standing { level: Level::Absorb, why: Why::Mapped, is_barred: true });
    assert!(entry.move_to(Level::Pass, Why::TooFewSyncs) && !entry.move_to(Level::Absorb, Why::Earned));
    entry.explain(Why::NoRoom);
    assert_eq!(entry.standing(), Standing { level: Level::Pass, why: Why::Mapped, is_barred: true });
}

#[test]
fn memory_that_holds_no_board_is_refused() {
    assert!(matches!(Board::open(Mapping::anonymous(BOARD_BYTES).unwrap()), Err(BoardError::Magic(0))));
    assert!(Board::open(Mapping::anonymous(4096).unwrap()).is_err());
}
