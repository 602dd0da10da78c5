//! Controllers with little room: defaults work on all that the specification allows, and only what a program asks for by number
//! is refused.

use byway_core::{
    AdminCommand, Backend, BackendQueue, Buffer, CopyRanges, Depth, ErrorKind, LbaRange, LbaRanges, Nsid,
    NvmCommand, Payload, Persist, QueueOptions, ReservationCommand, ReservationType,
};
use byway_spec::base::identify::Oncs;
use byway_tcp_initiator::TcpOptions;

use crate::controller::TestController;
use crate::disk::LBA_BYTES;
use crate::habits::Habits;
use crate::{drain, open, opened, pattern, queue, read, write};

/// A queue of default depth on a controller, filled and drained; how deep it was.
fn depth_by_default(habits: Habits) -> u32 {
    let (_controller, device) = opened(habits);
    let mut queue = device.queue(QueueOptions::default()).unwrap();
    let depth = queue.depth();
    assert_eq!(depth, device.capabilities().limits.queue_depth.min(128));
    (0..u64::from(depth)).for_each(|tag| queue.submit(read(tag, 1), tag).unwrap());
    assert_eq!(queue.submit(read(0, 1), 0).unwrap_err().error.kind(), ErrorKind::QueueFull);
    assert!(drain(&mut queue).into_iter().all(|finished| finished.result.is_ok()));
    depth
}

#[test]
fn a_default_depth_is_what_the_controller_has_where_that_is_less() {
    for (mqes_z, depth) in [(1, 1), (2, 2), (15, 15), (126, 126), (127, 127), (128, 128), (1023, 128)] {
        assert_eq!(depth_by_default(Habits { mqes_z, ..Habits::default() }), depth, "MQES {mqes_z}");
    }
}

#[test]
fn a_default_depth_is_no_more_than_the_commands_that_the_controller_processes() {
    for (maxcmd, depth) in [(1, 1), (7, 7), (128, 128), (4096, 128)] {
        assert_eq!(depth_by_default(Habits { maxcmd, ..Habits::default() }), depth, "MAXCMD {maxcmd}");
    }
}

#[test]
fn exact_depth_over_the_limit_is_refused_and_up_to_is_capped() {
    for (mqes_z, wanted) in [(127, 128), (1, 2), (15, 16), (127, 0)] {
        let (_controller, device) = opened(Habits { mqes_z, ..Habits::default() });
        let refused = device.queue(QueueOptions::default().depth(wanted));
        let said = format!("a queue of this controller is 1 to {mqes_z} commands deep, not {wanted}");
        assert_eq!(refused.err().unwrap().to_string(), said);
        let depth = Depth::UpTo(wanted.max(1000));
        let queue = device.queue(QueueOptions::default().depth(depth)).unwrap();
        assert_eq!(queue.depth(), mqes_z.into());
    }
}

#[test]
fn the_smallest_controller_there_can_be_is_served_by_defaults() {
    let smallest =
        Habits { mqes_z: 1, maxcmd: 1, mdts: 1, kas: 0, capsule_bytes: 0, queues_z: 0, ..Habits::default() };
    let (_controller, device) = opened(smallest);
    let limits = device.capabilities().limits;
    assert_eq!((limits.transfer_bytes, limits.inline_bytes, limits.queues), (8192, 0, 1));
    let mut queue = device.queue(QueueOptions::default()).unwrap();
    queue.alone(write(8, Payload::copy_of(&pattern(7, 16 * LBA_BYTES)).unwrap())).unwrap();
    let got = queue.alone(read(8, 16)).unwrap().buffer.unwrap();
    assert!(got.as_slice() == pattern(7, 16 * LBA_BYTES));
    let refused = queue.alone(read(0, 17)).unwrap_err().error;
    assert_eq!(refused.to_string(), "data of 8704 bytes is over the controller's limit of 8192 bytes");
}

#[test]
fn a_controller_without_keep_alive_is_sent_none() {
    let without = TestController::start(Habits { kas: 0, ..Habits::default() });
    let with = TestController::start(Habits::default());
    let keep_alive = std::time::Duration::from_millis(20);
    let options = TcpOptions::default().keep_alive(keep_alive);
    let devices = [open(&without, options.clone()), open(&with, options)];
    // By the time that one got several, they were due at the other too.
    while with.keep_alives() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(without.keep_alives(), 0);
    drop(devices);
}

const NSID: Nsid = Nsid::FIRST;

fn copy(ranges: &[(u64, u32)]) -> NvmCommand {
    let ranges: Vec<_> = ranges.iter().map(|&(slba, blocks)| LbaRange { slba, blocks }).collect();
    NvmCommand::Copy { nsid: NSID, to: 0, from: CopyRanges::new(&ranges).unwrap() }
}

#[test]
fn commands_that_were_not_announced_are_refused_by_their_field_and_not_sent() {
    let (controller, device) = opened(Habits { oncs: Oncs::new(), ..Habits::default() });
    let mut queue = queue(&device, 4);
    let data = |blocks: usize| Payload::copy_of(&vec![0; blocks * LBA_BYTES]).unwrap();
    let ranges = LbaRanges::new(&[LbaRange { slba: 0, blocks: 1 }]).unwrap();
    for (command, field) in [
        (NvmCommand::Compare { nsid: NSID, slba: 0, blocks: 1, data: data(1) }, "ONCS bit 0"),
        (NvmCommand::Deallocate { nsid: NSID, ranges }, "ONCS bit 2"),
        (NvmCommand::WriteZeroes { nsid: NSID, slba: 0, blocks: 1, deallocate: false }, "ONCS bit 3"),
        (NvmCommand::Verify { nsid: NSID, slba: 0, blocks: 1 }, "ONCS bit 7"),
        (copy(&[(8, 1)]), "ONCS bit 8"),
        (NvmCommand::CompareAndWrite { nsid: NSID, slba: 0, blocks: 1, data: data(2) }, "FUSES bit 0"),
    ] {
        let error = queue.alone(command.into()).unwrap_err().error;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("did not announce") && error.to_string().contains(field),
            "{error}"
        );
    }
    assert!(controller.take_io().is_empty());
}

#[test]
fn reservations_that_were_not_announced_are_refused_by_their_field_and_not_sent() {
    let (key, kind, nsid) = (7, ReservationType::WRITE_EXCLUSIVE, NSID);
    let register = |persist| ReservationCommand::Register { nsid, key, persist };
    let all = Oncs::new().with_reservations(true);
    for (oncs, rescap, command, field) in [
        (Oncs::new(), 0xff, register(Persist::AsBefore), Some("ONCS bit 5")),
        (Oncs::new(), 0xff, ReservationCommand::Acquire { nsid, key, kind }, Some("ONCS bit 5")),
        (all, 0xfe, register(Persist::Keep), Some("RESCAP bit 0")),
        (all, 0xfe, register(Persist::End), None),
        (all, 0x01, register(Persist::Keep), None),
    ] {
        let controller = TestController::start(Habits { oncs, rescap, ..Habits::default() });
        let device = open(&controller, TcpOptions::default());
        let Some(field) = field else {
            assert!(command.for_device(&device).is_ok());
            continue;
        };
        let error = command.for_device(&device).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let said = error.to_string();
        assert!(said.contains("did not announce") && said.contains(field), "{said}");
        assert!(controller.take_io().is_empty());
    }
}

#[test]
fn write_zeroes_deallocates_only_where_that_was_announced() {
    for (dlfeat, deac) in [(0, false), (1, false), (8, true), (9, true)] {
        let oncs = Oncs::new().with_write_zeroes(true);
        let (controller, device) = opened(Habits { oncs, dlfeat, ..Habits::default() });
        let mut queue = queue(&device, 1);
        for deallocate in [true, false] {
            let zeroes = NvmCommand::WriteZeroes { nsid: NSID, slba: 0, blocks: 1, deallocate };
            queue.alone(zeroes.into()).unwrap();
            let [sent] = controller.take_io()[..] else { panic!("one command") };
            assert_eq!(sent.cdw12 & 1 << 25 != 0, deac && deallocate, "DLFEAT {dlfeat:#x}, {deallocate}");
        }
    }
}

#[test]
fn a_copy_over_the_limits_of_its_namespace_is_refused_by_the_limit() {
    let oncs = Oncs::new().with_copy(true);
    let (controller, device) = opened(Habits { oncs, ..Habits::default() });
    let mut queue = queue(&device, 1);
    for (ranges, said) in [
        (&[(0, 17)][..], "at most 16 blocks of one range (MSSRL), not 17"),
        (&[(0, 16), (32, 9)], "at most 24 blocks (MCL), not 25"),
        (&[(0, 1), (1, 1), (2, 1), (3, 1)], "at most 3 source ranges (MSRC), not 4"),
    ] {
        let error = queue.alone(copy(ranges).into()).unwrap_err().error;
        assert!(error.kind() == ErrorKind::TooLarge && error.to_string().contains(said), "{error}");
    }
    assert!(controller.take_io().is_empty());
}

#[test]
fn commands_without_data_are_held_to_the_limits_of_their_controller() {
    let oncs = Oncs::new().with_verify(true).with_write_zeroes(true).with_dataset_management(true);
    let (controller, device) = opened(Habits { oncs, ..Habits::default() });
    let mut queue = queue(&device, 1);
    let (nsid, slba) = (NSID, 0);
    let trim = |ranges: &[(u64, u32)]| {
        let ranges: Vec<_> = ranges.iter().map(|&(slba, blocks)| LbaRange { slba, blocks }).collect();
        NvmCommand::Deallocate { nsid, ranges: LbaRanges::new(&ranges).unwrap() }
    };
    for (command, said) in [
        (NvmCommand::Verify { nsid, slba, blocks: 17 }, "at most 8192 bytes of a Verify (VSL), not 8704"),
        (
            NvmCommand::WriteZeroes { nsid, slba, blocks: 33, deallocate: false },
            "at most 16384 bytes of a Write Zeroes (WZSL), not 16896",
        ),
        (trim(&[(0, 1), (1, 1), (2, 1)]), "at most 2 ranges of a Dataset Management (DMRL), not 3"),
        (trim(&[(0, 101)]), "at most 100 blocks of one range (DMRSL), not 101"),
        (trim(&[(0, 100), (200, 51)]), "at most 150 blocks of a Dataset Management (DMSL), not 151"),
    ] {
        let error = queue.alone(command.into()).unwrap_err().error;
        assert!(error.kind() == ErrorKind::TooLarge && error.to_string().contains(said), "{error}");
    }
    assert!(controller.take_io().is_empty());
    queue.alone(NvmCommand::WriteZeroes { nsid, slba, blocks: 32, deallocate: true }.into()).unwrap();
}

#[test]
fn admin_options_that_were_not_announced_are_refused_by_their_field() {
    let (_controller, device) = opened(Habits::default());
    let get =
        |feature, select| AdminCommand::GetFeature { feature, select, nsid: None, cdw11: 0, into: None };
    let log = |offset_bytes, len| {
        let into = Buffer::zeroed(len).unwrap();
        AdminCommand::GetLog { log: 2, csi: 0, nsid: None, retain_event: true, offset_bytes, into }
    };
    for (command, field) in [
        (AdminCommand::Format { nsid: NSID, format: 0, erase: false }, "OACS bit 1"),
        (get(7, 3), "ONCS bit 4"),
        (get(0x0e, 0), "ONCS bit 6"),
        (log(4, 4096), "LPA bit 2"),
        (log(0, 32 << 10), "LPA bit 2"),
    ] {
        let error = device.admin(command).unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(field), "{error}");
    }
    device.admin(get(7, 0)).unwrap();
}
