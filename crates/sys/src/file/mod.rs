//! The file that holds a device: locked, preallocated where it is mapped, and full disks said as such.

mod change_detector;
mod open;
mod spare;
mod successor;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::fs::FallocateFlags;

use self::change_detector::ChangeDetector;
use self::spare::Spare;
use crate::access::Access;
use crate::copy::DataRanges;
use crate::events::FileEvents;
use crate::exclusive::ExclusiveMapping;
use crate::file_error::{ALLOCATING, FileError, PUNCHING, READING, SYNCING, WRITING, refusal};
use crate::inherited::NotInherited;
use crate::map::Sharing;
use crate::names::{NamePoint, is_at, remove_if_at, sync_name};
use crate::owner::OwnerProcess;
use crate::published::PublishedMapping;
use crate::view::ReadMapping;
use crate::write_fault::{WriteFault, WriteFaultByte};

pub use successor::Successor;

/// A file opened under a lock, so that it has one writer.
#[derive(Debug)]
pub struct ImageFile {
    owner: OwnerProcess,
    // Before the file, which it names.
    _not_inherited: NotInherited,
    file: File,
    path: PathBuf,
    read_only: bool,
    /// Opened without a lock, beside a writer.
    is_beside: bool,
    /// Where it ends, as far as this opener has made it; shorter, another program has cut it.
    len_bytes: AtomicU64,
    /// A mapping of it was touched where it had no bytes, or its detector words have changed.
    lost: Arc<AtomicBool>,
    detector: OnceLock<ChangeDetector>,
    spare: Spare,
    events: Option<Arc<dyn FileEvents>>,
    write_fault: WriteFaultByte,
}

impl ImageFile {
    /// Reports every operation from here on to `events`, if there are any.
    #[must_use]
    pub fn watched_by(mut self, events: Option<Arc<dyn FileEvents>>) -> Self {
        self.events = events.or_else(|| self.events.take());
        self
    }

    /// Whether an observer looks at reads: then avoid those that it would not see.
    #[must_use]
    pub fn has_watched_reads(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.sees_reads())
    }

    /// Path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself, for copies: reads of it bypass the observers.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Whether it was opened for reading alone.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether it was opened [beside a writer](Self::open_beside): what is in it changes at any time.
    #[must_use]
    #[inline]
    pub const fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// Whether its path still leads to it, and not to a file that took its place. A system call.
    #[must_use]
    pub fn has_its_name(&self) -> bool {
        is_at(&self.file, &self.path).unwrap_or(false)
    }

    /// Why it takes no writes, if it does not.
    #[must_use]
    #[inline]
    pub fn write_fault(&self) -> Option<WriteFault> {
        if self.lost.load(Relaxed) { Some(WriteFault::CutShort) } else { self.write_fault.get() }
    }

    /// Length in bytes, holes included.
    ///
    /// # Errors
    /// What the system says.
    pub fn len_bytes(&self) -> Result<u64, FileError> {
        self.file.metadata().map(|found| found.len()).map_err(|source| self.failed("measuring", source))
    }

    /// Who may open it: owner, mode and ACL.
    ///
    /// # Errors
    /// What the system says.
    pub fn access(&self) -> Result<Access, FileError> {
        Access::of(&self.file).map_err(|source| self.failed("reading the access rights of", source))
    }

    /// Bytes the file takes on its disk, holes not counted.
    ///
    /// # Errors
    /// What the system says.
    pub fn allocated_bytes(&self) -> Result<u64, FileError> {
        use std::os::unix::fs::MetadataExt;
        let found = self.file.metadata().map_err(|source| self.failed("measuring", source))?;
        Ok(found.blocks() * 512)
    }

    /// Bytes that its file system has left for who may not use what is kept for the superuser.
    ///
    /// # Errors
    /// What the system says.
    pub fn disk_free_bytes(&self) -> Result<u64, FileError> {
        let found = rustix::fs::fstatvfs(&self.file);
        let found = found.map_err(|error| self.failed("measuring the disk of", error.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Sets the length; new bytes are a hole that reads as zeroes.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_len(&self, len_bytes: u64) -> Result<(), FileError> {
        self.file.set_len(len_bytes).map_err(|source| self.failed("growing", source))?;
        self.len_bytes.store(len_bytes, Relaxed);
        Ok(())
    }

    /// Takes disk room for a range, so that later stores to it cannot find the disk full. Bytes there stay.
    ///
    /// # Errors
    /// [`FileError::DiskFull`] and what the system says.
    pub fn allocate(&self, at: u64, len_bytes: u64) -> Result<(), FileError> {
        self.check_stopped()?;
        let done = match self.allocate_once(at, len_bytes) {
            Err(full @ FileError::DiskFull { .. }) => match self.give_spare() {
                Ok(true) => self.allocate_once(at, len_bytes),
                Ok(false) => Err(full),
                Err(failed) => Err(failed),
            },
            done => done,
        };
        if done.is_ok() {
            self.write_fault.clear_full();
            self.fill_spare();
        }
        self.noting(ALLOCATING, done)
    }

    fn allocate_once(&self, at: u64, len_bytes: u64) -> Result<(), FileError> {
        self.check_len()?;
        self.notify(ALLOCATING, |events| events.before_allocate(at, len_bytes))?;
        self.fallocate(FallocateFlags::KEEP_SIZE, at, len_bytes, ALLOCATING)
    }

    /// Gives the disk room of a range back; it reads as zeroes afterwards.
    ///
    /// # Errors
    /// What the system says.
    pub fn punch(&self, at: u64, len_bytes: u64) -> Result<(), FileError> {
        self.check_stopped()?;
        self.check_len()?;
        self.notify(PUNCHING, |events| events.before_punch(at, len_bytes))?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.fallocate(flags, at, len_bytes, PUNCHING)
    }

    fn fallocate(
        &self,
        flags: FallocateFlags,
        at: u64,
        len_bytes: u64,
        doing: &'static str,
    ) -> Result<(), FileError> {
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, at, len_bytes))
            .map_err(|error| self.failed(doing, error.into()))
    }

    /// Reads a whole range.
    ///
    /// # Errors
    /// [`FileError::Short`] past the end, and what the system says.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), FileError> {
        self.notify(READING, |events| events.before_read(at, into.len() as u64))?;
        self.file.read_exact_at(into, at).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => match self.check_len() {
                Err(cut) => cut,
                Ok(()) => {
                    FileError::Short { path: self.path.clone(), end: at.saturating_add(into.len() as u64) }
                }
            },
            _ => self.failed(READING, source),
        })
    }

    /// Writes a whole range.
    ///
    /// # Errors
    /// [`FileError::DiskFull`] and what the system says.
    pub fn write_at(&self, at: u64, from: &[u8]) -> Result<(), FileError> {
        self.check_stopped()?;
        // Before it is written: a write behind the end of a file that was cut short would make it longer again.
        let allowed = self
            .check_len()
            .and_then(|()| self.notify(WRITING, |events| events.before_write(at, from.len() as u64)));
        let written = allowed
            .and_then(|()| self.file.write_all_at(from, at).map_err(|source| self.failed(WRITING, source)));
        if written.is_ok() {
            self.len_bytes.fetch_max(at.saturating_add(from.len() as u64), Relaxed);
        }
        self.noting(WRITING, written)
    }

    /// The parts of a range that hold data: what lies between them reads as zeroes and takes no room.
    ///
    /// # Errors
    /// What the system says.
    pub fn data_ranges(&self, at: u64, len_bytes: u64) -> Result<Vec<std::ops::Range<u64>>, FileError> {
        let end = at.saturating_add(len_bytes);
        let found = DataRanges::between(&self.file, at, end);
        let found = found.map(|range| range.map(|(at, len)| at..at + len));
        found.collect::<io::Result<_>>().map_err(|source| self.failed("looking for data in", source))
    }

    /// Maps a range: shared with the file, or private copies where it was opened read-only.
    ///
    /// # Errors
    /// What the system says.
    pub fn map(&self, at: u64, len_bytes: usize) -> Result<ExclusiveMapping, FileError> {
        let sharing = if self.read_only { Sharing::CopyOnWrite } else { Sharing::Shared };
        if let Some(events) = self.events.as_ref().filter(|_| !self.read_only) {
            events.mapped(at, len_bytes as u64);
        }
        ExclusiveMapping::image(&self.file, at, len_bytes, sharing, &self.lost)
            .map_err(|source| self.failed("mapping", source))
    }

    /// Maps a range of a file that was opened [beside a writer](Self::open_beside), shared and readable: its
    /// [readers](PublishedMapping::reader) see what the writer stores. There must be no stores.
    ///
    /// # Errors
    /// What the system says.
    pub fn map_live(&self, at: u64, len_bytes: usize) -> Result<PublishedMapping, FileError> {
        ExclusiveMapping::image(&self.file, at, len_bytes, Sharing::ReadOnly, &self.lost)
            .map(PublishedMapping::from)
            .map_err(|source| self.failed("mapping", source))
    }

    /// Maps a range for reading, holes and all; see [`ReadMapping`] for what the caller promises.
    ///
    /// # Errors
    /// What the system says.
    pub fn map_to_read(&self, at: u64, len_bytes: u64) -> Result<ReadMapping, FileError> {
        let lost = Some(Arc::clone(&self.lost));
        ReadMapping::file_or_lost(&self.file, at, len_bytes, lost)
            .map_err(|source| self.failed("mapping", source))
    }

    /// Waits until everything written and everything stored through shared mappings is on the disk. On Linux,
    /// `fdatasync` writes pages dirtied through mappings too.
    ///
    /// # Errors
    /// What the system says. After a failure the state on disk is unknown.
    pub fn sync(&self) -> Result<(), FileError> {
        self.check_stopped()?;
        let allowed = self.notify(SYNCING, |events| events.before_sync());
        #[expect(clippy::disallowed_methods, reason = "the caller names the sync")]
        let synced =
            allowed.and_then(|()| self.file.sync_data().map_err(|source| self.failed(SYNCING, source)));
        // What was stored in a part that was cut off meanwhile is not kept.
        self.noting(SYNCING, synced.and_then(|()| self.check_len()))?;
        if let Some(events) = &self.events {
            events.after_sync();
        }
        Ok(())
    }

    /// Removes the file's name, if it is still this file's: after making the image failed.
    pub fn remove_name(&self) {
        // What made this necessary is the better error.
        let _ = remove_if_at(&self.file, &self.path);
    }

    /// Waits until the file's name is on the disk: a file that was just made may be nameless after a loss of power.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync_name(&self) -> Result<(), FileError> {
        sync_name(&self.path, NamePoint::ImageName)
            .map_err(|source| self.failed("syncing the folder of", source))
    }

    /// Refuses a file that another program has truncated or overwritten, from then on.
    fn check_len(&self) -> Result<(), FileError> {
        let end = self.len_bytes.load(Relaxed);
        let found = rustix::fs::fstat(&self.file).map_err(|error| self.failed("measuring", error.into()))?;
        if found.st_size as u64 >= end && !self.is_lost() {
            return Ok(());
        }
        self.write_fault.note_truncation();
        Err(FileError::CutShort { path: self.path.clone(), end })
    }

    #[inline]
    fn check_stopped(&self) -> Result<(), FileError> {
        if !self.owner.is_current() {
            let process = self.owner.number();
            return Err(FileError::OtherProcess { path: self.path.clone(), process });
        }
        match self.write_fault() {
            Some(WriteFault::CutShort) => {
                let end = self.len_bytes.load(Relaxed);
                Err(FileError::CutShort { path: self.path.clone(), end })
            }
            Some(WriteFault::Failed { doing }) => Err(FileError::Stopped { path: self.path.clone(), doing }),
            _ => Ok(()),
        }
    }

    /// Keeps in mind how an operation failed.
    #[inline]
    fn noting(&self, doing: &'static str, done: Result<(), FileError>) -> Result<(), FileError> {
        if let Err(error) = &done {
            self.write_fault.note(doing, error);
        }
        done
    }

    #[inline]
    fn notify(
        &self,
        doing: &'static str,
        what: impl FnOnce(&dyn FileEvents) -> io::Result<()>,
    ) -> Result<(), FileError> {
        match &self.events {
            None => Ok(()),
            Some(events) => what(&**events).map_err(|source| self.failed(doing, source)),
        }
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> FileError {
        refusal(&self.path, doing, source)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_punched_range_reads_as_zeroes_and_takes_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let file = ImageFile::create(&dir.path().join("image")).unwrap();
        file.set_len(1 << 20).unwrap();
        file.allocate(0, 1 << 20).unwrap();
        assert!(file.allocated_bytes().unwrap() >= 1 << 20);
        file.write_at(4096, &[1; 4096]).unwrap();
        file.punch(0, 1 << 20).unwrap();
        let mut back = [9; 4096];
        file.read_at(4096, &mut back).unwrap();
        assert_eq!(back, [0; 4096]);
        assert!(file.allocated_bytes().unwrap() < 1 << 20);
    }

    #[derive(Debug, Default)]
    struct FullDisk {
        seen: std::sync::Mutex<Vec<&'static str>>,
    }

    impl FullDisk {
        fn note(&self, what: &'static str) {
            self.seen.lock().unwrap().push(what);
        }
    }

    impl FileEvents for FullDisk {
        fn before_read(&self, _: u64, _: u64) -> io::Result<()> {
            self.note("read");
            Ok(())
        }

        fn before_write(&self, _: u64, _: u64) -> io::Result<()> {
            self.note("write");
            Err(Errno::NOSPC.into())
        }

        fn before_sync(&self) -> io::Result<()> {
            self.note("sync");
            Ok(())
        }

        fn after_sync(&self) {
            self.note("synced");
        }
    }

    #[test]
    fn an_observer_sees_operations_and_makes_them_fail() {
        let dir = tempfile::tempdir().unwrap();
        let events = Arc::new(FullDisk::default());
        let file = ImageFile::create(&dir.path().join("image")).unwrap().watched_by(Some(events.clone()));
        assert!(matches!(file.write_at(0, &[1; 10]), Err(FileError::DiskFull { .. })));
        assert!(matches!(file.read_at(0, &mut [0; 10]), Err(FileError::Short { .. })), "nothing was written");
        file.sync().unwrap();
        assert_eq!(*events.seen.lock().unwrap(), ["write", "read", "sync", "synced"]);
    }

    /// A file system whose answer to writes and to requests for room is set from outside.
    #[derive(Debug, Default)]
    struct Moody(std::sync::Mutex<Option<Errno>>);

    impl Moody {
        fn answer(&self) -> io::Result<()> {
            self.0.lock().unwrap().map_or(Ok(()), |errno| Err(errno.into()))
        }
    }

    impl FileEvents for Moody {
        fn before_write(&self, _: u64, _: u64) -> io::Result<()> {
            self.answer()
        }

        fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
            self.answer()
        }
    }

    /// A disk that is full and gives no room back.
    #[derive(Debug)]
    struct Stuck(AtomicBool);

    impl FileEvents for Stuck {
        fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
            if self.0.load(Relaxed) { Err(Errno::NOSPC.into()) } else { Ok(()) }
        }

        fn before_punch(&self, _: u64, _: u64) -> io::Result<()> {
            Err(Errno::IO.into())
        }
    }

    #[test]
    fn reserve_that_cannot_be_freed_is_kept_and_stops_writes() {
        let dir = tempfile::tempdir().unwrap();
        let events = Arc::new(Stuck(AtomicBool::new(false)));
        let file = ImageFile::create(&dir.path().join("image")).unwrap().watched_by(Some(events.clone()));
        file.keep_spare(1 << 20);
        assert!(file.has_spare());
        file.spend_spare(true);
        events.0.store(true, Relaxed);
        assert!(matches!(file.allocate(0, 4096), Err(FileError::Io { .. })));
        assert!(file.has_spare(), "it was not freed");
        assert!(matches!(file.write_fault(), Some(WriteFault::Failed { .. })), "{:?}", file.write_fault());
    }

    #[test]
    fn a_full_disk_is_tried_again_and_a_failing_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let events = Arc::new(Moody::default());
        let file = ImageFile::create(&dir.path().join("image")).unwrap().watched_by(Some(events.clone()));
        *events.0.lock().unwrap() = Some(Errno::NOSPC);
        assert!(matches!(file.allocate(0, 4096), Err(FileError::DiskFull { .. })));
        assert_eq!(file.write_fault(), Some(WriteFault::DiskFull));
        *events.0.lock().unwrap() = None;
        file.allocate(0, 4096).unwrap();
        assert_eq!(file.write_fault(), None);
        *events.0.lock().unwrap() = Some(Errno::IO);
        assert!(matches!(file.write_at(0, &[1]), Err(FileError::Io { .. })));
        *events.0.lock().unwrap() = None;
        assert_eq!(file.write_fault(), Some(WriteFault::Failed { doing: "writing" }));
        for refused in [file.write_at(0, &[1]), file.allocate(0, 1), file.sync(), file.punch(0, 1)] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("takes no writes since writing it failed"), "{said}");
        }
        file.read_at(0, &mut []).unwrap();
    }

    #[test]
    fn a_read_past_the_end_says_where_the_file_ends() {
        let dir = tempfile::tempdir().unwrap();
        let file = ImageFile::create(&dir.path().join("image")).unwrap();
        let error = file.read_at(10, &mut [0; 10]).unwrap_err();
        assert!(error.to_string().ends_with("ends before byte 20"), "{error}");
    }
}
