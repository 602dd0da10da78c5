//! A file system that fails while an image is made, copied, resized or repaired: at each of its operations, with no room or an
//! I/O error. The caller gets one sentence; what was there is there; nothing half made has a name of its own; and once
//! the file system is well, it is done.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byway::{CreateOptions, FileEvents};
use byway_crash_tests::sparse;
use byway_sys::{FolderEvents, NameStep, watching};
use rustix::io::Errno;

/// The file system: from operation `at` on, or that one alone, it fails.
#[derive(Debug)]
struct Failing {
    at: u64,
    lasts: bool,
    errno: Errno,
    seen: AtomicU64,
}

impl Failing {
    fn operation(&self, may_be_full: bool) -> io::Result<()> {
        let nth = self.seen.fetch_add(1, Ordering::Relaxed);
        if nth < self.at || nth > self.at && !self.lasts {
            return Ok(());
        }
        let errno = if may_be_full { self.errno } else { Errno::IO };
        Err(errno.into())
    }
}

impl FileEvents for Failing {
    fn before_write(&self, _: u64, _: u64) -> io::Result<()> {
        self.operation(true)
    }

    fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
        self.operation(true)
    }

    fn before_sync(&self) -> io::Result<()> {
        self.operation(false)
    }
}

struct Folder(Arc<Failing>);

impl FolderEvents for Folder {
    fn file(&self, _: &Path) -> Option<Arc<dyn FileEvents>> {
        Some(self.0.clone())
    }

    fn before(&self, _: &NameStep<'_>) -> io::Result<()> {
        self.0.operation(false)
    }
}

const KEYS: u32 = 200;

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; 40 + key as usize * 7]
}

fn uri(image: &Path) -> String {
    format!("embedded:{}?memtable=2K", image.display())
}

/// An image with pairs, left as it is while it is open.
fn base(dir: &Path) -> PathBuf {
    let (image, base) = (dir.join("made"), dir.join("base"));
    byway::create(&image, &CreateOptions::new(4 << 20)).unwrap();
    let device = byway::embedded::open(&uri(&image)).unwrap();
    let mut pairs = device.kv(None).unwrap();
    (0..KEYS).for_each(|key| pairs.put(&key.to_be_bytes(), &value(key)).unwrap());
    sparse::copy(&image, &base).unwrap();
    base
}

fn holds_all(image: &Path) {
    assert_eq!(byway::check(image, &mut |_, _, _| {}).unwrap().findings, []);
    let device = byway::embedded::open(&uri(image)).unwrap();
    let mut pairs = device.kv(None).unwrap();
    (0..KEYS).for_each(|key| assert_eq!(pairs.get(&key.to_be_bytes()).unwrap(), Some(value(key)), "{key}"));
}

fn perform(what: &str, image: &Path) -> byway::Result<()> {
    match what {
        "create" => byway::create(image.with_extension("new"), &CreateOptions::new(4 << 20)),
        "snapshot" => byway::snapshot(image, image.with_extension("copy")).map(drop),
        "resize" => byway::resize(image, 8 << 20, &[], &mut |_, _| ControlFlow::Continue(())),
        "repair" => byway::repair(image, &mut |_, _, _| {}).map(drop),
        _ => panic!("{what:?}"),
    }
}

/// Has each operation fail in turn; how many there are.
fn fails_at_each(what: &str) -> u64 {
    let dir = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let (base, image) = (base(dir.path()), dir.path().join("image"));
    let operations = Cell::new(u64::MAX);
    for (lasts, errno) in [(false, Errno::IO), (true, Errno::IO), (false, Errno::NOSPC), (true, Errno::NOSPC)]
    {
        for at in 0.. {
            for left in ["image.new", "image.copy"] {
                let _ = std::fs::remove_file(dir.path().join(left));
            }
            sparse::copy(&base, &image).unwrap();
            let failing = Arc::new(Failing { at, lasts, errno, seen: AtomicU64::new(0) });
            let done = watching(Rc::new(Folder(failing.clone())), || perform(what, &image));
            verify(what, &image, &done, &format!("{what}, operation {at}, {errno:?}, lasts: {lasts}"));
            if failing.seen.load(Ordering::Relaxed) <= at {
                assert!(done.is_ok(), "{what} fails by itself: {done:?}");
                operations.set(at);
                break;
            }
        }
    }
    operations.get()
}

fn verify(what: &str, image: &Path, done: &byway::Result<()>, label: &str) {
    if let Err(error) = done {
        let said = error.to_string();
        assert!(!said.is_empty() && !said.contains('\n'), "{label}: {said:?}");
        for entry in std::fs::read_dir(image.parent().unwrap()).unwrap() {
            let name = entry.unwrap().file_name();
            let is_known =
                ["made", "base", "image", "image.new", "image.copy"].iter().any(|known| name == *known);
            assert!(is_known, "{label}: {name:?}");
        }
        // A name that is there and may not outlive a loss of power is no half of anything.
        let _ = std::fs::remove_file(image.with_extension("new"));
        let _ = std::fs::remove_file(image.with_extension("copy"));
        perform(what, image).unwrap_or_else(|error| panic!("{label}, done again: {error}"));
    }
    let copy = image.with_extension("copy");
    if copy.exists() {
        holds_all(&copy);
    }
    holds_all(image);
}

#[test]
fn an_image_is_made_or_it_is_said_why_not() {
    assert!(fails_at_each("create") > 4);
}

#[test]
fn a_snapshot_is_made_or_it_is_said_why_not() {
    assert!(fails_at_each("snapshot") > 4);
}

#[test]
fn an_image_is_resized_or_as_it_was() {
    assert!(fails_at_each("resize") > 4);
}

#[test]
fn an_image_is_repaired_or_can_be_repaired_again() {
    assert!(fails_at_each("repair") > 2);
}
