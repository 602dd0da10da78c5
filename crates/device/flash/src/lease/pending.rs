//! What waits in leases, as their threads, readers and the device see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use byway_queue::Waiting;

use crate::buffer::{LeasedSlot, PendingUnit};
use crate::image::namespaces::ExtentId;
use crate::lease::{LEASES_MAX, UNITS_MOST};
use crate::location::EntryIndex;

/// All leases of a device.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    /// Bit `n` is set while lease `n` is open. Changes when a thread gets or loses its lease.
    open: AtomicU64,
    order: Order,
    cells: [Cell; LEASES_MAX],
}

/// The place of the next unit in the order of all that wait, on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Order(AtomicU64);

/// One lease. Its thread stores into no line that other threads store into, but that of the order.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cell {
    /// Owners of the units that wait.
    owners: Waiting<UNITS_MOST>,
    leased: Mutex<Leased>,
}

/// What a lease has, guarded by its lock: its thread holds it while it writes one command, the holder of the device while it
/// collects what waits, changes the slots, or recalls the lease.
#[derive(Debug, Default)]
pub(crate) struct Leased {
    /// The thread may write.
    is_active: bool,
    /// Slots that it fills, in order.
    slots: Vec<LeasedSlot>,
    units_per_slot: u32,
    /// Positions of these slots that are filled.
    filled: u32,
    waiting: Vec<WaitingUnit>,
}

/// A unit that waits, of an extent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingUnit {
    pub(crate) unit: PendingUnit,
    pub(crate) extent: ExtentId,
    /// Index of its lease.
    pub(crate) lease: usize,
}

impl Default for LeaseTable {
    fn default() -> Self {
        // Of what a recovery finds, that which has a number of its own comes first: 0.
        let order = Order(AtomicU64::new(1));
        Self { open: AtomicU64::new(0), order, cells: Default::default() }
    }
}

impl LeaseTable {
    #[inline]
    pub(crate) fn cell(&self, index: usize) -> &Cell {
        &self.cells[index % LEASES_MAX]
    }

    /// The next place in the order of all that wait.
    #[inline]
    pub(super) fn take_order(&self) -> u64 {
        self.order.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Opens a lease, if there is one left.
    pub(crate) fn open(&self) -> Option<usize> {
        let open = self.open.load(Ordering::Relaxed);
        let index = (0..LEASES_MAX).find(|index| open >> index & 1 == 0)?;
        self.open.store(open | 1 << index, Ordering::Release);
        Some(index)
    }

    pub(crate) fn close(&self, index: usize) {
        self.open.fetch_and(!(1 << index), Ordering::Release);
    }

    /// Indices of the leases that are open.
    pub(crate) fn open_ones(&self) -> impl Iterator<Item = usize> + use<> {
        let open = self.open.load(Ordering::Acquire);
        (0..LEASES_MAX).filter(move |index| open >> index & 1 == 1)
    }

    /// Leases that are open.
    pub(crate) fn count(&self) -> u32 {
        self.open.load(Ordering::Relaxed).count_ones()
    }

    /// Whether a unit among `count` from `first` on waits. Where not, the map names what was written last of each before this call, if it
    /// is loaded afterwards.
    #[inline]
    pub(crate) fn has_any(&self, first: EntryIndex, count: u64) -> bool {
        self.open_ones().any(|index| self.cell(index).owners.has_any(first, count))
    }

    /// Collects what waits in every lease, in order, as it is at one instant. With `recall`, no thread writes by its lease from that
    /// instant on until it is renewed.
    pub(crate) fn collect(&self, recall: bool, into: &mut Vec<WaitingUnit>) {
        let mut locked: [Option<MutexGuard<'_, Leased>>; LEASES_MAX] = Default::default();
        for index in self.open_ones() {
            locked[index] = Some(self.cell(index).lock());
        }
        for (index, leased) in locked.iter_mut().enumerate() {
            let Some(leased) = leased else { continue };
            leased.is_active &= !recall;
            into.extend(leased.waiting.drain(..).map(|waiting| WaitingUnit { lease: index, ..waiting }));
        }
        drop(locked);
        into.sort_unstable_by_key(|waiting| waiting.unit.order);
    }
}

impl Cell {
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Leased> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Owners of the units that wait, published under the lock.
    #[inline]
    pub(crate) const fn owners(&self) -> &Waiting<UNITS_MOST> {
        &self.owners
    }
}

impl Leased {
    #[inline]
    fn units(&self) -> u32 {
        self.slots.len() as u32 * self.units_per_slot
    }

    /// Whether so many units more may be written.
    #[inline]
    pub(super) fn has_room(&self, units: usize) -> bool {
        self.is_active
            && self.waiting.len() + units <= UNITS_MOST
            && units <= (self.units() - self.filled) as usize
    }

    /// Slot and position of the next unit.
    #[inline]
    pub(super) fn next_place(&self) -> Option<(LeasedSlot, u32)> {
        let slot = self.slots.get((self.filled / self.units_per_slot.max(1)) as usize)?;
        Some((*slot, self.filled % self.units_per_slot))
    }

    /// Adds the unit that was written to the next place.
    #[inline]
    pub(super) fn add(&mut self, unit: PendingUnit, extent: ExtentId) {
        self.filled += 1;
        self.waiting.push(WaitingUnit { unit, extent, lease: 0 });
    }

    /// Slots that are full.
    pub(crate) fn full(&self) -> &[LeasedSlot] {
        let full = self.filled / self.units_per_slot.max(1);
        &self.slots[..(full as usize).min(self.slots.len())]
    }

    /// Slots that it has.
    pub(crate) fn slots(&self) -> &[LeasedSlot] {
        &self.slots
    }

    /// Whether something waits.
    pub(crate) const fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the last slot back, if there are more than `most` and nothing was written to it.
    pub(crate) fn take_empty_beyond(&mut self, most: u32) -> Option<LeasedSlot> {
        let count = self.slots.len() as u32;
        let is_empty = self.filled <= count.saturating_sub(1) * self.units_per_slot;
        if count > most && is_empty { self.slots.pop() } else { None }
    }

    /// Gives the first slot, a full one, back.
    pub(crate) fn give_back_first(&mut self) {
        self.slots.remove(0);
        self.filled -= self.units_per_slot;
    }

    /// Adds an empty slot.
    pub(crate) fn add_slot(&mut self, slot: LeasedSlot, units: u32) {
        self.units_per_slot = units;
        self.slots.push(slot);
    }

    /// Lets the thread write.
    pub(crate) fn activate(&mut self) {
        self.is_active = true;
        self.waiting.reserve(UNITS_MOST);
    }

    /// Gives every slot back; the thread writes no more.
    pub(crate) fn end(&mut self) -> Vec<LeasedSlot> {
        (self.is_active, self.filled) = (false, 0);
        std::mem::take(&mut self.slots)
    }
}
