//! Writes, truncations and syncs of an absorbed file.
//!
//! The caller holds the file's lock, except during real syncs, which take long. A thread that cannot get the lock bypasses it.

use byway_tdm_region::Memory;

use crate::log::cursor::Cursor;
use crate::log::point;
use crate::log::prefix::lock_held;
use crate::log::record::Kind;
use crate::log::ring::{Appended, Position, Ring, RingError, Source};

/// An absorbed file: its log and the log's cursor.
#[derive(Debug)]
pub struct Absorber<'a, M> {
    pub(super) ring: Ring<'a, M>,
    pub(super) cursor: Cursor<'a>,
}

/// Next step of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStep {
    /// All writes are durable.
    Done,
    /// Really sync the file without the lock, then call [`Absorber::synced_below`].
    Below(Begun),
    /// The sync fails with this error number, as does every later one.
    Failed(i32),
}

/// What a real sync covers, taken when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Records before this position.
    pub(super) tail: Position,
    /// Number of changes without a record. Zero in a bypassing sync.
    pub(super) unlogged: u64,
}

impl<'a, M: Memory> Absorber<'a, M> {
    /// The file with this log.
    #[must_use]
    pub const fn new(ring: Ring<'a, M>, cursor: Cursor<'a>) -> Self {
        Self { ring, cursor }
    }

    /// Announces that the file is about to be written, at this time of the file system's clock. Recovery leaves a file alone that was written after
    /// the announced time: its log is older.
    pub fn announce(&self, now_ms: u64) {
        if now_ms.saturating_add(LEASE_MS / 2) < self.cursor.until_ms() {
            return;
        }
        let until_ms = now_ms.saturating_add(LEASE_MS);
        match self.ring.announce(until_ms, lock_held) {
            Ok(()) => self.cursor.set_until_ms(until_ms),
            Err(_) => self.cursor.suspend(),
        }
    }

    /// Logs bytes that were just written below. Bytes that cannot be logged suspend the log.
    pub fn wrote(&self, at: u64, len_bytes: u64, source: &mut impl Source) {
        if len_bytes == 0 {
            return;
        }
        if self.cursor.is_suspended() {
            // Not covered by a real sync that began before this write.
            return self.cursor.suspend();
        }
        let what = Appended { kind: Kind::Write, offset: at, len_bytes };
        match self.ring.append(self.cursor.extent(), what, source) {
            Ok(next) => self.cursor.set_tail(next),
            Err(_) => self.cursor.suspend(),
        }
    }

    /// Logs that the file is about to be truncated or extended. Durable when this returns, so that no earlier record restores the removed bytes.
    /// A suspended log takes no record, but its records must be retired first.
    ///
    /// # Errors
    /// [`RingError::Full`]: really sync the file first.
    pub fn truncating(&self, size_bytes: u64) -> Result<(), RingError> {
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
        self.ring.persist(extent.synced, next, point::TRUNCATION)?;
        self.cursor.set_tail(next);
        self.cursor.set_synced(next);
        Ok(())
    }

    /// Makes all records durable, or says that a real sync is needed.
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

    /// What a real sync that begins now covers.
    #[must_use]
    pub fn begin_below(&self) -> Begun {
        // Load before the tail: later changes are not covered.
        let unlogged = self.cursor.unlogged();
        Begun { tail: self.cursor.extent().tail, unlogged }
    }

    /// Ends a real sync: retires what it covered and resumes a log that was suspended before. After an error that may mean lost bytes every sync
    /// fails and nothing is retired. An error of the caller alone fails this sync only.
    ///
    /// # Errors
    /// That error number, or an earlier sync's; EIO if the log's memory failed.
    pub fn synced_below(&self, begun: Begun, result: Result<(), i32>) -> Result<(), i32> {
        self.heard(result)?;
        let extent = self.cursor.extent();
        if begun.tail > extent.head {
            let tail = begun.tail.min(extent.tail);
            self.ring.retire(tail, lock_held).map_err(|_| EIO)?;
            self.cursor.set_head(tail);
            self.cursor.set_synced(extent.synced.max(tail));
        }
        match self.cursor.cover(begun.unlogged) {
            Some(beyond) => self.go_on(beyond),
            None => Ok(()),
        }
    }

    /// Resumes the log behind everything that a bypassed holder may have appended.
    fn go_on(&self, beyond: Position) -> Result<(), i32> {
        if self.ring.retire(beyond, lock_held).is_err() {
            self.cursor.suspend();
            return Err(EIO);
        }
        self.cursor.restart(beyond);
        Ok(())
    }

    /// Result of a real sync, or of an earlier one that failed for good.
    pub(super) fn heard(&self, result: Result<(), i32>) -> Result<(), i32> {
        if let Err(error) = result {
            if !is_callers_own(error) {
                self.cursor.fail(error);
            }
            return Err(error);
        }
        // The lost bytes are in these records only, and the kernel reports the error once.
        self.cursor.error().map_or(Ok(()), Err)
    }

    /// The log's cursor.
    #[must_use]
    pub const fn cursor(&self) -> Cursor<'a> {
        self.cursor
    }
}

/// Length of an announcement, in ms. It is renewed at half of that.
pub(super) const LEASE_MS: u64 = 10_000;

/// EIO.
pub(super) const EIO: i32 = 5;

/// Whether a failed sync lost nothing: errors such as EBADF, EINTR and EPERM concern this caller alone.
const fn is_callers_own(error: i32) -> bool {
    const EPERM: i32 = 1;
    const EINTR: i32 = 4;
    const EBADF: i32 = 9;
    const EACCES: i32 = 13;
    const EINVAL: i32 = 22;
    const ENOSYS: i32 = 38;
    matches!(error, EPERM | EINTR | EBADF | EACCES | EINVAL | ENOSYS)
}
