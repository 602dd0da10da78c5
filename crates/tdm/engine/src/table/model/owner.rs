//! Reclaiming an entry while its file is opened.

use super::{KEY, parties};
use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::key::FileKey;
use crate::table::owner::Owner;

#[derive(Default)]
struct Words {
    key: [AtomicU64; 3],
    opened: AtomicU64,
    place: AtomicU64,
    /// Opens that got the entry, and reclaims.
    reported: AtomicU64,
    given: AtomicU64,
}

impl Words {
    fn begin() -> Self {
        let words = Self::default();
        words.owner().become_of(KEY);
        words
    }

    fn owner(&self) -> Owner<'_> {
        Owner { key: &self.key, opened: &self.opened, place: &self.place }
    }

    fn open(&self) {
        if self.owner().open_as(KEY, 0) {
            self.reported.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The daemon reclaims the entry, having found the file open in no process.
    fn give_back(&self) {
        if self.owner().give_back(0, || true) {
            self.given.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn give_on(&self, key: FileKey) {
        self.give_back();
        if self.given.load(Ordering::Relaxed) > 0 {
            self.owner().become_of(key);
        }
    }

    fn check(&self) {
        let [reported, given] = [&self.reported, &self.given].map(|word| word.load(Ordering::Relaxed));
        assert!(reported == 0 || given == 0, "{reported} have an entry that was given back");
    }
}

#[test]
fn open_during_a_reclaim_has_no_reclaimed_entry() {
    parties(4, Words::begin, [Words::give_back, Words::open], Words::check);
    parties(3, Words::begin, [Words::give_back, Words::open, Words::open], Words::check);
}

#[test]
fn entry_of_a_later_use_is_not_taken_for_the_earlier() {
    parties(4, Words::begin, [|words| words.give_on(KEY), Words::open], Words::check);
    let of_a_later_file = |words: &Words| words.give_on(FileKey { born_ns: 2, ..KEY });
    parties(4, Words::begin, [of_a_later_file, Words::open], Words::check);
}

#[test]
fn entry_not_reclaimed_is_its_files_again() {
    parties(4, Words::begin, [Words::give_back, Words::open], |words| {
        let is_given = words.given.load(Ordering::Relaxed) > 0;
        assert_eq!(words.owner().key(), (!is_given).then_some(KEY));
    });
}
