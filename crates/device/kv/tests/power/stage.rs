//! A small device with one engine over a file that forgets, for losses of power that are put together by hand.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use byway_flash::{
    AreaId, Durability, Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceSpec, RunOptions, SyncPoint,
};
use byway_forgetful::{Forgetful, NamedRanges, Sector, image_folder};
use byway_kv::{KvEngine, KvFormat, Packing, Placement, StoreHow};

use crate::life::{Device, PROFILE, key, namespace, pattern, small};

const STATE: AreaId = AreaId(1);
const WINDOWS: AreaId = AreaId(2);

/// Bytes of the flash and of the namespace, and how that is laid out.
#[derive(Clone, Copy)]
pub struct Size {
    pub flash_bytes: u64,
    pub namespace_bytes: u64,
    pub format: KvFormat,
}

pub struct Stage {
    device: Option<Device>,
    folder: tempfile::TempDir,
    path: PathBuf,
    events: Option<Arc<Forgetful>>,
    lives: u32,
    size: Size,
}

/// A sector that changed since the last sync: the region of the image that it is in, or the part of the engine's state, and
/// its first byte there.
pub struct Place {
    pub part: &'static str,
    pub at: u64,
}

impl Place {
    fn of(parts: &NamedRanges, sector: &Sector<'_>) -> Self {
        let (part, at) = parts.find(sector);
        Self { part, at }
    }
}

/// Which of the sectors that changed since the last sync reached the medium.
pub type Reached = fn(&Place) -> bool;

/// A life, and the end of the one before.
#[derive(Clone, Copy)]
pub struct Life {
    /// The one before ended in a loss of power that these sectors survived, and not in order.
    pub survived: Option<Reached>,
    /// The power is cut at every event, and these sectors reach the medium.
    pub reached: Option<Reached>,
}

impl Life {
    pub const IN_ORDER: Self = Self { survived: None, reached: None };
}

impl Stage {
    /// Events of its first life are not recorded.
    pub fn new(size: Size) -> Self {
        let folder = image_folder();
        let path = folder.path().join("image");
        let options = FlashOptions::new(size.flash_bytes, PROFILE, MediaKind::File(path.clone()))
            .run(RunOptions::default().durability(Durability::Volatile));
        let (kind, size_bytes) = (NamespaceKind::Kv, size.namespace_bytes);
        let mut flash = Flash::create(options, &[NamespaceSpec { nsid: Some(1), kind, size_bytes }]).unwrap();
        let engine = create(&mut flash, &size.format);
        let device = Some(Device { engine, flash, host: None });
        Self { device, folder, path, events: None, lives: 0, size }
    }

    pub fn device(&mut self) -> &mut Device {
        self.device.as_mut().unwrap()
    }

    pub fn put(&mut self, n: u64, step: u64, len: u64, placement: Placement) {
        let Device { engine, flash, .. } = self.device();
        let how = StoreHow { placement, ..StoreHow::default() };
        engine.put(flash, &key(n), &pattern(step, n, len), how, &mut 0).unwrap();
    }

    /// Stores values by one lease.
    pub fn put_by_lease(&mut self, keys: Range<u64>, step: u64, len: u64) {
        let Device { engine, flash, .. } = self.device();
        let lease = engine.open_lease(flash).unwrap();
        for n in keys {
            let value = pattern(step, n, len);
            if !engine.put_beside(flash, lease, &key(n), &value) {
                engine.put_leased(flash, lease, &key(n), &value, &mut 0).unwrap();
            }
        }
        engine.close_lease(flash, lease);
    }

    pub fn put_in_place(&mut self, n: u64, step: u64, len: u64) {
        self.device().put_in_place(&key(n), &pattern(step, n, len)).unwrap();
    }

    /// The host stores anywhere into its window, without a command.
    pub fn store_into_window(&mut self, at: Range<usize>) {
        let memory = self.device().engine.window_memory().unwrap();
        let start = self.device().engine.window_range(crate::life::WINDOW).start;
        memory.write_at(start + at.start, &vec![0xee; at.len()]).unwrap();
    }

    /// Writes the memtable out.
    pub fn flush(&mut self) {
        let Device { engine, flash, .. } = self.device();
        engine.flush(flash, &mut 0).unwrap();
    }

    pub fn sync(&mut self) {
        self.device().flash.make_durable().unwrap();
    }

    /// Makes the engine anew.
    pub fn make_anew(&mut self) {
        let format = self.size.format;
        let device = self.device();
        device.engine = create(&mut device.flash, &format);
    }

    /// Ends in order and begins again, watched.
    pub fn watch(&mut self) {
        self.begin(&Life::IN_ORDER, None);
    }

    /// Begins another life, with one sync point left out.
    pub fn begin(&mut self, life: &Life, left_out: Option<SyncPoint>) {
        let (parts, before) = (self.parts(), self.path.clone());
        match life.survived {
            None => self.device().flash.close().unwrap(),
            Some(survived) => self.lose(&parts, survived),
        }
        self.device = None;
        let events = Forgetful::new(&self.path, 0);
        if let Some(reached) = life.reached {
            events.cut_at_events(self.folder.path(), move |sector| reached(&Place::of(&parts, sector)));
        }
        let run = RunOptions::default()
            .durability(Durability::Volatile)
            .events(Some(events.clone()))
            .left_out(left_out)
            .power_was_lost(before != self.path);
        self.events = Some(events);
        self.device = Some(Device::open(&self.path, &run, Packing::default(), false).unwrap());
    }

    fn lose(&mut self, parts: &NamedRanges, survived: Reached) {
        self.lives += 1;
        self.path = self.folder.path().join(format!("left-{}", self.lives));
        let events = self.events.as_ref().unwrap();
        events.cut_by(&self.path, |sector| survived(&Place::of(parts, sector)));
    }

    /// Cuts the power once, now.
    pub fn cut_now(&mut self, reached: Reached) {
        let parts = self.parts();
        let events = self.events.as_ref().unwrap();
        events.cut_at_events(self.folder.path(), move |sector| reached(&Place::of(&parts, sector)));
    }

    /// The device after a loss of power that these sectors survived of what changed since the last sync. This one goes on.
    pub fn left_by(&mut self, reached: impl Fn(&Place) -> bool) -> Result<Device, String> {
        let parts = self.parts();
        self.lives += 1;
        let left = self.folder.path().join(format!("left-{}", self.lives));
        let events = self.events.as_ref().unwrap();
        events.cut_by(&left, |sector| reached(&Place::of(&parts, sector)));
        let run = RunOptions::default().power_was_lost(true);
        Device::open(&left, &run, Packing::default(), false)
    }

    /// Every image that a cut left, opened and checked.
    pub fn cuts(&self, may_be_none: bool) -> impl Iterator<Item = Result<Device, String>> {
        let run = RunOptions::default().power_was_lost(true);
        let left = self.events.as_ref().unwrap().end_cuts();
        left.into_iter().map(move |left| Device::open(&left, &run, Packing::default(), may_be_none))
    }

    fn parts(&mut self) -> NamedRanges {
        let Device { engine, flash, .. } = self.device();
        let mut parts = Vec::new();
        let place_of = |area| flash.find_area(1, area).and_then(|area| flash.area_at(area)).unwrap();
        let state = place_of(STATE);
        for (name, part) in engine.state_parts() {
            parts.push((name, state + part.start as u64..state + part.end as u64));
        }
        let (windows, len) = (place_of(WINDOWS), engine.window_memory().unwrap().len() as u64);
        parts.push(("windows", windows..windows + len));
        parts.extend(flash.regions());
        NamedRanges::new(parts)
    }
}

fn create(flash: &mut Flash, format: &KvFormat) -> KvEngine {
    let namespace = namespace(flash);
    KvEngine::create(flash, &namespace, format, small(Packing::default())).unwrap()
}
