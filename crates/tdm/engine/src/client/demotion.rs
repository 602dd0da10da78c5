//! Demotion of a DAX-resident file: for a call that only the kernel can make, or past a stopped holder of its lock
//! ([decision 54](../../../../../docs/decisions/0054-demoting-a-dax-resident-file-past-a-stopped-thread.md)).
//!
//! The demoter holds a lock of its own ([`demote_file`]); what a stopped thread does afterwards has no effect.

use std::io;
use std::time::Duration;

use crate::table::{Entry, FileKey, Level, Reason};
use byway_sys::time::monotonic_ns;
use byway_sys::{Deadline, lease};

use crate::client::file::{Errno, OpenFile};
use crate::client::reentrancy::ReentrancyGuard;
use crate::client::resident::ResidentOutcome;
use crate::client::session::Session;
use crate::client::write_back::{demote_file, end_residency};

const EIO: Errno = 5;
/// A signal handler interrupted the demoting thread and cannot wait for it.
const EDEADLK: Errno = 35;

/// Time after which a thread checks again a file that the daemon is to demote: the stopped thread may have continued.
const AWAITED: Duration = Duration::from_secs(1);

/// A daemon not seen for 3 s no longer watches who opens a file.
const GONE_NS: u64 = 3_000_000_000;

impl OpenFile<'_> {
    /// Demotes the file if it is DAX-resident. `below` is the real sync.
    ///
    /// # Errors
    /// An error number: the file stays DAX-resident.
    pub fn demote(&self, why: Reason, below: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
        while self.is_resident() {
            if self.demote_file(why, &below)? {
                break;
            }
            // Another process is promoting it, or died while it did: the holder of the file's lock finds out which.
            if let ResidentOutcome::Failed(error) = self.with_resident(|_, _| Ok(())) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Demotes a DAX-resident file. `true` once it is demoted, `false` if it is still being promoted.
    fn demote_file(&self, why: Reason, below: &impl Fn() -> Result<(), Errno>) -> Result<bool, Errno> {
        let Some(_guard) = ReentrancyGuard::take() else { return self.demoted_by_daemon().map(|()| true) };
        let is_it =
            FileKey::of(self.fd()).ok().flatten().is_some_and(|it| Some(it.key) == self.entry().key());
        if !is_it {
            // The descriptor is another file's by now.
            return if self.session().settle(*self.entry()) { Ok(true) } else { Err(EIO) };
        }
        // Prefer the daemon: a demoter that is stopped here writes the file below when it continues, which no lock prevents.
        if self.session().ask_to_demote(*self.entry(), why) && !self.is_resident() {
            return Ok(true);
        }
        let _guard = self.entry().lock_for_demotion(Duration::MAX).map_err(|_| EIO)?;
        if !self.is_resident() || self.entry().resident_state().terms().is_none() {
            return Ok(!self.is_resident());
        }
        let sync = || below().map_err(io::Error::from_raw_os_error);
        demote_file(self.session().memory(), *self.entry(), self.fd(), why, sync)
            .map(|()| true)
            .map_err(|error| error.raw_os_error().unwrap_or(EIO))
    }

    /// Waits for the daemon to demote the file past this thread, in a signal handler that interrupted one of its calls.
    fn demoted_by_daemon(&self) -> Result<(), Errno> {
        if self.entry().is_locked_by_me() {
            self.entry().give_up();
            let _ = self.session().await_demotion(*self.entry());
        }
        if self.is_resident() { Err(EDEADLK) } else { Ok(()) }
    }

    /// The lock's holder is stopped, or is this thread, which has jumped out of the call. The daemon demotes the file past it.
    #[cold]
    pub(super) fn bypass_stopped_holder<R>(&self) -> ResidentOutcome<R> {
        self.entry().give_up();
        self.wait_for_demotion()
    }

    /// Waits for a demotion that is under way or requested.
    #[cold]
    pub(super) fn wait_for_demotion<R>(&self) -> ResidentOutcome<R> {
        match self.session().await_demotion(*self.entry()) {
            Ok(()) => ResidentOutcome::NotResident,
            Err(Awaited::NoDemoter) => self.fall_back_to_kernel(Reason::NoDaemon),
            Err(Awaited::OwnThread) => ResidentOutcome::Failed(EDEADLK),
        }
    }

    /// Finishes a promotion or demotion whose process died: the file below is complete. The caller holds the file's lock.
    #[cold]
    pub(super) fn finish_dead_move<R>(&self) -> ResidentOutcome<R> {
        match end_residency(self.session().memory(), *self.entry(), Reason::Busy) {
            Ok(()) => {
                let _ = lease::give_back(self.fd());
                ResidentOutcome::NotResident
            }
            Err(_) => ResidentOutcome::Failed(EIO),
        }
    }

    /// Demotes the file, for a call that device memory cannot serve.
    #[cold]
    pub(super) fn fall_back_to_kernel<R>(&self, why: Reason) -> ResidentOutcome<R> {
        let sync = || sync_raw(self.fd());
        match self.demote(why, sync) {
            Ok(()) => ResidentOutcome::NotResident,
            Err(error) => ResidentOutcome::Failed(error),
        }
    }
}

/// Why waiting for a demotion is pointless.
#[derive(Debug)]
pub(super) enum Awaited {
    /// There is no daemon, or the demoter died.
    NoDemoter,
    /// A signal handler interrupted the demoting thread.
    OwnThread,
}

impl Session {
    /// Waits at most 1 s until a file is demoted, by a thread that does so or by the daemon past a stopped thread. The caller checks again after
    /// a timeout.
    ///
    /// # Errors
    /// [`Awaited`].
    pub(super) fn await_demotion(&self, entry: Entry<'_>) -> Result<(), Awaited> {
        const BETWEEN: Duration = Duration::from_millis(1);
        let end = Deadline::after(AWAITED);
        if entry.is_demoted_by_me() {
            return Err(Awaited::OwnThread);
        }
        while entry.level() == Level::Dax && (entry.resident_words().is_closed() || !end.is_over()) {
            let is_deserted = match entry.resident_words().is_closed() {
                true => !entry.is_being_demoted(),
                false => self.is_gone(monotonic_ns()) || self.is_of_other_daemon(entry),
            };
            if is_deserted && entry.level() == Level::Dax {
                return Err(Awaited::NoDemoter);
            }
            std::thread::sleep(BETWEEN);
        }
        Ok(())
    }

    /// Whether the file was promoted by an earlier daemon.
    pub(super) fn is_of_other_daemon(&self, entry: Entry<'_>) -> bool {
        entry
            .resident_state()
            .terms()
            .is_some_and(|terms| terms.daemon_epoch != self.file_table().daemon_epoch())
    }

    /// Whether no daemon watches who opens a file.
    #[inline]
    pub(super) fn is_gone(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.file_table().seen_ns()) > GONE_NS
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the file below of a resident file: really synced before the header is void"
)]
fn sync_raw(file: std::os::fd::BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fdatasync(file).map_err(rustix::io::Errno::raw_os_error)
}
