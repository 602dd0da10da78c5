//! Commands with a time of their own, on a device that does not answer within it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use byway_core::{
    AdminCommand, AdminQueue, BackendQueue, Buffer, Command, ErrorKind, KvCommand, Nsid, QueueOptions,
    RawData, StoreOptions,
};
use byway_driver::Queue;
use byway_link::Method;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::{Command as Entry, Status};
use byway_sys::wait_readable;

use crate::scripted::{Reply, Script, ScriptedBus, bytes, device, key, queue, queue_of};

const LONG: Duration = Duration::from_secs(3600);

fn put(len: usize) -> Command {
    let value = Buffer::copy_of(&bytes(len)).unwrap().into();
    KvCommand::Store { nsid: Nsid::FIRST, key: key("k"), value, options: StoreOptions::NONE }.into()
}

#[test]
fn a_command_whose_time_is_over_is_aborted_and_finishes_when_the_device_has_answered() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    queue.submit_within(put(100), 1, Some(Duration::ZERO)).unwrap();
    queue.submit_within(put(200), 2, Some(LONG)).unwrap();
    queue.submit(put(300), 3).unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    let cid = bus.state().fetched[0].entry.cid();
    assert_eq!(bus.state().aborts, [(queue.qid(), cid)]);
    // However long the device says nothing, the command is outstanding and holds its memory.
    assert!(queue.next_within(Duration::from_millis(1)).unwrap().is_none());
    assert_eq!((queue.outstanding(), bus.state().aborts.len()), (3, 1));
    bus.state().replies.push_back(Reply { status: Status::ABORT_REQUESTED, ..Reply::default() });
    bus.release(&[0]);
    let failed = queue.next_finished().unwrap().unwrap().result.unwrap_err();
    assert_eq!((failed.error.kind(), failed.buffer.unwrap().len()), (ErrorKind::TimedOut, 100));
    assert_eq!(queue.outstanding(), 2);
}

#[test]
fn the_descriptor_becomes_readable_at_a_deadline() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    // Asked for before there is a time, and after.
    let quiet = wait_readable(queue.event().unwrap(), Duration::ZERO).unwrap();
    assert!(!quiet);
    queue.submit_within(put(200), 1, Some(LONG)).unwrap();
    queue.submit_within(put(100), 2, Some(Duration::from_millis(20))).unwrap();
    assert!(wait_readable(queue.event().unwrap(), Duration::from_secs(20)).unwrap(), "no event");
    assert!(queue.next_finished().unwrap().is_none());
    assert_eq!(bus.state().aborts.len(), 1);
    assert!(!wait_readable(queue.event().unwrap(), Duration::ZERO).unwrap(), "the other has time");
}

#[test]
fn command_completed_before_its_abort_succeeds() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    queue.submit_within(put(100), 1, Some(Duration::ZERO)).unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    bus.release(&[0]);
    assert!(queue.next_finished().unwrap().unwrap().result.is_ok());
    // The place has no deadline any more.
    queue.submit(put(100), 2).unwrap();
    assert!(queue.next_finished().unwrap().unwrap().result.is_ok());
    assert_eq!(bus.state().aborts.len(), 1);
}

#[test]
fn an_identifier_is_not_used_again_before_its_abort_is_answered() {
    let options = QueueOptions::default().depth(1).ring_entries(3);
    let (bus, mut queue) = queue_of(Script::default(), options);
    bus.hold();
    bus.state().withheld_admin = Some(Vec::new());
    queue.submit(put(1), 1).unwrap();
    queue.cancel(1).unwrap();
    queue.cancel(1).unwrap();
    assert_eq!(queue.cancel(2).unwrap_err().kind(), ErrorKind::NotFound);
    let aborted = bus.state().fetched[0].entry.cid();
    bus.release(&[0]);
    assert!(queue.next_finished().unwrap().is_some());
    for tag in 2..6 {
        queue.submit(put(1), tag).unwrap();
        assert_ne!(bus.state().fetched.last().unwrap().entry.cid(), aborted);
        assert!(queue.next_finished().unwrap().is_some());
    }
    assert_eq!(bus.state().withheld_admin.as_ref().unwrap().len(), 1);
    bus.release_admin();
    assert!(queue.next_finished().unwrap().is_none());
    queue.submit(put(1), 6).unwrap();
    assert_eq!(bus.state().fetched.last().unwrap().entry.cid(), aborted);
    queue.drain(&mut |one| assert!(one.result.is_ok())).unwrap();
}

#[test]
fn a_cancelled_command_with_a_deadline_is_aborted_once() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    bus.state().withheld_admin = Some(Vec::new());
    queue.submit_within(put(1), 1, Some(Duration::ZERO)).unwrap();
    queue.cancel(1).unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    bus.release_admin();
    assert!(queue.next_finished().unwrap().is_none());
    assert_eq!(bus.state().aborts.len(), 1);
    bus.release(&[0]);
    assert!(queue.next_finished().unwrap().is_some());
}

/// A queue with six commands whose time is over, on a device that answers neither them nor Aborts.
fn silent(acl_z: u8) -> (Arc<ScriptedBus>, Queue<ScriptedBus>) {
    let (bus, mut queue) = queue_of(Script { acl_z, ..Script::default() }, QueueOptions::default());
    bus.hold();
    bus.state().withheld_admin = Some(Vec::new());
    (0..6).for_each(|tag| queue.submit_within(put(1), tag, Some(Duration::ZERO)).unwrap());
    assert!(queue.next_finished().unwrap().is_none());
    (bus, queue)
}

#[test]
fn aborts_at_once_are_no_more_than_the_controller_announced() {
    for (acl_z, steps) in [(0, &[1, 1, 1, 1, 1, 1][..]), (3, &[4, 2])] {
        let (bus, mut queue) = silent(acl_z);
        for withheld in steps {
            assert_eq!(bus.state().withheld_admin.as_ref().unwrap().len(), *withheld);
            bus.release_admin();
            bus.state().withheld_admin = Some(Vec::new());
            assert!(queue.next_finished().unwrap().is_none());
        }
        let aborted: BTreeSet<_> = bus.state().aborts.iter().copied().collect();
        assert_eq!((aborted.len(), bus.state().aborts.len()), (6, 6));
        bus.state().withheld_admin = None;
    }
}

#[test]
fn the_descriptor_becomes_readable_while_an_abort_waits() {
    let (bus, mut queue) = silent(4);
    queue.event().unwrap();
    assert!(queue.next_finished().unwrap().is_none());
    assert!(wait_readable(queue.event().unwrap(), Duration::from_secs(20)).unwrap(), "no event");
    bus.release_admin();
    assert!(queue.next_finished().unwrap().is_none());
    assert_eq!(bus.state().aborts.len(), 6);
    assert!(!wait_readable(queue.event().unwrap(), Duration::from_millis(30)).unwrap(), "none waits");
}

#[test]
fn an_abort_that_waits_is_not_sent_once_its_command_has_ended() {
    let (bus, mut queue) = silent(0);
    bus.release(&[0, 1, 2, 3, 4, 5]);
    queue.drain(&mut |one| assert!(one.result.is_ok())).unwrap();
    bus.release_admin();
    assert!(queue.next_finished().unwrap().is_none());
    assert_eq!(bus.state().aborts.len(), 1);
}

#[test]
fn an_abort_over_the_controllers_limit_is_sent_again() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    bus.state().refused_aborts = 2;
    queue.submit_within(put(1), 1, Some(Duration::ZERO)).unwrap();
    (0..3).for_each(|_| assert!(queue.next_finished().unwrap().is_none()));
    let cid = bus.state().fetched[0].entry.cid();
    assert_eq!(bus.state().aborts, [(queue.qid(), cid)]);
}

#[test]
fn cancelled_commands_beyond_the_limit_are_aborted_in_turn() {
    let (bus, mut queue) = queue(Method::Prp);
    bus.hold();
    bus.state().withheld_admin = Some(Vec::new());
    (1..4).for_each(|tag| queue.submit(put(1), tag).unwrap());
    (1..4).for_each(|tag| queue.cancel(tag).unwrap());
    assert_eq!(bus.state().withheld_admin.as_ref().unwrap().len(), 1);
    bus.release_admin();
    (0..3).for_each(|_| assert!(queue.next_finished().unwrap().is_none()));
    assert_eq!(bus.state().aborts.len(), 3);
}

#[test]
fn cancelled_admin_commands_beyond_the_limit_are_aborted_in_turn() {
    let (bus, driver) = device(Script::default());
    let mut queue = driver.admin_commands();
    let format = Entry::new(AdminOpcode::FORMAT_NVM.0, 0, 2);
    bus.state().withheld_admin = Some(Vec::new());
    (1..4).for_each(|tag| queue.submit(AdminCommand::raw(format, RawData::None), tag).unwrap());
    let commands = bus.state().withheld_admin.replace(Vec::new());
    (1..4).for_each(|tag| queue.cancel(tag).unwrap());
    assert_eq!(bus.state().withheld_admin.as_ref().unwrap().len(), 1);
    bus.state().refused_aborts = 1;
    bus.release_admin();
    (0..4).for_each(|_| assert!(queue.next_finished().unwrap().is_none()));
    let aborted: BTreeSet<_> = bus.state().aborts.iter().copied().collect();
    assert_eq!((aborted.len(), bus.state().aborts.len()), (3, 3));
    bus.state().withheld_admin = commands;
    bus.release_admin();
    (0..3).for_each(|_| assert!(queue.next_finished().unwrap().is_some()));
}
