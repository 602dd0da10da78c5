//! Resizing an image: offline, into a new file that takes the place of the old one once it is complete.

use std::ops::ControlFlow;
use std::path::Path;

use byway_core::{Error, Result};
use byway_flash::{Durability, Flash, OpenOptions, RunOptions};
use byway_sys::ImageFile;

use crate::embedded::control;
use crate::embedded::errors::{from_file, from_flash};
use crate::uri::of_existing_image;

/// Gives the device of the image at `path` room for `size_bytes`, and namespaces of blocks other sizes where `sizes` says
/// so. Everything keeps its content and its names. The old image is there until the new one is complete and on its
/// disk: whatever ends this in between, the image is the one or the other. `watch` gets the bytes copied and the bytes to
/// copy, and may cancel. The new file has owner, mode and ACL of the old one; a symbolic link at `path` is followed and stays.
///
/// # Errors
/// An image that is in use, that has several names (hard links), or whose owner this user cannot give to another file;
/// namespaces that do not fit, data beyond the end of one that shall be smaller, what the file system says, and
/// [`ErrorKind::Cancelled`](byway_core::ErrorKind::Cancelled) where `watch` ended it. The image is as it was, with one
/// exception, whose error says so: the new image has the name, but syncing the folder failed, so after a power loss the name
/// may lead to the old one.
pub fn resize(
    path: impl AsRef<Path>,
    size_bytes: u64,
    sizes: &[(u32, u64)],
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<()> {
    let path = &of_existing_image(path.as_ref())?;
    let doing = |error: Error| error.doing(format!("resize {}", path.display()));
    let old = ImageFile::open(path).map_err(from_file)?;
    let (new, mut successor) = old.successor().map_err(from_file).map_err(doing)?;
    // Opened for writing: that finishes what a kill cut short. What it stores for that it orders: the old image is all there is
    // if power is lost on the way.
    let run = RunOptions::default().durability(Durability::Volatile);
    let options = OpenOptions::default().timing(false).run(run);
    let mut flash = Flash::open_in(old, options).map_err(from_flash)?;
    let refusing = control::refuse_while_resized(&flash);
    let made = flash.resized(new, size_bytes, sizes, watch).map_err(from_flash);
    // In order, also where nothing came of it.
    let closed = flash.close().map_err(from_flash);
    let made = made.and_then(|new| closed.map(|()| new)).map_err(doing)?;
    let replaced = successor.replace().map_err(from_file).map_err(doing);
    // Both files are locked until here: nothing is stored in the old one any more, and nothing in the new one before it has the
    // name for good.
    drop((made, flash, refusing));
    replaced
}
