//! A file that is absorbed, as the daemon has it.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byway_sys::robust::Held;
use byway_sys::time::monotonic_ns;
use byway_tdm_engine::log::{Absorber, LowerFile, Ring, RingPlace};
use byway_tdm_engine::table::{Counted, Entry, EntryIndex, Level, Why};
use byway_tdm_region::Window;

use crate::lower::Lower;
use crate::table::SlotNumber;

/// Input/output error, on every Linux.
pub(crate) const EIO: i32 = 5;

/// Busy: it is tried again later.
const EAGAIN: i32 = 11;

/// A program that holds a file's lock for longer is not waited for: it may do so for ever, and other users' files are to be looked after.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// How often a file is synced below to let it go, before it is left for later: whoever writes it all the time fills it again.
const TRIES: u32 = 8;

/// A file, its log and its entry on the board.
#[derive(Debug)]
pub(crate) struct HeldFile {
    pub(crate) entry: EntryIndex,
    pub(crate) slot: SlotNumber,
    pub(crate) ring: RingPlace,
    pub(crate) path: PathBuf,
    pub(crate) lower: Lower,
    /// When it was last synced below, on the monotonic clock.
    retired_ns: AtomicU64,
    /// Since when it was being changed past its lock whenever somebody looked; zero where it was not.
    passing_ns: AtomicU64,
}

impl HeldFile {
    pub(crate) fn new(
        entry: EntryIndex,
        slot: SlotNumber,
        ring: RingPlace,
        (path, lower): (PathBuf, Lower),
    ) -> Self {
        let retired_ns = AtomicU64::new(monotonic_ns());
        Self { entry, slot, ring, path, lower, retired_ns, passing_ns: AtomicU64::new(0) }
    }

    /// How long ago it was synced below.
    pub(crate) fn retired_ago_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.retired_ns.load(Ordering::Relaxed))
    }

    /// Looks whether it is being changed past its lock; for how long that was so at each look.
    pub(crate) fn passing_for_ns(&self, entry: Entry<'_>) -> u64 {
        let (since_ns, now_ns) = (self.passing_ns.load(Ordering::Relaxed), monotonic_ns());
        match (entry.cursor().is_passing(), since_ns) {
            (false, _) => self.passing_ns.store(0, Ordering::Relaxed),
            (true, 0) => self.passing_ns.store(now_ns, Ordering::Relaxed),
            (true, _) => return now_ns.saturating_sub(since_ns),
        }
        0
    }

    /// Syncs it below, and lets go of the records that are covered by that.
    ///
    /// # Errors
    /// An error number: EAGAIN for a file whose lock somebody keeps; every sync of it fails with any other from now on.
    pub(crate) fn retire(&self, entry: Entry<'_>, memory: &Window) -> Result<(), i32> {
        let Some(absorber) = self.absorber(entry, memory) else { return Err(EIO) };
        let begun = {
            let _held = locked(entry)?;
            absorber.begin_below()
        };
        let before = entry.cursor().kept_bytes();
        let result = self.lower.sync().map_err(|error| error.raw_os_error().unwrap_or(EIO));
        self.retired_ns.store(monotonic_ns(), Ordering::Relaxed);
        let _held = locked(entry)?;
        if entry.ring() != self.ring {
            // It was let go and absorbed anew meanwhile.
            return result;
        }
        entry.counters().add(Counted::RetiredBytes, before);
        absorber.synced_below(begun, result)
    }

    /// Takes it down to the kernel: its log is empty then, and stays so.
    ///
    /// # Errors
    /// An error number: it stays absorbed, and every sync of it fails, or it is written so much that it is tried again later.
    pub(crate) fn settle(&self, entry: Entry<'_>, memory: &Window, why: Why) -> Result<(), i32> {
        for _ in 0..TRIES {
            // Nothing is logged from here on, so what is to be retired does not grow but for writers that sync below themselves.
            entry.cursor().suspend();
            match self.retire(entry, memory) {
                Err(EAGAIN) => continue,
                result => result?,
            }
            let _held = locked(entry)?;
            if entry.ring() != self.ring {
                // It was let go by somebody else, and absorbed anew.
                return Ok(());
            }
            if entry.cursor().kept_bytes() == 0 {
                entry.cursor().suspend();
                entry.move_to(Level::Pass, why);
                return Ok(());
            }
        }
        Err(EAGAIN)
    }

    fn absorber<'a>(&self, entry: Entry<'a>, memory: &'a Window) -> Option<Absorber<'a, Window>> {
        Some(Absorber::new(Ring::new(memory, self.ring).ok()?, entry.cursor()))
    }
}

/// A file's lock, but not for ever.
pub(crate) fn locked(entry: Entry<'_>) -> Result<Held<'_>, i32> {
    entry.lock_within(PATIENCE).map_err(|error| match error.kind() {
        ErrorKind::TimedOut => EAGAIN,
        _ => EIO,
    })
}
