//! Controllers with little room: defaults work on all that the specification allows, and only what a program asks for by number
//! is refused.

use byway_core::{Backend, BackendQueue, Depth, ErrorKind, Payload, QueueOptions};
use byway_tcp_initiator::TcpOptions;

use crate::controller::{LBA_BYTES, TestController};
use crate::habits::Habits;
use crate::{drain, open, pattern, queue, read, write};

/// A queue of default depth on a controller, filled and drained; how deep it was.
fn depth_by_default(habits: Habits) -> u32 {
    let controller = TestController::start(habits);
    let device = open(&controller, TcpOptions::default());
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
fn a_depth_that_is_asked_for_is_refused_with_the_limit_and_one_of_a_uri_is_not() {
    for (mqes_z, wanted) in [(127, 128), (1, 2), (15, 16), (127, 0)] {
        let controller = TestController::start(Habits { mqes_z, ..Habits::default() });
        let device = open(&controller, TcpOptions::default());
        let refused = device.queue(QueueOptions { depth: wanted.into(), ..QueueOptions::default() });
        let said = format!("a queue of this controller is 1 to {mqes_z} commands deep, not {wanted}");
        assert_eq!(refused.err().unwrap().to_string(), said);
        let depth = Depth::UpTo(wanted.max(1000));
        let queue = device.queue(QueueOptions { depth, ..QueueOptions::default() }).unwrap();
        assert_eq!(queue.depth(), mqes_z.into());
    }
}

#[test]
fn the_smallest_controller_there_can_be_is_served_by_defaults() {
    let smallest =
        Habits { mqes_z: 1, maxcmd: 1, mdts: 1, kas: 0, capsule_bytes: 0, queues_z: 0, ..Habits::default() };
    let controller = TestController::start(smallest);
    let device = open(&controller, TcpOptions::default());
    let limits = device.capabilities().limits;
    assert_eq!((limits.transfer_bytes, limits.inline_bytes, limits.queues), (8192, 0, 1));
    let mut queue = device.queue(QueueOptions::default()).unwrap();
    queue.alone(write(8, Payload::copy_of(&pattern(16 * LBA_BYTES, 7)).unwrap())).unwrap();
    let got = queue.alone(read(8, 16)).unwrap().buffer.unwrap();
    assert!(got.as_slice() == pattern(16 * LBA_BYTES, 7));
    let refused = queue.alone(read(0, 17)).unwrap_err().error;
    assert_eq!(refused.to_string(), "data of 8704 bytes is over the controller's limit of 8192 bytes");
}

#[test]
fn a_controller_without_keep_alive_is_sent_none() {
    let controller = TestController::start(Habits { kas: 0, ..Habits::default() });
    let keep_alive = std::time::Duration::from_millis(2);
    let device = open(&controller, TcpOptions { keep_alive, ..TcpOptions::default() });
    let mut queue = queue(&device, 1);
    // Signs of life would be due several times meanwhile.
    let begun = std::time::Instant::now();
    while begun.elapsed() < 20 * keep_alive {
        queue.alone(read(0, 1)).unwrap();
    }
    assert_eq!(controller.keep_alives(), 0);
}
