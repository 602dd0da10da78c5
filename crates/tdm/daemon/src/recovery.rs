//! What was left by a daemon that died, or by a loss of power.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use byway_sys::Deadline;
use byway_tdm_engine::log::{LowerFile, RecoveryError, ReplayEnd, Ring, RingPlace, recover as replay};
use byway_tdm_engine::table::{Entry, Level, Why};
use byway_tdm_region::{DeviceRegion, Memory};
use serde::Serialize;

use crate::attempt::{Attempt, Slot};
use crate::error::DaemonError;
use crate::estate::Estate;
use crate::held::{HeldFile, PATIENCE};
use crate::lower::{self, Lower, Sought};
use crate::table::{Assignment, BootId, Found, Kind, SlotNumber, Table};

/// What became of a file that was absorbed when its daemon ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// Programs still write it: it goes on.
    Adopted,
    /// It was synced below, and has no log any more.
    Synced,
    /// Its records were written back.
    Replayed {
        /// Records.
        records: u64,
        /// Bytes of data.
        data_bytes: u64,
    },
    /// Device memory was its home: all of it was written back.
    Returned {
        /// Its size.
        data_bytes: u64,
    },
    /// Its records up to a broken one were written back; others that were acknowledged are gone. The log stays as it is.
    Damaged {
        /// Records that were whole.
        records: u64,
    },
    /// What the table says of a log is broken, so that nobody knows whose it was.
    DamagedSlot {
        /// Which slot.
        slot: u32,
        /// Somebody asked for its room to be given back.
        is_freed: bool,
    },
    /// It is not where it was, nor beside that. The log stays as it is.
    Missing,
    /// It is not there, or its log is broken, and somebody asked for the log's room to be given back.
    Forgotten,
    /// It was written since the system was started, so that its records may be older. The log stays as it is.
    WrittenSince,
    /// What cannot be read, or a file that does not take its records. The log stays as it is.
    Failed {
        /// Why.
        why: String,
    },
}

/// One file and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveredFile {
    /// Where it is, or was.
    pub path: PathBuf,
    /// Whose it is.
    pub uid: u32,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Outcome {
    /// What it is once somebody has given up what cannot be written back.
    fn forgotten(self) -> Self {
        match self {
            Self::Missing | Self::Damaged { .. } => Self::Forgotten,
            other => other,
        }
    }

    /// Whether its log is done with: its slot and ring are free again.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(
            self,
            Self::Synced
                | Self::Replayed { .. }
                | Self::Returned { .. }
                | Self::Forgotten
                | Self::DamagedSlot { is_freed: true, .. }
        )
    }
}

/// Why a file's log is left alone while a program may log there.
const LOCKED: &str = "a program keeps the lock of its log";

/// What a region is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be served: not where something in it is broken, which would be written over.
    Serve,
    /// To be emptied.
    Recover {
        /// Even of what is lost by that.
        is_forced: bool,
        /// Even of what cannot be written back.
        forgets: bool,
    },
}

/// How records are written back after another boot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) boot: BootId,
    /// Files that were written since are written over.
    pub(crate) is_forced: bool,
    /// Logs whose files are gone are given back, and broken ones.
    pub(crate) forgets: bool,
}

/// Writes back what is left in a slot whose file nobody writes by us now.
fn settle_slot<M: Memory>(
    slice: &dyn DeviceRegion,
    place: Slot<'_, M>,
    was: &Assignment,
    terms: Terms,
) -> (PathBuf, Outcome) {
    if was.boot == terms.boot {
        return sync_file(was);
    }
    let failed = |why: String| (was.path.clone(), Outcome::Failed { why });
    let until_ms = match Ring::new(slice.window(), was.ring).and_then(|ring| ring.written_until_ms()) {
        Ok(until_ms) => until_ms,
        Err(error) => return failed(error.to_string()),
    };
    match Attempt::at(place, was, terms, until_ms) {
        Ok((path, attempt)) => {
            let outcome = replayed(slice, was, &attempt);
            (path, outcome.unwrap_or_else(|error| Outcome::Failed { why: error.to_string() }))
        }
        Err(left) => left,
    }
}

/// A file of this boot: its writes are all in the page cache, and others may have come behind them since.
fn sync_file(was: &Assignment) -> (PathBuf, Outcome) {
    let sought = Sought { key: was.key, is_renumbered: false, is_written: false };
    let synced = Lower::find(&was.path, sought).and_then(|found| match found {
        Some((path, lower)) => lower.sync().map(|()| (path, Outcome::Synced)),
        // Whatever it is called now, it is on the same file system, which has all that was written in this boot.
        None if lower::sync_whole(&was.path, was.key) => Ok((was.path.clone(), Outcome::Synced)),
        None => Ok((was.path.clone(), Outcome::Missing)),
    });
    synced.unwrap_or_else(|error| (was.path.clone(), Outcome::Failed { why: error.to_string() }))
}

fn replayed(
    slice: &dyn DeviceRegion,
    was: &Assignment,
    attempt: &impl LowerFile,
) -> Result<Outcome, RecoveryError> {
    let ring = Ring::new(slice.window(), was.ring)?;
    let found = replay(ring, attempt)?;
    Ok(match found.why {
        ReplayEnd::Clean => Outcome::Replayed { records: found.records, data_bytes: found.data_bytes },
        ReplayEnd::Damaged { .. } => Outcome::Damaged { records: found.records },
    })
}

impl Estate {
    /// Takes over what the table says of this user: files that programs still write go on, others are written back.
    pub(crate) fn recover<M: Memory>(
        &self,
        table: &Table<'_, M>,
        terms: Terms,
    ) -> Result<Vec<RecoveredFile>, DaemonError> {
        let mut recovered = Vec::new();
        let mut left = Vec::new();
        for (slot, found) in table.slots()? {
            match found {
                Found::Used(was) if was.uid == self.uid => match self.adopt(slot, &was, terms.boot) {
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
                false if was.kind == Kind::Home => self.recover_home(place, &was, terms),
                false => settle_slot(self.slice.as_ref(), place, &was, terms),
            };
            let outcome = if terms.forgets { outcome.forgotten() } else { outcome };
            match outcome.is_done() {
                true => table.free(slot)?,
                false => self.files().rings.mark(was.ring),
            }
            recovered.push(self.became(path, outcome));
        }
        Ok(recovered)
    }

    const fn became(&self, path: PathBuf, outcome: Outcome) -> RecoveredFile {
        RecoveredFile { path, uid: self.uid, outcome }
    }

    /// Leaves every file to the kernel that programs log for and nobody serves: its ring may be another's from then on. The rings of those
    /// whose locks are not to be had, however many they are, in the time that one has.
    fn disown(&self) -> Vec<RingPlace> {
        let is_orphan =
            |entry: &Entry<'_>| entry.standing().level == Level::Absorb && self.held(entry.index()).is_none();
        let orphans = self.board.entries().filter(is_orphan);
        let stuck: Vec<_> = orphans.filter(|entry| !leave_to_kernel(*entry, Duration::ZERO)).collect();
        let deadline = Deadline::after(PATIENCE);
        let stuck = stuck.into_iter().filter(|entry| !leave_to_kernel(*entry, deadline.left_or_max()));
        let kept: Vec<_> = stuck.map(|entry| entry.ring()).collect();
        kept.iter().for_each(|ring| self.files().rings.mark(*ring));
        kept
    }

    /// Goes on with a file whose entry on the board says that it is absorbed by that ring.
    fn adopt(&self, slot: SlotNumber, was: &Assignment, boot: BootId) -> Option<PathBuf> {
        let entry = self.board.find(was.key).filter(|_| was.boot == boot)?;
        if entry.standing().level != Level::Absorb || entry.ring() != was.ring {
            return None;
        }
        let (path, lower) = Lower::find(&was.path, Sought::to_sync(was.key)).ok()??;
        let held = HeldFile::new(entry.index(), slot, was.ring, (path.clone(), lower));
        // Where there is no room for it in the device's cache, its stores wait.
        let _ = self.files().resident.admit(self.slice.as_ref(), was.ring);
        self.judge().adopt(self.now_ns(), &entry, &path, was.ring.len_bytes);
        let mut files = self.files();
        files.rings.mark(was.ring);
        files.held.push(Arc::new(held));
        Some(path)
    }
}

/// Has a file that nobody serves be the kernel's; whether its lock was to be had.
fn leave_to_kernel(entry: Entry<'_>, patience: Duration) -> bool {
    let Ok(_held) = entry.lock_within(patience) else { return false };
    entry.cursor().suspend();
    // A real sync that began before knows by this that the log is not the file's any more.
    entry.set_ring(RingPlace::NOWHERE);
    entry.move_to(Level::Pass, Why::Renamed);
    true
}

/// What is told of a user's files where he cannot be served.
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

/// Writes back all that a region has, without serving it. What programs still write is left to the kernel, synced.
///
/// # Errors
/// [`DaemonError`] where the region cannot be opened, as while a daemon has it.
pub fn recover(options: &crate::Options, is_forced: bool) -> Result<Vec<RecoveredFile>, DaemonError> {
    crate::serve::recover_alone(options, Purpose::Recover { is_forced, forgets: false })
}

/// The same, and gives back the room of logs that cannot be written back, as their files are gone or they are broken.
///
/// # Errors
/// As [`recover`].
pub fn forget(options: &crate::Options, is_forced: bool) -> Result<Vec<RecoveredFile>, DaemonError> {
    crate::serve::recover_alone(options, Purpose::Recover { is_forced, forgets: true })
}
