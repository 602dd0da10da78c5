//! A target that exports another target's namespace, behind a relay: Aborts of commands that it holds or has forwarded.

use std::time::Duration;

use byway::serve::{ServeOptions, TcpOptions};
use byway::{BackendQueue, Device, ErrorKind, Nsid, Queue};
use byway_conformance::served::Serving;

use crate::{LONG, Served, byte_at, drain, next, queue, read, until, write};

/// More than goes in a capsule.
const BLOCKS: u32 = 128;

/// Namespaces of the target in front: that of the target behind, and one of its own, whose answers show that the target has read what came before.
const BEHIND: Nsid = Nsid::FIRST;

/// The target in front, one command at a time of which goes to the target behind.
struct Chain {
    device: Device,
    _front: Serving,
    behind: Served,
}

impl Chain {
    fn new() -> Self {
        let behind = Served::new();
        let uri = behind.serving.uri_by(&[behind.relays[0].address]);
        let options = ServeOptions::over_tcp(TcpOptions::at("127.0.0.1:0".parse().unwrap()));
        let exports = vec![format!("{uri}?depth=1"), "blocks:1M".to_owned()];
        let front = Serving::export(&options.exports(exports));
        let device = front.open("").unwrap();
        Self { device, _front: front, behind }
    }

    /// Submits a write to what is behind, and waits until the target in front has it.
    fn begin(&self, queue: &mut Queue, write: byway::Command, tag: u64) {
        queue.submit_within(write, tag, Some(LONG)).unwrap();
        queue.execute(read(Nsid::new(2).unwrap(), 0, 1)).unwrap();
    }

    /// Has the queue go on until the target in front has sent data of a write to the one behind.
    fn hand_on(&self, queue: &mut Queue, write: byway::Command, within: Duration) {
        let before = self.behind.relays[0].came();
        queue.submit_within(write, 7, Some(within)).unwrap();
        queue.start().unwrap();
        until(|| {
            assert!(queue.next_finished().unwrap().is_none());
            self.behind.relays[0].came() > before + 4096
        });
    }
}

#[test]
fn a_write_that_waits_in_a_target_for_a_slow_device_is_aborted_at_once_and_lands_never() {
    let chain = Chain::new();
    let mut queue = queue(&chain.device, 8);
    let relay = &chain.behind.relays[0];
    queue.alone(write(BEHIND, 0, 16, 1)).unwrap();
    relay.hold();
    chain.begin(&mut queue, write(BEHIND, 0, 1, 2), 7);
    chain.begin(&mut queue, write(BEHIND, 8, 1, 2), 8);
    queue.cancel(8).unwrap();
    let aborted = next(&mut queue);
    assert_eq!((aborted.tag, aborted.result.unwrap_err().error.kind()), (8, ErrorKind::Cancelled));
    relay.release();
    assert!(drain(&mut queue).into_iter().all(|finished| finished.tag == 7 && finished.result.is_ok()));
    assert_eq!([0, 8].map(|slba| byte_at(&mut queue, BEHIND, slba)), [2, 1]);
}

#[test]
fn a_write_that_a_target_has_handed_on_is_aborted_where_it_went() {
    let chain = Chain::new();
    let mut queue = queue(&chain.device, 8);
    let relay = &chain.behind.relays[0];
    queue.alone(write(BEHIND, 0, BLOCKS, 1)).unwrap();
    for by_time in [false, true] {
        relay.hold_data();
        let within = if by_time { Duration::from_secs(2) } else { LONG };
        chain.hand_on(&mut queue, write(BEHIND, 0, BLOCKS, 2), within);
        let expected = if by_time { ErrorKind::TimedOut } else { ErrorKind::Cancelled };
        if !by_time {
            queue.cancel(7).unwrap();
        }
        // Its data is still held back.
        let failed = next(&mut queue).result.unwrap_err().error;
        assert_eq!(failed.kind(), expected, "{failed}");
        relay.release();
        assert_eq!([0, u64::from(BLOCKS) - 1].map(|slba| byte_at(&mut queue, BEHIND, slba)), [1; 2]);
    }
    queue.alone(write(BEHIND, 0, BLOCKS, 3)).unwrap();
    assert_eq!(byte_at(&mut queue, BEHIND, 0), 3);
}
