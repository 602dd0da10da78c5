//! Images that are sound, damaged by a flipped bit, and repaired.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use byway::{Checked, CreateOptions, Device, Finding, Hit, MediaNamespaceKind, NewNamespace, Nsid};
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
    (0..len).map(|i| (n as usize * 31 + i * 7) as u8).collect()
}

/// Makes a device with keys and blocks; `use_it` is given the open device at the end.
fn make(path: &Path, use_it: impl FnOnce(Device)) -> Content {
    let blocks = NewNamespace {
        kind: MediaNamespaceKind::Nvm { lba_bytes: LBA_BYTES as u32 },
        size_bytes: Some(8 << 20),
    };
    let options =
        CreateOptions { namespaces: vec![NewNamespace::KV, blocks], ..CreateOptions::new(32 << 20) };
    byway::create(path, &options).unwrap();
    let device = byway::open(&format!("embedded:{}", path.display())).unwrap();
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
    let dir = tempfile::tempdir().unwrap();
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
    let device =
        byway::open(&format!("embedded:{}", path.display())).unwrap_or_else(|error| panic!("{why}: {error}"));
    let mut kv = device.kv(None).unwrap();
    // Whose records stood where the log breaks off is not always known.
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
    let device = byway::open(&format!("embedded:{}", unclean.display())).unwrap();
    drop(device);
    assert!(checked(&unclean).is_clean());
}

#[test]
fn an_opening_tells_what_it_replayed_and_how_long_it_took() {
    let (dir, path) = folder();
    let unclean = dir.path().join("unclean.img");
    make(&path, |device| {
        copy(&path, &unclean);
        drop(device);
    });
    let replay_of = |path: &Path| {
        let details = byway::open(&format!("embedded:{}", path.display())).unwrap().details();
        assert!(details.opened_in_ns > 0);
        details.namespaces.iter().find_map(|namespace| namespace.engine).unwrap().stats.replay
    };
    let replay = replay_of(&unclean);
    assert!(replay.records > 0 && replay.record_bytes > 0, "{replay:?}");
    assert_eq!(replay_of(&path).records, 0, "it was closed in order");
}

#[test]
fn what_is_written_over_in_one_record_costs_that_key_alone() {
    let (_dir, path) = folder();
    let content = make(&path, |device| device.close().unwrap());
    let (victim, value) = content.pairs.iter().find(|(_, value)| value.len() == 271).unwrap();
    // The key of a record stands before its value; a copy of it may be left where it was collected for its flash page.
    let record = [victim.as_slice(), value].concat();
    let image = std::fs::read(&path).unwrap();
    let places = image.windows(record.len()).enumerate().filter(|(_, bytes)| *bytes == record);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for (place, _) in places {
        file.write_all_at(b"somebody else", place as u64 + 100).unwrap();
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
    let mut kv = byway::open(&format!("embedded:{}", path.display())).unwrap().kv(None).unwrap();
    assert_eq!(kv.get(victim).unwrap(), None);
}

/// Writes over some of the places that are used; whatever it hits is named. An image that can be used afterwards holds
/// everything that is not named as lost, and one that cannot is left to someone who knows more.
#[test]
fn whatever_is_written_over_is_named_and_a_repair_ends_in_a_clean_image_or_a_refusal() {
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
fn one_flipped_bit_costs_nothing(use_it: impl FnOnce(Device, &Path, &Path), step: usize) {
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

/// A record may stand in more than one place: where it was collected for its flash page, and on that page.
#[test]
fn a_flipped_bit_in_any_copy_of_a_record_costs_nothing() {
    let (dir, path) = folder();
    let (base, image) = (dir.path().join("base.img"), dir.path().join("flipped.img"));
    let content = make(&path, |device| {
        copy(&path, &base);
        drop(device);
    });
    let used = used_bytes(&base);
    let mut copies = 0;
    for (key, value) in content.pairs.iter().filter(|(_, value)| value.len() > 250).step_by(19) {
        let record = [key.as_slice(), &value[..100]].concat();
        let places = used.iter().flat_map(|(at, bytes)| {
            let windows = bytes.windows(record.len()).enumerate();
            windows.filter(|(_, found)| *found == record).map(move |(i, _)| at + i as u64)
        });
        // The checksums before the key, the key, the value; behind them, the end of the longest reaches another page.
        for (place, offset) in places.flat_map(|place| [-9, 2, 130].map(|offset| (place, offset))) {
            copies += 1;
            copy(&base, &image);
            flip(&image, (place as i64 + offset) as u64 * 8 + 3);
            let why = format!("{}, byte {offset} at {place:#x}", String::from_utf8_lossy(key));
            let done = repaired(&image);
            assert!(done.is_usable() && !done.loses(), "{why}: {:?}", done.findings);
            holds(&image, &content, &[], &why);
            assert!(checked(&image).is_clean(), "{why}: repaired before: {:?}", done.findings);
        }
    }
    assert!(copies > 15, "{copies}");
}

#[test]
fn no_flipped_bit_of_a_closed_image_costs_anything() {
    let close = |device: Device, path: &Path, base: &Path| {
        device.close().unwrap();
        copy(path, base);
    };
    one_flipped_bit_costs_nothing(close, 311);
}

#[test]
fn no_flipped_bit_of_an_unclosed_image_costs_anything() {
    let leave = |device: Device, path: &Path, base: &Path| {
        copy(path, base);
        drop(device);
    };
    one_flipped_bit_costs_nothing(leave, 331);
}
