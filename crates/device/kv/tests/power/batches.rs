//! Of a batch that no sync covered, any part may be missing after a loss of power: then all of it is.

use byway_kv::{Change, Placement};

use crate::life::{Device, FORMAT, Value, key, pattern};
use crate::stage::{Place, Size, Stage};

const SIZE: Size = Size { flash_bytes: 4 << 20, namespace_bytes: 640 << 10, format: FORMAT };
const KEYS: u64 = 8;
/// Sectors of a ring.
const RING_SECTORS: u64 = 4 * 4096 / 512;

/// Values of the batch; one in four keys is deleted.
fn new_value(n: u64, len: u64) -> Value {
    (n % 4 != 3).then(|| pattern(2, n, len))
}

fn store_batch(stage: &mut Stage, len: u64) {
    let values: Vec<_> = (0..KEYS).map(|n| new_value(n, len)).collect();
    let changes: Vec<_> =
        (0..).zip(&values).map(|(n, value)| Change { key: key(n), value: value.as_deref() }).collect();
    let Device { engine, flash, .. } = stage.device();
    engine.store_many(flash, &changes, &mut 0).unwrap();
}

/// What reaches the medium: these sectors of the ring, no page that was programmed, and everything else.
fn is_kept(place: &Place, in_ring: impl Fn(u64) -> bool) -> bool {
    match place.part {
        "ring of the log" => in_ring(place.at / 512),
        part => part != "pages",
    }
}

/// Old values of all keys, synced, and then a batch of values of `len` bytes that replaces them, not synced. The record before it has
/// `before` bytes of value.
fn stage(before: u64, len: u64) -> Stage {
    let mut stage = Stage::new(SIZE);
    (0..KEYS).for_each(|n| stage.put(n, 1, 100, Placement::Packed));
    stage.put(77, 1, before, Placement::Packed);
    stage.sync();
    stage.watch();
    store_batch(&mut stage, len);
    stage
}

/// Whether the batch is there; an error if a part of it is.
fn has_batch(device: &mut Device, len: u64) -> Result<bool, String> {
    let found: Vec<_> = (0..KEYS).map(|n| device.get(n).unwrap()).collect();
    if (0..).zip(&found).all(|(n, value)| *value == new_value(n, len)) {
        return Ok(true);
    }
    let is_old = (0..).zip(&found).all(|(n, value)| *value == Some(pattern(1, n, 100)));
    is_old
        .then_some(false)
        .ok_or_else(|| format!("{:?}", found.iter().map(Option::is_some).collect::<Vec<_>>()))
}

#[test]
fn a_batch_that_lost_any_sector_is_gone_whole() {
    // The batch begins at several places of a page.
    for before in [0, 1000, 2500] {
        let mut stage = stage(before, 700);
        assert_eq!(has_batch(&mut stage.left_by(|_| true).unwrap(), 700), Ok(true));
        assert_eq!(has_batch(&mut stage.left_by(|_| false).unwrap(), 700), Ok(false));
        let mut gone = 0;
        for sector in 0..RING_SECTORS {
            let mut left = stage.left_by(|place| is_kept(place, |at| at != sector)).unwrap();
            gone += u64::from(!has_batch(&mut left, 700).unwrap());
        }
        // The records alone are longer than 4,000 bytes.
        assert!(gone >= 8, "{gone} sectors were missed");
    }
}

#[test]
fn a_batch_that_lost_its_first_or_last_sectors_is_never_there_in_part() {
    let mut stage = stage(0, 700);
    for from in 0..RING_SECTORS {
        for keeps_head in [false, true] {
            let left = stage.left_by(|place| is_kept(place, |sector| (sector < from) == keeps_head));
            has_batch(&mut left.unwrap(), 700).unwrap();
        }
    }
}

#[test]
fn stores_behind_a_batch_that_is_gone_are_gone_too() {
    let mut stage = stage(0, 700);
    stage.put(50, 1, 30, Placement::Packed);
    stage.put(3, 9, 30, Placement::Packed);
    let mut left = stage.left_by(|place| is_kept(place, |sector| sector != 3)).unwrap();
    assert_eq!(has_batch(&mut left, 700), Ok(false));
    assert_eq!(left.get(50).unwrap(), None);
}

/// Records of 128 bytes, so that some begin where a sector does, and a sector that was lost before them reads as padding.
#[test]
fn a_batch_whose_header_was_lost_is_gone_whole_wherever_its_records_begin() {
    for before in (0..512).step_by(12) {
        let mut stage = stage(before, 100);
        for sector in 0..8 {
            let mut left = stage.left_by(|place| is_kept(place, |at| at != sector)).unwrap();
            has_batch(&mut left, 100).unwrap_or_else(|found| panic!("{before}, {sector}: {found}"));
        }
    }
}
