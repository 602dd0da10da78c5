//! Entry points for fuzzers: recompute checksums over changed bytes, so that damage gets past them.
//!
//! A checksum detects accidental damage. An image can also be forged, and opening a forged one must not panic either.

use crate::{areas, block, image, map, spare, state};

/// Makes every checksum in the first bytes of a region fit; regions are named as by [`crate::Flash::regions`]. Spare
/// records have `record_bytes` each. Regions without checksums of their own stay as they are.
pub fn reseal(name: &str, region: &mut [u8], record_bytes: usize) {
    match name {
        "superblock" => image::superblock::reseal(region),
        "device state" => state::reseal(region),
        "namespace table" => image::namespaces::reseal(region),
        "area table" => areas::reseal(region),
        "block table" => block::reseal(region),
        "map" => map::reseal(region),
        "spare records" => spare::reseal(region, record_bytes),
        _ => {}
    }
}
