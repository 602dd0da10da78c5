//! Files by their names, before something is done to these.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;

use byway_tdm_board::{Entry, FileKey, Level, Why};
use rustix::fs::AtFlags;

use crate::state;

/// A file that has an entry, by its name, and how many of these it has. `flags` say whether a link at its end is followed.
fn find(folder: c_int, path: *const c_char, flags: AtFlags) -> Option<(Entry<'static>, u32)> {
    if path.is_null() {
        return None;
    }
    let session = state::session()?;
    // SAFETY: a path that the program gave to a call that takes one.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: a folder that the program is in a call with, or the number that stands for the current one.
    let folder = unsafe { BorrowedFd::borrow_raw(if folder < 0 { libc::AT_FDCWD } else { folder }) };
    let found = FileKey::in_folder(folder, path, flags).ok()??;
    Some((session.board().find(found.key)?, found.links))
}

/// Whether a file is served, by its name.
pub(crate) fn is_served(folder: c_int, path: *const c_char) -> bool {
    find(folder, path, AtFlags::empty()).is_some_and(|(entry, _)| entry.standing().level != Level::Pass)
}

/// Does something by `real` to a file that has a name, or to this name: one that is served is taken down to the kernel before.
pub(crate) fn change<R>(folder: c_int, path: *const c_char, flags: AtFlags, real: impl FnOnce() -> R) -> R {
    let found = find(folder, path, flags).map(|(entry, _)| entry);
    found.inspect(|entry| settle(*entry));
    let result = real();
    // Who began to serve it meanwhile does not know.
    found.filter(|entry| entry.standing().level != Level::Pass).inspect(|entry| entry.cursor().suspend());
    result
}

/// Takes a name away by `real`: a file that has others goes on, and its log may say this one.
pub(crate) fn unname<R>(folder: c_int, path: *const c_char, real: impl FnOnce() -> R) -> R {
    let found = find(folder, path, AtFlags::SYMLINK_NOFOLLOW).filter(|(_, names)| *names > 1);
    found.inspect(|(entry, _)| settle(*entry));
    real()
}

/// Has a file that is served taken down to the kernel.
fn settle(entry: Entry<'static>) {
    let Some(session) = state::session().filter(|_| entry.standing().level != Level::Pass) else { return };
    if session.settle(entry) {
        return;
    }
    // Nobody answers, and there may be no descriptor of it here: all that there is is synced.
    entry.bar(Why::NoDaemon);
    session.settle_here(entry, || {
        // SAFETY: takes nothing.
        unsafe { libc::sync() };
        Ok(())
    });
}
