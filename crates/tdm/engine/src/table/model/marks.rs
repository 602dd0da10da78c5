//! Promotion of a file beside calls that begin and end.

use super::{parties, settle};
use crate::table::atomic::{AtomicU64, Ordering, fence};
use crate::table::index::EntryIndex;
use crate::table::marks::{MARK_WORDS, Mark, MarkPlace, Marks};

const FILE: EntryIndex = EntryIndex(3);
const RESIDENT: u64 = 1;

#[derive(Default)]
struct Words {
    level: AtomicU64,
    places: [[AtomicU64; MARK_WORDS]; 2],
    /// Whether the file was promoted, what the kernel wrote below, and what was copied.
    came: AtomicU64,
    below: AtomicU64,
    copied: AtomicU64,
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

    /// A write by the kernel, unless the file is DAX-resident.
    fn write(&self, place: usize) {
        let mark = Mark(&self.places[place]);
        assert!(mark.set(FILE));
        if self.level.load(Ordering::SeqCst) != RESIDENT {
            self.below.fetch_add(1, Ordering::Relaxed);
        }
        mark.clear();
    }

    /// The daemon's promotion. Its barrier is a fence on both sides here.
    fn promote_if_requested(&self) {
        self.level.store(RESIDENT, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.marks().has(FILE, |_| true) {
            self.copied.store(self.below.load(Ordering::Relaxed), Ordering::Relaxed);
            self.came.store(1, Ordering::Relaxed);
        }
    }

    fn check(&self) {
        let [came, below, copied] =
            [&self.came, &self.below, &self.copied].map(|word| word.load(Ordering::Relaxed));
        assert!(came == 0 || copied == below, "{below} writes below, {copied} of them in the promoted file");
    }
}

#[test]
fn kernel_write_is_in_the_promoted_file_or_prevents_promotion() {
    parties(4, Words::begin, [Words::promote_if_requested, |words| words.write(0)], Words::check);
    parties(
        3,
        Words::begin,
        [Words::promote_if_requested, |words| words.write(0), |words| words.write(1)],
        Words::check,
    );
}

/// Claims a mark for a thread number.
fn claim(words: &Words, thread: u32) {
    if let Some(MarkPlace(place)) = words.marks().claim(thread, |_| true) {
        words.level.fetch_add(1 << (8 * place), Ordering::Relaxed);
    }
}

#[test]
fn mark_is_claimed_by_one_thread() {
    parties(4, Words::begin, [|words| claim(words, 2048), |words| claim(words, 4096)], |words| {
        assert_eq!(words.level.load(Ordering::Relaxed), 1 | 1 << 8);
    });
}
