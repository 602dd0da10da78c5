//! One file on the board.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use byway_sys::Mapping;
use byway_sys::map::MapError;
use byway_sys::robust::{Held, Locked, RobustLock};
use byway_sys::time::monotonic_ns;
use byway_tdm_home::HomeWords;
use byway_tdm_log::{Cursor, Position, RingPlace};
use byway_tdm_policy::Level;

use crate::attributes::Attributes;
use crate::board::ENTRIES;
use crate::counters::Counters;
use crate::housed::Housed;
use crate::key::FileKey;
use crate::layout::{ENTRY_BYTES, FRONT_BYTES, entry};
use crate::level::{Standing, Why};
use crate::times::Times;

/// Which entry of a board, and of which use: one that was given back and is another file's since has another index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryIndex(pub u32);

/// Uses of an entry that are told from each other.
const USES: u32 = 1 << 15;

/// Below the use in an index: every call looks its file's entry up, and parts the two by a mask.
const NUMBER_BITS: u32 = 14;

const _: () = assert!(ENTRIES <= 1 << NUMBER_BITS);

/// Whoever keeps a file's lock for longer may stand still (SIGSTOP, a debugger), or have left it by a jump out of a signal handler.
const PATIENCE: Duration = Duration::from_secs(1);

/// Of those who come while somebody has waited in vain not long ago.
const IMPATIENCE: Duration = Duration::from_millis(1);

/// So long that is not long ago.
const REMEMBERED_NS: u64 = 10_000_000_000;

impl EntryIndex {
    /// Which of all entries.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

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
    pub(crate) fn at(map: &'b Mapping, number: u32) -> Result<Self, MapError> {
        let words: &[AtomicU64; ENTRY_BYTES / 8] = map.words_at(start_of(number))?;
        let uses = (words[entry::PLACE / 8].load(Ordering::Acquire) >> 32) as u32 % USES;
        Ok(Self { number, uses, words, map })
    }

    /// The words at `at` bytes of the entry: a place of the layout, so that nothing is left to be checked when it runs.
    #[inline]
    fn part<const WORDS: usize>(&self, at: usize) -> &'b [AtomicU64; WORDS] {
        let Some(part) = self.words[at / 8..].first_chunk() else {
            unreachable!("parts are inside of an entry")
        };
        part
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
        // The inode is stored last and taken away first.
        let words = self.part::<3>(entry::KEY);
        let inode = words[1].load(Ordering::Acquire);
        let [device, born_ns] = [0, 2].map(|word: usize| words[word].load(Ordering::Relaxed));
        (inode != 0 && inode != entry::GONE).then_some(FileKey { device, inode, born_ns })
    }

    /// Whether it is or was some file's: what is looked for may be behind it.
    pub(crate) fn is_or_was_used(&self) -> bool {
        self.part::<3>(entry::KEY)[1].load(Ordering::Acquire) != 0
    }

    /// Its file was opened once more: says so, and whether it is this file's still.
    pub(crate) fn open_as(&self, key: FileKey) -> bool {
        self.part::<1>(entry::OPENED)[0].fetch_add(1, Ordering::SeqCst);
        // Behind that: whoever takes the file away looks at it in the other order.
        fence(Ordering::SeqCst);
        self.key() == Some(key) && Self::at(self.map, self.number).is_ok_and(|now| now.uses == self.uses)
    }

    /// How often its file was opened.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.part::<1>(entry::OPENED)[0].load(Ordering::SeqCst)
    }

    /// Takes its file away, under the board's lock; not if it is no file's, is served, or was opened more often than that.
    pub(crate) fn give_back(&self, opened: u64) -> bool {
        let inode = &self.part::<3>(entry::KEY)[1];
        let was = inode.load(Ordering::SeqCst);
        if was == 0 || was == entry::GONE {
            return false;
        }
        self.lose_file();
        fence(Ordering::SeqCst);
        let is_idle = self.opened() == opened && self.standing().level == Level::Pass;
        if is_idle {
            self.end_use();
        } else {
            inode.store(was, Ordering::SeqCst);
        }
        is_idle
    }

    pub(crate) fn lose_file(&self) {
        self.part::<3>(entry::KEY)[1].store(entry::GONE, Ordering::SeqCst);
    }

    /// Whoever has its index has none from here on.
    fn end_use(&self) {
        self.part::<1>(entry::PLACE)[0].fetch_add(1 << 32, Ordering::SeqCst);
    }

    /// Its level, and why.
    #[inline]
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::from_word(self.part::<1>(entry::STANDING)[0].load(Ordering::SeqCst))
    }

    /// Its level alone.
    #[inline]
    #[must_use]
    pub fn level(&self) -> Level {
        Standing::level_of(self.part::<1>(entry::STANDING)[0].load(Ordering::SeqCst))
    }

    /// Moves it to a level: by whoever holds the lock. One that was barred goes no higher than PASS, and keeps its reason; says
    /// whether it went.
    pub fn move_to(&self, level: Level, why: Why) -> bool {
        // Nobody has said what was changed of it while the kernel alone served it.
        self.attributes().change();
        self.change(|standing| match standing.is_barred {
            false => Some(Standing { level, why, is_barred: false }),
            true => (level == Level::Pass).then_some(Standing { level, ..standing }),
        })
    }

    /// Says why it is not served, if it is at PASS and nothing else was said for good.
    pub fn explain(&self, why: Why) {
        self.change(|standing| {
            let is_open = standing.level == Level::Pass && !standing.is_barred;
            is_open.then_some(Standing { why, ..standing })
        });
    }

    /// Something unseen may write it from now on: nothing more is logged before a real sync, and the daemon takes it down to PASS.
    pub fn bar(&self, why: Why) {
        self.cursor().suspend();
        self.change(|standing| Some(Standing { why, is_barred: true, ..standing }));
    }

    /// Whoever barred it takes that back: it may be promoted again.
    pub fn unbar(&self) {
        self.change(|standing| Some(Standing { is_barred: false, ..standing }));
    }

    fn change(&self, change: impl Fn(Standing) -> Option<Standing>) -> bool {
        let change = |word| change(Standing::from_word(word)).map(Standing::to_word);
        self.part::<1>(entry::STANDING)[0].fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok()
    }

    /// Where its ring is, if it has one.
    #[must_use]
    pub fn ring(&self) -> RingWords {
        let words = self.part::<3>(entry::RING);
        let [at, len_bytes, identity] = [0, 1, 2].map(|word: usize| words[word].load(Ordering::Acquire));
        RingPlace { at, len_bytes, identity }
    }

    /// Gives it a ring: by whoever holds the lock.
    pub fn set_ring(&self, ring: RingWords) {
        for (word, value) in [ring.at, ring.len_bytes, ring.identity].into_iter().enumerate() {
            self.part::<3>(entry::RING)[word].store(value, Ordering::Release);
        }
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
    pub(crate) fn place(&self) -> u64 {
        self.part::<1>(entry::PLACE)[0].load(Ordering::SeqCst) & u64::from(u32::MAX)
    }

    pub(crate) fn set_place(&self, place: u64) {
        let word = &self.part::<1>(entry::PLACE)[0];
        word.store(word.load(Ordering::SeqCst) >> 32 << 32 | place, Ordering::SeqCst);
    }

    /// Makes it an entry of `key`, under the board's lock.
    pub(crate) fn become_of(&self, key: FileKey) -> io::Result<()> {
        if self.is_or_was_used() {
            // A daemon that was killed while it gave it back may not have come to that.
            self.end_use();
        }
        self.robust_lock().map_err(io::Error::other)?.make();
        self.leaving().map_err(io::Error::other)?.make();
        self.part::<1>(entry::STANDING)[0].store(Standing::NEW.to_word(), Ordering::SeqCst);
        self.set_ring(RingPlace::NOWHERE);
        for counter in self.counters().0 {
            counter.store(0, Ordering::Relaxed);
        }
        self.given_up_ns().store(0, Ordering::Relaxed);
        self.attributes().clear();
        self.times().clear();
        self.housed().clear();
        self.cursor().begin(Position(0));
        let words = self.part::<3>(entry::KEY);
        words[0].store(key.device, Ordering::Relaxed);
        words[2].store(key.born_ns, Ordering::Relaxed);
        words[1].store(key.inode, Ordering::Release);
        Ok(())
    }
}

const fn start_of(number: u32) -> usize {
    FRONT_BYTES + number as usize * ENTRY_BYTES
}
