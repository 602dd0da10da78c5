//! Words shared by all writers of an absorbed file. They lie in host memory and do not survive power loss.
//!
//! Words changed under the lock are as the last holder left them. Four are also changed without it, each in one step:
//!
//! * *unlogged* counts changes without a record. It is raised after a change and loaded before a real sync, which covers that many. Release and
//!   Acquire: a covering thread sees what was stored before the change;
//! * *passing* counts such changes in flight. It is raised before *unlogged*, so a sync that covers a change in flight sees it;
//! * *passed* and *covered* are stored by a bypassing sync and by a resuming thread; each then loads the other's word. SeqCst: one sees the other.
//!
//! `model/` runs them under loom.

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
/// Position up to which bypassing syncs may have ended the log.
const PASSED: usize = 7;
/// Bypassing changes in flight; the upper half counts restarts of the log.
const PASSING: usize = 8;

const PASSING_BITS: u32 = 32;

/// Position of a log, and whether it is suspended. All methods but [`Cursor::suspend`], [`Cursor::bypass`] and the queries need the file's lock.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'w>(&'w [AtomicU64; CURSOR_WORDS]);

impl<'w> Cursor<'w> {
    /// The cursor in these words.
    #[must_use]
    pub const fn new(words: &'w [AtomicU64; CURSOR_WORDS]) -> Self {
        Self(words)
    }

    /// Begins an empty, suspended log: earlier writes have no record, so the first sync is a real one.
    pub fn begin(&self, head: Position) {
        self.restart(head);
        for word in [ERROR, UNTIL, PASSED] {
            self.set(word, 0);
        }
        self.set(PASSING, ((self.get(PASSING) >> PASSING_BITS) + 1) << PASSING_BITS);
        self.suspend();
    }

    /// Suspends the log after a change without a record, until a real sync covers it. Needs no lock; safe in a signal handler.
    pub fn suspend(&self) {
        let _ = self.suspended();
    }

    /// As [`Cursor::suspend`]; returns the change's number.
    fn suspended(&self) -> u64 {
        self.0[UNLOGGED].fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }

    /// Begins a bypassing change, until the returned value is dropped. The log is suspended before and after it.
    #[must_use]
    pub fn bypass(&self) -> Bypass<'w> {
        let was = self.0[PASSING].fetch_add(1, Ordering::SeqCst);
        self.suspend();
        Bypass { cursor: *self, beginning: was >> PASSING_BITS }
    }

    /// Whether a bypassing change is in flight, or its thread was killed.
    #[must_use]
    pub fn is_bypassed(&self) -> bool {
        self.0[PASSING].load(Ordering::SeqCst) as u32 > 0
    }

    fn passed(&self, beginning: u64) {
        self.suspend();
        // Changes that began before the log's last restart do not count.
        let counted = |word: u64| word >> PASSING_BITS == beginning && word as u32 > 0;
        let _ = self.0[PASSING]
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| counted(word).then(|| word - 1));
    }

    /// Position at which a log of this capacity restarts after a bypassing sync: behind every record begun so far. A thread that resumes the log
    /// later sees it.
    pub(super) fn end_beyond(&self, room_bytes: u64) -> Position {
        loop {
            let unlogged = self.suspended();
            let beyond = self.extent().tail.0.saturating_add(room_bytes);
            self.0[PASSED].fetch_max(beyond, Ordering::SeqCst);
            if self.0[COVERED].load(Ordering::SeqCst) < unlogged {
                return Position(beyond);
            }
            // The log was resumed meanwhile and may have records behind that position.
        }
    }

    /// Whether the log is suspended.
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

    /// The error number of every sync from now on, if any.
    #[must_use]
    pub fn error(&self) -> Option<i32> {
        i32::try_from(self.get(ERROR)).ok().filter(|error| *error != 0)
    }

    /// Stores the error of a real sync: bytes may be lost.
    pub(super) fn fail(&self, error: i32) {
        if self.error().is_none() {
            self.set(ERROR, u64::from(error.unsigned_abs()));
        }
    }

    /// Head and tail of the log. Spoiled words give an empty log.
    pub(super) fn extent(&self) -> Extent {
        let [head, tail, synced] = [HEAD, TAIL, SYNCED].map(|word| Position(self.get(word)));
        let tail = tail.max(head);
        Extent { head, tail, synced: synced.clamp(head, tail) }
    }

    /// Bytes of records not retired.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let extent = self.extent();
        extent.tail.0 - extent.head.0
    }

    /// The announced time until which the file may be written, in ms since 1970.
    pub(super) fn until_ms(&self) -> u64 {
        self.get(UNTIL)
    }

    pub(super) fn set_until_ms(&self, until_ms: u64) {
        self.set(UNTIL, until_ms);
    }

    pub(super) fn unlogged(&self) -> u64 {
        self.get(UNLOGGED)
    }

    /// Ends a real sync that covered so many changes. Returns the position to resume at, if it is not the tail.
    pub(super) fn cover(&self, unlogged: u64) -> Option<Position> {
        if self.is_bypassed() || self.get(COVERED) >= unlogged {
            return None;
        }
        self.0[COVERED].fetch_max(unlogged, Ordering::SeqCst);
        let beyond = Position(self.0[PASSED].load(Ordering::SeqCst));
        let extent = self.extent();
        // Nothing was logged since that sync began, so it covers all records.
        (beyond > extent.head).then_some(beyond.max(extent.tail))
    }

    /// Empties the log and restarts it at this position.
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

/// A bypassing change in flight.
#[derive(Debug)]
pub struct Bypass<'w> {
    cursor: Cursor<'w>,
    /// Number of the log's restart when it began.
    beginning: u64,
}

impl Drop for Bypass<'_> {
    fn drop(&mut self) {
        self.cursor.passed(self.beginning);
    }
}
