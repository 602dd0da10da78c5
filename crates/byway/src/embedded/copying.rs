//! Copying the image of a running device: what a power cut at one instant would leave.

use std::ops::ControlFlow;
use std::time::Instant;

use byway_core::{Error, ErrorKind, Result};
use byway_flash::Snapshot;
use byway_local::Handle;
use byway_sys::CopyFile;

use crate::embedded::errors::from_flash;

/// What a snapshot took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Time for which the device executed no commands, in nanoseconds; 0 for an image that no process had open.
    pub pause_ns: u64,
    /// Bytes that were copied; none where the file system shares blocks.
    pub copied_bytes: u64,
}

/// The error of a copy that its watcher cancelled.
pub(crate) fn given_up() -> Error {
    Error::host(ErrorKind::Cancelled, "the copy was given up; nothing is left of it")
}

pub(crate) fn closed_meanwhile() -> Error {
    Error::host(ErrorKind::NotFound, "the device was closed, or failed, meanwhile")
}

/// Copies the image of a running device into an empty file. `watch` gets the bytes of pages copied so far, and may cancel.
pub(crate) fn copy_in_use(
    handle: &Handle,
    to: CopyFile,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SnapshotReport> {
    let system = |e| Error::kernel("copy the image", e);
    let prepared = handle.with_subsystem(|subsystem| subsystem.flash().prepare_snapshot(to));
    let snapshot = prepared.ok_or_else(closed_meanwhile)?.map_err(from_flash)?;
    let shared = handle.with_subsystem(|subsystem| {
        let begun = Instant::now();
        subsystem.flash_mut().share_snapshot(&snapshot).map(|is_shared| (begun, is_shared))
    });
    let (begun, is_shared) = shared.ok_or_else(closed_meanwhile)?.map_err(from_flash)?;
    if is_shared {
        let report = SnapshotReport { pause_ns: begun.elapsed().as_nanos() as u64, copied_bytes: 0 };
        return snapshot.finish().map(|()| report).map_err(system);
    }
    snapshot.copy_protected().map_err(system)?;
    let begun = handle.with_subsystem(|subsystem| {
        let begun = Instant::now();
        subsystem.flash_mut().begin_snapshot(&snapshot).map(|()| begun.elapsed())
    });
    let pause = begun.ok_or_else(closed_meanwhile)?.map_err(from_flash)?;
    let copied_bytes = copy_blocks(&snapshot, watch);
    handle.with_subsystem(|subsystem| subsystem.flash_mut().end_snapshot());
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
