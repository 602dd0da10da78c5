//! Calls that bypass a file's lock: in a signal handler that interrupted its holder, and while the holder is stopped.
//!
//! The kernel does them, without a record. The holder may continue at any instruction; records that it appends then are void, as the log begins
//! behind them ([decision 53](../../../../../docs/decisions/0053-bypassing-a-stopped-lock-holder.md)).

use byway_tdm_region::Memory;

use crate::log::absorb::{Absorber, Begun, EIO, LEASE_MS};

impl<M: Memory> Absorber<'_, M> {
    /// Announces a bypassing write. `is_ours` returns whether the ring is still the file's. See [`Absorber::announce`].
    pub fn announce_bypass(&self, now_ms: u64, is_ours: impl Fn() -> bool) {
        let is_said = |until_ms: u64| now_ms.saturating_add(LEASE_MS / 2) < until_ms;
        // The cursor's word is set by the lock's holder.
        if is_said(self.cursor.until_ms()) || self.ring.written_until_ms().ok().flatten().is_some_and(is_said)
        {
            return;
        }
        // If that fails, no real sync ends this log either.
        let _ = self.ring.announce(now_ms.saturating_add(LEASE_MS), is_ours);
    }

    /// What a bypassing real sync that begins now covers: every record begun so far.
    #[must_use]
    pub fn begin_bypass(&self) -> Begun {
        Begun { tail: self.cursor.end_beyond(self.ring.room_bytes()), unlogged: 0 }
    }

    /// Ends a bypassing real sync: retires what it covered; the log stays suspended until a real sync under the lock. `is_ours` returns whether the
    /// ring is still the file's.
    ///
    /// # Errors
    /// As [`Absorber::synced_below`].
    pub fn synced_in_bypass(
        &self,
        begun: Begun,
        result: Result<(), i32>,
        is_ours: impl Fn() -> bool,
    ) -> Result<(), i32> {
        if !is_ours() {
            // Released meanwhile, and possibly absorbed again: the sync covers nothing of the new log.
            return result;
        }
        self.heard(result)?;
        self.ring.retire(begun.tail, is_ours).map_err(|_| EIO)
    }
}
