//! Nothing is sent that the device did not announce, and defaults fit every device.

use byway_core::{
    BackendQueue, CopyRanges, Depth, ErrorKind, LbaRange, LbaRanges, NvmCommand, Payload, QueueOptions,
};
use byway_link::Method;
use byway_spec::base::identify::Oncs;
use byway_spec::vendor;

use crate::scripted::{Script, blocks, device, queue_of};

/// A device of the standard alone.
fn plain() -> Script {
    Script { methods: vendor::Methods::new(), ..Script::default() }
}

#[test]
fn a_default_depth_is_what_the_device_has_where_that_is_less() {
    for (mqes_z, depth) in [(1, 1), (2, 2), (15, 15), (127, 127), (128, 128), (1023, 128)] {
        let (_, driver) = device(Script { mqes_z, ..plain() });
        assert_eq!(driver.capabilities().limits.queue_depth, mqes_z.into());
        let mut queue = driver.queue(QueueOptions::default()).unwrap();
        assert_eq!(queue.depth(), depth, "MQES {mqes_z}");
        let flush = || NvmCommand::Flush { nsid: blocks() }.into();
        (0..u64::from(depth)).for_each(|tag| queue.submit(flush(), tag).unwrap());
        assert_eq!(queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap(), depth as usize);
    }
}

#[test]
fn exact_depth_over_the_limit_is_refused_and_up_to_is_capped() {
    let (_, driver) = device(Script { mqes_z: 127, ..plain() });
    let of =
        |depth, ring_entries| driver.queue(QueueOptions::default().depth(depth).ring_entries(ring_entries));
    let refused = of(Depth::Exactly(128), None).err().unwrap().to_string();
    assert_eq!(refused, "a ring of 128 entries takes a depth of 1 to 127, not 128");
    assert_eq!(of(Depth::UpTo(1000), None).unwrap().depth(), 127);
    // A ring that was asked for is of its own size, and a default depth follows it.
    assert_eq!(of(Depth::DEFAULT, Some(64)).unwrap().depth(), 63);
}

#[test]
fn commands_that_were_not_announced_are_refused_by_their_field_and_not_sent() {
    let (bus, mut queue) = queue_of(Script { oncs: Oncs::new(), ..plain() }, QueueOptions::default());
    let nsid = blocks();
    let range = [LbaRange { slba: 0, blocks: 1 }];
    let data = |len: usize| Payload::copy_of(&vec![0; len]).unwrap();
    for (command, field) in [
        (NvmCommand::Compare { nsid, slba: 0, blocks: 1, data: data(512) }, "ONCS bit 0"),
        (NvmCommand::Deallocate { nsid, ranges: LbaRanges::new(&range).unwrap() }, "ONCS bit 2"),
        (NvmCommand::WriteZeroes { nsid, slba: 0, blocks: 1, deallocate: true }, "ONCS bit 3"),
        (NvmCommand::Verify { nsid, slba: 0, blocks: 1 }, "ONCS bit 7"),
        (NvmCommand::Copy { nsid, to: 0, from: CopyRanges::new(&range).unwrap() }, "ONCS bit 8"),
        (NvmCommand::CompareAndWrite { nsid, slba: 0, blocks: 1, data: data(1024) }, "FUSES bit 0"),
    ] {
        let error = queue.execute(command.into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(field), "{error}");
    }
    assert!(bus.state().fetched.is_empty());
}

#[test]
fn write_zeroes_carries_no_deallocation_that_was_not_announced() {
    let (bus, mut queue) = queue_of(plain(), QueueOptions::default());
    let zeroes = NvmCommand::WriteZeroes { nsid: blocks(), slba: 0, blocks: 1, deallocate: true };
    queue.execute(zeroes.into()).unwrap();
    assert_eq!(bus.state().fetched[0].entry.cdw12 & 1 << 25, 0);
}

#[test]
fn sgls_that_have_to_be_dword_aligned_are_not_used() {
    let (_, driver) = device(Script { sgl: 2, ..plain() });
    assert!(!driver.capabilities().methods.contains(Method::Sgl));
    let refused = driver.queue(QueueOptions::default().transfer(Method::Sgl));
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::Unsupported);
}
