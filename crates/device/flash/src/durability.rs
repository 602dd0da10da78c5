//! Durability of acknowledged commands, and the points at which the image file is synced for it.
//!
//! Until a sync, stores to protected state and page writes reach the disk in any order, sector by sector. So at each
//! [`SyncPoint`], before space is reused or a word that recovery trusts is stored, the data that it depends on is synced.
//! Space that was freed before the last sync may be reused without another one: the code that frees it records the
//! [`Epoch`]. Which point guards what: `docs/decisions/0007-sync-order-and-power-loss-recovery.md`.

/// What survives of what was acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// It survives the death of the process at any instruction. After a loss of real power the image is as consistent
    /// as its checksums say, unless it was synced last.
    #[default]
    Process,
    /// It survives a loss of real power too: the controller calls [`Flash::make_durable`] before it posts a completion.
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
    Repaired,
    /// What the repair of a key-value namespace dropped, before the pages it was on get checksums that match.
    PageAccept,
    /// Everything, before the mark that the device was closed.
    PowerOff,
    /// That mark, before [`Flash::close`] returns.
    Closed,
    /// The mark that units may wait in leased slots of the buffer, before any does.
    BlockLeases,
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
    /// A manifest and all that it refers to, before the root selects it.
    ManifestRoot,
    /// The manifest that no longer needs a segment, before its pages are trimmed.
    SegmentRelease,
    /// The end of an engine's header, before the state behind it is made anew.
    EngineEnd,
    /// What an engine cut off after a loss of power, before anything takes its place.
    TailCut,
    /// That the log of an engine may hold what older releases do not know, before it does.
    FeatureBit,
}

impl SyncPoint {
    /// Those of the flash.
    pub const OF_FLASH: [Self; 16] = [
        Self::Made,
        Self::PowerOn,
        Self::LiveCount,
        Self::Repaired,
        Self::PageAccept,
        Self::PowerOff,
        Self::Closed,
        Self::BlockErase,
        Self::BlockOpen,
        Self::BufferSlot,
        Self::BlockLeases,
        Self::EntryMove,
        Self::NamespaceCopy,
        Self::NamespaceSelect,
        Self::NamespaceLeave,
        Self::Overwrite,
    ];

    /// Those of key-value engines.
    pub const OF_ENGINES: [Self; 9] = [
        Self::RingSlot,
        Self::WindowSlot,
        Self::TableRow,
        Self::ManifestSlot,
        Self::ManifestRoot,
        Self::SegmentRelease,
        Self::EngineEnd,
        Self::TailCut,
        Self::FeatureBit,
    ];

    /// Those of whole devices. There are no others.
    pub const OF_DEVICES: [Self; 4] =
        [Self::Completion, Self::Shutdown, Self::SanitizeBegun, Self::SanitizeDone];
}

/// The time between two syncs. What was stored in an epoch is on the medium once the next one has begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch that begins once this one was synced.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Syncs of an image since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncCounters {
    /// Asked for: flushes, completions, closing.
    pub durable: u64,
    /// Made at sync points.
    pub ordered: u64,
}
