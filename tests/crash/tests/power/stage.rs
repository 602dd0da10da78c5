//! An image over a file that forgets unsynced pages, one operation on it, and the state after power losses during it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use byway::FileEvents;
use byway_crash_tests::flip::Structure;
use byway_forgetful::{Forgetful, Sector};
use byway_kit::mix;
use byway_sys::{FolderEvents, NameStep, watching};
use parking_lot::Mutex;

/// Which of the sectors that changed since the last sync reach the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Nothing,
    Everything,
    /// Those of one structure.
    Only(&'static str),
    /// Those of all others.
    AllBut(&'static str),
    /// Any.
    Scattered(u64),
}

impl Fate {
    /// All that there are for an image of these structures, and some of the last kind.
    pub fn all(structures: &[Structure]) -> Vec<Self> {
        let names = || structures.iter().map(|structure| structure.name);
        let sweeping = [Self::Nothing, Self::Everything].into_iter();
        sweeping
            .chain(names().map(Self::Only))
            .chain(names().map(Self::AllBut))
            .chain((0..6).map(Self::Scattered))
            .collect()
    }

    fn reaches(self, sector: &Sector<'_>, structures: &[Structure]) -> bool {
        let is_in = |name: &str| {
            let found = structures.iter().find(|structure| structure.bytes.contains(&sector.at));
            found.is_some_and(|structure| structure.name == name)
        };
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Only(name) => is_in(name),
            Self::AllBut(name) => !is_in(name),
            Self::Scattered(seed) => mix(seed, sector.at).is_multiple_of(2),
        }
    }
}

/// What losses of power leave.
#[derive(Debug, Default)]
pub struct Left {
    /// The image, and the fate that left it so.
    pub images: Vec<(PathBuf, Fate)>,
    /// The file that gets its name, as it is when it does.
    pub successors: Vec<(PathBuf, Fate)>,
    /// Syncs of files.
    pub syncs: usize,
}

/// How power is lost: at every event of the image's file, with each of these fates.
#[derive(Debug, Clone)]
pub struct Losses {
    /// Where what is left goes.
    pub folder: PathBuf,
    pub structures: Vec<Structure>,
    pub fates: Vec<Fate>,
    /// A sync of a file that counts for nothing.
    pub left_out: Option<usize>,
}

/// A folder in which power is lost.
#[derive(Debug)]
struct Disk {
    losses: Losses,
    files: Mutex<Vec<(PathBuf, Arc<Forgetful>)>>,
    seen: Mutex<HashSet<u64>>,
    left: Mutex<Left>,
}

struct Folder(Arc<Disk>);

impl FolderEvents for Folder {
    fn file(&self, path: &Path) -> Option<Arc<dyn FileEvents>> {
        let file = Forgetful::new(path, 1);
        let mut files = self.0.files.lock();
        let is_image = files.is_empty();
        files.push((path.into(), file.clone()));
        Some(Arc::new(Watched { file, disk: self.0.clone(), is_image }))
    }

    fn before(&self, step: &NameStep<'_>) -> io::Result<()> {
        let (NameStep::Link { from, to } | NameStep::Rename { from, to }) = step else { return Ok(()) };
        let mut files = self.0.files.lock();
        let (_, file) = files.iter().rfind(|(path, _)| path == from).unwrap();
        let file = file.clone();
        // Where its structures are is another question: all of it has to be there.
        let successors =
            self.0.cut(&file, "successor", &[Fate::Nothing, Fate::Everything, Fate::Scattered(1)]);
        files.push((to.to_path_buf(), file));
        self.0.left.lock().successors.extend(successors);
        Ok(())
    }
}

impl Disk {
    /// Loses power now; what is left, as far as nothing else left that.
    fn cut(&self, file: &Forgetful, name: &str, fates: &[Fate]) -> Vec<(PathBuf, Fate)> {
        let (mut left, mut seen) = (Vec::new(), self.seen.lock());
        let syncs = self.left.lock().syncs;
        for fate in fates {
            let to = self.losses.folder.join(format!("{name}-{}", seen.len()));
            let hasher = RefCell::new(DefaultHasher::new());
            (name, syncs).hash(&mut *hasher.borrow_mut());
            file.cut_by(&to, |sector| {
                let reaches = fate.reaches(sector, &self.losses.structures);
                if reaches {
                    (sector.at, sector.stored).hash(&mut *hasher.borrow_mut());
                }
                reaches
            });
            if seen.insert(hasher.into_inner().finish()) {
                left.push((to, *fate));
            }
        }
        left
    }
}

#[derive(Debug)]
struct Watched {
    file: Arc<Forgetful>,
    disk: Arc<Disk>,
    is_image: bool,
}

impl Watched {
    fn cut(&self) {
        if self.is_image {
            let left = self.disk.cut(&self.file, "image", &self.disk.losses.fates);
            self.disk.left.lock().images.extend(left);
        }
    }
}

impl FileEvents for Watched {
    fn before_write(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.cut();
        self.file.before_write(at, len_bytes)
    }

    fn before_allocate(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.cut();
        self.file.before_allocate(at, len_bytes)
    }

    fn before_punch(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        self.cut();
        self.file.before_punch(at, len_bytes)
    }

    fn mapped(&self, at: u64, len_bytes: u64) {
        self.file.mapped(at, len_bytes);
    }

    fn before_sync(&self) -> io::Result<()> {
        self.cut();
        self.file.before_sync()
    }

    fn after_sync(&self) {
        let mut left = self.disk.left.lock();
        if self.disk.losses.left_out != Some(left.syncs) {
            self.file.after_sync();
        }
        left.syncs += 1;
    }
}

/// Undertakes something with the image that is opened first, and loses power at every event on the way.
pub fn lose_power(losses: Losses, perform: impl FnOnce()) -> Left {
    let (files, seen, left) = (Mutex::default(), Mutex::default(), Mutex::default());
    let disk = Arc::new(Disk { losses, files, seen, left });
    watching(Rc::new(Folder(disk.clone())), perform);
    let mut left = std::mem::take(&mut *disk.left.lock());
    if left.successors.is_empty() {
        let (_, file) = &disk.files.lock()[0];
        left.images.extend(disk.cut(file, "image", &disk.losses.fates));
    }
    left
}

/// The structure that says which boot the image was written under, and where.
pub const STATE: &str = "device state";
const BOOT_ID: u64 = 80;

/// The system was started anew since.
pub fn start_anew(image: &Path, structures: &[Structure]) {
    let state = structures.iter().find(|structure| structure.name == STATE).unwrap();
    let file = File::options().write(true).open(image).unwrap();
    file.write_all_at(&[0x5a; 16], state.bytes.start + BOOT_ID).unwrap();
}
