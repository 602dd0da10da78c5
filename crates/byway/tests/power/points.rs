//! Syncs of whole devices: for each a script in which, without it, a power loss loses acknowledged data.

use byway::{AdminCommand, RawData};
use byway_flash::{Durability, RunOptions, SyncPoint};
use byway_forgetful::{copy_sparse, image_folder};
use byway_spec::Command;
use byway_spec::base::admin::{AdminOpcode, SanitizeCdw10};

use crate::device::{Device, Watch};
use crate::life::Base;
use crate::model::History;
use crate::step::{PAIRS, Step, Target, Value};

/// A step that nothing else is like.
const STEP: Step = Step::Put { key: 7, len: 60 };
const NUMBER: u64 = 70_000;

struct Script {
    point: SyncPoint,
    durability: Durability,
    /// What the device does until the power is lost.
    act: fn(Device) -> Box<dyn FnOnce()>,
    /// The region of which everything reaches the medium; of others nothing does since the last sync.
    reached: &'static str,
    /// Whether the device holds what the host knows.
    holds: fn(&mut Device) -> bool,
}

impl Script {
    fn play(&self, left_out: Option<SyncPoint>) -> bool {
        let (base, folder) = (Base::shared(), image_folder());
        let (path, left) = (folder.path().join("image"), folder.path().join("left"));
        copy_sparse(&base.path, &path);
        let watch = Watch::new(&path, 1);
        let events = Some(watch.clone() as std::sync::Arc<_>);
        let run = RunOptions::default().durability(self.durability).left_out(left_out).events(events);
        let device = Device::open(&path, run, 1);
        let region = device.region(self.reached);
        let end = (self.act)(device);
        watch.file.cut_by(&left, |sector| region.contains(&sector.at));
        end();
        let run = RunOptions::default().power_was_lost(true);
        (self.holds)(&mut Device::open(&left, run, 1))
    }
}

fn submit(device: &mut Device, steps: &[Step]) {
    let mut history = History::default();
    for step in steps {
        device.submit(&[(*step, NUMBER)], &mut history);
        device.take(0, &mut history);
    }
}

fn put_is_there(device: &mut Device) -> bool {
    STEP.effects(NUMBER).into_iter().all(|(target, value)| device.read().at(target) == value)
}

/// Nothing is in the device.
fn is_empty(device: &mut Device) -> bool {
    let found = device.read();
    Target::all().all(|target| found.at(target) == Value::new())
}

fn keep<T: 'static>(alive: T) -> Box<dyn FnOnce()> {
    Box::new(move || drop(alive))
}

fn sanitize(device: &Device) {
    let mut entry = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
    entry.cdw10 = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
    device.driver().admin(AdminCommand::raw(entry, RawData::None)).unwrap();
}

/// A put has its completion.
const COMPLETION: Script = Script {
    point: SyncPoint::Completion,
    durability: Durability::Media,
    act: |mut device| {
        submit(&mut device, &[STEP]);
        keep(device)
    },
    reached: "",
    holds: put_is_there,
};

/// A Flush has its completion.
const COMPLETION_OF_FLUSH: Script = Script {
    durability: Durability::Volatile,
    act: |mut device| {
        submit(&mut device, &[STEP, Step::Flush { nsid: PAIRS }]);
        keep(device)
    },
    ..COMPLETION
};

/// A host shut its controller down, and the process that has the device goes on.
const SHUTDOWN: Script = Script {
    point: SyncPoint::Shutdown,
    durability: Durability::Process,
    act: |mut device| {
        submit(&mut device, &[STEP]);
        keep(device.shut_down())
    },
    ..COMPLETION
};

/// A sanitize operation was begun, and the process ends before it is done.
const SANITIZE_BEGUN: Script = Script {
    point: SyncPoint::SanitizeBegun,
    durability: Durability::Process,
    act: |device| {
        sanitize(&device);
        keep(device)
    },
    reached: "",
    holds: is_empty,
};

/// A sanitize operation says that it is done, and what it did is not on the medium.
const SANITIZE_DONE: Script = Script {
    point: SyncPoint::SanitizeDone,
    act: |device| {
        sanitize(&device);
        device.wait_for_sanitize();
        keep(device)
    },
    reached: "device state",
    ..SANITIZE_BEGUN
};

const SCRIPTS: [Script; 5] = [COMPLETION, COMPLETION_OF_FLUSH, SHUTDOWN, SANITIZE_BEGUN, SANITIZE_DONE];

#[test]
fn every_sync_point_of_a_device_is_necessary() {
    for script in SCRIPTS {
        assert!(script.play(None), "{:?} is not enough", script.point);
        assert!(!script.play(Some(script.point)), "without {:?} nothing was lost", script.point);
    }
}

#[test]
fn every_sync_point_of_a_device_has_a_script() {
    let scripted = |point: &SyncPoint| SCRIPTS.iter().any(|script| script.point == *point);
    let unproven = SyncPoint::OF_DEVICES.into_iter().filter(|point| !scripted(point));
    assert_eq!(unproven.collect::<Vec<_>>(), []);
}
