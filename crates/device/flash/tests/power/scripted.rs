//! Losses of power that once lost something, put together by hand: of what was stored since a sync, named regions did
//! not reach the medium.

use crate::device::Device;

/// Units that fill every buffer slot of a stream once.
pub const UNITS_A_TURN: u64 = 16 * 4;

#[test]
fn a_buffer_slot_of_an_earlier_turn_does_not_vouch_for_what_it_was_filled_with_since() {
    let mut device = Device::new();
    device.watch();
    for unit in 7..7 + UNITS_A_TURN {
        device.write(unit, 1);
    }
    device.write_page(4, 2);
    // The slot that unit 7 was in is the next to be filled, by itself again.
    device.sync();
    device.write(7, 3);
    let mut left = device.lose(&["unit buffer"]);
    assert!(left.holds(7, 2), "neither what was lost nor what the slot held before");
    assert_eq!(left.flash.recovery().reverted, 1);
    assert_eq!(left.flash.check(), []);
}

/// The record was kept because its first unit has no owner, and at the next loss it vouched for data from before the erase.
#[test]
fn a_page_that_no_sync_covered_without_an_owner_of_its_first_unit_is_void_at_the_second_loss() {
    let mut device = Device::new();
    device.watch();
    device.write_page(4, 1);
    device.sync();
    // The slot's first unit is dead once it is programmed, for the sake of unit 40.
    for unit in [20, 5, 20, 30, 40] {
        device.write(unit, 2);
    }
    let mut device = device.lose(&["map", "pages"]);
    assert!(device.holds(5, 1));
    device.sync();
    device.write_page(4, 3);
    let mut left = device.lose(&["pages"]);
    assert!(left.holds(5, 1), "what was there at the last sync");
    assert_eq!(left.flash.check(), []);
}
