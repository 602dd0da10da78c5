//! Why a folder cannot be mounted.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a folder cannot be mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// The kernel has no FUSE.
    #[error("there is no /dev/fuse: the kernel has no FUSE, or its module is not loaded (modprobe fuse)")]
    NoDevice,
    /// The user may not mount.
    #[error("mounting is not permitted: it takes root, or the program fusermount3 (package fuse3)")]
    NotPermitted,
    /// Not a folder.
    #[error("{0} is no folder")]
    NotAFolder(PathBuf),
    /// Already in a FUSE mount.
    #[error("{0} is in a FUSE mount already: its files are served there, or not at all")]
    InMount(PathBuf),
    /// A file system made up by the kernel.
    #[error(
        "{0} is of {1}, which the kernel makes up: nothing there is synced, and this process may wait for itself"
    )]
    Pseudo(PathBuf, &'static str),
    /// The mount would need itself.
    #[error("{1} is in {0}: this process, or the daemon, would wait for itself")]
    HoldsItsOwn(PathBuf, PathBuf),
    /// Other users' programs would have this process's rights.
    #[error("only root can let other users into a mount")]
    OthersNeedRoot,
    /// The system's error.
    #[error("cannot {doing} {path}")]
    System {
        /// What the mount could not do, as a verb phrase: "look at".
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        #[source]
        cause: io::Error,
    },
}

impl MountError {
    pub(crate) fn system(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self::System { doing, path, cause }
    }
}
