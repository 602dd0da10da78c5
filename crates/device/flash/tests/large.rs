//! A device far larger than memory: what it keeps in memory grows with its blocks, not with its pages.
#![allow(clippy::unwrap_used)]

#[path = "flash/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;

use byway_flash::{Cause, Flash, FlashOptions, MediaKind};
use byway_link::Profile;
use common::{MIB, extent, kv, nvm, open, read_unit, unit_of, write_unit};

const TIB: u64 = 1 << 40;

/// Anonymous memory of this process, in bytes: what no file holds.
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn create(path: &Path, size: u64) -> Flash {
    let profile = Profile::by_name("gen4x4").unwrap().flash;
    let options = FlashOptions::new(size, profile, MediaKind::File(path.to_path_buf()));
    Flash::create(options, &[nvm(size / 2), kv(size / 2)]).unwrap()
}

#[test]
fn a_terabyte_takes_little_memory_and_little_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let before = anonymous_bytes();
    let mut flash = create(&path, TIB);
    let (blocks, units) = (u64::from(flash.geometry().block_count()), TIB / 2 / 4096);
    let extent = extent(&flash, 1);
    for step in 0..1000 {
        write_unit(&mut flash, extent, step * (units / 1000), step).unwrap();
    }
    let taken = anonymous_bytes().saturating_sub(before);
    assert!(taken < 256 * blocks + 16 * MIB, "{taken} bytes for {blocks} blocks");
    assert!(taken < 64 * MIB, "{taken} bytes");
    assert!(flash.disk_bytes().unwrap() < 1 << 30, "{}", flash.disk_bytes().unwrap());
    drop(flash);
    let mut flash = open(&path).unwrap();
    for step in 0..1000 {
        assert_eq!(read_unit(&mut flash, extent, step * (units / 1000)).unwrap(), unit_of(step));
    }
    assert_eq!(flash.counters()[Cause::Host].programs, 249, "the last page is still in the buffer");
}
