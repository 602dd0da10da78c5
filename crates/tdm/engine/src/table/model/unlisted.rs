//! Files are left out while halves change places, and while they get entries.

use loom::sync::Mutex;

use byway_tdm_policy::Level;

use super::file::File;
use super::{KEY, parties, settle};
use crate::table::atomic::AtomicU64;
use crate::table::level::Why;
use crate::table::unlisted::{HALF_WORDS, Half, Unlisted};
use crate::table::whose::Whose;

#[derive(Default)]
struct Words {
    turns: AtomicU64,
    counts: [AtomicU64; 2],
    bits: [[AtomicU64; HALF_WORDS]; 2],
    /// Who has which file open, as the system says.
    open: Mutex<Vec<u64>>,
}

impl Words {
    fn begin() -> Self {
        let words = Self::default();
        settle([&words.turns].into_iter().chain(words.bits.iter().flatten()));
        words
    }

    fn unlisted(&self) -> Unlisted<'_> {
        let half = |i: usize| Half { count: &self.counts[i], bits: &self.bits[i] };
        Unlisted::new(&self.turns, [half(0), half(1)])
    }

    fn open_and_add(&self, inode: u64) {
        self.open.lock().expect("a lock").push(inode);
        self.unlisted().add(inode);
    }

    fn look(&self) {
        let open = self.open.lock().expect("a lock").clone();
        self.unlisted().keep(open.into_iter());
    }

    fn look_twice(&self) {
        self.look();
        self.look();
    }

    fn check(&self) {
        let open = self.open.lock().expect("a lock");
        assert!(open.iter().all(|inode| self.unlisted().has(*inode)), "a file that is open is forgotten");
    }
}

#[test]
fn no_file_is_forgotten_that_is_added_while_halves_change_places() {
    let add = |words: &Words| words.open_and_add(KEY.inode);
    parties(3, Words::begin, [Words::look_twice, add], Words::check);
    let add_another = |words: &Words| words.open_and_add(6);
    parties(2, Words::begin, [Words::look_twice, add, add_another], Words::check);
}

/// A file that gets an entry, on a board that leaves it out.
struct Board {
    words: Words,
    key: [AtomicU64; 3],
    opened: AtomicU64,
    place: AtomicU64,
    file: File,
}

impl Board {
    fn begin() -> Self {
        Self {
            words: Words::begin(),
            key: Default::default(),
            opened: AtomicU64::default(),
            place: AtomicU64::default(),
            file: File::begin(),
        }
    }

    fn whose(&self) -> Whose<'_> {
        Whose { key: &self.key, opened: &self.opened, place: &self.place }
    }

    /// Somebody opens it without an entry.
    fn leave_out(&self) {
        self.words.unlisted().leave_out(KEY.inode, || {
            if self.whose().key() == Some(KEY) {
                self.file.served().bar(Why::BoardFull);
            }
        });
    }

    /// Somebody else makes one, and has the daemon absorb it.
    fn make_and_absorb(&self) {
        self.whose().become_of(KEY);
        assert!(self.whose().open_as(KEY, 0));
        if !self.words.unlisted().has(KEY.inode) {
            self.file.absorb(1);
        }
    }

    fn check(&self) {
        let standing = self.file.served().standing();
        assert!(standing.is_barred || standing.level == Level::Pass, "{standing:?}");
    }
}

#[test]
fn who_leaves_a_file_out_and_who_has_it_absorbed_see_each_other() {
    parties(3, Board::begin, [Board::leave_out, Board::make_and_absorb], |board| {
        let is_left_out = board.words.unlisted().has(KEY.inode);
        assert!(is_left_out);
        board.check();
    });
}
