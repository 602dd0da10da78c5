//! Images of another size: everything is there, by its names; what does not fit is refused and nothing changes.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use byway::embedded::EmbeddedDevice;
use byway::{CreateOptions, ErrorKind, MediaNamespaceKind, NewNamespace, Nsid};
use byway_sys::{FolderEvents, NamePoint, NameStep, watching};

/// The error number of a failed disk.
const EIO: i32 = 5;

fn open(path: &Path) -> EmbeddedDevice {
    byway::embedded::open(&format!("embedded:{}", path.display())).unwrap()
}

fn resize(path: &Path, size_bytes: u64, sizes: &[(u32, u64)]) -> byway::Result<()> {
    byway::resize(path, size_bytes, sizes, &mut |_, _| ControlFlow::Continue(()))
}

/// A folder that can be synced no more once an image in it was replaced.
struct UnsyncedFolder;

impl FolderEvents for UnsyncedFolder {
    fn before(&self, step: &NameStep<'_>) -> io::Result<()> {
        match step {
            NameStep::Sync { point: NamePoint::ReplacedName, .. } => Err(io::Error::from_raw_os_error(EIO)),
            _ => Ok(()),
        }
    }
}

#[test]
fn resize_whose_folder_is_not_synced_says_that_the_new_image_has_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    byway::create(&path, &CreateOptions::new(32 << 20)).unwrap();
    let before = path.metadata().unwrap().ino();
    let refused = watching(Rc::new(UnsyncedFolder), || resize(&path, 48 << 20, &[])).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::System);
    let message = refused.to_string();
    assert!(message.contains("may not survive a power loss: syncing its folder failed"), "{message}");
    assert_eq!(byway::SystemCause::of(&refused).unwrap().errno, EIO);
    assert_ne!(path.metadata().unwrap().ino(), before, "the new image has the name");
    assert!(byway::check(&path, &mut |_, _, _| {}).unwrap().is_clean());
}

fn nsid(n: u32) -> Nsid {
    Nsid::new(n).unwrap()
}

/// An image with keys, in memory, run and log, and with blocks at the front of a namespace of 8 MiB.
fn image(path: &Path) {
    let nvm = NewNamespace { kind: MediaNamespaceKind::Nvm { lba_bytes: 4096 }, size_bytes: Some(8 << 20) };
    let kv = NewNamespace { size_bytes: Some(20 << 20), ..NewNamespace::KV };
    let options = CreateOptions::new(32 << 20).namespaces([kv, nvm]);
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
fn grown_image_keeps_its_content_and_identity() {
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
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
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
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    let details = open(&path).details();
    assert_eq!((details.power.unsafe_shutdowns, details.capacity_bytes), (0, 32 << 20));
    holds_everything(&path);
}

/// Rounds of a loop; `BYWAY_TEST_ROUNDS` sets more.
fn rounds() -> u64 {
    std::env::var("BYWAY_TEST_ROUNDS").map_or(25, |rounds| rounds.parse().unwrap())
}

/// Puts of one writer, each by an opening of its own, until `is_over`; how many were acknowledged. One that finds the image
/// in use tries again.
fn put_until(path: &Path, writer: u8, is_over: &AtomicBool, acknowledged: &AtomicU64) -> u64 {
    let uri = format!("embedded:{}", path.display());
    let mut done = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        match byway::embedded::open(&uri) {
            Ok(device) => {
                let mut key = [writer; 9];
                key[1..].copy_from_slice(&done.to_be_bytes());
                device.kv(None).unwrap().put(&key, &done.to_le_bytes()).unwrap();
                done += 1;
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        }
    }
    done
}

/// Resizes as often as there are rounds, with a put between each two.
fn resize_beside_puts(path: &Path, acknowledged: &AtomicU64) {
    for round in 0..rounds() {
        let before = acknowledged.load(Ordering::Relaxed);
        while let Err(error) = resize(path, (8 + round % 2) << 20, &[]) {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
        while acknowledged.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
    }
}

#[test]
fn puts_acknowledged_beside_resizes_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    byway::create(&path, &CreateOptions::new(8 << 20)).unwrap();
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let done: Vec<u64> = std::thread::scope(|scope| {
        let (path, is_over, acknowledged) = (&path, &is_over, &acknowledged);
        let writer = |writer| scope.spawn(move || put_until(path, writer, is_over, acknowledged));
        let writers: Vec<_> = [0, 1].into_iter().map(writer).collect();
        resize_beside_puts(path, acknowledged);
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    println!("{} resizes, {done:?} puts", rounds());
    let device = open(&path);
    let mut kv = device.kv(None).unwrap();
    for (writer, done) in done.into_iter().enumerate() {
        for nth in 0..done {
            let mut key = [writer as u8; 9];
            key[1..].copy_from_slice(&nth.to_be_bytes());
            assert_eq!(
                kv.get(&key).unwrap().as_deref(),
                Some(&nth.to_le_bytes()[..]),
                "put {nth} of {writer}"
            );
        }
    }
}

#[test]
fn a_resized_image_keeps_its_mode_and_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    image(&path);
    for mode in [0o600, 0o640] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(4711), Some(4712)).unwrap();
        }
        let of = || path.metadata().map(|found| (found.mode(), found.uid(), found.gid())).unwrap();
        let before = of();
        resize(&path, 64 << 20, &[]).unwrap();
        assert_eq!(of(), before);
    }
    holds_everything(&path);
}

#[test]
fn a_resize_of_a_symbolic_link_replaces_the_image_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, folder) = (dir.path().join("disk.img"), dir.path().join("links"));
    image(&path);
    std::fs::create_dir(&folder).unwrap();
    let link = folder.join("link.img");
    symlink("../disk.img", &link).unwrap();
    resize(&link, 64 << 20, &[]).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(open(&path).details().capacity_bytes, 64 << 20);
    holds_everything(&link);
}

#[test]
fn a_resize_of_an_image_with_hard_links_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("disk.img"), dir.path().join("other.img"));
    image(&path);
    std::fs::hard_link(&path, &other).unwrap();
    let refused = resize(&path, 64 << 20, &[]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.to_string().contains("2 names (hard links)"), "{refused}");
    assert_eq!(path.metadata().unwrap().ino(), other.metadata().unwrap().ino());
    std::fs::remove_file(&other).unwrap();
    resize(&path, 64 << 20, &[]).unwrap();
    holds_everything(&path);
}

#[test]
fn a_resize_leaves_files_beside_the_image_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, victim) = (dir.path().join("disk.img"), dir.path().join("victim"));
    let (beside, link) = (dir.path().join("disk.img.resized"), dir.path().join("disk.img.resized.link"));
    image(&path);
    std::fs::write(&victim, "victim").unwrap();
    std::fs::write(&beside, "mine").unwrap();
    symlink(&victim, &link).unwrap();
    resize(&path, 64 << 20, &[]).unwrap();
    assert_eq!(std::fs::read(&beside).unwrap(), b"mine");
    std::fs::remove_file(&beside).unwrap();
    std::fs::rename(&link, &beside).unwrap();
    resize(&path, 96 << 20, &[]).unwrap();
    assert!(beside.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read(&victim).unwrap(), b"victim");
    holds_everything(&path);
}
