//! One file's entry in the shared file table.

use std::io;
use std::time::Duration;

use crate::log::{Cursor, Position, RingPlace};
use crate::resident::ResidentWords;
use byway_sys::Mapping;
use byway_sys::map::MapError;
use byway_sys::robust::{Held, Locked, RobustLock};
use byway_sys::time::monotonic_ns;
use byway_tdm_policy::{Level, Reason};

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::attributes::Attributes;
use crate::table::counters::Counters;
use crate::table::file_table::ENTRIES;
use crate::table::index::{EntryIndex, NUMBER_BITS};
use crate::table::key::FileKey;
use crate::table::layout::{ENTRY_BYTES, FRONT_BYTES, entry};
use crate::table::level::LevelState;
use crate::table::owner::Owner;
use crate::table::resident_state::ResidentState;
use crate::table::served::Served;
use crate::table::times::Times;

const _: () = assert!(ENTRIES <= 1 << NUMBER_BITS);

/// Lock timeout: a holder may be stopped (SIGSTOP, a debugger), or have jumped out of the call from a signal handler.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Lock timeout while an earlier waiter's timeout is recent.
const RETRY_TIMEOUT: Duration = Duration::from_millis(1);

/// How long a timeout counts as recent: 10 s.
const REMEMBERED_NS: u64 = 10_000_000_000;

/// Place of a file's ring.
pub type RingWords = RingPlace;

/// One file's words.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'b> {
    number: u32,
    uses: u32,
    words: &'b [AtomicU64; ENTRY_BYTES / 8],
    map: &'b Mapping,
}

impl<'b> Entry<'b> {
    #[inline]
    pub(super) fn at(map: &'b Mapping, number: u32) -> Result<Self, MapError> {
        let words: &[AtomicU64; ENTRY_BYTES / 8] = map.words_at(start_of(number))?;
        let entry = Self { number, uses: 0, words, map };
        Ok(Self { uses: entry.owner().uses(), ..entry })
    }

    /// The words at a constant offset of the entry, checked at compile time.
    #[inline]
    fn part<const WORDS: usize>(&self, at: usize) -> &'b [AtomicU64; WORDS] {
        let Some(part) = self.words[at / 8..].first_chunk() else {
            unreachable!("parts are inside of an entry")
        };
        part
    }

    #[inline]
    fn owner(&self) -> Owner<'b> {
        let [opened] = self.part(entry::OPENED);
        let [place] = self.part(entry::PLACE);
        Owner { key: self.part(entry::KEY), opened, place }
    }

    #[inline]
    fn served(&self) -> Served<'b> {
        let [level_state] = self.part(entry::LEVEL_STATE);
        let (ring, cursor, attributes) = (self.part(entry::RING), self.cursor(), self.attributes());
        Served { level_state, ring, cursor, attributes }
    }

    fn robust_lock(&self) -> Result<RobustLock<'b>, MapError> {
        RobustLock::at(self.map, start_of(self.number) + entry::LOCK)
    }

    /// Its index.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> EntryIndex {
        EntryIndex(self.uses << NUMBER_BITS | self.number)
    }

    /// Its file. `None` for an unused entry.
    #[must_use]
    pub fn key(&self) -> Option<FileKey> {
        self.owner().key()
    }

    /// Whether the entry was ever used: probing continues behind it.
    pub(super) fn is_or_was_used(&self) -> bool {
        self.owner().is_or_was_used()
    }

    /// Counts an open of the file. `false` if the entry is another file's by now.
    pub(super) fn open_as(&self, key: FileKey) -> bool {
        self.owner().open_as(key, self.uses)
    }

    /// Number of opens counted.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.owner().opened()
    }

    /// Reclaims the entry. `false` if it is unused, its file is served, or opens were counted beyond `opened`. Needs the table's lock.
    pub(super) fn give_back(&self, opened: u64) -> bool {
        self.owner().give_back(opened, || self.level() == Level::Pass)
    }

    #[cfg(test)]
    pub(super) fn clear_file(&self) {
        self.owner().clear_file();
    }

    /// Level and reason.
    #[inline]
    #[must_use]
    pub fn level_state(&self) -> LevelState {
        self.served().level_state()
    }

    /// Level only: one load.
    #[inline]
    #[must_use]
    pub fn level(&self) -> Level {
        self.served().level()
    }

    /// Changes the level. A barred file goes no higher than PASS and keeps its reason. `false` if the level did not change. Needs the file's lock.
    pub fn move_to(&self, level: Level, why: Reason) -> bool {
        self.served().move_to(level, why)
    }

    /// Sets the reason of a file at PASS, unless it is barred.
    pub fn explain(&self, why: Reason) {
        self.served().explain(why);
    }

    /// Bars the file, as something may write it without records: the log is suspended and the daemon demotes the file.
    pub fn bar(&self, why: Reason) {
        self.served().bar(why);
    }

    /// Unbars the file: it may be promoted again.
    pub fn unbar(&self) {
        self.served().unbar();
    }

    /// After a change at PASS, which has no record: suspends a log that began meanwhile.
    #[inline]
    pub fn look_again(&self) {
        self.served().look_again();
    }

    /// Sets the level to ABSORB with this ring; logging begins at the next real sync. `false` if the file is barred. Needs the file's lock.
    pub fn begin_log(&self, ring: RingWords, why: Reason) -> bool {
        self.served().begin_log(ring, why)
    }

    /// Whether it is absorbed with that ring.
    #[must_use]
    pub fn is_logged_in(&self, ring: RingWords) -> bool {
        self.served().is_logged_in(ring)
    }

    /// Its ring, or [`RingPlace::NOWHERE`].
    #[inline]
    #[must_use]
    pub fn ring(&self) -> RingWords {
        self.served().ring()
    }

    /// Sets the ring. Needs the file's lock.
    pub fn set_ring(&self, ring: RingWords) {
        self.served().set_ring(ring);
    }

    /// Cursor of its log.
    #[inline]
    #[must_use]
    pub fn cursor(&self) -> Cursor<'b> {
        Cursor::new(self.part(entry::CURSOR))
    }

    /// Attribute changes that no sync has persisted.
    #[inline]
    #[must_use]
    pub fn attributes(&self) -> Attributes<'b> {
        Attributes(self.part(entry::ATTRIBUTES))
    }

    /// Counters.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> Counters<'b> {
        Counters(self.part(entry::COUNTERS))
    }

    /// Times of sampled calls.
    #[inline]
    #[must_use]
    pub fn times(&self) -> Times<'b> {
        Times(self.part(entry::TIMES))
    }

    /// Size and dirty range, while it is DAX-resident.
    #[inline]
    #[must_use]
    pub fn resident_words(&self) -> ResidentWords<'b> {
        ResidentWords::new(self.part(entry::RESIDENT))
    }

    /// Position, terms and counted calls.
    #[inline]
    #[must_use]
    pub fn resident_state(&self) -> ResidentState<'b> {
        ResidentState(self.part(entry::RESIDENT_STATE))
    }

    /// Takes the file's lock. If a holder died, the log is suspended until a real sync, and all of a resident file counts as dirty.
    ///
    /// # Errors
    /// What the system says.
    #[inline]
    pub fn lock(&self) -> io::Result<Held<'b>> {
        self.found(self.robust_lock().map_err(io::Error::other)?.lock()?)
    }

    /// As [`Entry::lock`] with a timeout, for a program that bypasses a stopped holder.
    ///
    /// # Errors
    /// `TimedOut`, EDEADLK to the thread that holds it, or what the system says.
    #[inline]
    pub fn lock_or_bypass(&self) -> io::Result<Held<'b>> {
        let lock = self.robust_lock().map_err(io::Error::other)?;
        match lock.lock_as_long_as(|| self.timeout()) {
            Ok(held) => self.found(held),
            Err(error) => Err(self.gave_up(error)),
        }
    }

    /// As [`Entry::lock`] with a timeout, for a DAX-resident file, which is demoted past a stopped holder.
    ///
    /// # Errors
    /// As [`Entry::lock_or_bypass`].
    #[inline]
    pub fn lock_resident(&self) -> io::Result<Held<'b>> {
        self.lock_within(LOCK_TIMEOUT)
    }

    /// Whether this thread holds the lock.
    #[must_use]
    pub fn is_locked_by_me(&self) -> bool {
        self.robust_lock().is_ok_and(|lock| lock.is_mine())
    }

    /// Records that a waiter timed out.
    #[cold]
    pub fn give_up(&self) {
        self.given_up_ns().store(monotonic_ns(), Ordering::Relaxed);
    }

    /// Clears that record.
    pub fn forget_given_up(&self) {
        self.given_up_ns().store(0, Ordering::Relaxed);
    }

    /// When a waiter last timed out, in ns of the monotonic clock; zero if none did.
    #[must_use]
    pub fn gave_up_ns(&self) -> u64 {
        self.given_up_ns().load(Ordering::Relaxed)
    }

    #[cold]
    fn timeout(&self) -> Duration {
        let since_ns = monotonic_ns().saturating_sub(self.given_up_ns().load(Ordering::Relaxed));
        if since_ns < REMEMBERED_NS { RETRY_TIMEOUT } else { LOCK_TIMEOUT }
    }

    #[cold]
    fn gave_up(&self, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::TimedOut {
            self.give_up();
        }
        error
    }

    fn given_up_ns(&self) -> &'b AtomicU64 {
        &self.part::<1>(entry::GIVEN_UP_NS)[0]
    }

    /// Takes the lock, with a timeout: for the daemon.
    ///
    /// # Errors
    /// `TimedOut`, or what the system says.
    #[inline]
    pub fn lock_within(&self, timeout: Duration) -> io::Result<Held<'b>> {
        self.found(self.robust_lock().map_err(io::Error::other)?.lock_within(timeout)?)
    }

    /// Takes the demotion lock, with a timeout. It is separate from the file's lock, whose holder may be stopped.
    ///
    /// # Errors
    /// `TimedOut`, EDEADLK to the thread that holds it, or what the system says.
    pub fn lock_for_demotion(&self, timeout: Duration) -> io::Result<Held<'b>> {
        self.leaving().map_err(io::Error::other)?.lock_within(timeout)
    }

    /// Whether the file is being demoted.
    #[must_use]
    pub fn is_being_demoted(&self) -> bool {
        self.leaving().is_ok_and(|lock| lock.is_held())
    }

    /// Whether this thread is demoting it, below the signal handler that it runs.
    #[must_use]
    pub fn is_demoted_by_me(&self) -> bool {
        self.leaving().is_ok_and(|lock| lock.is_mine())
    }

    fn leaving(&self) -> Result<RobustLock<'b>, MapError> {
        RobustLock::at(self.map, start_of(self.number) + entry::DEMOTING)
    }

    #[inline]
    fn found(&self, held: Held<'b>) -> io::Result<Held<'b>> {
        if held.locked() == Locked::OwnerDied {
            self.cursor().suspend();
            self.resident_words().suspect();
        }
        Ok(held)
    }

    /// Position in the table's list.
    pub(super) fn place(&self) -> u64 {
        self.owner().place()
    }

    pub(super) fn set_place(&self, place: u64) {
        self.owner().set_place(place);
    }

    /// Makes it the entry of `key`. Needs the table's lock.
    pub(super) fn become_of(&self, key: FileKey) -> io::Result<()> {
        if self.is_or_was_used() {
            // A daemon killed while it reclaimed the entry may not have counted that use.
            self.owner().end_use();
        }
        self.robust_lock().map_err(io::Error::other)?.make();
        self.leaving().map_err(io::Error::other)?.make();
        self.served().level_state.store(LevelState::NEW.to_word(), Ordering::SeqCst);
        self.set_ring(RingPlace::NOWHERE);
        for counter in self.counters().0 {
            counter.store(0, Ordering::Relaxed);
        }
        self.given_up_ns().store(0, Ordering::Relaxed);
        self.attributes().clear();
        self.times().clear();
        self.resident_state().clear();
        self.cursor().begin(Position(0));
        self.owner().become_of(key);
        Ok(())
    }
}

const fn start_of(number: u32) -> usize {
    FRONT_BYTES + number as usize * ENTRY_BYTES
}
