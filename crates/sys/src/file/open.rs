//! How a file is opened: under a lock, so that it has one writer.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::ImageFile;
use super::spare::Spare;
use crate::events::{FileEvents, of_file};
use crate::file_error::{FileError, refusal};
use crate::inherited::NotInherited;
use crate::names::{folder_of, is_at, remove_if_at};
use crate::owner::OwnerProcess;
use crate::write_fault::WriteFaultByte;

/// How long a lock is tried for before the file counts as in use.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

impl ImageFile {
    /// Makes a new file and locks it. An existing file is left alone.
    ///
    /// # Errors
    /// [`FileError::Exists`], [`FileError::Denied`], [`FileError::Missing`] of the folder, and what the system says.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(|source| {
                match refusal(path, "creating", source) {
                    // Of a file that is to be made, it is the folder that is missing.
                    FileError::Missing { path } => {
                        FileError::Missing { path: folder_of(&path).to_path_buf() }
                    }
                    refused => refused.denied("made"),
                }
            })?;
        match lock(&file, FlockOperation::NonBlockingLockExclusive, path, Instant::now()) {
            Ok(()) => Ok(Self::of(file, path, false, of_file(path))),
            Err(refused) => {
                // The file is ours and new.
                let _ = remove_if_at(&file, path);
                Err(refused)
            }
        }
    }

    /// Opens an existing file for reading and writing, alone. A file without write permission for any user is
    /// refused, even to the superuser.
    ///
    /// # Errors
    /// [`FileError::Missing`], [`FileError::ReadOnly`], [`FileError::Denied`] where it may not even be read,
    /// [`FileError::InUse`] and what the system says.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::open_locked(path, false, || {
            let file =
                OpenOptions::new().read(true).write(true).open(path).map_err(|source| {
                    match refusal(path, "opening", source) {
                        refused if File::open(path).is_err() => refused.denied("read and written"),
                        refused => refused,
                    }
                })?;
            let found = file.metadata().map_err(|source| refusal(path, "opening", source))?;
            if found.permissions().readonly() {
                return Err(FileError::ReadOnly { path: path.to_path_buf() });
            }
            Ok(file)
        })
    }

    /// Opens an existing file for reading. Other readers may have it open too; a writer may not.
    ///
    /// # Errors
    /// [`FileError::Missing`], [`FileError::Denied`], [`FileError::InUse`] and what the system says.
    pub fn open_read_only(path: &Path) -> Result<Self, FileError> {
        Self::open_locked(path, true, || {
            File::open(path).map_err(|source| refusal(path, "opening", source).denied("read"))
        })
    }

    /// Opens an existing file for reading without a lock, beside a process that may have it open for writing. Its mappings and
    /// what is read from it change at any time.
    ///
    /// # Errors
    /// [`FileError::Missing`], [`FileError::Denied`] and what the system says.
    pub fn open_beside(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(|source| refusal(path, "opening", source).denied("read"))?;
        let mut beside = Self::of(file, path, true, of_file(path));
        beside.is_beside = true;
        Ok(beside)
    }

    /// Opens a file and locks it. The file may be replaced while its lock is waited for, by a resize: then the lock is of a file
    /// that has lost its name, and the one that has the name now is opened.
    ///
    /// `flock` belongs to the open file, so it also keeps out a second opener in this process, and it is gone with
    /// the process however that ends.
    fn open_locked(
        path: &Path,
        read_only: bool,
        open: impl Fn() -> Result<File, FileError>,
    ) -> Result<Self, FileError> {
        let how = match read_only {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        let begun = Instant::now();
        loop {
            let file = open()?;
            lock(&file, how, path, begun)?;
            if is_at(&file, path).map_err(|source| refusal(path, "opening", source))? {
                return Ok(Self::of(file, path, read_only, of_file(path)));
            }
            if begun.elapsed() >= LOCK_TIMEOUT {
                return Err(FileError::InUse { path: path.to_path_buf() });
            }
        }
    }

    /// A new file without data, locked, that is at `path` in messages.
    pub(super) fn new_locked(
        file: File,
        path: &Path,
        events: Option<Arc<dyn FileEvents>>,
    ) -> Result<Self, FileError> {
        lock(&file, FlockOperation::NonBlockingLockExclusive, path, Instant::now())?;
        Ok(Self::of(file, path, false, events))
    }

    fn of(file: File, path: &Path, read_only: bool, events: Option<Arc<dyn FileEvents>>) -> Self {
        Self {
            owner: OwnerProcess::current(),
            _not_inherited: NotInherited::fd(file.as_fd()),
            len_bytes: AtomicU64::new(file.metadata().map_or(0, |found| found.len())),
            lost: Arc::default(),
            detector: OnceLock::new(),
            spare: Spare::default(),
            file,
            path: path.to_path_buf(),
            read_only,
            is_beside: false,
            events,
            write_fault: WriteFaultByte::default(),
        }
    }
}

impl Drop for ImageFile {
    /// Closing would do, if no process were just being started from this one: until it runs its own program it has every file
    /// of ours open, and with it its lock, which may take long on a busy machine.
    /// A forked child leaves the lock alone: it belongs to the open file, so unlocking it here would unlock the parent's.
    fn drop(&mut self) {
        if !self.owner.is_current() || self.is_beside {
            return;
        }
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Locks a file, if need be after a moment: a process that is just being started from one that ended meanwhile holds its locks
/// until it runs its own program. The moment began at `begun`.
fn lock(file: &File, how: FlockOperation, path: &Path, begun: Instant) -> Result<(), FileError> {
    loop {
        match rustix::fs::flock(file, how) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::WOULDBLOCK) => return Err(FileError::InUse { path: path.to_path_buf() }),
            Err(error) => return Err(refusal(path, "locking", error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_second_opener_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let first = ImageFile::create(&path).unwrap();
        assert!(matches!(ImageFile::open(&path), Err(FileError::InUse { .. })));
        assert!(matches!(ImageFile::open_read_only(&path), Err(FileError::InUse { .. })));
        drop(first);
        ImageFile::open(&path).unwrap();
    }

    #[test]
    fn reader_beside_a_writer_takes_no_lock_and_sees_its_stores() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let writer = ImageFile::create(&path).unwrap();
        writer.set_len(8192).unwrap();
        let beside = ImageFile::open_beside(&path).unwrap();
        let live = beside.map_live(0, 8192).unwrap().reader();
        let mut map = writer.map(0, 8192).unwrap();
        map.store_u64(4096, 7).unwrap();
        assert_eq!(live.load_u64(4096).unwrap(), 7);
        assert!(beside.is_read_only() && matches!(ImageFile::open(&path), Err(FileError::InUse { .. })));
        drop((map, writer));
        ImageFile::open(&path).unwrap();
    }

    #[test]
    fn readers_share() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        drop(ImageFile::create(&path).unwrap());
        let _one = ImageFile::open_read_only(&path).unwrap();
        let _two = ImageFile::open_read_only(&path).unwrap();
        assert!(matches!(ImageFile::open(&path), Err(FileError::InUse { .. })));
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(ImageFile::create(&path), Err(FileError::Exists { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn the_lock_of_a_file_that_is_closed_is_given_up_though_a_process_being_started_still_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let held = ImageFile::create(&path).unwrap();
        let _of_the_process = held.file.try_clone().unwrap();
        let other = File::open(&path).unwrap();
        let lock = || rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(lock(), Err(Errno::WOULDBLOCK));
        drop(held);
        assert_eq!(lock(), Ok(()));
    }

    #[test]
    #[cfg(not(miri))]
    fn image_dropped_by_a_forked_child_stays_locked_for_its_parent() {
        use crate::inherited::tests::exit_of_child;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let held = ImageFile::create(&path).unwrap();
        let child = || {
            let refused = matches!(held.write_at(0, b"child"), Err(FileError::OtherProcess { .. }));
            // SAFETY: the child's copy, read once more and dropped here; the child ends without dropping it again.
            drop(unsafe { std::ptr::read(&raw const held) });
            refused.into()
        };
        assert_eq!(exit_of_child(child), 1);
        assert!(matches!(ImageFile::open(&path), Err(FileError::InUse { .. })));
        held.write_at(0, b"parent").unwrap();
    }

    #[test]
    #[cfg(not(miri))]
    fn image_of_a_dead_process_is_free_though_its_forked_child_lives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let (mut ends, end) = std::io::pipe().unwrap();
        // SAFETY: the child opens an image, forks and ends; its own child waits until the pipe is closed, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let held = ImageFile::create(&path).unwrap();
            held.set_len(8192).unwrap();
            let _mapped = held.map(0, 8192).unwrap();
            let _viewed = held.map_to_read(0, 8192).unwrap();
            // SAFETY: as above.
            if unsafe { libc::fork() } == 0 {
                drop(end);
                let _ = std::io::Read::read(&mut ends, &mut [0]);
            }
            // SAFETY: ends the child and the child's child.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for that child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        ImageFile::open(&path).unwrap();
        drop(end);
    }

    #[test]
    fn a_lock_that_a_process_being_started_holds_for_a_moment_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        drop(ImageFile::create(&path).unwrap());
        // Again where a busy machine has made more than a moment of it.
        let is_waited_for = || {
            let (held, begun) = (ImageFile::open(&path).unwrap(), Instant::now());
            let holder = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                drop(held);
                begun.elapsed()
            });
            let is_open = ImageFile::open(&path).is_ok();
            assert!(holder.join().unwrap() >= LOCK_TIMEOUT || is_open);
            is_open
        };
        assert!((0..100).any(|_| is_waited_for()));
    }
    fn same(one: &File, other: &File) -> bool {
        use std::os::unix::fs::MetadataExt;
        one.metadata().unwrap().ino() == other.metadata().unwrap().ino()
    }

    /// Replaces a file while `open` waits for its lock: what `open` gets, and a handle of the file that has the name then.
    fn replaced_meanwhile(open: fn(&Path) -> Result<ImageFile, FileError>) -> (ImageFile, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        // Again where a busy machine has made more than a moment of it.
        for _ in 0..100 {
            std::fs::write(&path, "old").unwrap();
            let held = File::options().read(true).write(true).open(&path).unwrap();
            rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
            let waits = {
                let path = path.clone();
                std::thread::spawn(move || open(&path))
            };
            // The opener waits, or has not begun: the lock is released only after the file is replaced.
            std::thread::sleep(Duration::from_millis(5));
            let next = dir.path().join("next");
            std::fs::write(&next, "new").unwrap();
            let new = File::open(&next).unwrap();
            std::fs::rename(&next, &path).unwrap();
            drop(held);
            match waits.join().unwrap() {
                Ok(opened) => return (opened, new),
                Err(FileError::InUse { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("never opened");
    }

    #[test]
    fn an_opener_that_waited_for_a_replaced_file_gets_the_new_one() {
        for open in [ImageFile::open, ImageFile::open_read_only] {
            let (opened, new) = replaced_meanwhile(open);
            assert!(same(opened.file(), &new));
            let lock = rustix::fs::flock(&new, FlockOperation::NonBlockingLockExclusive);
            assert_eq!(lock, Err(Errno::WOULDBLOCK), "the lock is of the new one");
        }
    }

    #[test]
    fn an_opener_that_waited_for_a_removed_file_reports_that_it_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let held = ImageFile::create(&path).unwrap();
        let opener = {
            let path = path.clone();
            std::thread::spawn(move || ImageFile::open(&path))
        };
        std::fs::remove_file(&path).unwrap();
        drop(held);
        let refused = opener.join().unwrap().unwrap_err();
        assert!(matches!(refused, FileError::Missing { .. } | FileError::InUse { .. }), "{refused}");
    }
}
