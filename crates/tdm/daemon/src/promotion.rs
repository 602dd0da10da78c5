//! Promotion, watching, demotion and recovery of one user's DAX-resident files.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use byway_sys::lease;
use byway_sys::time::{file_time_ms, monotonic_ns};
use byway_tdm_engine::client::end_residency;
use byway_tdm_engine::resident::{ResidentError, ResidentFile, WrittenBack, recover, write_back};
use byway_tdm_engine::table::{Entry, EntryIndex, FileKey, Level, Reason, Terms as ResidentTerms};
use byway_tdm_region::Memory;
use rustix::fs::OFlags;
use tracing::debug;

use crate::absorb::take_slot;
use crate::absorbed::{AbsorbedFile, LOCK_TIMEOUT};
use crate::attempt::{Attempt, Slot};
use crate::lower::{Lower, Sought};
use crate::outcome::{Outcome, Terms};
use crate::promoted_file::{PromotedFile, Vacated};
use crate::promoted_files::Orphan;
use crate::promotion_attempt::{PromotionAttempt, can_overwrite};
use crate::quotas::users;
use crate::table::{Assignment, BootId, Kind, SlotNumber, Table};
use crate::tenant::Tenant;

/// Growth that the next place of an outgrown file must hold: 8 s at its current rate, so that it is not demoted at once again.
const AHEAD_NS: u64 = 8_000_000_000;

/// State of an earlier daemon's resident file.
enum Settled {
    /// Demoted: its place is free.
    Over(PathBuf, Outcome),
    /// Its program has it open; `is_below` if the file below is complete.
    Open { is_below: bool },
}

/// The program that asks for a promotion, and the daemon's identity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) program: i32,
    pub(crate) boot: BootId,
    pub(crate) daemon_epoch: u32,
}

impl Tenant {
    /// Promotes a file that its program handed over. The reason, if it is not promoted.
    pub(crate) fn promote<M: Memory>(
        &self,
        table: &Table<'_, M>,
        index: EntryIndex,
        handed: &OwnedFd,
        asker: Asker,
    ) -> Result<(), Reason> {
        let entry = self.file_table().entry(index).ok_or(Reason::Unknown)?;
        match self.promoted_files().of(index) {
            Some(promoted) if promoted.is_here(entry) => return Ok(()),
            // The lease belongs to the open file: end the earlier use before taking it again.
            Some(promoted) => self.dismiss(table, &promoted),
            None => {}
        }
        let came = self.may_come(entry, handed).and_then(|(key, flags)| {
            if let Some(absorbed) = self.absorbed(index) {
                self.release(table, &absorbed, entry, Reason::InDeviceMemory)
                    .map_err(|_| Reason::SyncFailed)?;
                wait_until_closed(absorbed)?;
            }
            self.take_resident_place(table, (entry, handed), (key, flags), asker)
        });
        match came {
            Ok(()) => debug!(uid = self.uid(), file = ?entry.key(), "file promoted to DAX"),
            Err(why) => {
                debug!(uid = self.uid(), file = ?entry.key(), why = why.sentence(), "file not promoted")
            }
        }
        self.evaluator().answered(self.now_ns(), &entry, Level::Dax, came);
        came
    }

    fn may_come(&self, entry: Entry<'_>, handed: &OwnedFd) -> Result<(FileKey, OFlags), Reason> {
        let key = self.may_be_absorbed(entry, handed.as_fd())?;
        let flags = rustix::fs::fcntl_getfl(handed).map_err(|_| Reason::Unknown)?;
        if let Some(why) = entry.resident_state().excluded() {
            return Err(why);
        }
        if flags.contains(OFlags::APPEND) && !can_overwrite() {
            return Err(Reason::CannotOverwrite);
        }
        Ok((key, flags))
    }

    fn take_resident_place<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (entry, handed): (Entry<'_>, &OwnedFd),
        (key, flags): (FileKey, OFlags),
        asker: Asker,
    ) -> Result<(), Reason> {
        let ahead_bytes = self.promoted_files().take_growth(entry.index());
        let take = |ahead_bytes| self.take_place(table, (entry, handed), (key, flags), ahead_bytes, asker);
        match take(ahead_bytes) {
            Err(Reason::NoRoom) if ahead_bytes > 0 => take(0),
            taken => taken,
        }
    }

    fn take_place<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (entry, handed): (Entry<'_>, &OwnedFd),
        (key, flags): (FileKey, OFlags),
        ahead_bytes: u64,
        asker: Asker,
    ) -> Result<(), Reason> {
        let (slot, assignment) = self.assign(table, (key, handed), ahead_bytes, asker.boot)?;
        let place = assignment.ring;
        let may_return = self.evaluator().may_return(entry.index(), place.len_bytes);
        let came = match may_return {
            true => self.fill_place((entry, handed.as_fd()), (slot, assignment), flags, asker),
            false => Err(Reason::NoRoom),
        };
        if came.is_err() {
            self.files().free(table, (slot, place));
        }
        came
    }

    fn fill_place(
        &self,
        (entry, handed): (Entry<'_>, BorrowedFd<'_>),
        (slot, Assignment { ring: place, path, .. }): (SlotNumber, Assignment),
        flags: OFlags,
        asker: Asker,
    ) -> Result<(), Reason> {
        self.file_table().note_resident_files();
        // First: a program that has ended cannot be watched.
        let promoted = PromotedFile::new((entry.index(), handed), (slot, place), path, asker.program);
        let promoted = Arc::new(promoted.map_err(|_| Reason::Closed)?);
        let terms = ResidentTerms { flags: flags.bits(), daemon_epoch: asker.daemon_epoch };
        PromotionAttempt::new(self.file_table(), (entry, handed), place, terms).promote(self.partition())?;
        self.promoted_files().add(promoted);
        Ok(())
    }

    /// Takes a slot and a place for a file. The place's header is void.
    fn assign<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (key, handed): (FileKey, &OwnedFd),
        ahead_bytes: u64,
        boot: BootId,
    ) -> Result<(SlotNumber, Assignment), Reason> {
        let lower = Lower::again(handed.as_fd()).map_err(|_| Reason::OtherOwner)?;
        let path = lower.path().map_err(|_| Reason::Unlinked)?;
        let size_bytes = lower.size_bytes().map_err(|_| Reason::Unlinked)?;
        let identity = getrandom::u64().map_err(|_| Reason::NoRoom)?;
        let mut files = self.files();
        let least = size_bytes + byway_tdm_engine::resident::FRONT_BYTES;
        let ring = files.take_resident_place(self.partition(), (least, ahead_bytes), identity)?;
        let assignment = Assignment { key, ring, uid: self.uid(), path, boot, kind: Kind::Resident };
        match take_slot(table, &assignment, users()) {
            Some(slot) => Ok((slot, assignment)),
            None => {
                files.give_back(ring);
                Err(Reason::NoRoom)
            }
        }
    }

    /// Demotes a file, if it is DAX-resident, and frees its place.
    ///
    /// # Errors
    /// The system's error: the file stays DAX-resident.
    pub(crate) fn demote<M: Memory>(
        &self,
        table: &Table<'_, M>,
        index: EntryIndex,
        why: Reason,
    ) -> io::Result<()> {
        match (self.promoted_files().of(index), self.file_table().entry(index)) {
            (Some(promoted), Some(entry)) => self.demote_listed(table, (&promoted, entry), why),
            _ => Ok(()),
        }
    }

    fn demote_listed<M: Memory>(
        &self,
        table: &Table<'_, M>,
        (promoted, entry): (&Arc<PromotedFile>, Entry<'_>),
        why: Reason,
    ) -> io::Result<()> {
        promoted.demote_file(entry, self.partition().window(), why)?;
        self.dismiss(table, promoted);
        Ok(())
    }

    /// Checks all files once.
    pub(crate) fn watch_promoted<M: Memory>(&self, table: &Table<'_, M>) {
        for promoted in self.promoted_files().all() {
            let Some(entry) = self.file_table().entry(promoted.entry()) else { continue };
            if !promoted.is_here(entry) {
                self.dismiss(table, &promoted);
            } else if let Some(why) = promoted.must_leave(entry) {
                // A failed demotion is tried again with the next check. The file may be in another place by now, which this entry does not concern.
                let _ = self.demote_listed(table, (&promoted, entry), why);
            }
        }
        self.vacate_left(table);
        self.look_after_orphans(table);
    }

    /// Removes a file that is no longer DAX-resident from the list.
    fn dismiss<M: Memory>(&self, table: &Table<'_, M>, promoted: &Arc<PromotedFile>) {
        let on_removed = || {
            promoted.let_in();
            let entry = self.file_table().entry(promoted.entry())?;
            let has_outgrown = entry.level_state().why == Reason::Outgrown;
            has_outgrown.then(|| promoted.growth_in(AHEAD_NS, entry.resident_words().size_bytes()))
        };
        if !self.promoted_files().remove(promoted, on_removed) {
            return;
        }
        debug!(uid = self.uid(), path = ?promoted.path(), "file demoted from DAX");
        self.report_demotion(promoted.entry());
        self.vacate(table, promoted.vacated());
    }

    /// Frees a place once the file's lock is free: a holder from before the demotion may still store there.
    fn vacate<M: Memory>(&self, table: &Table<'_, M>, left: Vacated) {
        if self.file_table().entry(left.entry()).is_some_and(is_inside) {
            self.promoted_files().keep_left(left);
        } else {
            self.files().free(table, left.slot_and_place());
        }
    }

    fn vacate_left<M: Memory>(&self, table: &Table<'_, M>) {
        self.promoted_files().take_left().into_iter().for_each(|left| self.vacate(table, left));
    }

    fn report_demotion(&self, index: EntryIndex) {
        let Some(entry) = self.file_table().entry(index) else { return };
        let level_state = entry.level_state();
        let mut evaluator = self.evaluator();
        if level_state.level != Level::Dax && evaluator.is_dax_by_benefit(index) {
            evaluator.note_demotion(self.now_ns(), &entry, level_state.why);
        }
    }

    /// Recovers a resident file of an earlier daemon or boot.
    pub(crate) fn recover_resident<M: Memory>(
        &self,
        place: Slot<'_, M>,
        was: &Assignment,
        terms: Terms,
    ) -> (PathBuf, Outcome) {
        let slot = place.number;
        let settled = match was.boot == terms.boot {
            true => self.settle_orphan(was, false),
            false => self.write_back_resident(place, was, terms),
        };
        match settled {
            Ok(Settled::Over(path, outcome)) => (path, outcome),
            Ok(Settled::Open { is_below }) => {
                self.promoted_files().add_orphan(Orphan::new(slot, was.clone(), is_below));
                (was.path.clone(), Outcome::Adopted)
            }
            Err(error) => (was.path.clone(), Outcome::Failed { why: error.to_string() }),
        }
    }

    fn look_after_orphans<M: Memory>(&self, table: &Table<'_, M>) {
        for mut orphan in self.promoted_files().take_orphans(monotonic_ns()) {
            match self.settle_orphan(orphan.was(), orphan.is_below()) {
                Ok(Settled::Over(_, outcome)) if outcome.is_done() => {
                    self.files().free(table, orphan.slot_and_place());
                    continue;
                }
                Ok(Settled::Open { is_below }) => orphan.set_below(is_below),
                _ => {}
            }
            self.promoted_files().add_orphan(orphan);
        }
    }

    /// Demotes a file that an earlier daemon of this boot promoted. If its program has it open, the header stays valid: only the program can set the
    /// position of its open file.
    fn settle_orphan(&self, was: &Assignment, is_below: bool) -> io::Result<Settled> {
        let over = |outcome| Ok(Settled::Over(was.path.clone(), outcome));
        let resident = ResidentFile::new(self.partition().window(), was.ring).map_err(io::Error::other)?;
        let entry = self.file_table().find(was.key);
        if entry.is_some_and(is_inside) {
            // That thread has not seen a new daemon yet, or the file was demoted past it.
            return Ok(Settled::Open { is_below });
        }
        let entry = entry.filter(|entry| is_at(*entry, was));
        if entry.is_none() && !resident.is_live().map_err(io::Error::other)? {
            return over(Outcome::Synced);
        }
        let lower =
            match Lower::find(&was.path, Sought { key: was.key, is_renumbered: false, is_written: true }) {
                Ok(Some((_, lower))) => lower,
                Ok(None) => return over(Outcome::Missing),
                // The earlier daemon's lease is being broken.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Settled::Open { is_below });
                }
                Err(error) => return Err(error),
            };
        let Some(entry) = entry else {
            if lease::take(&lower).is_err() {
                return Ok(Settled::Open { is_below });
            }
            resident.announce(file_time_ms()).map_err(io_error)?;
            recover(resident, &lower).map_err(io_error)?;
            return over(Outcome::Synced);
        };
        let _guard = entry.lock_for_demotion(LOCK_TIMEOUT)?;
        if !is_at(entry, was) {
            return over(Outcome::Synced);
        }
        if entry.resident_state().terms().is_some() && !is_below {
            // Also includes writes that were never synced.
            resident.announce(file_time_ms()).map_err(io_error)?;
            write_back(resident, entry.resident_words().size_bytes(), &lower).map_err(io_error)?;
        }
        if lease::take(&lower).is_err() {
            return Ok(Settled::Open { is_below: true });
        }
        end_residency(self.partition().window(), entry, Reason::Closed)?;
        over(Outcome::Synced)
    }

    /// Writes back a resident file after power loss.
    fn write_back_resident<M: Memory>(
        &self,
        place: Slot<'_, M>,
        was: &Assignment,
        terms: Terms,
    ) -> io::Result<Settled> {
        let over = |path, outcome| Ok(Settled::Over(path, outcome));
        let resident = ResidentFile::new(self.partition().window(), was.ring).map_err(io::Error::other)?;
        if !resident.is_live().map_err(io::Error::other)? {
            return over(was.path.clone(), Outcome::Synced);
        }
        let until_ms = resident.written_until_ms().map_err(io_error)?;
        let (path, attempt) = match Attempt::at(place, was, terms, until_ms) {
            Ok(attempt) => attempt,
            Err((path, outcome)) => return over(path, outcome),
        };
        match recover(resident, &attempt).map_err(io_error)? {
            WrittenBack::Nothing => over(path, Outcome::Synced),
            WrittenBack::All { size_bytes } => over(path, Outcome::Returned { data_bytes: size_bytes }),
        }
    }
}

/// Waits until no retiring thread has the released file open, which would prevent the lease.
fn wait_until_closed(absorbed: Arc<AbsorbedFile>) -> Result<(), Reason> {
    const TRIES: u32 = 100;
    const BETWEEN: Duration = Duration::from_millis(2);
    for _ in 0..TRIES {
        if Arc::strong_count(&absorbed) == 1 {
            return Ok(());
        }
        std::thread::sleep(BETWEEN);
    }
    Err(Reason::Busy)
}

/// Whether a thread holds the file's lock. Later holders see the table's current state.
fn is_inside(entry: Entry<'_>) -> bool {
    entry.lock_within(Duration::ZERO).is_err()
}

fn is_at(entry: Entry<'_>, was: &Assignment) -> bool {
    entry.level() == Level::Dax && entry.ring() == was.ring
}

fn io_error(error: ResidentError) -> io::Error {
    match error {
        ResidentError::Lower(error) => error,
        other => io::Error::other(other),
    }
}
