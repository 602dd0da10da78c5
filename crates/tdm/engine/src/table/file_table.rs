//! The shared file table: one mapping for all programs of a user and the daemon.

use std::io;
use std::time::Duration;

use byway_sys::Mapping;
use byway_sys::map::MapError;
use byway_sys::robust::RobustLock;
use byway_tdm_policy::Reason;
use thiserror::Error;

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::entry::Entry;
use crate::table::index::EntryIndex;
use crate::table::key::FileKey;
use crate::table::layout::{FILE_TABLE_BYTES, HALF_BYTES, LIST, MAGIC, MARKED, UNLISTED, front};
use crate::table::marks::{MARK_BYTES, MARKS, Mark, MarkPlace, Marks};
use crate::table::unlisted::{Half, Unlisted};

/// Entries of a table. All memory is allocated when the table is made: a later touch cannot fail.
pub const ENTRIES: usize = 10240;

/// Time limit of the daemon for the table's lock, which a stopped program may hold.
const LOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// Time limit of an open for the table's lock.
const OPENING: Duration = Duration::from_secs(1);

/// Why a table cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileTableError {
    /// Another version, or not a table.
    #[error("not a shared file table of this version: {0:#018x}")]
    Magic(u64),
    /// Too short.
    #[error(transparent)]
    Outside(#[from] MapError),
    /// The system's error.
    #[error("the shared file table's lock cannot be used")]
    Lock(#[from] io::Error),
}

/// The shared file table.
#[derive(Debug)]
pub struct FileTable {
    map: Mapping,
}

/// One step of making an entry, under the table's lock.
type Step = fn(&FileTable, Entry<'_>, FileKey) -> Result<(), FileTableError>;

/// The steps in order. A program may be killed behind any: an entry that is found by its key is in the list, which is all that the daemon scans.
const MAKING: [Step; 2] = [FileTable::enlist, FileTable::assign];

impl FileTable {
    /// Makes a table in zeroed memory that no other process uses yet.
    ///
    /// # Errors
    /// [`FileTableError`].
    pub fn make(map: Mapping) -> Result<Self, FileTableError> {
        let file_table = Self::over(map)?;
        file_table.lock()?.make();
        file_table.word(front::MAGIC)?.store(MAGIC, Ordering::SeqCst);
        Ok(file_table)
    }

    /// Opens the table in this memory.
    ///
    /// # Errors
    /// [`FileTableError::Magic`] for one of another version.
    pub fn open(map: Mapping) -> Result<Self, FileTableError> {
        let file_table = Self::over(map)?;
        match file_table.word(front::MAGIC)?.load(Ordering::SeqCst) {
            MAGIC => Ok(file_table),
            other => Err(FileTableError::Magic(other)),
        }
    }

    fn over(map: Mapping) -> Result<Self, FileTableError> {
        if map.len() < FILE_TABLE_BYTES {
            return Err(MapError { at: 0, len_bytes: FILE_TABLE_BYTES, mapped_bytes: map.len() }.into());
        }
        Ok(Self { map })
    }

    /// The entry of a file.
    #[must_use]
    pub fn find(&self, key: FileKey) -> Option<Entry<'_>> {
        self.probe(key).take_while(Entry::is_or_was_used).find(|entry| entry.key() == Some(key))
    }

    /// The entry of a file that was just opened, made if there is none. `None` if the table is full: the file is added to the filter.
    ///
    /// # Errors
    /// [`FileTableError::Lock`]: the file is added to the filter as well.
    pub fn find_or_make(&self, key: FileKey) -> Result<Option<Entry<'_>>, FileTableError> {
        if let Some(entry) = self.find(key).filter(|entry| entry.open_as(key)) {
            return Ok(Some(entry));
        }
        let _guard = self.lock()?.lock_within(OPENING).inspect_err(|_| self.leave_out(key))?;
        let free = || self.probe(key).find(|entry| entry.key().is_none());
        let entry = match (self.find(key), free()) {
            (Some(found), _) => found,
            (None, Some(free)) => {
                MAKING.iter().try_for_each(|step| step(self, free, key))?;
                Entry::at(&self.map, free.index().number())?
            }
            (None, None) => {
                self.leave_out(key);
                return Ok(None);
            }
        };
        // Counted: the daemon does not reclaim the entry.
        entry.open_as(key);
        Ok(Some(entry))
    }

    /// Reclaims the entry of a file that no process has open, unless opens were counted beyond `opened`. `true` if it was reclaimed: its indices are
    /// void.
    pub fn give_back(&self, entry: Entry<'_>, opened: u64) -> bool {
        let Ok(lock) = self.lock() else { return false };
        let Ok(_guard) = lock.lock_within(LOCK_TIMEOUT) else { return false };
        let (Ok(giving), Some(key)) = (self.word(front::GIVING), entry.key()) else { return false };
        giving.store(key.inode, Ordering::SeqCst);
        let is_done = self.entry(entry.index()).is_some_and(|entry| entry.give_back(opened));
        giving.store(0, Ordering::SeqCst);
        is_done
    }

    /// Finishes a reclaim that an earlier daemon was killed in: a program may have opened the file without finding its entry.
    pub fn recover_entry_being_reclaimed(&self) {
        let (Ok(giving), Ok(unlisted)) = (self.word(front::GIVING), self.files_without_entry()) else {
            return;
        };
        match giving.load(Ordering::SeqCst) {
            0 => {}
            inode => unlisted.add(inode),
        }
        giving.store(0, Ordering::SeqCst);
    }

    /// Adds an entry to the list, unless an earlier attempt has. Needs the table's lock.
    fn enlist(&self, entry: Entry<'_>, _: FileKey) -> Result<(), FileTableError> {
        let used = self.word(front::USED)?;
        let at = used.load(Ordering::SeqCst).min(ENTRIES as u64 - 1);
        if self.listed(entry.place()) == Some(entry.index().number()) && entry.place() < at {
            return Ok(());
        }
        entry.set_place(at);
        self.word(LIST + at as usize * 8)?.store(entry.index().number().into(), Ordering::SeqCst);
        used.store(at + 1, Ordering::SeqCst);
        Ok(())
    }

    /// Makes it the file's entry.
    fn assign(&self, entry: Entry<'_>, key: FileKey) -> Result<(), FileTableError> {
        Ok(entry.become_of(key)?)
    }

    /// Number of the entry at a position of the list.
    fn listed(&self, place: u64) -> Option<u32> {
        let at = usize::try_from(place).ok().filter(|at| *at < ENTRIES)?;
        let word = self.word(LIST + at * 8).ok()?.load(Ordering::SeqCst);
        u32::try_from(word).ok().filter(|number| (*number as usize) < ENTRIES)
    }

    /// Adds a file without an entry to the filter: it is not absorbed while a process has it open. Never waits.
    pub fn leave_out(&self, key: FileKey) {
        let bar = || {
            if let Some(entry) = self.find(key) {
                entry.bar(Reason::TableFull);
            }
        };
        match self.files_without_entry() {
            Ok(unlisted) => unlisted.leave_out(key.inode, bar),
            Err(_) => bar(),
        }
    }

    /// Whether the filter has the file.
    #[must_use]
    pub fn is_left_out(&self, key: FileKey) -> bool {
        self.files_without_entry().is_ok_and(|unlisted| unlisted.has(key.inode))
    }

    /// Removes files from the filter whose inodes are not in `open`, a list of all open files begun after the last call.
    pub fn forget_closed(&self, open: impl Iterator<Item = u64>) {
        if let Ok(unlisted) = self.files_without_entry() {
            unlisted.keep(open);
        }
    }

    /// Reports open files that `/proc` does not show: the filter keeps all files.
    pub fn hide(&self) {
        if let Ok(hiding) = self.word(front::HIDING) {
            hiding.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Number of such reports.
    #[must_use]
    pub fn hiding(&self) -> u64 {
        self.word(front::HIDING).map_or(u64::MAX, |hiding| hiding.load(Ordering::SeqCst))
    }

    /// Withdraws reports of programs that have ended.
    pub fn forget_hiding(&self, times: u64) {
        if let Ok(hiding) = self.word(front::HIDING) {
            hiding.fetch_sub(times, Ordering::SeqCst);
        }
    }

    /// An entry by its index. `None` if it was reclaimed since.
    #[inline]
    #[must_use]
    pub fn entry(&self, index: EntryIndex) -> Option<Entry<'_>> {
        Entry::at(&self.map, index.number()).ok().filter(|entry| entry.index() == index)
    }

    /// Upper bound of the entries in use.
    #[must_use]
    pub fn made(&self) -> usize {
        self.word(front::USED).map_or(0, |used| used.load(Ordering::SeqCst).min(ENTRIES as u64) as usize)
    }

    /// All entries in use.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.made() as u64)
            .filter_map(|place| Entry::at(&self.map, self.listed(place)?).ok())
            .filter(|entry| entry.key().is_some())
    }

    /// Approximate number of files in the filter.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.files_without_entry().map_or(0, |unlisted| unlisted.count())
    }

    /// Claims a mark for the calling thread. `None` if the near ones are taken.
    #[must_use]
    pub fn claim_mark(&self, thread: u32) -> Option<MarkPlace> {
        self.marks().claim(thread, is_there)
    }

    /// A claimed mark.
    #[inline]
    #[must_use]
    pub fn mark(&self, place: MarkPlace) -> Option<Mark<'_>> {
        let at = MARKED + (place.0 as usize % MARKS) * MARK_BYTES;
        self.map.words_at(at).map(Mark).ok()
    }

    /// Whether a system call that writes the file or uses its position is in flight. Call after storing the level and running
    /// [`byway_sys::barrier::for_registered`].
    #[must_use]
    pub fn is_under_way(&self, entry: Entry<'_>) -> bool {
        entry.resident_state().is_counted() || self.marks().has(entry.index(), is_there)
    }

    fn marks<'b>(&'b self) -> Marks<impl Fn(usize) -> Option<Mark<'b>>> {
        Marks(|place| self.mark(MarkPlace(place as u32)))
    }

    /// Records that a file may be DAX-resident from now on.
    pub fn note_resident_files(&self) {
        if let Ok(resident_files) = self.word(front::RESIDENT_FILES) {
            resident_files.store(1, Ordering::SeqCst);
        }
    }

    /// Whether any file may be, or have been, DAX-resident.
    #[inline]
    #[must_use]
    pub fn may_have_resident_files(&self) -> bool {
        self.word(front::RESIDENT_FILES)
            .is_ok_and(|resident_files| resident_files.load(Ordering::Relaxed) != 0)
    }

    /// Stores the daemon epoch.
    pub fn set_daemon_epoch(&self, daemon_epoch: u32) {
        if let Ok(word) = self.word(front::DAEMON_EPOCH) {
            word.store(daemon_epoch.into(), Ordering::SeqCst);
        }
    }

    /// The daemon epoch: changes with every daemon.
    #[inline]
    #[must_use]
    pub fn daemon_epoch(&self) -> u32 {
        self.word(front::DAEMON_EPOCH).map_or(0, |word| word.load(Ordering::Relaxed) as u32)
    }

    /// Records that the daemon is alive.
    pub fn set_seen(&self, now_ns: u64) {
        if let Ok(word) = self.word(front::SEEN_NS) {
            word.store(now_ns, Ordering::Relaxed);
        }
    }

    /// When the daemon was last alive, in ns of the monotonic clock.
    #[inline]
    #[must_use]
    pub fn seen_ns(&self) -> u64 {
        self.word(front::SEEN_NS).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// The entries that may be the file's, in probing order.
    fn probe(&self, key: FileKey) -> impl Iterator<Item = Entry<'_>> {
        const LOOKS: u64 = 64;
        let first = key.hash();
        (0..LOOKS).filter_map(move |look| {
            let number = (first.wrapping_add(look) % ENTRIES as u64) as u32;
            Entry::at(&self.map, number).ok()
        })
    }

    fn lock(&self) -> Result<RobustLock<'_>, MapError> {
        RobustLock::at(&self.map, front::LOCK)
    }

    fn files_without_entry(&self) -> Result<Unlisted<'_>, MapError> {
        let half = |i: usize| {
            let bits = self.map.words_at(UNLISTED + i * HALF_BYTES)?;
            Ok(Half { count: self.word(front::COUNTS + i * 8)?, bits })
        };
        Ok(Unlisted::new(self.word(front::GENERATION)?, [half(0)?, half(1)?]))
    }

    pub(super) fn word(&self, at: usize) -> Result<&AtomicU64, MapError> {
        self.map.words_at::<1>(at).map(|[word]| word)
    }
}

fn is_there(thread: u32) -> bool {
    byway_sys::thread::is_there(thread)
}

#[cfg(test)]
mod tests;
