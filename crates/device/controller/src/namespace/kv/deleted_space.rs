//! Space that deletes have left in the log, which is reclaimed when the host disk is full.

use byway_flash::{FileError, Flash, FlashError};
use byway_kv::{KvEngine, KvError};

/// Bytes deleted since the last reclaim from which on a put on a full host disk reclaims again: a reclaim rewrites the whole
/// index, and where little was deleted it would use up the disk reserve that deletes need.
const RECLAIMED_MIN_BYTES: u64 = 256 << 10;

/// Divisor: with at most 1/4 of the occupied segments' bytes in use, most of their data was deleted.
const MOSTLY_DELETED_PART: u64 = 4;

/// What is known of the space that deletes have left.
#[derive(Debug, Default)]
pub(super) struct DeletedSpace {
    /// Most bytes in use since the last reclaim, as seen before each delete and by the opening.
    most_used_bytes: u64,
}

impl DeletedSpace {
    /// Of an engine just opened: its peak before the opening is the size of the occupied segments if at most 1/4 of it is in
    /// use, else 0, as a reclaim that frees little would use up the disk reserve.
    pub fn of(engine: &KvEngine) -> Self {
        let stats = engine.stats();
        let occupied_bytes = (stats.segments - stats.free_segments) * stats.segment_bytes;
        let is_mostly_deleted = engine.used_bytes() <= occupied_bytes / MOSTLY_DELETED_PART;
        Self { most_used_bytes: if is_mostly_deleted { occupied_bytes } else { 0 } }
    }

    /// Called before bytes are freed: deletes between two reclaims count together.
    #[inline]
    pub fn note_used(&mut self, engine: &KvEngine) {
        self.most_used_bytes = self.most_used_bytes.max(engine.used_bytes());
    }

    /// After a put failed on a full host disk: reclaims deleted data. Whether to retry the put.
    #[cold]
    pub fn reclaims(&mut self, engine: &mut KvEngine, flash: &mut Flash, error: &KvError) -> bool {
        if !is_disk_full(error) {
            return false;
        }
        self.note_used(engine);
        if engine.used_bytes().saturating_add(RECLAIMED_MIN_BYTES) > self.most_used_bytes {
            return false;
        }
        let reclaimed = flash.with_reserve(|flash| engine.reclaim(flash, &mut 0)).is_ok();
        self.most_used_bytes = engine.used_bytes();
        flash.restore_reserve();
        reclaimed
    }
}

/// Whether the disk that holds the image had no room.
pub(super) const fn is_disk_full(error: &KvError) -> bool {
    matches!(error, KvError::Flash(FlashError::File(FileError::DiskFull { .. })))
}
