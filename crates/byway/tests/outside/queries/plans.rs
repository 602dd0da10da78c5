//! Plans and results by the commands of Los Alamos National Laboratory's public host.

use byway::spec::Command as Entry;
use byway::spec::vendor::{PlanFields, VendorOpcode};
use byway::{BackendQueue, Buffer, Kv, Outcome, Payload, RawCommand, RawData, Result};

use super::{LAGHOS, csv, laghos};

/// Sends a part of a plan for object 7 of space 3.
fn write(kv: &mut Kv, plan: u16, (offset, total): (usize, usize), part: &[u8]) -> Result<Outcome> {
    let mut entry = Entry::new(VendorOpcode::WRITE_EXECUTION_PLAN.0, 0, kv.nsid().get());
    (entry.cdw2, entry.cdw3) = (3, PlanFields::WRITE_FLAGS);
    (entry.cdw10, entry.cdw11, entry.cdw12) = (part.len() as u32, 7, u32::from(plan) << 16);
    (entry.cdw13, entry.cdw14) = (offset as u32, total as u32);
    let data = RawData::ToDevice(Payload::copy_of(part)?);
    kv.queue().execute(RawCommand { entry, data }.into())
}

fn result(kv: &mut Kv, plan: u16, offset: usize, room: usize) -> Result<Outcome> {
    result_as(kv, PlanFields::RESULT_FLAGS, plan, offset, room)
}

fn result_as(kv: &mut Kv, flags: u32, plan: u16, offset: usize, room: usize) -> Result<Outcome> {
    let mut entry = Entry::new(VendorOpcode::GET_RESULT.0, 0, kv.nsid().get());
    (entry.cdw2, entry.cdw3) = (3, flags);
    (entry.cdw10, entry.cdw11, entry.cdw13) = (room as u32, u32::from(plan) << 16, offset as u32);
    kv.queue().execute(RawCommand { entry, data: RawData::FromDevice(Buffer::zeroed(room)?) }.into())
}

fn device_with_mesh() -> (byway::Device, Kv) {
    let device = byway::open("embedded-ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(&[0, 0, 0, 3, 0, 0, 0, 7], &laghos(4)).unwrap();
    (device, kv)
}

#[test]
fn plan_in_one_part_gives_its_result_in_one_or_several() {
    let (_device, mut kv) = device_with_mesh();
    let expected = csv(&mut kv, &[0, 0, 0, 3, 0, 0, 0, 7], LAGHOS);
    for room in [4096, 100] {
        let begun = write(&mut kv, PlanFields::NEW_PLAN, (0, LAGHOS.len()), LAGHOS.as_bytes()).unwrap();
        let (plan, total) = (begun.dw0() as u16, begun.answer.dw1 as usize);
        assert_eq!(total, expected.len());
        let mut got = Vec::new();
        while got.len() < total {
            let part = result(&mut kv, plan, got.len(), room).unwrap();
            assert_eq!(part.answer.dw1 as usize, total);
            let given = part.dw0() as usize;
            got.extend_from_slice(&part.buffer.unwrap().as_slice()[..given]);
        }
        assert_eq!(String::from_utf8(got).unwrap(), expected);
        // It was released with its last byte.
        assert!(result(&mut kv, plan, total, room).is_err());
    }
}

#[test]
fn plan_in_parts_begins_with_its_last_one_and_a_gap_ends_it() {
    let (_device, mut kv) = device_with_mesh();
    let (first, second) = LAGHOS.as_bytes().split_at(100);
    let total = LAGHOS.len();
    let plan = write(&mut kv, PlanFields::NEW_PLAN, (0, total), first).unwrap().dw0() as u16;
    assert!(result(&mut kv, plan, 0, 100).is_err());
    let begun = write(&mut kv, plan, (100, total), second).unwrap();
    assert_eq!((begun.dw0(), begun.answer.dw1 > 0), (plan.into(), true));
    let plan = write(&mut kv, PlanFields::NEW_PLAN, (0, total), first).unwrap().dw0() as u16;
    assert!(write(&mut kv, plan, (101, total), second).is_err());
    assert!(write(&mut kv, plan, (100, total), second).is_err());
}

#[test]
fn plans_that_are_refused_leave_room_for_others() {
    let (_device, mut kv) = device_with_mesh();
    for _ in 0..40 {
        assert!(write(&mut kv, PlanFields::NEW_PLAN, (0, 11), b"SELECT nope").is_err());
    }
    let begun = write(&mut kv, PlanFields::NEW_PLAN, (0, LAGHOS.len()), LAGHOS.as_bytes()).unwrap();
    assert!(begun.answer.dw1 > 0);
}

#[test]
fn result_that_is_asked_for_in_another_form_is_refused_and_stays() {
    let (_device, mut kv) = device_with_mesh();
    let begun = write(&mut kv, PlanFields::NEW_PLAN, (0, LAGHOS.len()), LAGHOS.as_bytes()).unwrap();
    let plan = begun.dw0() as u16;
    for flags in [0, PlanFields::RESULT_FLAGS | 1 << 24, PlanFields::WRITE_FLAGS] {
        assert!(result_as(&mut kv, flags, plan, 0, 4096).is_err(), "{flags:#x}");
    }
    assert_eq!(result(&mut kv, plan, 0, 4096).unwrap().dw0(), begun.answer.dw1);
}
