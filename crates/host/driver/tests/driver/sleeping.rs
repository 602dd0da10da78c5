//! When a host is called for what its device has done: while it sleeps now and then, and not once it polls.

use std::sync::Arc;
use std::time::Duration;

use crate::scripted::{Script, ScriptedBus, key, queue_of};
use byway_core::{BackendQueue, Buffer, Command, KvCommand, Nsid, QueueOptions};
use byway_driver::Queue;

/// More completions than a host finds by looking before it counts as one that polls.
const MANY: u64 = 3000;

fn get() -> Command {
    KvCommand::Retrieve { nsid: Nsid::FIRST, key: key("k"), into: Buffer::zeroed(8).unwrap() }.into()
}

/// Polls for the completions of `commands` commands, one at a time.
fn poll(queue: &mut Queue<ScriptedBus>, commands: u64) {
    for tag in 0..commands {
        queue.submit(get(), tag).unwrap();
        assert_eq!(queue.next_finished().unwrap().map(|one| one.tag), Some(tag));
    }
}

/// Sleeps for a command that the device holds until it does.
fn sleep(bus: &ScriptedBus, queue: &mut Queue<ScriptedBus>) {
    bus.hold();
    queue.submit(get(), 0).unwrap();
    assert!(queue.next_within(Duration::from_millis(1)).unwrap().is_none());
    bus.release(&[0]);
    assert!(queue.next_finished().unwrap().is_some());
}

fn queue() -> (Arc<ScriptedBus>, Queue<ScriptedBus>) {
    queue_of(Script::default(), QueueOptions::default())
}

fn raised(bus: &ScriptedBus, queue: &Queue<ScriptedBus>) -> u32 {
    bus.state().raised.get(&queue.qid()).copied().unwrap_or(0)
}

#[test]
fn a_sleep_from_which_the_bus_returns_early_goes_on_until_something_is_done() {
    let (bus, mut queue) = queue();
    bus.hold();
    queue.submit(get(), 7).unwrap();
    let device = Arc::clone(&bus);
    let released = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        device.release(&[0]);
    });
    assert_eq!(queue.next_within(Duration::MAX).unwrap().map(|one| one.tag), Some(7));
    released.join().unwrap();
}

#[test]
fn polling_disarms_the_interrupt_armed_by_one_sleep() {
    let (bus, mut queue) = queue();
    poll(&mut queue, 10);
    assert_eq!(raised(&bus, &queue), 0);
    sleep(&bus, &mut queue);
    poll(&mut queue, MANY);
    let called = raised(&bus, &queue);
    poll(&mut queue, MANY);
    assert_eq!(raised(&bus, &queue), called, "it is called for each of them");
}

#[test]
fn occasional_sleeps_keep_the_interrupt_armed() {
    let (bus, mut queue) = queue();
    for round in 0..40 {
        sleep(&bus, &mut queue);
        let called = raised(&bus, &queue);
        poll(&mut queue, 100);
        assert_eq!(raised(&bus, &queue), called + 100, "round {round}");
    }
}

#[test]
fn sleep_after_polling_arms_the_interrupt_again() {
    let (bus, mut queue) = queue();
    for _ in 0..3 {
        sleep(&bus, &mut queue);
        poll(&mut queue, MANY);
        let called = raised(&bus, &queue);
        sleep(&bus, &mut queue);
        assert_eq!(raised(&bus, &queue), called + 1, "it sleeps and nothing wakes it");
    }
}

#[test]
fn calls_that_complete_by_polling_disarm_the_interrupt() {
    let (bus, mut queue) = queue();
    sleep(&bus, &mut queue);
    for _ in 0..MANY {
        queue.execute_retrieve(Nsid::FIRST, &key("k"), &mut [0; 8]).unwrap();
    }
    assert!(!bus.state().armed.contains(&queue.qid()));
}
