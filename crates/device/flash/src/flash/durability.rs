//! Syncs of a device: at once, at sync points, and by steps.
//!
//! A sync of the image that the device is not stopped for.
//!
//! A sync takes as long as the disk does, and needs nothing of the device but the file. So it comes in three steps:
//! [`Flash::begin_sync`] with the device at hand, [`PendingSync::wait`] without it, [`Flash::end_sync`] with it again.
//! Everything stored before the first step is on the disk after the second; what is stored meanwhile may be, or not.

use crate::durability::{Durability, Epoch, SyncCounters, SyncPoint};
use crate::error::FlashError;
use crate::flash::Flash;
use crate::stall::{StallCause, Stalls};
use crate::syncs::{FinishedSync, PendingSync};

impl Flash {
    /// What a completion promises on this device.
    #[must_use]
    pub const fn durability(&self) -> Durability {
        self.ftl.syncs.durability()
    }

    /// Waits until everything stored is on the image's medium: what survives the loss of real power. What waits in leases is taken in
    /// first. Costs nothing when nothing was stored since the last time.
    ///
    /// # Errors
    /// What syncing the file says. After an error none succeeds until the image is opened again:
    /// [`FlashError::Unsynced`].
    pub fn make_durable(&mut self) -> Result<(), FlashError> {
        self.take_in_writes();
        if self.ftl.syncs.is_clean() { Ok(()) } else { self.ftl.sync(SyncPoint::Completion) }
    }

    /// Puts what was stored so far on the medium before what follows. Does nothing under [`Durability::Process`].
    ///
    /// # Errors
    /// As [`Flash::make_durable`]: then what follows must not be stored.
    #[inline]
    pub fn order(&mut self, point: SyncPoint) -> Result<(), FlashError> {
        self.ftl.order(point)
    }

    /// As [`Flash::order`], whatever a completion promises.
    ///
    /// # Errors
    /// As there.
    pub fn order_always(&mut self, point: SyncPoint) -> Result<(), FlashError> {
        self.ftl.order_now(point)
    }

    /// As [`Flash::order`], for what was stored in `epoch`: nothing to do if that has ended.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn order_since(&mut self, point: SyncPoint, epoch: Epoch) -> Result<(), FlashError> {
        self.ftl.order_since(point, epoch)
    }

    /// The epoch that what is stored now belongs to.
    #[must_use]
    #[inline]
    pub const fn epoch(&self) -> Epoch {
        self.ftl.syncs.epoch()
    }

    /// Whether everything stored in `epoch` is on the medium.
    #[must_use]
    #[inline]
    pub fn is_synced(&self, epoch: Epoch) -> bool {
        self.ftl.syncs.is_synced(epoch)
    }

    /// Syncs since the device was opened.
    #[must_use]
    pub const fn sync_counters(&self) -> SyncCounters {
        self.ftl.syncs.counters()
    }

    /// Waits of commands for the flash since the device was opened, and those noted by [`Flash::note_stall`].
    #[must_use]
    #[inline]
    pub const fn stalls(&self) -> &Stalls {
        &self.ftl.stalls
    }

    /// Notes that a command waited for work that a user of the flash did.
    pub fn note_stall(&mut self, cause: StallCause, waited_ns: u64) {
        self.ftl.stalls.note(cause, waited_ns);
    }

    /// Begins a sync of everything stored so far, for what `point` says, and what waits in leases with it. One at a time.
    pub fn begin_sync(&mut self, point: SyncPoint) -> PendingSync {
        self.take_in_writes();
        self.ftl.begin_sync(point)
    }

    /// Ends a sync. After one that failed the device can only be read: the system may have dropped what it could not
    /// write, and the next sync would not say so.
    ///
    /// # Errors
    /// What syncing the file said; [`FlashError::Unsynced`] if an earlier sync failed.
    pub fn end_sync(&mut self, sync: FinishedSync) -> Result<(), FlashError> {
        self.ftl.end_sync(sync)
    }
}
