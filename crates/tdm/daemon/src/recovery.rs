//! Recovery of files after a daemon's death or power loss.

use std::path::PathBuf;
use std::time::Duration;

use byway_sys::Deadline;
use byway_tdm_engine::log::{LowerFile, RecoveryError, ReplayEnd, Ring, RingPlace, recover as replay};
use byway_tdm_engine::table::{Entry, Level, Reason};
use byway_tdm_region::{DeviceRegion, Memory};

use crate::absorbed::{AbsorbedFile, LOCK_TIMEOUT};
use crate::attempt::{Attempt, Slot};
use crate::error::DaemonError;
use crate::lower::{self, Lower, Sought};
use crate::outcome::{Outcome, RecoveredFile, Terms};
use crate::table::{Assignment, BootId, Found, Kind, SlotNumber, Table};
use crate::tenant::Tenant;

/// Why a log is kept that a program may still write.
const LOCKED: &str = "a program keeps the lock of its log";

/// Writes back a slot whose file no program is served for now.
fn settle_slot<M: Memory>(
    partition: &dyn DeviceRegion,
    place: Slot<'_, M>,
    was: &Assignment,
    terms: Terms,
) -> (PathBuf, Outcome) {
    if was.boot == terms.boot {
        return sync_file(was);
    }
    let failed = |why: String| (was.path.clone(), Outcome::Failed { why });
    let until_ms = match Ring::new(partition.window(), was.ring).and_then(|ring| ring.written_until_ms()) {
        Ok(until_ms) => until_ms,
        Err(error) => return failed(error.to_string()),
    };
    match Attempt::at(place, was, terms, until_ms) {
        Ok((path, attempt)) => {
            let outcome = replayed(partition, was, &attempt);
            (path, outcome.unwrap_or_else(|error| Outcome::Failed { why: error.to_string() }))
        }
        Err(left) => left,
    }
}

/// Really syncs a file of this boot: the page cache has its writes, and later ones of others.
fn sync_file(was: &Assignment) -> (PathBuf, Outcome) {
    let sought = Sought { key: was.key, is_renumbered: false, is_written: false };
    let synced = Lower::find(&was.path, sought).and_then(|found| match found {
        Some((path, lower)) => lower.sync().map(|()| (path, Outcome::Synced)),
        // A renamed file is on the same file system.
        None if lower::sync_whole(&was.path, was.key) => Ok((was.path.clone(), Outcome::Synced)),
        None => Ok((was.path.clone(), Outcome::Missing)),
    });
    synced.unwrap_or_else(|error| (was.path.clone(), Outcome::Failed { why: error.to_string() }))
}

fn replayed(
    partition: &dyn DeviceRegion,
    was: &Assignment,
    attempt: &impl LowerFile,
) -> Result<Outcome, RecoveryError> {
    let ring = Ring::new(partition.window(), was.ring)?;
    let found = replay(ring, attempt)?;
    Ok(match found.why {
        ReplayEnd::Clean => Outcome::Replayed { records: found.records, data_bytes: found.data_bytes },
        ReplayEnd::Damaged { .. } => Outcome::Damaged { records: found.records },
    })
}

impl Tenant {
    /// Takes over this user's files: those still written stay absorbed, others are written back.
    pub(crate) fn recover<M: Memory>(
        &self,
        table: &Table<'_, M>,
        terms: Terms,
    ) -> Result<Vec<RecoveredFile>, DaemonError> {
        let mut recovered = Vec::new();
        let mut left = Vec::new();
        for (slot, found) in table.slots()? {
            match found {
                Found::Used(was) if was.uid == self.uid() => match self.adopt(slot, &was, terms.boot) {
                    Some(path) => recovered.push(self.became(path, Outcome::Adopted)),
                    None => left.push((slot, was)),
                },
                _ => {}
            }
        }
        let kept = self.disown();
        for (slot, was) in left {
            let place = Slot { table, number: slot };
            let (path, outcome) = match kept.contains(&was.ring) {
                true => (was.path.clone(), Outcome::Failed { why: LOCKED.to_owned() }),
                false if was.kind == Kind::Resident => self.recover_resident(place, &was, terms),
                false => settle_slot(self.partition(), place, &was, terms),
            };
            let outcome = if terms.forgets { outcome.forgotten() } else { outcome };
            match outcome.is_done() {
                true => table.free(slot)?,
                false => self.files().mark(was.ring),
            }
            recovered.push(self.became(path, outcome));
        }
        Ok(recovered)
    }

    const fn became(&self, path: PathBuf, outcome: Outcome) -> RecoveredFile {
        RecoveredFile { path, uid: self.uid(), outcome }
    }

    /// Demotes all files to PASS that programs log to without a daemon, as their rings may be reused. Returns the rings whose files' locks could not
    /// be had in time.
    fn disown(&self) -> Vec<RingPlace> {
        let is_orphan =
            |entry: &Entry<'_>| entry.level() == Level::Absorb && self.absorbed(entry.index()).is_none();
        let orphans = self.file_table().entries().filter(is_orphan);
        let stuck: Vec<_> = orphans.filter(|entry| !leave_to_kernel(*entry, Duration::ZERO)).collect();
        let deadline = Deadline::after(LOCK_TIMEOUT);
        let stuck = stuck.into_iter().filter(|entry| !leave_to_kernel(*entry, deadline.left_or_max()));
        let kept: Vec<_> = stuck.map(|entry| entry.ring()).collect();
        kept.iter().for_each(|ring| self.files().mark(*ring));
        kept
    }

    /// Keeps a file absorbed whose entry names this ring.
    fn adopt(&self, slot: SlotNumber, was: &Assignment, boot: BootId) -> Option<PathBuf> {
        let entry = self.file_table().find(was.key).filter(|_| was.boot == boot)?;
        if entry.level() != Level::Absorb || entry.ring() != was.ring {
            return None;
        }
        let (path, lower) = Lower::find(&was.path, Sought::to_sync(was.key)).ok()??;
        let absorbed = AbsorbedFile::new(entry.index(), slot, was.ring, (path.clone(), lower));
        self.evaluator().adopt(self.now_ns(), &entry, &path, was.ring.len_bytes);
        self.files().adopt(self.partition(), absorbed);
        Some(path)
    }
}

/// Demotes a file to PASS without a real sync. `false` if its lock could not be had in time.
fn leave_to_kernel(entry: Entry<'_>, timeout: Duration) -> bool {
    let Ok(_guard) = entry.lock_within(timeout) else { return false };
    entry.cursor().suspend();
    // A real sync in flight sees that the log is gone.
    entry.set_ring(RingPlace::NOWHERE);
    entry.move_to(Level::Pass, Reason::Renamed);
    true
}

/// Reports the files of a user who cannot be served.
pub(crate) fn left_by_all<M: Memory>(
    table: &Table<'_, M>,
    uid: u32,
    error: &DaemonError,
) -> Result<Vec<RecoveredFile>, DaemonError> {
    let slots = table.slots()?.into_iter();
    let files = slots.filter_map(|(_, found)| match found {
        Found::Used(was) if was.uid == uid => {
            Some(RecoveredFile { path: was.path, uid, outcome: Outcome::Failed { why: error.in_full() } })
        }
        _ => None,
    });
    Ok(files.collect())
}
