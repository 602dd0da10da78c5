//! Files that are open or mapped (proc(5)), by inode only: nothing that could hang is asked of a file. Two devices' files of one inode count as one.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::maps::mapped_files;

/// Inodes of open files.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    inodes: HashSet<u64>,
    /// Files mapped by processes other than this one.
    mapped_elsewhere: HashSet<u64>,
    /// A process of the user could not be read.
    is_partial: bool,
}

impl OpenFiles {
    /// Files of all processes. An unreadable process matters only if it may be the user's.
    pub(crate) fn of_user(uid: u32) -> io::Result<Self> {
        let mut found = Self::default();
        for name in fs::read_dir("/proc")?.flatten() {
            let Some(process) = name.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let reported = found.add(process, &name.path());
            found.is_partial |=
                reported.is_err_and(|error| !is_gone(&error) && is_of_user(&name.path(), uid));
        }
        Ok(found)
    }

    /// Whether a process of the user could not be read: it may have any file open.
    pub(crate) const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Whether a file may be open.
    pub(crate) fn has(&self, inode: u64) -> bool {
        self.inodes.contains(&inode)
    }

    /// All inodes.
    pub(crate) fn inodes(&self) -> impl Iterator<Item = u64> {
        self.inodes.iter().copied()
    }

    /// Whether another process maps the file.
    pub(crate) fn is_mapped_elsewhere(&self, inode: u64) -> bool {
        self.mapped_elsewhere.contains(&inode)
    }

    fn add(&mut self, process: u32, folder: &Path) -> io::Result<()> {
        for name in fs::read_dir(folder.join("fdinfo"))? {
            let about = match fs::read_to_string(name?.path()) {
                // Closed meanwhile.
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

/// Whether the error is a process that has ended.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Whether a process is or may be the user's; an unreadable one may be.
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
    fn open_files_lists_a_file_while_open_or_mapped() {
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
