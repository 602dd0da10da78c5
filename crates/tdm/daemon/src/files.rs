//! One user's absorbed files, and the places of a partition that logs and resident files take.

use std::sync::Arc;

use byway_tdm_engine::log::RingPlace;
use byway_tdm_engine::table::{EntryIndex, Reason};
use byway_tdm_region::{DeviceRegion, Memory};

use crate::absorbed::AbsorbedFile;
use crate::cache_pins::{CachePins, CacheRoom};
use crate::rings::Rings;
use crate::table::{SlotNumber, Table};

/// Absorbed files, and places for more.
#[derive(Debug)]
pub(crate) struct Files {
    absorbed: Vec<Arc<AbsorbedFile>>,
    rings: Rings,
    pins: CachePins,
}

impl Files {
    /// No files in a partition, and places of about `place_bytes`.
    pub(crate) fn new(partition: &dyn DeviceRegion, room: &CacheRoom, place_bytes: u64) -> Self {
        let pins = CachePins::of(partition, room);
        let rings = Rings::new(partition.len_bytes(), place_bytes.min(pins.log_most_bytes()));
        Self { absorbed: Vec::new(), rings, pins }
    }

    /// Bytes for logs: of all places that the device's cache can pin.
    pub(crate) fn logs_bytes(&self) -> u64 {
        let (places, _) = self.rings.places();
        self.pins.room_bytes(places as u64 * self.rings.ring_bytes())
    }

    /// Places, of what length, and which are taken.
    pub(crate) const fn rings(&self) -> &Rings {
        &self.rings
    }

    /// The absorbed file of an entry.
    pub(crate) fn absorbed(&self, entry: EntryIndex) -> Option<&Arc<AbsorbedFile>> {
        self.absorbed.iter().find(|absorbed| absorbed.entry() == entry)
    }

    /// All absorbed files.
    pub(crate) fn all_absorbed(&self) -> Vec<Arc<AbsorbedFile>> {
        self.absorbed.clone()
    }

    /// Adds a file whose place was taken.
    pub(crate) fn add(&mut self, absorbed: AbsorbedFile) {
        self.absorbed.push(Arc::new(absorbed));
    }

    /// Adds a file that an earlier daemon absorbed. Without cache room its stores wait for flash.
    pub(crate) fn adopt(&mut self, partition: &dyn DeviceRegion, absorbed: AbsorbedFile) {
        let _ = self.pins.admit(partition, absorbed.ring());
        self.mark(absorbed.ring());
        self.add(absorbed);
    }

    /// Removes a file. `false` if it is not listed.
    pub(crate) fn remove(&mut self, absorbed: &Arc<AbsorbedFile>) -> bool {
        let mine = self.absorbed.iter().position(|other| Arc::ptr_eq(other, absorbed));
        mine.map(|mine| self.absorbed.swap_remove(mine)).is_some()
    }

    /// Takes a place for a log, pinned in the device's cache if it has one.
    pub(crate) fn take_ring(
        &mut self,
        partition: &dyn DeviceRegion,
        identity: u64,
    ) -> Result<RingPlace, Reason> {
        let ring = self.rings.take(identity).ok_or(Reason::NoRoom)?;
        self.pins.admit(partition, ring).inspect_err(|_| self.rings.give_back(ring))?;
        Ok(ring)
    }

    /// Takes a place for a resident file of `least_bytes` that may soon grow by `ahead_bytes`, pinned as well.
    pub(crate) fn take_resident_place(
        &mut self,
        partition: &dyn DeviceRegion,
        (least_bytes, ahead_bytes): (u64, u64),
        identity: u64,
    ) -> Result<RingPlace, Reason> {
        let place = self.rings.take_run(least_bytes, ahead_bytes, identity).ok_or(Reason::NoRoom)?;
        self.pins.admit(partition, place).inspect_err(|_| self.rings.give_back(place))?;
        Ok(place)
    }

    /// Marks a place as taken that an earlier daemon assigned.
    pub(crate) fn mark(&mut self, place: RingPlace) {
        self.rings.mark(place);
    }

    /// Frees a place.
    pub(crate) fn give_back(&mut self, place: RingPlace) {
        self.pins.release(place);
        self.rings.give_back(place);
    }

    /// Frees a slot and its place. A slot that cannot be freed keeps its place.
    pub(crate) fn free<M: Memory>(&mut self, table: &Table<'_, M>, (slot, place): (SlotNumber, RingPlace)) {
        if table.free(slot).is_ok() {
            self.give_back(place);
        }
    }

    /// Loads pinned places again that the device evicted. Where that fails, stores wait for flash until the next call.
    pub(crate) fn keep_pinned(&self, partition: &dyn DeviceRegion) {
        let _ = self.pins.keep(partition);
    }
}
