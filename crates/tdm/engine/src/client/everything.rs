//! Persists all served files before a program's `sync` or `syncfs`, which would otherwise be undone by replaying older records.

use crate::log::SyncStep;
use crate::resident::{ResidentFile, ResidentIo};
use crate::table::{Entry, Level};

use crate::client::bypass::hold;
use crate::client::file::Errno;
use crate::client::reentrancy::ReentrancyGuard;
use crate::client::session::Session;

impl Session {
    /// Persists every served file. `sync_all` is the real sync of everything.
    pub fn keep_everything(&self, sync_all: impl Fn() -> Result<(), Errno>) {
        let is_served = |entry: &Entry<'_>| entry.level() != Level::Pass;
        for entry in self.file_table().entries().filter(is_served) {
            match hold(entry) {
                Some((guard, held)) => {
                    let is_kept = self.keep_here(entry);
                    drop((held, guard));
                    if !is_kept && !self.drain(entry) {
                        self.take_down(entry, &sync_all);
                    }
                }
                // A bypassing sync: records must not undo what the kernel keeps. A failure is stored in the entry.
                None if entry.level() == Level::Absorb => drop(self.sync_in_bypass(entry, &sync_all)),
                // The daemon bypasses a stopped holder of the lock.
                None => drop(ReentrancyGuard::take().is_some_and(|_guard| self.drain(entry))),
            }
        }
    }

    /// Persists what device memory has of a file. `true` if that is all of it. The caller holds the file's lock.
    fn keep_here(&self, entry: Entry<'_>) -> bool {
        match entry.level() {
            Level::Pass => true,
            // A file that failed is skipped: each of its syncs reports the error.
            Level::Absorb => {
                let step = self.absorber(entry).map(|absorber| absorber.sync());
                matches!(step, Some(SyncStep::Done | SyncStep::Failed(_)))
            }
            // Without terms the file below is complete. Load them after the place: the demoter clears them first.
            Level::Dax => {
                let resident = ResidentFile::new(self.memory(), entry.ring());
                let is_below = entry.resident_state().terms().is_none();
                is_below
                    || resident.is_ok_and(|resident| {
                        ResidentIo::new(resident, entry.resident_words()).sync().is_ok()
                    })
            }
        }
    }
}
