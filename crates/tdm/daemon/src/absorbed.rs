//! An absorbed file, as the daemon holds it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byway_sys::robust::Held;
use byway_sys::time::monotonic_ns;
use byway_tdm_engine::log::{Absorber, LowerFile, Ring, RingPlace};
use byway_tdm_engine::table::{Counted, Entry, EntryIndex, Level, Reason};
use byway_tdm_region::Window;

use crate::lower::Lower;
use crate::table::SlotNumber;

/// EIO.
pub(crate) const EIO: i32 = 5;

/// EAGAIN: to be tried again later.
const EAGAIN: i32 = 11;

/// Time limit for a file's lock: a program may hold it for ever, and other users' files need the thread.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// Real syncs per attempt to demote a file, which a busy writer makes dirty again.
const TRIES: u32 = 8;

/// A log is retired once 1/2 of it is full; the rest must last for the real sync.
const FULL_PART: u64 = 2;

/// Records are retired after 2 s, so that little is left to recover.
const AGE_NS: u64 = 2_000_000_000;

/// A bypassing change in flight for 2 s belongs to a killed thread: the file gets a new log.
const PASSING_NS: u64 = 2_000_000_000;

/// A file, its log and its entry in the shared file table.
#[derive(Debug)]
pub(crate) struct AbsorbedFile {
    entry: EntryIndex,
    slot: SlotNumber,
    ring: RingPlace,
    path: PathBuf,
    lower: Lower,
    /// Time of the last real sync, in ns of the monotonic clock.
    retired_ns: AtomicU64,
    /// Since when every check found a bypassing change in flight, in ns of the monotonic clock; zero if none.
    bypassed_ns: AtomicU64,
}

impl AbsorbedFile {
    pub(crate) fn new(
        entry: EntryIndex,
        slot: SlotNumber,
        ring: RingPlace,
        (path, lower): (PathBuf, Lower),
    ) -> Self {
        let retired_ns = AtomicU64::new(monotonic_ns());
        Self { entry, slot, ring, path, lower, retired_ns, bypassed_ns: AtomicU64::new(0) }
    }

    /// Its entry in the shared file table.
    pub(crate) const fn entry(&self) -> EntryIndex {
        self.entry
    }

    /// Its slot in the daemon's table.
    pub(crate) const fn slot(&self) -> SlotNumber {
        self.slot
    }

    /// Its log.
    pub(crate) const fn ring(&self) -> RingPlace {
        self.ring
    }

    /// Its path when it was absorbed.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes, if that can be had.
    pub(crate) fn size_bytes(&self) -> Option<u64> {
        self.lower.size_bytes().ok()
    }

    /// Begins the log. `false` if the file was barred or promoted meanwhile.
    pub(crate) fn begin(&self, entry: Entry<'_>) -> bool {
        let Ok(_guard) = locked(entry) else { return false };
        entry.level() != Level::Dax && entry.begin_log(self.ring, Reason::Earned)
    }

    /// Whether its records are to be retired now: many, or old.
    pub(crate) fn is_due(&self, entry: Entry<'_>) -> bool {
        let kept = entry.cursor().kept_bytes();
        let is_old = || self.retired_ago_ns() > AGE_NS;
        entry.cursor().error().is_none() && kept > 0 && (kept > self.ring.len_bytes / FULL_PART || is_old())
    }

    /// Why the file must be demoted, if it must.
    pub(crate) fn must_leave(&self, entry: Entry<'_>) -> Option<Reason> {
        let level_state = entry.level_state();
        if entry.cursor().error().is_some() {
            return None;
        }
        if level_state.is_barred {
            return Some(level_state.why);
        }
        if self.lower.links().is_ok_and(|links| links == 0) {
            return Some(Reason::Unlinked);
        }
        if self.bypassed_for_ns(entry) > PASSING_NS && locked(entry).is_ok() {
            return Some(Reason::Busy);
        }
        // The daemon's table names it by path.
        self.lower.path().is_ok_and(|path| path != self.path).then_some(Reason::Renamed)
    }

    /// Nanoseconds since the last real sync.
    fn retired_ago_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.retired_ns.load(Ordering::Relaxed))
    }

    /// Checks for a bypassing change in flight; returns for how long every check has found one.
    fn bypassed_for_ns(&self, entry: Entry<'_>) -> u64 {
        let (since_ns, now_ns) = (self.bypassed_ns.load(Ordering::Relaxed), monotonic_ns());
        match (entry.cursor().is_bypassed(), since_ns) {
            (false, _) => self.bypassed_ns.store(0, Ordering::Relaxed),
            (true, 0) => self.bypassed_ns.store(now_ns, Ordering::Relaxed),
            (true, _) => return now_ns.saturating_sub(since_ns),
        }
        0
    }

    /// Really syncs the file and retires the records that this covers.
    ///
    /// # Errors
    /// EAGAIN if the file's lock is held too long; with any other error number every sync of the file fails from now on.
    pub(crate) fn retire(&self, entry: Entry<'_>, memory: &Window) -> Result<(), i32> {
        let Some(absorber) = self.absorber(entry, memory) else { return Err(EIO) };
        let begun = {
            let _guard = locked(entry)?;
            absorber.begin_below()
        };
        let before = entry.cursor().kept_bytes();
        let result = self.lower.sync().map_err(|error| error.raw_os_error().unwrap_or(EIO));
        self.retired_ns.store(monotonic_ns(), Ordering::Relaxed);
        let _guard = locked(entry)?;
        if entry.ring() != self.ring {
            // Released and absorbed again meanwhile.
            return result;
        }
        entry.counters().add(Counted::RetiredBytes, before);
        absorber.synced_below(begun, result)
    }

    /// Demotes the file to PASS with an empty log.
    ///
    /// # Errors
    /// EAGAIN if writers keep the log in use; with any other error number the file stays absorbed and its syncs fail.
    pub(crate) fn settle(&self, entry: Entry<'_>, memory: &Window, why: Reason) -> Result<(), i32> {
        for _ in 0..TRIES {
            // No more records: only writers that sync themselves add to what must be retired.
            entry.cursor().suspend();
            match self.retire(entry, memory) {
                Err(EAGAIN) => continue,
                result => result?,
            }
            let _guard = locked(entry)?;
            if entry.ring() != self.ring {
                // Another thread released it, and it was absorbed again.
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

/// Takes a file's lock, with a timeout.
pub(crate) fn locked(entry: Entry<'_>) -> Result<Held<'_>, i32> {
    entry.lock_within(LOCK_TIMEOUT).map_err(|error| match error.kind() {
        ErrorKind::TimedOut => EAGAIN,
        _ => EIO,
    })
}
