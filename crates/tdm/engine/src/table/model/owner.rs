//! An entry is given back while its file is opened.

use super::{KEY, parties};
use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::key::FileKey;
use crate::table::whose::Whose;

#[derive(Default)]
struct Words {
    key: [AtomicU64; 3],
    opened: AtomicU64,
    place: AtomicU64,
    /// How many were told that the entry is their file's, and how often it was given back.
    told: AtomicU64,
    given: AtomicU64,
}

impl Words {
    fn begin() -> Self {
        let words = Self::default();
        words.whose().become_of(KEY);
        words
    }

    fn whose(&self) -> Whose<'_> {
        Whose { key: &self.key, opened: &self.opened, place: &self.place }
    }

    fn open(&self) {
        if self.whose().open_as(KEY, 0) {
            self.told.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// By a daemon that found nobody who has the file open, before anybody opens it.
    fn give_back(&self) {
        if self.whose().give_back(0, || true) {
            self.given.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn give_on(&self, key: FileKey) {
        self.give_back();
        if self.given.load(Ordering::Relaxed) > 0 {
            self.whose().become_of(key);
        }
    }

    fn check(&self) {
        let [told, given] = [&self.told, &self.given].map(|word| word.load(Ordering::Relaxed));
        assert!(told == 0 || given == 0, "{told} have an entry that was given back");
    }
}

#[test]
fn nobody_has_an_entry_that_was_given_back_while_he_opened_its_file() {
    parties(4, Words::begin, [Words::give_back, Words::open], Words::check);
    parties(3, Words::begin, [Words::give_back, Words::open, Words::open], Words::check);
}

#[test]
fn nobody_takes_an_entry_of_a_later_use_for_the_one_that_he_found() {
    parties(4, Words::begin, [|words| words.give_on(KEY), Words::open], Words::check);
    let of_a_later_file = |words: &Words| words.give_on(FileKey { born_ns: 2, ..KEY });
    parties(4, Words::begin, [of_a_later_file, Words::open], Words::check);
}

#[test]
fn an_entry_that_is_kept_is_its_file_s_again() {
    parties(4, Words::begin, [Words::give_back, Words::open], |words| {
        let is_given = words.given.load(Ordering::Relaxed) > 0;
        assert_eq!(words.whose().key(), (!is_given).then_some(KEY));
    });
}
