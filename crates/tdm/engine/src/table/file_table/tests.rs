//! Behaviour of the shared file table.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::table::Level;
use crate::table::level::LevelState;

fn file_table() -> FileTable {
    FileTable::make(Mapping::anonymous(FILE_TABLE_BYTES).unwrap()).unwrap()
}

fn key(inode: u64) -> FileKey {
    FileKey { device: 7, inode, born_ns: 1 }
}

#[test]
fn file_has_one_entry_for_all_programs() {
    let file_table = file_table();
    assert!(file_table.find(key(5)).is_none());
    let made = file_table.find_or_make(key(5)).unwrap().unwrap().index();
    assert_eq!(file_table.find_or_make(key(5)).unwrap().unwrap().index(), made);
    assert_eq!(file_table.find(key(5)).unwrap().index(), made);
    assert_eq!(file_table.entries().count(), 1);
}

#[test]
fn reused_inode_is_another_file() {
    let file_table = file_table();
    let old = file_table.find_or_make(key(5)).unwrap().unwrap().index();
    let new = file_table.find_or_make(FileKey { born_ns: 2, ..key(5) }).unwrap().unwrap().index();
    assert_ne!(old, new);
}

#[test]
fn file_without_room_is_filtered_and_counted() {
    let file_table = file_table();
    let files = 1..=ENTRIES as u64 + 1;
    let (made, others): (Vec<_>, Vec<_>) =
        files.partition(|inode| file_table.find_or_make(key(*inode)).unwrap().is_some());
    assert!(made.len() <= ENTRIES && made.len() > ENTRIES / 2);
    assert_eq!(file_table.unlisted(), others.len() as u64);
    assert!(others.iter().all(|inode| file_table.is_left_out(key(*inode))));
    let taken_for_them = made.iter().filter(|inode| file_table.is_left_out(key(**inode))).count();
    assert!(taken_for_them < made.len() / 500, "{taken_for_them} of {}", made.len());
}

#[test]
fn served_file_that_is_filtered_is_barred() {
    let file_table = file_table();
    let entry = file_table.find_or_make(key(5)).unwrap().unwrap();
    assert!(entry.move_to(Level::Absorb, Reason::Earned));
    file_table.leave_out(key(5));
    let level_state = LevelState { level: Level::Absorb, why: Reason::TableFull, is_barred: true };
    assert_eq!((entry.level_state(), entry.cursor().is_suspended()), (level_state, true));
}

#[test]
fn entry_of_a_killed_maker_is_listed_once() {
    for survived in 0..=MAKING.len() {
        let file_table = file_table();
        let entry = file_table.probe(key(5)).next().unwrap();
        MAKING[..survived].iter().for_each(|step| step(&file_table, entry, key(5)).unwrap());
        let reported = || file_table.entries().filter(|entry| entry.key() == Some(key(5))).count();
        assert_eq!(reported(), usize::from(file_table.find(key(5)).is_some()), "after {survived} steps");
        file_table.find_or_make(key(5)).unwrap();
        assert_eq!((reported(), file_table.entries().count()), (1, 1), "after {survived} steps");
    }
}

#[test]
fn reclaimed_entry_is_reused_and_its_index_is_void() {
    let file_table = file_table();
    let old = file_table.find_or_make(key(5)).unwrap().unwrap();
    assert!(file_table.give_back(old, old.opened()));
    assert!(file_table.find(key(5)).is_none() && file_table.entry(old.index()).is_none());
    let new = file_table.find_or_make(FileKey { born_ns: 1 << 60, ..key(5) }).unwrap().unwrap();
    let again = file_table.find_or_make(key(5)).unwrap().unwrap();
    assert_eq!(file_table.entry(again.index()).unwrap().key(), Some(key(5)));
    assert_eq!((file_table.entries().count(), file_table.unlisted()), (2, 0));
    assert!(file_table.entry(new.index()).is_some() && file_table.entry(old.index()).is_none());
}

#[test]
fn daemon_killed_in_a_reclaim_leaves_only_that_file_filtered() {
    let file_table = file_table();
    file_table.recover_entry_being_reclaimed();
    assert_eq!(file_table.unlisted(), 0);
    file_table.word(front::GIVING).unwrap().store(5, Ordering::SeqCst);
    file_table.recover_entry_being_reclaimed();
    assert_eq!(file_table.unlisted(), 1);
    assert!(file_table.is_left_out(key(5)) && !file_table.is_left_out(key(6)));
    file_table.recover_entry_being_reclaimed();
    assert_eq!(file_table.unlisted(), 1);
}

#[test]
fn index_is_void_after_a_daemon_was_killed_in_a_reclaim() {
    let file_table = file_table();
    let entry = file_table.find_or_make(key(5)).unwrap().unwrap();
    entry.clear_file();
    let is_its = |other: &FileKey| file_table.probe(*other).next().unwrap().index() == entry.index();
    let other = (6..).map(key).find(is_its).unwrap();
    let others = file_table.find_or_make(other).unwrap().unwrap();
    assert_eq!(others.index().number(), entry.index().number());
    assert!(file_table.entry(entry.index()).is_none());
    assert_eq!(file_table.entry(others.index()).unwrap().key(), Some(other));
}

#[test]
fn file_opened_meanwhile_or_served_keeps_its_entry() {
    let file_table = file_table();
    let entry = file_table.find_or_make(key(5)).unwrap().unwrap();
    let before = entry.opened();
    file_table.find_or_make(key(5)).unwrap();
    assert!(!file_table.give_back(entry, before));
    assert!(entry.move_to(Level::Absorb, Reason::Earned));
    assert!(!file_table.give_back(entry, entry.opened()));
    assert_eq!(file_table.find(key(5)).unwrap().index(), entry.index());
}

#[test]
fn files_probed_behind_a_reclaimed_entry_are_found() {
    let file_table = file_table();
    let keys: Vec<FileKey> = (1..=ENTRIES as u64 / 2).map(key).collect();
    let made: Vec<_> = keys.iter().map(|key| file_table.find_or_make(*key).unwrap().unwrap()).collect();
    for entry in made.iter().step_by(2) {
        assert!(file_table.give_back(*entry, entry.opened()));
    }
    assert!(keys.iter().skip(1).step_by(2).all(|key| file_table.find(*key).is_some()));
    keys.iter().for_each(|key| assert!(file_table.find_or_make(*key).unwrap().is_some()));
    assert_eq!(file_table.entries().count(), keys.len());
}

#[test]
fn open_during_a_reclaim_gets_the_files_own_entry() {
    let file_table = file_table();
    let has_ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !has_ended.load(Ordering::SeqCst) {
                if let Some(entry) = file_table.find(key(5)) {
                    file_table.give_back(entry, entry.opened());
                }
            }
        });
        // Given back since, it leads nowhere; the process that opens the file too has never another one beside mine. (Who only looks may find
        // none for the moment in which it is decided.)
        let open =
            || std::iter::repeat_with(|| file_table.find_or_make(key(5))).find_map(Result::ok).flatten();
        let is_own = |mine: Entry<'_>| {
            let other = open().map(|other| other.index());
            other == Some(mine.index()) || file_table.entry(mine.index()).is_none()
        };
        let are_own = (0..20_000).all(|_| open().is_some_and(is_own));
        has_ended.store(true, Ordering::SeqCst);
        assert!(are_own);
    });
}

#[test]
fn threads_opening_the_same_files_share_entries() {
    let file_table = file_table();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                (1..500).for_each(|inode| assert!(file_table.find_or_make(key(inode)).unwrap().is_some()))
            });
        }
    });
    assert_eq!(file_table.entries().count(), 499);
}

#[test]
fn barred_file_is_suspended_until_the_daemon_demotes_it() {
    let file_table = file_table();
    let entry = file_table.find_or_make(key(5)).unwrap().unwrap();
    assert!(entry.move_to(Level::Absorb, Reason::Earned));
    entry.bar(Reason::Mapped);
    assert!(entry.cursor().is_suspended());
    assert_eq!(
        entry.level_state(),
        LevelState { level: Level::Absorb, why: Reason::Mapped, is_barred: true }
    );
    assert!(entry.move_to(Level::Pass, Reason::TooFewSyncs) && !entry.move_to(Level::Absorb, Reason::Earned));
    entry.explain(Reason::NoRoom);
    assert_eq!(entry.level_state(), LevelState { level: Level::Pass, why: Reason::Mapped, is_barred: true });
}

#[test]
fn memory_without_a_table_is_refused() {
    assert!(matches!(
        FileTable::open(Mapping::anonymous(FILE_TABLE_BYTES).unwrap()),
        Err(FileTableError::Magic(0))
    ));
    assert!(FileTable::open(Mapping::anonymous(4096).unwrap()).is_err());
}
