//! Persistence domains: what a store needs to survive power loss.

use std::fmt;

/// The persistence domain of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Nothing is kept: it never satisfies an fsync.
    Volatile,
    /// What the system has synced (`msync`) is kept: a mapped file without MAP_SYNC.
    PageSync,
    /// A line is kept once it has left the processor's caches (ADR): write it back, then fence.
    LineFlush,
    /// The caches are kept too (eADR, or a platform that flushes them by itself): fence.
    CpuCache,
}

impl Domain {
    /// Every domain, from the one that keeps least.
    pub const ALL: [Self; 4] = [Self::Volatile, Self::PageSync, Self::LineFlush, Self::CpuCache];

    /// Whether anything stored there can be kept.
    #[must_use]
    pub const fn is_persistent(self) -> bool {
        !matches!(self, Self::Volatile)
    }

    /// Whether lines have to be written back before the fence.
    #[must_use]
    pub const fn needs_write_back(self) -> bool {
        matches!(self, Self::LineFlush)
    }

    /// As tables and the kernel's `persistence_domain` files call it.
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
