//! Finding the file below one of our mounts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{getxattr, statfs};

/// Extended attribute of a mounted file: the path of the file below. Verify the file after opening it.
pub const LOWER_ATTRIBUTE: &str = "user.byway.lower";

/// statfs(2) type of every FUSE file system.
pub const FUSE_MAGIC: i64 = 0x6573_5546;

/// Longest path.
const PATH_MAX: usize = 4096;

/// Whether a path leads into a FUSE mount.
#[must_use]
pub fn is_in_mount(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type == FUSE_MAGIC)
}

/// Path of the file below, if a path leads into one of our mounts.
#[must_use]
pub fn lower_of(path: &Path) -> Option<PathBuf> {
    if !is_in_mount(path) {
        // Any user may set such an attribute on a file of another file system.
        return None;
    }
    let mut lower = [0; PATH_MAX];
    let len = getxattr(path, LOWER_ATTRIBUTE, &mut lower[..]).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(lower.get(..len)?)))
}
