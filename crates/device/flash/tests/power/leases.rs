//! Units that wait in leased slots of the unit buffer, after losses of power that are put together by hand.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use byway_flash::{Durability, Flash, OpenOptions, RunOptions, SyncPoint};
use byway_sys::checksum::crc32c;

use crate::device::{Device, Life, Place, Reached, SUPERBLOCK_BYTES, content};
use crate::life::{UNIT, pattern};

fn is_superblock(place: &Place<'_>) -> bool {
    place.sector.at < SUPERBLOCK_BYTES
}

#[test]
fn units_that_wait_and_reached_the_medium_are_there_after_a_loss_of_power() {
    let mut device = Device::new();
    device.watch();
    (0..8).for_each(|unit| device.write(unit, 1));
    device.sync();
    let leases = [0, 1].map(|_| device.flash.open_block_lease().unwrap());
    (0..8).for_each(|unit| device.write_by(&leases[unit as usize % 2], unit, 2));
    device.write_by(&leases[0], 3, 3);
    drop(leases);
    let mut left = device.lose(&[]);
    assert!((0..8).all(|unit| left.holds(unit, if unit == 3 { 3 } else { 2 })));
    assert_eq!(left.flash.check(), []);
}

#[test]
fn unit_that_waits_and_is_torn_leaves_what_was_there_before() {
    let mut device = Device::new();
    device.watch();
    device.write(7, 1);
    device.write(8, 1);
    device.sync();
    let lease = device.flash.open_block_lease().unwrap();
    device.write_by(&lease, 7, 2);
    device.write_by(&lease, 8, 2);
    drop(lease);
    // Of the second unit half of the data did not reach the medium.
    let life = Life {
        survived: Some(|place| place.region != "unit buffer" || !is_half_of_a_second_unit(place)),
        ..Life::IN_ORDER
    };
    device.begin(&life, None);
    assert!(device.holds(7, 2) && device.holds(8, 1));
    assert_eq!(device.flash.check(), []);
}

/// Whether a sector of the buffer is in the second half of the second unit of a slot.
fn is_half_of_a_second_unit(place: &Place<'_>) -> bool {
    const HEADERS_BYTES: u64 = 64 << 10;
    place.at >= HEADERS_BYTES && (place.at - HEADERS_BYTES) % 16384 / 2048 == 3
}

#[test]
fn unit_whose_header_is_of_before_it_was_taken_in_is_not_older_than_what_was_synced() {
    let mut device = Device::new();
    device.watch();
    device.write(7, 1);
    device.sync();
    let lease = device.flash.open_block_lease().unwrap();
    device.write_by(&lease, 7, 2);
    // Taken in, and synced, and written again.
    device.sync();
    device.write(7, 3);
    device.sync();
    drop(lease);
    let mut left = device.lose(&["map", "unit buffer", "pages", "spare records", "device state"]);
    assert!(left.holds(7, 3));
    assert_eq!(left.flash.check(), []);
}

/// Under `flush=process`, as under `flush=command`, what was flushed last is there, or what was written since.
#[test]
fn blocks_are_what_was_flushed_or_newer_whichever_regions_reached_the_medium() {
    const REGIONS: [&str; 5] = ["unit buffer", "map", "spare records", "pages", "device state"];
    for lost in 0..1 << REGIONS.len() {
        let mut device = Device::new();
        device.begin(&Life { durability: Durability::Process, ..Life::IN_ORDER }, None);
        let leases = [0, 1].map(|_| device.flash.open_block_lease().unwrap());
        (0..20).for_each(|unit| device.write_by(&leases[unit as usize % 2], unit, 1));
        device.sync();
        (0..20).for_each(|unit| device.write_by(&leases[unit as usize / 2 % 2], unit, 2));
        drop(leases);
        let lost: Vec<&str> =
            (0..).zip(REGIONS).filter(|(at, _)| lost >> at & 1 == 1).map(|(_, region)| region).collect();
        let mut left = device.lose(&lost);
        assert!((0..20).all(|unit| left.holds(unit, 1) || left.holds(unit, 2)), "without {lost:?}");
        assert!(!lost.is_empty() || (0..20).all(|unit| left.holds(unit, 2)));
        assert_eq!(left.flash.check(), [], "without {lost:?}");
    }
}

/// A device in which a unit waits. Its power is cut at every event since it was opened.
fn with_a_unit_that_waits(reached: Reached) -> Device {
    let mut device = Device::new();
    device.write(7, 1);
    device.begin(&Life { reached: Some(reached), ..Life::IN_ORDER }, None);
    let lease = device.flash.open_block_lease().unwrap();
    device.write_by(&lease, 7, 2);
    device
}

#[test]
fn image_with_a_unit_that_waits_says_so_whatever_reached_the_medium() {
    let reached: [Reached; 2] = [is_superblock, |place| !is_superblock(place)];
    for reached in reached {
        let mut device = with_a_unit_that_waits(reached);
        // It waits on the medium too.
        device.flash.order_always(SyncPoint::Overwrite).unwrap();
        device.flash.close().unwrap();
        assert!(device.cuts_left().iter().all(|left| is_marked_if_any_waits(&device, left)));
    }
}

/// Whether the superblock of an image says that units may wait, if any does.
fn is_marked_if_any_waits(device: &Device, left: &Path) -> bool {
    const HEADER_BYTES: usize = 512;
    const NUMBERS: usize = 320;
    let regions = device.flash.regions();
    let (_, buffer) = regions.iter().find(|(name, _)| *name == "unit buffer").unwrap();
    let headers = bytes_of(left, buffer.start..buffer.start + 32 * HEADER_BYTES as u64);
    let waits = |header: &[u8]| {
        let filled = usize::from(header[0]);
        (0..filled).any(|position| header[NUMBERS + position * 8 + 7] & 0x80 != 0)
    };
    bytes_of(left, 32..33) == [1] || !headers.chunks(HEADER_BYTES).any(waits)
}

#[test]
fn image_is_opened_whichever_sectors_of_its_superblock_reached_the_medium() {
    const SECTORS: u64 = 4096 / 512;
    let reached: [Reached; 2] = [
        |place| !is_superblock(place) || (place.sector.at / 512).is_multiple_of(SECTORS),
        |place| !is_superblock(place) || !(place.sector.at / 512).is_multiple_of(SECTORS),
    ];
    for reached in reached {
        let mut device = with_a_unit_that_waits(reached);
        device.flash.close().unwrap();
        let mut torn = 0;
        for left in device.cuts_left() {
            torn += u32::from(!is_superblock_whole(&left));
            let run = RunOptions::default().power_was_lost(true);
            let mut flash = Flash::open(&left, OpenOptions::default().run(run)).unwrap();
            let found = content(&mut flash, 7);
            assert!([1, 2].iter().any(|step| found == pattern(*step, 7, UNIT)));
            flash.close().unwrap();
            assert!(is_superblock_whole(&left));
        }
        assert!(torn > 0);
    }
}

/// Whether the superblock matches its checksum as it is.
fn is_superblock_whole(image: &Path) -> bool {
    let first = bytes_of(image, 0..4096);
    first[4092..] == crc32c(&first[..4092]).to_le_bytes()
}

fn bytes_of(image: &Path, range: Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    File::open(image).unwrap().read_exact_at(&mut bytes, range.start).unwrap();
    bytes
}
