//! Blocks that fail: what they held is elsewhere, spares are counted, and a device without spares is still read.

use std::collections::HashMap;
use std::path::Path;

use crate::common::{MIB, extent, nvm, open, read_unit, small_profile, unit_of, write_unit};
use byway_flash::{
    Cause, ExtentId, FactoryBad, Flash, FlashError, FlashOptions, MediaKind, OpenOptions, RunOptions,
};
use byway_kit::spread;
use proptest::prelude::*;

const SIZE: u64 = 8 * MIB;
const UNITS: u64 = SIZE / 4096;

fn options(media: MediaKind, inject: &str) -> FlashOptions {
    FlashOptions::new(SIZE, small_profile(), media).run(failing(inject))
}

fn failing(inject: &str) -> RunOptions {
    RunOptions::default().injection(Some(inject.parse().unwrap()))
}

fn device(media: MediaKind, inject: &str) -> Flash {
    Flash::create(options(media, inject), &[nvm(SIZE)]).unwrap()
}

fn open_failing(path: &Path, inject: &str) -> Flash {
    Flash::open(path, OpenOptions::default().run(failing(inject))).unwrap()
}

/// Fills a device and overwrites it at random; says what must be there, and the error that ended it.
fn overwrite(flash: &mut Flash, steps: u64) -> (HashMap<u64, u64>, Option<FlashError>) {
    let (extent, mut model) = (extent(flash, 1), HashMap::new());
    for step in 0..steps {
        let unit = if step < UNITS { step } else { spread(step) % UNITS };
        match write_unit(flash, extent, unit, step) {
            Ok(()) => model.insert(unit, step),
            Err(error) => return (model, Some(error)),
        };
    }
    (model, None)
}

fn assert_holds(flash: &mut Flash, extent: ExtentId, model: &HashMap<u64, u64>) {
    for (unit, step) in model {
        assert_eq!(read_unit(flash, extent, *unit).unwrap(), unit_of(*step), "unit {unit}");
    }
}

#[test]
fn a_block_that_fails_to_be_programmed_loses_nothing_and_is_never_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let inject = "program:nth=40,program:nth=333,program:nth=1200";
    let mut flash = device(MediaKind::File(path.clone()), inject);
    let (model, error) = overwrite(&mut flash, 3 * UNITS);
    assert!(error.is_none(), "{error:?}");
    let extent = extent(&flash, 1);
    assert_holds(&mut flash, extent, &model);
    let health = flash.health();
    assert_eq!((health.grown_bad_blocks, health.retired_blocks), (3, 0));
    assert_eq!(health.spare_blocks_left, health.spare_blocks - 3);
    assert!(flash.counters()[Cause::Refresh].programs > 0, "what they held was moved");
    assert_eq!(flash.check(), []);
    drop(flash);
    let mut flash = open(&path).unwrap();
    assert_eq!(flash.health().grown_bad_blocks, 3, "the image remembers");
    let (model, _) = overwrite(&mut flash, 3 * UNITS);
    assert_holds(&mut flash, extent, &model);
    assert_eq!(flash.health().grown_bad_blocks, 3);
    assert_eq!(flash.check(), []);
}

#[test]
fn a_block_that_fails_to_be_erased_is_retired() {
    let mut flash = device(MediaKind::Ram, "erase:nth=2,erase:nth=5");
    let (model, error) = overwrite(&mut flash, 4 * UNITS);
    assert!(error.is_none(), "{error:?}");
    let extent = extent(&flash, 1);
    assert_holds(&mut flash, extent, &model);
    assert_eq!(flash.health().grown_bad_blocks, 2);
    assert_eq!(flash.check(), []);
}

#[test]
fn a_device_without_spares_is_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = device(MediaKind::File(path.clone()), "seed=1,program:ppm=20000");
    let (model, error) = overwrite(&mut flash, 100 * UNITS);
    assert!(matches!(error, Some(FlashError::WornOut)), "{error:?}");
    let health = flash.health();
    assert_eq!((health.spare_blocks_left, health.available_spare_percent), (0, 0));
    assert!(health.worn_out && health.percentage_used >= 100 && flash.is_read_only());
    let extent = extent(&flash, 1);
    assert_holds(&mut flash, extent, &model);
    assert!(matches!(flash.trim(extent, 0..1), Err(FlashError::WornOut)));
    drop(flash);
    let mut flash = open(&path).unwrap();
    assert!(matches!(write_unit(&mut flash, extent, 0, 0), Err(FlashError::WornOut)));
    assert_holds(&mut flash, extent, &model);
    assert_eq!(flash.check(), []);
}

#[test]
fn factory_bad_blocks_follow_from_their_seed_and_are_never_written() {
    let with = |seed| {
        let options = options(MediaKind::Ram, "erase:nth=1000000");
        let options = options.factory_bad(FactoryBad { ppm: 60_000, seed });
        Flash::create(options, &[nvm(SIZE)]).unwrap()
    };
    let (mut one, two) = (with(3), with(3));
    let bad = one.health().factory_bad_blocks;
    assert!(bad > 0);
    assert_eq!(bad, two.health().factory_bad_blocks);
    assert_eq!(one.health().available_spare_percent, 100);
    let (model, error) = overwrite(&mut one, 3 * UNITS);
    assert!(error.is_none(), "{error:?}");
    let extent = extent(&one, 1);
    assert_holds(&mut one, extent, &model);
    assert_eq!((one.health().factory_bad_blocks, one.health().grown_bad_blocks), (bad, 0));
    assert_eq!(one.check(), []);
}

#[test]
fn reads_fail_or_are_corrected_as_the_rules_say() {
    let mut flash = device(MediaKind::Ram, "read:nth=2,read:nth=3:correctable");
    let extent = extent(&flash, 1);
    flash.write_units(extent, 0, &unit_of(9).repeat(4), Cause::Host, &mut 0).unwrap();
    assert_eq!(read_unit(&mut flash, extent, 0).unwrap(), unit_of(9));
    let error = read_unit(&mut flash, extent, 0).unwrap_err();
    assert!(matches!(error, FlashError::Media { page: 0, .. }), "{error}");
    assert_eq!(read_unit(&mut flash, extent, 0).unwrap(), unit_of(9));
    assert_eq!((flash.counters().media_errors, flash.health().corrected_reads), (1, 0));
    assert_eq!(read_unit(&mut flash, extent, 0).unwrap(), unit_of(9));
    assert_eq!(flash.health().corrected_reads, 1);
}

#[test]
fn data_that_garbage_collection_cannot_read_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    drop(device(MediaKind::File(path.clone()), "erase:nth=1000000"));
    let mut flash = open_failing(&path, "seed=4,read:ppm=150000");
    let (model, error) = overwrite(&mut flash, 3 * UNITS);
    assert!(error.is_none(), "{error:?}");
    assert!(flash.health().retired_blocks > 0, "three attempts in a row failed");
    drop(flash);
    let mut flash = open(&path).unwrap();
    let extent = extent(&flash, 1);
    assert_holds(&mut flash, extent, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn acknowledged_writes_survive_any_program_and_erase_failures(seed in any::<u64>(), ppm in 0..3000_u32) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let inject = format!("seed={seed},program:ppm={ppm},erase:ppm={}", 10 * ppm);
        let mut flash = device(MediaKind::File(path.clone()), &inject);
        let (model, error) = overwrite(&mut flash, 3 * UNITS);
        prop_assert!(matches!(error, None | Some(FlashError::WornOut)), "{error:?}");
        let extent = extent(&flash, 1);
        assert_holds(&mut flash, extent, &model);
        prop_assert_eq!(flash.check(), []);
        let counters = flash.counters();
        let pages: u64 = counters.rows().map(|(_, counted)| counted.programs).sum();
        prop_assert_eq!(counters.total().program_bytes, pages * 16384);
        drop(flash);
        let mut flash = open(&path).unwrap();
        assert_holds(&mut flash, extent, &model);
        prop_assert_eq!(flash.check(), []);
    }
}
