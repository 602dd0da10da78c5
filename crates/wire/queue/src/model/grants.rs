//! A right that is used without the run lock while a holder of the lock ends it (decision 73).

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;

use super::bounded;
use crate::{Grants, RunLock};

/// What rights rest on and what is read by them: two words that are equal while a right is valid.
struct Device {
    lock: RunLock,
    grants: Grants,
    words: [AtomicU64; 2],
}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: RunLock::with_readers(1),
            grants: Grants::new(),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    fn load(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.words[at].load(Relaxed))
    }

    /// As an admin command that only reports, which ends no right.
    fn report(&self) {
        assert!(self.lock.acquire());
        assert_eq!(self.load(), [0, 0], "nothing has changed yet");
        assert!(self.lock.release());
    }

    /// As an admin command that detaches a namespace and gives its blocks to another: `changes` in all.
    fn change(&self, changes: u64) {
        for change in 1..=changes {
            assert!(self.lock.acquire());
            self.grants.end();
            self.words.iter().for_each(|word| word.store(change, Relaxed));
            assert!(self.lock.release());
        }
    }
}

#[test]
fn reader_by_a_right_sees_nothing_of_the_change_that_ends_it() {
    bounded(3).check(|| {
        let device = Device::new();
        let grant = device.grants.give();
        let owner = {
            let device = device.clone();
            thread::spawn(move || device.change(1))
        };
        let read = device.grants.under(grant, || Some(device.load()));
        assert!(matches!(read, None | Some([0, 0])), "{read:?}");
        owner.join().expect("a thread that ends");
    });
}

#[test]
fn reader_by_a_right_goes_on_beside_a_holder_that_only_reports() {
    bounded(3).check(|| {
        let device = Device::new();
        let grant = device.grants.give();
        let owner = {
            let device = device.clone();
            thread::spawn(move || device.report())
        };
        assert_eq!(device.grants.under(grant, || Some(device.load())), Some([0, 0]));
        owner.join().expect("a thread that ends");
    });
}

#[test]
fn reader_by_a_right_sees_nothing_of_a_change_behind_a_report() {
    bounded(3).check(|| {
        let device = Device::new();
        let grant = device.grants.give();
        let owner = {
            let device = device.clone();
            thread::spawn(move || {
                device.report();
                device.change(1);
            })
        };
        let read = device.grants.under(grant, || Some(device.load()));
        assert!(matches!(read, None | Some([0, 0])), "{read:?}");
        owner.join().expect("a thread that ends");
    });
}

#[test]
fn reader_with_a_new_right_sees_all_of_the_change_before_it() {
    bounded(3).check(|| {
        let device = Device::new();
        let owner = {
            let device = device.clone();
            thread::spawn(move || device.change(2))
        };
        assert!(device.lock.acquire());
        let (grant, [wanted, _]) = (device.grants.give(), device.load());
        assert!(device.lock.release());
        let read = device.grants.under(grant, || Some(device.load()));
        assert!(read.is_none_or(|words| words == [wanted; 2]), "{read:?}");
        owner.join().expect("a thread that ends");
    });
}

#[test]
fn reader_of_the_lock_that_finds_its_right_valid_sees_no_change() {
    bounded(3).check(|| {
        let device = Device::new();
        assert!(device.lock.acquire());
        device.lock.add_reader(0);
        let grant = device.grants.give();
        assert!(device.lock.release());
        let owner = {
            let device = device.clone();
            thread::spawn(move || device.change(1))
        };
        if let Some(reading) = device.lock.read(0) {
            if device.grants.is_valid(grant) {
                assert_eq!(device.load(), [0, 0]);
            }
            drop(reading);
        }
        owner.join().expect("a thread that ends");
    });
}
