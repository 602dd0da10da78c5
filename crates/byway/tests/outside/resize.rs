//! Images of another size: everything is there, by its names; what does not fit is refused and nothing changes.

use std::ops::ControlFlow;
use std::path::Path;

use byway::embedded::Device;
use byway::{CreateOptions, ErrorKind, MediaNamespaceKind, NewNamespace, Nsid};

fn open(path: &Path) -> Device {
    byway::embedded::open(&format!("embedded:{}", path.display())).unwrap()
}

fn resize(path: &Path, size_bytes: u64, sizes: &[(u32, u64)]) -> byway::Result<()> {
    byway::resize(path, size_bytes, sizes, &mut |_, _| ControlFlow::Continue(()))
}

fn nsid(n: u32) -> Nsid {
    Nsid::new(n).unwrap()
}

/// An image with keys, in memory, run and log, and with blocks at the front of a namespace of 8 MiB.
fn image(path: &Path) {
    let nvm = NewNamespace { kind: MediaNamespaceKind::Nvm { lba_bytes: 4096 }, size_bytes: Some(8 << 20) };
    let kv = NewNamespace { size_bytes: Some(20 << 20), ..NewNamespace::KV };
    let options = CreateOptions { namespaces: vec![kv, nvm], ..CreateOptions::new(32 << 20) };
    byway::create(path, &options).unwrap();
    for half in 0..2 {
        let device = open(path);
        let mut kv = device.kv(None).unwrap();
        for n in 0..400_u32 {
            kv.put(&(n * 2 + half).to_be_bytes(), &vec![n as u8; n as usize * 3 % 5000]).unwrap();
        }
        let mut nvm = device.nvm(None).unwrap();
        (0..100).for_each(|lba| nvm.write(lba, &[lba as u8; 4096]).unwrap());
    }
}

fn holds_everything(path: &Path) {
    let checked = byway::check(path, &mut |_, _, _| {}).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
    let device = open(path);
    let mut kv = device.kv(None).unwrap();
    for n in 0..800_u32 {
        let found = kv.get(&n.to_be_bytes()).unwrap().unwrap();
        assert_eq!(found, vec![(n / 2) as u8; n as usize / 2 * 3 % 5000], "key {n}");
    }
    kv.put(b"more", b"fits").unwrap();
    let mut nvm = device.nvm(None).unwrap();
    for lba in 0..100 {
        let mut block = vec![0; 4096];
        nvm.read(lba, &mut block).unwrap();
        assert_eq!(block, [lba as u8; 4096]);
    }
}

#[test]
fn a_grown_image_holds_everything_and_keeps_who_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    image(&path);
    let before = open(&path);
    let (serial, was) = (before.identity().serial.clone(), before.details());
    drop(before);
    resize(&path, 96 << 20, &[(2, 40 << 20)]).unwrap();
    holds_everything(&path);
    let device = open(&path);
    assert_eq!(device.identity().serial, serial);
    assert_eq!(device.details().capacity_bytes, 96 << 20);
    assert_eq!(device.namespace(nsid(2)).unwrap().size_bytes, 40 << 20);
    assert!(device.details().power.power_cycles > was.power.power_cycles);
    assert!(device.details().counters.accepted_bytes >= was.counters.accepted_bytes);
    device.nvm(None).unwrap().write(10_000, &[7; 4096]).unwrap();
    assert!(!dir.path().join("disk.img.resized").exists());
}

#[test]
fn an_image_shrinks_to_what_its_namespaces_need_and_no_further() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    image(&path);
    let refused = resize(&path, 24 << 20, &[]).unwrap_err().to_string();
    assert!(refused.contains("have 28 MiB together") && refused.contains("device of 24 MiB"), "{refused}");
    let refused = resize(&path, 24 << 20, &[(2, 1 << 18)]).unwrap_err().to_string();
    assert!(refused.contains("holds data beyond"), "{refused}");
    let refused = resize(&path, 64 << 20, &[(1, 8 << 20)]).unwrap_err().to_string();
    assert!(refused.contains("keeps the size"), "{refused}");
    holds_everything(&path);
    resize(&path, 24 << 20, &[(2, 1 << 20)]).unwrap();
    holds_everything(&path);
    assert_eq!(open(&path).details().capacity_bytes, 24 << 20);
    let spares = open(&path).details().health.spare_blocks;
    assert!(spares >= 4, "what the keys were promised is there, and {spares} blocks to spare");
}

#[test]
fn a_refused_resize_leaves_the_image_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    image(&path);
    for _ in 0..3 {
        resize(&path, 1 << 20, &[]).unwrap_err();
    }
    let details = open(&path).details();
    assert_eq!(details.power.unsafe_shutdowns, 0);
    assert!(!details.recovery.unclean);
}

#[test]
fn a_resize_that_is_ended_leaves_the_image_as_it_was_and_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    image(&path);
    let ended = byway::resize(&path, 96 << 20, &[], &mut |_, _| ControlFlow::Break(())).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Cancelled);
    assert!(!dir.path().join("disk.img.resized").exists());
    let details = open(&path).details();
    assert_eq!((details.power.unsafe_shutdowns, details.capacity_bytes), (0, 32 << 20));
    holds_everything(&path);
}
