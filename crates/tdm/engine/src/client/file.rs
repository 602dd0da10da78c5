//! Calls on an open file at its level.
//!
//! At PASS a call is the real one, with the level loaded before and after it: the log of a file that was promoted meanwhile is suspended, so
//! that the next sync is a real one. At ABSORB the real call and its record are made under the file's lock, or bypass it.

use std::os::fd::BorrowedFd;

use crate::log::{Absorber, Begun, RingPlace, Source, SyncStep};
use crate::table::{Counted, Entry, Level, Reason, Timed};
use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_tdm_region::Window;

use crate::client::bypass::hold;
use crate::client::fds::Listed;
use crate::client::reentrancy::ReentrancyGuard;
use crate::client::session::Session;
use crate::client::timed::{Shadow, Watch};

/// Ask the daemon once three syncs came within this time.
const WORTH_NS: u64 = 100_000_000;

/// Wait this long before asking again after a refusal.
const ASK_AGAIN_NS: u64 = 2_000_000_000;

/// An error number (errno).
pub type Errno = i32;

/// What a sync covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Data and size (fdatasync).
    Data,
    /// Also owner, mode, times and extended attributes (fsync).
    All,
}

/// Offset that a write went to; of an append, the size found behind it less its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// To this offset.
    At(u64),
    /// The size or the position could not be read.
    Unknown,
}

/// An open file with an entry in the shared file table.
#[derive(Debug)]
pub struct OpenFile<'s> {
    session: &'s Session,
    entry: Entry<'s>,
    file: BorrowedFd<'s>,
    listed: Listed,
}

impl<'s> OpenFile<'s> {
    pub(super) const fn new(
        session: &'s Session,
        entry: Entry<'s>,
        file: BorrowedFd<'s>,
        listed: Listed,
    ) -> Self {
        Self { session, entry, file, listed }
    }

    /// Its entry.
    #[must_use]
    pub const fn entry(&self) -> &Entry<'s> {
        &self.entry
    }

    /// Its session.
    pub(super) const fn session(&self) -> &'s Session {
        self.session
    }

    /// Its descriptor.
    pub(super) const fn fd(&self) -> BorrowedFd<'s> {
        self.file
    }

    /// Whether it was opened with O_APPEND.
    #[must_use]
    pub const fn appends(&self) -> bool {
        self.listed.appends
    }

    /// Whether the open file's position is the end of the last write while the file's lock is held: appended, and seeks take the lock.
    #[must_use]
    pub const fn appends_alone(&self) -> bool {
        self.listed.appends && self.listed.writes_only
    }

    /// Whether the file is at PASS.
    #[inline]
    #[must_use]
    pub fn is_at_pass(&self) -> bool {
        self.entry.level() == Level::Pass
    }

    /// Writes by `real`, which returns bytes or a negative value like the system call. `whereto` returns where the bytes went; it is called right
    /// after, under the file's lock. `source` reads the same bytes again.
    #[inline]
    pub fn write<S: Source>(
        &self,
        real: impl FnOnce() -> isize,
        whereto: impl FnOnce(isize) -> Wrote,
        source: impl FnOnce() -> S,
    ) -> isize {
        if self.is_at_pass() {
            return self.pass(real);
        }
        let mut watch = Watch::of_write(self.entry.counters());
        let Some((_guard, _lock)) = hold(self.entry) else { return self.bypass(real) };
        let level_state = self.entry.level_state();
        let before = watch.lap();
        let absorber = self.announced(level_state.level);
        let wrote = real();
        let below = watch.lap();
        if wrote > 0 {
            count_write(self.entry, wrote);
            self.log(absorber.filter(|_| !level_state.is_barred), wrote, whereto, source);
            watch.record(self.entry.times(), Timed::LowerWrite, below);
            let added = watch.lap().zip(before).map(|(behind, before)| before + behind);
            watch.record(self.entry.times(), Timed::LevelWrite, added);
        }
        wrote
    }

    /// Writes by `real` at PASS. No lock is held: the thread may be cancelled inside.
    #[inline]
    pub fn pass(&self, real: impl FnOnce() -> isize) -> isize {
        write_at_pass(self.entry, real)
    }

    /// Moves the open file's position by `real`, under the lock: not between a write and the query of its position.
    pub fn seek<R>(&self, real: impl FnOnce() -> R) -> R {
        match hold(self.entry) {
            Some(_alone) => real(),
            None => self.bypass(real),
        }
    }

    /// Makes a change without a record by `real`. Earlier records are retired by a real sync first, as another process may persist the change
    /// (O_DSYNC, sync, a bare system call) and the records would undo it. The next sync is a real one.
    pub fn unseen<R>(&self, below: impl Fn() -> Result<(), Errno>, real: impl FnOnce() -> R) -> R {
        if self.is_at_pass() {
            return self.pass_any(real);
        }
        self.bypass(|| {
            self.session.settle_here(self.entry, below);
            real()
        })
    }

    /// Syncs the file. `below` is the system call of the same extent.
    ///
    /// # Errors
    /// The system's error number, or the one that an earlier sync failed with.
    #[inline]
    pub fn sync(&self, extent: Extent, below: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        let now = monotonic_ns();
        let since_third = self.entry.counters().synced_at(now);
        if self.is_at_pass() {
            return self.sync_at_pass(now, since_third, below);
        }
        let Some(_guard) = ReentrancyGuard::take() else { return self.sync_in_bypass(below) };
        let changes = self.unkept(extent);
        let shadow = Shadow::due(self.entry.counters(), now);
        let result = self.sync_absorbed(shadow, changes.is_some(), below);
        shadow.over(&self.entry, now);
        result.inspect(|()| self.keep(changes))
    }

    /// Attribute changes that only a real sync of this extent persists.
    #[inline]
    pub(super) fn unkept(&self, extent: Extent) -> Option<u64> {
        match extent {
            Extent::Data => None,
            Extent::All => self.entry.attributes().unkept(),
        }
    }

    /// Records that a real sync covered these changes.
    #[inline]
    pub(super) fn keep(&self, changes: Option<u64>) {
        if let Some(changes) = changes {
            self.entry.attributes().keep(changes);
        }
    }

    #[inline]
    fn sync_absorbed(
        &self,
        shadow: Shadow,
        has_changes: bool,
        below: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let Ok(held) = self.entry.lock_or_bypass() else { return self.sync_in_bypass(below) };
        let ring = self.entry.ring();
        let step = self.step(has_changes || shadow.goes_below());
        drop(held);
        match step {
            None => below(),
            Some(SyncStep::Done) => {
                self.entry.counters().add(Counted::SavedSyncs, 1);
                Ok(())
            }
            Some(SyncStep::Failed(error)) => Err(error),
            Some(SyncStep::Below(begun)) => self.sync_below((begun, ring), shadow, below),
        }
    }

    /// Truncates or extends the file by `real`. The record goes first, so that no earlier record undoes it. `below` is the real sync.
    pub fn truncate(
        &self,
        size_bytes: u64,
        below: impl Fn() -> Result<(), Errno>,
        real: impl FnOnce() -> Errno,
    ) -> Errno {
        if self.is_at_pass() {
            return self.pass_any(real);
        }
        let Some((_guard, _lock)) = hold(self.entry) else { return self.unseen(below, real) };
        let Some(absorber) = self.announced(self.entry.level()) else { return self.bypass(real) };
        if absorber.truncating(size_bytes).is_err() {
            let _ = settle_held(&absorber, &below);
            self.entry.cursor().suspend();
        }
        let result = real();
        if result != 0 {
            // The recorded truncation failed.
            self.entry.cursor().suspend();
            let _ = settle_held(&absorber, &below);
        }
        result
    }

    /// Bars the file: something may write it without records from now on. Every later sync is a real one.
    pub fn bar(&self, why: Reason, below: impl Fn() -> Result<(), Errno>) {
        self.entry.bar(why);
        // If that fails, the file stays DAX-resident and its syncs go on there.
        let _ = self.demote(why, &below);
        self.session.settle_here(self.entry, below);
    }

    fn pass_any<R>(&self, real: impl FnOnce() -> R) -> R {
        let result = real();
        self.entry.look_again();
        result
    }

    /// The file's log, with the time limit of its writes announced first.
    #[inline]
    fn announced(&self, level: Level) -> Option<Absorber<'_, Window>> {
        if level != Level::Absorb {
            return None;
        }
        let absorber = self.session.absorber(self.entry)?;
        absorber.announce(file_time_ms());
        Some(absorber)
    }

    fn log<S: Source>(
        &self,
        absorber: Option<Absorber<'_, Window>>,
        wrote: isize,
        whereto: impl FnOnce(isize) -> Wrote,
        source: impl FnOnce() -> S,
    ) {
        match (absorber, whereto(wrote)) {
            (Some(absorber), Wrote::At(at)) => {
                absorber.wrote(at, wrote.unsigned_abs() as u64, &mut source());
            }
            _ => self.entry.cursor().suspend(),
        }
    }

    /// What a sync has to do by the file's log. `None` where only the system call will do. The caller holds the lock.
    fn step(&self, goes_below: bool) -> Option<SyncStep> {
        let level_state = self.entry.level_state();
        if level_state.level != Level::Absorb {
            return None;
        }
        if level_state.is_barred {
            // Until the daemon demotes the file.
            self.entry.cursor().suspend();
        }
        let absorber = self.session.absorber(self.entry)?;
        match absorber.sync() {
            SyncStep::Done if goes_below => Some(SyncStep::Below(absorber.begin_below())),
            step => Some(step),
        }
    }

    fn sync_below(
        &self,
        (begun, ring): (Begun, RingPlace),
        shadow: Shadow,
        below: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let result = self.timed(shadow == Shadow::Second, below);
        let Ok(_guard) = self.entry.lock_or_bypass() else {
            return self.session.synced_in_bypass(self.entry, (begun, ring), result);
        };
        if self.entry.ring() != ring {
            // The file was released and absorbed again meanwhile: the sync covers nothing of the new log.
            return result;
        }
        match self.session.absorber(self.entry) {
            Some(absorber) => absorber.synced_below(begun, result),
            None => result,
        }
    }

    fn sync_at_pass(
        &self,
        now: u64,
        since_third: u64,
        below: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        // The first of the pair also writes back the file's older dirty pages.
        let is_comparable = self.entry.counters().get(Counted::Syncs) > 1;
        let result = self.timed(is_comparable, below);
        let is_wanted = self.entry.counters().get(Counted::Wanted) != 0;
        if result.is_ok() && (since_third < WORTH_NS || is_wanted) {
            self.ask_to_absorb(now);
        }
        result
    }

    fn sync_in_bypass(&self, below: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        self.session.sync_in_bypass(self.entry, || self.timed(false, &below))
    }

    /// A real sync. If `is_comparable`, its time is counted as what a sync costs below.
    fn timed(&self, is_comparable: bool, below: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        let began = monotonic_ns();
        let result = below();
        let (counters, ns) = (self.entry.counters(), monotonic_ns().saturating_sub(began));
        counters.add(Counted::LowerSyncs, 1);
        counters.add(Counted::LowerSyncNs, ns);
        if is_comparable {
            self.entry.times().record(Timed::LowerSync, ns);
        }
        result
    }

    #[cold]
    fn ask_to_absorb(&self, now: u64) {
        let level_state = self.entry.level_state();
        let counters = self.entry.counters();
        if level_state.is_barred || now < counters.get(Counted::AskAgainNs) {
            return;
        }
        let Some(_guard) = ReentrancyGuard::take() else { return };
        // Set before asking: other threads do not ask meanwhile.
        counters.set(Counted::AskAgainNs, now + ASK_AGAIN_NS);
        match self.session.ask_to_absorb(self.entry, self.file) {
            Some(why) => self.entry.explain(why),
            // Map the log's pages now, not at the first write of each.
            None => self.session.map_ahead(self.entry.ring()),
        }
    }
}

/// Writes by `real` at PASS.
#[inline(always)]
pub(super) fn write_at_pass(entry: Entry<'_>, real: impl FnOnce() -> isize) -> isize {
    let watch = Watch::of_write(entry.counters());
    let wrote = real();
    if wrote > 0 {
        count_write(entry, wrote);
        watch.over(entry.times(), Timed::LowerWrite);
    }
    entry.look_again();
    wrote
}

#[inline]
fn count_write(entry: Entry<'_>, wrote: isize) {
    let counters = entry.counters();
    counters.add(Counted::Writes, 1);
    counters.add(Counted::WrittenBytes, wrote.unsigned_abs() as u64);
}

/// Really syncs and retires all earlier records. The caller holds the lock.
pub(super) fn settle_held(
    absorber: &Absorber<'_, Window>,
    below: &impl Fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let begun = absorber.begin_below();
    absorber.synced_below(begun, below())
}
