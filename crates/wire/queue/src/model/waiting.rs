//! Units written by a lease, taken in by another thread, and looked for by a reader.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::bounded;
use crate::run_lock::RunLock;
use crate::waiting::Waiting;

/// A map of two units, of which leases write newer versions.
#[derive(Default)]
struct Shared {
    waiting: Waiting<1>,
    lock: RunLock,
    /// Version of each unit that the map names. Stored under the lock, as relaxed as a data race would be.
    map: [AtomicU64; 2],
    /// Versions that were acknowledged.
    acknowledged: [AtomicU64; 2],
}

impl Shared {
    /// Takes in one unit, under the lock.
    fn take_in(&self, unit: usize, version: u64) {
        self.map[unit].store(version, Ordering::Relaxed);
        self.waiting.note_taken_in(1);
    }

    /// A reader finds no version older than what was acknowledged before it began, or that one waits.
    fn check(&self, unit: usize) {
        let oldest = self.acknowledged[unit].load(Ordering::Acquire);
        if !self.waiting.has_any(unit as u64, 1) {
            assert!(self.map[unit].load(Ordering::Relaxed) >= oldest);
        }
    }
}

#[test]
fn a_reader_misses_no_unit_that_is_taken_in_meanwhile() {
    bounded(3).check(|| {
        let shared = Arc::new(Shared::default());
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.waiting.publish(0);
                shared.acknowledged[0].store(1, Ordering::Release);
                assert!(shared.lock.acquire());
                shared.take_in(0, 1);
                shared.lock.release();
            })
        };
        shared.check(0);
        writer.join().unwrap();
        shared.check(0);
    });
}

#[test]
fn a_place_that_is_used_again_hides_no_unit_that_was_taken_in() {
    bounded(3).check(|| {
        let shared = Arc::new(Shared::default());
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.waiting.publish(0);
                shared.acknowledged[0].store(1, Ordering::Release);
                // The lease is full: its thread takes in, and writes again.
                shared.take_in(0, 1);
                shared.waiting.publish(1);
                shared.acknowledged[1].store(1, Ordering::Release);
            })
        };
        shared.check(0);
        shared.check(1);
        writer.join().unwrap();
    });
}

#[test]
fn a_unit_taken_in_by_another_thread_is_seen_by_who_finds_the_next_in_its_place() {
    bounded(3).check(|| {
        let shared = Arc::new(Shared::default());
        shared.waiting.publish(0);
        shared.acknowledged[0].store(1, Ordering::Relaxed);
        let taker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                assert!(shared.lock.acquire());
                shared.take_in(0, 1);
                shared.lock.release();
            })
        };
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // It renews its lease under the lock, if the unit was taken in.
                if shared.lock.try_acquire() {
                    let is_taken_in = shared.map[0].load(Ordering::Relaxed) == 1;
                    shared.lock.release();
                    if is_taken_in {
                        shared.waiting.publish(1);
                    }
                }
            })
        };
        shared.check(0);
        taker.join().unwrap();
        writer.join().unwrap();
        shared.check(0);
    });
}
