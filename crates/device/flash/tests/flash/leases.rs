//! Threads that write blocks by leases beside each other, and beside the holder of the device.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byway_flash::{
    BlockLease, BlockReader, Cause, Durability, Flash, FlashOptions, Injection, MediaKind, OpenOptions,
    Reads, RunOptions, UNIT_BYTES,
};
use byway_kit::Random;
use byway_sys::CopyFile;

use crate::common::{MIB, extent, nvm, open, read_unit, small_profile, unit_of};

const UNITS: u64 = 700;

fn with(media: MediaKind, run: RunOptions) -> Flash {
    let options = FlashOptions::new(4 * MIB, small_profile(), media).run(run).timing(false);
    Flash::create(options, &[nvm(4 * MIB)]).unwrap()
}

fn in_memory() -> Flash {
    with(MediaKind::Ram, RunOptions::default())
}

/// A lease that has slots, and a reader of its blocks.
fn leased(flash: &mut Flash) -> (BlockLease, BlockReader) {
    let lease = flash.open_block_lease().unwrap();
    flash.renew_block_lease(&lease).unwrap();
    let reader = flash.block_reader(extent(flash, 1)).unwrap();
    (lease, reader)
}

/// Writes a unit by a lease, which is renewed first if it has no room.
fn write_by(flash: &mut Flash, (lease, reader): (&BlockLease, &BlockReader), unit: u64, step: u64) {
    let write = || reader.write_by(lease, unit * 4096, &unit_of(step), || true);
    if !write() {
        flash.renew_block_lease(lease).unwrap();
        assert!(write(), "step {step}");
    }
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

/// Threads pass a unit on to each other, each time written anew by another lease: every thread reads what was written last. Another thread
/// does steps of collection that no write waits for.
fn units_passed_on(flash: Flash, rounds: u64) -> Flash {
    const THREADS: u64 = 3;
    let flash = Mutex::new(flash);
    let (turn, steps) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while turn.load(Ordering::Acquire) < rounds * THREADS {
                steps.fetch_add(u64::from(flash.lock().unwrap().keep_up(0)), Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
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
    assert!(steps.into_inner() > 20, "some of that by steps that no write waited for");
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
    assert!(!none(RunOptions::default().durability(Durability::Volatile)));
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
    let (lease, reader) = leased(&mut flash);
    for step in 2..200 {
        write_by(&mut flash, (&lease, &reader), 5, step);
        assert_eq!(read_unit(&mut follower, extent, 5).unwrap(), unit_of(step));
    }
    flash.close_block_lease(&lease);
    assert_eq!(read_unit(&mut follower, extent, 5).unwrap(), unit_of(199));
}

/// A device whose every unit was written by step 0, and which collects blocks.
fn worn(path: &Path) -> Flash {
    let mut flash = with(MediaKind::File(path.into()), RunOptions::default());
    let extent = extent(&flash, 1);
    (0..UNITS).for_each(|unit| flash.write_units(extent, unit, &unit_of(0), Cause::Host, &mut 0).unwrap());
    wear(&mut flash, 0);
    flash
}

/// Writes units from `first` on at random, until collection has moved many.
fn wear(flash: &mut Flash, first: u64) {
    let (extent, before) = (extent(flash, 1), flash.counters()[Cause::Gc].programs);
    let mut random = Random::new(first);
    while flash.counters()[Cause::Gc].programs < before + 100 {
        let unit = first + random.below(UNITS - first);
        flash.write_units(extent, unit, &unit_of(0), Cause::Host, &mut 0).unwrap();
    }
}

/// Does a step of collection that no write waits for, once one is due.
fn collect_ahead(flash: &mut Flash, step: u64) {
    let extent = extent(flash, 1);
    while !flash.keep_up(0) {
        flash.write_units(extent, 5 + step % (UNITS - 5), &unit_of(0), Cause::Host, &mut 0).unwrap();
    }
}

#[test]
fn step_of_collection_leaves_leases_active() {
    let dir = tempfile::tempdir().unwrap();
    let mut flash = worn(&dir.path().join("image"));
    let (lease, reader) = leased(&mut flash);
    for step in 0..8 {
        collect_ahead(&mut flash, step);
        assert!(reader.write_by(&lease, step % 5 * 4096, &unit_of(step), || true), "step {step}");
    }
}

/// Opens the image of a killed process by a kernel that was started since.
fn open_after_another_boot(path: &Path, read_only: bool) -> Flash {
    let run = RunOptions::default().power_was_lost(true);
    Flash::open(path, OpenOptions::default().timing(false).read_only(read_only).run(run)).unwrap()
}

#[test]
fn units_that_wait_in_a_killed_process_are_there_after_another_boot() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = worn(&path);
    let extent = extent(&flash, 1);
    let leases = [0, 1].map(|_| flash.open_block_lease().unwrap());
    let reader = flash.block_reader(extent).unwrap();
    leases.iter().for_each(|lease| flash.renew_block_lease(lease).unwrap());
    let mut last = vec![0; UNITS as usize];
    for step in 1..=20 {
        let unit = step * 7 % 5;
        assert!(reader.write_by(&leases[step % 2], unit as u64 * 4096, &unit_of(step as u64), || true));
        last[unit] = step as u64;
        collect_ahead(&mut flash, step as u64);
    }
    // Collection moves what these blocks had before, and gives it higher numbers, while they wait.
    wear(&mut flash, 5);
    drop((flash, reader, leases));
    for read_only in [true, false] {
        let mut left = open_after_another_boot(&path, read_only);
        assert!(left.recovery().power_lost && left.recovery().lost == 0);
        for (unit, step) in (0..).zip(&last) {
            assert_eq!(read_unit(&mut left, extent, unit).unwrap(), unit_of(*step), "unit {unit}");
        }
        assert_eq!(left.check(), []);
    }
    let mut left = open(&path).unwrap();
    assert!(
        (0..UNITS)
            .zip(&last)
            .all(|(unit, step)| { read_unit(&mut left, extent, unit).unwrap() == unit_of(*step) })
    );
}

#[test]
fn units_of_an_earlier_turn_of_a_slot_are_not_taken_for_ones_that_wait() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = worn(&path);
    let (lease, reader) = leased(&mut flash);
    for step in 1..=300 {
        write_by(&mut flash, (&lease, &reader), step % 7, step);
    }
    flash.close_block_lease(&lease);
    let again = leased(&mut flash);
    let regions = flash.regions();
    let (_, buffer) = regions.iter().find(|(name, _)| *name == "unit buffer").unwrap().clone();
    drop((flash, reader, lease, again));
    // A power loss left the word of each slot that is leased, and how far it was filled before.
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut torn = 0;
    for header in (0..32).map(|slot| buffer.start + slot * 512) {
        let mut lease_word = [0; 8];
        file.read_exact_at(&mut lease_word, header + 448).unwrap();
        if lease_word != [0; 8] {
            file.write_all_at(&4_u64.to_le_bytes(), header).unwrap();
            torn += 1;
        }
    }
    assert!(torn > 0);
    let mut left = open_after_another_boot(&path, false);
    let extent = extent(&left, 1);
    for step in 294..=300 {
        assert_eq!(read_unit(&mut left, extent, step % 7).unwrap(), unit_of(step), "step {step}");
    }
    assert_eq!(left.check(), []);
}

#[test]
fn what_a_killed_process_had_waiting_counts_as_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = worn(&path);
    let (lease, reader) = leased(&mut flash);
    let before = flash.counters().accepted_bytes;
    assert!((0..3).all(|unit| reader.write_by(&lease, unit * 4096, &unit_of(9), || true)));
    drop((flash, reader, lease));
    let left = open(&path).unwrap();
    assert_eq!(left.counters().accepted_bytes, before + 3 * UNIT_BYTES as u64);
}

#[test]
fn leases_of_threads_that_write_no_more_give_slots_to_one_that_does() {
    let mut flash = in_memory();
    let extent = extent(&flash, 1);
    flash.write_units(extent, 0, &unit_of(1), Cause::Host, &mut 0).unwrap();
    let reader = flash.block_reader(extent).unwrap();
    let write = |lease: &BlockLease, unit: u64| reader.write_by(lease, unit * 4096, &unit_of(unit), || true);
    let (mut leases, mut written) = (Vec::new(), Vec::new());
    for number in 0..8 {
        let lease = flash.open_block_lease().unwrap();
        flash.renew_block_lease(&lease).unwrap();
        assert!(write(&lease, number), "lease {number}");
        // Some end with a full slot, some in the midst of one.
        written.extend((number * 50..number * 50 + number * 3).filter(|unit| write(&lease, 100 + unit)));
        leases.push(lease);
    }
    flash.close_block_lease(&leases[2]);
    // It goes on writing, with slots enough.
    let lease = flash.open_block_lease().unwrap();
    for step in 0..200 {
        write_by(&mut flash, (&lease, &reader), 50 + step % 3, 50 + step % 3);
    }
    flash.take_in_writes();
    let all = (0..8).chain(50..53).chain(written.into_iter().map(|unit| 100 + unit));
    all.for_each(|unit| {
        assert_eq!(read_unit(&mut flash, extent, unit).unwrap(), unit_of(unit), "unit {unit}")
    });
    assert_eq!(flash.check(), []);
}

#[test]
fn snapshot_taken_while_leases_are_open_holds_nothing_that_older_versions_do_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("image"), dir.path().join("copy"));
    let mut flash = worn(&path);
    let extent = extent(&flash, 1);
    let (lease, reader) = leased(&mut flash);
    let write = |flash: &mut Flash, unit: u64, step: u64| write_by(flash, (&lease, &reader), unit, step);
    (0..21).for_each(|unit| write(&mut flash, unit, 1));
    let into = CopyFile::new(std::fs::File::create(&copy).unwrap(), &copy);
    let snapshot = flash.prepare_snapshot(into).unwrap();
    if !flash.share_snapshot(&snapshot).unwrap() {
        snapshot.copy_protected().unwrap();
        write(&mut flash, 0, 2);
        flash.begin_snapshot(&snapshot).unwrap();
        (0..snapshot.block_count()).for_each(|block| _ = snapshot.copy_block(block));
        flash.end_snapshot();
    }
    (0..21).for_each(|unit| write(&mut flash, unit, 3));
    assert_eq!((incompatible(&path), incompatible(&copy)), (1, 0));
    let image = std::fs::read(&copy).unwrap();
    let regions = flash.regions();
    let (_, buffer) = regions.iter().find(|(name, _)| *name == "unit buffer").unwrap();
    let word = |at: u64| u64::from_le_bytes(*image[(buffer.start + at) as usize..].first_chunk().unwrap());
    let (leased, leases) = (|slot: u64| word(slot * 512 + 448), word(32 * 512));
    assert!((0..32).all(|slot| leased(slot) == 0) && leases == 0, "words of leases");
    let mut left = open(&copy).unwrap();
    let first = read_unit(&mut left, extent, 0).unwrap();
    assert!(first == unit_of(2) || first == unit_of(1));
    assert!((1..21).all(|unit| read_unit(&mut left, extent, unit).unwrap() == unit_of(1)));
    assert_eq!(left.check(), []);
    let mut follower = Flash::open(&path, OpenOptions::default().follow(true)).unwrap();
    assert!((0..21).all(|unit| read_unit(&mut follower, extent, unit).unwrap() == unit_of(3)));
}
