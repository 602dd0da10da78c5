//! Controllers that come back after a loss with less than they had before.

use byway_tcp_initiator::{NvmeTcpPaths, TcpPathsQueue};

use super::*;

/// Restarts a controller with other habits and a shut gate: it withholds its answers.
fn restart(controller: &TestController, queue: &mut impl BackendQueue, habits: Habits) {
    controller.take_io();
    controller.gate().shut();
    let before = controller.io_connects();
    controller.restart(habits);
    poll_until(queue, || controller.io_connects() > before);
}

/// Submits reads of the blocks from 0, waits until the controller has `depth` of them, and opens its gate.
fn read_beyond_depth(controller: &TestController, queue: &mut impl BackendQueue, reads: u64, depth: usize) {
    (0..reads).for_each(|tag| queue.submit(read(tag, 1), tag).unwrap());
    let mut all = poll_until(queue, || controller.gate().unanswered() >= depth);
    for _ in 0..100 {
        all.extend(queue.next_finished().unwrap());
    }
    assert!(all.is_empty(), "nothing is answered yet");
    controller.gate().open();
    all.extend(drain(queue));
    assert_eq!(controller.gate().most_unanswered(), depth, "commands at the controller at once");
    let tags: Vec<u64> = all.iter().map(|finished| finished.tag).collect();
    assert_eq!(tags, (0..reads).collect::<Vec<_>>(), "in the order of their submission");
    assert!(all.into_iter().all(|finished| finished.result.is_ok()));
    let blocks: Vec<u64> = controller.take_io().iter().map(byway_spec::Command::cdw10_11).collect();
    assert_eq!(blocks, (0..reads).collect::<Vec<_>>(), "each is sent once, in the order of their submission");
}

/// A controller that comes back with these habits has at most `depth` commands at once.
fn check_depth_after_restart(habits: Habits, depth: usize) {
    let (controller, _device, mut queue) = connected(Habits::default(), 16);
    restart(&controller, &mut queue, habits);
    read_beyond_depth(&controller, &mut queue, 16, depth);
    assert_eq!(queue.depth(), 16);
}

#[test]
fn controller_back_with_a_smaller_mqes_is_sent_no_more_than_that() {
    check_depth_after_restart(Habits { mqes_z: 3, ..Habits::default() }, 3);
    check_depth_after_restart(Habits { mqes_z: 1, ..Habits::default() }, 1);
}

#[test]
fn controller_back_with_a_smaller_maxcmd_is_sent_no_more_than_that() {
    check_depth_after_restart(Habits { maxcmd: 5, ..Habits::default() }, 5);
}

#[test]
fn queue_opened_after_the_controller_came_back_smaller_is_connected() {
    let (controller, device) = opened(Habits::default());
    let mut first = queue(&device, 16);
    first.execute(read(0, 1)).unwrap();
    restart(&controller, &mut first, Habits { mqes_z: 3, ..Habits::default() });
    controller.gate().open();
    first.execute(read(0, 1)).unwrap();
    controller.take_io();
    controller.gate().shut();
    read_beyond_depth(&controller, &mut queue(&device, 16), 16, 3);
}

/// A device with two portals of one subsystem, and a queue.
fn paths(portals: [&TestController; 2]) -> (NvmeTcpPaths, TcpPathsQueue) {
    let places = portals.map(|portal| place(portal, NAME));
    let device = NvmeTcpPaths::open(&places, &TcpOptions::default()).unwrap();
    let options = QueueOptions::default().depth(16).timeout(LONG);
    let queue = device.queue(options).unwrap();
    (device, queue)
}

/// Polls a queue until every path is live, and the queue has taken its connections.
fn poll_until_all_paths_are_live(device: &NvmeTcpPaths, queue: &mut TcpPathsQueue) {
    let are_live = || device.paths().iter().all(|path| path.lost.is_none());
    assert!(poll_until(queue, are_live).is_empty());
    // A queue takes a connection when it is polled after its path is live.
    assert!(queue.next_finished().unwrap().is_none());
}

#[test]
fn second_path_with_smaller_queues_takes_over_from_the_first() {
    let first = TestController::start(Habits::default());
    let second = TestController::start(Habits::default());
    let (device, mut queue) = paths([&first, &second]);
    queue.execute(read(0, 1)).unwrap();
    restart(&second, &mut queue, Habits { mqes_z: 3, ..Habits::default() });
    poll_until_all_paths_are_live(&device, &mut queue);
    first.vanish();
    poll_until(&mut queue, || device.paths()[0].lost.is_some());
    second.take_io();
    read_beyond_depth(&second, &mut queue, 16, 3);
}

#[test]
fn commands_held_back_when_their_path_is_lost_go_by_the_other() {
    let first = TestController::start(Habits::default());
    let second = TestController::start(Habits::default());
    let (device, mut queue) = paths([&first, &second]);
    queue.execute(read(0, 1)).unwrap();
    restart(&first, &mut queue, Habits { maxcmd: 2, ..Habits::default() });
    poll_until_all_paths_are_live(&device, &mut queue);
    (0..16).for_each(|tag| queue.submit(read(tag, 1), tag).unwrap());
    poll_until(&mut queue, || first.gate().unanswered() == 2);
    first.vanish();
    let mut tags: Vec<_> =
        drain(&mut queue).iter().map(|finished| (finished.tag, finished.result.is_ok())).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..16).map(|tag| (tag, true)).collect::<Vec<_>>());
    assert_eq!(second.take_io().len(), 16);
}

#[test]
fn commands_kept_over_a_restart_go_in_order_as_far_as_the_controller_takes_them() {
    let (controller, _device, mut queue) = connected(Habits::default(), 16);
    controller.take_io();
    controller.gate().shut();
    (0..16).for_each(|tag| queue.submit(read(tag, 1), tag).unwrap());
    poll_until(&mut queue, || controller.gate().unanswered() == 16);
    controller.take_io();
    controller.gate().shut();
    controller.restart(Habits { mqes_z: 4, ..Habits::default() });
    poll_until(&mut queue, || controller.gate().unanswered() == 4);
    controller.gate().open();
    let tags: Vec<u64> = drain(&mut queue).iter().map(|finished| finished.tag).collect();
    assert_eq!(tags, (0..16).collect::<Vec<_>>());
    assert_eq!(controller.gate().most_unanswered(), 4);
    let blocks: Vec<u64> = controller.take_io().iter().map(byway_spec::Command::cdw10_11).collect();
    assert_eq!(blocks, (0..16).collect::<Vec<_>>());
}

#[test]
fn command_held_back_beyond_its_time_fails_without_an_abort() {
    let (controller, device, mut queue) = connected(Habits::default(), 16);
    restart(&controller, &mut queue, Habits { maxcmd: 1, ..Habits::default() });
    queue.submit(read(0, 1), 0).unwrap();
    queue.submit_within(read(1, 1), 1, Some(Duration::from_millis(1))).unwrap();
    queue.submit(read(2, 1), 2).unwrap();
    let late = queue.next_within(LONG).unwrap().unwrap();
    let error = late.result.unwrap_err().error;
    assert!(late.tag == 1 && error.kind() == ErrorKind::TimedOut, "{error}");
    controller.gate().open();
    assert_eq!(drain(&mut queue).len(), 2);
    assert_eq!(controller.take_io().len(), 2);
    device.namespaces().unwrap();
    assert_eq!(controller.aborts(), 0);
}

#[test]
fn fused_pair_to_a_controller_back_with_depth_1_fails_unsent() {
    let habits = Habits { fuses: 1, ..Habits::default() };
    let (controller, _device, mut queue) = connected(habits, 16);
    restart(&controller, &mut queue, Habits { maxcmd: 1, ..habits });
    // Submitted before the reconnect, after it, and behind another command.
    for (round, is_behind) in [false, false, true].into_iter().enumerate() {
        if is_behind {
            queue.submit(read(0, 1), 0).unwrap();
        }
        assert!(round == 0 || controller.io_connects() == 2);
        queue.submit(compare_and_write(), 1).unwrap();
        let failed = queue.next_within(LONG).unwrap().unwrap();
        let error = failed.result.unwrap_err().error;
        assert!(failed.tag == 1 && error.kind() == ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("two fused commands need a queue that is two deep"), "{error}");
    }
    controller.gate().open();
    assert_eq!(drain(&mut queue).len(), 1);
    assert_eq!(controller.take_io().len(), 1);
}

#[test]
fn queues_beyond_what_a_controller_grants_after_a_restart_fail_in_a_sentence() {
    let controller = TestController::start(Habits::default());
    let controller_loss = Duration::from_millis(300);
    let device = open(&controller, TcpOptions::default().controller_loss(controller_loss));
    let mut queues: Vec<_> = (0..4).map(|_| queue(&device, 4)).collect();
    queues.iter_mut().for_each(|queue| drop(queue.execute(read(0, 1)).unwrap()));
    let before = controller.io_connects();
    controller.restart(Habits { queues_z: 1, ..Habits::default() });
    poll_until(&mut queues[3], || controller.io_connects() == before + 2);
    queues[3].submit(read(0, 1), 7).unwrap();
    let failed = drain(&mut queues[3]).remove(0).result.unwrap_err();
    let said = "the controller came back granting 2 I/O queues, fewer than are open: this queue is lost";
    for error in [failed.error, queues[3].submit(read(0, 1), 8).unwrap_err().error] {
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::DeviceLost, said));
    }
    assert_eq!(queues[2].execute(read(0, 1)).unwrap_err().to_string(), said);
    queues.truncate(2);
    queues.iter_mut().for_each(|queue| drop(queue.execute(read(0, 1)).unwrap()));
    let error = device.queue(QueueOptions::default()).err().unwrap();
    assert_eq!(error.to_string(), "all 2 queues that the controller granted are open");
    queues.clear();
    queue(&device, 4).execute(read(0, 1)).unwrap();
}

#[test]
fn open_queues_are_numbered_anew_where_a_restart_grants_as_many_as_are_open() {
    let (controller, device) = opened(Habits::default());
    let mut last = {
        let mut queues: Vec<_> = (0..4).map(|_| queue(&device, 4)).collect();
        queues.pop().unwrap()
    };
    last.execute(read(0, 1)).unwrap();
    controller.restart(Habits { queues_z: 0, ..Habits::default() });
    last.execute(read(0, 1)).unwrap();
    assert_eq!(controller.controllers(), 2);
}

#[test]
fn queue_beyond_what_a_path_grants_after_a_restart_goes_by_the_other_path() {
    let first = TestController::start(Habits::default());
    let second = TestController::start(Habits::default());
    let (device, mut queue) = paths([&first, &second]);
    let open = || device.queue(QueueOptions::default().depth(4).timeout(LONG));
    let mut other = open().unwrap();
    let before = first.io_connects();
    first.restart(Habits { queues_z: 0, ..Habits::default() });
    poll_until(&mut queue, || first.io_connects() == before + 1);
    poll_until_all_paths_are_live(&device, &mut other);
    poll_until_all_paths_are_live(&device, &mut queue);
    let mut third = open().unwrap();
    for queue in [&mut queue, &mut other, &mut third] {
        (0..4).for_each(|tag| queue.submit(read(tag, 1), tag).unwrap());
        let all = drain(queue);
        assert!(all.len() == 4 && all.into_iter().all(|finished| finished.result.is_ok()));
    }
    assert_eq!(second.take_io().len(), 8, "those of the two queues that the first path grants no more");
}

#[test]
fn fused_pair_to_a_controller_back_with_depth_2_waits_for_both_places() {
    let habits = Habits { fuses: 1, ..Habits::default() };
    let (controller, _device, mut queue) = connected(habits, 16);
    restart(&controller, &mut queue, Habits { maxcmd: 2, ..habits });
    queue.submit(read(0, 1), 0).unwrap();
    queue.submit(compare_and_write(), 1).unwrap();
    queue.submit(read(0, 1), 2).unwrap();
    poll_until(&mut queue, || controller.gate().unanswered() == 1);
    controller.gate().open();
    let finished = drain(&mut queue);
    assert!(finished.len() == 3 && finished.iter().all(|finished| finished.result.is_ok()));
    let opcodes: Vec<u8> = controller.take_io().iter().map(byway_spec::Command::opcode).collect();
    assert_eq!(opcodes, [2, 5, 1, 2], "nothing comes between a Compare and its Write");
}
