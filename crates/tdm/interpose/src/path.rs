//! Files by path.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;

use byway_tdm_engine::client::{Name, Session};
use byway_tdm_engine::table::{Entry, Level, Reason};
use rustix::fs::AtFlags;

use crate::hooks::below;
use crate::{real, state};

/// A path, and the session that may serve its file.
fn named(folder: c_int, path: *const c_char, flags: AtFlags) -> Option<(&'static Session, Name<'static>)> {
    if path.is_null() {
        return None;
    }
    let session = state::session()?;
    // SAFETY: a path that the program gave to a call that takes one, and that it is in.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: a folder that the program is in a call with, or the number that stands for the current one.
    let folder = unsafe { BorrowedFd::borrow_raw(if folder < 0 { libc::AT_FDCWD } else { folder }) };
    Some((session, Name { folder, path, flags }))
}

/// Entry of a file, by its path.
pub(crate) fn entry_of(folder: c_int, path: *const c_char, flags: AtFlags) -> Option<Entry<'static>> {
    let (session, name) = named(folder, path, flags)?;
    session.named(name).map(|(entry, _)| entry)
}

/// Demotes a file that is about to be opened again or to lose its name, through a descriptor of this process or by the daemon.
pub(crate) fn demote(folder: c_int, path: *const c_char, flags: AtFlags, why: Reason) {
    if !state::may_have_resident_files() {
        return;
    }
    let error = state::errno();
    if let Some(entry) = entry_of(folder, path, flags).filter(|entry| entry.level() == Level::Dax) {
        let ours = state::descriptor_of(entry.index()).and_then(|fd| Some((fd, state::file(fd)?)));
        let left = ours.is_some_and(|(fd, file)| file.demote(why, below(fd)).is_ok());
        if let Some(session) = state::session().filter(|_| !left) {
            session.settle(entry);
        }
    }
    state::set_errno(error);
}

/// Whether a file is served, by its path.
pub(crate) fn is_served(folder: c_int, path: *const c_char) -> bool {
    named(folder, path, AtFlags::empty()).is_some_and(|(session, name)| session.is_served(name))
}

/// Changes a file by its path, or the path itself, by `real`.
pub(crate) fn change<R>(folder: c_int, path: *const c_char, flags: AtFlags, real: impl FnOnce() -> R) -> R {
    demote(folder, path, flags, Reason::Renamed);
    match named(folder, path, flags) {
        Some((session, name)) => session.change(name, sync_all, real),
        None => real(),
    }
}

/// Removes a name by `real`.
pub(crate) fn unname<R>(folder: c_int, path: *const c_char, real: impl FnOnce() -> R) -> R {
    demote(folder, path, AtFlags::SYMLINK_NOFOLLOW, Reason::Renamed);
    match named(folder, path, AtFlags::SYMLINK_NOFOLLOW) {
        Some((session, name)) => session.unname(name, sync_all, real),
        None => real(),
    }
}

/// Really syncs everything, for a file without a descriptor here.
pub(crate) fn sync_all() -> Result<(), c_int> {
    // SAFETY: takes nothing.
    unsafe { real::sync() };
    Ok(())
}
