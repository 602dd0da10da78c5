//! What a completion promises, and the syncs it takes.
//!
//! Stores to protected state and page writes reach the medium in any order, in pieces of a sector, until a sync. So
//! wherever room is used again, or a word is stored that others will be believed by, what it stands on is synced
//! first: the [`SyncPoint`]s. Room that was given up before the last sync may be used without another
//! one: who gives it up keeps the [`Epoch`]. Which point guards what:
//! `docs/decisions/0007-sync-order-and-power-loss-recovery.md`.

use crate::error::FlashError;
use crate::flash::Flash;
use crate::protected::Backing;
use crate::sync::{FinishedSync, PendingSync, Work};

/// What survives of what was acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// It survives the death of the process at any instruction. After a loss of real power the image is as consistent
    /// as its checksums say, unless it was synced last.
    #[default]
    Process,
    /// It survives a loss of real power too: whoever posts completions calls [`Flash::make_durable`] before.
    Media,
    /// A device without capacitors: real power may be lost, and what no sync covers with it, never more and never
    /// in part.
    Volatile,
}

/// Where what was stored so far has to be on the medium before what follows is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncPoint {
    /// A new image but for its superblock, before that makes it one.
    Made,
    /// The mark that the device is in use, before anything else changes.
    PowerOn,
    /// What is alive in blocks of which a repair is about to restore entries of the map, before it does.
    LiveCount,
    /// What a repair set right of an image that says it was closed, before the mark that the device is in use.
    Mended,
    /// What the repair of a key-value namespace dropped, before the pages it was on get checksums that match.
    PageAccept,
    /// Everything, before the mark that the device was closed.
    PowerOff,
    /// That mark, before whoever closed the device hears that it is.
    Closed,
    /// What was stored for commands, before they are completed.
    Completion,
    /// Everything, before a host hears that its controller is shut down.
    Shutdown,
    /// Moves away from a block and trims of it, before its records are erased.
    BlockErase,
    /// The erase of a block's records, before a page of it is programmed.
    BlockOpen,
    /// The page that a buffer slot was programmed to, before the slot is filled again.
    BufferSlot,
    /// What an entry of the map had nothing before, while it is open whether a sync covered that, before it moves on.
    EntryMove,
    /// An earlier change of a namespace's record, before the copy that was current then is written over.
    NamespaceCopy,
    /// A new copy of a namespace's record, before it is selected.
    NamespaceSelect,
    /// The mark that a namespace is leaving, before what it has goes.
    NamespaceLeave,
    /// What was written over bytes, before their room is given back.
    Overwrite,
    /// The mark that a sanitize operation is going on, before its command is completed and anything goes.
    SanitizeBegun,
    /// What a sanitize operation did, before the mark that it is done.
    SanitizeDone,
    /// The page that a ring slot was programmed to, before the slot is filled again.
    RingSlot,
    /// The page that a window's slot was programmed to, before the host hears that the slot is its own again.
    WindowSlot,
    /// The write pointer past a row of the DMA log table, before the row is used again or cleared.
    TableRow,
    /// The root that made the other manifest count, before the one that counted is written over.
    ManifestSlot,
    /// A manifest and all it tells of, before the root makes it count.
    ManifestRoot,
    /// The manifest that no longer needs a segment, before its pages are trimmed.
    SegmentRelease,
    /// The end of an engine's header, before the state behind it is made anew.
    EngineEnd,
    /// What an engine cut off after a loss of power, before anything takes its place.
    TailCut,
}

impl SyncPoint {
    /// Those of the flash.
    pub const OF_FLASH: [Self; 15] = [
        Self::Made,
        Self::PowerOn,
        Self::LiveCount,
        Self::Mended,
        Self::PageAccept,
        Self::PowerOff,
        Self::Closed,
        Self::BlockErase,
        Self::BlockOpen,
        Self::BufferSlot,
        Self::EntryMove,
        Self::NamespaceCopy,
        Self::NamespaceSelect,
        Self::NamespaceLeave,
        Self::Overwrite,
    ];

    /// Those of key-value engines.
    pub const OF_ENGINES: [Self; 8] = [
        Self::RingSlot,
        Self::WindowSlot,
        Self::TableRow,
        Self::ManifestSlot,
        Self::ManifestRoot,
        Self::SegmentRelease,
        Self::EngineEnd,
        Self::TailCut,
    ];

    /// Those of whole devices. There are no others.
    pub const OF_DEVICES: [Self; 4] =
        [Self::Completion, Self::Shutdown, Self::SanitizeBegun, Self::SanitizeDone];
}

/// The time between two syncs. What was stored in an epoch is on the medium once the next one has begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

/// Syncs of an image since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncCounters {
    /// Asked for: flushes, completions, closing.
    pub durable: u64,
    /// Made at sync points.
    pub ordered: u64,
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
            epoch: Epoch(1),
            // What the last opener stored, in no epoch of this one, is not known to be on the medium.
            synced: Epoch(0),
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

    /// Says whether it took a sync.
    #[inline]
    pub(crate) fn order(&mut self, point: SyncPoint) -> Result<bool, FlashError> {
        match self.durability {
            Durability::Process => Ok(false),
            Durability::Media | Durability::Volatile => self.order_now(point),
        }
    }

    #[inline]
    pub(crate) fn is_synced(&self, epoch: Epoch) -> bool {
        epoch < self.synced
    }

    /// As [`Syncs::order`], whatever a completion promises.
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
            self.epoch.0 += 1;
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

    /// Begins a sync that somebody else waits for: it covers programs below the number `programs`. What is stored
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
        self.epoch.0 += 1;
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
        self.synced = self.synced.max(Epoch(sync.covers.0 + 1).min(self.epoch));
        Ok(self.begun_programs)
    }
}

impl Flash {
    /// What a completion promises on this device.
    #[must_use]
    pub const fn durability(&self) -> Durability {
        self.ftl.syncs.durability()
    }

    /// Waits until everything stored is on the image's medium: what survives the loss of real power. Costs nothing
    /// when nothing was stored since the last time.
    ///
    /// # Errors
    /// What syncing the file says. After an error none succeeds until the image is opened again:
    /// [`FlashError::Unsynced`].
    pub fn make_durable(&mut self) -> Result<(), FlashError> {
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
        self.ftl.syncs.counters
    }
}
