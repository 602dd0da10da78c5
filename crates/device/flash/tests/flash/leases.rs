//! Threads that write blocks by leases beside each other, and beside the holder of the device.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byway_flash::{
    BlockLease, BlockReader, Cause, Durability, Flash, FlashOptions, Injection, MediaKind, OpenOptions,
    Reads, RunOptions, UNIT_BYTES,
};
use byway_kit::Random;

use crate::common::{MIB, extent, nvm, open, read_unit, small_profile, unit_of};

const UNITS: u64 = 700;

fn with(media: MediaKind, run: RunOptions) -> Flash {
    let options = FlashOptions::new(4 * MIB, small_profile(), media).run(run).timing(false);
    Flash::create(options, &[nvm(4 * MIB)]).unwrap()
}

fn in_memory() -> Flash {
    with(MediaKind::Ram, RunOptions::default())
}

/// A thread's means to write and to read, and the device that it shares.
struct Thread<'a> {
    flash: &'a Mutex<Flash>,
    lease: BlockLease,
    reader: BlockReader,
}

impl<'a> Thread<'a> {
    fn new(flash: &'a Mutex<Flash>) -> Self {
        let mut held = flash.lock().unwrap();
        let lease = held.open_block_lease().unwrap();
        let reader = held.block_reader(extent(&held, 1)).unwrap();
        Self { flash, lease, reader }
    }

    fn write(&self, unit: u64, data: &[u8]) {
        let write = || self.reader.write_by(&self.lease, unit * UNIT_BYTES as u64, data, || true);
        if write() {
            return;
        }
        let mut flash = self.flash.lock().unwrap();
        flash.renew_block_lease(&self.lease).unwrap();
        if !write() {
            // The first write to a part of the map.
            let extent = extent(&flash, 1);
            flash.write_units(extent, unit, data, Cause::Host, &mut 0).unwrap();
        }
    }

    fn read(&self, unit: u64) -> Vec<u8> {
        let mut into = vec![0; UNIT_BYTES];
        if self.reader.read(unit * UNIT_BYTES as u64, &mut into).is_some() {
            return into;
        }
        let mut flash = self.flash.lock().unwrap();
        flash.take_in_writes();
        let extent = extent(&flash, 1);
        read_unit(&mut flash, extent, unit).unwrap()
    }

    fn close(self) {
        self.flash.lock().unwrap().close_block_lease(&self.lease);
    }
}

/// Threads pass a unit on to each other, each time written anew by another lease: every thread reads what was written last.
fn units_passed_on(flash: Flash, rounds: u64) -> Flash {
    const THREADS: u64 = 3;
    let flash = Mutex::new(flash);
    let turn = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (thread, turn) = (Thread::new(&flash), &turn);
            scope.spawn(move || {
                let mut numbers = Random::new(number);
                for round in 0..rounds {
                    let own = UNITS / 2 + number * 100 + numbers.below(100);
                    thread.write(own, &unit_of(round));
                    while turn.load(Ordering::Acquire) != round * THREADS + number {
                        std::thread::yield_now();
                    }
                    let unit = (round / 8) % 5;
                    let step = round * THREADS + number;
                    if !step.is_multiple_of(8 * THREADS) {
                        assert_eq!(thread.read(unit), unit_of(step - 1), "step {step}");
                    }
                    thread.write(unit, &unit_of(step));
                    assert_eq!(thread.read(unit), unit_of(step), "step {step}, its own");
                    turn.store(step + 1, Ordering::Release);
                    assert_eq!(thread.read(own), unit_of(round));
                }
                thread.close();
            });
        }
    });
    let mut flash = flash.into_inner().unwrap();
    assert!(flash.counters()[Cause::Gc].erases > 20, "blocks were collected meanwhile");
    assert_eq!(flash.check(), []);
    flash
}

#[test]
fn unit_passed_on_between_leases_is_what_was_written_last() {
    units_passed_on(in_memory(), 6000);
}

#[test]
fn unit_passed_on_between_leases_of_an_image_is_what_was_written_last() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = units_passed_on(with(MediaKind::File(path.clone()), RunOptions::default()), 3000);
    let last = {
        let extent = extent(&flash, 1);
        (0..UNITS).map(|unit| read_unit(&mut flash, extent, unit).unwrap()).collect::<Vec<_>>()
    };
    flash.close().unwrap();
    drop(flash);
    let mut flash = open(&path).unwrap();
    let extent = extent(&flash, 1);
    for (unit, data) in (0..).zip(&last) {
        assert_eq!(&read_unit(&mut flash, extent, unit).unwrap(), data);
    }
}

#[test]
fn holder_that_recalls_leases_sees_every_write_and_none_is_taken_meanwhile() {
    let flash = Mutex::new(in_memory());
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let thread = Thread::new(&flash);
        let (is_over, acknowledged) = (&is_over, &acknowledged);
        scope.spawn(move || {
            for step in 1.. {
                thread.write(step % UNITS, &unit_of(step));
                acknowledged.store(step, Ordering::SeqCst);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..100 {
            let mut flash = flash.lock().unwrap();
            flash.take_in_writes();
            let last = acknowledged.load(Ordering::SeqCst);
            let extent = extent(&flash, 1);
            if last > 0 {
                let found = read_unit(&mut flash, extent, last % UNITS).unwrap();
                assert!(found == unit_of(last) || found == unit_of(last + UNITS), "step {last}");
            }
            let mut all =
                || (0..UNITS).map(|unit| read_unit(&mut flash, extent, unit).unwrap()).collect::<Vec<_>>();
            let before = all();
            std::thread::yield_now();
            assert!(before == all(), "a write was taken");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn lease_takes_no_write_before_it_is_renewed_after_its_end_or_where_it_is_not_granted() {
    let flash = Mutex::new(in_memory());
    let thread = Thread::new(&flash);
    let write =
        |at: u64, data: &[u8], granted: bool| thread.reader.write_by(&thread.lease, at, data, || granted);
    let (unit, second) = (unit_of(1), UNIT_BYTES as u64);
    assert!(!write(0, &unit, true), "it has no slots");
    // The first write to a part of the map takes its room.
    let extent = extent(&flash.lock().unwrap(), 1);
    flash.lock().unwrap().write_units(extent, 0, &unit, Cause::Host, &mut 0).unwrap();
    flash.lock().unwrap().renew_block_lease(&thread.lease).unwrap();
    assert!(write(0, &unit, true) && !write(second, &unit, false));
    assert!(!write(512, &unit, true) && !write(0, &unit[..512], true), "parts of units");
    assert!(!write(4 * MIB, &unit, true) && !write(u64::MAX - 4095, &unit, true), "beyond the extent");
    assert!(!write(0, &vec![0; 64 * UNIT_BYTES], true), "more than it has room for");
    flash.lock().unwrap().take_in_writes();
    assert!(!write(0, &unit, true), "it was recalled");
    flash.lock().unwrap().renew_block_lease(&thread.lease).unwrap();
    assert!(write(second, &unit, true));
    flash.lock().unwrap().close_block_lease(&thread.lease);
    assert!(!write(0, &unit, true), "it has ended");
    let mut flash = flash.lock().unwrap();
    assert_eq!(read_unit(&mut flash, extent, 1).unwrap(), unit);
}

#[test]
fn leases_are_given_only_where_writes_may_come_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let none = |run: RunOptions| {
        let path = dir.path().join("image");
        let mut flash = with(MediaKind::File(path.clone()), run);
        let lease = flash.open_block_lease();
        drop(flash);
        std::fs::remove_file(path).unwrap();
        lease.is_none()
    };
    assert!(!none(RunOptions::default()));
    assert!(none(RunOptions::default().durability(Durability::Media)));
    assert!(none(RunOptions::default().durability(Durability::Volatile)));
    assert!(none(RunOptions::default().reads(Reads::Checked)));
    let injection: Injection = "read:nth=9".parse().unwrap();
    assert!(none(RunOptions::default().injection(Some(injection))));
    let mut flash = in_memory();
    let leases: Vec<BlockLease> = std::iter::from_fn(|| flash.open_block_lease()).collect();
    assert_eq!(leases.len(), 8);
    leases.iter().for_each(|lease| flash.renew_block_lease(lease).unwrap());
    let extent = extent(&flash, 1);
    for unit in 0..UNITS {
        flash.write_units(extent, unit, &unit_of(unit), Cause::Host, &mut 0).unwrap();
    }
    assert!((0..UNITS).all(|unit| read_unit(&mut flash, extent, unit).unwrap() == unit_of(unit)));
    flash.close_block_lease(&leases[3]);
    assert!(flash.open_block_lease().is_some(), "that of another thread");
}

/// Superblock byte of the features that older versions must not open.
fn incompatible(path: &Path) -> u8 {
    std::fs::read(path).unwrap()[32]
}

#[test]
fn image_with_leases_is_marked_until_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = with(MediaKind::File(path.clone()), RunOptions::default());
    let extent = extent(&flash, 1);
    flash.write_units(extent, 0, &unit_of(1), Cause::Host, &mut 0).unwrap();
    assert_eq!(incompatible(&path), 0);
    let lease = flash.open_block_lease().unwrap();
    let reader = flash.block_reader(extent).unwrap();
    flash.renew_block_lease(&lease).unwrap();
    assert!(reader.write_by(&lease, 4096, &unit_of(2), || true));
    // Dies.
    drop((flash, reader, lease));
    assert_eq!(incompatible(&path), 1);
    let mut looked_at = Flash::open(&path, OpenOptions::default().read_only(true)).unwrap();
    assert_eq!(read_unit(&mut looked_at, extent, 1).unwrap(), unit_of(2));
    looked_at.close().unwrap();
    drop(looked_at);
    assert_eq!(incompatible(&path), 1);
    let mut flash = open(&path).unwrap();
    assert_eq!(read_unit(&mut flash, extent, 1).unwrap(), unit_of(2));
    flash.close().unwrap();
    drop(flash);
    assert_eq!(incompatible(&path), 0);
    assert_eq!(read_unit(&mut open(&path).unwrap(), extent, 1).unwrap(), unit_of(2));
}

#[test]
fn follower_sees_units_that_wait_in_leases() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = with(MediaKind::File(path.clone()), RunOptions::default());
    let extent = extent(&flash, 1);
    flash.write_units(extent, 5, &unit_of(1), Cause::Host, &mut 0).unwrap();
    let mut follower = Flash::open(&path, OpenOptions::default().follow(true)).unwrap();
    let lease = flash.open_block_lease().unwrap();
    let reader = flash.block_reader(extent).unwrap();
    for step in 2..200 {
        if !reader.write_by(&lease, 5 * 4096, &unit_of(step), || true) {
            flash.renew_block_lease(&lease).unwrap();
            assert!(reader.write_by(&lease, 5 * 4096, &unit_of(step), || true));
        }
        assert_eq!(read_unit(&mut follower, extent, 5).unwrap(), unit_of(step));
    }
    flash.close_block_lease(&lease);
    assert_eq!(read_unit(&mut follower, extent, 5).unwrap(), unit_of(199));
}
