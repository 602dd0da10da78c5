//! A sync of the image that the device need not stand still for.
//!
//! A sync takes as long as the disk does, and needs nothing of the device but the file. So it comes in three steps:
//! [`Flash::begin_sync`] with the device at hand, [`PendingSync::wait`] without it, [`Flash::end_sync`] with it again.
//! Everything stored before the first step is on the disk after the second; what is stored meanwhile may be, or not.

use crate::durability::{Epoch, SyncPoint};
use crate::error::FlashError;
use crate::flash::Flash;
use crate::protected::Backing;

/// A sync that was begun. It may be waited for by any thread, and the device be used meanwhile.
#[derive(Debug)]
#[must_use = "nothing is synced until it is waited for"]
pub struct PendingSync {
    pub(crate) work: Work,
    pub(crate) covers: Epoch,
}

#[derive(Debug)]
pub(crate) enum Work {
    Sync(Backing),
    /// Nothing was stored since the last one.
    Nothing,
    /// An earlier one failed.
    Failed,
}

/// What came of a sync, for [`Flash::end_sync`].
#[derive(Debug)]
#[must_use = "the device has to learn what came of the sync"]
pub struct FinishedSync {
    pub(crate) result: Result<(), FlashError>,
    pub(crate) covers: Epoch,
}

impl PendingSync {
    /// Waits until everything that was stored before the sync began is on the image's disk.
    pub fn wait(self) -> FinishedSync {
        let result = match self.work {
            Work::Sync(backing) => backing.sync(),
            Work::Nothing => Ok(()),
            Work::Failed => Err(FlashError::Unsynced),
        };
        FinishedSync { result, covers: self.covers }
    }

    /// Ends the sync by another's error, for a waiter that syncs by other means.
    pub fn fail(self, error: FlashError) -> FinishedSync {
        FinishedSync { result: Err(error), covers: self.covers }
    }
}

impl Flash {
    /// Begins a sync of everything stored so far, for what `point` says. One at a time.
    pub fn begin_sync(&mut self, point: SyncPoint) -> PendingSync {
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
