//! Files that get their name once they are complete.
//!
//! Such a file is made without a name (open(2), `O_TMPFILE`): a process that is killed leaves nothing of it. File systems
//! that know no such files (NFS, FAT, some of FUSE) get one with a temporary name that no file has; what a kill leaves
//! of that stays, since nothing proves which program made it.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::names::{Folder, folder_of, is_at};
use crate::owner::OwnerProcess;

/// Temporary names that are tried before the folder counts as one that takes no new file.
const NAMES_TRIED: u32 = 16;

/// A new file that only its owner may open, on its way to a name.
#[derive(Debug)]
pub struct UnnamedFile {
    owner: OwnerProcess,
    file: File,
    /// The folder in which it gets its names.
    folder: Folder,
    /// The name that it will get.
    to: PathBuf,
    /// The name that it has meanwhile, where it needs one.
    temporary: Option<PathBuf>,
}

impl UnnamedFile {
    /// Makes an empty file that may get the name `to`, with mode 0600.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(to: &Path) -> io::Result<Self> {
        let folder = Folder::of(to)?;
        match folder.make_unnamed() {
            Ok(file) => {
                let made = Self::made(file, folder, to, None);
                // It gets its name by way of /proc.
                if is_at(&made.file, &made.path())? { Ok(made) } else { Self::with_temporary_name(to) }
            }
            // The last two are of kernels and file systems that take the flag for another one.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                Self::with_temporary_name(to)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn with_temporary_name(to: &Path) -> io::Result<Self> {
        let folder = Folder::of(to)?;
        let (file, temporary) = first_free(to, |name| folder.make(name))?;
        Ok(Self::made(file, folder, to, Some(temporary)))
    }

    fn made(file: File, folder: Folder, to: &Path, temporary: Option<PathBuf>) -> Self {
        Self { owner: OwnerProcess::current(), file, folder, to: to.into(), temporary }
    }

    /// Refuses a forked child: the file's names are its parent's to give and to remove.
    fn check_owner(&self) -> io::Result<()> {
        if self.owner.is_current() {
            return Ok(());
        }
        let said = OwnerProcess::refusal(self.to.display(), self.owner.number());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, said))
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// A path by which this process can open the file as long as this value is there.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let by_descriptor = || format!("/proc/self/fd/{}", self.file.as_raw_fd()).into();
        self.temporary.clone().unwrap_or_else(by_descriptor)
    }

    /// Gives it its name, which nothing may have.
    ///
    /// # Errors
    /// `AlreadyExists` where anything has that name, a dangling symbolic link included; `PermissionDenied` in a forked child;
    /// the system's answer.
    pub fn link(mut self) -> io::Result<()> {
        self.check_owner()?;
        self.folder.link(&self.path(), &self.to)?;
        self.remove_temporary_name();
        Ok(())
    }

    /// Whether `file` has, in the folder in which this one gets its names, the name that it will get.
    ///
    /// # Errors
    /// The system's answer.
    pub fn would_replace(&self, file: &File) -> io::Result<bool> {
        self.folder.has(file, &self.to)
    }

    /// Gives it its name in one step, in place of the file that has it. It stays under a temporary name where the process is
    /// killed just before: it is complete then.
    ///
    /// # Errors
    /// `PermissionDenied` in a forked child; the system's answer.
    pub fn replace(&mut self) -> io::Result<()> {
        self.check_owner()?;
        if self.temporary.is_none() {
            let from = self.path();
            let ((), temporary) = first_free(&self.to, |name| self.folder.link(&from, name))?;
            self.temporary = Some(temporary);
        }
        self.folder.rename(&self.path(), &self.to)?;
        self.temporary = None;
        Ok(())
    }

    fn remove_temporary_name(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Nothing but the name is in the way, and what made this necessary is the better error.
            let _ = self.folder.remove_if_of(&self.file, &temporary);
        }
    }
}

impl Drop for UnnamedFile {
    /// A forked child leaves the name to its parent.
    fn drop(&mut self) {
        if self.owner.is_current() {
            self.remove_temporary_name();
        }
    }
}

/// Has `make` make something at the first temporary name beside `to` that nothing has.
fn first_free<R>(to: &Path, make: impl Fn(&Path) -> io::Result<R>) -> io::Result<(R, PathBuf)> {
    let mut tried = 0;
    loop {
        let name = temporary_name(to);
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED => tried += 1,
            made => return made.map(|made| (made, name)),
        }
    }
}

/// A name that no file has, as far as chance goes: `.disk.img.` and 16 hexadecimal digits, beside `disk.img`.
fn temporary_name(to: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    // Each state of this kind has random keys.
    name.push(format!(".{:016x}", RandomState::new().hash_one(to)));
    folder_of(to).join(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{ErrorKind, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    type Make = fn(&Path) -> io::Result<UnnamedFile>;

    /// Both ways: as this file system has it, and as one does that knows no files without a name.
    const WAYS: [Make; 2] = [UnnamedFile::new, UnnamedFile::with_temporary_name];

    fn names(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_new_file_gets_its_name_and_leaves_no_other() {
        for make in WAYS {
            let dir = tempfile::tempdir().unwrap();
            let to = dir.path().join("file");
            let made = make(&to).unwrap();
            made.file().write_all(b"content").unwrap();
            assert_eq!(std::fs::read(made.path()).unwrap(), b"content");
            made.link().unwrap();
            assert_eq!(std::fs::read(&to).unwrap(), b"content");
            assert_eq!(to.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
            assert_eq!(names(dir.path()), 1);
        }
    }

    #[test]
    fn a_file_or_a_link_of_that_name_is_neither_overwritten_nor_followed() {
        for make in WAYS {
            let dir = tempfile::tempdir().unwrap();
            let (file, dangling) = (dir.path().join("file"), dir.path().join("link"));
            std::fs::write(&file, "mine").unwrap();
            symlink(dir.path().join("elsewhere"), &dangling).unwrap();
            for taken in [&file, &dangling] {
                assert_eq!(make(taken).unwrap().link().unwrap_err().kind(), ErrorKind::AlreadyExists);
            }
            assert_eq!(std::fs::read(&file).unwrap(), b"mine");
            assert_eq!(names(dir.path()), 2);
        }
    }

    #[test]
    fn a_file_is_replaced_in_one_step_and_nothing_is_left_beside_it() {
        for make in WAYS {
            let dir = tempfile::tempdir().unwrap();
            let to = dir.path().join("file");
            std::fs::write(&to, "old").unwrap();
            let mut made = make(&to).unwrap();
            made.file().write_all(b"new").unwrap();
            made.replace().unwrap();
            drop(made);
            assert_eq!(std::fs::read(&to).unwrap(), b"new");
            assert_eq!(names(dir.path()), 1);
        }
    }

    #[test]
    fn a_file_that_gets_no_name_is_gone() {
        for make in WAYS {
            let dir = tempfile::tempdir().unwrap();
            drop(make(&dir.path().join("file")).unwrap());
            assert_eq!(names(dir.path()), 0);
        }
    }

    #[cfg(not(miri))]
    #[test]
    fn unnamed_file_in_a_forked_child_is_neither_named_nor_removed() {
        for make in WAYS {
            let dir = tempfile::tempdir().unwrap();
            let to = dir.path().join("file");
            let mut made = make(&to).unwrap();
            let before = names(dir.path());
            let refused = crate::inherited::tests::exit_of_child(|| {
                let said = made.replace().unwrap_err();
                // SAFETY: read once more, as the child's copy of what the parent links itself.
                let copy = unsafe { std::ptr::read(&raw const made) };
                let kinds = [said.kind(), copy.link().unwrap_err().kind()];
                i32::from(kinds == [ErrorKind::PermissionDenied; 2])
            });
            assert_eq!((refused, names(dir.path()), to.exists()), (1, before, false));
            made.link().unwrap();
            assert_eq!(names(dir.path()), 1);
        }
    }

    #[test]
    fn a_file_that_took_the_temporary_name_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let made = UnnamedFile::with_temporary_name(&dir.path().join("file")).unwrap();
        let name = made.path();
        std::fs::remove_file(&name).unwrap();
        std::fs::write(&name, "another's").unwrap();
        drop(made);
        assert_eq!(std::fs::read(&name).unwrap(), b"another's");
    }
}
