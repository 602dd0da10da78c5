//! The daemon's rounds: retires logs before they are full, and demotes files that cannot be served or do not pay.

use std::sync::Arc;

use byway_tdm_engine::table::{Entry, Reason};
use byway_tdm_region::Memory;
use tracing::debug;

use crate::absorbed::{AbsorbedFile, EIO, locked};
use crate::evaluator::Leave;
use crate::table::Table;
use crate::tenant::Tenant;

/// A log is retired once 1/2 of it is full; the rest must last for the real sync.
const FULL_PART: u64 = 2;

/// Records are retired after 2 s, so that little is left to recover.
const AGE_NS: u64 = 2_000_000_000;

/// A bypassing change in flight for 2 s belongs to a killed thread: the file gets a new log.
const PASSING_NS: u64 = 2_000_000_000;

impl Tenant {
    /// One round over all files; returns the number of real syncs.
    pub(crate) fn retire<M: Memory>(&self, table: &Table<'_, M>) -> u64 {
        // Failing, stores wait for flash, and the next round tries again.
        let _ = self.files().pins.keep(self.partition.as_ref());
        let mut retired = 0;
        for absorbed in self.all_absorbed() {
            let Some(entry) = self.file_table.entry(absorbed.entry) else { continue };
            if let Some(why) = reason_to_release(&absorbed, entry) {
                let _ = self.release(table, &absorbed, entry, why);
                retired += 1;
            } else if needs_it(&absorbed, entry) {
                // A failure is in the table: each sync of the file reports it.
                let _ = absorbed.retire(entry, self.partition.window());
                retired += 1;
            }
        }
        retired
    }

    /// Evaluates all files, if due: demotes those that do not pay and flags those that would.
    pub(crate) fn evaluate_all<M: Memory>(&self, table: &Table<'_, M>) {
        let absorbed = self.all_absorbed();
        let size_of = |index| {
            let absorbed = absorbed.iter().find(|absorbed| absorbed.entry == index)?;
            absorbed.lower.size_bytes().ok()
        };
        let leaving = self.evaluator().look(self.now_ns(), &self.file_table, size_of);
        self.all_leave(table, leaving);
    }

    /// Carries out demotions.
    pub(crate) fn all_leave<M: Memory>(&self, table: &Table<'_, M>, leaving: Vec<Leave>) {
        for Leave { entry: index, why } in leaving {
            let Some(entry) = self.file_table.entry(index) else { continue };
            if self.take_down(table, entry, why).is_err() {
                self.evaluator().kept(self.now_ns(), index);
            }
        }
    }

    fn take_down<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>, why: Reason) -> Result<(), i32> {
        let below = self.demote(table, entry.index(), why);
        below.map_err(|error| error.raw_os_error().unwrap_or(EIO))?;
        match self.absorbed(entry.index()) {
            Some(absorbed) => self.release(table, &absorbed, entry, why),
            None => {
                self.evaluator().note_demotion(self.now_ns(), &entry, why);
                Ok(())
            }
        }
    }

    /// Demotes a file to PASS and frees its ring.
    ///
    /// # Errors
    /// An error number: the file stays absorbed.
    pub(crate) fn release<M: Memory>(
        &self,
        table: &Table<'_, M>,
        absorbed: &Arc<AbsorbedFile>,
        entry: Entry<'_>,
        why: Reason,
    ) -> Result<(), i32> {
        absorbed.settle(entry, self.partition.window(), why)?;
        self.evaluator().note_demotion(self.now_ns(), &entry, why);
        let mut files = self.files();
        let Some(mine) = files.absorbed.iter().position(|other| Arc::ptr_eq(other, absorbed)) else {
            // Another thread released it: its slot and ring may be another file's.
            return Ok(());
        };
        files.absorbed.swap_remove(mine);
        let is_barred = entry.level_state().is_barred;
        debug!(uid = self.uid, path = ?absorbed.path, why = why.sentence(), is_barred, "file demoted to PASS");
        if table.free(absorbed.slot).is_ok() {
            files.give_back(absorbed.ring);
        }
        Ok(())
    }
}

fn needs_it(absorbed: &AbsorbedFile, entry: Entry<'_>) -> bool {
    let kept = entry.cursor().kept_bytes();
    let is_failed = entry.cursor().error().is_some();
    !is_failed
        && kept > 0
        && (kept > absorbed.ring.len_bytes / FULL_PART || absorbed.retired_ago_ns() > AGE_NS)
}

fn reason_to_release(absorbed: &AbsorbedFile, entry: Entry<'_>) -> Option<Reason> {
    let level_state = entry.level_state();
    if entry.cursor().error().is_some() {
        return None;
    }
    if level_state.is_barred {
        return Some(level_state.why);
    }
    if absorbed.lower.links().is_ok_and(|links| links == 0) {
        return Some(Reason::Unlinked);
    }
    if absorbed.bypassed_for_ns(entry) > PASSING_NS && locked(entry).is_ok() {
        return Some(Reason::Busy);
    }
    // The daemon's table names it by path.
    if absorbed.lower.path().is_ok_and(|path| path != absorbed.path) {
        return Some(Reason::Renamed);
    }
    None
}
