//! A FUSE mount over a folder for one run, served by this process.

use std::path::{Path, PathBuf};

use anyhow::Result;
use byway_tdm_mount::{Mounted, Options};

/// The mount; unmounted on drop.
#[derive(Debug)]
pub struct InMount(Mounted);

impl InMount {
    /// Whether folders can be mounted here.
    pub fn is_possible() -> bool {
        Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root()
    }

    /// With a daemon at a socket, or without. Its threads run where this one does.
    pub fn begin(folder: &Path, socket: PathBuf) -> Result<Self> {
        Ok(Self(Mounted::begin(&Options::new(folder, socket), |_| {})?))
    }
}

impl Drop for InMount {
    fn drop(&mut self) {
        if let Err(error) = self.0.leave() {
            eprintln!("{error}");
        }
    }
}
