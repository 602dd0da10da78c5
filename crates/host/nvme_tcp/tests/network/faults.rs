//! Commands whose connection, data or controller fails.

use byway_core::{BackendQueue, Retry};
use byway_spec::Status;
use byway_tcp_initiator::{Digests, NvmeTcpPaths, TcpOptions};

use super::*;
use crate::habits::Fault;

/// A controller whose command number `fault_at` fails in this way, and its device.
fn faulty(fault_at: u32, fault: Fault) -> (TestController, NvmeTcp) {
    opened(Habits { fault_at, fault, ..Habits::default() })
}

#[test]
fn data_with_a_wrong_digest_fails_its_command_alone() {
    let controller =
        TestController::start(Habits { fault_at: 2, fault: Fault::WrongDigest, ..Habits::default() });
    let digests = Digests::BOTH;
    let device = open(&controller, TcpOptions::default().digests(digests));
    let mut queue = queue(&device, 4);
    queue.execute(read(0, 8)).unwrap();
    let error = queue.execute(read(0, 8)).unwrap_err();
    assert_eq!(error.nvme_status(), Some(Status::TRANSIENT_TRANSPORT_ERROR));
    queue.execute(read(0, 8)).unwrap();
    assert_eq!(controller.controllers(), 1, "the connection goes on");
}

#[test]
fn read_with_too_little_data_fails() {
    let (_controller, device) = faulty(1, Fault::ShortRead);
    let mut queue = queue(&device, 4);
    let error = queue.execute(read(0, 8)).unwrap_err();
    assert!(error.to_string().contains("512 of 4096 bytes"), "{error}");
}

#[test]
fn reads_are_sent_again_when_their_connection_was_dropped() {
    for fault in [Fault::Drop, Fault::DropAfterwards, Fault::Terminate, Fault::UnknownCommand] {
        let (controller, device) = faulty(5, fault);
        let mut queue = queue(&device, 32);
        let data = pattern(7, LBA_BYTES);
        queue.execute(write(3, Buffer::copy_of(&data).unwrap())).unwrap();
        for tag in 0..32 {
            queue.submit(read(3, 1), tag).unwrap();
        }
        let finished = drain(&mut queue);
        assert_eq!(finished.len(), 32);
        for Finished { result, .. } in finished {
            assert!(result.unwrap().buffer.unwrap().as_slice() == data, "{fault:?}");
        }
        assert_eq!(controller.controllers(), 2, "{fault:?}: a controller of its own each time");
    }
}

#[test]
fn a_write_whose_answer_is_not_known_fails_and_is_not_sent_again() {
    let (_controller, device) = faulty(2, Fault::DropAfterwards);
    let mut queue = queue(&device, 4);
    queue.execute(read(0, 1)).unwrap();
    let data = pattern(1, LBA_BYTES);
    queue.submit(write(0, Buffer::copy_of(&data).unwrap()), 1).unwrap();
    let failed = drain(&mut queue).remove(0).result.unwrap_err();
    assert_eq!((failed.error.kind(), failed.error.retry()), (ErrorKind::DeviceLost, Retry::Once));
    assert!(failed.buffer.unwrap().as_slice() == data, "the program has its memory again");
    assert!(failed.error.to_string().contains("before the command was answered"), "{}", failed.error);
    // The queue goes on, on another connection.
    let outcome = queue.execute(read(0, 1)).unwrap();
    assert!(outcome.buffer.unwrap().as_slice() == data);
}

#[test]
fn command_submitted_without_a_connection_is_sent_after_the_reconnect() {
    let (controller, _device, mut queue) = connected(Habits::default(), 16);
    for round in 0..5 {
        controller.drop_connections();
        // Found out about by looking at it.
        while queue.next_finished().unwrap().is_some() {}
        let data = pattern(round, LBA_BYTES);
        queue.submit(write(8, Buffer::copy_of(&data).unwrap()), 0).unwrap();
        let finished = drain(&mut queue).remove(0);
        match finished.result {
            Ok(_) => {
                let outcome = queue.execute(read(8, 1)).unwrap();
                assert!(outcome.buffer.unwrap().as_slice() == data);
            }
            // It was sent before the end of the connection was seen.
            Err(failed) => assert_eq!(failed.error.kind(), ErrorKind::DeviceLost),
        }
    }
}

#[test]
fn command_past_its_deadline_is_aborted_and_times_out() {
    let (controller, device) = faulty(2, Fault::Silence);
    let mut queue = queue(&device, 4);
    queue.execute(read(0, 1)).unwrap();
    queue.submit_within(read(0, 1), 5, Some(Duration::from_millis(20))).unwrap();
    let finished = drain(&mut queue).remove(0);
    let failed = finished.result.unwrap_err();
    assert_eq!((finished.tag, failed.error.kind()), (5, ErrorKind::TimedOut), "{}", failed.error);
    assert_eq!(failed.buffer.unwrap().len(), LBA_BYTES);
    queue.execute(read(0, 1)).unwrap();
    assert_eq!(controller.controllers(), 1);
}

#[test]
fn cancelled_command_is_aborted_and_fails_as_cancelled() {
    let (_controller, device) = faulty(1, Fault::Silence);
    let mut queue = queue(&device, 4);
    queue.submit(read(0, 1), 5).unwrap();
    queue.start().unwrap();
    queue.cancel(5).unwrap();
    let failed = drain(&mut queue).remove(0).result.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Cancelled, "{}", failed.error);
    assert_eq!(queue.cancel(5).unwrap_err().kind(), ErrorKind::NotFound);
}

/// A queue with a timeout of 20 ms.
fn queue_with_short_timeout<B: Backend>(device: &B, depth: u32) -> B::Queue {
    let timeout = Duration::from_millis(20);
    device.queue(QueueOptions::default().depth(depth).timeout(timeout)).unwrap()
}

#[test]
fn timed_out_calls_keep_their_slots_until_they_are_answered() {
    let (controller, device) = faulty(1, Fault::Deafness);
    let mut queue = queue_with_short_timeout(&device, 2);
    assert_eq!(queue.execute(read(0, 1)).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(queue.outstanding(), 0, "no caller waits for it");
    queue.submit(read(0, 1), 1).unwrap();
    let refused = queue.submit(read(0, 1), 2).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::QueueFull, "the controller has two commands");
    assert_eq!(drain(&mut queue).len(), 1);
    queue.submit(read(0, 1), 3).unwrap();
    assert_eq!(drain(&mut queue).len(), 1);
    // Admin commands are answered one behind the other.
    device.namespaces().unwrap();
    assert_eq!(controller.aborts(), 1);
}

/// The controller does not answer its first command until that is aborted.
fn check_slot_of_a_timed_out_call(controller: &TestController, device: &impl Backend) {
    let mut queue = queue_with_short_timeout(device, 1);
    assert_eq!(queue.execute(read(0, 1)).unwrap_err().kind(), ErrorKind::TimedOut);
    let begun = std::time::Instant::now();
    while let Err(refused) = queue.submit(read(0, 1), 1) {
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
        assert!(begun.elapsed() < LONG, "no answer to the Abort within {LONG:?}");
    }
    assert!(drain(&mut queue).remove(0).result.is_ok());
    assert_eq!((controller.aborts(), controller.controllers()), (1, 1));
}

#[test]
fn timed_out_call_is_aborted_and_frees_its_slot() {
    let (controller, device) = faulty(1, Fault::Silence);
    check_slot_of_a_timed_out_call(&controller, &device);
}

#[test]
fn timed_out_call_over_paths_is_aborted_and_frees_its_slot() {
    let controller =
        TestController::start(Habits { fault_at: 1, fault: Fault::Silence, ..Habits::default() });
    let device = NvmeTcpPaths::open(&[place(&controller, NAME)], &TcpOptions::default()).unwrap();
    check_slot_of_a_timed_out_call(&controller, &device);
}

/// Calls a command until the queue is not full.
fn execute_when_not_full(queue: &mut impl BackendQueue, command: impl Fn() -> Command) {
    let begun = std::time::Instant::now();
    while let Err(error) = queue.execute(command()) {
        if error.kind() == ErrorKind::TimedOut {
            // The queue took it: on a busy machine an answer may be late.
            return;
        }
        assert_eq!(error.kind(), ErrorKind::QueueFull, "{error}");
        assert!(begun.elapsed() < LONG, "the queue is full for {LONG:?}");
    }
}

/// Of two commands, one a fused pair: the first times out, and then the second is called until it is taken.
fn check_room_after_a_timed_out_call<B: Backend>(open: impl Fn(&TestController) -> B) {
    let read_one = || read(0, 1);
    let all: [[fn() -> Command; 2]; 3] = [
        [compare_and_write, read_one],
        [compare_and_write, compare_and_write],
        [read_one, compare_and_write],
    ];
    for [first, second] in all {
        let habits = Habits { fuses: 1, fault_at: 1, fault: Fault::Silence, ..Habits::default() };
        let controller = TestController::start(habits);
        let device = open(&controller);
        let mut queue = queue_with_short_timeout(&device, 2);
        assert_eq!(queue.execute(first()).unwrap_err().kind(), ErrorKind::TimedOut);
        execute_when_not_full(&mut queue, second);
    }
}

#[test]
fn timed_out_call_beside_a_fused_pair_frees_its_room() {
    check_room_after_a_timed_out_call(|controller| open(controller, TcpOptions::default()));
}

#[test]
fn timed_out_call_beside_a_fused_pair_over_paths_frees_its_room() {
    check_room_after_a_timed_out_call(|controller| {
        NvmeTcpPaths::open(&[place(controller, NAME)], &TcpOptions::default()).unwrap()
    });
}

#[test]
fn timed_out_call_behind_a_completion_not_taken_frees_its_slot() {
    let (controller, device) = faulty(2, Fault::Silence);
    let mut queue = queue_with_short_timeout(&device, 2);
    queue.submit(read(0, 1), 1).unwrap();
    assert_eq!(queue.execute(read(0, 1)).unwrap_err().kind(), ErrorKind::TimedOut);
    let begun = std::time::Instant::now();
    while let Err(refused) = queue.submit(read(0, 1), 2) {
        assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
        assert!(begun.elapsed() < LONG, "the queue is full for {LONG:?}");
    }
    let finished = drain(&mut queue);
    assert!(finished.iter().map(|finished| finished.tag).eq([1, 2]));
    assert!(finished.iter().all(|finished| finished.result.is_ok()));
    assert_eq!((controller.aborts(), controller.controllers()), (1, 1));
}

/// Whether the event descriptor of a queue becomes readable within this time.
fn is_readable(queue: &mut TcpQueue, timeout: Duration) -> bool {
    byway_sys::wait_readable(queue.event().unwrap(), timeout).unwrap()
}

#[test]
fn completion_received_by_a_call_makes_the_descriptor_readable() {
    let (_controller, _device, mut queue) = connected(Habits::default(), 4);
    assert!(!is_readable(&mut queue, Duration::ZERO));
    queue.submit(read(0, 1), 1).unwrap();
    queue.execute(read(0, 1)).unwrap();
    assert!(is_readable(&mut queue, Duration::ZERO));
    assert_eq!(queue.next_finished().unwrap().unwrap().tag, 1);
}

#[test]
fn completion_received_by_a_refused_submission_makes_the_descriptor_readable() {
    let (controller, device) = faulty(2, Fault::Deafness);
    controller.gate().shut();
    controller.abort_gate().shut();
    let mut queue = queue_with_short_timeout(&device, 2);
    assert!(!is_readable(&mut queue, Duration::ZERO));
    queue.submit(read(0, 1), 1).unwrap();
    assert_eq!(queue.execute(read(0, 1)).unwrap_err().kind(), ErrorKind::TimedOut);
    controller.gate().open();
    assert!(is_readable(&mut queue, LONG));
    let refused = queue.submit(read(0, 1), 2).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
    assert!(is_readable(&mut queue, Duration::ZERO));
    assert_eq!(queue.next_finished().unwrap().unwrap().tag, 1);
    controller.abort_gate().open();
}

#[test]
fn controller_without_answer_to_an_abort_is_reconnected() {
    let (controller, device) = faulty(1, Fault::Deafness);
    let mut queue = queue(&device, 4);
    let data = pattern(3, LBA_BYTES);
    queue
        .submit_within(write(3, Buffer::copy_of(&data).unwrap()), 1, Some(Duration::from_millis(1)))
        .unwrap();
    let failed = drain(&mut queue).remove(0).result.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::TimedOut, "{}", failed.error);
    assert!(failed.buffer.unwrap().as_slice() == data, "the program has its memory again");
    queue.execute(read(0, 1)).unwrap();
    assert_eq!((controller.aborts(), controller.controllers()), (1, 2));
}

#[test]
fn command_cancelled_twice_is_aborted_once() {
    let (controller, device) = faulty(1, Fault::Silence);
    let mut queue = queue(&device, 4);
    queue.submit(read(0, 1), 5).unwrap();
    queue.start().unwrap();
    queue.cancel(5).unwrap();
    queue.cancel(5).unwrap();
    assert_eq!(drain(&mut queue).len(), 1);
    // The answers to all Aborts have come when a later admin command is answered.
    device.namespaces().unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    (0..4).for_each(|tag| queue.submit(read(tag, 1), tag).unwrap());
    assert_eq!(drain(&mut queue).len(), 4);
    assert_eq!((controller.aborts(), controller.controllers()), (1, 1));
}

#[test]
fn controller_away_too_long_is_given_up_and_commands_fail() {
    let controller = TestController::start(Habits::default());
    let controller_loss = Duration::from_millis(300);
    let device = open(&controller, TcpOptions::default().controller_loss(controller_loss));
    let mut queue = queue(&device, 4);
    queue.execute(read(0, 1)).unwrap();
    controller.vanish();
    for tag in 0..4 {
        if let Err(refused) = queue.submit(read(0, 1), tag) {
            assert_eq!(refused.error.kind(), ErrorKind::DeviceLost);
        }
    }
    for Finished { result, .. } in drain(&mut queue) {
        let failed = result.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::DeviceLost, "{}", failed.error);
        assert!(failed.buffer.is_some());
    }
    let error = queue.execute(read(0, 1)).unwrap_err();
    assert!(error.to_string().contains("the controller is lost"), "{error}");
    assert_eq!(device.namespaces().unwrap_err().kind(), ErrorKind::DeviceLost);
}

#[test]
fn connect_of_a_queue_the_controller_still_has_is_retried() {
    let (controller, device) = opened(Habits { busy_connects: 3, ..Habits::default() });
    queue(&device, 4).execute(read(0, 1)).unwrap();
    assert_eq!(controller.io_connects(), 4);
    let (_controller, device) = opened(Habits { busy_connects: u32::MAX, ..Habits::default() });
    let error = device.queue(QueueOptions::default()).err().unwrap();
    assert!(error.kind() == ErrorKind::Busy && error.to_string().contains("has queue 1 still"), "{error}");
}

#[test]
fn identify_lost_with_its_connection_is_sent_again() {
    let (controller, device) = opened(Habits { drops_identify: true, ..Habits::default() });
    queue(&device, 4).execute(read(0, 1)).unwrap();
    assert_eq!(controller.controllers(), 2);
}

#[test]
fn queue_dropped_with_outstanding_commands_breaks_no_other() {
    let (_controller, device) = faulty(3, Fault::Silence);
    for _ in 0..20 {
        let mut queue = queue(&device, 8);
        for tag in 0..8 {
            queue.submit(read(0, 8), tag).unwrap();
        }
        queue.start().unwrap();
    }
    queue(&device, 8).execute(read(0, 8)).unwrap();
}

/// A controller that answers neither commands nor Aborts, and a queue with six commands that are out of time.
fn silent(acl_z: u8) -> (TestController, NvmeTcp, TcpQueue) {
    let (controller, device, mut queue) = connected(Habits { acl_z, ..Habits::default() }, 8);
    controller.gate().shut();
    controller.abort_gate().shut();
    (0..6).for_each(|tag| queue.submit_within(read(tag, 1), tag, Some(Duration::from_millis(1))).unwrap());
    wait_for(&mut queue, || controller.abort_gate().unanswered() == usize::from(acl_z) + 1);
    // By the time that this is answered, the controller has what was sent before.
    device.namespaces().unwrap();
    (controller, device, queue)
}

/// Polls a queue until a condition holds; no command may finish meanwhile.
fn wait_for(queue: &mut TcpQueue, is: impl FnMut() -> bool) {
    let finished = poll_until(queue, is);
    assert!(finished.is_empty(), "nothing is answered yet: {finished:?}");
}

#[test]
fn aborts_at_once_are_no_more_than_the_controller_announced() {
    for acl_z in [0, 2] {
        let (controller, device, mut queue) = silent(acl_z);
        assert_eq!(controller.aborts(), u32::from(acl_z) + 1);
        controller.abort_gate().open();
        wait_for(&mut queue, || controller.aborts() == 6);
        controller.gate().open();
        assert_eq!(drain(&mut queue).len(), 6);
        assert_eq!(controller.abort_gate().most_unanswered(), usize::from(acl_z) + 1);
        drop(device);
        assert_eq!(controller.controllers(), 1, "the connection goes on");
    }
}

#[test]
fn aborts_that_wait_are_not_sent_once_their_commands_have_ended() {
    let (controller, device, mut queue) = silent(0);
    controller.gate().open();
    assert_eq!(drain(&mut queue).len(), 6);
    controller.abort_gate().open();
    device.namespaces().unwrap();
    assert_eq!((controller.aborts(), controller.controllers()), (1, 1));
    (0..8).for_each(|tag| queue.submit(read(tag, 1), tag).unwrap());
    assert_eq!(drain(&mut queue).len(), 8);
}
