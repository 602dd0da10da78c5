//! The list of one user's DAX-resident files, of places to be freed, and of files that an earlier daemon promoted.

use std::collections::BTreeMap;
use std::sync::Arc;

use byway_tdm_engine::resident::ResidentPlace;
use byway_tdm_engine::table::EntryIndex;
use parking_lot::Mutex;

use crate::promoted_file::{PromotedFile, Vacated};
use crate::table::{Assignment, SlotNumber};

/// A user's DAX-resident files.
#[derive(Debug, Default)]
pub(crate) struct PromotedFiles(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    promoted: Vec<Arc<PromotedFile>>,
    /// Bytes of growth expected of files that outgrew their places, until their next promotion.
    growing: BTreeMap<EntryIndex, u64>,
    orphans: Vec<Orphan>,
    /// Places of demoted files that a stopped thread may still store to.
    left: Vec<Vacated>,
    /// Time of the last check of `orphans`, in ns of the monotonic clock.
    looked_ns: u64,
}

/// A file promoted by an earlier daemon that its program has open. The program's next call demotes it.
#[derive(Debug, Clone)]
pub(crate) struct Orphan {
    slot: SlotNumber,
    was: Assignment,
    /// The file below is complete, unknown to its program.
    is_below: bool,
}

impl Orphan {
    /// The file of a slot.
    pub(crate) const fn new(slot: SlotNumber, was: Assignment, is_below: bool) -> Self {
        Self { slot, was, is_below }
    }

    /// What its slot holds.
    pub(crate) const fn was(&self) -> &Assignment {
        &self.was
    }

    /// Whether the file below is complete, unknown to its program.
    pub(crate) const fn is_below(&self) -> bool {
        self.is_below
    }

    /// Notes whether the file below is complete.
    pub(crate) const fn set_below(&mut self, is_below: bool) {
        self.is_below = is_below;
    }

    /// Slot and place, to be freed once the file was demoted.
    pub(crate) const fn slot_and_place(&self) -> (SlotNumber, ResidentPlace) {
        (self.slot, self.was.ring)
    }
}

impl PromotedFiles {
    /// All files.
    pub(crate) fn all(&self) -> Vec<Arc<PromotedFile>> {
        self.0.lock().promoted.clone()
    }

    /// The file of an entry.
    pub(crate) fn of(&self, entry: EntryIndex) -> Option<Arc<PromotedFile>> {
        self.0.lock().promoted.iter().find(|promoted| promoted.entry() == entry).map(Arc::clone)
    }

    /// Adds a file.
    pub(crate) fn add(&self, promoted: Arc<PromotedFile>) {
        self.0.lock().promoted.push(promoted);
    }

    /// Removes a file, and notes the growth that `on_removed` expects of it. `false` if it is not listed.
    pub(crate) fn remove(
        &self,
        promoted: &Arc<PromotedFile>,
        on_removed: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let mut listed = self.0.lock();
        let before = listed.promoted.len();
        listed.promoted.retain(|other| !Arc::ptr_eq(other, promoted));
        let is_removed = listed.promoted.len() < before;
        if is_removed && let Some(growth_bytes) = on_removed() {
            listed.growing.insert(promoted.entry(), growth_bytes);
        }
        is_removed
    }

    /// Takes the growth expected of a file, in bytes; zero if it did not outgrow its last place.
    pub(crate) fn take_growth(&self, entry: EntryIndex) -> u64 {
        self.0.lock().growing.remove(&entry).unwrap_or(0)
    }

    /// Keeps a place that a stopped thread may still store to.
    pub(crate) fn keep_left(&self, left: Vacated) {
        self.0.lock().left.push(left);
    }

    /// Takes all such places.
    pub(crate) fn take_left(&self) -> Vec<Vacated> {
        std::mem::take(&mut self.0.lock().left)
    }

    /// Adds a file of an earlier daemon.
    pub(crate) fn add_orphan(&self, orphan: Orphan) {
        self.0.lock().orphans.push(orphan);
    }

    /// Takes the files of earlier daemons, if the last check was 100 ms ago.
    pub(crate) fn take_orphans(&self, now_ns: u64) -> Vec<Orphan> {
        const EVERY_NS: u64 = 100_000_000;
        let mut listed = self.0.lock();
        if listed.orphans.is_empty() || now_ns < listed.looked_ns + EVERY_NS {
            return Vec::new();
        }
        listed.looked_ns = now_ns;
        std::mem::take(&mut listed.orphans)
    }
}
