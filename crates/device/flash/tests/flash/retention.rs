//! Read disturb and retention: data that would fade is moved in time, and is lost where nothing moves it.

use crate::common::{MIB, extent, nvm, open, read_unit, small_profile, unit_of, write_unit};
use byway_flash::{Cause, Flash, FlashError, FlashOptions, MediaKind, RetentionLimits, RunOptions};

const SIZE: u64 = 8 * MIB;
const UNITS: u64 = SIZE / 4096;

fn device(media: MediaKind, retention: RetentionLimits) -> Flash {
    let options =
        FlashOptions::new(SIZE, small_profile(), media).run(RunOptions::default().retention(retention));
    Flash::create(options, &[nvm(SIZE)]).unwrap()
}

fn fill(flash: &mut Flash) {
    let extent = extent(flash, 1);
    for unit in 0..UNITS {
        write_unit(flash, extent, unit, unit).unwrap();
    }
}

#[test]
fn block_read_repeatedly_is_moved_before_its_read_limit() {
    let retention = RetentionLimits { reads_limit: Some(400), age_limit: None, refresh: true };
    let mut flash = device(MediaKind::Ram, retention);
    fill(&mut flash);
    let extent = extent(&flash, 1);
    for unit in (0..32).cycle().take(20_000) {
        assert_eq!(read_unit(&mut flash, extent, unit).unwrap(), unit_of(unit));
    }
    let refreshed = flash.counters()[Cause::Refresh];
    assert!(refreshed.erases >= 5 && refreshed.programs > 0, "{refreshed:?}");
    assert_eq!(flash.counters().media_errors, 0);
    assert_eq!(flash.check(), []);
}

#[test]
fn block_read_over_its_limit_fails_and_the_image_keeps_its_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let retention = RetentionLimits { reads_limit: Some(400), age_limit: None, refresh: false };
    let mut flash = device(MediaKind::File(path.clone()), retention);
    fill(&mut flash);
    let extent = extent(&flash, 1);
    for _ in 0..400 {
        assert_eq!(read_unit(&mut flash, extent, 7).unwrap(), unit_of(7));
    }
    let error = read_unit(&mut flash, extent, 7).unwrap_err();
    assert!(matches!(error, FlashError::Media { .. }), "{error}");
    drop(flash);
    assert_eq!(read_unit(&mut open(&path).unwrap(), extent, 7).unwrap(), unit_of(7), "the model is off");
    let run = RunOptions::default().retention(retention);
    let how = byway_flash::OpenOptions::default().run(run);
    assert!(read_unit(&mut Flash::open(&path, how).unwrap(), extent, 7).is_err(), "its reads were kept");
}

/// Writes one half of the device over and over, and reads the other.
fn age(refresh: bool) -> (Flash, u64) {
    let retention = RetentionLimits { reads_limit: None, age_limit: Some(1000), refresh };
    let mut flash = device(MediaKind::Ram, retention);
    fill(&mut flash);
    let extent = extent(&flash, 1);
    for step in 0..5 * UNITS / 2 {
        write_unit(&mut flash, extent, step.wrapping_mul(0x9E37_79B9) % (UNITS / 2), step).unwrap();
    }
    let lost = (UNITS / 2..UNITS).filter(|unit| match read_unit(&mut flash, extent, *unit) {
        Ok(found) => found != unit_of(*unit),
        Err(_) => true,
    });
    let lost = lost.count() as u64;
    (flash, lost)
}

#[test]
fn data_near_its_retention_limit_is_moved() {
    let (mut flash, lost) = age(true);
    assert_eq!(lost, 0);
    assert!(flash.counters()[Cause::Refresh].programs > 0);
    assert_eq!(flash.check(), []);
    let (_, lost) = age(false);
    assert!(lost > 0, "no block lost its data without refresh");
}
