//! A loss of real power to come: what no sync covered goes with it, or some of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byway_flash::{Flash, OpenOptions};
use byway_forgetful::Forgetful;

/// Where the state of a device says under which boot of the kernel it was written, and how long that is.
const BOOT_AT: u64 = 80;
const BOOT_BYTES: usize = 16;

/// A loss of real power to come.
pub struct Loss {
    pub file: Arc<Forgetful>,
    left: PathBuf,
}

impl Loss {
    /// Observes the image, which no process has open: all of it is on the disk.
    pub fn new(image: &Path, left: PathBuf, seed: u64, events: u16) -> Self {
        let file = Forgetful::new(image, seed);
        file.cut_after(1 + u64::from(events), &left);
        Self { file, left }
    }

    pub fn has_come(&self) -> bool {
        !self.file.is_waiting()
    }

    /// It comes now, if it has not come: what it left takes the place of the image, as another boot finds it.
    pub fn leave(self, image: &Path) {
        if !self.has_come() {
            self.file.cut_now(&self.left);
        }
        std::fs::rename(&self.left, image).unwrap();
        let options = OpenOptions::default().read_only(true).timing(false);
        let flash = Flash::open(image, options).unwrap();
        let regions = flash.regions();
        let (_, state) = regions.iter().find(|(name, _)| *name == "device state").unwrap();
        drop(flash);
        let file = File::options().write(true).open(image).unwrap();
        file.write_all_at(&[0xb0; BOOT_BYTES], state.start + BOOT_AT).unwrap();
    }
}
