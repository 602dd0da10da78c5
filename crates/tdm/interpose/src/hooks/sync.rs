//! Syncs of a file and of everything. sync_file_range promises nothing and goes to the kernel.

use std::ffi::c_int;

use byway_tdm_engine::client::{Extent, OpenFile, ResidentOutcome};

use super::below;
use crate::cancellation::{CancellationGuard, cancellation_point};
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
            file.promote_if_requested();
            state::set_errno(before);
            0
        }
        Err(error) => {
            state::set_errno(error);
            -1
        }
    }
}

/// Syncs a served file at its level.
fn sync_at_level(
    file: &OpenFile<'static>,
    extent: Extent,
    below: impl Fn() -> Result<(), c_int>,
) -> Result<(), c_int> {
    while file.is_resident() {
        match file.sync_resident(extent, &below) {
            ResidentOutcome::Done(()) => return Ok(()),
            ResidentOutcome::Failed(error) => return Err(error),
            ResidentOutcome::NotResident => {}
        }
    }
    file.sync(extent, below)
}

/// Persists a served file before the kernel syncs it.
pub(super) fn keep(fd: c_int) -> Result<(), c_int> {
    let served = state::file(fd).or_else(|| state::found(fd)).filter(|file| !file.is_at_pass());
    served.map_or(Ok(()), |file| sync_at_level(&file, Extent::Data, below(fd)))
}

/// Persists everything served, by this and other processes. The real sync follows.
fn keep_everything() -> Result<(), c_int> {
    let before = state::errno();
    let mut kept = Ok(());
    for (fd, _) in state::FDS.all() {
        kept = kept.and(keep(fd));
    }
    if let Some(session) = state::session() {
        let _guard = CancellationGuard::new();
        session.keep_everything(sync_all);
    }
    state::set_errno(before);
    kept
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sync() {
    // sync(2) reports no error: the file's next sync does.
    let _ = keep_everything();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    unsafe { real::sync() };
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syncfs(fd: c_int) -> c_int {
    let kept = keep_everything();
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
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
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    synced(fd, Extent::All, || unsafe { real::fsync(fd) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    synced(fd, Extent::Data, || unsafe { real::fdatasync(fd) })
}
