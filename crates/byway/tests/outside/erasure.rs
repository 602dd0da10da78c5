//! Format and sanitize leave no stored byte in the image.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use byway::embedded::EmbeddedDevice;
use byway::{CreateOptions, ErrorKind, MediaNamespaceKind, NewNamespace, Nsid, Wipe};
use byway_sys::copy::{CopyFile, DataRanges, copy_sparse};

const KEYS: u32 = 900;

fn key(n: u32) -> Vec<u8> {
    format!("KeyMarker{n:05}").into_bytes()
}

/// A device whose namespaces hold markers everywhere: in the log and the index, overwritten and deleted, in blocks.
fn marked(path: &Path) -> EmbeddedDevice {
    let nvm = NewNamespace { kind: MediaNamespaceKind::Nvm { lba_bytes: 4096 }, size_bytes: Some(8 << 20) };
    let options = CreateOptions::new(32 << 20).namespaces([NewNamespace::KV, nvm]);
    byway::create(path, &options).unwrap();
    let uri = format!("embedded:{}", path.display());
    let device = byway::embedded::open(&uri).unwrap();
    store(&device);
    // Reopened, so that keys are in a run of the index too.
    device.close().unwrap();
    let device = byway::embedded::open(&uri).unwrap();
    store(&device);
    device
}

fn store(device: &EmbeddedDevice) {
    let mut kv = device.kv(None).unwrap();
    for n in 0..KEYS {
        let value = b"ValueMarker".repeat(if n % 50 == 0 { 900 } else { 1 + n as usize % 9 });
        kv.put(&key(n), &value).unwrap();
        if n % 3 == 0 {
            kv.delete(&key(n / 2)).unwrap();
        }
    }
    let mut nvm = device.nvm(None).unwrap();
    for lba in 0..70 {
        nvm.write(lba % 60, &b"BlockMarker.....".repeat(256)).unwrap();
    }
}

/// The markers that are in a file.
fn markers_in(path: &Path) -> Vec<&'static str> {
    let file = File::open(path).unwrap();
    let mut bytes = Vec::new();
    for range in DataRanges::new(&file, file.metadata().unwrap().len()) {
        let (at, len) = range.unwrap();
        let before = bytes.len();
        bytes.resize(before + len as usize, 0);
        file.read_exact_at(&mut bytes[before..], at).unwrap();
    }
    let is_in = |marker: &&str| bytes.windows(marker.len()).any(|window| window == marker.as_bytes());
    ["KeyMarker", "ValueMarker", "BlockMarker"].into_iter().filter(is_in).collect()
}

fn nsid(n: u32) -> Nsid {
    Nsid::new(n).unwrap()
}

#[test]
fn an_erasing_format_leaves_nothing_of_its_namespace_and_all_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let device = marked(&path);
    assert_eq!(markers_in(&path).len(), 3);
    device.format(nsid(1), 0, true).unwrap();
    assert_eq!(markers_in(&path), ["BlockMarker"]);
    let mut kv = device.kv(None).unwrap();
    assert_eq!(kv.get(&key(5)).unwrap(), None);
    kv.put(b"new", b"works").unwrap();
    assert_eq!(kv.get(b"new").unwrap().as_deref(), Some(&b"works"[..]));
    let mut block = vec![0; 4096];
    device.nvm(None).unwrap().read(7, &mut block).unwrap();
    assert_eq!(block, b"BlockMarker.....".repeat(256));
    drop(kv);
    device.format(nsid(2), 0, true).unwrap();
    assert_eq!(markers_in(&path), [""; 0]);
    device.close().unwrap();
    assert!(byway::check(&path, &mut |_, _, _| {}).unwrap().is_clean());
}

#[test]
fn an_erasing_format_of_blocks_leaves_every_page_of_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let device = marked(&path);
    let mut kv = device.kv(None).unwrap();
    let before: Vec<_> = (0..KEYS).map(|n| kv.get(&key(n)).unwrap()).collect();
    device.format(nsid(2), 0, true).unwrap();
    for (n, before) in (0..KEYS).zip(&before) {
        assert_eq!(kv.get(&key(n)).unwrap(), *before, "key {n}");
    }
    drop(kv);
    device.close().unwrap();
    let checked = byway::check(&path, &mut |_, _, _| {}).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
}

#[test]
fn a_sanitized_image_holds_nothing_that_was_ever_stored_and_can_be_used() {
    for wipe in [Wipe::BlockErase, Wipe::Overwrite { passes: 2, pattern: 0xdead_beef }] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let device = marked(&path);
        device.sanitize(wipe, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(markers_in(&path), [""; 0], "{wipe:?}");
        store(&device);
        let mut kv = device.kv(None).unwrap();
        assert!(kv.get(&key(899)).unwrap().is_some());
        drop(kv);
        device.close().unwrap();
        let checked = byway::check(&path, &mut |_, _, _| {}).unwrap();
        assert!(checked.is_clean(), "{:?}", checked.findings);
    }
}

#[test]
fn sanitize_action_that_is_not_announced_is_unsupported() {
    let device = byway::open("ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", b"value").unwrap();
    let error = device.sanitize(Wipe::CryptoErase, |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("bit 0 of its SANICAP"), "{error}");
    assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_sanitize_that_its_caller_left_is_finished_by_the_next_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let device = marked(&path);
    let left = device.sanitize(Wipe::BlockErase, |_| ControlFlow::Break(())).unwrap_err();
    assert_eq!(left.kind(), ErrorKind::Cancelled);
    drop(device);
    drop(byway::embedded::open(&format!("embedded:{}", path.display())).unwrap());
    assert_eq!(markers_in(&path), [""; 0]);
}

#[test]
fn a_sanitize_that_is_cut_short_is_finished_by_the_next_opener() {
    let dir = tempfile::tempdir().unwrap();
    let (path, cut) = (dir.path().join("disk.img"), dir.path().join("cut.img"));
    let device = marked(&path);
    let mut looks = 0;
    device
        .sanitize(Wipe::BlockErase, |_| {
            looks += 1;
            if looks == 2 {
                copy_sparse(
                    &File::open(&path).unwrap(),
                    &CopyFile::new(File::create_new(&cut).unwrap(), &cut),
                    |_| {},
                )
                .unwrap();
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(looks >= 2, "{looks}");
    let device = byway::embedded::open(&format!("embedded:{}", cut.display())).unwrap();
    assert_eq!(markers_in(&cut), [""; 0]);
    assert_eq!(device.kv(None).unwrap().get(&key(5)).unwrap(), None);
}
