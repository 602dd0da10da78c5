//! The daemon's rounds: retires logs before they are full, and demotes files that cannot be served or do not pay.

use std::sync::Arc;

use byway_tdm_engine::table::{Entry, Reason};
use byway_tdm_region::Memory;
use tracing::debug;

use crate::absorbed::{AbsorbedFile, EIO};
use crate::evaluator::Leave;
use crate::table::Table;
use crate::tenant::Tenant;

impl Tenant {
    /// One round over all files; returns the number of real syncs.
    pub(crate) fn retire<M: Memory>(&self, table: &Table<'_, M>) -> u64 {
        self.files().keep_pinned(self.partition());
        let mut retired = 0;
        for absorbed in self.all_absorbed() {
            let Some(entry) = self.file_table().entry(absorbed.entry()) else { continue };
            if let Some(why) = absorbed.must_leave(entry) {
                let _ = self.release(table, &absorbed, entry, why);
                retired += 1;
            } else if absorbed.is_due(entry) {
                // A failure is in the table: each sync of the file reports it.
                let _ = absorbed.retire(entry, self.partition().window());
                retired += 1;
            }
        }
        retired
    }

    /// Evaluates all files, if due: demotes those that do not pay and flags those that would.
    pub(crate) fn evaluate_all<M: Memory>(&self, table: &Table<'_, M>) {
        let absorbed = self.all_absorbed();
        let size_of = |index| {
            let absorbed = absorbed.iter().find(|absorbed| absorbed.entry() == index)?;
            absorbed.size_bytes()
        };
        let leaving = self.evaluator().look(self.now_ns(), self.file_table(), size_of);
        self.all_leave(table, leaving);
    }

    /// Carries out demotions.
    pub(crate) fn all_leave<M: Memory>(&self, table: &Table<'_, M>, leaving: Vec<Leave>) {
        for Leave { entry: index, why } in leaving {
            let Some(entry) = self.file_table().entry(index) else { continue };
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
        absorbed.settle(entry, self.partition().window(), why)?;
        self.evaluator().note_demotion(self.now_ns(), &entry, why);
        let mut files = self.files();
        if !files.remove(absorbed) {
            // Another thread released it: its slot and ring may be another file's.
            return Ok(());
        }
        let is_barred = entry.level_state().is_barred;
        debug!(uid = self.uid(), path = ?absorbed.path(), why = why.sentence(), is_barred, "file demoted to PASS");
        files.free(table, (absorbed.slot(), absorbed.ring()));
        Ok(())
    }
}
