//! What is done past a file's lock, which this thread has below the signal handler that it is in, or whose holder stands still: the kernel does it, and
//! what was logged before is over with the next real sync.

use crate::log::{Begun, RingPlace};
use crate::table::{Counted, Entry};
use byway_sys::robust::Held;
use byway_sys::time::file_time_ms;

use crate::client::file::{Errno, OpenFile};
use crate::client::session::Session;
use crate::client::turn::Turn;

/// A file's lock, unless it is this thread's already, or whoever has it stands still: then one goes past it.
#[inline]
pub(super) fn hold(entry: Entry<'_>) -> Option<(Turn, Held<'_>)> {
    let turn = Turn::take()?;
    Some((turn, entry.lock_or_pass().ok()?))
}

impl OpenFile<'_> {
    /// Does something by `real` that no record tells of, whoever holds the lock; the next sync is a real one.
    pub(super) fn past<R>(&self, real: impl FnOnce() -> R) -> R {
        self.session().announce_past(*self.entry());
        let passing = self.entry().cursor().pass();
        let result = real();
        drop(passing);
        self.entry().counters().add(Counted::Suspended, 1);
        result
    }
}

impl Session {
    fn announce_past(&self, entry: Entry<'_>) {
        let ring = entry.ring();
        let is_its = || entry.is_logged_in(ring);
        if let Some(absorber) = self.absorber_in(entry, ring).filter(|_| is_its()) {
            absorber.announce_past(file_time_ms(), is_its);
        }
    }

    /// Syncs a file below and ends its log up to here, whoever holds the lock.
    pub(super) fn sync_past(
        &self,
        entry: Entry<'_>,
        below: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let ring = entry.ring();
        match self.absorber_in(entry, ring).filter(|_| entry.is_logged_in(ring)) {
            Some(absorber) => {
                let begun = absorber.begin_past();
                self.synced_past(entry, (begun, ring), below())
            }
            None => below(),
        }
    }

    /// A real sync of a file is done that began when it had that ring.
    pub(super) fn synced_past(
        &self,
        entry: Entry<'_>,
        (begun, ring): (Begun, RingPlace),
        result: Result<(), Errno>,
    ) -> Result<(), Errno> {
        let is_its = || entry.is_logged_in(ring);
        match self.absorber_in(entry, ring).filter(|_| is_its()) {
            Some(absorber) => absorber.synced_past(begun, result, is_its),
            None => result,
        }
    }
}
