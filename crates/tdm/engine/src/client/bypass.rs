//! Changes and syncs that bypass a file's lock: in a signal handler that interrupted its holder, or while the holder is stopped. The kernel does
//! them; the next real sync ends the log ([decision 53](../../../../../docs/decisions/0053-bypassing-a-stopped-lock-holder.md)).

use crate::log::{Begun, RingPlace};
use crate::table::{Counted, Entry};
use byway_sys::robust::Held;
use byway_sys::time::file_time_ms;

use crate::client::file::{Errno, OpenFile};
use crate::client::reentrancy::ReentrancyGuard;
use crate::client::session::Session;

/// Takes the file's lock. `None` if this thread holds it already or its holder is stopped: the caller bypasses it.
#[inline]
pub(super) fn hold(entry: Entry<'_>) -> Option<(ReentrancyGuard, Held<'_>)> {
    let guard = ReentrancyGuard::take()?;
    Some((guard, entry.lock_or_bypass().ok()?))
}

impl OpenFile<'_> {
    /// Makes a change without a record by `real`, regardless of the lock. The next sync is a real one.
    pub(super) fn bypass<R>(&self, real: impl FnOnce() -> R) -> R {
        self.session().announce_bypass(*self.entry());
        let pass_call = self.entry().cursor().bypass();
        let result = real();
        drop(pass_call);
        self.entry().counters().add(Counted::Suspended, 1);
        result
    }
}

impl Session {
    fn announce_bypass(&self, entry: Entry<'_>) {
        let ring = entry.ring();
        let is_its = || entry.is_logged_in(ring);
        if let Some(absorber) = self.absorber_in(entry, ring).filter(|_| is_its()) {
            absorber.announce_bypass(file_time_ms(), is_its);
        }
    }

    /// Really syncs a file and ends its log, regardless of the lock.
    pub(super) fn sync_in_bypass(
        &self,
        entry: Entry<'_>,
        below: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let ring = entry.ring();
        match self.absorber_in(entry, ring).filter(|_| entry.is_logged_in(ring)) {
            Some(absorber) => {
                let begun = absorber.begin_bypass();
                self.synced_in_bypass(entry, (begun, ring), below())
            }
            None => below(),
        }
    }

    /// Ends a real sync that began while the file's log was in `ring`.
    pub(super) fn synced_in_bypass(
        &self,
        entry: Entry<'_>,
        (begun, ring): (Begun, RingPlace),
        result: Result<(), Errno>,
    ) -> Result<(), Errno> {
        let is_its = || entry.is_logged_in(ring);
        match self.absorber_in(entry, ring).filter(|_| is_its()) {
            Some(absorber) => absorber.synced_in_bypass(begun, result, is_its),
            None => result,
        }
    }
}
