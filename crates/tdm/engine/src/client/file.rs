//! What is done with an open file at its level.
//!
//! At PASS a call is the real one, with a look at the level before and one after: a file that was promoted meanwhile has its log
//! suspended, so that the next sync is a real one. At ABSORB the real call and its record are made under the file's lock, or past it.

use std::os::fd::BorrowedFd;

use crate::log::{Absorber, Begun, RingPlace, Source, SyncStep};
use crate::table::{Counted, Entry, Level, Standing, Timed, Why};
use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_tdm_region::Window;

use crate::client::fds::Listed;
use crate::client::past::hold;
use crate::client::session::Session;
use crate::client::timed::{Shadow, Watch};
use crate::client::turn::Turn;

/// A file is worth asking for once three syncs came in this time.
const WORTH_NS: u64 = 100_000_000;

/// After a refusal it is not asked again for so long.
const ASK_AGAIN_NS: u64 = 2_000_000_000;

/// An error number.
pub type Errno = i32;

/// How much of a file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Its bytes, and the size that it takes to read them (fdatasync).
    Data,
    /// Its owner, mode, times and extended attributes too (fsync).
    All,
}

/// Where a write went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// To this offset.
    At(u64),
    /// Somewhere.
    Unknown,
}

/// An open file that is listed.
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

    /// The program and its daemon.
    pub(super) const fn session(&self) -> &'s Session {
        self.session
    }

    /// Its descriptor.
    pub(super) const fn fd(&self) -> BorrowedFd<'s> {
        self.file
    }

    /// Whether every write goes to the end.
    #[must_use]
    pub const fn appends(&self) -> bool {
        self.listed.appends
    }

    /// Whether every write goes to the end, and the open file's position is behind what was written last for as long as its lock is
    /// held: seeks wait for that.
    #[must_use]
    pub const fn appends_alone(&self) -> bool {
        self.listed.appends && self.listed.writes_only
    }

    /// Whether the kernel alone serves it now.
    #[inline]
    #[must_use]
    pub fn is_at_pass(&self) -> bool {
        self.entry.level() == Level::Pass
    }

    /// Writes by `real`, which returns what the system's call does: bytes, or less than zero. `whereto` is asked where these
    /// bytes went, right after them and under the file's lock; `source` has them once more.
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
        let Some((_turn, _held)) = hold(self.entry) else { return self.past(real) };
        let standing = self.entry.standing();
        let before = watch.lap();
        let absorber = self.announced(standing);
        let wrote = real();
        let below = watch.lap();
        if wrote > 0 {
            count_write(self.entry, wrote);
            self.log(absorber.filter(|_| !standing.is_barred), wrote, whereto, source);
            watch.record(self.entry.times(), Timed::LowerWrite, below);
            let added = watch.lap().zip(before).map(|(behind, before)| before + behind);
            watch.record(self.entry.times(), Timed::LevelWrite, added);
        }
        wrote
    }

    /// Writes by `real` at PASS. Nothing is held meanwhile: a thread may be cancelled in it.
    #[inline]
    pub fn pass(&self, real: impl FnOnce() -> isize) -> isize {
        write_at_pass(self.entry, real)
    }

    /// Moves the open file's position by `real`: not between a write and the question where it went.
    pub fn seek<R>(&self, real: impl FnOnce() -> R) -> R {
        match hold(self.entry) {
            Some(_alone) => real(),
            None => self.past(real),
        }
    }

    /// Does something by `real` that no record tells of. Records from before are synced below first, as somebody else may keep what is
    /// done here (O_DSYNC, sync, a bare call), and they would undo it; the next sync is a real one.
    pub fn unseen<R>(&self, below: impl Fn() -> Result<(), Errno>, real: impl FnOnce() -> R) -> R {
        if self.is_at_pass() {
            return self.pass_any(real);
        }
        self.past(|| {
            self.session.settle_here(self.entry, below);
            real()
        })
    }

    /// Syncs; `below` is the system's call, of as much.
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
        let Some(_turn) = Turn::take() else { return self.sync_past(below) };
        let changes = self.unkept(extent);
        let shadow = Shadow::due(self.entry.counters(), now);
        let result = self.sync_absorbed(shadow, changes.is_some(), below);
        shadow.over(&self.entry, now);
        result.inspect(|()| self.keep(changes))
    }

    /// Changes beside its bytes that only a real sync of so much keeps.
    #[inline]
    pub(super) fn unkept(&self, extent: Extent) -> Option<u64> {
        match extent {
            Extent::Data => None,
            Extent::All => self.entry.attributes().unkept(),
        }
    }

    /// A real sync kept them.
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
        let Ok(held) = self.entry.lock_or_pass() else { return self.sync_past(below) };
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

    /// Cuts the file to a size by `real`, or has it grow to it: a record goes before, so that none from before undoes it. `below` is
    /// the system's sync.
    pub fn cut(
        &self,
        size_bytes: u64,
        below: impl Fn() -> Result<(), Errno>,
        real: impl FnOnce() -> Errno,
    ) -> Errno {
        if self.is_at_pass() {
            return self.pass_any(real);
        }
        let Some((_turn, _held)) = hold(self.entry) else { return self.unseen(below, real) };
        let Some(absorber) = self.announced(self.entry.standing()) else { return self.past(real) };
        if absorber.cutting(size_bytes).is_err() {
            let _ = settle_held(&absorber, &below);
            self.entry.cursor().suspend();
        }
        let result = real();
        if result != 0 {
            // A record tells of a cut that never was.
            self.entry.cursor().suspend();
            let _ = settle_held(&absorber, &below);
        }
        result
    }

    /// Something that is not seen may write it from now on: no record may undo that, and every sync is a real one.
    pub fn bar(&self, why: Why, below: impl Fn() -> Result<(), Errno>) {
        self.entry.bar(why);
        // Where that fails, who knows of it alone is told: every sync goes on at home.
        let _ = self.leave_home(why, &below);
        self.session.settle_here(self.entry, below);
    }

    fn pass_any<R>(&self, real: impl FnOnce() -> R) -> R {
        let result = real();
        self.entry.look_again();
        result
    }

    /// The file's log, if it has one, which says until when the file may be written: before it is.
    #[inline]
    fn announced(&self, standing: Standing) -> Option<Absorber<'_, Window>> {
        if standing.level != Level::Absorb {
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

    /// What a sync has to do, by the file's log or because it has to be a real one; `None` where only the system's own call will do. With the
    /// lock held.
    fn step(&self, goes_below: bool) -> Option<SyncStep> {
        let standing = self.entry.standing();
        if standing.level != Level::Absorb {
            return None;
        }
        if standing.is_barred {
            // Until the daemon takes it down, which may be never.
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
        let Ok(_held) = self.entry.lock_or_pass() else {
            return self.session.synced_past(self.entry, (begun, ring), result);
        };
        if self.entry.ring() != ring {
            // It was let go and absorbed anew meanwhile: what began before knows nothing of that log.
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
        // The first has the file itself to bring down as well.
        let is_comparable = self.entry.counters().get(Counted::Syncs) > 1;
        let result = self.timed(is_comparable, below);
        let is_wanted = self.entry.counters().get(Counted::Wanted) != 0;
        if result.is_ok() && (since_third < WORTH_NS || is_wanted) {
            self.ask_to_absorb(now);
        }
        result
    }

    fn sync_past(&self, below: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        self.session.sync_past(self.entry, || self.timed(false, &below))
    }

    /// A real sync. One that has the bytes of its own commit alone to bring down says what a sync costs below.
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
        let standing = self.entry.standing();
        let counters = self.entry.counters();
        if standing.is_barred || now < counters.get(Counted::AskAgainNs) {
            return;
        }
        let Some(_turn) = Turn::take() else { return };
        // Whoever else comes meanwhile does not ask too.
        counters.set(Counted::AskAgainNs, now + ASK_AGAIN_NS);
        match self.session.ask_to_absorb(self.entry, self.file) {
            Some(why) => self.entry.explain(why),
            // Its pages are mapped here now, not each by the first write that comes to it.
            None => self.session.map_ahead(self.entry.ring()),
        }
    }
}

/// Writes by `real` a file that the kernel alone serves.
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

/// A real sync and the end of every record before it, with the lock held.
pub(super) fn settle_held(
    absorber: &Absorber<'_, Window>,
    below: &impl Fn() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let begun = absorber.begin_below();
    absorber.synced_below(begun, below())
}
