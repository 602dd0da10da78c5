//! One file on the board.

use std::io;
use std::time::Duration;

use crate::log::{Cursor, Position, RingPlace};
use crate::resident::HomeWords;
use byway_sys::Mapping;
use byway_sys::map::MapError;
use byway_sys::robust::{Held, Locked, RobustLock};
use byway_sys::time::monotonic_ns;
use byway_tdm_policy::Level;

use crate::table::atomic::{AtomicU64, Ordering};
use crate::table::attributes::Attributes;
use crate::table::board::ENTRIES;
use crate::table::counters::Counters;
use crate::table::housed::Housed;
use crate::table::index::{EntryIndex, NUMBER_BITS};
use crate::table::key::FileKey;
use crate::table::layout::{ENTRY_BYTES, FRONT_BYTES, entry};
use crate::table::level::{Standing, Why};
use crate::table::served::Served;
use crate::table::times::Times;
use crate::table::whose::Whose;

const _: () = assert!(ENTRIES <= 1 << NUMBER_BITS);

/// Whoever keeps a file's lock for longer may stand still (SIGSTOP, a debugger), or have left it by a jump out of a signal handler.
const PATIENCE: Duration = Duration::from_secs(1);

/// Of those who come while somebody has waited in vain not long ago.
const IMPATIENCE: Duration = Duration::from_millis(1);

/// So long that is not long ago.
const REMEMBERED_NS: u64 = 10_000_000_000;

/// The words that say where a file's ring is.
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
        Ok(Self { uses: entry.whose().uses(), ..entry })
    }

    /// The words at `at` bytes of the entry: a place of the layout, so that nothing is left to be checked when it runs.
    #[inline]
    fn part<const WORDS: usize>(&self, at: usize) -> &'b [AtomicU64; WORDS] {
        let Some(part) = self.words[at / 8..].first_chunk() else {
            unreachable!("parts are inside of an entry")
        };
        part
    }

    #[inline]
    fn whose(&self) -> Whose<'b> {
        let [opened] = self.part(entry::OPENED);
        let [place] = self.part(entry::PLACE);
        Whose { key: self.part(entry::KEY), opened, place }
    }

    #[inline]
    fn served(&self) -> Served<'b> {
        let [standing] = self.part(entry::STANDING);
        let (ring, cursor, attributes) = (self.part(entry::RING), self.cursor(), self.attributes());
        Served { standing, ring, cursor, attributes }
    }

    fn robust_lock(&self) -> Result<RobustLock<'b>, MapError> {
        RobustLock::at(self.map, start_of(self.number) + entry::LOCK)
    }

    /// Which entry it is.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> EntryIndex {
        EntryIndex(self.uses << NUMBER_BITS | self.number)
    }

    /// Which file; `None` for an entry of no file.
    #[must_use]
    pub fn key(&self) -> Option<FileKey> {
        self.whose().key()
    }

    /// Whether it is or was some file's: what is looked for may be behind it.
    pub(super) fn is_or_was_used(&self) -> bool {
        self.whose().is_or_was_used()
    }

    /// Its file was opened once more: says so, and whether it is this file's still.
    pub(super) fn open_as(&self, key: FileKey) -> bool {
        self.whose().open_as(key, self.uses)
    }

    /// How often its file was opened.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.whose().opened()
    }

    /// Takes its file away, under the board's lock; not if it is no file's, is served, or was opened more often than that.
    pub(super) fn give_back(&self, opened: u64) -> bool {
        self.whose().give_back(opened, || self.level() == Level::Pass)
    }

    #[cfg(test)]
    pub(super) fn lose_file(&self) {
        self.whose().lose_file();
    }

    /// Its level, and why.
    #[inline]
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.served().standing()
    }

    /// Its level alone.
    #[inline]
    #[must_use]
    pub fn level(&self) -> Level {
        self.served().level()
    }

    /// Moves it to a level: by whoever holds the lock. One that was barred goes no higher than PASS, and keeps its reason; says
    /// whether it went.
    pub fn move_to(&self, level: Level, why: Why) -> bool {
        self.served().move_to(level, why)
    }

    /// Says why it is not served, if it is at PASS and nothing else was said for good.
    pub fn explain(&self, why: Why) {
        self.served().explain(why);
    }

    /// Something unseen may write it from now on: nothing more is logged before a real sync, and the daemon takes it down to PASS.
    pub fn bar(&self, why: Why) {
        self.served().bar(why);
    }

    /// Whoever barred it takes that back: it may be promoted again.
    pub fn unbar(&self) {
        self.served().unbar();
    }

    /// What was done to it at PASS is done, and is in no log: one that has begun since is suspended.
    #[inline]
    pub fn look_again(&self) {
        self.served().look_again();
    }

    /// Its writers log in that ring from here on, after the next real sync: by whoever holds the lock. Not if it was barred, as somebody may write it unseen; says
    /// whether they do.
    pub fn begin_log(&self, ring: RingWords, why: Why) -> bool {
        self.served().begin_log(ring, why)
    }

    /// Whether it is absorbed, with that ring for its log.
    #[must_use]
    pub fn is_logged_in(&self, ring: RingWords) -> bool {
        self.served().is_logged_in(ring)
    }

    /// Where its ring is, if it has one.
    #[inline]
    #[must_use]
    pub fn ring(&self) -> RingWords {
        self.served().ring()
    }

    /// Gives it a ring: by whoever holds the lock.
    pub fn set_ring(&self, ring: RingWords) {
        self.served().set_ring(ring);
    }

    /// Where its log stands.
    #[inline]
    #[must_use]
    pub fn cursor(&self) -> Cursor<'b> {
        Cursor::new(self.part(entry::CURSOR))
    }

    /// What was changed of it beside its bytes.
    #[inline]
    #[must_use]
    pub fn attributes(&self) -> Attributes<'b> {
        Attributes(self.part(entry::ATTRIBUTES))
    }

    /// What is counted of it.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> Counters<'b> {
        Counters(self.part(entry::COUNTERS))
    }

    /// How long calls of it took.
    #[inline]
    #[must_use]
    pub fn times(&self) -> Times<'b> {
        Times(self.part(entry::TIMES))
    }

    /// What it is while device memory is its home.
    #[inline]
    #[must_use]
    pub fn home_words(&self) -> HomeWords<'b> {
        HomeWords::new(self.part(entry::HOME))
    }

    /// What else is known of it then.
    #[inline]
    #[must_use]
    pub fn housed(&self) -> Housed<'b> {
        Housed(self.part(entry::HOUSED))
    }

    /// Waits for the file's lock. Whoever died with it may have written below without a record, or in a home: then nothing is logged
    /// before a real sync, and all of a home is written back by the next.
    ///
    /// # Errors
    /// What the system says.
    #[inline]
    pub fn lock(&self) -> io::Result<Held<'b>> {
        self.found(self.robust_lock().map_err(io::Error::other)?.lock()?)
    }

    /// The same for a program that goes past it where its holder stands still.
    ///
    /// # Errors
    /// `TimedOut`, EDEADLK to the thread that holds it, or what the system says.
    #[inline]
    pub fn lock_or_pass(&self) -> io::Result<Held<'b>> {
        let lock = self.robust_lock().map_err(io::Error::other)?;
        match lock.lock_as_long_as(|| self.patience()) {
            Ok(held) => self.found(held),
            Err(error) => Err(self.gave_up(error)),
        }
    }

    /// The same for a program whose file is at home: nobody goes past that lock, but the file goes below where its holder stands still.
    ///
    /// # Errors
    /// As [`Entry::lock_or_pass`].
    #[inline]
    pub fn lock_at_home(&self) -> io::Result<Held<'b>> {
        self.lock_within(PATIENCE)
    }

    /// Whether this thread has the lock.
    #[must_use]
    pub fn is_locked_by_me(&self) -> bool {
        self.robust_lock().is_ok_and(|lock| lock.is_mine())
    }

    /// Somebody has waited in vain for whoever holds the lock.
    #[cold]
    pub fn give_up(&self) {
        self.given_up_ns().store(monotonic_ns(), Ordering::Relaxed);
    }

    /// Nobody does any more.
    pub fn forget_given_up(&self) {
        self.given_up_ns().store(0, Ordering::Relaxed);
    }

    /// When somebody did last, on the monotonic clock; zero if nobody did.
    #[must_use]
    pub fn gave_up_ns(&self) -> u64 {
        self.given_up_ns().load(Ordering::Relaxed)
    }

    #[cold]
    fn patience(&self) -> Duration {
        let since_ns = monotonic_ns().saturating_sub(self.given_up_ns().load(Ordering::Relaxed));
        if since_ns < REMEMBERED_NS { IMPATIENCE } else { PATIENCE }
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

    /// The same for a daemon, which cannot wait for a program that never lets go.
    ///
    /// # Errors
    /// `TimedOut`, or what the system says.
    #[inline]
    pub fn lock_within(&self, patience: Duration) -> io::Result<Held<'b>> {
        self.found(self.robust_lock().map_err(io::Error::other)?.lock_within(patience)?)
    }

    /// Waits for the lock of who brings the file below from its home. It is another one: whoever stands still with the file's is not waited for.
    ///
    /// # Errors
    /// `TimedOut`, EDEADLK to the thread that holds it, or what the system says.
    pub fn lock_to_leave(&self, patience: Duration) -> io::Result<Held<'b>> {
        self.leaving().map_err(io::Error::other)?.lock_within(patience)
    }

    /// Whether somebody brings it below just now.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving().is_ok_and(|lock| lock.is_held())
    }

    /// Whether it is this thread that does, below the signal handler that it is in.
    #[must_use]
    pub fn is_leaving_by_me(&self) -> bool {
        self.leaving().is_ok_and(|lock| lock.is_mine())
    }

    fn leaving(&self) -> Result<RobustLock<'b>, MapError> {
        RobustLock::at(self.map, start_of(self.number) + entry::LEAVING)
    }

    #[inline]
    fn found(&self, held: Held<'b>) -> io::Result<Held<'b>> {
        if held.locked() == Locked::OwnerDied {
            self.cursor().suspend();
            self.home_words().suspect();
        }
        Ok(held)
    }

    /// Where in the board's list it is, or was to be when somebody was killed.
    pub(super) fn place(&self) -> u64 {
        self.whose().place()
    }

    pub(super) fn set_place(&self, place: u64) {
        self.whose().set_place(place);
    }

    /// Makes it an entry of `key`, under the board's lock.
    pub(super) fn become_of(&self, key: FileKey) -> io::Result<()> {
        if self.is_or_was_used() {
            // A daemon that was killed while it gave it back may not have come to that.
            self.whose().end_use();
        }
        self.robust_lock().map_err(io::Error::other)?.make();
        self.leaving().map_err(io::Error::other)?.make();
        self.served().standing.store(Standing::NEW.to_word(), Ordering::SeqCst);
        self.set_ring(RingPlace::NOWHERE);
        for counter in self.counters().0 {
            counter.store(0, Ordering::Relaxed);
        }
        self.given_up_ns().store(0, Ordering::Relaxed);
        self.attributes().clear();
        self.times().clear();
        self.housed().clear();
        self.cursor().begin(Position(0));
        self.whose().become_of(key);
        Ok(())
    }
}

const fn start_of(number: u32) -> usize {
    FRONT_BYTES + number as usize * ENTRY_BYTES
}
