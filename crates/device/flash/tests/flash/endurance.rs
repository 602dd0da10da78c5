//! A device that is overwritten for ever, and one whose disk is full.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::{
    MIB, create, extent, kv, nvm, open, page_of, read_unit, refusal, try_create, unit_of, write_unit,
};
use byway_flash::{Cause, Flash, FlashError, FlashEvent, FlashOptions, GcPolicy, MediaKind};
use byway_forgetful::on_small_disk;
use byway_kit::Random;
use proptest::prelude::*;

fn overwrite_five_times(mut flash: Flash, size: u64, seed: u64) -> Flash {
    let (blocks, pairs) = (extent(&flash, 1), extent(&flash, 2));
    let (units, pages) = (size / 2 / 4096, size / 2 / 16384);
    let (mut unit_model, mut page_model) = (HashMap::new(), HashMap::new());
    let mut random = Random::new(seed);
    for step in 0..5 * (units + pages) {
        if random.below(5) < 4 {
            let unit = random.below(units);
            write_unit(&mut flash, blocks, unit, step).unwrap();
            unit_model.insert(unit, step);
        } else {
            let page = random.below(pages);
            let data = page_of(&flash, step);
            flash.write_page(pairs, page, &data, Cause::Host, &mut 0).unwrap();
            page_model.insert(page, step);
        }
    }
    for (unit, step) in &unit_model {
        assert_eq!(read_unit(&mut flash, blocks, *unit).unwrap(), unit_of(*step));
    }
    for (page, step) in &page_model {
        let mut data = vec![0; 16384];
        flash.read(pairs, page * 16384, &mut data, Cause::Host, &mut 0).unwrap();
        assert_eq!(data, page_of(&flash, *step));
    }
    assert_eq!(flash.mapped_bytes(blocks).unwrap(), unit_model.len() as u64 * 4096);
    flash
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_full_device_is_overwritten_five_times_and_keeps_the_last(mib in 4..24_u64, seed in any::<u64>()) {
        let size = mib * MIB;
        let flash = create(MediaKind::Ram, size, &[nvm(size / 2), kv(size / 2)]);
        let mut flash = overwrite_five_times(flash, size, seed);
        prop_assert_eq!(flash.check(), []);
        let counters = flash.counters();
        prop_assert!(counters[Cause::Gc].erases > 0);
        prop_assert!(counters.total().programs >= counters[Cause::Host].programs);
        prop_assert_eq!(counters.media_errors, 0);
    }
}

#[test]
fn an_image_is_overwritten_five_times_and_keeps_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let flash = create(MediaKind::File(path.clone()), 16 * MIB, &[nvm(8 * MIB), kv(8 * MIB)]);
    let counters = *overwrite_five_times(flash, 16 * MIB, 1).counters();
    let mut flash = open(&path).unwrap();
    assert_eq!(*flash.counters(), counters);
    assert_eq!(flash.check(), []);
}

#[test]
fn each_block_that_is_collected_is_reported_and_no_write_is() {
    static VICTIMS: AtomicU64 = AtomicU64::new(0);
    let mut flash = create(MediaKind::Ram, 8 * MIB, &[nvm(4 * MIB), kv(4 * MIB)]);
    flash.report_to(|event| {
        if let FlashEvent::VictimChosen { cause: Cause::Gc, .. } = event {
            VICTIMS.fetch_add(1, Relaxed);
        }
    });
    let flash = overwrite_five_times(flash, 8 * MIB, 1);
    let (victims, erases) = (VICTIMS.load(Relaxed), flash.counters()[Cause::Gc].erases);
    assert!(erases > 0 && victims >= erases, "{victims} victims, {erases} erases");
    assert!(victims * 10 < flash.counters()[Cause::Host].programs, "{victims} victims");
}

#[test]
fn a_device_written_in_order_is_not_amplified() {
    let mut flash = create(MediaKind::Ram, 32 * MIB, &[nvm(32 * MIB)]);
    let extent = extent(&flash, 1);
    for _ in 0..5 {
        for page in 0..32 * MIB / 16384 {
            flash.write_units(extent, page * 4, &page_of(&flash, page), Cause::Host, &mut 0).unwrap();
        }
    }
    let amplification = flash.counters().write_amplification().unwrap();
    assert!(amplification < 1.01, "{amplification}");
}

#[test]
fn erases_are_spread_over_the_blocks() {
    let mut flash = create(MediaKind::Ram, 8 * MIB, &[nvm(8 * MIB)]);
    let extent = extent(&flash, 1);
    let mut random = Random::new(3);
    for step in 0..60_000 {
        write_unit(&mut flash, extent, random.below(8 * MIB / 4096), step).unwrap();
    }
    let erases = flash.counters()[Cause::Gc].erases;
    assert!(erases > 2 * u64::from(flash.geometry().block_count()), "{erases}");
    assert_eq!(flash.check(), []);
}

/// A larger device has more blocks that hold nothing to choose among.
#[test]
fn blocks_that_cold_data_keeps_young_are_used_in_turn_and_the_moves_charged() {
    for (mib, most_spread) in [(16, 0.25), (24, 0.35)] {
        let size = mib * MIB;
        let mut flash = create(MediaKind::Ram, size, &[nvm(size)]);
        let (extent, units) = (extent(&flash, 1), size / 4096);
        // The bounds were measured with this sequence; with another, the least worn block had 46 erases.
        let mut state = 11_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for unit in 0..units {
            write_unit(&mut flash, extent, unit, unit).unwrap();
        }
        for step in 0..100 * units {
            write_unit(&mut flash, extent, below(units / 10), step).unwrap();
        }
        let wear = flash.wear();
        assert!(wear.min > 50, "{wear:?}");
        assert!(wear.spread() < most_spread, "{} of {wear:?}", wear.spread());
        let levelling = flash.counters()[Cause::WearLevelling];
        assert!(levelling.programs > 0 && levelling.erases > 0, "{levelling:?}");
        assert_eq!(flash.check(), []);
        for unit in units / 10..units {
            assert_eq!(read_unit(&mut flash, extent, unit).unwrap(), unit_of(unit));
        }
    }
}

#[test]
fn blocks_wear_evenly_under_mixed_short_and_long_lived_data() {
    let mut flash = create(MediaKind::Ram, 64 * MIB, &[kv(64 * MIB)]);
    let extent = extent(&flash, 1);
    let pages = flash.extent_entries(extent).unwrap();
    let (values, index) = (pages * 7 / 10, pages / 10);
    let page = page_of(&flash, 1);
    // Both are written in order, each over what it wrote before: the index seven times as often as values.
    for step in 0..10 * pages {
        flash.write_page(extent, step % values, &page, Cause::Host, &mut 0).unwrap();
        flash.write_page(extent, values + step % index, &page, Cause::Index, &mut 0).unwrap();
    }
    let wear = flash.wear();
    assert!(wear.mean > 10.0 && wear.variation() < 0.05, "{} of {wear:?}", wear.variation());
    assert_eq!(flash.counters()[Cause::WearLevelling].programs, 0, "nothing is moved for it");
    assert_eq!(flash.check(), []);
}

/// What the device does on its own account, in bytes programmed and blocks erased.
fn own_work(flash: &Flash) -> (u64, u64) {
    let causes = [Cause::Gc, Cause::WearLevelling, Cause::Refresh].map(|cause| flash.counters()[cause]);
    (causes.iter().map(|of| of.program_bytes).sum(), causes.iter().map(|of| of.erases).sum())
}

/// Most bytes that the device programmed on its own account during one host write of 4 KiB, over a long random overwrite.
fn longest_stall_bytes(policy: GcPolicy, over_provisioning_percent: u32) -> u64 {
    let options = FlashOptions::new(64 * MIB, crate::common::small_profile(), MediaKind::Ram)
        .over_provisioning_percent(over_provisioning_percent);
    let mut flash = Flash::create(options, &[nvm(64 * MIB)]).unwrap();
    flash.set_gc_policy(policy);
    let (extent, units) = (extent(&flash, 1), 64 * MIB / 4096 * 95 / 100);
    let (mut random, mut longest) = (Random::new(5), 0);
    for step in 0..4 * units {
        let unit = if step < units { step } else { random.below(units) };
        let (bytes, erases) = own_work(&flash);
        write_unit(&mut flash, extent, unit, step).unwrap();
        let (bytes_after, erases_after) = own_work(&flash);
        assert!(erases_after - erases <= 2, "{} blocks erased for one write", erases_after - erases);
        longest = longest.max(bytes_after - bytes);
    }
    assert_eq!(flash.check(), []);
    longest
}

#[test]
fn no_write_waits_for_a_whole_block_to_be_collected() {
    for policy in GcPolicy::ALL {
        let stall = longest_stall_bytes(policy, 28);
        assert!((16384..=10 * 16384).contains(&stall), "{}: {stall} bytes", policy.name());
    }
    let tight = longest_stall_bytes(GcPolicy::Greedy, 5);
    assert!(tight <= 17 * 16384, "{tight} bytes with hardly any room to work in");
}

#[test]
fn both_policies_keep_amplification_low_where_a_tenth_of_the_units_takes_most_writes() {
    let amplification = |policy| {
        let options = FlashOptions::new(32 * MIB, crate::common::small_profile(), MediaKind::Ram)
            .over_provisioning_percent(15);
        let mut flash = Flash::create(options, &[nvm(32 * MIB)]).unwrap();
        flash.set_gc_policy(policy);
        let (extent, units, mut random) = (extent(&flash, 1), 32 * MIB / 4096, Random::new(6));
        for step in 0..8 * units {
            let hot = random.below(10) < 9;
            let unit = if hot { random.below(units / 10) } else { random.below(units) };
            write_unit(&mut flash, extent, unit, step).unwrap();
        }
        assert_eq!(flash.check(), []);
        flash.counters().write_amplification().unwrap()
    };
    let (greedy, cost_benefit) = (amplification(GcPolicy::Greedy), amplification(GcPolicy::CostBenefit));
    assert!(greedy < 1.3 && cost_benefit < 1.3, "greedy {greedy}, cost-benefit {cost_benefit}");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    on_small_disk("endurance::a_full_disk_is_an_error_and_loses_nothing", 24 << 10, fill_the_disk);
}

fn fill_the_disk(dir: &Path) {
    let (path, ballast) = (dir.join("image"), dir.join("ballast"));
    let mut flash = create(MediaKind::File(path.clone()), 64 * MIB, &[nvm(32 * MIB), kv(32 * MIB)]);
    std::fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let (blocks, pairs) = (extent(&flash, 1), extent(&flash, 2));
    let mut acknowledged = 0;
    let error = loop {
        if let Err(error) = write_unit(&mut flash, blocks, acknowledged, acknowledged) {
            break error;
        }
        acknowledged += 1;
    };
    assert!(error.to_string().contains("is full: taking room in found no room"), "{error}");
    assert!(acknowledged > 100, "{acknowledged}");
    let page = page_of(&flash, 1);
    assert!(matches!(flash.write_page(pairs, 0, &page, Cause::Host, &mut 0), Err(FlashError::File(_))));
    assert!(matches!(flash.add_area(1, byway_flash::AreaId(1), 64 << 20), Err(FlashError::File(_))));
    drop(flash);
    let mut flash = open(&path).unwrap();
    for unit in 0..acknowledged {
        assert_eq!(read_unit(&mut flash, blocks, unit).unwrap(), unit_of(unit));
    }
    assert_eq!(flash.check(), []);
    std::fs::remove_file(ballast).unwrap();
    write_unit(&mut flash, blocks, acknowledged, acknowledged).unwrap();
    flash.write_page(pairs, 0, &page, Cause::Host, &mut 0).unwrap();
    assert_eq!(flash.check(), []);
}

#[test]
fn an_image_for_which_there_is_no_room_is_not_made() {
    on_small_disk("endurance::an_image_for_which_there_is_no_room_is_not_made", 256, |dir| {
        let path = dir.join("image");
        let said = refusal(try_create(MediaKind::File(path.clone()), 64 * MIB, &[nvm(MIB)]));
        assert!(said.contains("is full: taking room in found no room"), "{said}");
        assert!(!path.exists());
    });
}

#[test]
fn a_device_without_over_provisioning_can_still_be_overwritten() {
    let options = FlashOptions::new(8 * MIB, crate::common::small_profile(), MediaKind::Ram)
        .over_provisioning_percent(0);
    let mut flash = Flash::create(options, &[nvm(8 * MIB)]).unwrap();
    let extent = extent(&flash, 1);
    let mut random = Random::new(9);
    for step in 0..20_000 {
        write_unit(&mut flash, extent, random.below(8 * MIB / 4096), step).unwrap();
    }
    assert_eq!(flash.check(), []);
}

#[test]
fn a_device_can_be_handed_to_another_thread() {
    let flash = create(MediaKind::Ram, 8 * MIB, &[nvm(MIB)]);
    assert_eq!(std::thread::spawn(move || flash.total_bytes()).join().unwrap(), 8 * MIB);
}

#[test]
fn a_device_without_data_is_worn_and_collected_as_one_that_keeps_it() {
    let size = 8 * MIB;
    let [kept, external] = [MediaKind::Ram, MediaKind::External].map(|media| {
        let mut flash = create(media, size, &[nvm(size)]);
        let (blocks, mut random) = (extent(&flash, 1), Random::new(5));
        for _ in 0..5 * size / 4096 {
            let unit = random.below(size / 4096);
            flash.write_units(blocks, unit, &[0; 4096], Cause::Host, &mut 0).unwrap();
        }
        let mut read = [1; 4096];
        flash.read(blocks, 0, &mut read, Cause::Host, &mut 0).unwrap();
        assert_eq!(read, [0; 4096]);
        *flash.counters()
    });
    assert_eq!(kept, external);
    assert!(external.total().erases > 0);
}
