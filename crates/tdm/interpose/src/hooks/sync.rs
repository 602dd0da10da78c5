//! Syncs, of a file and of all that there is. What is asked of part of a file (sync_file_range) promises nothing and goes to the kernel unseen.

use std::ffi::c_int;

use byway_tdm_engine::client::{AtHome, Extent, OpenFile};

use super::below;
use crate::calm::{Calm, cancellation_point};
use crate::path::sync_all;
use crate::{real, state};

fn synced(fd: c_int, extent: Extent, real: impl Fn() -> c_int) -> c_int {
    cancellation_point();
    let Some(file) = state::file(fd).or_else(|| state::found(fd)) else { return real() };
    let before = state::errno();
    let below = || match real() {
        0 => Ok(()),
        _ => Err(state::errno()),
    };
    match sync_at_level(&file, extent, below) {
        Ok(()) => {
            file.come_home();
            state::set_errno(before);
            0
        }
        Err(error) => {
            state::set_errno(error);
            -1
        }
    }
}

/// Syncs a file that is served, wherever it is.
fn sync_at_level(
    file: &OpenFile<'static>,
    extent: Extent,
    below: impl Fn() -> Result<(), c_int>,
) -> Result<(), c_int> {
    while file.is_home() {
        match file.sync_home(extent, &below) {
            AtHome::Done(()) => return Ok(()),
            AtHome::Failed(error) => return Err(error),
            AtHome::Left => {}
        }
    }
    file.sync(extent, below)
}

/// Keeps a file that is served, before the kernel syncs it by itself: what is in its log and what is not.
pub(super) fn keep(fd: c_int) -> Result<(), c_int> {
    let served = state::file(fd).or_else(|| state::found(fd)).filter(|file| !file.is_at_pass());
    served.map_or(Ok(()), |file| sync_at_level(&file, Extent::Data, below(fd)))
}

/// Keeps everything that is served: what this process writes by its own descriptors, and what others write. The kernel's own sync comes behind.
fn keep_everything() -> Result<(), c_int> {
    let before = state::errno();
    let mut kept = Ok(());
    for (fd, _) in state::FDS.all() {
        kept = kept.and(keep(fd));
    }
    if let Some(session) = state::session() {
        let _calm = Calm::new();
        session.keep_everything(sync_all);
    }
    state::set_errno(before);
    kept
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sync() {
    // It tells of no error: the next sync of the file does.
    let _ = keep_everything();
    unsafe { real::sync() };
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syncfs(fd: c_int) -> c_int {
    let kept = keep_everything();
    let synced = unsafe { real::syncfs(fd) };
    match kept {
        Err(error) if synced == 0 => {
            state::set_errno(error);
            -1
        }
        _ => synced,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fsync(fd: c_int) -> c_int {
    synced(fd, Extent::All, || unsafe { real::fsync(fd) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdatasync(fd: c_int) -> c_int {
    synced(fd, Extent::Data, || unsafe { real::fdatasync(fd) })
}
