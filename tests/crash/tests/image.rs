//! Images that cannot be opened: one clear sentence, and not a byte changed.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use byway::{CreateOptions, ErrorKind, NewNamespace, Origin};
use byway_forgetful::on_small_disk;
use rustix::fs::{SeekFrom, seek};

/// What must not change: every byte that is not in a hole, length, time of the last change.
#[derive(PartialEq, Eq)]
struct Untouched(Vec<(u64, Vec<u8>)>, u64, i64, i64);

fn untouched(path: &Path) -> Untouched {
    let file = fs::File::open(path).unwrap();
    let found = file.metadata().unwrap();
    let (mut stretches, mut at) = (Vec::new(), 0);
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(data)).unwrap();
        let mut bytes = vec![0; (at - data) as usize];
        file.read_exact_at(&mut bytes, data).unwrap();
        stretches.push((data, bytes));
    }
    Untouched(stretches, found.len(), found.mtime(), found.mtime_nsec())
}

struct Fixture {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Fixture {
    /// An image with a namespace of each kind and something in both, closed in order.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.img");
        let nvm = NewNamespace { size_bytes: Some(4 << 20), ..NewNamespace::NVM };
        let options = CreateOptions::new(24 << 20).namespaces([NewNamespace::KV, nvm]);
        byway::create(&path, &options).unwrap();
        let fixture = Self { _dir: dir, path };
        let device = byway::embedded::open(&fixture.uri()).unwrap();
        device.kv(None).unwrap().put(b"key", b"value").unwrap();
        device.nvm(None).unwrap().write(0, &[7; 512]).unwrap();
        device.close().unwrap();
        fixture
    }

    fn uri(&self) -> String {
        format!("embedded:{}", self.path.display())
    }

    /// Opening fails with one sentence that names the file and holds `words`, and leaves the file as it is.
    fn is_refused(&self, kind: ErrorKind, words: &str) {
        let before = untouched(&self.path);
        let error =
            byway::embedded::open(&self.uri()).err().unwrap_or_else(|| panic!("opened, though {words}"));
        let said = error.to_string();
        assert!(said.contains(words) && said.contains(&self.path.display().to_string()), "{said}");
        assert!(!said.contains('\n') && said.len() < 300, "{said}");
        assert_eq!((error.kind(), error.origin()), (kind, Origin::Host), "{said}");
        assert!(untouched(&self.path) == before, "the file changed: {said}");
    }

    fn patch(&self, at: u64, bytes: &[u8]) {
        fs::OpenOptions::new().write(true).open(&self.path).unwrap().write_all_at(bytes, at).unwrap();
    }

    /// The pair and the block are there, as before.
    fn is_whole(&self) {
        let device = byway::embedded::open(&self.uri()).unwrap();
        assert_eq!(device.kv(None).unwrap().get(b"key").unwrap().unwrap(), b"value");
        let mut block = [0; 512];
        device.nvm(None).unwrap().read(0, &mut block).unwrap();
        assert_eq!(block, [7; 512]);
    }
}

#[test]
fn a_truncated_image_is_refused_by_what_it_lacks() {
    let fixture = Fixture::new();
    let whole = fs::metadata(&fixture.path).unwrap().len();
    for len in [whole - 1, whole / 2, 65536, 4096, 4095, 600] {
        fs::OpenOptions::new().write(true).open(&fixture.path).unwrap().set_len(len).unwrap();
        fixture.is_refused(ErrorKind::System, "is truncated");
    }
    for len in [5, 0] {
        fs::OpenOptions::new().write(true).open(&fixture.path).unwrap().set_len(len).unwrap();
        fixture.is_refused(ErrorKind::System, "is not a Byway image");
    }
}

#[test]
fn an_image_of_another_version_is_refused_by_both_numbers() {
    let fixture = Fixture::new();
    fixture.patch(8, &7u32.to_le_bytes());
    fixture.is_refused(ErrorKind::System, "format version 7; this program knows version 1");
    fixture.patch(8, &1u32.to_le_bytes());
    fixture.is_whole();
}

#[test]
fn a_foreign_file_is_refused() {
    let fixture = Fixture::new();
    for foreign in [b"QFI\xfb\x00\x00\x00\x03".repeat(9000), b"#!/bin/sh\n".to_vec(), vec![0; 1 << 20]] {
        fs::write(&fixture.path, foreign).unwrap();
        fixture.is_refused(ErrorKind::System, "is not a Byway image");
    }
}

#[test]
fn an_image_with_a_damaged_superblock_is_named_as_damaged() {
    let fixture = Fixture::new();
    fixture.patch(100, &[0xff]);
    fixture.is_refused(ErrorKind::System, "is damaged: the superblock");
}

#[test]
fn a_missing_image_is_said_to_be_missing_and_a_folder_is_no_image() {
    let dir = tempfile::tempdir().unwrap();
    let said = byway::embedded::open(&format!("embedded:{}/none.img", dir.path().display()))
        .err()
        .unwrap()
        .to_string();
    assert!(said.contains("none.img") && said.contains("does not exist"), "{said}");
    let said =
        byway::embedded::open(&format!("embedded:{}", dir.path().display())).err().unwrap().to_string();
    assert!(!said.contains('\n') && said.contains(&dir.path().display().to_string()), "{said}");
}

#[test]
fn an_image_opened_twice_is_refused_and_the_first_opener_goes_on() {
    let fixture = Fixture::new();
    let first = byway::embedded::open(&fixture.uri()).unwrap();
    let mut kv = first.kv(None).unwrap();
    fixture.is_refused(ErrorKind::Busy, "is in use");
    kv.put(b"more", b"bytes").unwrap();
    fixture.is_refused(ErrorKind::Busy, "is in use");
    drop((kv, first));
    assert_eq!(
        byway::embedded::open(&fixture.uri()).unwrap().kv(None).unwrap().get(b"more").unwrap().unwrap(),
        b"bytes"
    );
    fixture.is_whole();
}

#[test]
fn a_read_only_image_is_refused_and_works_again_when_it_may_be_written() {
    let fixture = Fixture::new();
    fs::set_permissions(&fixture.path, fs::Permissions::from_mode(0o444)).unwrap();
    fixture.is_refused(ErrorKind::Denied, "read-only");
    fs::set_permissions(&fixture.path, fs::Permissions::from_mode(0o644)).unwrap();
    fixture.is_whole();
}

#[test]
fn an_image_that_nothing_was_written_to_checks_clean() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.img");
    byway::create(&path, &CreateOptions::new(24 << 20)).unwrap();
    assert_eq!(byway::check(&path, &mut |_, _, _| {}).unwrap().findings, []);
    drop(byway::embedded::open(&format!("embedded:{}", path.display())).unwrap());
    assert_eq!(byway::check(&path, &mut |_, _, _| {}).unwrap().findings, []);
}

#[test]
fn an_image_is_not_made_over_a_file_that_is_there() {
    let fixture = Fixture::new();
    let before = untouched(&fixture.path);
    let said = byway::create(&fixture.path, &CreateOptions::new(24 << 20)).unwrap_err().to_string();
    assert!(said.contains("exists already"), "{said}");
    assert!(untouched(&fixture.path) == before);
    fixture.is_whole();
}

#[test]
fn an_image_that_cannot_be_made_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.img");
    let said = byway::create(&path, &CreateOptions::new(1000)).unwrap_err().to_string();
    assert!(said.contains("too small"), "{said}");
    let profile = CreateOptions::new(24 << 20).profile("none");
    assert!(byway::create(&path, &profile).unwrap_err().to_string().contains("unknown profile"));
    // Too small for the engine, which notices when the file is there.
    let small = NewNamespace { size_bytes: Some(512 << 10), ..NewNamespace::KV };
    let small = CreateOptions::new(24 << 20).namespaces([small]);
    byway::create(&path, &small).unwrap_err();
    let large = NewNamespace { size_bytes: Some(1 << 40), ..NewNamespace::NVM };
    let large = CreateOptions::new(24 << 20).namespaces([large]);
    assert!(byway::create(&path, &large).unwrap_err().to_string().contains("do not fit"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_image_is_not_made_on_a_full_disk() {
    on_small_disk("an_image_is_not_made_on_a_full_disk", 256, |dir| {
        let path = dir.join("a.img");
        let error = byway::create(&path, &CreateOptions::new(64 << 20)).unwrap_err();
        assert!(error.to_string().contains("is full"), "{error}");
        assert!(!path.exists());
    });
}

/// Every put until the disk is full is there afterwards; the ones that failed left what was there before; with
/// room again, puts go on.
#[test]
fn a_full_disk_fails_puts_one_by_one_and_loses_nothing() {
    on_small_disk("a_full_disk_fails_puts_one_by_one_and_loses_nothing", 40 << 10, fill_by_puts);
}

fn fill_by_puts(dir: &Path) {
    let (path, ballast) = (dir.join("a.img"), dir.join("ballast"));
    byway::create(&path, &CreateOptions::new(64 << 20)).unwrap();
    let uri = format!("embedded:{}", path.display());
    let value = |n: u32| vec![n as u8; 3000];
    fs::write(&ballast, vec![1; 2 << 20]).unwrap();
    let (mut put, mut failed) = (0u32, 0);
    {
        let device = byway::embedded::open(&uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        while failed < 20 {
            match kv.put(&put.to_be_bytes(), &value(put)) {
                Ok(()) => put += 1,
                Err(error) => {
                    assert!(!error.to_string().contains('\n'), "{error}");
                    failed += 1;
                }
            }
        }
        assert!(put > 1000, "{put} puts until the disk was full");
        assert_eq!(kv.get(&0u32.to_be_bytes()).unwrap().unwrap(), value(0));
    }
    let device = byway::embedded::open(&uri).unwrap();
    let mut kv = device.kv(None).unwrap();
    for n in 0..put {
        assert_eq!(kv.get(&n.to_be_bytes()).unwrap().unwrap(), value(n), "{n}");
    }
    assert_eq!(kv.get(&put.to_be_bytes()).unwrap(), None);
    fs::remove_file(ballast).unwrap();
    for n in put..put + 100 {
        kv.put(&n.to_be_bytes(), &value(n)).unwrap();
        assert_eq!(kv.get(&n.to_be_bytes()).unwrap().unwrap(), value(n));
    }
}
