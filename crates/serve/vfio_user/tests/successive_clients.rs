//! Successive clients: the one that waits when another leaves is next, and none is closed without an answer.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, Sender, channel};

use byway_vfio_user_wire::{Access, Errno, MessageId, RegionIndex, Request};
use common::{Client, Host, Served, begin};

const CONNECTS: u32 = 100;

/// Two requests of the served client: once the second is answered, every client that connected before the first is accepted.
fn let_others_in(client: &mut Client) {
    for _ in 0..2 {
        client.ask(&Request::DeviceGetInfo).unwrap();
    }
}

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(MessageId(1), false, &mut bytes);
    bytes
}

#[test]
fn waiting_client_is_served_when_the_first_leaves() {
    let served = Served::new();
    let mut first = served.client();
    let mut next = served.connect();
    let_others_in(&mut first);
    drop(first);
    next.ask(&begin()).unwrap();
}

#[test]
fn client_in_its_first_message_is_served_when_the_first_leaves() {
    let served = Served::new();
    let mut first = served.client();
    let mut next = served.connect();
    let bytes = encoded(&begin());
    for part in [&bytes[..10], &bytes[10..20]] {
        next.send(part, &[]);
        let_others_in(&mut first);
    }
    drop(first);
    next.send(&bytes[20..], &[]);
    assert_eq!(next.receive().unwrap().0.error, None);
    next.ask(&Request::DeviceGetInfo).unwrap();
}

#[test]
fn client_is_served_while_requests_of_the_one_that_left_are_still_being_read() {
    let served = Served::new();
    let from = Access { region: RegionIndex::BAR0, offset: 0, bytes: 0x4000 };
    let mut words = Vec::new();
    (0..1000).for_each(|id| Request::RegionRead(from).encode(MessageId(id), true, &mut words));
    for _ in 0..20 {
        let mut first = served.client();
        first.stream.write_all(&words).unwrap();
        drop(first);
        served.client();
    }
}

#[test]
fn silent_and_half_sent_clients_do_not_block_others() {
    let served = Served::new();
    let bytes = encoded(&begin());
    let mut waiting: Vec<_> = (0..20).map(|_| served.connect()).collect();
    // Only as many as wait are still there.
    waiting.iter_mut().for_each(|client| drop(client.stream.write_all(&bytes[..17])));
    let mut host = Host::new(&served);
    host.write_blocks(0, &[1; 512]);
}

#[test]
fn two_threads_connecting_alternately_are_never_refused() {
    let served = Served::new();
    let ((to_first, first_s), (to_second, second_s)) = (channel(), channel());
    let connect = |mine: Receiver<()>, other: Sender<()>| {
        for _ in 0..CONNECTS {
            mine.recv().unwrap();
            drop(served.client());
            // The other may have ended after its last.
            let _ = other.send(());
        }
    };
    to_first.send(()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| connect(first_s, to_second));
        scope.spawn(|| connect(second_s, to_first));
    });
}

#[test]
fn two_threads_connecting_at_any_time_are_always_answered() {
    let served = Served::new();
    let connect = || {
        let mut left = CONNECTS;
        while left > 0 {
            let mut client = served.connect();
            match client.ask(&begin()) {
                Ok(_) => left -= 1,
                Err(error) => assert_eq!(error, Errno::EBUSY),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(connect);
        scope.spawn(connect);
    });
}

#[test]
fn half_closed_client_that_reads_nothing_does_not_block_others() {
    let served = Served::new();
    let mut first = served.client();
    let from = Access { region: RegionIndex::BAR0, offset: 0, bytes: 0x4000 };
    // More answers than its socket takes.
    let mut words = Vec::new();
    (0..200).for_each(|id| Request::RegionRead(from).encode(MessageId(id), false, &mut words));
    first.send(&words, &[]);
    first.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(served.connect().ask(&begin()), Err(Errno::EBUSY));
}
