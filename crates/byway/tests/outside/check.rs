//! Images that are sound, damaged by a flipped bit, and repaired.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use byway::embedded::EmbeddedDevice;
use byway::{Checked, CreateOptions, Finding, Hit, MediaNamespaceKind, NewNamespace, Nsid, Remedy};
use byway_kit::pattern;
use byway_sys::copy::{CopyFile, DataRanges, copy_sparse};
use tempfile::TempDir;

const LBA_BYTES: usize = 4096;
const BLOCKS: u64 = 40;

/// What an image holds.
struct Content {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    blocks: BTreeMap<u64, Vec<u8>>,
}

fn key(n: u32) -> Vec<u8> {
    format!("key-{:04}", n * 7919 % 10_000).into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    let len = if n % 23 == 22 { 9000 + n as usize } else { n as usize % 300 };
    pattern(n.into(), len)
}

/// Makes a device with keys and blocks; `use_it` is given the open device at the end.
fn make(path: &Path, use_it: impl FnOnce(EmbeddedDevice)) -> Content {
    let blocks = NewNamespace {
        kind: MediaNamespaceKind::Nvm { lba_bytes: LBA_BYTES as u32 },
        size_bytes: Some(8 << 20),
    };
    let options = CreateOptions::new(32 << 20).namespaces([NewNamespace::KV, blocks]);
    byway::create(path, &options).unwrap();
    let device = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap();
    let mut content = Content { pairs: BTreeMap::new(), blocks: BTreeMap::new() };
    let mut kv = device.kv(None).unwrap();
    for n in 0..700 {
        let (key, value) = (key(n % 600), value(n));
        kv.put(&key, &value).unwrap();
        content.pairs.insert(key, value);
        if n % 9 == 8 {
            kv.delete(&self::key(n / 2)).unwrap();
            content.pairs.remove(&self::key(n / 2));
        }
    }
    let mut nvm = device.nvm(None).unwrap();
    for lba in 0..BLOCKS {
        let block: Vec<u8> = (0..LBA_BYTES).map(|i| (lba as usize * 3 + i / 5) as u8).collect();
        nvm.write(lba, &block).unwrap();
        content.blocks.insert(lba, block);
    }
    drop((kv, nvm));
    use_it(device);
    content
}

fn folder() -> (TempDir, PathBuf) {
    // In memory where there is such a place: what syncs cost is nothing that is looked for.
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let path = dir.path().join("disk.img");
    (dir, path)
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_file(to);
    copy_sparse(&File::open(from).unwrap(), &CopyFile::new(File::create_new(to).unwrap(), to), |_| {})
        .unwrap();
}

fn flip(path: &Path, bit: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8).unwrap();
}

/// What is not in holes, each piece with its place.
fn used_bytes(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = File::open(path).unwrap();
    let ranges = DataRanges::new(&file, file.metadata().unwrap().len());
    let read = ranges.map(|range| {
        let (at, len) = range.unwrap();
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).unwrap();
        (at, bytes)
    });
    read.collect()
}

/// Places of 32 bytes that are not all zero.
fn used_places(path: &Path) -> Vec<u64> {
    let mut places = Vec::new();
    for (at, bytes) in used_bytes(path) {
        let used = |(_, piece): &(usize, &[u8])| piece.iter().any(|byte| *byte != 0);
        places.extend(bytes.chunks(32).enumerate().filter(used).map(|(i, _)| at + 32 * i as u64));
    }
    places
}

fn checked(path: &Path) -> Checked {
    byway::check(path, &mut |_, _, _| {}).unwrap()
}

fn repaired(path: &Path) -> Checked {
    byway::repair(path, &mut |_, _, _| {}).unwrap()
}

fn hits_key(findings: &[Finding], key: &[u8]) -> bool {
    let is_it = |hit: &Hit| matches!(hit, Hit::Key { key: hit, .. } if hit == key);
    findings.iter().flat_map(|finding| &finding.hits).any(is_it)
}

fn hits_block(findings: &[Finding], lba: u64) -> bool {
    let is_it = |hit: &Hit| matches!(hit, Hit::Blocks { first_lba, count, .. } if (*first_lba..first_lba + count).contains(&lba));
    findings.iter().flat_map(|finding| &finding.hits).any(is_it)
}

/// Everything is as it was put, but for what `findings` name.
fn holds(path: &Path, content: &Content, findings: &[Finding], why: &str) {
    let device = byway::embedded::open(&format!("embedded:{}", path.display()))
        .unwrap_or_else(|error| panic!("{why}: {error}"));
    let mut kv = device.kv(None).unwrap();
    // The keys of the records at the truncation of the log are not always known.
    let log_is_damaged = findings.iter().any(|finding| finding.structure == "log");
    for (key, value) in &content.pairs {
        if hits_key(findings, key) || log_is_damaged {
            continue;
        }
        let found = kv.get(key).unwrap_or_else(|error| panic!("{why}: {error}"));
        assert!(found.as_ref() == Some(value), "{why}: {}", String::from_utf8_lossy(key));
    }
    let mut nvm = device.nvm(Some(Nsid::new(2).unwrap())).unwrap();
    for (lba, block) in content.blocks.iter().filter(|(lba, _)| !hits_block(findings, **lba)) {
        let mut found = vec![0; LBA_BYTES];
        nvm.read(*lba, &mut found).unwrap_or_else(|error| panic!("{why}: block {lba}: {error}"));
        assert!(found == *block, "{why}: block {lba}");
    }
}

#[test]
fn an_image_that_was_closed_is_clean_and_is_not_changed_by_a_check() {
    let (_dir, path) = folder();
    let content = make(&path, |device| device.close().unwrap());
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let found = checked(&path);
    assert_eq!(found.findings, []);
    assert_eq!((found.namespaces, found.keys), (2, content.pairs.len() as u64));
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
}

#[test]
fn an_image_that_was_not_closed_is_clean_and_stays_unclosed() {
    let (dir, path) = folder();
    let unclean = dir.path().join("unclean.img");
    make(&path, |device| {
        copy(&path, &unclean);
        drop(device);
    });
    let found = checked(&unclean);
    assert_eq!((found.findings, found.namespaces), (vec![], 2));
    let device = byway::embedded::open(&format!("embedded:{}", unclean.display())).unwrap();
    drop(device);
    assert!(checked(&unclean).is_clean());
}

#[test]
fn an_opening_reports_what_it_replayed_and_how_long_it_took() {
    let (dir, path) = folder();
    let unclean = dir.path().join("unclean.img");
    make(&path, |device| {
        copy(&path, &unclean);
        drop(device);
    });
    let replay_of = |path: &Path| {
        let details = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap().details();
        assert!(details.opened_in_ns > 0);
        details.namespaces.iter().find_map(|namespace| namespace.engine).unwrap().stats.replay
    };
    let replay = replay_of(&unclean);
    assert!(replay.records > 0 && replay.record_bytes > 0, "{replay:?}");
    assert_eq!(replay_of(&path).records, 0, "it was closed in order");
}

#[test]
fn keys_that_may_be_counted_twice_after_a_crash_are_reported() {
    let (dir, path) = folder();
    let unclean = dir.path().join("unclean.img");
    let content = make(&path, |device| {
        copy(&path, &unclean);
        drop(device);
    });
    let stats_of = |path: &Path| {
        let details = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap().details();
        details.namespaces.iter().find_map(|namespace| namespace.engine).unwrap().stats
    };
    let keys = content.pairs.len() as u64;
    let stats = stats_of(&unclean);
    assert!(stats.keys >= keys && stats.keys - keys <= stats.unsettled_entries, "{stats:?}");
    let stats = stats_of(&path);
    assert_eq!((stats.keys, stats.unsettled_entries), (keys, 0), "it was closed in order");
}

/// What the file takes of the file system.
fn room_of(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap())
}

/// A file system in memory gives room to a hole that is looked into, and ends the process where it has none.
#[test]
fn a_check_takes_no_room_for_the_holes_of_an_image() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("disk.img");
    make(&path, |device| device.close().unwrap());
    let room = room_of(&path);
    assert!(checked(&path).is_clean());
    assert_eq!(room_of(&path), room);
    assert!(repaired(&path).is_clean());
    assert_eq!(room_of(&path), room);
}

#[test]
fn record_overwritten_in_the_image_loses_its_key_alone() {
    let (_dir, path) = folder();
    let content = make(&path, |device| device.close().unwrap());
    let (victim, value) = content.pairs.iter().find(|(_, value)| value.len() == 271).unwrap();
    // The key of a record precedes its value; a copy of it may be left where it was collected for its flash page.
    let record = [victim.as_slice(), value].concat();
    let image = std::fs::read(&path).unwrap();
    let places = image.windows(record.len()).enumerate().filter(|(_, bytes)| *bytes == record);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for (place, _) in places {
        file.write_all_at(b"foreign bytes", place as u64 + 100).unwrap();
    }

    let found = checked(&path);
    let keys = |found: &Checked| -> Vec<Vec<u8>> {
        let hits = found.findings.iter().flat_map(|finding| finding.hits.clone());
        hits.filter_map(|hit| if let Hit::Key { key, .. } = hit { Some(key) } else { None }).collect()
    };
    assert_eq!(keys(&found), std::slice::from_ref(victim), "{:?}", found.findings);
    assert!(found.loses() && found.is_usable());
    let done = repaired(&path);
    assert_eq!(keys(&done), std::slice::from_ref(victim), "{:?}", done.findings);
    assert!(checked(&path).is_clean());
    holds(&path, &content, &done.findings, "repaired");
    let mut kv = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap().kv(None).unwrap();
    assert_eq!(kv.get(victim).unwrap(), None);
}

/// The unit of a leaf of the index with the middle of its keys, and some units of the log.
fn units_of_index_and_log(used: &[(u64, Vec<u8>)], log: &[u64]) -> Vec<u64> {
    let is_leaf = |page: &[u8]| page.starts_with(b"BYIX") && page[16] == 0;
    let pages = used.iter().flat_map(|(at, bytes)| {
        bytes.chunks(16 << 10).enumerate().map(move |(i, page)| (at + (i as u64 * (16 << 10)), page))
    });
    let leaves = pages.filter(|(_, page)| is_leaf(page)).map(|(at, _)| at + 4096);
    leaves.chain(log.iter().map(|place| place & !4095)).collect()
}

/// Then neither the index names the keys of such a log page, nor the page all of its records.
#[test]
fn damaged_index_and_log_keep_whole_records_and_report_the_rest() {
    let (dir, path) = folder();
    let image = dir.path().join("damaged.img");
    let content = make(&path, |device| device.close().unwrap());
    let used = used_bytes(&path);
    let short: Vec<_> = content.pairs.iter().filter(|(_, value)| (20..300).contains(&value.len())).collect();
    let places_of = |key: &[u8], value: &[u8]| -> Vec<(u64, u64)> {
        let record = [key, value].concat();
        let found = used.iter().flat_map(|(at, bytes)| {
            let places = bytes.windows(record.len()).enumerate().filter(|(_, found)| *found == record);
            places.map(|(i, _)| at + i as u64).collect::<Vec<_>>()
        });
        found.map(|at| (at - 20, at + record.len() as u64)).collect()
    };
    for noise in [[0xa5; 4096], [0; 4096]] {
        let hit: Vec<u64> =
            [100, 350].map(|n: usize| places_of(short[n].0, short[n].1).last().unwrap().0).into();
        let units = units_of_index_and_log(&used, &hit);
        assert!(units.len() > 2);
        copy(&path, &image);
        let file = OpenOptions::new().write(true).open(&image).unwrap();
        units.iter().for_each(|unit| file.write_all_at(&noise, *unit).unwrap());
        let found = checked(&image);
        let done = repaired(&image);
        assert_eq!(found.findings, done.findings, "a check foretells what a repair does");
        assert!(done.is_usable());
        let reported = done
            .findings
            .iter()
            .any(|finding| finding.remedy == Remedy::Drop && finding.what.contains("neither in the index"));
        let mut kv =
            byway::embedded::open(&format!("embedded:{}", image.display())).unwrap().kv(None).unwrap();
        let (mut unnamed, mut kept) = (0, 0);
        for (key, value) in &short {
            let is_hit = |(from, to): (u64, u64)| units.iter().any(|unit| from < unit + 4096 && to > *unit);
            let is_whole = places_of(key, value).into_iter().any(|place| !is_hit(place));
            let got = kv.get(key).unwrap();
            assert!(got.as_ref().is_none_or(|got| got == *value));
            assert!(got.is_some() || !is_whole, "{}: {:?}", String::from_utf8_lossy(key), done.findings);
            kept += usize::from(got.is_some());
            unnamed += usize::from(got.is_none() && !hits_key(&done.findings, key));
        }
        assert!(unnamed == 0 || reported, "{unnamed} keys: {:?}", done.findings);
        assert!(kept > short.len() / 2 && kept < short.len(), "{kept}");
        drop(kv);
        assert_eq!(checked(&image).findings, []);
    }
}

/// Overwrites some of the used places; the check names what they hit. A usable image still holds everything that the check
/// does not name as lost; one that is unusable after the repair stays so.
#[test]
fn any_overwritten_place_is_named_and_repaired_or_refused() {
    let (dir, path) = folder();
    let (base, image) = (dir.path().join("base.img"), dir.path().join("damaged.img"));
    let content = make(&path, |device| {
        copy(&path, &base);
        drop(device);
    });
    let mut usable = 0;
    for (nth, place) in used_places(&base).iter().enumerate().step_by(499) {
        copy(&base, &image);
        let file = OpenOptions::new().write(true).open(&image).unwrap();
        file.write_all_at(&[nth as u8 | 1; 24], place + 8).unwrap();
        drop(file);
        let why = format!("place {place:#x}");
        let done = repaired(&image);
        let again = checked(&image);
        if done.is_usable() {
            usable += 1;
            assert!(again.is_clean(), "{why}: {:?}, repaired before: {:?}", again.findings, done.findings);
            holds(&image, &content, &done.findings, &format!("{why}: {:?}", done.findings));
        } else {
            assert!(!again.is_usable(), "{why}: {:?}, before: {:?}", again.findings, done.findings);
        }
    }
    assert!(usable > 20, "{usable}");
}

/// Flips one bit in some of the places that are used, one image each: whatever it hits is named, and nothing is lost.
fn one_flipped_bit_costs_nothing(use_it: impl FnOnce(EmbeddedDevice, &Path, &Path), step: usize) {
    let (dir, path) = folder();
    let (base, image) = (dir.path().join("base.img"), dir.path().join("flipped.img"));
    let content = make(&path, |device| use_it(device, &path, &base));
    let places = used_places(&base);
    for (nth, place) in places.iter().enumerate().step_by(step) {
        let bit = place * 8 + (nth as u64 * 37) % 256;
        copy(&base, &image);
        flip(&image, bit);
        let why = format!("bit {bit} (place {place:#x})");
        let found = checked(&image);
        let done = repaired(&image);
        assert_eq!(found.findings, done.findings, "{why}: a check foretells what a repair does");
        assert!(done.is_usable() && !done.loses(), "{why}: {:?}", done.findings);
        holds(&image, &content, &[], &why);
        let again = checked(&image);
        assert!(again.is_clean(), "{why}: {:?}, repaired before: {:?}", again.findings, done.findings);
    }
}

/// Flips bits in every place where some records stand: in memory where they are collected for their flash page, and on
/// that page. The last ones that were put are in memory alone.
fn a_flipped_bit_of_a_record_costs_nothing(use_it: impl FnOnce(EmbeddedDevice, &Path, &Path)) {
    let (dir, path) = folder();
    let (base, image) = (dir.path().join("base.img"), dir.path().join("flipped.img"));
    let content = make(&path, |device| use_it(device, &path, &base));
    let used = used_bytes(&base);
    let last = (696..700).map(|n| (key(n % 600), value(n)));
    let some = content.pairs.clone().into_iter().filter(|(_, value)| value.len() > 250).step_by(61);
    let mut restored = 0;
    for (key, value) in last.chain(some) {
        let record = [key.as_slice(), &value[..80]].concat();
        let places = used.iter().flat_map(|(at, bytes)| {
            let windows = bytes.windows(record.len()).enumerate();
            windows.filter(|(_, found)| *found == record).map(move |(i, _)| at + i as u64)
        });
        // Length, checksums, key, value.
        for (place, offset) in places.flat_map(|place| [-19, -9, 2, 40].map(|offset| (place, offset))) {
            copy(&base, &image);
            flip(&image, (place as i64 + offset) as u64 * 8 + 3);
            let why = format!("{}, byte {offset} at {place:#x}", String::from_utf8_lossy(&key));
            let found = checked(&image);
            let done = repaired(&image);
            assert_eq!(found.findings, done.findings, "{why}: a check foretells what a repair does");
            assert!(done.is_usable() && !done.loses(), "{why}: {:?}", done.findings);
            restored += done.findings.len();
            holds(&image, &content, &[], &why);
            assert!(checked(&image).is_clean(), "{why}: repaired before: {:?}", done.findings);
        }
    }
    assert!(restored > 12, "{restored}");
}

#[test]
fn a_flipped_bit_of_a_record_that_is_in_memory_or_on_flash_costs_nothing() {
    a_flipped_bit_of_a_record_costs_nothing(|device, path, base| {
        copy(path, base);
        drop(device);
    });
}

#[test]
fn a_flipped_bit_of_a_record_that_a_closed_image_has_in_memory_costs_nothing() {
    a_flipped_bit_of_a_record_costs_nothing(|device, path, base| {
        device.close().unwrap();
        copy(path, base);
    });
}

#[test]
fn no_flipped_bit_of_a_closed_image_costs_anything() {
    let close = |device: EmbeddedDevice, path: &Path, base: &Path| {
        device.close().unwrap();
        copy(path, base);
    };
    one_flipped_bit_costs_nothing(close, 911);
}

#[test]
fn no_flipped_bit_of_an_unclosed_image_costs_anything() {
    let leave = |device: EmbeddedDevice, path: &Path, base: &Path| {
        copy(path, base);
        drop(device);
    };
    one_flipped_bit_costs_nothing(leave, 1013);
}
