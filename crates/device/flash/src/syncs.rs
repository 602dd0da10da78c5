//! The syncs of a device: which were made, which epoch they cover, and whether one failed.

use crate::durability::{Durability, Epoch, SyncCounters, SyncPoint};
use crate::error::FlashError;
use crate::protected::Backing;
use crate::stall::StallTimer;

/// A sync that was begun. It may be waited for by any thread, and the device be used meanwhile.
#[derive(Debug)]
#[must_use = "nothing is synced until it is waited for"]
pub struct PendingSync {
    work: Work,
    covers: Epoch,
}

#[derive(Debug)]
enum Work {
    Sync(Backing),
    /// Nothing was stored since the last one.
    Nothing,
    /// An earlier one failed.
    Failed,
}

/// The result of a sync, for [`Flash::end_sync`](crate::Flash::end_sync).
#[derive(Debug)]
#[must_use = "the device has to learn what came of the sync"]
pub struct FinishedSync {
    result: Result<(), FlashError>,
    covers: Epoch,
    took_ns: u64,
}

impl FinishedSync {
    /// How long its waiter waited in nanoseconds.
    pub(crate) const fn took_ns(&self) -> u64 {
        self.took_ns
    }
}

impl PendingSync {
    /// Waits until everything that was stored before the sync began is on the image's disk.
    pub fn wait(self) -> FinishedSync {
        let timer = StallTimer::start(0);
        let result = match self.work {
            Work::Sync(backing) => backing.sync(),
            Work::Nothing => Ok(()),
            Work::Failed => Err(FlashError::Unsynced),
        };
        FinishedSync { result, covers: self.covers, took_ns: timer.stop(0) }
    }

    /// Ends the sync by another's error, for a waiter that syncs by other means.
    pub fn fail(self, error: FlashError) -> FinishedSync {
        FinishedSync { result: Err(error), covers: self.covers, took_ns: 0 }
    }
}

/// The syncs of a device.
#[derive(Debug)]
pub(crate) struct Syncs {
    backing: Backing,
    durability: Durability,
    left_out: Option<SyncPoint>,
    epoch: Epoch,
    /// Everything stored in epochs before this one is on the medium.
    synced: Epoch,
    /// Something was stored in this epoch.
    stored: bool,
    /// A sync was begun and has not ended.
    under_way: bool,
    /// Programs below this number are covered by the sync that was begun last.
    begun_programs: u64,
    /// A sync failed. What the system dropped then it will not write later: no further sync can be believed.
    failed: bool,
    counters: SyncCounters,
}

impl Syncs {
    pub(crate) fn new(backing: Backing, durability: Durability, left_out: Option<SyncPoint>) -> Self {
        let counters = SyncCounters::default();
        Self {
            backing,
            durability,
            left_out,
            epoch: Epoch::default().next(),
            // What the last opener stored, in no epoch of this one, is not known to be on the medium.
            synced: Epoch::default(),
            stored: true,
            under_way: false,
            begun_programs: 0,
            failed: false,
            counters,
        }
    }

    /// Notes that something is about to be stored.
    #[inline]
    pub(crate) fn note_store(&mut self) {
        self.stored = true;
    }

    #[inline]
    pub(crate) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) const fn durability(&self) -> Durability {
        self.durability
    }

    /// Puts everything stored so far on the medium. Says whether it took a sync.
    pub(crate) fn sync(&mut self, point: SyncPoint) -> Result<bool, FlashError> {
        if self.left_out == Some(point) {
            return Ok(false);
        }
        self.counters.durable += 1;
        self.sync_backing()?;
        self.stored = false;
        Ok(true)
    }

    #[inline]
    pub(crate) fn is_synced(&self, epoch: Epoch) -> bool {
        epoch < self.synced
    }

    /// Puts what was stored on the medium before what follows. Says whether it took a sync.
    #[cold]
    pub(crate) fn order_now(&mut self, point: SyncPoint) -> Result<bool, FlashError> {
        if self.is_clean() || self.left_out == Some(point) {
            return Ok(false);
        }
        self.counters.ordered += 1;
        // Something is stored next, or there would be nothing to order: `stored` stays.
        self.sync_backing()?;
        Ok(true)
    }

    fn sync_backing(&mut self) -> Result<(), FlashError> {
        if self.failed {
            return Err(FlashError::Unsynced);
        }
        let synced = self.backing.sync();
        self.failed = synced.is_err();
        if synced.is_ok() {
            self.epoch = self.epoch.next();
            self.synced = self.epoch;
        }
        synced
    }

    /// Whether everything stored is on the medium.
    pub(crate) const fn is_clean(&self) -> bool {
        !self.stored && !self.under_way
    }

    /// Whether a sync failed.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether the sync under way covers the program of that number.
    pub(crate) fn may_cover(&self, program: Option<u64>) -> bool {
        self.under_way && program < Some(self.begun_programs)
    }

    /// Begins a sync that another thread waits for: it covers programs below the number `programs`. What is stored
    /// from now on belongs to the next epoch.
    pub(crate) fn begin(&mut self, point: SyncPoint, programs: u64) -> PendingSync {
        let covers = self.epoch;
        if self.failed {
            return PendingSync { work: Work::Failed, covers };
        }
        if self.is_clean() || self.left_out == Some(point) {
            return PendingSync { work: Work::Nothing, covers };
        }
        self.counters.durable += 1;
        self.epoch = self.epoch.next();
        (self.stored, self.under_way, self.begun_programs) = (false, true, programs);
        PendingSync { work: Work::Sync(self.backing.clone()), covers }
    }

    /// Ends it; says below which number programs are on the medium.
    pub(crate) fn end(&mut self, sync: FinishedSync) -> Result<u64, FlashError> {
        self.under_way = false;
        self.failed |= sync.result.is_err();
        if self.failed {
            return sync.result.and(Err(FlashError::Unsynced));
        }
        self.synced = self.synced.max(sync.covers.next().min(self.epoch));
        Ok(self.begun_programs)
    }

    pub(crate) const fn counters(&self) -> SyncCounters {
        self.counters
    }
}
