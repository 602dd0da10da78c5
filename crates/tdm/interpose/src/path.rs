//! Files by their names, as the program gives them.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;

use byway_tdm_engine::client::{Name, Session};
use byway_tdm_engine::table::{Entry, Level, Why};
use rustix::fs::AtFlags;

use crate::hooks::below;
use crate::{real, state};

/// A name, and the session that may serve its file.
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

/// The entry of a file, by its name.
pub(crate) fn entry_of(folder: c_int, path: *const c_char, flags: AtFlags) -> Option<Entry<'static>> {
    let (session, name) = named(folder, path, flags)?;
    session.named(name).map(|(entry, _)| entry)
}

/// Has a file brought below that is about to be opened once more, or to lose its name: by a descriptor of this process, which needs no
/// daemon, or by the daemon.
pub(crate) fn leave_home(folder: c_int, path: *const c_char, flags: AtFlags, why: Why) {
    if !state::has_houses() {
        return;
    }
    let error = state::errno();
    if let Some(entry) = entry_of(folder, path, flags).filter(|entry| entry.standing().level == Level::Dax) {
        let ours = state::descriptor_of(entry.index()).and_then(|fd| Some((fd, state::file(fd)?)));
        let left = ours.is_some_and(|(fd, file)| file.leave_home(why, below(fd)).is_ok());
        if let Some(session) = state::session().filter(|_| !left) {
            session.settle(entry);
        }
    }
    state::set_errno(error);
}

/// Whether a file is served, by its name.
pub(crate) fn is_served(folder: c_int, path: *const c_char) -> bool {
    named(folder, path, AtFlags::empty()).is_some_and(|(session, name)| session.is_served(name))
}

/// Does something by `real` to a file that has a name, or to this name.
pub(crate) fn change<R>(folder: c_int, path: *const c_char, flags: AtFlags, real: impl FnOnce() -> R) -> R {
    leave_home(folder, path, flags, Why::Renamed);
    match named(folder, path, flags) {
        Some((session, name)) => session.change(name, sync_all, real),
        None => real(),
    }
}

/// Takes a name away by `real`.
pub(crate) fn unname<R>(folder: c_int, path: *const c_char, real: impl FnOnce() -> R) -> R {
    leave_home(folder, path, AtFlags::SYMLINK_NOFOLLOW, Why::Renamed);
    match named(folder, path, AtFlags::SYMLINK_NOFOLLOW) {
        Some((session, name)) => session.unname(name, sync_all, real),
        None => real(),
    }
}

/// Has all that there is synced: where the file has no descriptor here.
pub(crate) fn sync_all() -> Result<(), c_int> {
    // SAFETY: takes nothing.
    unsafe { real::sync() };
    Ok(())
}
