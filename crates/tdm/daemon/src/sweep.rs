//! Reclaims entries of the shared file table whose files no process has open: all once the table is crowded, and those of barred files within 60 s,
//! so that they can be served again. Also removes closed files from the filter of files without an entry.
//!
//! A program that has a reclaimed file open after all, unknown to the system, finds its index void and adds the file again. So only files that are
//! barred or without an entry must be known for certain to be closed
//! ([decision 49](../../../../docs/decisions/0049-reclaiming-entries-of-the-shared-file-table.md)).

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use byway_tdm_engine::table::{Counted, ENTRIES, Entry, Level, Reason};

use crate::open_files::OpenFiles;
use crate::sweep_schedule::SweepSchedule;
use crate::tenant::Tenant;

/// Entries from which the table counts as crowded. From half of all on, probing may fail.
const CROWDED: usize = ENTRIES / 4;

/// Entries that a sweep reclaims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    None,
    Barred,
    All,
}

impl Which {
    fn has(self, entry: Entry<'_>) -> bool {
        match self {
            Self::None => false,
            Self::Barred => entry.level_state().is_barred,
            Self::All => true,
        }
    }
}

impl Tenant {
    /// Reclaims entries and removes files from the filter, if the table is crowded, the filter has files, or files are barred. A file opened meanwhile
    /// keeps its entry or gets a new one.
    pub(crate) fn sweep(&self) {
        let mut schedule = self.sweep_schedule();
        if !schedule.is_due() {
            return;
        }
        let which = self.due(&mut schedule);
        if which != Which::None || self.file_table().unlisted() > 0 {
            schedule.run(|| self.look_who_has_what(which));
        }
    }

    fn due(&self, schedule: &mut SweepSchedule) -> Which {
        // The upper bound first: scanning all entries is for a table that may be crowded.
        if self.file_table().made() >= CROWDED && self.file_table().entries().count() >= CROWDED {
            return Which::All;
        }
        let now_ns = self.now_ns();
        if !schedule.take_barred_turn(now_ns) {
            return Which::None;
        }
        let has_barred = self.idle(Which::Barred).next().is_some();
        if has_barred { Which::Barred } else { Which::None }
    }

    fn look_who_has_what(&self, which: Which) {
        let hiding = self.file_table().hiding();
        // Load the counts of opens before listing open files.
        let idle: Vec<_> = self.idle(which).map(|entry| (entry, entry.opened())).collect();
        let (Ok(open), Ok(file_table)) = (OpenFiles::of_user(self.uid()), self.table_file().metadata())
        else {
            return;
        };
        let is_used = open.is_partial() || open.is_mapped_elsewhere(file_table.ino());
        for (entry, opened) in idle {
            let level_state = entry.level_state();
            let is_open = entry.key().is_none_or(|key| open.has(key.inode));
            let is_hidden =
                level_state.is_barred && (open.is_partial() || is_used && level_state.why.is_out_of_sight());
            if !is_open && !is_hidden && self.file_table().give_back(entry, opened) {
                self.evaluator().forget(entry.index());
            }
        }
        if !is_used {
            self.file_table().forget_hiding(hiding);
        }
        // Checked after the list: a file hidden now was visible, or reported as hidden, when its process was read.
        if !open.is_partial() && self.file_table().hiding() == 0 {
            self.file_table().forget_closed(open.inodes());
        }
    }

    fn idle(&self, which: Which) -> impl Iterator<Item = Entry<'_>> {
        self.file_table().entries().filter(move |entry| which.has(*entry) && self.is_idle(*entry))
    }

    /// Whether the entry holds nothing but statistics.
    fn is_idle(&self, entry: Entry<'_>) -> bool {
        let level_state = entry.level_state();
        let is_ordered = level_state.why == Reason::ByHand
            || entry.resident_state().is_promotion_requested()
            || entry.counters().get(Counted::Pinned) != 0;
        // A thread stopped in a call from when the file was served may still store to the entry.
        level_state.level == Level::Pass && !is_ordered && entry.lock_within(Duration::ZERO).is_ok()
    }
}
