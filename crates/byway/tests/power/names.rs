//! Syncs of names of files: without any one of them, a power loss loses a file that the caller was promised.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use byway::{CreateOptions, FileEvents};
use byway_forgetful::{Forgetful, image_folder};
use byway_sys::{FolderEvents, NamePoint, NameStep, watching};

/// A folder, and what of it is on the disk for certain.
struct Disk {
    folder: PathBuf,
    /// A sync that counts for nothing.
    left_out: Option<NamePoint>,
    /// Names, each with the file that has it.
    names: RefCell<BTreeMap<OsString, u64>>,
    /// Files that were made, as far as they are watched.
    files: RefCell<BTreeMap<PathBuf, Arc<File>>>,
}

impl Disk {
    fn new(folder: &Path, left_out: Option<NamePoint>) -> Rc<Self> {
        let names = RefCell::new(names_in(folder));
        Rc::new(Self { folder: folder.into(), left_out, names, files: RefCell::default() })
    }

    /// Whether a loss of power leaves the file that is at `path` now under that name.
    fn keeps(&self, path: &Path) -> bool {
        let is = std::fs::metadata(path).unwrap().ino();
        self.names.borrow().get(path.file_name().unwrap()) == Some(&is)
    }
}

fn names_in(folder: &Path) -> BTreeMap<OsString, u64> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().ino())).collect()
}

impl FolderEvents for Disk {
    fn file(&self, path: &Path) -> Option<Arc<dyn FileEvents>> {
        let is_content_left_out = self.left_out == Some(NamePoint::CopyContent);
        let file = Arc::new(File { disk: Forgetful::new(path, 1), is_content_left_out });
        self.files.borrow_mut().insert(path.into(), file.clone());
        Some(file)
    }

    fn before(&self, step: &NameStep<'_>) -> io::Result<()> {
        // The name may be on the disk before the content is, and whatever was not synced is lost.
        let (NameStep::Link { from, to } | NameStep::Rename { from, to }) = step else { return Ok(()) };
        let mut files = self.files.borrow_mut();
        let file = files[*from].clone();
        file.disk.cut_by(&self.folder.join("left"), |_| false);
        files.insert(to.to_path_buf(), file);
        Ok(())
    }

    fn after(&self, step: &NameStep<'_>) {
        let NameStep::Sync { point, .. } = step else { return };
        if *point != NamePoint::CopyContent && Some(*point) != self.left_out {
            *self.names.borrow_mut() = names_in(&self.folder);
        }
    }
}

/// A file of that folder.
#[derive(Debug)]
struct File {
    disk: Arc<Forgetful>,
    is_content_left_out: bool,
}

impl FileEvents for File {
    fn before_write(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.disk.before_write(at, len_bytes)
    }

    fn before_punch(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.disk.before_punch(at, len_bytes)
    }

    fn mapped(&self, at: u64, len_bytes: u64) {
        self.disk.mapped(at, len_bytes);
    }

    fn before_sync(&self) -> io::Result<()> {
        self.disk.before_sync()
    }

    fn after_sync(&self) {
        if !self.is_content_left_out {
            self.disk.after_sync();
        }
    }
}

fn has_key(image: &Path) -> bool {
    let found = byway::embedded::open(&format!("embedded:{}", image.display()))
        .and_then(|device| device.kv(None)?.get(b"key"));
    matches!(found, Ok(Some(value)) if value == b"value")
}

fn make(image: &Path) {
    byway::create(image, &CreateOptions::new(4 << 20)).unwrap();
}

/// An image with a key.
fn made(folder: &Path) -> PathBuf {
    let image = folder.join("image");
    make(&image);
    let device = byway::embedded::open(&format!("embedded:{}", image.display())).unwrap();
    device.kv(None).unwrap().put(b"key", b"value").unwrap();
    device.close().unwrap();
    image
}

/// Whether the promised file exists after a power loss.
fn play(point: NamePoint, left_out: Option<NamePoint>) -> bool {
    let folder = image_folder();
    let (image, copy) = (folder.path().join("image"), folder.path().join("copy"));
    let left = folder.path().join("left");
    if point != NamePoint::ImageName {
        made(folder.path());
    }
    let disk = Disk::new(folder.path(), left_out);
    watching(disk.clone(), || match point {
        NamePoint::ImageName => make(&image),
        NamePoint::CopyContent | NamePoint::CopyName => _ = byway::snapshot(&image, &copy).unwrap(),
        NamePoint::ReplacedName => {
            byway::resize(&image, 8 << 20, &[], &mut |_, _| ControlFlow::Continue(())).unwrap()
        }
    });
    match point {
        NamePoint::ImageName => disk.keeps(&image),
        NamePoint::CopyName => disk.keeps(&copy),
        NamePoint::CopyContent => has_key(&left),
        // What is acknowledged from here on is in the file that has the name now.
        NamePoint::ReplacedName => disk.keeps(&image) && has_key(&left),
    }
}

#[test]
fn every_sync_of_a_name_is_necessary() {
    for point in NamePoint::ALL {
        assert!(play(point, None), "{point:?} is not enough");
        assert!(!play(point, Some(point)), "without {point:?} nothing was lost");
    }
}

#[test]
fn a_copy_of_an_open_image_is_on_its_disk_before_it_has_its_name() {
    let folder = image_folder();
    let (image, copy) = (made(folder.path()), folder.path().join("copy"));
    let device = byway::embedded::open(&format!("embedded:{}", image.display())).unwrap();
    let disk = Disk::new(folder.path(), None);
    watching(disk.clone(), || device.snapshot(&copy).unwrap());
    assert!(disk.keeps(&copy) && has_key(&folder.path().join("left")));
}
