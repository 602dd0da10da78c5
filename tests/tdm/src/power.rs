//! Power loss for files and device memory.
//!
//! All processes are dead. Each file becomes the witness's copy, as of its last successful real sync; names stay. Device memory keeps all. The next
//! boot is another one, later than all writes.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use byway_tdm_daemon::{Found, Table};
use byway_tdm_region::open;

use crate::place::Place;

/// Identity of the lost boot.
const EARLIER: [u8; 16] = [1; 16];

impl Place {
    /// Simulates power loss. Neither daemons nor programs run.
    pub fn lose_power(&self) {
        self.forget_below(&self.path().join("files"));
        self.boot_again();
    }

    fn forget_below(&self, folder: &Path) {
        for name in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match name.file_type().unwrap() {
                kind if kind.is_dir() => self.forget_below(&name.path()),
                kind if kind.is_file() => self.forget(&name.path()),
                _ => {}
            }
        }
    }

    /// Replaces the file by its durable copy.
    fn forget(&self, path: &Path) {
        let kept = std::fs::read(self.kept(path)).unwrap_or_default();
        std::fs::write(path, kept).unwrap();
        age(path);
    }

    /// Reboots, with a disk that has everything synced.
    pub fn start_again(&self, name: &str) {
        age(&self.file(name));
        self.boot_again();
    }

    /// Makes the region's logs those of an earlier boot, and removes the shared file tables.
    fn boot_again(&self) {
        let region = open(&self.options.region, &self.options.opening).unwrap();
        let table = Table::new(region.window());
        for (slot, found) in table.slots().unwrap() {
            if let Found::Used(mut was) = found {
                was.boot = EARLIER;
                table.put(slot, &was).unwrap();
            }
        }
        let file_tables = std::fs::read_dir(&self.options.file_tables).unwrap().map(Result::unwrap);
        for file_table in
            file_tables.filter(|file| file.path().extension().is_some_and(|name| name == "board"))
        {
            std::fs::remove_file(file_table.path()).unwrap();
        }
    }
}

/// Makes the file older than the boot.
fn age(path: &Path) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
}
