//! Reading, writing and trimming on every medium.

use crate::common::{MIB, create, extent, kv, nvm, page_of, read_unit, small_profile, unit_of, write_unit};
use byway_flash::{Cause, Flash, FlashError, MediaKind, UNIT_BYTES};
use byway_sys::checksum::crc32c;
use proptest::prelude::*;

const UNIT: u64 = UNIT_BYTES as u64;

#[test]
fn unwritten_bytes_read_as_zeroes() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[nvm(8 * MIB), kv(8 * MIB)]);
    for nsid in [1, 2] {
        let mut into = vec![1; 100_000];
        let extent = extent(&flash, nsid);
        flash.read(extent, 12_345, &mut into, Cause::Host, &mut 0).unwrap();
        assert!(into.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn pages_of_a_kv_extent_are_read_at_any_offset() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[kv(16 * MIB)]);
    let extent = extent(&flash, 1);
    let pages: Vec<Vec<u8>> = (0..8).map(|seed| page_of(&flash, seed)).collect();
    for (page, data) in pages.iter().enumerate() {
        flash.write_page(extent, page as u64, data, Cause::Host, &mut 0).unwrap();
    }
    let all = pages.concat();
    for (at, len) in [(0, 1), (4095, 2), (16_000, 1000), (5, 100_000), (16_384, 16_384), (0, all.len())] {
        let mut into = vec![0; len];
        flash.read(extent, at as u64, &mut into, Cause::Host, &mut 0).unwrap();
        assert_eq!(into, all[at..at + len], "{len} bytes at {at}");
    }
}

#[test]
fn a_page_is_written_from_a_protected_area() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[kv(16 * MIB)]);
    let (extent, page) = (extent(&flash, 1), page_of(&flash, 3));
    let area = flash.add_area(1, byway_flash::AreaId(7), 40_000).unwrap();
    flash.protected(area)[4096..4096 + page.len()].copy_from_slice(&page);
    flash.write_page_from(extent, 2, (area, 4096), Cause::Host, &mut 0).unwrap();
    let mut back = vec![0; page.len()];
    flash.read(extent, 2 * page.len() as u64, &mut back, Cause::Host, &mut 0).unwrap();
    assert_eq!(back, page);
    let short = flash.write_page_from(extent, 2, (area, 30_000), Cause::Host, &mut 0);
    assert!(matches!(short, Err(FlashError::Misuse(_))));
}

#[test]
fn whole_unit_on_flash_keeps_its_checksum_and_parts_have_none() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[nvm(8 * MIB), kv(8 * MIB)]);
    let extent = extent(&flash, 1);
    for unit in 0..64 {
        write_unit(&mut flash, extent, unit, unit).unwrap();
    }
    for unit in 0..32 {
        let read = read_unit(&mut flash, extent, unit).unwrap();
        assert_eq!(flash.kept_crc(extent, unit * UNIT, UNIT), Some(crc32c(&read)), "unit {unit}");
    }
    write_unit(&mut flash, extent, 3, 1000).unwrap();
    assert_ne!(flash.kept_crc(extent, 3 * UNIT, UNIT), Some(crc32c(&unit_of(3))));
    for (at, len) in [(0, 512), (512, UNIT), (0, 2 * UNIT), (100 * UNIT, UNIT), (8 * MIB, UNIT)] {
        assert_eq!(flash.kept_crc(extent, at, len), None, "{len} bytes at {at}");
    }
}

#[test]
fn trimmed_units_read_as_zeroes_and_hold_no_flash() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[nvm(16 * MIB)]);
    let extent = extent(&flash, 1);
    for unit in 0..64 {
        write_unit(&mut flash, extent, unit, unit).unwrap();
    }
    assert_eq!(flash.mapped_bytes(extent).unwrap(), 64 * UNIT);
    flash.trim(extent, 10..20).unwrap();
    assert_eq!(flash.mapped_bytes(extent).unwrap(), 54 * UNIT);
    assert_eq!(read_unit(&mut flash, extent, 15).unwrap(), vec![0; UNIT_BYTES]);
    assert_eq!(read_unit(&mut flash, extent, 20).unwrap(), unit_of(20));
    assert!(!flash.is_mapped(extent, 19).unwrap());
    assert!(flash.is_mapped(extent, 20).unwrap());
}

#[test]
fn ranges_outside_and_wrong_kinds_are_refused() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[nvm(MIB), kv(MIB)]);
    let (blocks, pairs) = (extent(&flash, 1), extent(&flash, 2));
    let page = vec![0; 16384];
    let out = |result: Result<(), FlashError>| matches!(result, Err(FlashError::OutOfRange { .. }));
    let misuse = |result: Result<(), FlashError>| matches!(result, Err(FlashError::Misuse(_)));
    assert!(out(flash.read(blocks, MIB - 1, &mut [0; 2], Cause::Host, &mut 0)));
    assert!(out(flash.read(blocks, u64::MAX, &mut [0; 2], Cause::Host, &mut 0)));
    assert!(out(flash.write_units(blocks, MIB / UNIT, &[0; UNIT_BYTES], Cause::Host, &mut 0)));
    assert!(out(flash.write_units(blocks, u64::MAX, &[0; UNIT_BYTES], Cause::Host, &mut 0)));
    // The extent of pairs goes on beyond the namespace's size.
    let end = flash.extent_len_bytes(pairs).unwrap() / 16384;
    assert!(end > MIB / 16384);
    assert!(out(flash.write_page(pairs, end, &page, Cause::Host, &mut 0)));
    assert!(out(flash.trim(blocks, 0..MIB / UNIT + 1)));
    assert!(misuse(flash.write_units(pairs, 0, &page, Cause::Host, &mut 0)));
    assert!(misuse(flash.write_page(blocks, 0, &page, Cause::Host, &mut 0)));
    assert!(misuse(flash.write_units(blocks, 0, &page[..100], Cause::Host, &mut 0)));
    assert!(misuse(flash.write_page(pairs, 0, &page[..100], Cause::Host, &mut 0)));
}

#[test]
fn null_media_takes_everything_and_gives_zeroes() {
    let mut flash = create(MediaKind::Null, 1 << 40, &[nvm(1 << 39)]);
    let extent = extent(&flash, 1);
    for unit in 0..100 {
        write_unit(&mut flash, extent, unit * 1_000_000, unit).unwrap();
    }
    assert_eq!(read_unit(&mut flash, extent, 0).unwrap(), vec![0; UNIT_BYTES]);
    assert_eq!(flash.counters()[Cause::Host].programs, 25);
    assert_eq!(flash.counters().accepted_bytes, 100 * UNIT);
    flash.write_bytes(extent, 1024, &[1; 512], Cause::Host, &mut 0).unwrap();
    assert_eq!(read_unit(&mut flash, extent, 0).unwrap(), vec![0; UNIT_BYTES]);
}

#[test]
fn a_device_smaller_than_its_profile_still_has_every_byte() {
    for size in [4 * MIB, 5 * MIB + 4096, 64 * MIB] {
        let options = byway_flash::FlashOptions::new(
            size,
            byway_link::Profile::by_name("cosmos").unwrap().flash,
            MediaKind::Ram,
        )
        .timing(false);
        let mut flash = Flash::create(options, &[nvm(size)]).unwrap();
        let extent = extent(&flash, 1);
        for round in 0..3 {
            for unit in 0..size / UNIT {
                write_unit(&mut flash, extent, unit, unit + round).unwrap();
            }
        }
        for unit in 0..size / UNIT {
            assert_eq!(read_unit(&mut flash, extent, unit).unwrap(), unit_of(unit + 2));
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write { at: usize, len: usize, fill: u8 },
    Trim { unit: u64, units: u64 },
    Read { at: usize, len: usize },
}

const MODEL_BYTES: usize = 512 << 10;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0..MODEL_BYTES / 512, 1_usize..100)
        .prop_map(|(lba, lbas)| (lba * 512, (lbas * 512).min(MODEL_BYTES - lba * 512)));
    let step = prop_oneof![
        4 => (range.clone(), any::<u8>()).prop_map(|((at, len), fill)| Step::Write { at, len, fill }),
        1 => (0..MODEL_BYTES as u64 / UNIT, 1..16_u64)
            .prop_map(|(unit, units)| Step::Trim { unit, units: units.min(MODEL_BYTES as u64 / UNIT - unit) }),
        2 => range.prop_map(|(at, len)| Step::Read { at, len }),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_nvm_extent_behaves_like_an_array_of_bytes(steps in steps()) {
        let mut flash = create(MediaKind::Ram, 4 * MIB, &[nvm(MODEL_BYTES as u64)]);
        let extent = extent(&flash, 1);
        let mut model = vec![0; MODEL_BYTES];
        for step in steps {
            match step {
                Step::Write { at, len, fill } => {
                    let data: Vec<u8> = (0..len).map(|i| fill ^ i as u8).collect();
                    flash.write_bytes(extent, at as u64, &data, Cause::Host, &mut 0).unwrap();
                    model[at..at + len].copy_from_slice(&data);
                }
                Step::Trim { unit, units } => {
                    flash.trim(extent, unit..unit + units).unwrap();
                    let at = unit as usize * UNIT_BYTES;
                    model[at..at + units as usize * UNIT_BYTES].fill(0);
                }
                Step::Read { at, len } => {
                    let mut into = vec![0; len];
                    flash.read(extent, at as u64, &mut into, Cause::Host, &mut 0).unwrap();
                    prop_assert_eq!(&into, &model[at..at + len]);
                }
            }
        }
        let mut all = vec![0; MODEL_BYTES];
        flash.read(extent, 0, &mut all, Cause::Host, &mut 0).unwrap();
        prop_assert_eq!(all, model);
    }
}

#[test]
fn reads_wait_for_the_array_and_programs_for_the_buffer() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[kv(16 * MIB)]);
    let (extent, page, profile) = (extent(&flash, 1), page_of(&flash, 1), small_profile());
    let mut at_ps = 0;
    for number in 0..u64::from(profile.buffer_pages) {
        flash.write_page(extent, number, &page, Cause::Host, &mut at_ps).unwrap();
    }
    assert_eq!(at_ps, 0, "the buffer takes as many pages as it has slots");
    flash.write_page(extent, 4, &page, Cause::Host, &mut at_ps).unwrap();
    let transfer_ps = (16384 + 1664) * 5000;
    assert_eq!(at_ps, transfer_ps + profile.program_ns * 1000, "the fifth waits for the first program");
    let mut later_ps = 1_000_000_000_000;
    flash.read(extent, 0, &mut vec![0; 4096], Cause::Host, &mut later_ps).unwrap();
    assert_eq!(later_ps, 1_000_000_000_000 + profile.read_ns * 1000 + 4096 * 5000);
    flash.set_timing(false);
    let mut off_ps = 7;
    flash.read(extent, 0, &mut vec![0; 4096], Cause::Host, &mut off_ps).unwrap();
    assert_eq!(off_ps, 7);
    assert_eq!(flash.counters()[Cause::Host].reads, 2, "operations are counted with timing off too");
}
