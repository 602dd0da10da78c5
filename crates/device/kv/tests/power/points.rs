//! Every sync point of an engine is needed: for each a script in which power is lost so that something that was synced is
//! lost or torn if that one sync is left out, and nothing if it is made.

use byway_flash::SyncPoint;
use byway_kv::{Change, KvFormat, PageStore, Placement, record_header_bytes};

use crate::life::{Device, FORMAT, WINDOW, key, namespace, pattern};
use crate::stage::{Life, Reached, Size, Stage};

struct Script {
    point: SyncPoint,
    size: Size,
    /// What the first life does. All of it is synced.
    prepare: fn(&mut Stage),
    /// The life in which a sync is left out.
    life: Life,
    act: fn(&mut Stage),
    /// Whether the synced data survives.
    holds: fn(&mut Device) -> bool,
    /// There may be no engine.
    may_be_none: bool,
}

const SMALL: Size = Size { flash_bytes: 4 << 20, namespace_bytes: 640 << 10, format: FORMAT };

/// A life that power is cut in at every event, and these sectors reach the medium.
const fn cut(reached: Reached) -> Life {
    Life { reached: Some(reached), ..Life::IN_ORDER }
}

impl Script {
    /// Plays it; what the first cut that lost something lost.
    fn play(&self, left_out: Option<SyncPoint>) -> Result<(), String> {
        let mut stage = Stage::new(self.size);
        (self.prepare)(&mut stage);
        stage.begin(&self.life, left_out);
        (self.act)(&mut stage);
        stage.cuts(self.may_be_none).enumerate().try_for_each(|(cut, left)| {
            let holds = left.map(|mut left| (self.holds)(&mut left));
            let why = match holds {
                Ok(true) => return Ok(()),
                Ok(false) => "not what was synced".to_owned(),
                Err(why) => why,
            };
            Err(format!("{:?}, cut {cut}: {why}", self.point))
        })
    }
}

fn has(device: &mut Device, n: u64, step: u64, len: u64) -> bool {
    device.get(n).is_ok_and(|value| value == Some(pattern(step, n, len)))
}

fn has_none(device: &mut Device, n: u64) -> bool {
    device.get(n).is_ok_and(|value| value.is_none())
}

/// A slot is filled anew, and the page that it was programmed to is not there.
const RING_SLOT: Script = Script {
    point: SyncPoint::RingSlot,
    size: SMALL,
    prepare: |stage| stage.put(1, 1, 1000, Placement::Packed),
    life: cut(|place| place.part == "ring of the log"),
    act: |stage| (2..8).for_each(|n| stage.put(n, 2, 3500, Placement::Packed)),
    holds: |device| has(device, 1, 1, 1000),
    may_be_none: false,
};

/// The same, of a window whose stream is leased.
const RING_SLOT_OF_A_LEASE: Script = Script {
    size: Size { flash_bytes: 32 << 20, namespace_bytes: 8 << 20, format: FORMAT },
    prepare: |stage| stage.put_by_lease(1..2, 1, 1000),
    life: cut(|place| place.part == "windows"),
    act: |stage| stage.put_by_lease(2..20, 2, 1300),
    ..RING_SLOT
};

/// The host stores into a slot that was given back to it, and the page that it was programmed to is not there.
const WINDOW_SLOT: Script = Script {
    point: SyncPoint::WindowSlot,
    prepare: |_| {},
    life: Life::IN_ORDER,
    act: |stage| {
        stage.put_in_place(1, 1, 3000);
        stage.sync();
        stage.put_in_place(2, 2, 3000);
        stage.store_into_window(0..4096);
        stage.cut_now(|place| place.part == "windows");
    },
    holds: |device| has(device, 1, 1, 3000),
    ..RING_SLOT
};

/// The same, of a window that is opened anew.
const WINDOW_SLOT_OF_ANOTHER_OPENING: Script = Script {
    prepare: |stage| stage.put_in_place(1, 1, 3000),
    act: |stage| {
        let Device { engine, flash, .. } = stage.device();
        engine.open_window(flash, WINDOW, &mut 0).unwrap();
        stage.store_into_window(0..4096);
        stage.cut_now(|place| place.part == "windows");
    },
    ..WINDOW_SLOT
};

/// Rows of the DMA log table.
const TABLE_ROWS: u64 = 64;

/// A row is used again, and the write pointer past the record that it committed is not there.
const TABLE_ROW: Script = Script {
    point: SyncPoint::TableRow,
    // So large that all rows are in one segment.
    size: Size {
        flash_bytes: 512 << 20,
        namespace_bytes: 256 << 20,
        format: KvFormat { ring_pages: 128, ..FORMAT },
    },
    prepare: |stage| {
        // Row 60 is in another sector than the write pointer.
        for step in 0..60 {
            stage.put(1, step, 100, Placement::Dma);
            stage.put(2, step, 3800, Placement::Packed);
        }
        stage.put(3, 1, 100, Placement::Dma);
    },
    life: cut(|place| place.part == "streams" && place.at >= 512),
    act: |stage| {
        for step in 60..60 + TABLE_ROWS {
            stage.put(2, step, 3800, Placement::Packed);
            stage.put(1, step, 100, Placement::Dma);
        }
    },
    holds: |device| has(device, 3, 1, 100),
    ..RING_SLOT
};

/// A manifest is half written over that is still the one that counts.
const MANIFEST_SLOT: Script = Script {
    point: SyncPoint::ManifestSlot,
    prepare: |stage| {
        stage.put(1, 1, 1000, Placement::Packed);
        stage.flush();
    },
    life: cut(|place| place.part == "manifests" && place.at % 4096 == 0),
    act: |stage| {
        for step in 2..5 {
            stage.put(2, step, 100, Placement::Packed);
            stage.flush();
        }
    },
    ..RING_SLOT
};

/// A manifest counts that is not there.
const MANIFEST_ROOT: Script = Script {
    point: SyncPoint::ManifestRoot,
    life: cut(|place| place.part == "manifest root"),
    ..MANIFEST_SLOT
};

/// Pages are trimmed, and the manifest that needs them no longer is not there.
const SEGMENT_RELEASE: Script = Script {
    point: SyncPoint::SegmentRelease,
    prepare: |stage| {
        for n in 1..40 {
            stage.put(n, 1, 1000, Placement::Packed);
        }
        stage.flush();
    },
    life: cut(|place| place.part == "map"),
    act: |stage| {
        for n in 1..40 {
            stage.put(n, 2, 1000, Placement::Packed);
        }
        let Device { engine, flash, .. } = stage.device();
        engine.reclaim(flash, &mut 0).unwrap();
    },
    holds: |device| (1..40).all(|n| has(device, n, 1, 1000) || has(device, n, 2, 1000)),
    ..RING_SLOT
};

/// The ring of the log is emptied, and the manifest that needs it no longer is not there: its records are on flash by then.
const FORMAT_ALL: Script = Script {
    prepare: |stage| {
        stage.put(1, 1, 1000, Placement::Packed);
        stage.flush();
        stage.put(2, 1, 1000, Placement::Packed);
    },
    life: cut(|place| place.part == "ring of the log"),
    act: |stage| {
        let Device { engine, flash, .. } = stage.device();
        engine.format(flash, &mut 0).unwrap();
    },
    holds: |device| {
        let all = [1, 2].into_iter().all(|n| has(device, n, 1, 1000));
        all || [1, 2].into_iter().all(|n| has_none(device, n))
    },
    ..SEGMENT_RELEASE
};

/// The state of an engine is made anew, and its header still says that it is one.
const ENGINE_END: Script = Script {
    point: SyncPoint::EngineEnd,
    life: cut(|place| place.part == "streams"),
    act: Stage::make_anew,
    may_be_none: true,
    ..FORMAT_ALL
};

/// A header says that there is an engine, and what was stored of its state since the manifest is not there.
const CREATE: Script = Script {
    prepare: |stage| {
        for n in 1..40 {
            stage.put(n, 1, 1000, Placement::Packed);
        }
    },
    life: cut(|place| place.part == "key-value header" || place.part == "map"),
    holds: |device| (1..40).all(|n| has(device, n, 1, 1000)) || (1..40).all(|n| has_none(device, n)),
    ..ENGINE_END
};

/// Bytes of a value whose record takes two sectors.
const TWO_SECTORS: u64 = 1024 - record_header_bytes(8) as u64;

/// A recovery truncates a stream at a torn record. A new record is written there, and the old records behind it must not
/// reappear.
const TAIL_CUT: Script = Script {
    point: SyncPoint::TailCut,
    prepare: |stage| {
        stage.put(9, 1, TWO_SECTORS, Placement::Packed);
        stage.watch();
        stage.put(1, 1, TWO_SECTORS, Placement::Packed);
        stage.put(2, 1, 1000, Placement::Packed);
    },
    life: Life {
        survived: Some(|place| place.part != "ring of the log" || place.at != 1536),
        ..Life::IN_ORDER
    },
    act: |stage| {
        assert!(has_none(stage.device(), 2), "it was cut off");
        stage.put(1, 2, TWO_SECTORS, Placement::Packed);
        stage.cut_now(|place| place.part == "ring of the log" && place.at < 2048);
    },
    holds: |device| has(device, 9, 1, TWO_SECTORS) && has_none(device, 2),
    may_be_none: false,
    ..CREATE
};

/// A batch is there, and the bit that has older releases refuse the image is not.
const FEATURE_BIT: Script = Script {
    point: SyncPoint::FeatureBit,
    prepare: |stage| stage.put(1, 1, 100, Placement::Packed),
    life: cut(|place| place.part != "key-value header"),
    act: |stage| {
        let Device { engine, flash, .. } = stage.device();
        let changes = [2, 3].map(|n| Change { key: key(n), value: Some(&b"value"[..]) });
        engine.store_many(flash, &changes, &mut 0).unwrap();
    },
    holds: |device| {
        let record = namespace(&device.flash);
        let home = device.flash.find_home(&record).unwrap();
        let has_bit = device.flash.state(&home)[16] & 2 != 0;
        has(device, 1, 1, 100) && (has_bit || has_none(device, 2))
    },
    ..RING_SLOT
};

/// A script for each point, and for each place in the code that has one.
const SCRIPTS: [Script; 11] = [
    RING_SLOT,
    RING_SLOT_OF_A_LEASE,
    WINDOW_SLOT,
    WINDOW_SLOT_OF_ANOTHER_OPENING,
    TABLE_ROW,
    MANIFEST_SLOT,
    MANIFEST_ROOT,
    SEGMENT_RELEASE,
    ENGINE_END,
    TAIL_CUT,
    FEATURE_BIT,
];

#[test]
fn every_sync_point_of_an_engine_is_necessary() {
    for script in SCRIPTS {
        assert_eq!(script.play(None), Ok(()));
        assert!(script.play(Some(script.point)).is_err(), "without {:?} nothing was lost", script.point);
    }
}

#[test]
fn records_of_leases_that_reach_the_medium_in_part_are_no_damage() {
    let survivors: [Reached; 4] = [
        |place| place.part == "windows" && place.at / 512 % 2 == 1,
        |place| place.part != "windows",
        |place| place.part == "streams" || place.part == "windows",
        |place| place.at / 512 % 3 != 0,
    ];
    for reached in survivors {
        assert_eq!(Script { life: cut(reached), ..RING_SLOT_OF_A_LEASE }.play(None), Ok(()));
    }
}

#[test]
fn a_format_needs_no_sync_of_its_own_before_it_empties_the_ring() {
    assert_eq!(FORMAT_ALL.play(None), Ok(()));
}

#[test]
fn a_new_engine_needs_no_sync_of_its_own_before_its_header() {
    assert_eq!(CREATE.play(None), Ok(()));
}

#[test]
fn every_sync_point_of_an_engine_has_a_script() {
    let scripted = |point: &SyncPoint| SCRIPTS.iter().any(|script| script.point == *point);
    let unproven = SyncPoint::OF_ENGINES.into_iter().filter(|point| !scripted(point));
    assert_eq!(unproven.collect::<Vec<_>>(), []);
}
