//! Block readers on other threads, beside an owner that writes, trims and collects.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byway_flash::{
    BlockReader, Cause, ExtentId, Flash, FlashError, FlashOptions, Injection, MediaKind, Reads,
    RetentionLimits, RunOptions, UNIT_BYTES,
};
use byway_kit::Random;

use crate::common::{MIB, create, extent, kv, nvm, small_profile, unit_of, write_unit};

const UNITS: u64 = 700;
const CHANGES: u64 = 12_000;

/// What has been begun and what has been acknowledged of each unit. Even versions are data, odd ones trimmed.
struct Versions {
    begun: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
    is_over: AtomicBool,
}

impl Versions {
    fn new() -> Self {
        let zeroes = || (0..UNITS).map(|_| AtomicU64::new(1)).collect();
        Self { begun: zeroes(), acknowledged: zeroes(), is_over: AtomicBool::new(false) }
    }

    /// Writes or trims a unit.
    fn change(&self, flash: &mut Flash, extent: ExtentId, unit: u64, trims: bool) {
        let version = self.begun[unit as usize].load(Ordering::Relaxed);
        let next = if trims { (version + 1) | 1 } else { (version + 2) & !1 };
        self.begun[unit as usize].store(next, Ordering::SeqCst);
        if trims {
            flash.trim(extent, unit..unit + 1).unwrap();
        } else {
            flash.write_units(extent, unit, &content(unit, next), Cause::Host, &mut 0).unwrap();
        }
        self.acknowledged[unit as usize].store(next, Ordering::SeqCst);
    }

    /// Reads a unit and checks that it was current during the read; whether the reader vouched for it.
    fn check(&self, reader: &BlockReader, unit: u64) -> bool {
        self.check_read(unit, |at, bytes| reader.read(at, bytes).is_some())
    }

    /// The same of a unit that `read` copies from its place.
    fn check_read(&self, unit: u64, read: impl FnOnce(u64, &mut [u8]) -> bool) -> bool {
        let oldest = self.acknowledged[unit as usize].load(Ordering::SeqCst);
        let mut bytes = [0xEE; UNIT_BYTES];
        if !read(unit * UNIT_BYTES as u64, &mut bytes) {
            return false;
        }
        let newest = self.begun[unit as usize].load(Ordering::SeqCst);
        let found = u64::from_le_bytes(*bytes[8..].first_chunk().unwrap());
        if bytes == [0; UNIT_BYTES] {
            assert!(newest > oldest || oldest % 2 == 1, "unit {unit} is gone: {oldest} to {newest}");
        } else {
            assert_eq!(bytes[..], content(unit, found)[..], "unit {unit} is torn or another's");
            assert!((oldest..=newest).contains(&found), "unit {unit}: {found}, not {oldest} to {newest}");
        }
        true
    }
}

/// A unit that says which it is, and of which version.
fn content(unit: u64, version: u64) -> Vec<u8> {
    let word =
        |at: u64| if at < 2 { [unit, version][at as usize] } else { (unit << 40 ^ version << 10) + at };
    (0..UNIT_BYTES as u64 / 8).flat_map(|at| word(at).to_le_bytes()).collect()
}

fn with(kind: MediaKind, run: RunOptions) -> Flash {
    let options = FlashOptions::new(4 * MIB, small_profile(), kind).run(run).timing(false);
    Flash::create(options, &[nvm(4 * MIB)]).unwrap()
}

/// Readers on three threads, until the owner has made its changes and each has read.
fn moves_units_under_readers(kind: MediaKind, run: RunOptions) {
    let mut flash = with(kind, run);
    let extent = extent(&flash, 1);
    let versions = Versions::new();
    let read_by = |reader: BlockReader, seed: u64| {
        let (mut numbers, mut read) = (Random::new(seed), 0_u64);
        while !versions.is_over.load(Ordering::Relaxed) || read == 0 {
            read += u64::from(versions.check(&reader, numbers.below(UNITS)));
        }
        read
    };
    std::thread::scope(|scope| {
        for seed in 1..=3 {
            let reader = flash.block_reader(extent).unwrap();
            let read_by = &read_by;
            scope.spawn(move || read_by(reader, seed));
        }
        let mut numbers = Random::new(99);
        for _ in 0..CHANGES {
            versions.change(&mut flash, extent, numbers.below(UNITS), numbers.below(8) == 0);
        }
        versions.is_over.store(true, Ordering::Relaxed);
    });
    assert!(flash.counters()[Cause::Gc].erases > 20, "blocks were collected meanwhile");
}

#[test]
fn readers_of_an_image_see_whole_units_that_are_never_stale() {
    let dir = tempfile::tempdir().unwrap();
    moves_units_under_readers(MediaKind::File(dir.path().join("image")), RunOptions::default());
}

#[test]
fn readers_of_memory_see_whole_units_that_are_never_stale() {
    moves_units_under_readers(MediaKind::Ram, RunOptions::default());
    moves_units_under_readers(MediaKind::Ram, RunOptions::default().reads(Reads::Checked));
}

#[test]
fn readers_give_the_bytes_that_the_owner_reads() {
    let dir = tempfile::tempdir().unwrap();
    for kind in [MediaKind::Ram, MediaKind::File(dir.path().join("image"))] {
        let mut flash = with(kind, RunOptions::default());
        let extent = extent(&flash, 1);
        let mut numbers = Random::new(5);
        for unit in 0..200 {
            write_unit(&mut flash, extent, unit + numbers.below(100), unit).unwrap();
        }
        let reader = flash.block_reader(extent).unwrap();
        for _ in 0..500 {
            let (at, len) =
                (numbers.below(300 * UNIT_BYTES as u64), 1 + numbers.below(5 * UNIT_BYTES as u64));
            let (mut wanted, mut found) = (vec![1; len as usize], vec![2; len as usize]);
            flash.read(extent, at, &mut wanted, Cause::Host, &mut 0).unwrap();
            reader.read(at, &mut found).unwrap();
            assert_eq!(found, wanted, "{len} bytes at {at}");
        }
        assert!(reader.read(4 * MIB - 1, &mut [0; 2]).is_none(), "past the end of the extent");
    }
}

#[test]
fn reads_of_a_reader_are_counted_once_they_are_reported() {
    let mut flash = with(MediaKind::Ram, RunOptions::default());
    let extent = extent(&flash, 1);
    flash.write_units(extent, 0, &[7; 8 * UNIT_BYTES], Cause::Host, &mut 0).unwrap();
    let reads = flash.block_reader(extent).unwrap().read(4096, &mut [0; 6 * UNIT_BYTES]).unwrap();
    assert_eq!((reads.pages, reads.bytes), (2, 6 * UNIT_BYTES as u64), "of two pages of four units");
    flash.count_reads(reads);
    let counted = flash.counters()[Cause::Host];
    assert_eq!((counted.reads, counted.read_bytes), (2, 6 * UNIT_BYTES as u64));
}

#[test]
fn reads_that_must_come_in_order_have_no_reader() {
    let dir = tempfile::tempdir().unwrap();
    let has_reader = |name: &str, run: RunOptions, times: bool| {
        let mut flash = with(MediaKind::File(dir.path().join(name)), run);
        flash.set_timing(times);
        flash.block_reader(extent(&flash, 1)).is_some()
    };
    assert!(has_reader("mapped", RunOptions::default(), false));
    assert!(!has_reader("timed", RunOptions::default(), true));
    assert!(!has_reader("checked", RunOptions::default().reads(Reads::Checked), false));
    let limits: RetentionLimits = "reads=1000".parse().unwrap();
    assert!(!has_reader("disturbed", RunOptions::default().retention(limits), false));
    let injection: Injection = "read:nth=9".parse().unwrap();
    assert!(!has_reader("injected", RunOptions::default().injection(Some(injection)), false));
    let mut flash = create(MediaKind::Ram, 4 * MIB, &[kv(4 * MIB)]);
    flash.set_timing(false);
    assert!(flash.block_reader(extent(&flash, 1)).is_none(), "entries of a key-value extent are pages");
}

#[test]
fn damaged_unit_is_left_to_the_owner_who_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = with(MediaKind::File(path.clone()), RunOptions::default());
    let extent = extent(&flash, 1);
    let units: Vec<u8> = (0..4).flat_map(unit_of).collect();
    flash.write_units(extent, 0, &units, Cause::Host, &mut 0).unwrap();
    let reader = flash.block_reader(extent).unwrap();
    let image = std::fs::read(&path).unwrap();
    let at = image.chunks(UNIT_BYTES).position(|bytes| *bytes == unit_of(2)).unwrap() * UNIT_BYTES;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[image[at + 100] ^ 4], at as u64 + 100).unwrap();
    let mut unit = [0; UNIT_BYTES];
    assert!(reader.read(2 * UNIT_BYTES as u64, &mut unit).is_none());
    let read = flash.read(extent, 2 * UNIT_BYTES as u64, &mut unit, Cause::Host, &mut 0);
    assert!(matches!(read, Err(FlashError::Media { .. })), "{read:?}");
    assert!(reader.read(UNIT_BYTES as u64, &mut unit).is_some(), "others are whole");
    assert_eq!(unit[..], unit_of(1)[..]);
}

#[test]
fn reader_of_a_truncated_image_vouches_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = with(MediaKind::File(path.clone()), RunOptions::default());
    let extent = extent(&flash, 1);
    for unit in 0..16 {
        write_unit(&mut flash, extent, unit, unit).unwrap();
    }
    let reader = flash.block_reader(extent).unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2_u64)
            .map(|first| {
                let reader = &reader;
                scope.spawn(move || {
                    let mut unit = [0; UNIT_BYTES];
                    for number in (0..16).cycle().skip(first as usize) {
                        if reader.read(number * UNIT_BYTES as u64, &mut unit).is_none() {
                            return;
                        }
                        assert_eq!(unit[..], unit_of(number)[..], "what is vouched for is what was written");
                    }
                })
            })
            .collect();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let read = flash.read(extent, 0, &mut [0; UNIT_BYTES], Cause::Host, &mut 0);
    assert!(flash.check_whole().is_err() || read.is_err(), "the device says that its image was cut short");
}

#[test]
fn followers_of_an_image_see_whole_units_that_are_never_stale() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = with(MediaKind::File(path.clone()), RunOptions::default());
    let extent = extent(&flash, 1);
    let versions = Versions::new();
    let follow = |seed: u64| {
        let how = byway_flash::OpenOptions::default().follow(true);
        let mut follower = Flash::open(&path, how).unwrap();
        assert!(follower.is_following() && follower.is_read_only());
        let (mut numbers, mut read) = (Random::new(seed), 0_u64);
        while !versions.is_over.load(Ordering::Relaxed) || read == 0 {
            let mut copy = |at, bytes: &mut [u8]| match follower.read(extent, at, bytes, Cause::Host, &mut 0)
            {
                Ok(()) => true,
                Err(FlashError::Overtaken) => false,
                Err(error) => panic!("{error}"),
            };
            read += u64::from(versions.check_read(numbers.below(UNITS), &mut copy));
        }
    };
    std::thread::scope(|scope| {
        (1..=2).for_each(|seed| {
            let follow = &follow;
            scope.spawn(move || follow(seed));
        });
        let mut numbers = Random::new(99);
        for _ in 0..CHANGES {
            versions.change(&mut flash, extent, numbers.below(UNITS), numbers.below(8) == 0);
        }
        versions.is_over.store(true, Ordering::Relaxed);
    });
    assert!(flash.counters()[Cause::Gc].erases > 20, "blocks were collected meanwhile");
}

#[test]
fn follower_reopened_behind_a_change_of_namespaces_has_those_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = create(MediaKind::File(path.clone()), 4 * MIB, &[nvm(MIB), kv(MIB)]);
    let how = byway_flash::OpenOptions::default().follow(true);
    let follower = Flash::open(&path, how).unwrap();
    assert!(!follower.has_changed());
    flash.remove_namespace(2).unwrap();
    assert!(follower.has_changed());
    let follower = follower.reopened().unwrap();
    assert!(!follower.has_changed() && follower.namespace(2).is_none() && follower.namespace(1).is_some());
    flash.close().unwrap();
    assert!(follower.has_changed(), "closing the image is a change too");
    let follower = follower.reopened().unwrap();
    assert!(!follower.has_changed());
    std::fs::rename(&path, dir.path().join("elsewhere")).unwrap();
    assert!(follower.has_changed() && follower.reopened().is_err());
}
