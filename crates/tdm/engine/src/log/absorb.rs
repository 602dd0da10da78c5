//! What a write, a truncation and a sync of an absorbed file do.
//!
//! Whoever calls holds the file's lock, but for real syncs below: these may take long, and others go on meanwhile. Who cannot have it
//! goes past it.

use byway_tdm_region::Memory;

use crate::log::cursor::Cursor;
use crate::log::front::held;
use crate::log::point;
use crate::log::record::Kind;
use crate::log::ring::{Appended, Position, Ring, RingError, Source};

/// An absorbed file: its log, and where that stands.
#[derive(Debug)]
pub struct Absorber<'a, M> {
    pub(super) ring: Ring<'a, M>,
    pub(super) cursor: Cursor<'a>,
}

/// How a sync goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStep {
    /// It is done: all that was written is kept.
    Done,
    /// The file has to be synced below, without the lock; [`Absorber::synced_below`] comes after.
    Below(Begun),
    /// It fails with this error number, as every later one.
    Failed(i32),
}

/// What a real sync will have covered, as of when it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Up to where its records are retired.
    pub(super) tail: Position,
    /// Changes that no record tells of, whose log goes on; none for who goes past the lock.
    pub(super) unlogged: u64,
}

impl<'a, M: Memory> Absorber<'a, M> {
    /// The file whose log is `ring`.
    #[must_use]
    pub const fn new(ring: Ring<'a, M>, cursor: Cursor<'a>) -> Self {
        Self { ring, cursor }
    }

    /// The file is about to be written, at this time of the clock that its own times are by: the medium says up to when it may have been. A
    /// file that was written later was not by this log, whose records are older then.
    pub fn announce(&self, now_ms: u64) {
        if now_ms.saturating_add(LEASE_MS / 2) < self.cursor.until_ms() {
            return;
        }
        let until_ms = now_ms.saturating_add(LEASE_MS);
        match self.ring.announce(until_ms, held) {
            Ok(()) => self.cursor.set_until_ms(until_ms),
            Err(_) => self.cursor.suspend(),
        }
    }

    /// Logs what a write below has put into the file. What cannot be logged suspends the log.
    pub fn wrote(&self, at: u64, len_bytes: u64, source: &mut impl Source) {
        if len_bytes == 0 {
            return;
        }
        if self.cursor.is_suspended() {
            // A real sync may be under way that began before this write: it does not cover it.
            return self.cursor.suspend();
        }
        let what = Appended { kind: Kind::Write, offset: at, len_bytes };
        match self.ring.append(self.cursor.extent(), what, source) {
            Ok(next) => self.cursor.set_tail(next),
            Err(_) => self.cursor.suspend(),
        }
    }

    /// Logs that the file is about to be cut to a size, or to grow to it: kept before the file is touched, so that no record from
    /// before brings back what the cut took away. While the log is suspended nothing is logged, but the records that are
    /// there have to be retired before.
    ///
    /// # Errors
    /// [`RingError::Full`]: the file has to be synced below before it is cut.
    pub fn cutting(&self, size_bytes: u64) -> Result<(), RingError> {
        let extent = self.cursor.extent();
        if self.cursor.is_suspended() {
            if extent.tail > extent.head {
                return Err(RingError::Full { len_bytes: 0 });
            }
            self.cursor.suspend();
            return Ok(());
        }
        let what = Appended { kind: Kind::Truncate, offset: size_bytes, len_bytes: 0 };
        let next = self.ring.append(extent, what, &mut &[][..])?;
        self.ring.persist(extent.synced, next, point::CUT)?;
        self.cursor.set_tail(next);
        self.cursor.set_synced(next);
        Ok(())
    }

    /// Keeps all that was logged, or says that the file has to be synced below.
    #[must_use]
    pub fn sync(&self) -> SyncStep {
        if let Some(error) = self.cursor.error() {
            return SyncStep::Failed(error);
        }
        if self.cursor.is_suspended() {
            return SyncStep::Below(self.begin_below());
        }
        let extent = self.cursor.extent();
        if extent.synced == extent.tail {
            return SyncStep::Done;
        }
        if self.ring.persist(extent.synced, extent.tail, point::SYNCED).is_err() {
            self.cursor.suspend();
            return SyncStep::Below(self.begin_below());
        }
        self.cursor.set_synced(extent.tail);
        SyncStep::Done
    }

    /// What a real sync that is begun now will cover.
    #[must_use]
    pub fn begin_below(&self) -> Begun {
        // What is suspended for later is not covered: read before the tail.
        let unlogged = self.cursor.unlogged();
        Begun { tail: self.cursor.extent().tail, unlogged }
    }

    /// A real sync is done: what it covered is retired, and a log that was suspended before goes on. With an error number that may mean lost bytes,
    /// every sync from here on fails, and nothing is retired any more. One that says only that this caller could not sync is his alone.
    ///
    /// # Errors
    /// That number or the one of an earlier sync, or EIO where the log's own memory failed.
    pub fn synced_below(&self, begun: Begun, result: Result<(), i32>) -> Result<(), i32> {
        self.heard(result)?;
        let extent = self.cursor.extent();
        if begun.tail > extent.head {
            let tail = begun.tail.min(extent.tail);
            self.ring.retire(tail, held).map_err(|_| EIO)?;
            self.cursor.set_head(tail);
            self.cursor.set_synced(extent.synced.max(tail));
        }
        match self.cursor.cover(begun.unlogged) {
            Some(beyond) => self.go_on(beyond),
            None => Ok(()),
        }
    }

    /// Has the log go on beyond all that somebody may have begun to append while others went past the lock.
    fn go_on(&self, beyond: Position) -> Result<(), i32> {
        if self.ring.retire(beyond, held).is_err() {
            self.cursor.suspend();
            return Err(EIO);
        }
        self.cursor.restart(beyond);
        Ok(())
    }

    /// What came of a real sync, or of one before it that failed for all.
    pub(super) fn heard(&self, result: Result<(), i32>) -> Result<(), i32> {
        if let Err(error) = result {
            if !is_callers_own(error) {
                self.cursor.fail(error);
            }
            return Err(error);
        }
        // What was lost then is in these records alone, and the system does not tell twice.
        self.cursor.error().map_or(Ok(()), Err)
    }

    /// The words that are shared.
    #[must_use]
    pub const fn cursor(&self) -> Cursor<'a> {
        self.cursor
    }
}

/// For so long is said ahead that a file may be written, and again when half of it is over.
pub(super) const LEASE_MS: u64 = 10_000;

/// Input/output error, on every Linux.
pub(super) const EIO: i32 = 5;

/// Whether a sync that failed by this error number was none: a descriptor that is closed or of something else, a call that was interrupted, or one that is forbidden
/// to its program. Any other may mean that bytes are lost.
const fn is_callers_own(error: i32) -> bool {
    const EPERM: i32 = 1;
    const EINTR: i32 = 4;
    const EBADF: i32 = 9;
    const EACCES: i32 = 13;
    const EINVAL: i32 = 22;
    const ENOSYS: i32 = 38;
    matches!(error, EPERM | EINTR | EBADF | EACCES | EINVAL | ENOSYS)
}
