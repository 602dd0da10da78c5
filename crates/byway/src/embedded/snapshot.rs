//! Snapshots: a consistent copy of an image, while it is in use or not.
//!
//! A device in use is copied by the process that has it: [`EmbeddedDevice::snapshot`], or a request of another process over its
//! [control socket](crate::embedded::control). The copy is what a power cut at one instant would leave: everything acknowledged
//! before is in it, whole.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use byway_core::{Error, Result};
use byway_flash::Flash;
use byway_sys::copy::copy_sparse_until;
use byway_sys::names::{NamePoint, sync_name};
use byway_sys::{Access, CopyFile, FileError, ImageFile, UnnamedFile};

use crate::embedded::control;
use crate::embedded::copying::{SnapshotReport, closed_meanwhile, copy_in_use, given_up};
use crate::embedded::device::EmbeddedDevice;
use crate::embedded::errors::{from_file, from_flash};
use crate::uri::{of_existing_image, of_new_image};

impl EmbeddedDevice {
    /// Copies the image to `out`, which must not exist, as it is at one instant; commands go on meanwhile, but for a pause
    /// that the report states. The copy keeps the image's access rights; see [`snapshot`].
    ///
    /// # Errors
    /// A device without an image, a file that is there already, what the file system says.
    pub fn snapshot(&self, out: impl AsRef<Path>) -> Result<SnapshotReport> {
        self.check_owner()?;
        let handle = self.handle();
        let access = handle.with_subsystem(|subsystem| subsystem.flash().access());
        let access = access.ok_or_else(closed_meanwhile)?.map_err(from_flash)?;
        into_file(&of_new_image(out.as_ref())?, &access, |to| {
            copy_in_use(&handle, to, &mut |_| ControlFlow::Continue(()))
        })
    }
}

/// Copies the image at `image` to `out`, which must not exist: by itself, or by the process that has it open.
///
/// The copy has mode, ACL, owner and group of the image where this user may give them to it, as with `cp -p`. Otherwise it
/// is this user's, and never open to a group or user that the image is not open to. Until it is complete it has no name.
///
/// # Errors
/// No such image; one that is open in a process that takes no requests; what the file system says.
pub fn snapshot(image: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<SnapshotReport> {
    snapshot_watched(image, out, &mut |_| ControlFlow::Continue(()))
}

/// As [`snapshot`]; `watch` gets the bytes copied so far, and may cancel: then nothing is left of the copy.
///
/// # Errors
/// As [`snapshot`]; [`ErrorKind::Cancelled`] where `watch` ended it.
pub fn snapshot_watched(
    image: impl AsRef<Path>,
    out: impl AsRef<Path>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SnapshotReport> {
    let image = &of_existing_image(image.as_ref())?;
    let out = &of_new_image(out.as_ref())?;
    match ImageFile::open_read_only(image) {
        Ok(file) => {
            Flash::recognise(&file).map_err(from_flash)?;
            let access = file.access().map_err(from_file)?;
            into_file(out, &access, |to| copy_closed(&file, &to, watch))
        }
        Err(FileError::InUse { .. }) => {
            let access = File::open(image).and_then(|file| Access::of(&file));
            let access = access.map_err(|e| Error::kernel(format!("open {}", image.display()), e))?;
            into_file(out, &access, |to| control::ask_for_snapshot(image, to.file(), watch))
        }
        Err(error) => Err(from_file(error)),
    }
}

fn copy_closed(
    file: &ImageFile,
    to: &CopyFile,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SnapshotReport> {
    let mut copied_bytes = 0;
    let copied = copy_sparse_until(file.file(), to, |bytes| {
        copied_bytes = bytes;
        watch(bytes)
    });
    let system = |e| Error::kernel("copy the image", e);
    match copied.map_err(system)? {
        ControlFlow::Break(()) => return Err(given_up()),
        ControlFlow::Continue(()) => to.sync().map_err(system)?,
    }
    Ok(SnapshotReport { pause_ns: 0, copied_bytes })
}

/// Fills an unnamed file with these access rights and links it at `out` once it is complete.
fn into_file(
    out: &Path,
    access: &Access,
    fill: impl FnOnce(CopyFile) -> Result<SnapshotReport>,
) -> Result<SnapshotReport> {
    // Fail before gigabytes are copied. A file that takes the name meanwhile makes `link` fail.
    if out.symlink_metadata().is_ok() {
        return Err(exists(out));
    }
    let failed = |e| Error::kernel(format!("make {}", out.display()), e);
    let unnamed = UnnamedFile::new(out).map_err(failed)?;
    access.give_as_far_as_allowed(unnamed.file()).map_err(failed)?;
    let file = unnamed.file().try_clone().map_err(failed)?;
    let report = fill(CopyFile::new(file, &unnamed.path()))?;
    let named = unnamed.link().and_then(|()| sync_name(out, NamePoint::CopyName));
    named.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => exists(out),
        _ => Error::kernel("name the copy", e),
    })?;
    Ok(report)
}

fn exists(out: &Path) -> Error {
    from_file(FileError::Exists { path: out.into() })
}
