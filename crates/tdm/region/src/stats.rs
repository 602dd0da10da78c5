//! Residency and statistics of a region's cache.

/// Residency of a range, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// Resident.
    pub resident_bytes: u64,
    /// Being loaded.
    pub coming_bytes: u64,
    /// Absent: a touch would wait for flash.
    pub absent_bytes: u64,
}

impl Residency {
    /// Whether no touch would wait.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.coming_bytes == 0 && self.absent_bytes == 0
    }
}

/// Statistics of a region's cache. Zero for memory without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegionStats {
    /// Bytes of the cache, if there is one.
    pub cache_bytes: Option<u64>,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Pinned bytes.
    pub pinned_bytes: u64,
    /// Touches of resident pages.
    pub hits: u64,
    /// Pages loaded from flash, or created.
    pub misses: u64,
    /// Pages that a load or store waited for.
    pub blocking_touches: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Bytes read from flash.
    pub from_flash_bytes: u64,
    /// Bytes written to flash.
    pub to_flash_bytes: u64,
    /// Bytes programmed by the flash, including garbage collection.
    pub programmed_bytes: u64,
    /// Modelled time, in picoseconds.
    pub modelled_ps: u64,
}
