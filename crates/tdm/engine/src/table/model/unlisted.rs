//! Adding files to the filter while its halves swap, and while entries are made.

use loom::sync::Mutex;

use byway_tdm_policy::{Level, Reason};

use super::file::File;
use super::{KEY, parties, settle};
use crate::table::atomic::AtomicU64;
use crate::table::owner::Owner;
use crate::table::unlisted::{HALF_WORDS, Half, Unlisted};

#[derive(Default)]
struct Words {
    generation: AtomicU64,
    counts: [AtomicU64; 2],
    bits: [[AtomicU64; HALF_WORDS]; 2],
    /// Which process has which file open.
    open: Mutex<Vec<u64>>,
}

impl Words {
    fn begin() -> Self {
        let words = Self::default();
        settle([&words.generation].into_iter().chain(words.bits.iter().flatten()));
        words
    }

    fn unlisted(&self) -> Unlisted<'_> {
        let half = |i: usize| Half { count: &self.counts[i], bits: &self.bits[i] };
        Unlisted::new(&self.generation, [half(0), half(1)])
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
fn filter_keeps_a_file_added_during_a_swap() {
    let add = |words: &Words| words.open_and_add(KEY.inode);
    parties(3, Words::begin, [Words::look_twice, add], Words::check);
    let add_another = |words: &Words| words.open_and_add(6);
    parties(2, Words::begin, [Words::look_twice, add, add_another], Words::check);
}

/// A file that gets an entry while the filter takes it.
struct FileTable {
    words: Words,
    key: [AtomicU64; 3],
    opened: AtomicU64,
    place: AtomicU64,
    file: File,
}

impl FileTable {
    fn begin() -> Self {
        Self {
            words: Words::begin(),
            key: Default::default(),
            opened: AtomicU64::default(),
            place: AtomicU64::default(),
            file: File::begin(),
        }
    }

    fn owner(&self) -> Owner<'_> {
        Owner { key: &self.key, opened: &self.opened, place: &self.place }
    }

    /// Opens the file without an entry.
    fn leave_out(&self) {
        self.words.unlisted().leave_out(KEY.inode, || {
            if self.owner().key() == Some(KEY) {
                self.file.served().bar(Reason::TableFull);
            }
        });
    }

    /// Another thread makes an entry, and the daemon absorbs the file.
    fn make_and_absorb(&self) {
        self.owner().become_of(KEY);
        assert!(self.owner().open_as(KEY, 0));
        if !self.words.unlisted().has(KEY.inode) {
            self.file.absorb(1);
        }
    }

    fn check(&self) {
        let level_state = self.file.served().level_state();
        assert!(level_state.is_barred || level_state.level == Level::Pass, "{level_state:?}");
    }
}

#[test]
fn filtering_and_absorbing_threads_see_each_other() {
    parties(3, FileTable::begin, [FileTable::leave_out, FileTable::make_and_absorb], |file_table| {
        let is_left_out = file_table.words.unlisted().has(KEY.inode);
        assert!(is_left_out);
        file_table.check();
    });
}
