//! The initiator against a controller that misbehaves on demand, over real sockets.

#![allow(clippy::unwrap_used, clippy::panic)]

mod connection;
mod controller;
mod disk;
mod faults;
mod gate;
mod habits;
mod identify;
mod limits;
mod log;
mod restarts;
mod served;
mod transfers;
mod unanswered;

use std::time::{Duration, Instant};

use byway_core::{
    Backend, BackendQueue, Buffer, Command, ErrorKind, Finished, Nsid, NvmCommand, Payload, QueueOptions,
};
use byway_kit::pattern;
use byway_tcp_initiator::{
    AuthSecrets, DhchapSecret, Digests, Idle, NvmeTcp, TcpOptions, TcpPlace, TcpQueue, discover,
};

use controller::{NAME, TestController};
use disk::LBA_BYTES;
use habits::{Asks, Habits};

/// Ends of waits that nothing should reach.
const LONG: Duration = Duration::from_secs(30);

fn place(controller: &TestController, name: &str) -> TcpPlace {
    let address = controller.address;
    TcpPlace { host: address.ip().to_string(), port: address.port(), subsystem: name.parse().unwrap() }
}

fn open(controller: &TestController, options: TcpOptions) -> NvmeTcp {
    NvmeTcp::open(place(controller, NAME), options).unwrap()
}

fn queue(device: &NvmeTcp, depth: u32) -> TcpQueue {
    device.queue(QueueOptions::default().depth(depth).timeout(LONG)).unwrap()
}

fn write(slba: u64, data: impl Into<Payload>) -> Command {
    let data = data.into();
    let blocks = (data.len() / LBA_BYTES) as u32;
    NvmCommand::Write { nsid: Nsid::FIRST, slba, blocks, data }.into()
}

fn read(slba: u64, blocks: u32) -> Command {
    let into = Buffer::zeroed(blocks as usize * LBA_BYTES).unwrap();
    NvmCommand::Read { nsid: Nsid::FIRST, slba, blocks, into }.into()
}

/// A fused Compare and Write of the first block.
fn compare_and_write() -> Command {
    let data = Payload::copy_of(&[0; 2 * LBA_BYTES]).unwrap();
    NvmCommand::CompareAndWrite { nsid: Nsid::FIRST, slba: 0, blocks: 1, data }.into()
}

/// Starts a controller, and opens it with default options.
fn opened(habits: Habits) -> (TestController, NvmeTcp) {
    let controller = TestController::start(habits);
    let device = open(&controller, TcpOptions::default());
    (controller, device)
}

/// As [`opened`], with a queue that is connected.
fn connected(habits: Habits, depth: u32) -> (TestController, NvmeTcp, TcpQueue) {
    let (controller, device) = opened(habits);
    let mut queue = queue(&device, depth);
    queue.execute(read(0, 1)).unwrap();
    (controller, device, queue)
}

/// Polls a queue until a condition holds; returns the commands that finished meanwhile.
fn poll_until(queue: &mut impl BackendQueue, mut is: impl FnMut() -> bool) -> Vec<Finished> {
    let (begun, mut all) = (Instant::now(), Vec::new());
    while !is() {
        all.extend(queue.next_finished().unwrap());
        assert!(begun.elapsed() < LONG, "the awaited state was not reached within {LONG:?}");
    }
    all
}

/// Waits for all outstanding commands.
fn drain(queue: &mut impl BackendQueue) -> Vec<Finished> {
    let mut all = Vec::new();
    queue.drain(&mut |finished| all.push(finished)).unwrap();
    all
}

#[test]
fn a_target_that_cannot_be_connected_is_named_in_a_sentence() {
    let controller = TestController::start(Habits::default());
    let wrong = place(&controller, "nqn.2026-01.org.example:other");
    let error = NvmeTcp::open(wrong, TcpOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let wanted = format!("there is no subsystem nqn.2026-01.org.example:other at {}", controller.address);
    assert!(error.to_string().starts_with(&wanted), "{error}");

    let absent = place(&controller, NAME);
    controller.vanish();
    let error = (0..2000)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let error = NvmeTcp::open(absent.clone(), TcpOptions::default()).err()?;
            error.to_string().starts_with("no server listens at").then_some(error)
        })
        .expect("the listener ends");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_controller_without_the_digests_that_are_asked_for_is_not_used() {
    let habits = Habits { digests: Digests::NONE, ..Habits::default() };
    let controller = TestController::start(habits);
    let options = TcpOptions::default().digests(Digests::BOTH);
    let error = NvmeTcp::open(place(&controller, NAME), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("other digests than were asked for"), "{error}");
}

#[test]
fn device_reports_identity_namespaces_and_limits() {
    let (_controller, device) = opened(Habits::default());
    assert_eq!((device.name(), device.identity().model.as_str()), ("tcp", "Test controller"));
    let namespaces = device.namespaces().unwrap();
    assert_eq!((namespaces.len(), namespaces[0].size_bytes), (1, 2 << 20));
    let limits = device.capabilities().limits;
    assert_eq!((limits.queues, limits.ring_entries, limits.inline_bytes), (4, 1024, 8192));
    let queues: Vec<_> = (0..4).map(|_| queue(&device, 1)).collect();
    let error = device.queue(QueueOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(queues);
    queue(&device, 1);
}

#[test]
fn commands_are_done_whichever_way_a_queue_waits() {
    for idle in [Idle::Adaptive, Idle::Sleep, Idle::Poll] {
        let controller = TestController::start(Habits::default());
        let device = open(&controller, TcpOptions::default().idle(idle));
        let mut queue = queue(&device, 4);
        for round in 0..50 {
            let data = Payload::copy_of(&pattern(round, 4 * LBA_BYTES)).unwrap();
            queue.alone(write(8, data)).unwrap();
            let got = queue.alone(read(8, 4)).unwrap().buffer.unwrap();
            assert!(got.as_slice() == pattern(round, 4 * LBA_BYTES), "{idle:?} {round}");
        }
        assert!(queue.next_within(Duration::from_millis(1)).unwrap().is_none());
        assert!(queue.next_within(Duration::ZERO).unwrap().is_none());
    }
}

#[test]
fn a_discovery_service_lists_its_entries() {
    let controller = TestController::start(Habits::default());
    let service = place(&controller, "nqn.2014-08.org.nvmexpress.discovery");
    let found = discover(service, TcpOptions::default()).unwrap();
    assert_eq!(found.entries.len(), 1);
    assert_eq!(found.entries[0].subsystem.as_str(), NAME);
    assert!(found.skipped.is_empty());
}

#[test]
fn keep_alive_is_sent_without_other_commands() {
    let controller = TestController::start(Habits::default());
    let keep_alive = Duration::from_millis(20);
    let device = open(&controller, TcpOptions::default().keep_alive(keep_alive));
    let begun = std::time::Instant::now();
    while controller.keep_alives() < 3 {
        assert!(begun.elapsed() < LONG, "no sign of life");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(device);
}

#[test]
fn open_fails_when_authentication_gets_no_or_invalid_messages() {
    let host: DhchapSecret = "DHHC-1:01:OQmBqENm7JeUZcaf95IgU6vDcimlMupTz9ZK2y86loTjQ9PD:".parse().unwrap();
    let dhchap = Some(AuthSecrets { host, controller: None });
    for (asks, connect_timeout, kind, said) in [
        (Asks::AndIsSilent, Duration::from_secs(1), ErrorKind::TimedOut, "does not answer"),
        (Asks::AndTalksNonsense, LONG, ErrorKind::Denied, "cannot authenticate to"),
    ] {
        let controller = TestController::start(Habits { asks, ..Habits::default() });
        let options = TcpOptions::default().dhchap(dhchap.clone()).connect_timeout(connect_timeout);
        let error = NvmeTcp::open(place(&controller, NAME), options).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(said), "{asks:?}: {error}");
    }
}
