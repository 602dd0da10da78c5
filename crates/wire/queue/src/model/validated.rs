//! A reader's copy beside an owner that moves data and reuses its place.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::bounded;
use crate::validated::validated;

/// Two words that belong together, stored one by one.
#[derive(Default)]
struct Place([AtomicU64; 2]);

impl Place {
    fn store(&self, version: u64) {
        self.0.iter().for_each(|word| word.store(version, Ordering::Relaxed));
    }

    fn load(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.0[at].load(Ordering::Relaxed))
    }
}

/// As an entry of the flash's map: it names one of two places.
#[derive(Default)]
struct Moved {
    entry: AtomicU64,
    places: [Place; 2],
}

#[test]
fn a_copy_of_what_an_entry_names_is_whole_while_its_place_is_reused() {
    bounded(3).check(|| {
        let moved = Arc::new(Moved::default());
        moved.places[0].store(1);
        let owner = {
            let moved = Arc::clone(&moved);
            thread::spawn(move || {
                moved.places[1].store(2);
                moved.entry.store(1, Ordering::Release);
                fence(Ordering::Release);
                moved.places[0].store(9);
            })
        };
        let load = || moved.entry.load(Ordering::Acquire);
        let copied = validated(2, load, |place| moved.places[*place as usize].load());
        assert!(matches!(copied, None | Some([1, 1] | [2, 2])), "{copied:?}");
        owner.join().unwrap();
    });
}

#[test]
fn a_copy_of_a_page_has_the_version_that_its_record_names() {
    bounded(3).check(|| {
        // As a spare record: zeroed before the page is reused, stored once the page is programmed.
        let page = Arc::new((AtomicU64::new(1), Place::default()));
        page.1.store(1);
        let owner = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                page.0.store(0, Ordering::Release);
                fence(Ordering::Release);
                page.1.store(2);
                page.0.store(2, Ordering::Release);
            })
        };
        let copied = validated(1, || page.0.load(Ordering::Acquire), |version| (*version, page.1.load()));
        let is_whole = |(version, words): (u64, [u64; 2])| version == 0 || words == [version; 2];
        assert!(copied.is_none_or(is_whole), "{copied:?}");
        owner.join().unwrap();
    });
}
