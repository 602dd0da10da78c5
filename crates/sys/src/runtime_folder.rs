//! The folder of a user's sockets: only that user and root can make files there, so no other user can take a name first
//! (decision 57).

use std::fs::{DirBuilder, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::handover::OTHERS_MAY_WRITE;

/// Candidate folders of a user's sockets, in order; no environment variable is read. Root makes `/run/user/UID` at
/// login, so no other user can take its place.
#[must_use]
pub fn folders_of(uid: u32) -> [PathBuf; 2] {
    let of_run = match uid {
        0 => PathBuf::from("/run/byway"),
        _ => PathBuf::from(format!("/run/user/{uid}/byway")),
    };
    [of_run, PathBuf::from(format!("/tmp/byway-{uid}"))]
}

/// This user's folder, made where it is not there.
///
/// # Errors
/// A sentence for each candidate: another user has it, or it cannot be made.
pub fn own_folder() -> Result<PathBuf, String> {
    let uid = rustix::process::geteuid().as_raw();
    let mut refused = Vec::new();
    for folder in folders_of(uid) {
        match make(&folder).and_then(|()| folder.symlink_metadata()) {
            Ok(found) => match check_folder(&folder, &found, uid) {
                Ok(()) => return Ok(folder),
                Err(why) => refused.push(why),
            },
            Err(error) => refused.push(format!("{} cannot be made: {error}", folder.display())),
        }
    }
    Err(refused.join("; "))
}

fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Checks that only `uid` and root can make files in a folder; `found` is its `lstat`.
///
/// # Errors
/// A sentence with the folder and its owner.
pub fn check_folder(folder: &Path, found: &Metadata, uid: u32) -> Result<(), String> {
    let shown = folder.display();
    if !found.is_dir() {
        return Err(format!("{shown} is no folder"));
    }
    if found.uid() != uid {
        return Err(format!("{shown} belongs to user {}, not to user {uid}", found.uid()));
    }
    match found.mode() & OTHERS_MAY_WRITE {
        0 => Ok(()),
        _ => Err(format!("other users may write in {shown}")),
    }
}

/// `lstat` of a path; `None` where nothing is there.
///
/// # Errors
/// A sentence with the path.
pub fn look(path: &Path) -> Result<Option<Metadata>, String> {
    match path.symlink_metadata() {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn checked(folder: &Path, uid: u32) -> Result<(), String> {
        check_folder(folder, &folder.symlink_metadata().unwrap(), uid)
    }

    #[test]
    fn folder_of_another_user_or_open_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, me) = (folder.path().join("own"), rustix::process::geteuid().as_raw());
        make(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o077, 0);
        assert_eq!(checked(&path, me), Ok(()));
        assert!(checked(&path, me + 1).unwrap_err().contains("belongs to user"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(checked(&path, me).unwrap_err().contains("may write"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(checked(&link, me).unwrap_err().contains("no folder"));
    }
}
