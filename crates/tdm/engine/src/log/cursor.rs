//! The words that all who write an absorbed file share: in memory of the host, gone with its power.
//!
//! Whoever has the file's lock finds them as its last holder left them. Others meet him at four words, each changed in one step:
//!
//! * *unlogged* is counted up behind a change, when the kernel has it, and loaded before a real sync begins, which covers no more than that. Release and Acquire: who
//!   covers a change sees what was stored before it;
//! * *passing* is such a thing: it is counted up before *unlogged*, so who covers a change that is under way sees that it is;
//! * *passed* and *covered* are stored by one each, who then looks at the other's: how far somebody syncs past the lock, and that the log goes on. SeqCst, as with less
//!   both could see what was there before.
//!
//! `src/model` has the model checker try them.

use crate::log::atomic::{AtomicU64, Ordering};
use crate::log::ring::{Extent, Position};

/// Words of a cursor.
pub const CURSOR_WORDS: usize = 9;

/// Bytes of a cursor.
pub const CURSOR_BYTES: usize = CURSOR_WORDS * 8;

const HEAD: usize = 0;
const TAIL: usize = 1;
const SYNCED: usize = 2;
const UNLOGGED: usize = 3;
const COVERED: usize = 4;
const ERROR: usize = 5;
const UNTIL: usize = 6;
/// Up to where whoever synced below without the lock may have ended the log.
const PASSED: usize = 7;
/// Changes that are under way without the lock, and in its upper half how often the log began anew.
const PASSING: usize = 8;

const PASSING_BITS: u32 = 32;

/// Where a log stands, and whether it may go on. All but [`Cursor::suspend`], [`Cursor::pass`] and the questions is done under the
/// file's lock.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'w>(&'w [AtomicU64; CURSOR_WORDS]);

impl<'w> Cursor<'w> {
    /// The cursor that these words are.
    #[must_use]
    pub const fn new(words: &'w [AtomicU64; CURSOR_WORDS]) -> Self {
        Self(words)
    }

    /// Begins anew with an empty log, suspended: what was written before is kept by no record, so the first sync is a real one.
    pub fn begin(&self, head: Position) {
        self.restart(head);
        for word in [ERROR, UNTIL, PASSED] {
            self.set(word, 0);
        }
        self.set(PASSING, ((self.get(PASSING) >> PASSING_BITS) + 1) << PASSING_BITS);
        self.suspend();
    }

    /// Something was changed that no record tells of: nothing more is logged until a real sync has covered it. By anyone, at any
    /// time, in a signal handler too.
    pub fn suspend(&self) {
        let _ = self.suspended();
    }

    /// The same; says which change it is.
    fn suspended(&self) -> u64 {
        self.0[UNLOGGED].fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }

    /// Something is changed without the lock from here on, until what this returns is dropped: nothing is logged meanwhile, and nothing before a real
    /// sync that begins after that.
    #[must_use]
    pub fn pass(&self) -> Passing<'w> {
        let was = self.0[PASSING].fetch_add(1, Ordering::SeqCst);
        self.suspend();
        Passing { cursor: *self, beginning: was >> PASSING_BITS }
    }

    /// Whether such a change is under way, or somebody was killed in the midst of one.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.0[PASSING].load(Ordering::SeqCst) as u32 > 0
    }

    fn passed(&self, beginning: u64) {
        self.suspend();
        // One that began before the log did is not counted any more.
        let counted = |word: u64| word >> PASSING_BITS == beginning && word as u32 > 0;
        let _ = self.0[PASSING]
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| counted(word).then(|| word - 1));
    }

    /// Where a log of so much room has to begin anew for whoever syncs below from now on without the lock: beyond all records that were begun until now, and
    /// whoever has it go on later knows of that.
    pub(super) fn end_beyond(&self, room_bytes: u64) -> Position {
        loop {
            let unlogged = self.suspended();
            let beyond = self.extent().tail.0.saturating_add(room_bytes);
            self.0[PASSED].fetch_max(beyond, Ordering::SeqCst);
            if self.0[COVERED].load(Ordering::SeqCst) < unlogged {
                return Position(beyond);
            }
            // Somebody had it go on in between, and may have appended behind that.
        }
    }

    /// Whether nothing is logged until a real sync.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.get(UNLOGGED) != self.get(COVERED)
    }

    /// Whether a sync has nothing to do.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let extent = self.extent();
        !self.is_suspended() && extent.synced == extent.tail
    }

    /// The error number that every sync is answered from now on, if there is one.
    #[must_use]
    pub fn error(&self) -> Option<i32> {
        i32::try_from(self.get(ERROR)).ok().filter(|error| *error != 0)
    }

    /// A real sync failed: what was written may be lost, and no later sync may say otherwise.
    pub(super) fn fail(&self, error: i32) {
        if self.error().is_none() {
            self.set(ERROR, u64::from(error.unsigned_abs()));
        }
    }

    /// Where the log begins and ends. Words that others may have spoiled make an empty one.
    pub(super) fn extent(&self) -> Extent {
        let [head, tail, synced] = [HEAD, TAIL, SYNCED].map(|word| Position(self.get(word)));
        let tail = tail.max(head);
        Extent { head, tail, synced: synced.clamp(head, tail) }
    }

    /// Bytes of records that are not retired.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let extent = self.extent();
        extent.tail.0 - extent.head.0
    }

    /// Until when the log says that the file may be written, in milliseconds since 1970.
    pub(super) fn until_ms(&self) -> u64 {
        self.get(UNTIL)
    }

    pub(super) fn set_until_ms(&self, until_ms: u64) {
        self.set(UNTIL, until_ms);
    }

    pub(super) fn unlogged(&self) -> u64 {
        self.get(UNLOGGED)
    }

    /// A real sync covered so many changes; where the log goes on, if that is not where it ended.
    pub(super) fn cover(&self, unlogged: u64) -> Option<Position> {
        if self.is_passing() || self.get(COVERED) >= unlogged {
            return None;
        }
        self.0[COVERED].fetch_max(unlogged, Ordering::SeqCst);
        let beyond = Position(self.0[PASSED].load(Ordering::SeqCst));
        let extent = self.extent();
        // Nothing was logged since that sync began: there is no record that it does not cover.
        (beyond > extent.head).then_some(beyond.max(extent.tail))
    }

    /// The log is empty, and goes on from there.
    pub(super) fn restart(&self, at: Position) {
        for word in [HEAD, TAIL, SYNCED] {
            self.set(word, at.0);
        }
    }

    pub(super) fn set_head(&self, head: Position) {
        self.set(HEAD, head.0);
    }

    pub(super) fn set_tail(&self, tail: Position) {
        self.set(TAIL, tail.0);
    }

    pub(super) fn set_synced(&self, synced: Position) {
        self.set(SYNCED, synced.0);
    }

    fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    fn set(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }
}

/// A change that is under way without the lock.
#[derive(Debug)]
pub struct Passing<'w> {
    cursor: Cursor<'w>,
    /// Of which log.
    beginning: u64,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.cursor.passed(self.beginning);
    }
}
