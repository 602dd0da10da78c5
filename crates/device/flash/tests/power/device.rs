//! A small device over a file that forgets, for losses of power that are put together by hand.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_flash::{
    BlockLease, Cause, Durability, Finding, Flash, FlashOptions, MediaKind, NamespaceSpec, OpenOptions,
    RunOptions, SyncPoint,
};
use byway_forgetful::{Forgetful, NamedRanges, Sector, image_folder};
use byway_link::Profile;

use crate::life::{NVM, UNIT, extent, pattern, write_by};

pub struct Device {
    pub flash: Flash,
    folder: tempfile::TempDir,
    path: PathBuf,
    events: Option<Arc<Forgetful>>,
    lives: u32,
}

/// The superblock and its copy.
pub const SUPERBLOCK_BYTES: u64 = 8192;

/// Nearly all that there is.
pub const UNITS: u64 = 1008;

/// A sector that changed since the last sync, by the region of the image that it is in.
pub struct Place<'a> {
    pub region: &'static str,
    /// Its first byte in the region.
    pub at: u64,
    pub sector: Sector<'a>,
}

impl<'a> Place<'a> {
    fn of(regions: &NamedRanges, sector: &Sector<'a>) -> Self {
        let (region, at) = regions.find(sector);
        Self { region, at, sector: *sector }
    }
}

/// Which of the sectors that changed since the last sync reached the medium.
pub type Reached = fn(&Place<'_>) -> bool;

impl Device {
    /// Events of its first life are not recorded.
    pub fn new() -> Self {
        let folder = image_folder();
        let path = folder.path().join("image");
        let run = RunOptions::default().durability(Durability::Volatile);
        let flash = make(&path, run);
        Self { flash, folder, path, events: None, lives: 0 }
    }

    pub fn write(&mut self, unit: u64, step: u64) {
        let extent = extent(&self.flash, 1);
        self.flash.write_units(extent, unit, &pattern(step, unit, UNIT), Cause::Host, &mut 0).unwrap();
    }

    /// Writes a unit by a lease, which is renewed first if it has no room.
    pub fn write_by(&mut self, lease: &BlockLease, unit: u64, step: u64) {
        write_by(&mut self.flash, lease, unit, &pattern(step, unit, UNIT)).unwrap();
    }

    /// Writes four units, straight to flash.
    pub fn write_page(&mut self, first: u64, step: u64) {
        let data: Vec<u8> = (first..first + 4).flat_map(|unit| pattern(step, unit, UNIT)).collect();
        let extent = extent(&self.flash, 1);
        self.flash.write_units(extent, first, &data, Cause::Host, &mut 0).unwrap();
    }

    pub fn sync(&mut self) {
        self.flash.make_durable().unwrap();
    }

    pub fn holds(&mut self, unit: u64, step: u64) -> bool {
        content(&mut self.flash, unit) == pattern(step, unit, UNIT)
    }

    /// Loses power, and with it what was stored in these regions since the last sync.
    pub fn lose(mut self, regions: &[&str]) -> Self {
        self.lose_to_next(|place| !regions.contains(&place.region));
        self.close_image();
        let events = Forgetful::new(&self.path, 0);
        let run = watched(&events, None).power_was_lost(true);
        let flash = open(&self.path, run).unwrap();
        Self { flash, events: Some(events), ..self }
    }

    /// Loses power, but for the sectors that reached the medium.
    fn lose_to_next(&mut self, reached: impl Fn(&Place<'_>) -> bool) {
        self.lives += 1;
        let (left, regions) =
            (self.folder.path().join(format!("left-{}", self.lives)), NamedRanges::new(self.flash.regions()));
        self.events().cut_by(&left, |sector| reached(&Place::of(&regions, sector)));
        self.path = left;
    }

    /// Ends in order and begins again, watched.
    pub fn watch(&mut self) {
        self.begin(&Life::IN_ORDER, None);
    }

    /// Begins another life, with one sync point left out. If the power is cut at events, it is from the end of this life on:
    /// see [`Device::cuts`].
    pub fn begin(&mut self, life: &Life, left_out: Option<SyncPoint>) {
        let (regions, path) = (NamedRanges::new(self.flash.regions()), self.path.clone());
        match life.survived {
            None => self.flash.close().unwrap(),
            Some(survived) => self.lose_to_next(survived),
        }
        self.close_image();
        let events = Forgetful::new(&self.path, 0);
        if let Some(reached) = life.reached {
            events.cut_at_events(self.folder.path(), move |sector| reached(&Place::of(&regions, sector)));
        }
        let run = watched(&events, left_out).durability(life.durability);
        self.flash = open(&self.path, run.power_was_lost(path != self.path)).unwrap();
        self.events = Some(events);
    }

    /// Cuts the power once, now.
    pub fn cut_now(&self, reached: Reached) {
        let regions = NamedRanges::new(self.flash.regions());
        self.events().cut_at_events(self.folder.path(), move |sector| reached(&Place::of(&regions, sector)));
    }

    /// What was on the disk of room that was given back.
    pub fn given_back(&self) -> Vec<Vec<u8>> {
        self.events().given_back()
    }

    fn events(&self) -> &Forgetful {
        self.events.as_ref().unwrap()
    }

    /// Every image that a cut left since.
    pub fn cuts_left(&self) -> Vec<PathBuf> {
        self.events().end_cuts()
    }

    /// The same, opened.
    pub fn cuts(&self) -> impl Iterator<Item = Result<Flash, String>> {
        self.events().end_cuts().into_iter().map(|left| {
            let run = RunOptions::default().power_was_lost(true);
            open(&left, run)
        })
    }

    /// Ends in order. Then these bytes of regions are gone.
    pub fn lose_bytes(mut self, gone: &[(&str, Range<u64>)]) -> Damaged {
        let regions = NamedRanges::new(self.flash.regions());
        self.flash.close().unwrap();
        self.close_image();
        let file = File::options().write(true).open(&self.path).unwrap();
        for (region, bytes) in gone {
            let zeroes = vec![0; (bytes.end - bytes.start) as usize];
            file.write_all_at(&zeroes, regions.start_of(region) + bytes.start).unwrap();
        }
        Damaged { folder: self.folder, path: self.path, regions }
    }

    /// Replaces the device by a small one in memory, so that the image is unlocked and can be opened again.
    fn close_image(&mut self) {
        let profile = Profile::by_name("gen4x4").unwrap().flash;
        self.flash = Flash::create(FlashOptions::new(4 << 20, profile, MediaKind::Ram), &[]).unwrap();
    }
}

/// An image that has to be repaired.
pub struct Damaged {
    folder: tempfile::TempDir,
    path: PathBuf,
    regions: NamedRanges,
}

impl Damaged {
    /// Repairs it with one sync point left out; `act` stands for the owner of its namespaces. Power is lost at every event;
    /// each image that a loss left is repaired until it can be used.
    pub fn repair(
        self,
        left_out: Option<SyncPoint>,
        reached: Reached,
        act: impl FnOnce(&mut Flash, &[Finding]),
    ) -> impl Iterator<Item = Result<Flash, String>> {
        let Self { folder, path, regions } = self;
        let events = Forgetful::new(&path, 0);
        events.cut_at_events(folder.path(), move |sector| reached(&Place::of(&regions, sector)));
        let mut flash = repaired(&path, watched(&events, left_out)).unwrap();
        let findings = std::mem::take(&mut flash.1);
        act(&mut flash.0, &findings);
        flash.0.close().unwrap();
        events.end_cuts().into_iter().map(move |left| {
            // It is there as long as images are opened.
            let _folder = &folder;
            repaired(&left, RunOptions::default().power_was_lost(true)).map(|(flash, _)| flash)
        })
    }
}

fn repaired(path: &Path, run: RunOptions) -> Result<(Flash, Vec<Finding>), String> {
    let said = |error: byway_flash::FlashError| error.to_string();
    let (mut flash, _) = Flash::open_to_check(path, true, run).map_err(said)?;
    let findings = flash.repair(&mut |_, _, _| {}).map_err(said)?;
    flash.drop_lost(&findings);
    Ok((flash, findings))
}

/// A life, and the end of the one before.
pub struct Life {
    /// The one before ended in a loss of power that these sectors survived, and not in order.
    pub survived: Option<Reached>,
    pub durability: Durability,
    /// The power is cut at every event, and these sectors reach the medium.
    pub reached: Option<Reached>,
}

impl Life {
    pub const IN_ORDER: Self = Self { survived: None, durability: Durability::Volatile, reached: None };
}

fn make(path: &Path, run: RunOptions) -> Flash {
    let profile = Profile::by_name("gen4x4").unwrap().flash;
    let options = FlashOptions::new(4 << 20, profile, MediaKind::File(path.into()))
        .over_provisioning_percent(5)
        .run(run);
    let nvm = NamespaceSpec { size_bytes: UNITS * UNIT as u64, ..NVM };
    Flash::create(options, &[nvm]).unwrap()
}

/// Makes a device, with one sync point left out, and has power cut at every event: of what was not synced, the superblock
/// reaches the medium. Every image that a cut left, opened.
pub fn left_of_making(left_out: Option<SyncPoint>) -> impl Iterator<Item = Result<Flash, String>> {
    let folder = image_folder();
    let path = folder.path().join("image");
    let events = Forgetful::new(&path, 0);
    events.cut_at_events(folder.path(), |sector| sector.at < SUPERBLOCK_BYTES);
    make(&path, watched(&events, left_out)).close().unwrap();
    let left = events.end_cuts();
    left.into_iter().map(move |left| {
        // It is there as long as images are opened.
        let _folder = &folder;
        open(&left, RunOptions::default().power_was_lost(true))
    })
}

fn open(path: &Path, run: RunOptions) -> Result<Flash, String> {
    let options = OpenOptions::default().timing(false).run(run);
    Flash::open(path, options).map_err(|error| format!("opening: {error}"))
}

fn watched(events: &Arc<Forgetful>, left_out: Option<SyncPoint>) -> RunOptions {
    let events = Some(events.clone() as Arc<_>);
    RunOptions::default().durability(Durability::Volatile).events(events).left_out(left_out)
}

pub fn content(flash: &mut Flash, unit: u64) -> Vec<u8> {
    let (extent, mut data) = (extent(flash, 1), vec![0; UNIT]);
    match flash.read(extent, unit * UNIT as u64, &mut data, Cause::Host, &mut 0) {
        Ok(()) => data,
        Err(error) => error.to_string().into_bytes(),
    }
}
