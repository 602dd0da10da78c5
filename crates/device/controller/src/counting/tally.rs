//! Commands that one thread executed without the run lock. Only that thread writes the tally, so that counting shares no line;
//! a holder of the run lock adds what is new to the subsystem's counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use byway_flash::{FlashReads, HostCounters, HostIo, HostTally};
use byway_spec::kv::KvOpcode;

use super::Counted;
use crate::subsystem::Subsystem;

/// Commands of one thread, on cache lines of its own. SMART has them whatever becomes of the process.
#[derive(Debug)]
#[repr(align(128))]
pub struct Tally {
    host: HostTally,
    flash_pages: AtomicU64,
    flash_bytes: AtomicU64,
}

/// A tally at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TallyCounts {
    host: HostCounters,
    flash: FlashReads,
}

impl Tally {
    /// The tally of serving thread `thread`. `None` if there are too many, or nothing is counted in the image.
    #[must_use]
    pub fn new(subsystem: &Subsystem, thread: usize) -> Option<Self> {
        let host = subsystem.flash().host_tally(thread)?;
        Some(Self { host, flash_pages: AtomicU64::new(0), flash_bytes: AtomicU64::new(0) })
    }

    /// Adds a read that moved so many bytes to the host. Called by the tally's thread alone.
    #[inline]
    pub fn add_read(&self, bytes: u64, from_flash: FlashReads) {
        add(&self.flash_pages, from_flash.pages);
        add(&self.flash_bytes, from_flash.bytes);
        self.host.add(HostIo::Read, bytes);
    }

    /// Adds a store of a value of so many bytes. Called by the tally's thread alone.
    #[inline]
    pub fn add_store(&self, bytes: u64) {
        self.host.add(HostIo::Write, bytes);
    }

    /// What was added, also by threads before it.
    #[must_use]
    pub fn counts(&self) -> TallyCounts {
        let flash =
            FlashReads { pages: self.flash_pages.load(Relaxed), bytes: self.flash_bytes.load(Relaxed) };
        TallyCounts { host: self.host.counts(), flash }
    }
}

/// By its one writer: no locked instruction.
#[inline]
fn add(to: &AtomicU64, by: u64) {
    to.store(to.load(Relaxed).wrapping_add(by), Relaxed);
}

impl Subsystem {
    /// Counts what came to a tally since it was `counted` last.
    pub fn count_tally(&mut self, tally: &Tally, counted: &mut TallyCounts) {
        let now = tally.counts();
        if now == *counted {
            return;
        }
        let before = std::mem::replace(counted, now);
        self.count_tallied(now.host.since(before.host));
        self.flash_mut().count_reads(FlashReads {
            pages: now.flash.pages.saturating_sub(before.flash.pages),
            bytes: now.flash.bytes.saturating_sub(before.flash.bytes),
        });
    }
}

impl Counted {
    /// A read of blocks or a Retrieve over a fabric: both have one opcode.
    pub(crate) const RETRIEVED_BY_CAPSULE: Self = Self::of_transport(KvOpcode::RETRIEVE.0);
    /// A Store with its value in the capsule.
    pub(crate) const STORED_IN_CAPSULE: Self = Self::of_inline(KvOpcode::STORE.0);
}
