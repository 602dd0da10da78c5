//! Attribute changes (owner, mode, times, extended attributes, names), which have no records: the next `fsync` is a real one.

use std::ffi::{c_char, c_int, c_void};

use libc::{gid_t, mode_t, size_t, timespec, timeval, uid_t, utimbuf};
use rustix::fs::AtFlags;

use crate::{path, real, state};

/// Changes an open file by `real`.
pub(super) fn of_open<R>(fd: c_int, real: impl FnOnce() -> R) -> R {
    let changed = real();
    keeping_errno(|| {
        if let Some(file) = state::file(fd).or_else(|| state::found(fd)) {
            file.entry().attributes().change();
        }
    });
    changed
}

/// Changes a file by its path by `real`.
pub(super) fn of_name<R>(folder: c_int, name: *const c_char, flags: c_int, real: impl FnOnce() -> R) -> R {
    let changed = real();
    let followed = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let flags = AtFlags::from_bits_retain(flags.cast_unsigned()) & followed;
    keeping_errno(|| {
        if let Some(entry) = path::entry_of(folder, name, flags) {
            entry.attributes().change();
        }
    });
    changed
}

macro_rules! of_open_files {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(fd: c_int, $($argument: $type),*) -> c_int {
                // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
                of_open(fd, || unsafe { real::$name(fd, $($argument),*) })
            }
        )*
    };
}

of_open_files! {
    fchmod(mode: mode_t);
    fchown(owner: uid_t, group: gid_t);
    futimens(times: *const timespec);
    futimes(times: *const timeval);
    fsetxattr(attribute: *const c_char, value: *const c_void, len: size_t, flags: c_int);
    fremovexattr(attribute: *const c_char);
}

macro_rules! of_names {
    ($($name:ident $followed:expr, ($($argument:ident: $type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(path: *const c_char, $($argument: $type),*) -> c_int {
                // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
                of_name(libc::AT_FDCWD, path, $followed, || unsafe { real::$name(path, $($argument),*) })
            }
        )*
    };
}

of_names! {
    chmod 0, (mode: mode_t);
    chown 0, (owner: uid_t, group: gid_t);
    lchown libc::AT_SYMLINK_NOFOLLOW, (owner: uid_t, group: gid_t);
    utime 0, (times: *const utimbuf);
    utimes 0, (times: *const timeval);
    lutimes libc::AT_SYMLINK_NOFOLLOW, (times: *const timeval);
    setxattr 0, (attribute: *const c_char, value: *const c_void, len: size_t, flags: c_int);
    lsetxattr libc::AT_SYMLINK_NOFOLLOW, (attribute: *const c_char, value: *const c_void, len: size_t, flags: c_int);
    removexattr 0, (attribute: *const c_char);
    lremovexattr libc::AT_SYMLINK_NOFOLLOW, (attribute: *const c_char);
    link libc::AT_SYMLINK_NOFOLLOW, (to: *const c_char);
}

macro_rules! of_folders {
    ($($name:ident($($argument:ident: $type:ty),*) $followed:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(folder: c_int, path: *const c_char, $($argument: $type),*) -> c_int {
                // SAFETY: the program's arguments, passed on unchanged: it keeps this function's contract.
                of_name(folder, path, $followed, || unsafe { real::$name(folder, path, $($argument),*) })
            }
        )*
    };
}

of_folders! {
    fchmodat(mode: mode_t, flags: c_int) flags;
    fchownat(owner: uid_t, group: gid_t, flags: c_int) flags;
    utimensat(times: *const timespec, flags: c_int) flags;
    futimesat(times: *const timeval) 0;
    linkat(to_folder: c_int, to: *const c_char, flags: c_int) not_followed_unless(flags);
}

/// linkat(2) does not follow links without AT_SYMLINK_FOLLOW.
const fn not_followed_unless(flags: c_int) -> c_int {
    match flags & libc::AT_SYMLINK_FOLLOW {
        0 => libc::AT_SYMLINK_NOFOLLOW | (flags & libc::AT_EMPTY_PATH),
        _ => flags & libc::AT_EMPTY_PATH,
    }
}

/// Keeps errno.
fn keeping_errno(act: impl FnOnce()) {
    let error = state::errno();
    act();
    state::set_errno(error);
}
