//! Leases of buffer slots, as the holder of the device gives, collects and ends them.

use std::sync::Arc;

use crate::buffer::{PendingUnit, Stream};
use crate::counters::Cause;
use crate::durability::{Durability, SyncPoint};
use crate::error::FlashError;
use crate::ftl::Ftl;
use crate::ftl::recovery::{Owned, Recovery};
use crate::geometry::UNIT_BYTES;
use crate::image::layout::BUFFER_SLOTS;
use crate::image::namespaces::ExtentId;
use crate::lease::{BlockLease, LeaseTable, Leased, UNITS_MOST, WaitingUnit};
use crate::location::Location;
use crate::protected::ImageWatch;
use crate::spare::PageKind;

/// Slots that a lease has at most, whatever their size.
const SLOTS_MOST: u32 = 4;

/// Slots of hosts that are not leased, so that other writes have some.
const SLOTS_LEFT: u32 = 3;

/// The leases of a device, and what was collected of them.
#[derive(Default)]
pub(crate) struct Leases {
    table: Arc<LeaseTable>,
    /// A lease was renewed since all were recalled.
    are_active: bool,
    collected: Vec<WaitingUnit>,
}

impl Leases {
    /// What readers see of them.
    pub(crate) fn table(&self) -> Arc<LeaseTable> {
        Arc::clone(&self.table)
    }

    /// Whether threads may write by leases now.
    #[inline]
    pub(crate) const fn are_active(&self) -> bool {
        self.are_active
    }
}

impl Ftl {
    /// Whether units may be written by leases: not with `flush=media`, whose completions wait for the medium, nor with modelled time or
    /// checked reads. Under `flush=command` a renewal may sync (`BufferSlot`).
    pub(crate) fn may_lease(&self) -> bool {
        self.syncs.durability() != Durability::Media
            && self.media.keeps_data()
            && self.media.reader().is_some()
            && self.reads_in_any_order()
    }

    /// Gives a thread a lease without slots. `None` where none is left.
    pub(crate) fn open_lease(&mut self, image: ImageWatch) -> Option<BlockLease> {
        let table = self.leases.table();
        let index = table.open()?;
        self.buffer.note_leases(table.count());
        Some(BlockLease { index, table, writer: self.buffer.writer(), map: self.map.reader(), image })
    }

    /// Programs what is full of a lease, and leases more slots to its thread. Others stay active. On an error the thread has what it had.
    pub(crate) fn renew_lease(&mut self, index: usize, at_ps: &mut u64) -> Result<(), FlashError> {
        let table = self.leases.table();
        let most = self.slots_of_lease(table.count());
        self.give_back_slots(&mut table.cell(index).lock(), most, at_ps)?;
        if !self.has_slots_to_lease() && (table.cell(index).lock().slots().len() as u32) < most {
            self.call_in_slots(index, most, at_ps)?;
        }
        let mut leased = table.cell(index).lock();
        while (leased.slots().len() as u32) < most && self.has_slots_to_lease() {
            let Some((slot, since)) = self.buffer.next_to_lease() else { break };
            self.order_since(SyncPoint::BufferSlot, since)?;
            self.buffer.note_leases(table.count());
            let slot = self.buffer.lease(slot, self.state.next_seq());
            leased.add_slot(slot, self.geometry.units_per_page());
        }
        leased.activate();
        self.leases.are_active = true;
        Ok(())
    }

    fn has_slots_to_lease(&self) -> bool {
        self.buffer.free_count(Stream::Host) > SLOTS_LEFT
    }

    /// Has other leases, of threads that may write no more, give back what they have beyond their part, and slots that are filled no more.
    #[cold]
    fn call_in_slots(&mut self, index: usize, most: u32, at_ps: &mut u64) -> Result<(), FlashError> {
        let table = self.leases.table();
        for other in table.open_ones().filter(|other| *other != index) {
            let mut leased = table.cell(other).lock();
            // What waits there is not to be programmed yet. Its thread writes, and so renews it.
            if !leased.has_waiting() {
                self.give_back_slots(&mut leased, most, at_ps)?;
            }
        }
        let current = self.buffer.current(Stream::Host);
        for slot in self.buffer.held(Stream::Host).into_iter().filter(|slot| *slot != current) {
            self.flush_slot(Stream::Host, slot, Cause::Host, at_ps)?;
        }
        Ok(())
    }

    /// Programs the full slots of a lease, in which nothing waits, and takes back empty ones beyond `most`.
    fn give_back_slots(&mut self, leased: &mut Leased, most: u32, at_ps: &mut u64) -> Result<(), FlashError> {
        while let Some(slot) = leased.full().first().copied() {
            self.flush_slot(Stream::Host, slot.slot, Cause::Host, at_ps)?;
            leased.give_back_first();
        }
        while let Some(slot) = leased.take_empty_beyond(most) {
            self.buffer.end_lease(slot.slot, self.syncs.epoch());
        }
        Ok(())
    }

    /// Slots of a lease where so many are open.
    fn slots_of_lease(&self, open: u32) -> u32 {
        let of_units = UNITS_MOST as u32 / self.geometry.units_per_page();
        SLOTS_MOST
            .min(of_units)
            .min(self.buffer.slots_of_stream().saturating_sub(SLOTS_LEFT + 1) / open.max(1))
            .max(1)
    }

    /// Takes in what waits in all leases: gives each unit a number and has the map name it, in order. `newly` gets the extents of entries that were
    /// unmapped before. With `recall`, no thread writes by a lease from here on until it is renewed.
    pub(crate) fn take_in(&mut self, recall: bool, mut newly: impl FnMut(ExtentId)) {
        let mut collected = std::mem::take(&mut self.leases.collected);
        let table = self.leases.table();
        table.collect(recall, &mut collected);
        self.leases.are_active &= !recall;
        if !collected.is_empty() {
            self.syncs.note_store();
        }
        collected.iter().for_each(|waiting| self.map.prefetch(waiting.unit.owner));
        for WaitingUnit { unit, extent, .. } in &collected {
            let seq = self.state.take_seq();
            let place = self.buffer.number(unit, seq);
            if self.flip(unit.owner, Location::Buffer(place), PageKind::Units) {
                newly(*extent);
            }
            self.state.count_accepted(UNIT_BYTES as u64);
            self.buffer.note_taken_in(unit);
        }
        collected.iter().for_each(|waiting| table.cell(waiting.lease).owners().note_taken_in(1));
        collected.clear();
        self.leases.collected = collected;
    }

    /// Ends a lease, of which all is taken in.
    pub(crate) fn close_lease(&mut self, index: usize) {
        let table = self.leases.table();
        self.end_slots(index);
        table.close(index);
        self.buffer.note_leases(table.count());
    }

    /// Takes every slot of a lease back, of which all is taken in.
    fn end_slots(&mut self, index: usize) {
        let slots = self.leases.table().cell(index).lock().end();
        slots.into_iter().for_each(|slot| self.buffer.end_lease(slot.slot, self.syncs.epoch()));
    }

    /// Takes every slot of all leases back, of which all is taken in: nothing in the image says that there are leases. They go on when they
    /// are renewed.
    pub(crate) fn end_all_slots(&mut self) {
        self.leases.table().open_ones().for_each(|index| self.end_slots(index));
        self.buffer.note_leases(0);
    }

    /// Ends every lease, of which all is taken in.
    pub(crate) fn close_leases(&mut self) {
        let table = self.leases.table();
        table.open_ones().for_each(|index| self.close_lease(index));
    }

    /// Finds the slots that the map points into.
    pub(crate) fn take_up_slots(&mut self) {
        let units = self.geometry.units_per_page();
        let held: Vec<bool> = (0..BUFFER_SLOTS)
            .map(|slot| (0..units).any(|position| self.buffered(slot, position).is_some()))
            .collect();
        self.buffer.take_up(|slot| held[slot as usize]);
    }

    /// After the death of a process: takes in what its threads had written by leases. A unit of which damage hides whose it is
    /// counts as lost. Damaged data is reported when it is read.
    pub(crate) fn take_in_left(&mut self, found: &mut Recovery) {
        for unit in &self.buffer.pending() {
            if self.buffer.proves_owner(unit) {
                self.take_in_one_left(unit);
            } else {
                found.lost += 1;
                self.state.count_media_error();
            }
        }
        if self.buffer.unmark_all() {
            self.take_up_slots();
        }
    }

    /// The same after a loss of real power, of which the map and the blocks are recovered. A unit is taken in if it proves to be whole, and belongs to
    /// a namespace of blocks.
    ///
    /// Its slot's word is as it was at some moment since the last sync. Then the unit waited: no other write of its block was newer, and every sync
    /// that covers a newer one covers too that the unit waits no more. So it is not older than what was synced last. Where no power was
    /// lost, as of a copy, or if the machine was stopped in order, headers are as they were last, and the unit is the newest.
    pub(crate) fn take_in_proven(&mut self, owned: &[Owned]) {
        for unit in &self.buffer.pending() {
            let is_owned = |part: &Owned| {
                part.kind == PageKind::Units && unit.owner.wrapping_sub(part.first) < part.entries
            };
            if owned.iter().any(is_owned) && self.buffer.proves_whole(unit) {
                self.take_in_one_left(unit);
            }
        }
    }

    fn take_in_one_left(&mut self, unit: &PendingUnit) {
        // A forged image may name others.
        if unit.owner >= self.map.len() || self.map.make_ready(unit.owner, 1).is_err() {
            return;
        }
        self.buffer.count_filled(unit);
        // Flipped once more, the entry would forget what it was at the last sync.
        if self.buffered(unit.leased.slot, unit.position).is_none() {
            let seq = self.state.take_seq();
            let place = self.buffer.number(unit, seq);
            self.flip(unit.owner, Location::Buffer(place), PageKind::Units);
        }
        self.state.count_accepted(UNIT_BYTES as u64);
        self.buffer.note_taken_in(unit);
    }
}
