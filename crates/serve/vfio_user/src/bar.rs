//! BAR 0: registers, doorbells, the MSI-X table and its pending bits, each on pages of their own, so that a host can
//! map the doorbells alone.

use byway_controller::MAX_IO_QUEUES;
use byway_queue::DoorbellIndex;
use byway_spec::base::register::DOORBELL_BASE;

/// Interrupts: one for each I/O queue pair, and the admin queue's.
pub const VECTORS: u16 = MAX_IO_QUEUES + 1;

/// Where the doorbells begin.
pub const DOORBELLS_AT: u64 = DOORBELL_BASE as u64;
/// Bytes of the doorbells that a host may map: whole pages.
pub const DOORBELLS_BYTES: u64 = 0x1000;
/// Where the MSI-X table begins.
pub const TABLE_AT: u64 = DOORBELLS_AT + DOORBELLS_BYTES;
/// Where the pending bits begin.
pub const PENDING_AT: u64 = TABLE_AT + 0x1000;
/// Bytes of the BAR.
pub const BAR0_BYTES: u64 = PENDING_AT + 0x1000;

const DOORBELL_BYTES: u64 = 4;
const ENTRY_BYTES: u64 = 16;

const _: () = {
    assert!(2 * DOORBELL_BYTES * (MAX_IO_QUEUES as u64 + 1) <= DOORBELLS_BYTES);
    assert!(ENTRY_BYTES * VECTORS as u64 <= PENDING_AT - TABLE_AT);
    assert!(BAR0_BYTES.is_power_of_two());
};

/// The content of a 32-bit word of BAR 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A word of the register space.
    Register(u32),
    /// A doorbell.
    Doorbell(DoorbellIndex),
    /// One of the four words of a vector in the MSI-X table.
    Table {
        /// The vector.
        vector: u16,
        /// Address, its upper half, data, control.
        word: u8,
    },
    /// The pending bits of 32 vectors from this one on.
    Pending(u16),
    /// Nothing: reads 0, and writes are ignored.
    Reserved,
}

impl Place {
    /// The content at `offset`, a multiple of 4.
    #[must_use]
    pub fn at(offset: u64) -> Self {
        match offset {
            ..DOORBELLS_AT => Self::Register(offset as u32),
            DOORBELLS_AT..TABLE_AT => Self::doorbell((offset - DOORBELLS_AT) / DOORBELL_BYTES),
            TABLE_AT..PENDING_AT => Self::table(offset - TABLE_AT),
            PENDING_AT..BAR0_BYTES => Self::pending((offset - PENDING_AT) * 8),
            _ => Self::Reserved,
        }
    }

    fn doorbell(place: u64) -> Self {
        let index = u32::try_from(place).ok().and_then(DoorbellIndex::at);
        let index = index.filter(|index| index.queue() <= MAX_IO_QUEUES);
        index.map_or(Self::Reserved, Self::Doorbell)
    }

    fn table(offset: u64) -> Self {
        let (vector, word) = (offset / ENTRY_BYTES, offset % ENTRY_BYTES / 4);
        if vector >= u64::from(VECTORS) {
            return Self::Reserved;
        }
        Self::Table { vector: vector as u16, word: word as u8 }
    }

    fn pending(first: u64) -> Self {
        if first >= u64::from(VECTORS) { Self::Reserved } else { Self::Pending(first as u16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar0_offsets_map_to_doorbells_and_vectors() {
        assert_eq!(Place::at(0xffc), Place::Register(0xffc));
        assert_eq!(Place::at(0x1000), Place::Doorbell(DoorbellIndex::submission(0)));
        let last = DoorbellIndex::completion(MAX_IO_QUEUES);
        assert_eq!(Place::at(0x1000 + 4 * u64::from(last.place())), Place::Doorbell(last));
        assert_eq!(Place::at(0x1000 + 4 * u64::from(last.place()) + 4), Place::Reserved);
        assert_eq!(Place::at(TABLE_AT + 16 * 128 + 12), Place::Table { vector: 128, word: 3 });
        assert_eq!(Place::at(TABLE_AT + 16 * 129), Place::Reserved);
        assert_eq!(Place::at(PENDING_AT + 16), Place::Pending(128));
        assert_eq!(Place::at(PENDING_AT + 20), Place::Reserved);
        assert_eq!(Place::at(BAR0_BYTES), Place::Reserved);
        assert_eq!(Place::at(u64::MAX - 3), Place::Reserved);
    }
}
