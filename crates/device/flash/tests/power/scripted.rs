//! Losses of power that are put together by hand: of what was stored since a sync, named regions did not reach the medium.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_flash::{Cause, Durability, Flash, FlashOptions, MediaKind, OpenOptions, RunOptions};
use byway_forgetful::{Forgetful, Kept};
use byway_link::Profile;

use crate::life::{UNIT, extent, pattern};

/// Units that fill every buffer slot of a stream once.
const UNITS_A_TURN: u64 = 16 * 4;

struct Device {
    folder: tempfile::TempDir,
    flash: Flash,
    events: Arc<Forgetful>,
    lives: u32,
}

impl Device {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::by_name("gen4x4").unwrap().flash;
        let path = folder.path().join("image");
        let (events, run) = run_of(&path);
        let mut options = FlashOptions::new(4 << 20, profile, MediaKind::File(path));
        options.run = run;
        let flash = Flash::create(options, &[crate::life::NVM]).unwrap();
        Self { folder, flash, events, lives: 0 }
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

    fn sync(&mut self) {
        self.flash.make_durable().unwrap();
    }

    fn holds(&mut self, unit: u64, step: u64) -> bool {
        let (extent, mut data) = (extent(&self.flash, 1), vec![0; UNIT]);
        self.flash.read(extent, unit * UNIT as u64, &mut data, Cause::Host, &mut 0).unwrap();
        data == pattern(step, unit, UNIT)
    }

    /// Loses power, and with it what was stored in these regions since the last sync.
    fn lose(self, regions: &[&str]) -> Self {
        let all = self.flash.regions();
        let lost: Vec<_> = all.iter().filter(|(name, _)| regions.contains(name)).collect();
        assert_eq!(lost.len(), regions.len());
        let is_lost = |at: u64| lost.iter().any(|(_, range)| range.contains(&at));
        let path = self.path(self.lives + 1);
        self.events.cut_by(&path, |at| if is_lost(at) { Kept::Synced } else { Kept::Stored });
        let (events, run) = run_of(&path);
        let run = RunOptions { power_was_lost: true, ..run };
        let flash = Flash::open(&path, OpenOptions { timing: false, run, ..OpenOptions::default() }).unwrap();
        Self { flash, events, lives: self.lives + 1, ..self }
    }

    fn path(&self, life: u32) -> PathBuf {
        self.folder.path().join(format!("left-{life}"))
    }
}

fn run_of(path: &Path) -> (Arc<Forgetful>, RunOptions) {
    let events = Forgetful::new(path, 0);
    let watching = Some(events.clone() as Arc<_>);
    (events, RunOptions { durability: Durability::Volatile, events: watching, ..RunOptions::default() })
}

#[test]
fn a_buffer_slot_of_an_earlier_turn_does_not_vouch_for_what_it_was_filled_with_since() {
    let mut device = Device::new();
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

/// Its record was kept, as its first unit names nobody, and vouched for data of the life before at the next loss.
#[test]
fn a_page_that_no_sync_covered_is_not_believed_at_the_second_loss_though_its_first_unit_is_nobodys() {
    let mut device = Device::new();
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
