//! Resizing an image: offline, into a new file that takes the place of the old one once it is complete.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use byway_core::{Error, Result};
use byway_flash::{Durability, Flash, OpenOptions, RunOptions};
use byway_sys::names::{NamePoint, rename, sync_name};

use crate::open::from_flash;
use crate::path::of_existing_image;

/// Gives the device of the image at `path` room for `size_bytes`, and namespaces of blocks other sizes where `sizes` says
/// so. Everything keeps its content and its names. The old image is there until the new one is complete and on its
/// disk: whatever ends this in between, the image is the one or the other. `watch` is told how much is copied, of how much, and
/// may end it.
///
/// # Errors
/// Namespaces that do not fit, data beyond the end of one that shall be smaller, an image that is in use, what the file
/// system says, and [`ErrorKind::Cancelled`](byway_core::ErrorKind::Cancelled) where `watch` ended it. The image is as it was.
pub fn resize(
    path: impl AsRef<Path>,
    size_bytes: u64,
    sizes: &[(u32, u64)],
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<()> {
    let path = &of_existing_image(path.as_ref())?;
    let doing = || format!("resize {}", path.display());
    let mut beside = PathBuf::from(path).into_os_string();
    beside.push(".resized");
    let beside = PathBuf::from(beside);
    // Opened for writing: that finishes what a kill cut short, and keeps others out until the end. What it stores for that it
    // orders: the old image is all there is if power is lost on the way.
    let run = RunOptions { durability: Durability::Volatile, ..RunOptions::default() };
    let options = OpenOptions { timing: false, run, ..OpenOptions::default() };
    let mut flash = Flash::open(path, options).map_err(from_flash)?;
    // What an earlier attempt left is no image yet.
    let _ = std::fs::remove_file(&beside);
    let made = flash.resized(&beside, size_bytes, sizes, watch).map_err(from_flash);
    // In order, also where nothing came of it.
    let closed = flash.close().map_err(from_flash);
    let replaced = made.and(closed).map_err(|error| error.doing(doing())).and_then(|()| {
        let replaced = rename(&beside, path).and_then(|()| sync_name(path, NamePoint::ReplacedName));
        replaced.map_err(|e| Error::kernel(doing(), e))
    });
    if replaced.is_err() {
        // It is whole perhaps, and nobody's.
        let _ = std::fs::remove_file(&beside);
    }
    replaced
}
