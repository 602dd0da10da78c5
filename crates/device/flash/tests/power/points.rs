//! Every sync point is needed: for each a script in which power is lost so that something acknowledged is lost or torn
//! if that one sync is left out, and nothing if it is made.
//!
//! A script ends its first life in order. From there on power is cut at every event of the file; of what was stored
//! since the last sync only those sectors reach the medium that would be most harmful.

use byway_flash::{AreaId, Cause, Durability, Finding, Flash, Overwrite, SyncPoint};
use byway_kit::spread;

use crate::device::{Device, Life, Place, Reached, SUPERBLOCK_BYTES, UNITS, content, left_of_making};
use crate::life::{UNIT, extent, pattern};
use crate::scripted::UNITS_A_TURN;

struct Script {
    point: SyncPoint,
    /// What the first life does. All of it is synced.
    prepare: fn(&mut Device),
    /// The life in which a sync is left out.
    life: Life,
    /// What the life does in which a sync is left out.
    act: fn(&mut Device),
    /// Whether the data synced in the first life survives.
    holds: fn(&mut Flash) -> bool,
}

/// A life that power is cut in at every event, and these sectors reach the medium.
const fn cut(reached: Reached) -> Life {
    Life { reached: Some(reached), ..Life::IN_ORDER }
}

impl Script {
    /// Plays it; what the first cut that lost something lost.
    fn play(&self, left_out: Option<SyncPoint>) -> Result<(), String> {
        let mut device = Device::new();
        (self.prepare)(&mut device);
        device.begin(&self.life, left_out);
        (self.act)(&mut device);
        device.cuts().enumerate().try_for_each(|(cut, left)| {
            self.check(left).map_err(|why| format!("{:?}, cut {cut}: {why}", self.point))
        })
    }

    fn check(&self, left: Result<Flash, String>) -> Result<(), String> {
        let mut left = left?;
        if left.recovery().lost > 0 {
            return Err(format!("{:?}", left.recovery()));
        }
        if !(self.holds)(&mut left) {
            return Err("not what was synced".to_owned());
        }
        left.check().first().map_or(Ok(()), |finding| Err(finding.to_string()))
    }
}

fn is_unit(flash: &mut Flash, unit: u64, step: u64) -> bool {
    content(flash, unit) == pattern(step, unit, UNIT)
}

/// Three of four units, scattered, without end.
fn hot() -> impl Iterator<Item = u64> {
    (0..).map(|step| spread(step) % UNITS).filter(|unit| unit % 4 > 0)
}

fn is_nothing(flash: &mut Flash, unit: u64) -> bool {
    content(flash, unit).iter().all(|byte| *byte == 0)
}

fn is_erased(place: &Place<'_>) -> bool {
    place.sector.stored.iter().all(|byte| *byte == 0)
}

fn erases(device: &Device) -> u64 {
    device.flash.counters()[Cause::Gc].erases
}

/// An entry of the map reaches the medium, its page does not, and the image says that it was closed.
const POWER_ON: Script = Script {
    point: SyncPoint::PowerOn,
    prepare: |device| device.write_page(4, 1),
    act: |device| device.write_page(4, 2),
    life: cut(|place| place.region == "map"),
    holds: |flash| is_unit(flash, 4, 1),
};

/// An entry of the map reaches the medium, its page does not, and the image says that it was closed.
const POWER_OFF: Script = Script {
    point: SyncPoint::PowerOff,
    act: |device| {
        device.write_page(4, 2);
        device.flash.close().unwrap();
    },
    life: cut(|place| place.region == "map" || place.region == "device state"),
    holds: |flash| is_unit(flash, 4, 1) || is_unit(flash, 4, 2),
    ..POWER_ON
};

/// `close` returned, and the next opening takes the device for one that died.
const CLOSED: Script = Script {
    point: SyncPoint::Closed,
    act: |device| {
        device.write_page(4, 2);
        device.flash.close().unwrap();
        device.cut_now(|_| false);
    },
    life: Life::IN_ORDER,
    holds: |flash| is_unit(flash, 4, 2) && !flash.recovery().unclean,
    ..POWER_ON
};

/// A unit waits in the buffer, and the image does not say that any may.
const BLOCK_LEASES: Script = Script {
    point: SyncPoint::BlockLeases,
    act: |device| {
        let lease = device.flash.open_block_lease().unwrap();
        device.write_by(&lease, 4, 2);
        device.cut_now(|place| place.sector.at >= SUPERBLOCK_BYTES);
    },
    life: Life::IN_ORDER,
    holds: |flash| is_unit(flash, 4, 2),
    ..POWER_ON
};

/// Records of an erased block are gone, and the entries that left it point there still.
const BLOCK_ERASE: Script = Script {
    point: SyncPoint::BlockErase,
    prepare: |device| {
        // One of four units of each page stays, and has to leave its block.
        (0..UNITS).step_by(4).for_each(|first| device.write_page(first, 1));
        hot().take(3000).for_each(|unit| device.write(unit, 2));
    },
    act: |device| {
        let before = erases(device);
        for unit in hot() {
            device.write(unit, 3);
            if erases(device) > before + 2 {
                return;
            }
        }
    },
    life: cut(|place| place.region == "spare records" && is_erased(place)),
    holds: |flash| (0..UNITS).step_by(4).all(|unit| is_unit(flash, unit, 1)),
};

/// The same, of blocks that are erased as all they held is forgotten.
const BLOCK_ERASE_OF_FORGOTTEN: Script = Script {
    prepare: |device| (0..UNITS).step_by(4).for_each(|first| device.write_page(first, 1)),
    act: |device| device.flash.clear(extent(&device.flash, 1)).unwrap(),
    holds: |flash| {
        (0..UNITS).all(|unit| is_unit(flash, unit, 1)) || (0..UNITS).all(|unit| is_nothing(flash, unit))
    },
    ..BLOCK_ERASE
};

/// The same, of blocks that are erased ahead of writes, behind a sync of all that hosts wrote.
const BLOCK_ERASE_BY_UPKEEP: Script = Script {
    act: |device| {
        for unit in hot() {
            device.write(unit, 3);
            if !device.flash.owes_upkeep() {
                continue;
            }
            device.sync();
            let before = erases(device);
            while device.flash.keep_up(0) {
                if erases(device) > before + 2 {
                    return;
                }
            }
        }
    },
    ..BLOCK_ERASE
};

/// What was overwritten is wiped, and the entries that left it point there still.
const BLOCK_ERASE_BY_WIPE: Script = Script {
    prepare: |device| device.write_page(4, 1),
    act: |device| {
        device.write_page(4, 2);
        device.flash.wipe(0..device.flash.block_count(), None).unwrap();
    },
    life: cut(|place| place.region == "pages" && is_erased(place)),
    holds: |flash| is_unit(flash, 4, 1) || is_unit(flash, 4, 2),
    ..BLOCK_ERASE
};

/// Records from before an erase survive into the block's next use, and name the same units at the same places.
const BLOCK_OPEN: Script = Script {
    point: SyncPoint::BlockOpen,
    prepare: |device| (1..3000).for_each(|step| device.write_page(4, step)),
    act: |device| {
        device.flash.clear(extent(&device.flash, 1)).unwrap();
        // The blocks that are open have pages left.
        (3000..3200).for_each(|step| device.write_page(4, step));
        device.cut_now(|place| place.region == "map");
    },
    life: Life::IN_ORDER,
    holds: |flash| is_nothing(flash, 4) || (2999..3200).any(|step| is_unit(flash, 4, step)),
};

/// The same, of blocks that a recovery erases again and programs at once.
const BLOCK_OPEN_IN_RECOVERY: Script = Script {
    point: SyncPoint::BlockOpen,
    prepare: |device| {
        crate::life::add_passing(&mut device.flash, 1).unwrap();
        // So many that the block that is taken next is one of those that are erased here.
        (2300..3000).for_each(|step| device.write_page(4, step));
        device.watch();
        // Every block that holds nothing is erased, and the records of that do not reach the medium.
        device.flash.remove_namespace(3).unwrap();
        // A page that no sync covers; unit 4 goes back to what it was, and has to be written anew for that.
        for unit in [4, 100, 101, 102, 103] {
            device.write(unit, 3000);
        }
    },
    life: Life {
        survived: Some(|place| {
            let is_unit_4 = place.region == "map" && place.at == 0;
            !(is_unit_4 || place.region == "spare records" && is_erased(place))
        }),
        durability: Durability::Process,
        reached: Some(|place| place.region == "map"),
    },
    act: |_| {},
    holds: |flash| (2999..=3000).any(|step| is_unit(flash, 4, step)),
};

/// A slot is filled anew, and what it was programmed to is not there.
const BUFFER_SLOT: Script = Script {
    point: SyncPoint::BufferSlot,
    prepare: |device| device.write(7, 1),
    act: |device| (8..8 + UNITS_A_TURN + 8).for_each(|unit| device.write(unit, 2)),
    life: cut(|place| place.region == "unit buffer"),
    holds: |flash| is_unit(flash, 7, 1),
};

/// The same of a slot that is leased.
const BUFFER_SLOT_BY_LEASE: Script = Script {
    act: |device| {
        // The slot of the first life is programmed, and is the next to be leased once all others were.
        let lease = device.flash.open_block_lease().unwrap();
        (8..12).for_each(|unit| device.write(unit, 2));
        (12..12 + UNITS_A_TURN + 8).for_each(|unit| device.write_by(&lease, unit, 2));
    },
    ..BUFFER_SLOT
};

/// What is dead in the buffer is wiped, and the entry that left it points there still.
const BUFFER_SLOT_BY_WIPE: Script = Script {
    act: |device| {
        device.write_page(4, 2);
        device.flash.wipe_buffer().unwrap();
    },
    holds: |flash| is_unit(flash, 7, 1) || is_unit(flash, 7, 2),
    ..BUFFER_SLOT
};

/// A recovery empties the buffer, and what its slots were programmed to is not there.
const BUFFER_SLOT_IN_RECOVERY: Script = Script {
    prepare: |device| {
        device.write(7, 1);
        device.watch();
        device.write(8, 2);
    },
    life: Life { survived: Some(|_| false), ..BUFFER_SLOT.life },
    act: |_| {},
    ..BUFFER_SLOT
};

/// A sync covers what an entry got that had nothing, and is not ended when the entry moves on: what it says that it was
/// before must not be nothing once the sync ended.
const ENTRY_MOVE: Script = Script {
    point: SyncPoint::EntryMove,
    prepare: |_| {},
    life: Life::IN_ORDER,
    act: |device| {
        device.write_page(4, 1);
        let synced = device.flash.begin_sync(SyncPoint::Completion).wait();
        device.write_page(4, 2);
        device.flash.end_sync(synced).unwrap();
        // Only now the first write is acknowledged.
        device.cut_now(|place| place.region == "map");
    },
    holds: |flash| is_unit(flash, 4, 1) || is_unit(flash, 4, 2),
};

/// The record of the first namespace, in sectors: its selector, then two copies; the second copy begins in the third sector
/// and goes on in the next.
fn record_sector(place: &Place<'_>) -> Option<u64> {
    (place.region == "namespace table").then_some(place.at / 512)
}

fn set_owner(device: &mut Device, step: u64) {
    device.flash.set_owner_state(1, &pattern(step, 0, 256)).unwrap();
}

fn owner_is(flash: &Flash, steps: std::ops::Range<u64>) -> bool {
    let state = &flash.namespace(1).unwrap().owner_state;
    steps.map(|step| pattern(step, 0, 256)).any(|wanted| wanted == state)
}

/// A copy is half written over that is still the selected one.
const NAMESPACE_COPY: Script = Script {
    point: SyncPoint::NamespaceCopy,
    prepare: |device| set_owner(device, 1),
    act: |device| (2..6).for_each(|step| set_owner(device, step)),
    life: cut(|place| record_sector(place) == Some(2)),
    holds: |flash| owner_is(flash, 1..6),
};

/// A copy is selected that is not there.
const NAMESPACE_SELECT: Script = Script {
    point: SyncPoint::NamespaceSelect,
    prepare: |device| (1..4).for_each(|step| set_owner(device, step)),
    act: |device| set_owner(device, 4),
    life: cut(|place| record_sector(place) == Some(0)),
    holds: |flash| owner_is(flash, 3..5),
};

/// What a namespace had is gone, and the namespace is not.
const NAMESPACE_LEAVE: Script = Script {
    point: SyncPoint::NamespaceLeave,
    prepare: |device| {
        crate::life::add_passing(&mut device.flash, 1).unwrap();
    },
    act: |device| device.flash.remove_namespace(3).unwrap(),
    life: cut(|place| place.region == "map"),
    holds: |flash| flash.namespace(3).is_none() || passing_is(flash, 1),
};

fn passing_is(flash: &mut Flash, step: u64) -> bool {
    let (extent, mut page) = (extent(flash, 3), vec![0; 4 * UNIT]);
    let read = flash.read(extent, 0, &mut page, Cause::Host, &mut 0);
    let area = flash.find_area(3, AreaId(1)).map(|area| flash.area(area).to_vec());
    read.is_ok() && page == pattern(step, 0, 4 * UNIT) && area == Some(pattern(step, 1, 64))
}

/// The superblock is durable, and nothing else of the image is.
fn make(left_out: Option<SyncPoint>) -> Result<(), String> {
    left_of_making(left_out).try_for_each(|left| match left {
        Ok(flash) if flash.namespace(1).is_some() => Ok(()),
        Ok(_) => Err("an image without its namespace".to_owned()),
        Err(refused) if refused.contains("is not a Byway image") => Ok(()),
        Err(refused) => Err(refused),
    })
}

/// What was written over bytes never reached the disk, and their room was given back with them in it.
fn write_over(left_out: Option<SyncPoint>) -> Result<(), String> {
    let mut device = Device::new();
    device.write_page(4, 1);
    device.begin(&Life::IN_ORDER, left_out);
    device.write_page(4, 2);
    let over = Overwrite { pattern: 0x5555_5555 };
    device.flash.wipe(0..device.flash.block_count(), Some(over)).unwrap();
    let given_back = device.given_back();
    assert!(!given_back.is_empty());
    match given_back.contains(&pattern(1, 4, UNIT)) {
        true => Err("what was wiped is on the disk".to_owned()),
        false => Ok(()),
    }
}

/// What a repair set right did not reach the medium, the mark that the image is in use did: then a page whose record is gone
/// is taken for one that the power took, and what was there before for what is.
fn repair(left_out: Option<SyncPoint>) -> Result<(), String> {
    let mut device = Device::new();
    device.write_page(4, 1);
    device.write_page(4, 2);
    let records = 0..SPARE_RECORDS_BYTES;
    let damaged = device.lose_bytes(&[("spare records", records)]);
    let left = damaged.repair(left_out, |place| place.region == "device state", |_, _| {});
    left.map(|left| left.map(|mut left| content(&mut left, 4))).try_for_each(|found| match found? {
        found if found == pattern(2, 4, UNIT) => Ok(()),
        // A sentence, of why it cannot be read.
        found if found.is_ascii() && found.first() != Some(&0) => Ok(()),
        _ => Err("neither what was there nor a word".to_owned()),
    })
}

/// More than all that there are of this device.
const SPARE_RECORDS_BYTES: u64 = 16 << 10;

/// A lost entry and entries of trimmed units look the same. As many are restored as are missing, and the lost one is not among
/// them.
fn restore_entries(left_out: Option<SyncPoint>) -> Result<(), String> {
    let mut device = Device::new();
    // The units of one page, and their entries in as many sectors.
    [0, 200, 400, 600, 800].into_iter().for_each(|unit| device.write(unit, 1));
    for trimmed in [0, 200, 400] {
        device.flash.trim(extent(&device.flash, 1), trimmed..trimmed + 1).unwrap();
    }
    let damaged = device.lose_bytes(&[("map", 0..8 * UNITS)]);
    let first = |place: &Place<'_>| place.region == "map" && place.at == 0;
    damaged.repair(left_out, first, |_, _| {}).try_for_each(|left| match is_unit(&mut left?, 600, 1) {
        true => Ok(()),
        false => Err("a unit is gone".to_owned()),
    })
}

/// A torn page reads as whole, and its owner does not know that it is torn.
fn accept(left_out: Option<SyncPoint>) -> Result<(), String> {
    let mut device = Device::new();
    crate::life::add_passing(&mut device.flash, 1).unwrap();
    let damaged = device.lose_bytes(&[("spare records", 0..SPARE_RECORDS_BYTES)]);
    let drop_and_accept = |flash: &mut Flash, findings: &[Finding]| {
        let area = flash.find_area(3, AreaId(1)).unwrap();
        flash.protected(area).fill(DROPPED);
        flash.accept_pages(findings).unwrap();
    };
    damaged.repair(left_out, |place| place.region != "areas", drop_and_accept).try_for_each(|left| {
        let mut left = left?;
        let (extent, mut page) = (extent(&left, 3), vec![0; 4 * UNIT]);
        let is_read = left.read(extent, 0, &mut page, Cause::Host, &mut 0).is_ok();
        let area = left.find_area(3, AreaId(1)).map(|area| left.area(area).to_vec());
        match is_read && area != Some(vec![DROPPED; 64]) {
            true => Err("what does not hold is said to".to_owned()),
            false => Ok(()),
        }
    })
}

/// What an owner notes that drops what it had.
const DROPPED: u8 = 0xdd;

/// A script for each point, and for each place in the code that has one.
const SCRIPTS: [Script; 18] = [
    POWER_ON,
    POWER_OFF,
    CLOSED,
    BLOCK_LEASES,
    BLOCK_ERASE,
    BLOCK_ERASE_OF_FORGOTTEN,
    BLOCK_ERASE_BY_UPKEEP,
    BLOCK_ERASE_BY_WIPE,
    BLOCK_OPEN,
    BLOCK_OPEN_IN_RECOVERY,
    BUFFER_SLOT,
    BUFFER_SLOT_BY_LEASE,
    BUFFER_SLOT_BY_WIPE,
    BUFFER_SLOT_IN_RECOVERY,
    ENTRY_MOVE,
    NAMESPACE_COPY,
    NAMESPACE_SELECT,
    NAMESPACE_LEAVE,
];

/// What is played by itself: it says what was lost.
type Play = fn(Option<SyncPoint>) -> Result<(), String>;

const PLAYS: [(SyncPoint, Play); 5] = [
    (SyncPoint::Made, make),
    (SyncPoint::Overwrite, write_over),
    (SyncPoint::Repaired, repair),
    (SyncPoint::LiveCount, restore_entries),
    (SyncPoint::PageAccept, accept),
];

#[test]
fn every_sync_point_is_necessary() {
    for script in SCRIPTS {
        assert_eq!(script.play(None), Ok(()));
        assert!(script.play(Some(script.point)).is_err(), "without {:?} nothing was lost", script.point);
    }
    for (point, play) in PLAYS {
        assert_eq!(play(None), Ok(()));
        assert!(play(Some(point)).is_err(), "without {point:?} nothing was lost");
    }
}

#[test]
fn every_sync_point_has_a_script() {
    let scripts = SCRIPTS.iter().map(|script| script.point);
    let proven: Vec<SyncPoint> = scripts.chain(PLAYS.map(|(point, _)| point)).collect();
    let unproven = SyncPoint::OF_FLASH.into_iter().filter(|point| !proven.contains(point));
    assert_eq!(unproven.collect::<Vec<_>>(), []);
}
