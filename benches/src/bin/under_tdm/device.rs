//! Emulated device memory: gigabytes of host memory, freed at the end.

use std::path::PathBuf;

use anyhow::{Context, Result};
use byway_tdm_daemon::Options;
use tempfile::{TempDir, tempdir_in};

/// The device; a region named without a folder is in a temporary one.
pub struct Device {
    region: String,
    folder: TempDir,
}

impl Device {
    /// A device by its region's description.
    pub fn named(region: &str) -> Result<Self> {
        let folder = tempdir_in("/dev/shm").context("make a folder for the device's memory")?;
        let is_bare = |name: &&str| !name.split('?').next().unwrap_or_default().contains('/');
        let region = match region.strip_prefix("emu:").filter(is_bare) {
            Some(name) => format!("emu:{}/{name}", folder.path().display()),
            None => region.to_owned(),
        };
        Ok(Self { region, folder })
    }

    /// Options of the daemon that serves from it.
    pub fn options(&self, socket: PathBuf) -> Options {
        let mut options = Options::new(&self.region, socket).file_tables(self.folder.path());
        options.opening.emulate_persistence = true;
        options
    }
}
