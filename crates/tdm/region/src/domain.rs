//! Persistence domains: what a store needs to survive power loss.

use std::fmt;

/// The persistence domain of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Stores do not survive: never satisfies an fsync.
    Volatile,
    /// Pages survive after `msync`: a mapped file without MAP_SYNC.
    PageSync,
    /// Lines survive outside the processor's caches (ADR): write back, then fence.
    LineFlush,
    /// The caches survive too (eADR, or flushed by the platform): fence.
    CpuCache,
}

impl Domain {
    /// All domains, weakest first.
    pub const ALL: [Self; 4] = [Self::Volatile, Self::PageSync, Self::LineFlush, Self::CpuCache];

    /// Whether stores can survive power loss.
    #[must_use]
    pub const fn is_persistent(self) -> bool {
        !matches!(self, Self::Volatile)
    }

    /// Whether lines must be written back before the fence.
    #[must_use]
    pub const fn needs_write_back(self) -> bool {
        matches!(self, Self::LineFlush)
    }

    /// Its name in tables and in the kernel's `persistence_domain` files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::PageSync => "page_sync",
            Self::LineFlush => "memory_controller",
            Self::CpuCache => "cpu_cache",
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
