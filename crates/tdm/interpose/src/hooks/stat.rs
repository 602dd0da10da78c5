//! stat: a DAX-resident file has its size from device memory, and its times from the file below.

use std::ffi::{c_char, c_int, c_uint};

use byway_tdm_engine::table::Level;
use libc::stat as Stat;
use rustix::fs::AtFlags;

use crate::{path, real, state};

/// Size of an open DAX-resident file.
fn size_of(fd: c_int) -> Option<i64> {
    i64::try_from(state::seen(fd)?.resident_size()?).ok()
}

/// Size of a DAX-resident file by path; an empty path means the folder's descriptor.
fn size_at(folder: c_int, name: *const c_char, flags: c_int) -> Option<i64> {
    if !state::may_have_resident_files() || name.is_null() {
        return None;
    }
    // SAFETY: a path that the program gave to a call that takes one and succeeded.
    if unsafe { *name } == 0 {
        return size_of(folder);
    }
    let flags = AtFlags::from_bits_retain(flags.cast_unsigned()) & AtFlags::SYMLINK_NOFOLLOW;
    let entry = path::entry_of(folder, name, flags)?;
    let is_resident = entry.level() == Level::Dax && entry.resident_state().terms().is_some();
    is_resident.then(|| i64::try_from(entry.resident_words().size_bytes()).ok()).flatten()
}

unsafe fn corrected(answer: c_int, found: *mut Stat, size: impl FnOnce() -> Option<i64>) -> c_int {
    if answer == 0
        && let Some(size) = size()
    {
        // SAFETY: where the call has put what it found.
        unsafe { (*found).st_size = size };
    }
    answer
}

macro_rules! of_open_files {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(fd: c_int, found: *mut Stat) -> c_int {
                // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
                let answer = unsafe { real::$name(fd, found) };
                // SAFETY: the program's result buffer, which the real call has filled unless it failed.
                unsafe { corrected(answer, found, || size_of(fd)) }
            }
        )*
    };
}

of_open_files! { fstat fstat64 }

macro_rules! of_names {
    ($($name:ident $flags:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(path: *const c_char, found: *mut Stat) -> c_int {
                // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
                let answer = unsafe { real::$name(path, found) };
                // SAFETY: the program's result buffer, which the real call has filled unless it failed.
                unsafe { corrected(answer, found, || size_at(libc::AT_FDCWD, path, $flags)) }
            }
        )*
    };
}

of_names! {
    stat 0;
    stat64 0;
    lstat libc::AT_SYMLINK_NOFOLLOW;
    lstat64 libc::AT_SYMLINK_NOFOLLOW;
}

macro_rules! of_folders {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                folder: c_int,
                path: *const c_char,
                found: *mut Stat,
                flags: c_int,
            ) -> c_int {
                // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
                let answer = unsafe { real::$name(folder, path, found, flags) };
                // SAFETY: the program's result buffer, which the real call has filled unless it failed.
                unsafe { corrected(answer, found, || size_at(folder, path, flags)) }
            }
        )*
    };
}

of_folders! { fstatat fstatat64 }

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    found: *mut libc::statx,
) -> c_int {
    // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
    let answer = unsafe { real::statx(folder, path, flags, mask, found) };
    if answer == 0
        && let Some(size) = size_at(folder, path, flags)
    {
        // SAFETY: where the call has put what it found.
        unsafe { (*found).stx_size = size.cast_unsigned() };
    }
    answer
}
