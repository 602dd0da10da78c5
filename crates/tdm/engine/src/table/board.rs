//! The mapping that all of a user's programs share with the daemon.

use std::io;
use std::time::Duration;

use byway_sys::Mapping;
use byway_sys::map::MapError;
use byway_sys::robust::RobustLock;
use thiserror::Error;

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::entry::Entry;
use crate::table::index::EntryIndex;
use crate::table::key::FileKey;
use crate::table::layout::{BOARD_BYTES, HALF_BYTES, LIST, MAGIC, MARKED, UNLISTED, front};
use crate::table::level::Why;
use crate::table::marks::{MARK_BYTES, MARKS, Mark, MarkPlace, Marks};
use crate::table::unlisted::{Half, Unlisted};

/// Files of a board. Its memory is all taken when it is made: none that programs touch later could be missing.
pub const ENTRIES: usize = 10240;

/// How long a daemon waits for the board's lock, which a program may keep for ever.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a program waits for it that opens a file.
const OPENING: Duration = Duration::from_secs(1);

/// Why a board cannot be used.
#[derive(Debug, Error)]
pub enum BoardError {
    /// It is of another version, or no board.
    #[error("no board of this version: {0:#018x}")]
    Magic(u64),
    /// It is too small.
    #[error(transparent)]
    Outside(#[from] MapError),
    /// What the system says.
    #[error("the board's lock cannot be used")]
    Lock(#[from] io::Error),
}

/// A board.
#[derive(Debug)]
pub struct Board {
    map: Mapping,
}

/// One step of making an entry, under the board's lock.
type Step = fn(&Board, Entry<'_>, FileKey) -> Result<(), BoardError>;

/// All of them. Whoever makes one may be killed behind any step: an entry that is found by its file is in the list, which is all that a daemon looks at.
const MAKING: [Step; 2] = [Board::enlist, Board::assign];

impl Board {
    /// Makes a board in memory of zeroes that nobody else uses yet.
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn make(map: Mapping) -> Result<Self, BoardError> {
        let board = Self::over(map)?;
        board.lock()?.make();
        board.word(front::MAGIC)?.store(MAGIC, Ordering::SeqCst);
        Ok(board)
    }

    /// The board that is in that memory.
    ///
    /// # Errors
    /// [`BoardError::Magic`] for one of another version.
    pub fn open(map: Mapping) -> Result<Self, BoardError> {
        let board = Self::over(map)?;
        match board.word(front::MAGIC)?.load(Ordering::SeqCst) {
            MAGIC => Ok(board),
            other => Err(BoardError::Magic(other)),
        }
    }

    fn over(map: Mapping) -> Result<Self, BoardError> {
        if map.len() < BOARD_BYTES {
            return Err(MapError { at: 0, len_bytes: BOARD_BYTES, mapped_bytes: map.len() }.into());
        }
        Ok(Self { map })
    }

    /// The entry of a file, if there is one.
    #[must_use]
    pub fn find(&self, key: FileKey) -> Option<Entry<'_>> {
        self.probe(key).take_while(Entry::is_or_was_used).find(|entry| entry.key() == Some(key))
    }

    /// The entry of a file that was just opened, made if there is none; `None` where there is no room: it is left out then.
    ///
    /// # Errors
    /// [`BoardError::Lock`]: it is left out too.
    pub fn find_or_make(&self, key: FileKey) -> Result<Option<Entry<'_>>, BoardError> {
        if let Some(entry) = self.find(key).filter(|entry| entry.open_as(key)) {
            return Ok(Some(entry));
        }
        let _held = self.lock()?.lock_within(OPENING).inspect_err(|_| self.leave_out(key))?;
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
        // Nobody takes it away meanwhile.
        entry.open_as(key);
        Ok(Some(entry))
    }

    /// Takes an entry's file away that nobody has open, if it was opened no more often than that: whoever has its index has none from then on. Says
    /// whether it did.
    pub fn give_back(&self, entry: Entry<'_>, opened: u64) -> bool {
        let Ok(lock) = self.lock() else { return false };
        let Ok(_held) = lock.lock_within(PATIENCE) else { return false };
        let (Ok(giving), Some(key)) = (self.word(front::GIVING), entry.key()) else { return false };
        giving.store(key.inode, Ordering::SeqCst);
        let is_done = self.entry(entry.index()).is_some_and(|entry| entry.give_back(opened));
        giving.store(0, Ordering::SeqCst);
        is_done
    }

    /// Sees whether a daemon before this one was killed while it gave an entry back: of that file somebody may have found none, or another one.
    pub fn see_what_was_left(&self) {
        let (Ok(giving), Ok(unlisted)) = (self.word(front::GIVING), self.files_unlisted()) else { return };
        match giving.load(Ordering::SeqCst) {
            0 => {}
            inode => unlisted.add(inode),
        }
        giving.store(0, Ordering::SeqCst);
    }

    /// Puts an entry into the list, if whoever made it before did not get that far: under the board's lock.
    fn enlist(&self, entry: Entry<'_>, _: FileKey) -> Result<(), BoardError> {
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

    /// Makes it a file's.
    fn assign(&self, entry: Entry<'_>, key: FileKey) -> Result<(), BoardError> {
        Ok(entry.become_of(key)?)
    }

    /// The number of the entry at a place of the list.
    fn listed(&self, place: u64) -> Option<u32> {
        let at = usize::try_from(place).ok().filter(|at| *at < ENTRIES)?;
        let word = self.word(LIST + at * 8).ok()?.load(Ordering::SeqCst);
        u32::try_from(word).ok().filter(|number| (*number as usize) < ENTRIES)
    }

    /// A file was opened for writing that gets no entry: it is not absorbed until nobody has it open. Nothing is waited for.
    pub fn leave_out(&self, key: FileKey) {
        let bar = || {
            if let Some(entry) = self.find(key) {
                entry.bar(Why::BoardFull);
            }
        };
        match self.files_unlisted() {
            Ok(unlisted) => unlisted.leave_out(key.inode, bar),
            Err(_) => bar(),
        }
    }

    /// Whether a file may be one of those that were left out.
    #[must_use]
    pub fn is_left_out(&self, key: FileKey) -> bool {
        self.files_unlisted().is_ok_and(|unlisted| unlisted.has(key.inode))
    }

    /// Forgets files that were left out, but those that have one of these inodes: all that is open, as a look found that began since this
    /// was called last.
    pub fn forget_closed(&self, open: impl Iterator<Item = u64>) {
        if let Ok(unlisted) = self.files_unlisted() {
            unlisted.keep(open);
        }
    }

    /// A program has files open which the system does not tell of: none that was left out is forgotten.
    pub fn hide(&self) {
        if let Ok(hiding) = self.word(front::HIDING) {
            hiding.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often programs said so that may be there.
    #[must_use]
    pub fn hiding(&self) -> u64 {
        self.word(front::HIDING).map_or(u64::MAX, |hiding| hiding.load(Ordering::SeqCst))
    }

    /// So many times it was said by programs that are gone.
    pub fn forget_hiding(&self, times: u64) {
        if let Ok(hiding) = self.word(front::HIDING) {
            hiding.fetch_sub(times, Ordering::SeqCst);
        }
    }

    /// An entry by its index; `None` for one that was given back since.
    #[inline]
    #[must_use]
    pub fn entry(&self, index: EntryIndex) -> Option<Entry<'_>> {
        Entry::at(&self.map, index.number()).ok().filter(|entry| entry.index() == index)
    }

    /// How many entries were ever some file's: no fewer than are now.
    #[must_use]
    pub fn made(&self) -> usize {
        self.word(front::USED).map_or(0, |used| used.load(Ordering::SeqCst).min(ENTRIES as u64) as usize)
    }

    /// Every entry that is some file's.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.made() as u64)
            .filter_map(|place| Entry::at(&self.map, self.listed(place)?).ok())
            .filter(|entry| entry.key().is_some())
    }

    /// How many files were left out and may be open, about; none where there is none.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.files_unlisted().map_or(0, |unlisted| unlisted.count())
    }

    /// A place where the calling thread says which call it has under way; `None` where there is none.
    #[must_use]
    pub fn claim_mark(&self, thread: u32) -> Option<MarkPlace> {
        self.marks().claim(thread, is_there)
    }

    /// That place.
    #[inline]
    #[must_use]
    pub fn mark(&self, place: MarkPlace) -> Option<Mark<'_>> {
        let at = MARKED + (place.0 as usize % MARKS) * MARK_BYTES;
        self.map.words_at(at).map(Mark).ok()
    }

    /// Whether a call of the kernel is under way that may write a file, or move or ask for its position: asked behind a barrier for all
    /// ([`byway_sys::barrier::for_registered`]), behind moving its level.
    #[must_use]
    pub fn is_under_way(&self, entry: Entry<'_>) -> bool {
        entry.housed().is_counted() || self.marks().has(entry.index(), is_there)
    }

    fn marks<'b>(&'b self) -> Marks<impl Fn(usize) -> Option<Mark<'b>>> {
        Marks(|place| self.mark(MarkPlace(place as u32)))
    }

    /// A file may have device memory as its home from here on.
    pub fn open_house(&self) {
        if let Ok(houses) = self.word(front::HOUSES) {
            houses.store(1, Ordering::SeqCst);
        }
    }

    /// Whether a file may have device memory as its home, now or before.
    #[inline]
    #[must_use]
    pub fn has_houses(&self) -> bool {
        self.word(front::HOUSES).is_ok_and(|houses| houses.load(Ordering::Relaxed) != 0)
    }

    /// Another daemon serves from here on.
    pub fn set_reign(&self, reign: u32) {
        if let Ok(word) = self.word(front::REIGN) {
            word.store(reign.into(), Ordering::SeqCst);
        }
    }

    /// Which daemon it is.
    #[inline]
    #[must_use]
    pub fn reign(&self) -> u32 {
        self.word(front::REIGN).map_or(0, |word| word.load(Ordering::Relaxed) as u32)
    }

    /// The daemon is there.
    pub fn set_seen(&self, now_ns: u64) {
        if let Ok(word) = self.word(front::SEEN_NS) {
            word.store(now_ns, Ordering::Relaxed);
        }
    }

    /// When it was there last, on the monotonic clock, in nanoseconds.
    #[inline]
    #[must_use]
    pub fn seen_ns(&self) -> u64 {
        self.word(front::SEEN_NS).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// The entries where a file's may be, nearest first.
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

    fn files_unlisted(&self) -> Result<Unlisted<'_>, MapError> {
        let half = |i: usize| {
            let bits = self.map.words_at(UNLISTED + i * HALF_BYTES)?;
            Ok(Half { count: self.word(front::COUNTS + i * 8)?, bits })
        };
        Ok(Unlisted::new(self.word(front::TURNS)?, [half(0)?, half(1)?]))
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
