//! Queued commands: who owns what, in which order things finish, and what a device that misbehaves does.

use std::time::Duration;

use crate::scripted::{Reply, Script, bytes, device, key, queue, queue_of, stores};
use byway_core::{
    AdminCommand, Backend, BackendQueue, Buffer, Command, ErrorKind, KvCommand, Nsid, NvmCommand, Payload,
    QueueOptions, StoreOptions,
};
use byway_driver::AttachOptions;
use byway_link::Method;
use byway_spec::Status;

fn put(name: &str, value: Payload) -> Command {
    KvCommand::Store { nsid: Nsid::FIRST, key: key(name), value, options: StoreOptions::NONE }.into()
}

fn get(name: &str, into: Buffer) -> Command {
    KvCommand::Retrieve { nsid: Nsid::FIRST, key: key(name), into }.into()
}

fn shallow(depth: u32) -> QueueOptions {
    QueueOptions::default().depth(depth).timeout(Duration::from_millis(50))
}

#[test]
fn commands_finish_in_the_order_of_the_device_and_give_their_buffers_back() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    for tag in 0..3u64 {
        queue.submit(put("k", Buffer::copy_of(&bytes(200 + tag as usize)).unwrap().into()), tag).unwrap();
    }
    assert!(queue.next_finished().unwrap().is_none());
    bus.release(&[2, 0, 1]);
    let mut finished = Vec::new();
    queue
        .poll(usize::MAX, &mut |one| finished.push((one.tag, one.result.unwrap().buffer.unwrap().len())))
        .unwrap();
    assert_eq!(finished, [(2, 202), (0, 200), (1, 201)]);
    assert_eq!(queue.outstanding(), 0);
}

#[test]
fn every_method_carries_queued_stores() {
    for method in Method::ALL {
        let (bus, mut queue) = queue(method);
        let lengths = [0, 20, 100, 127, 128, 3000, 5000];
        for (tag, len) in lengths.into_iter().enumerate() {
            queue.submit(put("k", Payload::copy_of(&bytes(len)).unwrap()), tag as u64).unwrap();
        }
        let mut tags = Vec::new();
        queue.drain(&mut |one| tags.push((one.tag, one.result.is_ok()))).unwrap();
        assert_eq!(tags, (0..7).map(|tag| (tag, true)).collect::<Vec<_>>(), "{method}");
        let arrived: Vec<_> = stores(&bus).into_iter().map(|(_, value)| value).collect();
        assert!(arrived == lengths.map(bytes), "{method}");
    }
}

#[test]
fn a_full_queue_gives_the_command_back_and_takes_it_later() {
    let (bus, mut queue) = queue_of(Script::default(), shallow(2));
    bus.hold();
    for tag in 0..2 {
        queue.submit(put("k", Payload::copy_of(b"v").unwrap()), tag).unwrap();
    }
    let refused = queue.submit(put("k", Buffer::copy_of(b"kept").unwrap().into()), 9).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::QueueFull);
    bus.release(&[0, 1]);
    assert!(queue.next_finished().unwrap().is_some());
    queue.submit(refused.command, 9).unwrap();
    let mut last = None;
    queue.drain(&mut |one| last = Some(one)).unwrap();
    assert_eq!(last.unwrap().result.unwrap().buffer.unwrap().as_slice(), b"kept");
}

#[test]
fn a_ring_without_slots_gives_an_inline_command_back() {
    let options = shallow(4).transfer(Method::Inline).ring_entries(8);
    let (bus, mut queue) = queue_of(Script::default(), options);
    bus.hold();
    let five_slots = || put("k", Payload::copy_of(&[1; 256]).unwrap());
    queue.submit(five_slots(), 0).unwrap();
    let refused = queue.submit(five_slots(), 1).unwrap_err();
    assert_eq!((refused.error.kind(), queue.outstanding()), (ErrorKind::QueueFull, 1));
    bus.release(&[0]);
    queue.drain(&mut |one| assert!(one.result.is_ok())).unwrap();
    queue.submit(refused.command, 1).unwrap();
}

/// In the prototype a payload that could not be read left its command in the ring, for the next doorbell to expose.
#[test]
fn a_refused_inline_command_leaves_nothing_in_the_ring() {
    let options = shallow(4).transfer(Method::Inline).ring_entries(16);
    let (bus, mut queue) = queue_of(Script::default(), options);
    bus.hold();
    queue.submit(put("a", Payload::copy_of(&[1; 640]).unwrap()), 0).unwrap();
    for (len, kind) in
        [(640, ErrorKind::QueueFull), (15 * 64, ErrorKind::TooLarge), (9000, ErrorKind::TooLarge)]
    {
        let refused = queue.submit(put("b", Payload::copy_of(&bytes(len)).unwrap()), 1).unwrap_err();
        assert_eq!(refused.error.kind(), kind, "{len}");
    }
    queue.submit(put("c", Payload::copy_of(&bytes(100)).unwrap()), 2).unwrap();
    assert_eq!(bus.state().rung.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [11, 14]);
    let fetched: Vec<_> = stores(&bus).into_iter().map(|(_, value)| value).collect();
    assert_eq!(fetched, [vec![1; 640], bytes(100)]);
    bus.release(&[0, 1]);
    queue.drain(&mut |one| assert!(one.result.is_ok())).unwrap();
}

#[test]
fn a_failed_command_gives_its_buffer_back_too() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.state().replies.push_back(Reply { status: Status::KEY_DOES_NOT_EXIST, ..Reply::default() });
    queue.submit(get("k", Buffer::zeroed(100).unwrap()), 5).unwrap();
    let failed = queue.next_finished().unwrap().unwrap().result.unwrap_err();
    assert_eq!((failed.error.kind(), failed.buffer.unwrap().len()), (ErrorKind::KeyNotFound, 100));
}

#[test]
fn a_call_leaves_the_completions_of_others_in_the_queue() {
    let (_, mut queue) = queue(Method::Inline);
    queue.submit(put("a", Payload::copy_of(b"queued").unwrap()), 7).unwrap();
    queue.execute_store(Nsid::FIRST, &key("b"), b"called", StoreOptions::NONE).unwrap();
    assert_eq!(queue.outstanding(), 1);
    assert_eq!(queue.next_finished().unwrap().unwrap().tag, 7);
}

#[test]
fn a_call_that_is_given_up_keeps_its_memory_until_the_device_answers() {
    let (bus, mut queue) = queue_of(Script::default(), shallow(4));
    bus.hold();
    let error = queue.execute_retrieve(Nsid::FIRST, &key("a"), &mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let withheld = bus.state().withheld.replace(Vec::new()).unwrap();
    let error = queue.execute_retrieve(Nsid::FIRST, &key("b"), &mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let [first, second] =
        [&withheld[0], &bus.state().withheld.as_ref().unwrap()[0]].map(|fetched| fetched.entry);
    assert_ne!(first.prp1(), second.prp1());
    assert_ne!(first.cid(), second.cid());
    bus.state().withheld.as_mut().unwrap().extend(withheld);
    bus.release(&[0, 1]);
    queue.execute_retrieve(Nsid::FIRST, &key("c"), &mut [0; 100]).unwrap();
    assert_eq!(queue.outstanding(), 0);
}

#[test]
fn a_completion_of_a_command_that_was_never_sent_is_a_protocol_error() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.answer_stray(queue.qid(), 17);
    assert_eq!(queue.next_finished().unwrap_err().kind(), ErrorKind::Protocol);
    bus.answer_stray(queue.qid(), 60_000);
    assert_eq!(queue.next_finished().unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn a_device_in_a_fatal_state_is_lost_at_once() {
    let (bus, mut queue) = queue_of(Script::default(), QueueOptions::default());
    bus.hold();
    bus.state().fatal = true;
    let error = queue.execute_store(Nsid::FIRST, &key("a"), b"v", StoreOptions::NONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    assert!(error.to_string().contains("CSTS.CFS"), "{error}");
}

#[test]
fn a_bus_without_room_for_the_queue_says_what_fits() {
    let (_, driver) = device(Script::default());
    let refuse = |options| driver.queue(options).err().unwrap().to_string();
    assert!(refuse(shallow(0)).contains("depth of 1 to"));
    assert!(refuse(shallow(1024)).contains("a ring of 1024 entries takes a depth of 1 to 1023, not 1024"));
    assert!(refuse(shallow(4).ring_entries(2000)).contains("2 to 1024 entries, not 2000"));
}

#[test]
fn queue_numbers_are_used_again_and_run_out() {
    let (bus, driver) = device(Script::default());
    drop(driver);
    let options = AttachOptions::default().queues(2);
    let driver = byway_driver::Driver::attach(bus, options).unwrap();
    let queues = [1, 2].map(|_| driver.queue(shallow(1)).unwrap());
    assert_eq!(queues.each_ref().map(byway_driver::Queue::qid), [1, 2]);
    assert_eq!(driver.queue(shallow(1)).err().unwrap().kind(), ErrorKind::Busy);
    let [first, second] = queues;
    drop(first);
    assert_eq!(driver.queue(shallow(1)).unwrap().qid(), 1);
    drop(second);
}

#[test]
fn rings_of_a_queue_that_the_device_did_not_delete_are_not_reused() {
    let (bus, driver) = device(Script::default());
    bus.state().keeps_queues = true;
    let queue = driver.queue(shallow(4)).unwrap();
    let rings = bus.rings_of(queue.qid());
    drop(queue);
    assert!(rings.into_iter().all(|at| bus.reaches(at)), "the device may still write them");
    let next = driver.queue(shallow(4)).unwrap();
    assert_eq!(next.qid(), 2);
    assert!(bus.rings_of(2).into_iter().all(|at| !rings.contains(&at)));
    drop((next, driver));
    assert!(!rings.into_iter().any(|at| bus.reaches(at)), "a disabled controller writes nothing");
}

#[test]
fn rings_of_a_deleted_queue_are_taken_from_the_device() {
    let (bus, driver) = device(Script::default());
    let queue = driver.queue(shallow(4)).unwrap();
    let rings = bus.rings_of(queue.qid());
    drop(queue);
    assert!(!rings.into_iter().any(|at| bus.reaches(at)));
}

#[test]
fn buffers_of_the_device_need_no_mapping_and_others_are_mapped_for_their_command() {
    let (bus, driver) = device(Script::default());
    let mut queue = Backend::queue(&driver, QueueOptions::default()).unwrap();
    let mut own = Backend::buffer(&driver, 9000).unwrap();
    own.as_mut_slice().copy_from_slice(&bytes(9000));
    queue.submit(put("own", own.into()), 0).unwrap();
    queue.submit(put("other", Buffer::copy_of(&bytes(9000)).unwrap().into()), 1).unwrap();
    let mut taken = 0;
    queue.drain(&mut |one| taken += one.result.unwrap().buffer.unwrap().len()).unwrap();
    assert_eq!(taken, 18_000);
    let fetched = bus.state().fetched.clone();
    assert!(bus.payload(&fetched[0], 9000) == bytes(9000));
}

#[test]
fn blocks_that_cannot_be_are_refused_before_anything_is_sent() {
    let (bus, mut queue) = queue(Method::Prp);
    let read = NvmCommand::Read { nsid: Nsid::FIRST, slba: 0, blocks: 0, into: Buffer::zeroed(512).unwrap() };
    let refused = queue.submit(read.into(), 0).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused.command.into_buffer().unwrap().len(), 512);
    assert!(queue.execute_write(Nsid::FIRST, 0, 512, &[0; 100]).is_err());
    assert!(queue.execute_write(Nsid::FIRST, 0, 0, &[0; 100]).is_err());
    assert!(bus.state().fetched.is_empty());
}

#[test]
fn a_command_can_be_cancelled_by_its_tag_while_it_is_outstanding() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    queue.submit(put("k", Payload::Empty), 42).unwrap();
    queue.cancel(42).unwrap();
    assert_eq!(queue.cancel(43).unwrap_err().kind(), ErrorKind::NotFound);
    bus.state().replies.push_back(Reply { status: Status::ABORT_REQUESTED, ..Reply::default() });
    bus.release(&[0]);
    let failed = queue.next_finished().unwrap().unwrap().result.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Cancelled);
}

#[test]
fn waiting_for_nothing_returns_at_once() {
    let (_, mut queue) = queue(Method::Prp);
    assert_eq!(queue.wait(1, Duration::from_secs(60), &mut |_| {}).unwrap(), 0);
    assert!(queue.next_within(Duration::from_secs(60)).unwrap().is_none());
}

#[test]
fn admin_commands_carry_their_data_and_their_status() {
    let (bus, driver) = device(Script::default());
    let command = AdminCommand::SetFeature {
        feature: 0x20,
        save: false,
        nsid: Some(Nsid::FIRST),
        cdw11: 1,
        cdw12: 0,
        data: Payload::copy_of(b"data").unwrap(),
    };
    assert_eq!(driver.admin(command).unwrap().answer.dw0, 1);
    assert!(bus.state().features.contains(&(0x20, 1, 1)));
    assert_eq!(driver.identity().model, "Scripted");
}
