//! Files that programs have open or mapped, as proc(5) tells of them: by their inodes alone, as nothing of a file is asked for that could
//! hang. Files of two devices with one number are both taken for open.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::maps::mapped_files;

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    inodes: HashSet<u64>,
    /// Those that other processes than this one map.
    mapped_elsewhere: HashSet<u64>,
    /// Some process of the user does not tell.
    is_partial: bool,
}

impl OpenFiles {
    /// By all processes; of the user's it matters whether they tell.
    pub(crate) fn of_user(uid: u32) -> io::Result<Self> {
        let mut found = Self::default();
        for name in fs::read_dir("/proc")?.flatten() {
            let Some(process) = name.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let told = found.add(process, &name.path());
            found.is_partial |= told.is_err_and(|error| !is_gone(&error) && is_of_user(&name.path(), uid));
        }
        Ok(found)
    }

    /// Whether a process of the user does not tell, which may have any file open.
    pub(crate) const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Whether a file may be open.
    pub(crate) fn has(&self, inode: u64) -> bool {
        self.inodes.contains(&inode)
    }

    /// All that may be.
    pub(crate) fn inodes(&self) -> impl Iterator<Item = u64> {
        self.inodes.iter().copied()
    }

    /// Whether another process maps a file.
    pub(crate) fn is_mapped_elsewhere(&self, inode: u64) -> bool {
        self.mapped_elsewhere.contains(&inode)
    }

    fn add(&mut self, process: u32, folder: &Path) -> io::Result<()> {
        for name in fs::read_dir(folder.join("fdinfo"))? {
            let about = match fs::read_to_string(name?.path()) {
                // It was closed meanwhile.
                Err(error) if is_gone(&error) => continue,
                about => about?,
            };
            let inode = about.lines().find_map(|line| line.strip_prefix("ino:"));
            let inode = inode.ok_or(ErrorKind::Unsupported)?;
            self.inodes.extend(inode.trim().parse::<u64>());
        }
        let mapped: Vec<u64> = mapped_files(process)?.iter().map(|file| file.inode).collect();
        self.inodes.extend(&mapped);
        if process != std::process::id() {
            self.mapped_elsewhere.extend(mapped);
        }
        Ok(())
    }
}

/// Whether that is of a process that has ended.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Whether a process is, was or may be a user's; one that does not even say so is.
fn is_of_user(folder: &Path, uid: u32) -> bool {
    let Ok(status) = fs::read_to_string(folder.join("status")) else { return folder.exists() };
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    users.split_ascii_whitespace().any(|user| user.parse() == Ok(uid))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::MetadataExt;

    use byway_sys::Mapping;
    use byway_sys::map::Sharing;

    use super::*;

    fn look() -> OpenFiles {
        OpenFiles::of_user(rustix::process::geteuid().as_raw()).unwrap()
    }

    #[test]
    fn a_file_is_told_of_for_as_long_as_it_is_open_or_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let inode = file.metadata().unwrap().ino();
        assert!(look().has(inode));
        let map = Mapping::file(&file, 0, 4096, Sharing::Shared).unwrap();
        drop(file);
        assert!(look().has(inode) && !look().is_mapped_elsewhere(inode));
        drop(map);
        assert!(!look().has(inode));
    }
}
