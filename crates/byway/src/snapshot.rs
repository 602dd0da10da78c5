//! Snapshots: a consistent copy of an image, while it is in use or not.
//!
//! A device in use is copied by the process that has it: [`Device::snapshot`], or a request of another process over its
//! [control socket](crate::control). The copy is what a power cut at one instant would leave: everything acknowledged
//! before is in it, whole.

use std::fs::{File, TryLockError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use byway_core::{Error, ErrorKind, Result};
use byway_flash::{Flash, Snapshot};
use byway_in_process::Handle;
use byway_sys::copy::copy_sparse_until;
use byway_sys::names::{NamePoint, rename, sync_name};
use byway_sys::{CopyFile, FileError, ImageFile};

use crate::control;
use crate::device::Device;
use crate::open::from_flash;
use crate::path::{of_existing_image, of_new_image};

/// What a snapshot took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// For so long the device stood still, in nanoseconds; 0 for an image that nobody had open.
    pub pause_ns: u64,
    /// Bytes that were copied; none where the file system shares blocks.
    pub copied_bytes: u64,
}

impl Device {
    /// Copies the image to `out`, which must not exist, as it is at one instant; commands go on meanwhile, but for a pause
    /// that the report tells.
    ///
    /// # Errors
    /// A device without an image, a file that is there already, what the file system says.
    pub fn snapshot(&self, out: impl AsRef<Path>) -> Result<SnapshotReport> {
        let handle = self.handle();
        into_file(&of_new_image(out.as_ref())?, |to| {
            copy_in_use(&handle, to, &mut |_| ControlFlow::Continue(()))
        })
    }
}

/// Copies the image at `image` to `out`, which must not exist: by itself, or by the process that has it open.
///
/// # Errors
/// No such image; one that is open in a process that takes no requests; what the file system says.
pub fn snapshot(image: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<SnapshotReport> {
    snapshot_watched(image, out, &mut |_| ControlFlow::Continue(()))
}

/// As [`snapshot`]; `watch` is told how many bytes are copied, and may end it: then nothing is left of the copy.
///
/// # Errors
/// As [`snapshot`]; [`ErrorKind::Cancelled`] where `watch` ended it.
pub fn snapshot_watched(
    image: impl AsRef<Path>,
    out: impl AsRef<Path>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SnapshotReport> {
    let image = &of_existing_image(image.as_ref())?;
    let out = of_new_image(out.as_ref())?;
    into_file(&out, |to| match ImageFile::open_read_only(image) {
        Ok(file) => {
            Flash::recognise(&file).map_err(from_flash)?;
            copy_closed(&file, &to, watch)
        }
        Err(FileError::InUse { .. }) => control::ask_for_snapshot(image, to.file(), watch),
        Err(error) => Err(from_flash(byway_flash::ImageError::from(error).into())),
    })
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

/// What a copy ends in that its watcher ended.
pub(crate) fn given_up() -> Error {
    Error::host(ErrorKind::Cancelled, "the copy was given up; nothing is left of it")
}

/// Makes a file under another name and gives it its own once it is complete.
fn into_file(out: &Path, fill: impl FnOnce(CopyFile) -> Result<SnapshotReport>) -> Result<SnapshotReport> {
    if out.exists() {
        let said = format!("{} exists already and is left as it is", out.display());
        return Err(Error::host(ErrorKind::InvalidArgument, said));
    }
    let mut partial = PathBuf::from(out).into_os_string();
    partial.push(".partial");
    let file = begin(Path::new(&partial))?;
    let lock = file.try_clone().map_err(|e| Error::kernel("make the copy", e))?;
    let filled = fill(CopyFile::new(file, Path::new(&partial))).and_then(|report| {
        // Whoever made it for us may have it open for a moment still.
        let _ = lock.unlock();
        let named = rename(Path::new(&partial), out).and_then(|()| sync_name(out, NamePoint::CopyName));
        named.map_err(|e| Error::kernel("name the copy", e))?;
        Ok(report)
    });
    if filled.is_err() {
        // The file is ours and new. What made this fail is the better error.
        let _ = std::fs::remove_file(&partial);
    }
    filled
}

/// An empty file. What a copy that was killed left of it goes; another copy that is being made stays.
fn begin(partial: &Path) -> Result<File> {
    let failed = |e| Error::kernel(format!("make {}", partial.display()), e);
    let file = File::options().read(true).write(true).create(true).truncate(false).open(partial);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let said = format!("{} is being made by another copy", partial.display());
            return Err(Error::host(ErrorKind::Busy, said));
        }
        Err(TryLockError::Error(e)) => return Err(failed(e)),
    }
    file.set_len(0).map_err(failed)?;
    Ok(file)
}

/// Copies the image of a running device into an empty file.
/// `watch` is told how many bytes of pages are copied.
pub(crate) fn copy_in_use(
    handle: &Handle,
    to: CopyFile,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SnapshotReport> {
    let gone = || Error::host(ErrorKind::NotFound, "the device was closed, or failed, meanwhile");
    let system = |e| Error::kernel("copy the image", e);
    let prepared = handle.with_subsystem(|subsystem| subsystem.flash.prepare_snapshot(to));
    let snapshot = prepared.ok_or_else(gone)?.map_err(from_flash)?;
    let shared = handle.with_subsystem(|_| (Instant::now(), snapshot.share_blocks()));
    if let Some((begun, true)) = shared {
        let report = SnapshotReport { pause_ns: begun.elapsed().as_nanos() as u64, copied_bytes: 0 };
        return snapshot.finish().map(|()| report).map_err(system);
    }
    snapshot.copy_protected().map_err(system)?;
    let begun = handle.with_subsystem(|subsystem| {
        let begun = Instant::now();
        subsystem.flash.begin_snapshot(&snapshot).map(|()| begun.elapsed())
    });
    let pause = begun.ok_or_else(gone)?.map_err(from_flash)?;
    let copied_bytes = copy_blocks(&snapshot, watch);
    handle.with_subsystem(|subsystem| subsystem.flash.end_snapshot());
    let copied_bytes = copied_bytes.ok_or_else(given_up)?;
    snapshot.finish().map_err(system)?;
    Ok(SnapshotReport { pause_ns: pause.as_nanos() as u64, copied_bytes })
}

/// The bytes copied, unless `watch` ended it.
fn copy_blocks(snapshot: &Snapshot, watch: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Option<u64> {
    (0..snapshot.block_count()).try_fold(0, |copied, block| {
        let copied = copied + snapshot.copy_block(block);
        watch(copied).is_continue().then_some(copied)
    })
}
