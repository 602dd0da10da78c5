//! Files by their names, before something is done to these.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;

use byway_tdm_board::{Entry, FileKey, Level};
use rustix::fs::AtFlags;

use crate::state;

/// The entry of a file that is served, by its name. `flags` say whether a link at its end is followed.
pub(crate) fn served(folder: c_int, path: *const c_char, flags: AtFlags) -> Option<Entry<'static>> {
    if path.is_null() {
        return None;
    }
    let session = state::session()?;
    // SAFETY: a path that the program gave to a call that takes one.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: a folder that the program is in a call with, or the number that stands for the current one.
    let folder = unsafe { BorrowedFd::borrow_raw(if folder < 0 { libc::AT_FDCWD } else { folder }) };
    let found = FileKey::in_folder(folder, path, flags).ok()??;
    session.board().find(found.key).filter(|entry| entry.standing().level != Level::Pass)
}

/// Has a file that is served taken down to the kernel before something is done to its name.
pub(crate) fn settle(folder: c_int, path: *const c_char, flags: AtFlags) {
    let Some(session) = state::session() else { return };
    if let Some(entry) = served(folder, path, flags) {
        // Where nobody answers, the log stays, and says which file it is of, whatever that is called.
        session.settle(entry);
    }
}
