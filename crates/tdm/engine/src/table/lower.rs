//! Where a file is that is seen through a mount of ours.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{getxattr, statfs};

/// The extended attribute by which a mount says where a file is below, as a path. Who opens that looks whether it is the one.
pub const LOWER_ATTRIBUTE: &str = "user.byway.lower";

/// Of every FUSE file system (statfs(2)).
pub const FUSE_MAGIC: i64 = 0x6573_5546;

/// The longest path.
const PATH_MAX: usize = 4096;

/// Whether a path leads into a FUSE mount, ours or another's.
#[must_use]
pub fn is_in_mount(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type == FUSE_MAGIC)
}

/// Where a file is below, if its path leads into a mount of ours.
#[must_use]
pub fn lower_of(path: &Path) -> Option<PathBuf> {
    if !is_in_mount(path) {
        // Anybody may give such an attribute to a file of his own.
        return None;
    }
    let mut lower = [0; PATH_MAX];
    let len = getxattr(path, LOWER_ATTRIBUTE, &mut lower[..]).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(lower.get(..len)?)))
}
