//! Leases of buffer slots, as the holder of the device gives, collects and ends them.

use std::sync::Arc;

use crate::buffer::Stream;
use crate::counters::Cause;
use crate::durability::Durability;
use crate::error::FlashError;
use crate::ftl::Ftl;
use crate::geometry::UNIT_BYTES;
use crate::image::layout::BUFFER_SLOTS;
use crate::image::namespaces::ExtentId;
use crate::lease::{BlockLease, LeaseTable, UNITS_MOST, WaitingUnit};
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
    /// Whether units may be written by leases: they are acknowledged before the device knows of them, so no completion waits for the
    /// medium, and no modelled time is taken.
    pub(crate) fn may_lease(&self) -> bool {
        self.syncs.durability() == Durability::Process
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
        let mut leased = table.cell(index).lock();
        while let Some(slot) = leased.full().first().copied() {
            self.flush_slot(Stream::Host, slot, Cause::Host, at_ps)?;
            leased.give_back_first();
        }
        let most = self.slots_of_lease(table.count());
        while (leased.slots().len() as u32) < most && self.buffer.free_count(Stream::Host) > SLOTS_LEFT {
            let Some((slot, _)) = self.buffer.next(Stream::Host) else { break };
            self.buffer.lease(slot);
            leased.add_slot(slot, self.geometry.units_per_page());
        }
        leased.activate();
        self.leases.are_active = true;
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
            self.buffer.note_taken_in(unit);
        }
        self.state.count_accepted((collected.len() * UNIT_BYTES) as u64);
        collected.iter().for_each(|waiting| table.cell(waiting.lease).owners().note_taken_in(1));
        collected.clear();
        self.leases.collected = collected;
    }

    /// Ends a lease, of which all is taken in.
    pub(crate) fn close_lease(&mut self, index: usize) {
        let table = self.leases.table();
        let slots = table.cell(index).lock().end();
        slots.into_iter().for_each(|slot| self.buffer.end_lease(slot));
        table.close(index);
        self.buffer.note_leases(table.count());
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

    /// After the death of a process: takes in what its threads had written by leases. How many units.
    pub(crate) fn take_in_left(&mut self) -> u32 {
        let pending = self.buffer.pending();
        for unit in &pending {
            // A forged image may name others.
            if unit.owner >= self.map.len() || self.map.make_ready(unit.owner, 1).is_err() {
                continue;
            }
            let seq = self.state.take_seq();
            let place = self.buffer.number(unit, seq);
            self.flip(unit.owner, Location::Buffer(place), PageKind::Units);
            self.buffer.note_taken_in(unit);
        }
        if self.buffer.unmark_all() {
            self.take_up_slots();
        }
        pending.len() as u32
    }
}
