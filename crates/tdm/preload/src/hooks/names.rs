//! Names. A file is settled before it gets another one: its log says where it was.

use std::ffi::{c_char, c_int, c_uint};

use rustix::fs::AtFlags;

use crate::{path, real};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    path::settle(libc::AT_FDCWD, from, AtFlags::SYMLINK_NOFOLLOW);
    unsafe { real::rename(from, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
) -> c_int {
    path::settle(from_folder, from, AtFlags::SYMLINK_NOFOLLOW);
    unsafe { real::renameat(from_folder, from, to_folder, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    path::settle(from_folder, from, AtFlags::SYMLINK_NOFOLLOW);
    if flags & libc::RENAME_EXCHANGE != 0 {
        path::settle(to_folder, to, AtFlags::SYMLINK_NOFOLLOW);
    }
    unsafe { real::renameat2(from_folder, from, to_folder, to, flags) }
}
