//! Losses of power that are put together by hand: of what was stored since a sync, named regions did not reach the medium.

use std::fs::{self, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use byway_flash::{Cause, Durability, Flash, FlashOptions, MediaKind, OpenOptions, RunOptions};
use byway_link::Profile;

use crate::life::{UNIT, extent, pattern};

/// Units that fill every buffer slot of a stream once.
const UNITS_A_TURN: u64 = 16 * 4;

struct Device {
    folder: tempfile::TempDir,
    flash: Flash,
}

impl Device {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::by_name("gen4x4").unwrap().flash;
        let media = MediaKind::File(folder.path().join("image"));
        let mut options = FlashOptions::new(4 << 20, profile, media);
        options.run.durability = Durability::Volatile;
        let flash = Flash::create(options, &[crate::life::NVM]).unwrap();
        Self { folder, flash }
    }

    fn write(&mut self, unit: u64, step: u64) {
        let extent = extent(&self.flash, 1);
        self.flash.write_units(extent, unit, &pattern(step, unit, UNIT), Cause::Host, &mut 0).unwrap();
    }

    /// Writes four units, straight to flash.
    fn write_page(&mut self, first: u64, step: u64) {
        let data: Vec<u8> = (first..first + 4).flat_map(|unit| pattern(step, unit, UNIT)).collect();
        let extent = extent(&self.flash, 1);
        self.flash.write_units(extent, first, &data, Cause::Host, &mut 0).unwrap();
    }

    /// Syncs, and keeps the image as it is then.
    fn sync(&mut self) -> PathBuf {
        self.flash.make_durable().unwrap();
        let synced = self.folder.path().join("synced");
        fs::copy(self.folder.path().join("image"), &synced).unwrap();
        synced
    }

    /// The device after a loss of power that left a region as of the sync, and everything else as it is.
    fn lose(&self, region: &str, synced: &Path) -> Flash {
        let left = self.folder.path().join("left");
        fs::copy(self.folder.path().join("image"), &left).unwrap();
        let (_, range) = self.flash.regions().into_iter().find(|(name, _)| *name == region).unwrap();
        let mut bytes = vec![0; (range.end - range.start) as usize];
        FileOptions::new().read(true).open(synced).unwrap().read_exact_at(&mut bytes, range.start).unwrap();
        FileOptions::new().write(true).open(&left).unwrap().write_all_at(&bytes, range.start).unwrap();
        let run = RunOptions { power_was_lost: true, ..RunOptions::default() };
        Flash::open(&left, OpenOptions { timing: false, run, ..OpenOptions::default() }).unwrap()
    }
}

fn read(flash: &mut Flash, unit: u64) -> Vec<u8> {
    let (extent, mut data) = (extent(flash, 1), vec![0; UNIT]);
    flash.read(extent, unit * UNIT as u64, &mut data, Cause::Host, &mut 0).unwrap();
    data
}

#[test]
fn a_buffer_slot_of_an_earlier_turn_does_not_vouch_for_what_it_was_filled_with_since() {
    let mut device = Device::new();
    for unit in 7..7 + UNITS_A_TURN {
        device.write(unit, 1);
    }
    device.write_page(4, 2);
    // The slot that unit 7 was in is the next to be filled, by itself again.
    let synced = device.sync();
    device.write(7, 3);
    let mut left = device.lose("unit buffer", &synced);
    assert!(read(&mut left, 7) == pattern(2, 7, UNIT), "neither what was lost nor what the slot held before");
    assert_eq!(left.recovery().reverted, 1);
    assert_eq!(left.check(), []);
}
