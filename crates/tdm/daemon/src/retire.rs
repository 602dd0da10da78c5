//! What the daemon does by itself: syncs files below before their logs are full, and lets those go that cannot be served any more or
//! that are not worth it.

use std::sync::Arc;

use byway_tdm_engine::table::{Entry, Why};
use byway_tdm_region::Memory;

use crate::estate::Estate;
use crate::held::{EIO, HeldFile, locked};
use crate::judge::Leave;
use crate::table::Table;

/// A log is retired once this much of it is full: what is left has to do while the sync below runs.
const FULL_PART: u64 = 2;

/// Records are retired after so long in any case, so that there is little to recover.
const AGE_NS: u64 = 2_000_000_000;

/// Whoever has changed a file past its lock for so long was killed in the midst of that perhaps, and its log goes on no more: only a new one does.
const PASSING_NS: u64 = 2_000_000_000;

impl Estate {
    /// One round over all files; says how many were synced below.
    pub(crate) fn retire<M: Memory>(&self, table: &Table<'_, M>) -> u64 {
        // A device that cannot bring them now has stores wait, and is asked again.
        let _ = self.files().resident.keep(self.slice.as_ref());
        let mut retired = 0;
        for held in self.all_held() {
            let Some(entry) = self.board.entry(held.entry) else { continue };
            if let Some(why) = lets_go(&held, entry) {
                let _ = self.let_go(table, &held, entry, why);
                retired += 1;
            } else if needs_it(&held, entry) {
                // A failure is on the board: every sync of the file says so.
                let _ = held.retire(entry, self.slice.window());
                retired += 1;
            }
        }
        retired
    }

    /// Judges all files, if it is time to: takes those down that are not worth their logs, and says on the board which ones are.
    pub(crate) fn judge_all<M: Memory>(&self, table: &Table<'_, M>) {
        let held = self.all_held();
        let size_of = |index| {
            let held = held.iter().find(|held| held.entry == index)?;
            held.lower.size_bytes().ok()
        };
        let leaving = self.judge().look(self.now_ns(), &self.board, size_of);
        self.all_leave(table, leaving);
    }

    /// Takes files down that are to leave.
    pub(crate) fn all_leave<M: Memory>(&self, table: &Table<'_, M>, leaving: Vec<Leave>) {
        for Leave { entry: index, why } in leaving {
            let Some(entry) = self.board.entry(index) else { continue };
            if self.take_down(table, entry, why).is_err() {
                self.judge().kept(self.now_ns(), index);
            }
        }
    }

    fn take_down<M: Memory>(&self, table: &Table<'_, M>, entry: Entry<'_>, why: Why) -> Result<(), i32> {
        let below = self.unhouse(table, entry.index(), why);
        below.map_err(|error| error.raw_os_error().unwrap_or(EIO))?;
        match self.held(entry.index()) {
            Some(held) => self.let_go(table, &held, entry, why),
            None => {
                self.judge().left(self.now_ns(), &entry, why);
                Ok(())
            }
        }
    }

    /// Takes a file down to the kernel and its ring back.
    ///
    /// # Errors
    /// An error number: it stays as it is.
    pub(crate) fn let_go<M: Memory>(
        &self,
        table: &Table<'_, M>,
        held: &Arc<HeldFile>,
        entry: Entry<'_>,
        why: Why,
    ) -> Result<(), i32> {
        held.settle(entry, self.slice.window(), why)?;
        self.judge().left(self.now_ns(), &entry, why);
        let mut files = self.files();
        let Some(mine) = files.held.iter().position(|other| Arc::ptr_eq(other, held)) else {
            // Somebody else let it go meanwhile, and its slot and ring may be another file's by now.
            return Ok(());
        };
        files.held.swap_remove(mine);
        if table.free(held.slot).is_ok() {
            files.give_back(held.ring);
        }
        Ok(())
    }
}

fn needs_it(held: &HeldFile, entry: Entry<'_>) -> bool {
    let kept = entry.cursor().kept_bytes();
    let is_failed = entry.cursor().error().is_some();
    !is_failed && kept > 0 && (kept > held.ring.len_bytes / FULL_PART || held.retired_ago_ns() > AGE_NS)
}

fn lets_go(held: &HeldFile, entry: Entry<'_>) -> Option<Why> {
    let standing = entry.standing();
    if entry.cursor().error().is_some() {
        return None;
    }
    if standing.is_barred {
        return Some(standing.why);
    }
    if held.lower.links().is_ok_and(|links| links == 0) {
        return Some(Why::Unlinked);
    }
    if held.passing_for_ns(entry) > PASSING_NS && locked(entry).is_ok() {
        return Some(Why::Busy);
    }
    // The table says where it was.
    if held.lower.path().is_ok_and(|path| path != held.path) {
        return Some(Why::Renamed);
    }
    None
}
