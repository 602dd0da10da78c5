//! Writes whose data is withheld on its way to the target: aborted, they end at once, and what comes later is written nowhere.

use std::time::Duration;

use byway::{Backend, BackendQueue, Device, ErrorKind, Nsid, Queue, QueueOptions};

use crate::{LONG, Served, blocks_of, byte_at, next, until, write};

/// More than goes in a capsule.
const BLOCKS: u32 = 128;

/// Time enough for data to come to where it is withheld, on a machine that has much else to do.
const SHORT: Duration = Duration::from_secs(2);

/// A device by one port, block 0 and the next of which are of ones, and a queue of it.
fn prepared(served: &Served, options: QueueOptions) -> (Device, Queue, Nsid) {
    let device = byway::open(&served.serving.uri_by(&[served.relays[0].address])).unwrap();
    let nsid = blocks_of(&device);
    let mut queue = Backend::queue(&device, options).unwrap();
    queue.alone(write(nsid, 0, BLOCKS, 1)).unwrap();
    (device, queue, nsid)
}

/// What was withheld comes, and was too late.
fn find_as_it_was(served: &Served, queue: &mut Queue, nsid: Nsid) {
    let before = served.relays[0].carried();
    served.relays[0].release();
    assert_eq!([0, u64::from(BLOCKS) - 1].map(|slba| byte_at(queue, nsid, slba)), [1; 2]);
    assert!(served.relays[0].carried() - before > 512 * u64::from(BLOCKS), "the late data came first");
    queue.alone(write(nsid, 0, BLOCKS, 3)).unwrap();
    assert_eq!(byte_at(queue, nsid, 0), 3);
}

#[test]
fn write_timed_out_during_its_data_is_aborted_and_frees_its_slot() {
    let served = Served::new();
    let options = QueueOptions::default().depth(1).timeout(LONG);
    let (_device, mut queue, nsid) = prepared(&served, options);
    for _ in 0..2 {
        served.relays[0].hold_data();
        queue.submit_within(write(nsid, 0, BLOCKS, 2), 7, Some(SHORT)).unwrap();
        let failed = next(&mut queue).result.unwrap_err().error;
        assert_eq!(failed.kind(), ErrorKind::TimedOut, "{failed}");
        // The data is still held back: its one slot is free by the answer to the Abort alone.
        queue.submit_within(write(nsid, 0, 1, 1), 8, Some(LONG)).unwrap();
        served.relays[0].release();
        next(&mut queue).result.unwrap();
        queue.alone(write(nsid, 0, BLOCKS, 1)).unwrap();
    }
    served.relays[0].hold_data();
    queue.submit_within(write(nsid, 0, BLOCKS, 2), 9, Some(SHORT)).unwrap();
    next(&mut queue).result.unwrap_err();
    find_as_it_was(&served, &mut queue, nsid);
}

#[test]
fn call_timed_out_during_its_data_is_aborted_and_frees_its_slot() {
    let served = Served::new();
    let options = QueueOptions::default().depth(1).timeout(LONG);
    let (device, mut queue, nsid) = prepared(&served, options);
    let mut hasty = Backend::queue(&device, options.timeout(SHORT)).unwrap();
    served.relays[0].hold_data();
    let failed = hasty.execute(write(nsid, 0, BLOCKS, 2)).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::TimedOut, "{failed}");
    until(|| hasty.submit_within(write(nsid, 200, 1, 1), 1, Some(LONG)).is_ok());
    find_as_it_was(&served, &mut queue, nsid);
    next(&mut hasty).result.unwrap();
}

#[test]
fn write_cancelled_during_its_data_is_aborted_and_never_done() {
    let served = Served::new();
    let options = QueueOptions::default().depth(4).timeout(LONG);
    let (_device, mut queue, nsid) = prepared(&served, options);
    served.relays[0].hold_data();
    let came = served.relays[0].came();
    queue.submit_within(write(nsid, 0, BLOCKS, 2), 7, Some(LONG)).unwrap();
    queue.start().unwrap();
    until(|| {
        assert!(queue.next_finished().unwrap().is_none());
        served.relays[0].came() > came + 4096
    });
    queue.cancel(7).unwrap();
    let failed = next(&mut queue).result.unwrap_err().error;
    assert_eq!(failed.kind(), ErrorKind::Cancelled, "{failed}");
    find_as_it_was(&served, &mut queue, nsid);
}
