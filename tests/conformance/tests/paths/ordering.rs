//! An old write never lands after a new one, whatever is between a host and a port keeps it and however long.

use byway::{ErrorKind, Key, Retry, StoreOptions};
use byway_conformance::scratch::Scratch;
use byway_core::encode;

use super::*;

/// A host that its controllers miss before long, and not where the machine has something else to do for a second.
const SOON_MISSED: &str = "keep-alive=3";

/// Has the first port's relay keep what is submitted, and the host lose that port. Its controller does not hear of it.
fn stray(served: &Served, (device, queue): (&Device, &mut Queue), commands: Vec<Command>) {
    let [first, _] = &served.relays;
    first.hold();
    let came = first.came();
    let count = commands.len() as u64;
    let sent =
        |command: &Command| if let encode::Data::Out(data) = encode::data(command) { data.len() } else { 0 };
    // As a whole, or it is none.
    let data_bytes = commands.iter().map(sent).sum::<usize>() as u64;
    for (tag, command) in (0..).zip(commands) {
        queue.submit(command, tag).unwrap();
    }
    queue.start().unwrap();
    until(|| first.came() >= came + count * 72 + data_bytes);
    first.drop_hosts();
    until(|| device.paths().unwrap()[0].lost.is_some());
}

/// Both relays' hosts prefer the first port.
fn prepared(served: &Served, options: &str) -> (Device, Queue, Nsid) {
    let device = served.open(options);
    let mut queue = queue(&device, 16);
    let nsid = blocks_of(&device);
    let before = served.relays[0].carried();
    queue.alone(write(nsid, 0, 8, 1)).unwrap();
    assert!(served.relays[0].carried() > before + 8 * LBA_BYTES as u64);
    (device, queue, nsid)
}

#[test]
fn newer_write_waits_until_the_old_writes_controller_has_ended() {
    let served = Served::new();
    let (device, mut queue, nsid) = prepared(&served, SOON_MISSED);
    stray(&served, (&device, &mut queue), vec![write(nsid, 0, 1, 2)]);
    queue.submit(write(nsid, 0, 1, 3), 7).unwrap();
    let finished = [next(&mut queue), next(&mut queue)];
    assert_eq!([finished[0].tag, finished[1].tag], [0, 7], "in their order");
    finished.into_iter().for_each(|finished| drop(finished.result.unwrap()));
    assert_eq!(byte_at(&mut queue, nsid, 0), 3);
    // The old one comes only now.
    let carried = served.relays[0].carried();
    served.relays[0].release();
    until(|| served.relays[0].carried() > carried + LBA_BYTES as u64);
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(byte_at(&mut queue, nsid, 0), 3, "the old write landed after the new one");
    }
    served.relays[0].restore();
    stand(&device, 2);
}

#[test]
fn an_old_write_that_is_released_in_time_lands_before_the_newer() {
    let served = Served::new();
    let (device, mut queue, nsid) = prepared(&served, "keep-alive=30");
    stray(&served, (&device, &mut queue), vec![write(nsid, 0, 1, 2)]);
    queue.submit(write(nsid, 0, 1, 3), 7).unwrap();
    // Nothing shows that the old one is over: neither completes.
    for _ in 0..50 {
        assert!(queue.next_within(Duration::from_millis(5)).unwrap().is_none());
    }
    served.relays[0].release();
    assert!(drain(&mut queue).into_iter().all(|finished| finished.result.is_ok()));
    assert_eq!(byte_at(&mut queue, nsid, 0), 3);
}

#[test]
fn reads_and_writes_of_other_blocks_do_not_wait_for_an_old_write() {
    let served = Served::new();
    let (device, mut queue, nsid) = prepared(&served, "keep-alive=30");
    stray(&served, (&device, &mut queue), vec![write(nsid, 0, 4, 2), read(nsid, 0, 8)]);
    queue.submit(write(nsid, 4, 4, 3), 7).unwrap();
    queue.submit(write(nsid, 3, 1, 9), 8).unwrap();
    queue.submit(read(nsid, 4, 4), 9).unwrap();
    queue.submit(NvmCommand::Flush { nsid }.into(), 10).unwrap();
    let mut tags: Vec<u64> =
        (0..4).map(|_| next(&mut queue)).map(|one| one.result.map(|_| one.tag).unwrap()).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 7, 9, 10]);
    assert!(queue.next_within(Duration::from_millis(50)).unwrap().is_none());
    served.relays[0].release();
    assert_eq!(drain(&mut queue).len(), 2);
    let bytes = [0, 2, 3, 4].map(|slba| byte_at(&mut queue, nsid, slba));
    assert_eq!(bytes, [2, 2, 9, 3]);
}

#[test]
fn a_write_by_a_better_path_waits_for_an_older_one_of_the_same_blocks_that_is_under_way_by_another() {
    let mut tcp = two_ports();
    tcp.ana = vec![AnaSetting { port: PortId(2), nsid: None, state: AnaState::INACCESSIBLE }];
    let served = Served::with(tcp);
    served.set(1, AnaState::NON_OPTIMIZED);
    let (device, mut queue, nsid) = prepared(&served, "keep-alive=30");
    let [first, _] = &served.relays;
    first.hold();
    let came = first.came();
    queue.submit(write(nsid, 0, 1, 2), 0).unwrap();
    queue.start().unwrap();
    until(|| first.came() > came);
    served.set(2, AnaState::OPTIMIZED);
    until(|| device.paths().unwrap()[1].states[0].1 == AnaState::OPTIMIZED);
    queue.submit(write(nsid, 0, 1, 3), 1).unwrap();
    queue.submit(write(nsid, 1, 1, 4), 2).unwrap();
    assert_eq!(next(&mut queue).tag, 2);
    assert!(queue.next_within(Duration::from_millis(50)).unwrap().is_none());
    first.release();
    let done = drain(&mut queue).into_iter().map(|one| one.result.map(|_| one.tag).unwrap());
    assert_eq!(done.collect::<Vec<u64>>(), [0, 1]);
    assert_eq!(byte_at(&mut queue, nsid, 0), 3);
    assert!(device.paths().unwrap().iter().all(|path| path.lost.is_none()), "nothing was lost");
}

#[test]
fn without_a_witness_a_write_waits_for_the_old_keep_alive_timeout() {
    let served = Served::new();
    let (device, mut queue, nsid) = prepared(&served, SOON_MISSED);
    let [first, second] = &served.relays;
    stray(&served, (&device, &mut queue), vec![write(nsid, 0, 1, 2)]);
    queue.submit(write(nsid, 0, 1, 3), 7).unwrap();
    // The other port's host is another from here on: that it does not have the old controller says nothing.
    second.cut();
    assert!(queue.next_within(Duration::from_millis(5)).unwrap().is_none());
    second.restore();
    let finished = drain(&mut queue);
    assert!(finished.iter().all(|finished| finished.result.is_ok()), "{finished:?}");
    first.release();
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(byte_at(&mut queue, nsid, 0), 3);
    }
}

#[test]
fn port_that_never_listed_a_controller_does_not_release_a_write() {
    let scratch = Scratch::new();
    // Two machines that export the same blocks: neither knows the other's controllers.
    let exports = vec![format!("file:{}", scratch.path.display())];
    let tcp = TcpOptions::at("127.0.0.1:0".parse().unwrap());
    let options = ServeOptions::over_tcp(tcp).exports(exports);
    let [serving, other] = [(); 2].map(|()| Serving::export(&options));
    // Controllers of the same number prove nothing.
    drop(other.open("").unwrap());
    let relays = [serving.tcp_address(), other.tcp_address()].map(Relay::to);
    let served = Served { relays, serving };
    let (device, mut queue, nsid) = prepared(&served, "keep-alive=30");
    stray(&served, (&device, &mut queue), vec![write(nsid, 0, 1, 2)]);
    queue.submit(write(nsid, 0, 1, 3), 7).unwrap();
    queue.submit(write(nsid, 1, 1, 4), 8).unwrap();
    assert_eq!(next(&mut queue).tag, 8);
    for _ in 0..50 {
        assert!(queue.next_within(Duration::from_millis(5)).unwrap().is_none());
    }
    served.relays[0].release();
}

#[test]
fn non_idempotent_command_fails_after_its_controller_has_ended() {
    let served = Served::new();
    let (device, mut queue, _) = prepared(&served, SOON_MISSED);
    let nsid = device.kv_namespace(None).unwrap().nsid;
    let key = |text: &str| Key::new(text.as_bytes()).unwrap();
    let store = |text, value: &[u8]| -> Command {
        let (value, options) = (Payload::copy_of(value).unwrap(), StoreOptions::NONE);
        KvCommand::Store { nsid, key: key(text), value, options }.into()
    };
    queue.alone(store("gone", b"old")).unwrap();
    let delete = KvCommand::Delete { nsid, key: key("gone") }.into();
    stray(&served, (&device, &mut queue), vec![delete, store("kept", b"first")]);
    queue.submit(store("gone", b"new"), 7).unwrap();
    queue.submit(store("kept", b"second"), 8).unwrap();
    let mut finished = drain(&mut queue);
    finished.sort_by_key(|finished| finished.tag);
    let failed = finished.remove(0).result.unwrap_err();
    assert_eq!((failed.error.kind(), failed.error.retry()), (ErrorKind::DeviceLost, Retry::Once));
    assert!(finished.into_iter().all(|finished| finished.result.is_ok()));
    served.relays[0].release();
    std::thread::sleep(Duration::from_millis(100));
    let mut kv = device.kv(Some(nsid)).unwrap();
    assert_eq!(kv.get(b"gone").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(kv.get(b"kept").unwrap().as_deref(), Some(&b"second"[..]));
}

#[test]
fn a_write_that_is_given_up_while_it_is_on_its_way_is_reported_once_it_can_land_no_more() {
    let served = Served::new();
    let (device, mut queue, nsid) = prepared(&served, SOON_MISSED);
    stray(&served, (&device, &mut queue), vec![write(nsid, 0, 1, 2)]);
    until(|| {
        assert!(queue.next_finished().unwrap().is_none());
        queue.cancel(0).unwrap();
        true
    });
    let failed = next(&mut queue).result.unwrap_err();
    assert!(matches!(failed.error.kind(), ErrorKind::Cancelled | ErrorKind::DeviceLost), "{}", failed.error);
    queue.alone(write(nsid, 0, 1, 3)).unwrap();
    served.relays[0].release();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(byte_at(&mut queue, nsid, 0), 3);
    }
}
