//! Changes of names. A served file is demoted first, as its log names it by path.

use std::ffi::{c_char, c_int, c_uint};

use rustix::fs::AtFlags;

use crate::{path, real};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let (here, end) = (libc::AT_FDCWD, AtFlags::SYMLINK_NOFOLLOW);
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    path::change(here, from, end, || path::unname(here, to, || unsafe { real::rename(from, to) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn renameat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let real = || unsafe { real::renameat(from_folder, from, to_folder, to) };
    path::change(from_folder, from, AtFlags::SYMLINK_NOFOLLOW, || path::unname(to_folder, to, real))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn renameat2(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let end = AtFlags::SYMLINK_NOFOLLOW;
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let real = || unsafe { real::renameat2(from_folder, from, to_folder, to, flags) };
    path::change(from_folder, from, end, || match flags & libc::RENAME_EXCHANGE {
        0 => path::unname(to_folder, to, real),
        _ => path::change(to_folder, to, end, real),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    path::unname(libc::AT_FDCWD, name, || unsafe { real::unlink(name) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unlinkat(folder: c_int, name: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    path::unname(folder, name, || unsafe { real::unlinkat(folder, name, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn remove(name: *const c_char) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    path::unname(libc::AT_FDCWD, name, || unsafe { real::remove(name) })
}
