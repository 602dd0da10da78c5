//! Words of leased slots and of units that wait in them: what each proves by itself after a kill, and after a loss of power.

use byway_sys::checksum;

use super::PendingUnit;
use crate::location::EntryIndex;
use crate::word;

/// In the place of a unit's number: it waits to be taken in. The other bits are its place in the order of such units, and a check of it.
pub(super) const PENDING: u64 = 1 << 63;

/// Salts of the checks.
const LEASE_PLACE: u64 = 6 << 60;
const ORDER_PLACE: u64 = 7 << 60;

/// In the word of a slot: that it is leased, how many positions are taken in, and which turn of the slot this is.
const LEASED: u64 = 1;
const TAKEN_IN_SHIFT: u32 = 1;
const TAKEN_IN: u64 = 0x7f;
const TURN_SHIFT: u32 = 8;
const TURN: u64 = word::MAX_VALUE >> TURN_SHIFT;

/// A turn of a slot that is leased. Units that wait are bound to it: those of an earlier turn prove nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LeasedSlot {
    pub(crate) slot: u32,
    /// Low bits of the number that was the next when the slot was leased.
    pub(crate) turn: u64,
}

impl LeasedSlot {
    pub(super) const fn new(slot: u32, next_seq: u64) -> Self {
        Self { slot, turn: next_seq & TURN }
    }

    /// The slot's word, once so many positions are taken in. It checks itself: a slot that is taken for leased, because a bit of it flipped,
    /// would bring old units back.
    #[inline]
    pub(super) fn word(self, taken_in: u32) -> u64 {
        let value = self.turn << TURN_SHIFT | u64::from(taken_in) << TAKEN_IN_SHIFT | LEASED;
        word::seal(value, LEASE_PLACE | u64::from(self.slot))
    }

    /// The turn of a slot and its positions that are taken in, by its word; `None` of one that is not leased.
    #[inline]
    pub(super) fn of(slot: u32, word: u64) -> Option<(Self, u32)> {
        let value = word::unseal(word, LEASE_PLACE | u64::from(slot))?;
        let taken_in = (value >> TAKEN_IN_SHIFT & TAKEN_IN) as u32;
        (value & LEASED != 0).then_some((Self { slot, turn: value >> TURN_SHIFT }, taken_in))
    }

    /// As [`of`](Self::of), of a word in which one bit may have flipped.
    pub(super) fn of_repaired(slot: u32, word: u64) -> Option<(Self, u32)> {
        let repaired = || word::repaired(word, LEASE_PLACE | u64::from(slot));
        Self::of(slot, word).or_else(|| Self::of(slot, repaired()?))
    }
}

/// The checksum of a unit's data, and one of that checksum, the owner, the place and the turn, which holds before the unit has a number and
/// after.
#[inline]
pub(super) fn checksums_word(data_crc: u32, unit: &PendingUnit) -> u64 {
    let LeasedSlot { slot, turn } = unit.leased;
    let place = u64::from(slot << 16 | unit.position);
    let named = checksum::crc32c_words(&[unit.owner, turn, place << 32 | u64::from(data_crc)]);
    u64::from(named) << 32 | u64::from(data_crc)
}

/// The word in the place of a number of a unit that waits. `checksums` binds it to the unit.
#[inline]
pub(super) fn order_word(order: u64, checksums: u64) -> u64 {
    word::seal(order & word::MAX_VALUE, ORDER_PLACE | checksums >> 32) | PENDING
}

/// The place in the order that a word says. One that has its number already was about to be taken in, and so was the first.
#[inline]
pub(super) const fn order_of(word: u64) -> u64 {
    if word & PENDING == 0 { 0 } else { word & word::MAX_VALUE }
}

/// Whether the word in the place of a number is of the unit that has these checksums: its place in the order, or a number.
#[inline]
fn is_order_of(word: u64, checksums: u64) -> bool {
    word <= word::MAX_VALUE || word == order_word(order_of(word), checksums)
}

/// What names a unit that waits, as the slot's header has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitWords {
    pub(super) owner: EntryIndex,
    /// See [`checksums_word`].
    pub(super) checksums: u64,
    /// Its place in the order, or its number.
    pub(super) order: u64,
}

impl UnitWords {
    /// The unit that they name, at a position of a slot.
    pub(super) const fn unit_at(self, leased: LeasedSlot, position: u32) -> PendingUnit {
        PendingUnit { order: order_of(self.order), owner: self.owner, leased, position }
    }

    /// Whether all are of one write to a position of a slot.
    pub(super) fn are_of_one_write(self, leased: LeasedSlot, position: u32) -> bool {
        let unit = self.unit_at(leased, position);
        self.checksums == checksums_word(self.checksums as u32, &unit)
            && is_order_of(self.order, self.checksums)
    }

    /// The same with the one bit set right that keeps them from being of one write.
    pub(super) fn repaired(self, leased: LeasedSlot, position: u32) -> Option<Self> {
        (0..64).map(|bit| 1 << bit).find_map(|bit| {
            [
                Self { owner: self.owner ^ bit, ..self },
                Self { checksums: self.checksums ^ bit, ..self },
                Self { order: self.order ^ bit, ..self },
            ]
            .into_iter()
            .find(|words| words.are_of_one_write(leased, position))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipped_bit_of_any_word_is_found_and_set_right() {
        let leased = LeasedSlot::new(3, 1234);
        let unit = PendingUnit { order: 99, owner: 77, leased, position: 1 };
        let checksums = checksums_word(0x1234_5678, &unit);
        let order = order_word(unit.order, checksums);
        let words = UnitWords { owner: unit.owner, checksums, order };
        assert!(words.are_of_one_write(leased, 1) && words.unit_at(leased, 1) == unit);
        assert!(UnitWords { order: 99, ..words }.are_of_one_write(leased, 1), "with its number");
        for bit in (0..64).map(|bit| 1 << bit) {
            let flipped = [
                UnitWords { owner: unit.owner ^ bit, ..words },
                UnitWords { checksums: checksums ^ bit, ..words },
                UnitWords { order: order ^ bit, ..words },
            ];
            for flipped in flipped {
                assert!(!flipped.are_of_one_write(leased, 1), "{flipped:?}");
                assert_eq!(flipped.repaired(leased, 1), Some(words));
            }
            let word = leased.word(2) ^ bit;
            assert_eq!(LeasedSlot::of(3, word), None, "bit {bit:x} of the slot's word");
            assert_eq!(LeasedSlot::of_repaired(3, word), Some((leased, 2)));
            assert!((0..32).all(|slot| LeasedSlot::of_repaired(slot, bit).is_none()), "one not leased");
        }
        assert_eq!(LeasedSlot::of(3, leased.word(16)), Some((leased, 16)));
        assert_eq!(LeasedSlot::of(4, leased.word(2)), None);
        let of_another_turn = PendingUnit { leased: LeasedSlot::new(3, 1235), ..unit };
        assert_ne!(checksums_word(0x1234_5678, &of_another_turn), checksums);
    }
}
