//! Copies of images that are in use: everything acknowledged before is in them, and they are sound.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use byway::{CreateOptions, Device};

fn open(path: &Path) -> Device {
    byway::open(&format!("embedded:{}", path.display())).unwrap()
}

fn key(n: u32) -> [u8; 4] {
    (n % 5000).to_be_bytes()
}

/// The value of the `n`th put: its number, over and over.
fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + n as usize % 700)
}

/// Checks a copy: sound, nothing torn, and of each key at least the put that was acknowledged before.
fn holds(copy: &Path, acknowledged: u32) {
    let checked = byway::check(copy, &mut |_, _, _| {}).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
    let device = open(copy);
    let mut kv = device.kv(None).unwrap();
    for n in acknowledged.saturating_sub(5000)..acknowledged {
        let found = kv.get(&key(n)).unwrap().unwrap();
        let which = u32::from_le_bytes(found[..4].try_into().unwrap());
        assert!(which >= n && which % 5000 == n % 5000, "put {which} under the key of {n}");
        assert_eq!(found, value(which));
    }
}

/// Takes snapshots of `path` by `take` while puts go on, so many that blocks are erased meanwhile.
fn under_load(path: &Path, take: impl Fn(&Device, &Path)) {
    byway::create(path, &CreateOptions::new(32 << 20)).unwrap();
    let device = open(path);
    let (done, acknowledged) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut kv = device.kv(None).unwrap();
            for n in 0..u32::MAX {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                kv.put(&key(n), &value(n)).unwrap();
                acknowledged.store(n + 1, Ordering::Release);
            }
        });
        for nth in 0..3 {
            while acknowledged.load(Ordering::Acquire) < (nth + 1) * 8000 {
                std::thread::yield_now();
            }
            let copy = path.with_extension(format!("copy{nth}"));
            let before = acknowledged.load(Ordering::Acquire);
            take(&device, &copy);
            holds(&copy, before);
        }
        done.store(true, Ordering::Relaxed);
    });
    device.close().unwrap();
}

#[test]
fn a_snapshot_under_load_holds_every_put_that_was_acknowledged_before() {
    let dir = tempfile::tempdir().unwrap();
    under_load(&dir.path().join("disk.img"), |device, copy| {
        let report = device.snapshot(copy).unwrap();
        assert!(report.pause_ns > 0);
    });
}

#[test]
fn a_snapshot_is_taken_by_whoever_has_the_image_open_when_another_asks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    under_load(&path, |_, copy| {
        let report = byway::snapshot(&path, copy).unwrap();
        assert!(report.pause_ns > 0);
    });
}

#[test]
fn a_closed_image_is_copied_as_sparse_as_it_is_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("disk.img"), dir.path().join("copy.img"));
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let device = open(&path);
    device.kv(None).unwrap().put(b"key", b"value").unwrap();
    device.close().unwrap();
    assert_eq!(byway::snapshot(&path, &copy).unwrap().pause_ns, 0);
    let (image, copied) = (path.metadata().unwrap(), copy.metadata().unwrap());
    assert_eq!(image.len(), copied.len());
    assert!(copied.blocks() <= image.blocks() + 1024);
    assert_eq!(open(&copy).kv(None).unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    let said = byway::snapshot(&path, &copy).unwrap_err().to_string();
    assert!(said.contains("exists already"), "{said}");
}
