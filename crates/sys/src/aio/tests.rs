//! A ring over a small file.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::wakeup::wait_readable;
use std::io::Write;

/// A box of bytes.
struct Boxed(Box<[u8]>);

// SAFETY: the box stays where it is wherever its owner goes.
unsafe impl KernelMemory for Boxed {
    fn segments(&self) -> usize {
        1
    }

    fn segment(&self, _: usize) -> Option<(NonNull<u8>, usize)> {
        Some((NonNull::from(&*self.0).cast(), self.0.len()))
    }
}

/// A ring over a file of 100 bytes, each of its place's value.
fn ring(depth: u32) -> Aio<Boxed, u32> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&(0..100).collect::<Vec<u8>>()).unwrap();
    Aio::new(Arc::new(file), depth).unwrap()
}

fn push_reads(ring: &mut Aio<Boxed, u32>, count: u32) {
    for ticket in 0..count {
        let held = Boxed(vec![0xff; 4].into());
        assert!(ring.push(held, ticket, Transfer::Read { at: u64::from(ticket) }).is_ok());
    }
}

/// Takes so many reads and checks what they brought.
fn expect_reads(ring: &mut Aio<Boxed, u32>, count: u32) {
    let mut seen = vec![false; count as usize];
    while seen.contains(&false) {
        let Some(done) = ring.next_completed().unwrap() else {
            ring.sleep(Duration::from_secs(20)).unwrap();
            continue;
        };
        let first = done.ticket as u8;
        let read: Vec<u8> = (first..first + 4).collect();
        assert_eq!((done.result.unwrap(), &*done.held.0), (4, &*read));
        assert!(!std::mem::replace(&mut seen[done.ticket as usize], true));
    }
}

#[test]
fn more_operations_than_one_call_begins_all_complete_many_times_around_the_ring() {
    let mut ring = ring(90);
    for _ in 0..20 {
        push_reads(&mut ring, 90);
        expect_reads(&mut ring, 90);
    }
    assert!(ring.next_completed().unwrap().is_none());
}

#[test]
fn completions_come_by_system_call_where_the_ring_cannot_be_read() {
    let mut ring = ring(90);
    assert!(ring.context.entries >= 90, "this kernel's ring can");
    ring.context.entries = 0;
    push_reads(&mut ring, 90);
    expect_reads(&mut ring, 90);
}

#[test]
fn a_read_across_the_end_returns_how_much_there_was() {
    let mut ring = ring(2);
    assert!(ring.push(Boxed(vec![0; 64].into()), 1, Transfer::Read { at: 90 }).is_ok());
    assert!(ring.push(Boxed(vec![0; 64].into()), 2, Transfer::Read { at: 100 }).is_ok());
    assert!(ring.push(Boxed(vec![0; 64].into()), 3, Transfer::Sync).is_err(), "the ring is full");
    ring.start().unwrap();
    let mut moved = Vec::new();
    while moved.len() < 2 {
        ring.sleep(Duration::from_secs(20)).unwrap();
        moved.extend(ring.next_completed().unwrap().map(|done| (done.ticket, done.result.unwrap())));
    }
    moved.sort_unstable();
    assert_eq!(moved, [(1, 10), (2, 0)]);
}

#[test]
fn gathered_operations_are_taken_back_and_begun_ones_are_not() {
    let mut ring = ring(4);
    push_reads(&mut ring, 2);
    assert_eq!(ring.take_back(|ticket| *ticket == 1).unwrap().1, 1);
    ring.start().unwrap();
    assert!(ring.take_back(|_| true).is_none());
    assert!(ring.has(|ticket| *ticket == 0) && !ring.has(|ticket| *ticket == 1));
    expect_reads(&mut ring, 1);
}

#[test]
fn reap_takes_completions_without_starting_gathered_operations() {
    let mut ring = ring(4);
    push_reads(&mut ring, 1);
    ring.sleep(Duration::from_secs(20)).unwrap();
    push_reads(&mut ring, 2);
    assert!(ring.reap().is_some());
    assert_eq!(ring.gathered(), 2);
    assert!(ring.reap().is_none(), "one was begun");
    expect_reads(&mut ring, 2);
}

#[test]
fn an_event_asked_for_late_signals_operations_that_began_before() {
    let mut ring = ring(8);
    push_reads(&mut ring, 4);
    ring.start().unwrap();
    assert!(wait_readable(ring.event().unwrap(), Duration::from_secs(20)).unwrap());
    expect_reads(&mut ring, 4);
    assert!(ring.next_completed().unwrap().is_none());
    assert!(!wait_readable(ring.event().unwrap(), Duration::ZERO).unwrap());
    push_reads(&mut ring, 1);
    ring.start().unwrap();
    assert!(wait_readable(ring.event().unwrap(), Duration::from_secs(20)).unwrap());
    expect_reads(&mut ring, 1);
}

#[test]
fn a_file_that_cannot_be_written_fails_the_operation_and_not_the_ring() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let mut ring: Aio<Boxed, u32> = Aio::new(Arc::new(file), 4).unwrap();
    let write = Transfer::Write { at: 0, durable: true };
    assert!(ring.push(Boxed(vec![0; 4].into()), 1, write).is_ok());
    assert!(ring.push(Boxed(vec![0; 4].into()), 2, Transfer::Read { at: 0 }).is_ok());
    let mut done = Vec::new();
    while done.len() < 2 {
        ring.sleep(Duration::from_secs(20)).unwrap();
        done.extend(ring.next_completed().unwrap().map(|done| (done.ticket, done.result.is_ok())));
    }
    done.sort_unstable();
    assert_eq!(done, [(1, false), (2, true)]);
}
