//! A file comes home while calls of it begin and end.

use super::{parties, settle};
use crate::table::atomic::{AtomicU64, Ordering, fence};
use crate::table::index::EntryIndex;
use crate::table::marks::{MARK_WORDS, Mark, MarkPlace, Marks};

const FILE: EntryIndex = EntryIndex(3);
const HOME: u64 = 1;

#[derive(Default)]
struct Words {
    level: AtomicU64,
    places: [[AtomicU64; MARK_WORDS]; 2],
    /// Whether the file was brought home, what the kernel's call wrote below, and what was there to be brought.
    came: AtomicU64,
    below: AtomicU64,
    brought: AtomicU64,
}

impl Words {
    fn begin() -> Self {
        let words = Self::default();
        settle(words.places.iter().flatten().chain([&words.level]));
        words
    }

    fn marks<'w>(&'w self) -> Marks<impl Fn(usize) -> Option<Mark<'w>>> {
        Marks(|place: usize| self.places.get(place).map(Mark))
    }

    /// A write by the kernel, unless the file is at home.
    fn write(&self, place: usize) {
        let mark = Mark(&self.places[place]);
        assert!(mark.set(FILE));
        if self.level.load(Ordering::SeqCst) != HOME {
            self.below.fetch_add(1, Ordering::Relaxed);
        }
        mark.clear();
    }

    /// As the daemon does it, whose barrier for all is a fence of both sides here.
    fn come_home(&self) {
        self.level.store(HOME, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.marks().has(FILE, |_| true) {
            self.brought.store(self.below.load(Ordering::Relaxed), Ordering::Relaxed);
            self.came.store(1, Ordering::Relaxed);
        }
    }

    fn check(&self) {
        let [came, below, brought] =
            [&self.came, &self.below, &self.brought].map(|word| word.load(Ordering::Relaxed));
        assert!(came == 0 || brought == below, "{below} writes below, of which {brought} came home");
    }
}

#[test]
fn every_write_by_the_kernel_is_in_what_comes_home_or_keeps_the_file_from_it() {
    parties(4, Words::begin, [Words::come_home, |words| words.write(0)], Words::check);
    parties(
        3,
        Words::begin,
        [Words::come_home, |words| words.write(0), |words| words.write(1)],
        Words::check,
    );
}

/// Whoever has claimed a place, by his number.
fn claim(words: &Words, thread: u32) {
    if let Some(MarkPlace(place)) = words.marks().claim(thread, |_| true) {
        words.level.fetch_add(1 << (8 * place), Ordering::Relaxed);
    }
}

#[test]
fn no_place_is_two_threads_at_once() {
    parties(4, Words::begin, [|words| claim(words, 2048), |words| claim(words, 4096)], |words| {
        assert_eq!(words.level.load(Ordering::Relaxed), 1 | 1 << 8);
    });
}
